"""Fits with dependent sources and tasks: laws of explanations."""

from __future__ import annotations

from itertools import product
from math import fsum

import numpy as np
import pytest

import flyingsquid as fs

TWO_PAIRS = fs.DependencyGraph(5, source_edges=[(0, 1), (3, 4)])
TRIPLE = fs.DependencyGraph(5, source_edges=[(0, 1), (1, 2), (0, 2)])


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
