"""Label models on graphs, against exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimate.linear_system import system_matrix
from flyingsquid.estimate.units import UnitTable
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError, VotesError
from tests.oracle.graphs import Model, margin, random_model

Edges = list[tuple[int, int]]
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
    "cycle of four": ((0, 0, 1, 1, 2, 2, 3, 3), [(0, 1), (1, 2), (2, 3), (0, 3)], []),
}
SYMMETRIC = ["triplet_mean", "triplet_median", "triplet"]


def fit_exactly(model: Model, graph: fs.DependencyGraph, **options) -> fs.LabelModel:
    """Fit on every possible row, weighted by its exact probability."""
    weights = model.joint().reshape(len(model.patterns()), -1).sum(axis=1)
    votes = fs.Votes(model.patterns(), (0, 1))
    balance = model.balance()
    options.setdefault("class_balance", balance[0] if graph.n_tasks == 1 else balance)
    return fs.LabelModel(graph, screen=options.pop("screen", 1.0), **options).fit(
        votes, sample_weight=N * weights
    )


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


@pytest.mark.parametrize("name", ["pair", "clique of three", "shared node"])
def test_sources_that_fall_silent_together_stay_exact(name):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(1), 1, *GRAPHS[name], joint_abstaining=True)
    check(model, fit_exactly(model, graph), graph)


def test_a_grid_is_exact():
    graph = fs.DependencyGraph.grid(2, 3, 2)
    model = random_model(
        np.random.default_rng(0), 6, graph.source_task, list(graph.task_edges), [], abstains=False
    )
    check(model, fit_exactly(model, graph), graph)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("joint_abstaining", [True, False])
@pytest.mark.parametrize("name", ["pair", "two pairs", "shared node", "chain with a pair", "clique of three"])
def test_the_papers_linear_system_is_exact_too(name, biased, joint_abstaining):
    graph = graph_of(*GRAPHS[name])
    model = random_model(
        np.random.default_rng(2),
        graph.n_tasks,
        *GRAPHS[name],
        biased=biased,
        joint_abstaining=joint_abstaining,
    )
    if name == "clique of three" and not biased:
        with pytest.raises(NotIdentifiableError, match="divides by E"):
            fit_exactly(model, graph, cliques="linear")
    else:
        check(model, fit_exactly(model, graph, cliques="linear"), graph)


def test_the_linear_system_is_that_of_the_paper():
    """Norms, determinants and A mu = r by enumeration, for one to three sources."""
    norms = {1: (3.186, 2.203, -2), 2: (6.348, 3.113, -128), 3: (12.81, 4.626, -(2**35))}
    for s, (norm, inverse, determinant) in norms.items():
        a = system_matrix(s)
        assert np.linalg.norm(a, 2) == pytest.approx(norm, rel=1e-3)
        assert np.linalg.norm(np.linalg.inv(a), 2) == pytest.approx(inverse, rel=1e-3)
        assert np.linalg.det(a) == pytest.approx(determinant, rel=1e-6)


def test_a_joint_table_of_tasks_may_be_given():
    source_task, edges, _ = GRAPHS["triangle"]
    graph = graph_of(source_task, edges)
    rng = np.random.default_rng(4)
    model = random_model(rng, 3, source_task, edges, [])
    # No pairwise model: a three-way interaction that edges cannot say.
    truths = model.truths * np.exp(0.5 * np.einsum("i,j,k->ijk", *[np.array([-1.0, 1.0])] * 3))
    model = Model(truths / truths.sum(), model.groups)
    for given in (model.truths, model.truths.ravel()):
        check(model, fit_exactly(model, graph, class_balance=given), graph)


def test_one_source_at_the_end_of_a_chain_is_judged_by_the_class_balance_or_refused():
    source_task, edges = (0, 1, 1, 2, 2), [(0, 1), (1, 2)]
    graph = graph_of(source_task, edges)
    model = random_model(np.random.default_rng(0), 3, source_task, edges, [])
    fitted = fit_exactly(model, graph)
    check(model, fitted, graph)
    assert "task 0" in fitted.diagnostics_.reason
    with pytest.raises(NotIdentifiableError, match=r"task 0: .*2 separated groups"):
        fit_exactly(model, graph, class_balance="uniform")
    with pytest.raises(NotIdentifiableError, match=r"task 0: .*2 separated groups"):
        fit_exactly(model, graph, method="covariance")


@pytest.mark.parametrize("edges", [[(0, 1), (2, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (1, 2)]])
def test_one_or_two_groups_need_a_lopsided_balance(edges):
    source_task = (0,) * (3 if len(edges) == 3 and (1, 2) in edges and (0, 2) in edges else 4)
    graph = graph_of(source_task, (), edges)
    model = random_model(np.random.default_rng(5), 1, source_task, [], edges)
    check(model, fit_exactly(model, graph), graph)
    with pytest.raises(NotIdentifiableError, match="separated groups"):
        fit_exactly(model, graph, class_balance="uniform")


# ---------------------------------------------------------------------- inference from given parameters


def with_parameters(model: Model, graph: fs.DependencyGraph) -> fs.LabelModel:
    """A fitted model whose parameters are the true ones."""
    tables = model.confusion()
    weights = np.log(tables[:, 1]) - np.log(tables[:, 0])
    units = []
    for tree in graph.units:
        sources, _, table = next(group for group in model.groups if tree.cliques[0][0] in group[0])
        for clique, separator in zip(tree.cliques, tree.separators, strict=True):
            axes = tuple(sources.index(i) for i in clique)
            part = margin(table, (*axes, table.ndim - 1))
            # States count with the first source fastest.
            flat = np.stack([part[..., k].T.ravel() for k in (0, 1)])
            units.append(UnitTable(clique, separator, flat))
    fitted = fs.LabelModel(graph)
    fitted._remember((0, 1), None, tuple(map(str, range(graph.n_sources))))
    fitted.graph_, fitted.temper_ = graph, 1.0
    cliques = tuple(margin(model.truths, clique) for clique in graph.task_tree.cliques)
    fitted._keep_parameters(model.balance(), tables, weights, tuple(units), cliques)
    return fitted


def random_graph(rng: np.random.Generator) -> tuple[tuple[int, ...], Edges, Edges]:
    """Up to 12 variables: tasks joined at random, sources spread over them and joined inside a task."""
    n_tasks = int(rng.integers(1, 6))
    m = int(rng.integers(n_tasks, min(12 - n_tasks, 8) + 1))
    source_task = np.sort(np.concatenate([np.arange(n_tasks), rng.integers(0, n_tasks, m - n_tasks)]))
    pairs = [(a, b) for a in range(n_tasks) for b in range(a + 1, n_tasks)]
    task_edges = [pair for pair in pairs if rng.random() < 0.6]
    source_edges: list[tuple[int, int]] = []
    for a in range(m):
        for b in range(a + 1, m):
            trial = [*source_edges, (a, b)]
            if source_task[a] == source_task[b] and rng.random() < 0.35:
                try:
                    graph_of(tuple(source_task.tolist()), task_edges, trial)
                except GraphError:  # a unit of more than four
                    continue
                source_edges = trial
    return tuple(source_task.tolist()), task_edges, source_edges


@pytest.mark.parametrize("seed", range(300))
def test_posterior_map_and_likelihood_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    source_task, task_edges, source_edges = random_graph(rng)
    graph = graph_of(source_task, task_edges, source_edges)
    model = random_model(rng, graph.n_tasks, source_task, task_edges, source_edges, symmetric=False)
    rows = rng.integers(-1, 2, (60, graph.n_sources)).astype(np.int8)
    votes = fs.Votes(rows, (0, 1))
    fitted, joint = with_parameters(model, graph), model.joint(rows)
    posterior = fitted.predict_proba(votes).reshape(60, graph.n_tasks, 2)
    np.testing.assert_allclose(posterior, model.posterior(rows), atol=1e-10)
    flat = joint.reshape(60, -1)
    np.testing.assert_allclose(fitted.log_likelihood(votes), np.log(flat.sum(axis=1)), atol=1e-10)
    best = fitted.predict(votes, joint=True).reshape(60, graph.n_tasks)
    at_best = flat[np.arange(60), np.ravel_multi_index(tuple(best.T), (2,) * graph.n_tasks)]
    np.testing.assert_allclose(at_best, flat.max(axis=1), rtol=1e-10)
