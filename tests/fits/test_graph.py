"""Fits with dependent sources and tasks: laws of explanations, and files."""

from __future__ import annotations

from itertools import product
from math import fsum

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State
from flyingsquid.fits.graph import contradiction_note

TWO_PAIRS = fs.DependencyGraph(5, source_edges=[(0, 1), (3, 4)])
TRIPLE = fs.DependencyGraph(5, source_edges=[(0, 1), (1, 2), (0, 2)])
# Two triangles of tasks that share an edge, so that their tables have to agree on a pair of tasks.
TRIANGLES = fs.DependencyGraph(
    12,
    4,
    source_task=[task for task in range(4) for _ in range(3)],
    task_edges=[(0, 1), (1, 2), (0, 2), (1, 3), (2, 3)],
)
UNEVEN = fs.DependencyGraph(7, 2, source_task=[0, 0, 0, 1, 1, 1, 1], task_edges=[(0, 1)])


def fitted(graph: fs.DependencyGraph, n_classes: int = 2) -> fs.LabelModel:
    sample = fs.datasets.simulate_graph(
        4_000, graph, 0.75, n_classes=n_classes, coverage=0.8, random_state=n_classes
    )
    return fs.LabelModel(graph).fit(sample.votes)


def rows(n_sources: int, n_classes: int) -> np.ndarray:
    """Return a fifth of all possible items, or all if they are few."""
    every = np.array(list(product(range(-1, n_classes), repeat=n_sources)))
    return every if len(every) < 300 else every[::5]


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize(("graph", "n_units"), [(TWO_PAIRS, 2), (TRIPLE, 1)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_of_dependent_sources_sum_to_the_log_odds(graph, n_units, n_classes):
    model = fitted(graph, n_classes)
    votes = rows(5, n_classes)
    evidence, posterior = model.fit_.evidence(votes)[:, 0], model.predict_proba(votes)
    by_votes: dict[tuple[object, ...], float] = {}
    for row, weight, p in zip(votes, evidence, posterior, strict=True):
        why = model.explain(row)
        second, best = np.argsort(p)[-2:]
        odds = np.log(p[best] / p[second])
        assert why.log_odds == pytest.approx(odds)
        assert why.prior_log_odds + fsum(c.adds for c in why.contributions) == pytest.approx(odds)
        rival = 1 - model.classes_.tolist().index(why.predicted) if why.against is None else why.against
        assert fsum(c.adds for c in why.contributions) == pytest.approx(weight[why.predicted] - weight[rival])
        units = [c for c in why.contributions if "&" in c.source]
        assert len(units) <= n_units
        for c in units:  # a unit contributes by its own votes, whatever the others vote
            key = c.source, str(c.shown_vote), why.predicted, rival
            assert by_votes.setdefault(key, c.adds) == pytest.approx(c.adds)
    assert len({key[:2] for key in by_votes}) > n_units


def test_other_tasks_contribute_what_the_votes_on_a_task_do_not():
    model = fitted(fs.DependencyGraph.chain(2, 3))
    n_others = 0
    for row in rows(6, 2):
        posterior = model.predict_proba(row[None])[0]
        for task in (0, 1):
            why = model.explain(row, task=task)
            second, best = np.argsort(posterior[task])[-2:]
            odds = np.log(posterior[task, best] / posterior[task, second])
            assert why.prior_log_odds + fsum(c.adds for c in why.contributions) == pytest.approx(odds)
            sources = {f"source {j}" for j in range(3 * task, 3 * task + 3)}
            others = {c.source for c in why.contributions} - sources
            assert others <= {"other tasks"}
            n_others += len(others)
    assert n_others > 0


def test_only_pairs_of_tasks_that_were_moved_clearly_are_reported():
    assert contradiction_note(0.005) == ""
    assert "0.02" in contradiction_note(0.02)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("graph", [TWO_PAIRS, TRIPLE, fs.DependencyGraph.chain(3, 3), TRIANGLES, UNEVEN])
def test_a_fit_with_a_graph_comes_back_identical(graph, tmp_path):
    model = fitted(graph)
    model.save(tmp_path / "model.fsq")
    loaded = fs.load(tmp_path / "model.fsq")
    votes = np.random.default_rng(0).integers(-1, 2, (50, graph.n_sources))
    assert np.array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
    assert np.array_equal(loaded.log_likelihood(votes), model.log_likelihood(votes))
    assert np.array_equal(loaded.task_tables_, model.task_tables_)
    assert np.array_equal(loaded.excess_correlation_, model.excess_correlation_, equal_nan=True)


def damaged(model: fs.LabelModel, name: str, change) -> State:
    """Return the state of a model with other tables."""
    state = model._to_state()
    (key,) = [each for each in state.arrays if each.endswith(name)]
    table = state.arrays[key].copy()
    return State(state.kind, state.meta, {**state.arrays, key: change(table)})


def negative(table: np.ndarray) -> np.ndarray:
    """Move probability from one cell to its neighbor until the first is negative; the sum stays."""
    moved = table[0] + 0.1
    table[0] -= moved
    table[1] += moved
    return table


@pytest.mark.parametrize("change", [negative, lambda table: table * 1.1, lambda table: table[:-1]])
def test_tables_of_dependent_sources_in_files_must_be_probabilities(change):
    with pytest.raises(ModelFileError):
        fs.LabelModel._from_state(damaged(fitted(TWO_PAIRS), "unit_tables", change))


def shifted(table: np.ndarray) -> np.ndarray:
    """Give the first table of two tasks other margins: no task has the class balance any more."""
    table[:4] = [0.7, 0.1, 0.1, 0.1]
    return table


def disagreeing(table: np.ndarray) -> np.ndarray:
    """Change what the first triangle implies about every pair of its tasks, but no task by itself."""
    parity = np.array([1, -1, -1, 1, 1, -1, -1, 1])  # of the last two tasks
    other = np.array([1, -1, 1, -1, -1, 1, -1, 1])  # of the first and the last
    third = np.array([1, 1, -1, -1, -1, -1, 1, 1])  # of the first two
    table[:8] += 0.2 * table.min() * (parity + other + third)
    return table


@pytest.mark.parametrize("change", [negative, shifted, lambda table: table * 1.1, lambda table: table[1:]])
def test_tables_of_tasks_in_files_must_be_probabilities_with_the_class_balance(change):
    with pytest.raises(ModelFileError):
        fs.LabelModel._from_state(damaged(fitted(fs.DependencyGraph.chain(3, 3)), "task_tables", change))


def test_tables_of_tasks_in_files_must_agree_on_shared_pairs():
    with pytest.raises(ModelFileError, match="agree"):
        fs.LabelModel._from_state(damaged(fitted(TRIANGLES), "task_tables", disagreeing))


def test_a_fit_with_a_graph_needs_counts_with_a_graph():
    model = fitted(TWO_PAIRS)
    plain = fs.LabelModel().fit(np.random.default_rng(0).integers(-1, 2, (200, 5)))
    with pytest.raises(ModelFileError, match="graph"):
        type(model.fit_).from_state(model._to_state(), plain.moments_)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_contributions_of_other_tasks_are_beyond_the_class_balance():
    sample = fs.datasets.simulate_graph(2_000, UNEVEN, 0.75, random_state=0)
    model = fs.LabelModel(UNEVEN, class_balance=[0.1, 0.2, 0.2, 0.5]).fit(sample.votes)
    for row in np.asarray(sample.votes.codes)[:20]:
        for task, p in enumerate(model.predict_proba(row[None])[0]):
            why = model.explain(row, task=task)
            total = why.prior_log_odds + fsum(c.adds for c in why.contributions)
            assert total == pytest.approx(abs(np.log(p[1] / p[0])))
