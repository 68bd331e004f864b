"""Learning curves of ``fit(votes, gold=...)``: the effect of 20 to 200 gold labels on real votes.

    python -m benchmarks.quality.gold                      # print the tables
    python -m benchmarks.quality.gold --draws 2            # faster
    python -m benchmarks.quality.gold --methods default    # only this one; scores of the others as recorded
    python -m benchmarks.quality.gold --save               # also write results and docs/quality/gold.md

Gold labels are drawn at random from the train split if there is one with labels, otherwise from the pool.
Only items whose gold label was not given are scored: the test split, or the rest of the pool. Datasets are
those of the design half (docs/quality/halves.md), from the directory FLYINGSQUID_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import half_parser, save_half, saved_halves
from benchmarks.quality.halves import DESIGN, FROZEN
from benchmarks.quality.peers import Question, answer
from benchmarks.quality.regret import read_parts
from benchmarks.quality.scores import add_one_shares, score_known

ROOT = Path(__file__).parents[2]
NAMES = {"design": "gold", "frozen": "gold_frozen"}
PAGE = ROOT / "docs" / "quality" / "gold.md"
SIZES, DRAWS = (20, 50, 100, 200), 20
# A dataset takes part if this many items with gold labels are left to be scored.
_FEWEST_SCORED = 50
# Dawid-Skene fits all votes again for every draw, so it gets fewer draws.
_EM_DRAWS = 4
# Snorkel takes minutes on some datasets, so it gets one draw of this many labels, and this many CPU seconds.
_SNORKEL_SIZE, _SNORKEL_LIMIT = 100, 60
# Maximum number of items of a test split that are scored.
_MOST_SCORED = 4_000
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
METHODS = ("fit(gold=)", "default", "logistic regression", "Snorkel", "Dawid-Skene", "stack")
Array = NDArray[np.float64]
Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Pool:
    """Votes and true classes to draw gold labels from, and those to score; -1 if unknown.

    ``is_split`` is True if the scored items are not part of the pool.
    """

    name: str
    n_classes: int
    votes: Codes
    y: NDArray[Any]
    scored_votes: Codes
    scored_y: NDArray[Any]
    is_split: bool


def load(name: str) -> Pool:
    """Read a dataset."""
    parts, n_classes = read_parts(name)
    if "L" in parts:
        return Pool(name, n_classes, parts["L"], parts["Y"], parts["L"], parts["Y"], False)
    scored = "_test" if "L_test" in parts else "_valid"
    votes, y = parts[f"L{scored}"], parts[f"Y{scored}"]
    if len(y) > _MOST_SCORED:
        at = np.random.default_rng(0).choice(len(y), _MOST_SCORED, replace=False)
        votes, y = votes[at], y[at]
    if "L_train" in parts and (parts.get("Y_train", np.array([-1])) >= 0).any():
        return Pool(name, n_classes, parts["L_train"], parts["Y_train"], votes, y, True)
    return Pool(name, n_classes, votes, y, votes, y, False)


# ---------------------------------------------------------------------- methods


class Study:
    """One dataset, labeled by every method for one draw of gold labels after another."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.classes = tuple(range(pool.n_classes))
        model = self._model()
        self.label_free = model.predict_proba(self._read(pool.scored_votes))
        self.pool_label_free = model.predict_proba(self._read(pool.votes))

    def _read(self, votes: Codes) -> Any:
        import flyingsquid as fs

        return fs.Votes.from_classes(votes, classes=self.classes)

    def _model(self, gold: NDArray[Any] | None = None, method: Literal["auto", "em"] = "auto") -> Any:
        import flyingsquid as fs

        return fs.LabelModel(method=method).fit(self._read(self.pool.votes), gold=gold)

    def label(self, at: NDArray[np.intp], seed: int, methods: Sequence[str]) -> dict[str, Array]:
        """Return posteriors of the scored items by some methods; ``at`` are the items with gold labels."""
        pool, k = self.pool, self.pool.n_classes
        gold = np.full(len(pool.y), -1)
        gold[at] = pool.y[at]
        truth = gold[at]
        sources = np.flatnonzero((pool.votes[at] >= 0).any(axis=0))  # others would get no coefficient
        known, scored = (one_hot(votes[:, sources], k) for votes in (pool.votes[at], pool.scored_votes))
        found = {}
        if "default" in methods:
            found["default"] = self.label_free
        if "fit(gold=)" in methods:
            found["fit(gold=)"] = self._model(gold).predict_proba(self._read(pool.scored_votes))
        if "logistic regression" in methods:
            found["logistic regression"] = logistic(known, truth, scored, k)
        if "stack" in methods:
            odds = (
                log_odds(self.pool_label_free[at], pool.votes[at], k),
                log_odds(self.label_free, pool.scored_votes, k),
            )
            found["stack"] = logistic(np.hstack([odds[0], known]), truth, np.hstack([odds[1], scored]), k)
        if "Dawid-Skene" in methods and seed < _EM_DRAWS:
            found["Dawid-Skene"] = self._model(gold, "em").predict_proba(self._read(pool.scored_votes))
        if "Snorkel" in methods and seed == 0 and len(at) == _SNORKEL_SIZE:
            found["Snorkel"] = self._by_snorkel(truth)
        return found

    def _by_snorkel(self, truth: NDArray[Any]) -> Array:
        """Return posteriors by Snorkel with the balance of the gold labels; majority vote if it fails."""
        pool, k = self.pool, self.pool.n_classes
        balance = (np.bincount(truth, minlength=k) + 1.0) / (len(truth) + k)
        question = Question(f"{pool.name}-gold", pool.votes, pool.scored_votes, k, tuple(balance.tolist()))
        found = answer("snorkel", [question], limit=_SNORKEL_LIMIT)[question.key].posterior
        return add_one_shares(pool.scored_votes, k) if found is None else found


def one_hot(votes: Codes, n_classes: int) -> Array:
    return np.concatenate([votes == k for k in range(n_classes)], axis=1).astype(np.float64)


def log_odds(labels: Array, votes: Codes, n_classes: int) -> Array:
    """Return the log odds of the label-free default and of the vote share, relative to the first class."""
    logs = [np.log(np.clip(p, 1e-4, 1)) for p in (labels, add_one_shares(votes, n_classes))]
    return np.concatenate([each[:, 1:] - each[:, :1] for each in logs], axis=1)


def logistic(known: Array, truth: NDArray[Any], scored: Array, n_classes: int) -> Array:
    """Return posteriors by ridge logistic regression, its strength by cross-validation of the log loss."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

    found = np.full((len(scored), n_classes), 1e-4)
    present, counts = np.unique(truth, return_counts=True)
    if len(present) == 1:
        found[:, present[0]] = 1.0
    else:
        model: Any = LogisticRegression(C=0.1, max_iter=300)
        if counts.min() > 1:
            folds = min(5, int(counts.min()))
            model = LogisticRegressionCV(Cs=_STRENGTHS, cv=folds, scoring="neg_log_loss", max_iter=300)
        model.fit(known, truth)
        found[:, model.classes_] = np.maximum(model.predict_proba(scored), 1e-4)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


# ---------------------------------------------------------------------- curves


def measure(names: Sequence[str], draws: int, methods: Sequence[str] = METHODS) -> dict[str, Any]:
    """Return mean scores (accuracy, F1, log loss) by number of labels, dataset and method."""
    found: dict[str, dict[str, dict[str, Any]]] = {str(size): {} for size in SIZES}
    for name in names:
        start, pool = time.perf_counter(), load(name)
        study, known = Study(pool), np.flatnonzero(pool.y >= 0)
        for size in SIZES:
            if len(known) < size + (0 if pool.is_split else _FEWEST_SCORED):
                continue
            rows: dict[str, list[tuple[float, ...]]] = {}
            for seed in range(draws):
                at = np.random.default_rng([seed, size]).choice(known, size, replace=False)
                y = pool.scored_y.copy()
                if not pool.is_split:
                    y[at] = -1
                for method, p in study.label(at, seed, methods).items():
                    rows.setdefault(method, []).append(score_known(p, y)[:3])
            found[str(size)][name] = {method: np.mean(each, axis=0).tolist() for method, each in rows.items()}
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return {"draws": draws, "scores": found}


def with_recorded(found: dict[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with the recorded ones of methods that were not measured again."""
    merged = {
        size: {name: {**recorded["scores"][size].get(name, {}), **row} for name, row in datasets.items()}
        for size, datasets in found["scores"].items()
    }
    return {**found, "scores": merged}


HEADER = f"""# Learning curves of gold labels

This page shows how much gold labels improve `LabelModel().fit(votes, gold=...)`. Gold labels are random
items of the train split if it has labels, otherwise of the pool. Only items whose gold label was not
given are scored: the test split, or the rest of the pool. Means are over draws and over all datasets with
enough items ([halves](halves.md)). F1 is that of the second class, or the mean over the classes if there
are more than two. If there are more than {_MOST_SCORED:,} items to score, a fixed random sample is used.

Written by `python -m benchmarks.quality.gold --save` ([script](../../benchmarks/quality/gold.py),
[results](../../benchmarks/results/gold.json)).

- default: the fit without gold labels;
- logistic regression: scikit-learn on one-hot votes, trained on the gold labels, C by cross-validation;
- Snorkel: Snorkel's LabelModel with the class balance of {_SNORKEL_SIZE} gold labels, one draw. If it takes
  more than {_SNORKEL_LIMIT} CPU seconds, majority vote is scored instead. Shown if it was measured;
- Dawid-Skene: `method="em"`, which keeps the gold labels fixed during its passes;
- stack: logistic regression on the log odds of the default and of the vote share, and on the votes.

With `--methods`, some methods are measured and the scores of the others are kept. The other methods were
measured again on ten design datasets, with the same scores; on census, crowd_adult, crowd_cf, crowd_labelme,
crowd_trec and the frozen half, logistic regression, Dawid-Skene and the stack are those of earlier runs.

"""


def tables(results: Mapping[str, Any], half: str) -> str:
    """Return the tables of one half."""
    lines, draws, found = list[str](), results["draws"], results["scores"]
    measured = [m for m in METHODS if any(m in row for row in found["100"].values())]
    for size, datasets in found.items():
        lines += [f"## {half.capitalize()} half: {size} gold labels, {len(datasets)} datasets", ""]
        lines += [f"{draws} draws, {min(_EM_DRAWS, draws)} for Dawid-Skene.", ""]
        lines += ["| method | accuracy | F1 | log loss |", "| --- | ---: | ---: | ---: |"]
        for method in METHODS:
            if not all(method in row for row in datasets.values()):
                continue
            mean = np.mean([row[method] for row in datasets.values()], axis=0)
            lines.append(f"| {method} | {100 * mean[0]:.1f} | {100 * mean[1]:.1f} | {mean[2]:.3f} |")
        lines += ["", behind(datasets), ""]
    lines += [f"## {half.capitalize()} half: every dataset with 100 gold labels", ""]
    lines += ["Accuracy, F1 and log loss.", ""]
    lines += ["| dataset | " + " | ".join(measured) + " |", "| --- |" + " ---: |" * len(measured)]
    for name, row in found["100"].items():
        cells = [
            f"{100 * row[m][0]:.1f} / {100 * row[m][1]:.1f} / {row[m][2]:.3f}" if m in row else ""
            for m in measured
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def behind(datasets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a sentence about datasets below the better of the default and logistic regression."""
    gaps = {
        name: max(row["default"][0], row["logistic regression"][0]) - row["fit(gold=)"][0]
        for name, row in datasets.items()
    }
    lost = [f"{name} ({100 * gap:.1f})" for name, gap in gaps.items() if gap > 0.005]
    return (
        "Datasets more than half a point of accuracy below the better of default and logistic regression: "
        f"{', '.join(lost) or 'none'}."
    )


def render(results: Mapping[str, Any]) -> str:
    """Return the page: the design half, and the frozen half if it was opened."""
    return "\n".join(tables(results[half], half) for half in NAMES if half in results)


def main() -> None:
    parser = half_parser(__doc__)
    parser.add_argument(
        "--draws", type=int, default=DRAWS, help="draws of gold labels for each number of labels"
    )
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="only these, others as recorded"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    half = "frozen" if options.frozen else "design"
    sets = FROZEN if options.frozen else DESIGN
    names = [each.name for each in sets if each.kind != "sequences"]
    results = measure(names, options.draws, options.methods)
    if set(options.methods) < set(METHODS):
        results = with_recorded(results, saved_halves(NAMES)[half])
    print(render({half: results}))
    if options.save:
        save_half(NAMES, half, results, PAGE, lambda halves: HEADER + render(halves))


if __name__ == "__main__":
    main()
