"""Label models on graphs, against exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError, VotesError
from tests.oracle.graphs import Model, margin, random_model

N = 1e12  # so many items that no cell is rare and half a vote is nothing


def graph_of(source_task, task_edges=(), source_edges=()) -> fs.DependencyGraph:
    return fs.DependencyGraph(
        len(source_task),
        max(source_task) + 1,
        source_task=source_task,
        task_edges=task_edges,
        source_edges=source_edges,
    )


# name: task of each source, task edges, source edges
GRAPHS = {
    "pair": ((0,) * 5, [], [(0, 1)]),
    "two pairs": ((0,) * 6, [], [(0, 1), (2, 3)]),
    "shared node": ((0,) * 5, [], [(0, 1), (1, 2)]),
    "star of three": ((0,) * 6, [], [(0, 1), (0, 2), (0, 3)]),
    "clique of three": ((0,) * 5, [], [(0, 1), (0, 2), (1, 2)]),
    "clique of four": ((0,) * 6, [], [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]),
    "chain, three a task": ((0, 0, 0, 1, 1, 1, 2, 2, 2), [(0, 1), (1, 2)], []),
    "chain, two a task": ((0, 0, 1, 1, 2, 2), [(0, 1), (1, 2)], []),
    "chain, one inside, two at the ends": ((0, 0, 1, 2, 3, 3), [(0, 1), (1, 2), (2, 3)], []),
    "chain with a pair": ((0, 0, 0, 0, 1, 1, 1, 1), [(0, 1)], [(0, 1), (5, 6)]),
    "chain, a task that is one pair": ((0, 0, 1, 1, 2, 2), [(0, 1), (1, 2)], [(2, 3)]),
    "tree": ((0, 0, 1, 1, 2, 2, 3, 3), [(0, 1), (0, 2), (0, 3)], []),
    "triangle": ((0, 0, 0, 1, 1, 1, 2, 2, 2), [(0, 1), (1, 2), (0, 2)], []),
    "disconnected": ((0, 0, 0, 1, 1, 1), [], []),
}
SYMMETRIC = ["triplet_mean", "triplet_median", "triplet"]


def fit_exactly(model: Model, graph: fs.DependencyGraph, **options) -> fs.LabelModel:
    """Fit on every possible row, weighted by its exact probability."""
    weights = model.joint().reshape(3**model.n_sources, -1).sum(axis=1)
    votes = fs.Votes(model.patterns(), (0, 1))
    balance = model.balance()
    options.setdefault("class_balance", balance[0] if graph.n_tasks == 1 else balance)
    return fs.LabelModel(graph, screen=options.pop("screen", 1.0), **options).fit(votes, sample_weight=N * weights)


def check(model: Model, fitted: fs.LabelModel, graph: fs.DependencyGraph) -> None:
    np.testing.assert_allclose(fitted.confusion_, model.confusion(), atol=1e-10)
    np.testing.assert_allclose(np.atleast_2d(fitted.class_balance_), model.balance(), atol=1e-10)
    for edge, table in zip(graph.task_edges, fitted.task_tables_, strict=True):
        np.testing.assert_allclose(table, margin(model.truths, edge), atol=1e-10)
    posterior = fitted.predict_proba(fs.Votes(model.patterns(), (0, 1)))
    expected = model.posterior()
    occurs = np.isfinite(expected).all(axis=(1, 2))
    np.testing.assert_allclose(posterior.reshape(expected.shape)[occurs], expected[occurs], atol=1e-10)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("method", SYMMETRIC)
def test_exact_moments_give_exact_parameters(name, method, biased):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(len(name)), graph.n_tasks, *GRAPHS[name], biased=biased)
    check(model, fit_exactly(model, graph, method=method), graph)


@pytest.mark.parametrize("name", GRAPHS)
def test_asymmetric_sources_stay_exact(name):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(len(name)), graph.n_tasks, *GRAPHS[name], symmetric=False)
    check(model, fit_exactly(model, graph, method="covariance", screen=1.0), graph)
