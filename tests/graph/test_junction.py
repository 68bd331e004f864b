"""Inference and fitting on junction trees of tasks must equal enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flyingsquid.estimation.proportional import tables_from_edges, tables_from_joint
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.inference.junction_tree import max_product, sum_product
from tests.oracle.tasks import Tasks, enumerate_posterior, log_joint, small_tree

pytestmark = pytest.mark.slow


def grid(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    at = np.arange(rows * columns).reshape(rows, columns)
    across = zip(at[:, :-1].flat, at[:, 1:].flat, strict=True)
    below = zip(at[:-1].flat, at[1:].flat, strict=True)
    return tuple((int(a), int(b)) for a, b in itertools.chain(across, below))


GRAPHS = {
    "one task": (1, ()),
    "no edges": (3, ()),
    "pair": (2, ((0, 1),)),
    "chain": (6, tuple((d, d + 1) for d in range(5))),
    "star": (6, tuple((0, d) for d in range(1, 6))),
    "star about the last": (5, tuple((d, 4) for d in range(4))),
    "tree": (7, ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6))),
    "triangle": (3, ((0, 1), (0, 2), (1, 2))),
    "cycle of 5": (5, ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4))),
    "2x3 grid": (6, grid(2, 3)),
    "complete": (4, tuple(itertools.combinations(range(4), 2))),
    "triangles in a row": (6, ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5))),
    "nested separators": (6, ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4), (0, 5))),
    "disconnected": (7, ((0, 2), (1, 3), (3, 5), (1, 5))),
}
cases = pytest.mark.parametrize("graph", GRAPHS)
classes = pytest.mark.parametrize("k", [2, 3])


def model(graph: str, k: int, *, seed: int = 0) -> tuple[Tasks, JunctionTree]:
    d, edges = GRAPHS[graph]
    tasks = Tasks.random(np.random.default_rng([seed, d, k]), d, k, edges)
    return tasks, small_tree(d, edges)


def fit(tasks: Tasks, tree: JunctionTree):
    edges = tuple(tasks.factors)
    pairs = np.array([tasks.margin(edge) for edge in edges]).reshape(-1, tasks.k, tasks.k)
    return tables_from_edges(tree, edges, pairs, np.array([tasks.margin((d,)) for d in range(tasks.d)]))


def pair(correlation: float) -> np.ndarray:
    """P(Y_a, Y_b) of two balanced tasks of two classes."""
    return np.array([[1 + correlation, 1 - correlation], [1 - correlation, 1 + correlation]]) / 4


def assert_proper(tree: JunctionTree, tables) -> None:
    for number, (clique, table) in enumerate(zip(tree.cliques, tables, strict=True)):
        assert (table > 0).all()
        assert table.sum() == pytest.approx(1, abs=1e-13)
        parent, shared = tree.parents[number], tree.separators[number]
        if parent >= 0:
            here = table.sum(axis=tuple(i for i, task in enumerate(clique) if task not in shared))
            rest = tuple(i for i, task in enumerate(tree.cliques[parent]) if task not in shared)
            np.testing.assert_allclose(here, tables[parent].sum(axis=rest), atol=1e-14)


@cases
@classes
def test_posterior_likelihood_and_best_labels_equal_enumeration(graph, k):
    tasks, tree = model(graph, k)
    joint = tasks.joint()
    evidence = np.random.default_rng(1).normal(-3, 2, (5, tasks.d, k))
    tables = tables_from_joint(tree, joint)
    posterior, log_likelihood = sum_product(evidence, tree, tables)
    expected, expected_likelihood, best = enumerate_posterior(joint, evidence)
    np.testing.assert_allclose(posterior, expected, rtol=1e-10)
    np.testing.assert_allclose(log_likelihood, expected_likelihood, rtol=1e-10)
    labels = max_product(evidence, tree, tables)
    values = [log_joint(joint, *item) for item in zip(evidence, labels, strict=True)]
    np.testing.assert_allclose(values, best, rtol=1e-10)


@cases
@classes
def test_clique_tables_equal_the_margins_of_the_pairwise_model(graph, k):
    tasks, tree = model(graph, k, seed=2)
    # The factor of a task without edges is its balance; elsewhere it is part of the edges' factors.
    answer = fit(tasks, tree)
    assert answer.mismatch < 1e-12
    assert_proper(tree, answer.tables)
    for clique, table in zip(tree.cliques, answer.tables, strict=True):
        np.testing.assert_allclose(table, tasks.margin(clique), atol=1e-10)


@classes
def test_each_edge_of_the_tree_divides_once(k):
    """A star of tasks has the separator {0} once for each of its edges but one."""
    tasks, _ = model("star", k)
    tree = JunctionTree(tuple(tasks.factors), (-1, 0, 0, 1, 3), ((), (0,), (0,), (0,), (0,)))
    tables = tables_from_joint(tree, tasks.joint())
    _, log_likelihood = sum_product(np.zeros((1, 6, k)), tree, tables)
    assert log_likelihood[0] == pytest.approx(0, abs=1e-12)  # P(Y) sums to 1
    evidence = np.random.default_rng(10).normal(0, 2, (5, 6, k))
    expected, expected_likelihood, _ = enumerate_posterior(tasks.joint(), evidence)
    posterior, log_likelihood = sum_product(evidence, tree, tables)
    np.testing.assert_allclose(posterior, expected, rtol=1e-10)
    np.testing.assert_allclose(log_likelihood, expected_likelihood, rtol=1e-10)


def test_without_evidence_the_posterior_is_the_balance():
    tasks, tree = model("2x3 grid", 3)
    posterior, _ = sum_product(np.full((2, 6, 3), -40.0), tree, tables_from_joint(tree, tasks.joint()))
    np.testing.assert_allclose(posterior[1], [tasks.margin((d,)) for d in range(6)], rtol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12])
@cases
def test_huge_evidence_gives_no_nan(graph, size):
    tasks, tree = model(graph, 2)
    tables = tables_from_joint(tree, tasks.joint())
    evidence = np.random.default_rng(3).choice([-size, 0.0, size], (50, tasks.d, 2))
    posterior, log_likelihood = sum_product(evidence, tree, tables)
    assert np.isfinite(posterior).all()
    assert np.isfinite(log_likelihood).all()
    np.testing.assert_allclose(posterior.sum(axis=2), 1, rtol=1e-14)
    # Enumeration itself loses the table's digits in sums of 1e12, unless what is common comes off first.
    evidence -= evidence.max(axis=2, keepdims=True)
    expected, _, best = enumerate_posterior(tasks.joint(), evidence)
    np.testing.assert_allclose(posterior, expected, rtol=1e-10)
    labels = max_product(evidence, tree, tables)
    values = [log_joint(tasks.joint(), *item) for item in zip(evidence, labels, strict=True)]
    np.testing.assert_allclose(values, best, rtol=1e-12, atol=1e-12)


def test_the_small_side_of_a_sure_label_is_exact():
    """Task 1 is known; P(Y_0 = 0) is what the table says, however small."""
    tree = small_tree(2, ((0, 1),))
    table = np.array([[0.5 - 1e-200, 1e-200], [0.25, 0.25]])
    evidence = np.array([[[-100.0, 0.0], [-300.0, 0.0]]])
    posterior, _ = sum_product(evidence, tree, (table,))
    assert posterior[0, 0, 0] == pytest.approx(4e-200 * np.exp(-100) + 2 * np.exp(-400), rel=1e-12)
    assert posterior[0, 1, 0] == pytest.approx(np.exp(-300), rel=1e-12)


def test_evidence_common_to_all_classes_moves_only_the_likelihood():
    tasks, tree = model("cycle of 5", 3)
    tables = tables_from_joint(tree, tasks.joint())
    evidence = np.random.default_rng(4).integers(-8, 8, (20, 5, 3)) / 4
    posterior, log_likelihood = sum_product(evidence, tree, tables)
    shifted, moved = sum_product(evidence - 2.0**40, tree, tables)
    np.testing.assert_array_equal(shifted, posterior)
    np.testing.assert_allclose(moved, log_likelihood - 5 * 2.0**40, rtol=1e-15)


@cases
@classes
def test_ties_give_a_true_maximiser(graph, k):
    """If neighbors differ at random and there is no other evidence, every labeling has its mirror image."""
    d, edges = GRAPHS[graph]
    unlike = np.where(np.eye(k) > 0, 0.25, 1.0)
    tasks = Tasks(d, k, dict.fromkeys(edges, unlike), np.ones((d, k)))
    tree, joint = small_tree(d, edges), tasks.joint()
    evidence = np.random.default_rng(5).integers(0, 2, (30, d, k)) * np.log(4.0)
    evidence[0] = 0
    labels = max_product(evidence, tree, tables_from_joint(tree, joint))
    _, _, best = enumerate_posterior(joint, evidence)
    values = [log_joint(joint, *item) for item in zip(evidence, labels, strict=True)]
    np.testing.assert_allclose(values, best, rtol=1e-12)


def test_tasks_alone_take_the_lowest_of_equal_classes():
    tables = tuple(np.full(3, 1 / 3) for _ in range(2))
    evidence = np.array([[[0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]])
    assert max_product(evidence, small_tree(2, ()), tables).tolist() == [[0, 1]]


def test_many_items_are_processed_in_parts():
    tasks, tree = model("2x3 grid", 2)
    tables = tables_from_joint(tree, tasks.joint())
    evidence = np.random.default_rng(6).normal(0, 3, (20_000, 6, 2))  # more than two parts
    posterior, log_likelihood = sum_product(evidence, tree, tables)
    labels = max_product(evidence, tree, tables)
    for some in (slice(0, 50), slice(8_180, 8_200), slice(19_990, 20_000)):
        alone, alone_likelihood = sum_product(evidence[some], tree, tables)
        np.testing.assert_allclose(posterior[some], alone, rtol=1e-14)
        np.testing.assert_allclose(log_likelihood[some], alone_likelihood, rtol=1e-14)
        np.testing.assert_array_equal(labels[some], max_product(evidence[some], tree, tables))


def test_no_items():
    tasks, tree = model("triangle", 2)
    tables = tables_from_joint(tree, tasks.joint())
    posterior, log_likelihood = sum_product(np.empty((0, 3, 2)), tree, tables)
    assert posterior.shape == (0, 3, 2)
    assert log_likelihood.shape == (0,)
    assert max_product(np.empty((0, 3, 2)), tree, tables).shape == (0, 3)


def test_a_clique_within_its_parent_adds_nothing():
    tree = JunctionTree(((0, 1), (1,), (1, 2)), (-1, 0, 1), ((), (1,), (1,)))
    tasks, chain = (
        Tasks.random(np.random.default_rng(7), 3, 2, ((0, 1), (1, 2))),
        small_tree(3, ((0, 1), (1, 2))),
    )
    evidence = np.random.default_rng(8).normal(size=(4, 3, 2))
    ours = sum_product(evidence, tree, tables_from_joint(tree, tasks.joint()))
    theirs = sum_product(evidence, chain, tables_from_joint(chain, tasks.joint()))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_long_chain_equals_the_forward_pass():
    """500 tasks: log P(votes) by the recursion over one task at a time."""
    d, rng = 500, np.random.default_rng(9)
    stay = np.array([[0.45, 0.05], [0.05, 0.45]])
    edges = tuple((a, a + 1) for a in range(d - 1))
    tree = small_tree(d, edges)
    answer = tables_from_edges(tree, edges, np.array([stay] * (d - 1)), np.full((d, 2), 0.5))
    assert answer.mismatch < 1e-15
    evidence = rng.normal(-5, 2, (3, d, 2))
    posterior, log_likelihood = sum_product(evidence, tree, answer.tables)
    forward = np.log(0.5) + evidence[:, 0]
    for task in range(1, d):
        step = np.log(2 * stay) + forward[:, :, None]
        forward = np.logaddexp(step[:, 0], step[:, 1]) + evidence[:, task]
    np.testing.assert_allclose(log_likelihood, np.logaddexp(*forward.T), rtol=1e-12)
    last = np.exp(forward - np.logaddexp(*forward.T)[:, None])
    np.testing.assert_allclose(posterior[:, -1], last, rtol=1e-9)


@pytest.mark.parametrize("correlation", [0.8, -0.8])
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 3), (4, 4)])
def test_neighbors_on_a_grid_are_as_alike_as_asked(rows, columns, correlation):
    edges, d = grid(rows, columns), rows * columns
    tree = small_tree(d, edges)
    answer = tables_from_edges(tree, edges, np.array([pair(correlation)] * len(edges)), np.full((d, 2), 0.5))
    assert answer.mismatch < 1e-12
    assert_proper(tree, answer.tables)


@pytest.mark.parametrize("correlation", [-1 / 3, -0.34, -0.9, -0.999999])
def test_pairs_that_no_distribution_has_give_a_proper_one(correlation):
    """Of three tasks two are always alike: no three correlations of two classes go below -1/3 together."""
    edges = GRAPHS["triangle"][1]
    tree = small_tree(3, edges)
    answer = tables_from_edges(tree, edges, np.array([pair(correlation)] * 3), np.full((3, 2), 0.5))
    assert_proper(tree, answer.tables)
    for axis in range(3):  # treated alike
        np.testing.assert_allclose(answer.tables[0].sum(axis=axis), pair(-1 / 3), atol=0.003)
    assert answer.mismatch > 0
    assert answer.mismatch == pytest.approx((-1 / 3 - correlation) / 4, abs=0.003)


def test_impossible_pairs_leave_the_rest_alone():
    """A triangle that cannot be, joined by one task to a triangle that can."""
    unlike, alike = pair(-0.9), pair(0.4)
    edges = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5))
    tree = small_tree(7, edges)
    balance = np.full((7, 2), 0.5)
    balance[6] = [0.9, 0.1]
    answer = tables_from_edges(tree, edges, np.array([unlike] * 3 + [alike] * 4), balance)
    assert_proper(tree, answer.tables)
    assert answer.mismatch > 0.1
    tables = dict(zip(tree.cliques, answer.tables, strict=True))
    np.testing.assert_allclose(tables[2, 3], alike, atol=1e-12)
    np.testing.assert_allclose(tables[3, 4, 5].sum(axis=0), alike, atol=1e-12)
    np.testing.assert_allclose(tables[6,], balance[6], atol=1e-15)
