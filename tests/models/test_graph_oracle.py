"""Graphs in the quick tests: exact counts give exact parameters, with one method per graph.

``test_graph_model.py`` and ``test_many_graphs.py`` run all combinations of the same graphs.
"""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from tests.models import test_graph_model as two
from tests.models import test_many_graphs as many
from tests.oracle.graphs import Model, random_model

SMALL = [
    "clique of three", "chain, two a task", "chain, one inside, two at the ends", "chain with a pair",
    "chain, a task that is one pair", "disconnected",
]  # fmt: skip


def assert_exact_fit(name, method, seed=0, **kinds):
    graph = two.graph_of(*two.GRAPHS[name])
    model = random_model(np.random.default_rng(seed), graph.n_tasks, *two.GRAPHS[name], **kinds)
    two.assert_exact(model, two.fit_exactly(model, graph, method=method), graph)


@pytest.mark.parametrize(("name", "method"), list(zip(SMALL, 2 * two.SYMMETRIC, strict=True)))
def test_symmetric_sources(name, method):
    assert_exact_fit(name, method, seed=len(name))


@pytest.mark.parametrize(("name", "method"), list(zip(SMALL, 3 * ["covariance", "quadratic"], strict=True)))
def test_sources_that_err_differently_on_each_class(name, method):
    assert_exact_fit(name, method, seed=len(name), symmetric=False)


@pytest.mark.parametrize("name", ["pair", "shared node", "chain with a pair", "clique of three"])
def test_the_linear_system_of_the_paper(name):
    assert_exact_fit(name, two.LINEAR, seed=2, joint_abstaining=True)


@pytest.mark.parametrize("name", ["triangle", "tree"])
def test_tasks_in_a_cycle_and_in_a_tree(name):
    assert_exact_fit(name, "triplet", abstains=False)


def test_a_joint_table_of_tasks():
    """With a three-way interaction, which edges cannot describe."""
    source_task, edges, _ = two.GRAPHS["triangle"]
    graph = two.graph_of(source_task, edges)
    model = random_model(np.random.default_rng(4), 3, source_task, edges, [], abstains=False)
    truths = model.truths * np.exp(0.5 * np.einsum("i,j,k->ijk", *[np.array([-1.0, 1.0])] * 3))
    model = Model(truths / truths.sum(), model.groups)
    two.assert_exact(model, two.fit_exactly(model, graph, class_balance=model.truths), graph)


def test_one_source_at_the_end_of_a_chain_needs_an_imbalanced_balance():
    source_task, edges = (0, 1, 1, 2, 2), [(0, 1), (1, 2)]
    graph = two.graph_of(source_task, edges)
    model = random_model(np.random.default_rng(0), 3, source_task, edges, [])
    fitted = two.fit_exactly(model, graph)
    two.assert_exact(model, fitted, graph)
    assert "task 0" in fitted.diagnostics_.reason
    for refused in ({"class_balance": "uniform"}, {"method": "covariance"}):
        with pytest.raises(NotIdentifiableError, match=r"Task 0: .*got 2"):
            two.fit_exactly(model, graph, **refused)


@pytest.mark.parametrize("edges", [[(0, 1), (2, 3)], [(0, 1), (1, 2), (2, 3)]])
def test_one_or_two_groups_need_an_imbalanced_balance(edges):
    graph = two.graph_of((0,) * 4, (), edges)
    model = random_model(np.random.default_rng(5), 1, (0,) * 4, [], edges)
    fitted = two.fit_exactly(model, graph)
    two.assert_exact(model, fitted, graph)
    assert "by the class balance" in fitted.diagnostics_.reason
    with pytest.raises(NotIdentifiableError, match="three groups"):
        two.fit_exactly(model, graph, class_balance="uniform")
    with pytest.raises(OptionError, match="`signs` must not name"):
        two.fit_exactly(model, graph, signs={0: -1})


def test_triplets_are_independent_given_one_task():
    graph = fs.DependencyGraph.chain(3, 3)
    sample = fs.datasets.simulate_graph(500, graph, 0.8, random_state=0)
    usable = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    model = fs.LabelModel(graph, method=fs.solvers.Triplet("best", usable)).fit(sample.votes)
    assert model.score(sample.votes, sample.y) > 0.85
    with pytest.raises(OptionError, match="`triplets`"):  # two tasks that are not neighbors
        fs.LabelModel(graph, method=fs.solvers.Triplet("best", [*usable, (0, 1, 8)])).fit(sample.votes)


def test_most_probable_labels_of_all_tasks_together():
    name = "chain, two a task"
    graph = two.graph_of(*two.GRAPHS[name])
    model = random_model(np.random.default_rng(1), graph.n_tasks, *two.GRAPHS[name])
    fitted = two.fit_exactly(model, graph)
    rows = model.patterns()[::7]
    labels = fitted.predict(fs.Votes(rows, (0, 1)), joint=True)
    joint = model.joint(rows)
    best = joint.reshape(len(rows), -1).max(axis=1)
    np.testing.assert_allclose(joint[(np.arange(len(rows)), *labels.T)], best, rtol=1e-8)


# ---------------------------------------------------------------------- more than two classes


@pytest.mark.parametrize("name", ["pair", "chain, two a task", "chain, a task that is one pair"])
def test_three_classes(name):
    model, graph = many.model_of(name)
    fitted = many.fit_exactly(model, graph, method="decomposition")
    many.assert_exact(model, fitted, model.patterns(), 1e-10)


def test_passes_over_the_votes_stay_at_exact_parameters():
    model, graph = many.model_of("pair")
    fitted = many.fit_exactly(model, graph)
    assert fitted.diagnostics_.method == "em"
    many.assert_exact(model, fitted, model.patterns(), 1e-9)


def chain_of_three_classes(n, noise_on=None):
    graph = fs.DependencyGraph.chain(2, 4)
    sample = fs.datasets.simulate_graph(n, graph, 0.8, n_classes=3, random_state=0)
    codes = np.array(sample.votes.codes)
    if noise_on is not None:
        codes[:, list(graph.sources_of(noise_on))] = np.random.default_rng(0).integers(0, 3, (n, 4))
    return graph, fs.Votes.from_classes(codes, classes=range(3)), sample.y


def test_a_task_without_three_views_is_estimated_by_agreement():
    graph, votes, y = chain_of_three_classes(400, noise_on=1)
    with pytest.raises(NotIdentifiableError, match="Task 1, sources"):
        fs.LabelModel(graph, method="decomposition").fit(votes)
    model = fs.LabelModel(graph).fit(votes)
    assert "by agreement because three views do not suffice: task 1" in model.diagnostics_.reason
    assert np.mean(model.predict(votes)[:, 0] == y[:, 0]) > 0.85


def test_gold_labels_take_part_in_passes_on_a_graph():
    graph, votes, y = chain_of_three_classes(300)
    gold = np.where(np.arange(300)[:, None] < 100, y, -1)
    model = fs.LabelModel(graph, method="em").fit(votes, gold=gold)
    assert model.score(votes, y) > 0.85
    with pytest.raises(OptionError, match="`gold`"):
        fs.LabelModel(graph, method="decomposition").fit(votes, gold=gold)
    with pytest.raises(OptionError, match="votes themselves"):
        fs.LabelModel(graph, method="auto").fit_moments(fs.Moments.of(votes, graph))
