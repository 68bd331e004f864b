"""Fits of fixed votes whose numbers are in ``recorded.json``; ``python -m tests.golden.recorded`` writes it.

Laws and oracles check that a fit is right. These tests check that it is the same as before, to seven digits.
They detect a changed constant, a screen that lets one more pair through, or a prior that is counted twice. If
you change a method on purpose, write the file again and review the changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs

FILE = Path(__file__).with_suffix(".json")
Array = NDArray[Any]
SHOWN = 12  # items whose labels are kept


def draw(seed: int, n: int, tables: Array, balance: Array, coverage: Array) -> tuple[Array, Array]:
    """Truths and votes by P(vote | truth), ``tables`` of shape (m, K, K)."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n)[:, None] > np.cumsum(balance)[:-1]).sum(axis=1)
    edges = np.cumsum(tables, axis=2)[:, :, :-1]
    votes = np.stack([(rng.random(n)[:, None] > edges[i][y]).sum(axis=1) for i in range(len(tables))], axis=1)
    return y, np.where(rng.random(votes.shape) < coverage, votes, -1)


def binary() -> tuple[Array, Array]:
    """Seven sources that err differently on both classes, a third of the items of class 1."""
    hit = np.array([[0.9, 0.7], [0.65, 0.85], [0.8, 0.75], [0.7, 0.72], [0.6, 0.8], [0.75, 0.6], [0.85, 0.8]])
    tables = np.stack([np.stack([hit[:, 0], 1 - hit[:, 0]], 1), np.stack([1 - hit[:, 1], hit[:, 1]], 1)], 1)
    return draw(1, 900, tables, np.array([0.65, 0.35]), np.array([1.0, 0.9, 0.6, 0.8, 0.7, 0.5, 0.95]))


def four() -> tuple[Array, Array]:
    """Nine sources on four classes; two confuse the last two classes."""
    right = np.array([0.8, 0.75, 0.7, 0.65, 0.6, 0.7, 0.55, 0.75, 0.6])
    tables = np.stack([np.full((4, 4), (1 - r) / 3) + np.eye(4) * (r - (1 - r) / 3) for r in right])
    tables[:2, 2:, 2:] += np.array([[-0.15, 0.15], [0.15, -0.15]])
    return draw(2, 900, tables, np.array([0.4, 0.3, 0.2, 0.1]), np.linspace(1.0, 0.5, 9))


def three() -> tuple[Array, Array]:
    """Nine sources that know three classes well, and mistake each for the next rather than for the last."""
    right = np.array([0.9, 0.85, 0.8, 0.8, 0.75, 0.85, 0.8, 0.9, 0.75])
    tables = np.stack(
        [r * np.eye(3) + (1 - r) * (0.7 * np.eye(3)[[1, 2, 0]] + 0.3 * np.eye(3)[[2, 0, 1]]) for r in right]
    )
    return draw(3, 1500, tables, np.array([0.5, 0.3, 0.2]), np.linspace(1.0, 0.7, 9))


def rules() -> tuple[Array, Array]:
    """Five sources that vote for one class only, three that use both, and a near-copy of the last."""
    y, votes = binary()
    votes = np.column_stack([votes, votes[:, 6]])
    for source, only in ((0, 1), (1, 0), (2, 1), (3, 1), (4, 0)):
        votes[votes[:, source] != only, source] = -1
    votes[::40, 7] = -1
    return y, votes


def copying() -> tuple[Array, Array]:
    """Eight sources; 1 often repeats 0, and 5 repeats 4, both a vote or its absence."""
    y, votes = binary()
    votes = np.column_stack([votes, votes[:, 2]])
    rng = np.random.default_rng(5)
    for source, repeated, share in ((1, 0, 0.5), (5, 4, 0.6), (7, 3, 0.3)):
        votes[:, source] = np.where(rng.random(len(votes)) < share, votes[:, repeated], votes[:, source])
    return y, votes


def with_one_alone() -> Array:
    """The same, and a ninth source on items that nobody else votes on."""
    votes = copying()[1]
    lone = np.full((60, 9), -1)
    lone[:, 8] = np.arange(60) % 3 > 0
    return np.vstack([np.column_stack([votes, np.full(len(votes), -1)]), lone])


def frames() -> Array:
    """Three frames of four sources: a truth stays as it was four times in five."""
    rng = np.random.default_rng(6)
    y = [rng.random(700) < 0.4]
    for _ in range(2):
        y.append(np.where(rng.random(700) < 0.8, y[-1], rng.random(700) < 0.4))
    truths = np.stack(y, axis=1).astype(int)[:, :, None]
    right = rng.random((700, 3, 4)) < [0.85, 0.75, 0.8, 0.7]
    votes = np.where(right, truths, 1 - truths)
    return np.where(rng.random(votes.shape) < 0.85, votes, -1)


def facts(model: Any, votes: Any, *, intervals: bool = True) -> dict[str, Array]:
    """Return the recorded numbers of a fit."""
    found = {
        "accuracies": model.accuracies_,
        "balance": model.class_balance_,
        "confusion": np.asarray(model.confusion_)[: max(1, 12 // len(model.classes_))],
        "labels": model.predict_proba(votes)[:SHOWN],
        "likelihood": model.log_likelihood(votes)[:SHOWN],
    }
    return found | ({"interval": model.accuracies_interval_} if intervals else {})


def fitted(sample: Callable[[], tuple[Array, Array]], *, known: int = 0, **options: Any) -> dict[str, Array]:
    y, votes = sample()
    gold = None if not known else np.where(np.arange(len(y)) < known, y, -1)
    return facts(fs.LabelModel(**options).fit(votes, gold=gold), votes)


def on_graph(votes: Array, graph: fs.DependencyGraph, **options: Any) -> dict[str, Array]:
    model = fs.LabelModel(graph, **options).fit(votes)
    found = facts(model, votes, intervals=model.graph_.n_tasks == 1)
    return found | {"tasks": model.task_tables_, "excess": model.excess_correlation_}


def learned(sample: Callable[[], tuple[Array, Array]]) -> dict[str, Array]:
    graph = fs.learn_structure(sample()[1])
    edges = sorted(graph.scores)
    return {
        "edges": np.array(edges), "scores": np.array([graph.scores[edge] for edge in edges]),
    }  # fmt: skip


def crowd() -> tuple[Array, Array]:
    """Sixty workers of different accuracy on twelve classes, three votes per item."""
    right = np.linspace(0.4, 0.95, 60)
    tables = np.stack([np.full((12, 12), (1 - r) / 11) + np.eye(12) * (r - (1 - r) / 11) for r in right])
    return draw(4, 1200, tables, np.linspace(1.5, 0.5, 12) / 12, np.full(60, 0.05))


def sure() -> tuple[Array, Array]:
    """The first source is never wrong."""
    y, votes = binary()
    return y, np.column_stack([y, votes[:, 1:]])


def three_and_a_sure_one() -> tuple[Array, Array]:
    y, votes = three()
    return y, np.column_stack([y, votes[:, 1:]])


def four_with_a_copy() -> tuple[Array, Array]:
    y, votes = four()
    return y, np.where((np.arange(9) == 4) & (np.arange(len(votes)) % 5 < 3)[:, None], votes[:, [3]], votes)


def one_sided(votes: Array, *sources: int) -> Array:
    """Votes in which some sources vote for class 1 only."""
    return np.where(np.isin(np.arange(votes.shape[-1]), sources) & (votes == 0), -1, votes)


def film() -> Array:
    """Six sources on 2,100 rows whose truth stays as it was nine times in ten."""
    rng = np.random.default_rng(7)
    draws, stays = rng.random(2100) < 0.35, rng.random(2100) < 0.9
    stays[0] = False
    truths = draws[np.maximum.accumulate(np.where(stays, 0, np.arange(2100)))].astype(int)
    right = rng.random((2100, 6)) < [0.85, 0.75, 0.8, 0.7, 0.8, 0.75]
    votes = np.where(right, truths[:, None], 1 - truths[:, None])
    return np.where(rng.random(votes.shape) < 0.85, votes, -1)


def sequences(extra: int = 0, **options: Any) -> dict[str, Array]:
    votes = film()
    if extra > 0:
        votes = one_sided(votes, *range(6 - extra, 6))
    if extra < 0:  # a seventh source, on rows that nobody else votes on
        lone = np.arange(len(votes)) % 3 == 0
        last = np.where(lone, (votes[:, 0] == 1).astype(int), -1)
        votes = np.column_stack([np.where(lone[:, None], -1, votes), last])
    model = fs.SequenceLabelModel(**options).fit(votes, [500, 600, 1000])
    lengths = [1000, 1100]
    return {
        "accuracies": model.accuracies_,
        "interval": model.accuracies_interval_,
        "labels": model.predict_proba(votes, lengths)[:SHOWN],
        "likelihood": model.log_likelihood(votes, lengths),
        "path": model.predict(votes, lengths)[:60],
        "error": np.array([model.diagnostics_.correlation, model.diagnostics_.correlation_error]),
    }


PAIRS = fs.DependencyGraph(8, source_edges=[(0, 1), (4, 5)])
NINE = fs.DependencyGraph(9, source_edges=[(0, 1), (4, 5)])
TRIPLE = fs.DependencyGraph(8, source_edges=[(0, 1), (3, 7), (1, 3)])
FRAMES_OF_THREE = fs.DependencyGraph.chain(2, 4)
CHAIN = fs.DependencyGraph.chain(3, 4)
TRIPLETS = [(0, 1, 2), (3, 4, 6), (5, 6, 0)]
BALANCE = [0.65, 0.35]
Case = Callable[[], dict[str, Array]]


# Recorded under the names that methods had when the numbers were first written.
SOLVERS: dict[str, Any] = {
    "triplet_mean": "triplet",
    "triplet_median": fs.solvers.Triplet("median"),
    "triplet": fs.solvers.Triplet("best"),
    "refined": "em",
    "consensus": "weighted",
}


def by_method(name: str, sample: Callable[[], tuple[Array, Array]], *methods: str) -> dict[str, Case]:
    return {
        f"{name}, {method}": partial(fitted, sample, method=SOLVERS.get(method, method)) for method in methods
    }


def by_method_on(
    graph: fs.DependencyGraph, name: str, sample: Callable[[], Array], *methods: str
) -> dict[str, Case]:
    def of(method: str) -> Case:
        return lambda: on_graph(sample(), graph, method=SOLVERS.get(method, method))

    return {f"{name}, {method}": of(method) for method in methods}


CASES: dict[str, Case] = {
    **by_method("binary", binary, "auto", "triplet_mean", "triplet_median", "triplet", "covariance"),
    **by_method("binary", binary, "quadratic", "consensus"),
    "binary, independencies": partial(fitted, binary, method="marginal", class_balance=BALANCE),
    "binary, given triplets": partial(fitted, binary, method=fs.solvers.Triplet("best", TRIPLETS)),
    "binary, estimated balance": partial(fitted, binary, method="triplet", class_balance="estimate"),
    "binary, gold labels": partial(fitted, binary, known=60, method="covariance"),
    "binary, triplets with gold labels": partial(fitted, binary, known=60, method="triplet"),
    "binary, gold labels choose the method": partial(fitted, binary, known=60),
    **by_method("rules", rules, "auto", "consensus"),
    "rules, gold labels choose the method": partial(fitted, rules, known=60),
    "three, decomposition": partial(fitted, three, method="decomposition"),
    "three, decomposition with gold labels": partial(fitted, three, method="decomposition", known=40),
    **by_method("four", four, "auto", "agreement", "refined", "consensus"),
    "four, one against the rest": partial(fitted, four, method=fs.solvers.OneVsRest("covariance")),
    "four, estimated balance": partial(fitted, four, method="agreement", class_balance="estimate"),
    "four, gold labels": partial(fitted, four, known=80, method="em"),
    "four, agreement with gold labels": partial(fitted, four, known=80, method="agreement"),
    **by_method_on(PAIRS, "copying", lambda: copying()[1], "triplet_mean", "triplet_median", "triplet"),
    **by_method_on(PAIRS, "copying", lambda: copying()[1], "covariance", "quadratic"),
    **by_method_on(NINE, "one alone", with_one_alone, "triplet_mean", "covariance"),
    "copying, three in a row": lambda: on_graph(copying()[1], TRIPLE, method="covariance"),
    "copying, linear": lambda: on_graph(copying()[1], PAIRS, method=fs.solvers.Triplet(cliques="linear")),
    **by_method("crowd", crowd, "auto", "agreement", "refined", "consensus"),
    "sure, gold labels": partial(fitted, sure, known=60, method="triplet"),
    "three and a sure one": partial(fitted, three_and_a_sure_one, method="decomposition"),
    "sure": partial(fitted, sure, method="covariance"),
    "copying, learned": partial(learned, copying),
    "four with a copy, learned": partial(learned, four_with_a_copy),
    "four, learned": partial(learned, four),
    "frames": lambda: on_graph(frames(), CHAIN),
    "frames, tempered": lambda: on_graph(frames(), CHAIN, temper="auto", method="covariance"),
    **by_method_on(NINE, "three, dependent", lambda: three()[1], "refined", "decomposition"),
    "three, frames": lambda: on_graph(three()[1][:, :8], FRAMES_OF_THREE, method="em"),
    "frames, one-sided": lambda: on_graph(one_sided(frames(), 3), CHAIN, method="triplet"),
    "frames, imbalanced": lambda: on_graph(frames(), CHAIN, method="triplet", class_balance=BALANCE),
    "sequences": sequences,
    "sequences, one alone": partial(sequences, -1, method="triplet", class_balance=BALANCE, temper=None),
    "sequences, one-sided": partial(sequences, 3, method="triplet", class_balance=BALANCE, temper=None),
    "sequences, tempered": partial(sequences, temper="auto", method="triplet", class_balance="estimate"),
}


def as_text(case: dict[str, Array]) -> dict[str, list[Any]]:
    """Nested lists of numbers with ten digits."""
    return {
        name: json.loads(json.dumps(np.asarray(v).tolist()), parse_float=_short, parse_constant=_missing)
        for name, v in case.items()
    }


def _missing(_: str) -> None:
    return None


def _short(number: str) -> float:
    return float(f"{float(number):.10g}")


def main() -> None:
    rows = [f"{json.dumps(name)}: {json.dumps(as_text(case()))}" for name, case in CASES.items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
