"""Label models on graphs, against exact enumeration."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.estimation.units import UnitTable, latent_of_moments
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError, VotesError
from flyingsquid.files.state import State, write_state
from flyingsquid.fits.graph import GraphFit
from flyingsquid.models._fitted import FitState, Fitted
from flyingsquid.moments import ConfusionTables
from flyingsquid.votes.patterns import all_patterns
from tests.oracle.graphs import Model, margin, random_model
from tests.support.errors import mentions
from tests.support.strategies import graph_of

pytestmark = pytest.mark.slow

Edges = list[tuple[int, int]]
N = 1e12  # so many items that no cell is rare and half a vote is nothing


def system_matrix(s):
    """The paper's A_s, shape (2·3^s, 2·3^s).

    Rows are entries of r: the last source slowest in the order absent, in Z, in U; Y fastest, absent then in
    Z. Columns are cells of μ: the last source slowest in the order 1, 0, -1; Y fastest, 1 then -1.
    """
    same, other = np.array([[1.0, 1], [1, 0]]), np.array([[0.0, 0], [0, 1]])
    plain = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 0]])
    flipped = np.array([[0.0, 0, 0], [0, 0, 1], [0, 0, 0]])
    for _ in range(s):
        same, other = (
            np.kron(plain, same) + np.kron(flipped, other),
            np.kron(flipped, same) + np.kron(plain, other),
        )
    return same


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
TRIPLES = [(3 * g + a, 3 * g + b) for g in range(3) for a, b in ((0, 1), (0, 2), (1, 2))]
LARGE: dict[str, tuple[tuple[int, ...], Edges, Edges]] = {"three triples": ((0,) * 9, [], TRIPLES)}
LINEAR = fs.solvers.Triplet(cliques="linear")
SYMMETRIC = ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best")]


def fit_exactly(model: Model, graph: fs.DependencyGraph, **options) -> fs.LabelModel:
    """Fit on every possible row, weighted by its exact probability."""
    weights = model.joint().reshape(len(model.patterns()), -1).sum(axis=1)
    votes = fs.Votes(model.patterns(), (0, 1))
    balance = model.balance()
    options.setdefault("class_balance", balance[0] if graph.n_tasks == 1 else balance)
    return fs.LabelModel(graph, **options).fit(votes, sample_weight=N * weights)


def assert_exact(model: Model, fitted: fs.LabelModel, graph: fs.DependencyGraph) -> None:
    np.testing.assert_allclose(fitted.confusion_, model.confusion(), atol=1e-10)
    np.testing.assert_allclose(np.atleast_2d(fitted.class_balance_), model.balance(), atol=1e-10)
    for edge, table in zip(graph.task_edges, fitted.task_tables_, strict=True):
        np.testing.assert_allclose(table, margin(model.truths, edge), atol=1e-10)
    posterior = fitted.predict_proba(fs.Votes(model.patterns(), (0, 1)))
    expected = model.posterior()
    occurs = np.isfinite(expected).all(axis=(1, 2))
    np.testing.assert_allclose(posterior.reshape(expected.shape)[occurs], expected[occurs], atol=1e-10)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("biased", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("method", SYMMETRIC)
def test_exact_moments_give_exact_parameters(name, method, biased):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(len(name)), graph.n_tasks, *GRAPHS[name], biased=biased)
    assert_exact(model, fit_exactly(model, graph, method=method), graph)


@pytest.mark.parametrize("method", ["covariance", "quadratic"])
@pytest.mark.parametrize("balance", ["given", pytest.param("estimate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GRAPHS)
def test_asymmetric_sources_stay_exact(name, method, balance):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(len(name)), graph.n_tasks, *GRAPHS[name], symmetric=False)
    options = {"class_balance": "estimate"} if balance == "estimate" else {}
    assert_exact(model, fit_exactly(model, graph, method=method, **options), graph)


@pytest.mark.parametrize("name", ["pair", "clique of three", "shared node"])
def test_sources_that_abstain_together_stay_exact(name):
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(1), 1, *GRAPHS[name], joint_abstaining=True)
    assert_exact(model, fit_exactly(model, graph), graph)


def test_a_grid_is_exact():
    graph = fs.DependencyGraph.grid(2, 3, 2)
    model = random_model(
        np.random.default_rng(0), 6, graph.source_task, list(graph.task_edges), [], abstains=False
    )
    assert_exact(model, fit_exactly(model, graph), graph)


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
        with pytest.raises(NotIdentifiableError, match="`cliques` must be"):
            fit_exactly(model, graph, method=LINEAR)
    else:
        assert_exact(model, fit_exactly(model, graph, method=LINEAR), graph)


def test_the_linear_system_is_that_of_the_paper():
    """Norms, determinants and A mu = r by enumeration, for one to three sources."""
    norms = {1: (3.186, 2.203, -2), 2: (6.348, 3.113, -128), 3: (12.81, 4.626, -(2**35))}
    for s, (norm, inverse, determinant) in norms.items():
        a = system_matrix(s)
        assert np.linalg.norm(a, 2) == pytest.approx(norm, rel=1e-3)
        assert np.linalg.norm(np.linalg.inv(a), 2) == pytest.approx(inverse, rel=1e-3)
        assert np.linalg.det(a) == pytest.approx(determinant, rel=1e-6)


@pytest.mark.parametrize("s", [1, 2, 3])
def test_the_system_turns_cells_into_entries(s):
    """A mu = r for a random table, with every entry P(product over Z = 1, U silent) summed up by hand."""
    cells = np.random.default_rng(s).dirichlet(np.ones(2 * 3**s))
    outcomes = [  # as the columns of A: last source slowest, 1, 0, -1; Y fastest, 1, -1
        (*votes[::-1], y) for votes in itertools.product((1, 0, -1), repeat=s) for y in (1, -1)
    ]
    entries = []
    for roles in itertools.product("-ZU", repeat=s):
        for with_truth in (False, True):
            total = 0.0
            for (*votes, y), mass in zip(outcomes, cells, strict=True):
                pairs = list(zip(votes, roles[::-1], strict=True))
                silent = all(vote == 0 for vote, role in pairs if role == "U")
                product = np.prod([vote for vote, role in pairs if role == "Z"] + [y] * with_truth)
                total += mass * (silent and product == 1)
            entries.append(total)
    np.testing.assert_allclose(system_matrix(s) @ cells, entries, atol=1e-14)


@pytest.mark.parametrize("s", [1, 2, 3])
def test_moments_with_the_truth_determine_the_joint_votes(s):
    """E[1{votes} Y] of a random table, from E[Y times the product over Z, U silent] summed up by hand."""
    votes = 2 * all_patterns(s, 2).astype(int) - 1
    votes[votes < -1] = 0
    latent = np.random.default_rng(s).uniform(-1, 1, 3**s)
    moments = np.empty((3,) * s)
    for roles in np.ndindex(moments.shape):
        silent = (votes[:, np.array(roles) == 2] == 0).all(axis=1)
        moments[roles] = latent @ (silent * votes[:, np.array(roles) == 1].prod(axis=1))
    np.testing.assert_allclose(latent_of_moments(moments), latent, atol=1e-14)


@pytest.mark.parametrize(
    "graph",
    [
        ((0,) * 4, [], [(0, 1), (2, 3)]),
        ((0,) * 3, [], [(0, 1)]),
        ((0, 0, 0, 1, 1, 1), [(0, 1)], [(0, 1)]),
        ((0, 0, 0, 1, 1, 1, 2, 2, 2), [(0, 1), (1, 2)], [(3, 4)]),
    ],
)
def test_the_linear_system_needs_one_group_outside_the_unit(graph):
    """With a single one there is no triplet for a product, and parity takes its place."""
    model = random_model(np.random.default_rng(3), max(graph[0]) + 1, *graph)
    assert_exact(model, fit_exactly(model, graph_of(*graph), method=LINEAR), graph_of(*graph))


def test_linear_cliques_refuse_a_task_whose_only_sources_are_a_pair():
    source_task, edges, pair = GRAPHS["chain, a task that is one pair"]
    model = random_model(np.random.default_rng(3), 3, source_task, edges, pair)
    with pytest.raises(NotIdentifiableError, match="`cliques` must be 'instrument'"):
        fit_exactly(model, graph_of(source_task, edges, pair), method=LINEAR)


def test_a_joint_table_of_tasks_may_be_given():
    source_task, edges, _ = GRAPHS["triangle"]
    graph = graph_of(source_task, edges)
    rng = np.random.default_rng(4)
    model = random_model(rng, 3, source_task, edges, [])
    # No pairwise model: a three-way interaction that edges cannot say.
    truths = model.truths * np.exp(0.5 * np.einsum("i,j,k->ijk", *[np.array([-1.0, 1.0])] * 3))
    model = Model(truths / truths.sum(), model.groups)
    for given in (model.truths, model.truths.ravel()):
        assert_exact(model, fit_exactly(model, graph, class_balance=given), graph)


def test_one_source_at_the_end_of_a_chain_is_judged_by_the_class_balance_or_refused():
    source_task, edges = (0, 1, 1, 2, 2), [(0, 1), (1, 2)]
    graph = graph_of(source_task, edges)
    model = random_model(np.random.default_rng(0), 3, source_task, edges, [])
    fitted = fit_exactly(model, graph)
    assert_exact(model, fitted, graph)
    assert "task 0" in fitted.diagnostics_.reason
    with pytest.raises(NotIdentifiableError, match=r"Task 0: .*got 2"):
        fit_exactly(model, graph, class_balance="uniform")
    with pytest.raises(NotIdentifiableError, match=r"Task 0: .*got 2"):
        fit_exactly(model, graph, method="covariance")


@pytest.mark.parametrize("edges", [[(0, 1), (2, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (1, 2)]])
def test_one_or_two_groups_need_an_imbalanced_balance(edges):
    source_task = (0,) * (3 if len(edges) == 3 and (1, 2) in edges and (0, 2) in edges else 4)
    graph = graph_of(source_task, (), edges)
    model = random_model(np.random.default_rng(5), 1, source_task, [], edges)
    fitted = fit_exactly(model, graph)
    assert_exact(model, fitted, graph)
    assert "by the class balance" in fitted.diagnostics_.reason
    with pytest.raises(NotIdentifiableError, match="three groups"):
        fit_exactly(model, graph, class_balance="uniform")
    with pytest.raises(OptionError, match="`signs` must not name"):
        fit_exactly(model, graph, signs={0: -1})
    with pytest.raises(OptionError, match="`triplets` must not name"):
        fit_exactly(model, graph, method=fs.solvers.Triplet("best", [(0, 1, 2)]))


def test_gold_labels_stand_in_for_a_balance():
    edges = [(0, 1), (2, 3)]
    model = random_model(np.random.default_rng(5), 1, (0,) * 4, [], edges)
    votes, truths = model.sample(4_000, np.random.default_rng(0))
    fitted = fs.LabelModel(graph_of((0,) * 4, (), edges)).fit(fs.Votes(votes, (0, 1)), gold=truths[:, 0])
    np.testing.assert_allclose(fitted.confusion_, model.confusion(), atol=0.05)


# ---------------------------------------------------------------------- inference from given parameters


def with_parameters(model: Model, graph: fs.DependencyGraph, temper: float = 1.0) -> fs.LabelModel:
    """Return a fitted model whose parameters are the true ones."""
    tables = model.confusion()
    units = []
    for tree in graph._units:
        sources, _, table = next(group for group in model.groups if tree.cliques[0][0] in group[0])
        for clique, separator in zip(tree.cliques, tree.separators, strict=True):
            axes = tuple(sources.index(i) for i in clique)
            part = margin(table, (*axes, table.ndim - 1))
            # States count with the first source fastest.
            flat = np.stack([part[..., k].T.ravel() for k in (0, 1)])
            units.append(UnitTable(clique, separator, flat))
    moments = fs.Moments.of(fs.Votes(np.zeros((1, graph.n_sources), np.int8), (0, 1)), graph)
    fit = GraphFit(
        classes=(0, 1),
        source_names=moments.source_names,
        method="given",
        balance_note="",
        class_balance=model.balance(),
        accuracies=np.full(graph.n_sources, 0.5),
        confusion=ConfusionTables.of(tables),
        graph=graph,
        temper=temper,
        units=tuple(units),
        clique_tables=tuple(margin(model.truths, clique) for clique in graph._task_tree.cliques),
        silence_counts=True,
        edge_excess=(),
        mismatch=0.0,
    )
    given = fs.LabelModel(graph)
    given._state = FitState(Fitted.of(fit, moments))
    return given


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


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (50, 100, 150, 200, 250))]
)
def test_posterior_map_and_likelihood_equal_enumeration(first):
    for seed in range(first, first + 50):
        assert_enumerated(np.random.default_rng(seed))


def assert_enumerated(rng: np.random.Generator) -> None:
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


# ---------------------------------------------------------------------- sampling


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["chain, three a task", "chain, two a task", "clique of three", "chain with a pair"]
)
@pytest.mark.parametrize("method", ["triplet", "covariance"])
def test_errors_shrink_with_the_root_of_the_number_of_items(name, method):
    """Of the tables of single sources and of the tasks, and of the joint tables of units."""
    graph = graph_of(*GRAPHS[name])
    model = random_model(np.random.default_rng(3), graph.n_tasks, *GRAPHS[name])
    balance = model.balance()
    rng = np.random.default_rng(0)

    def rmse(n: int) -> float:
        errors = []
        for _ in range(25):
            votes, _ = model.sample(n, rng)
            fitted = fs.LabelModel(
                graph, method=method, class_balance=balance[0] if graph.n_tasks == 1 else balance
            ).fit(fs.Votes(votes, (0, 1)))
            errors.append((fitted.confusion_ - model.confusion()).ravel())
            for edge, table in zip(graph.task_edges, fitted.task_tables_, strict=True):
                errors.append((table - margin(model.truths, edge)).ravel())
            assert isinstance(fitted.fit_, GraphFit)
            for unit in fitted.fit_.units:
                exact = next(t for sources, _, t in model.groups if unit.sources[0] in sources)
                errors.append((unit.table - np.stack([exact[..., k].T.ravel() for k in (0, 1)])).ravel())
        return float(np.sqrt(np.mean(np.square(np.concatenate(errors)))))

    assert rmse(4_000) / rmse(64_000) == pytest.approx(4, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [1.0, 0.6])
@pytest.mark.parametrize(
    "edges", [[(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]]
)
def test_declared_dependencies_that_are_absent_cost_little(edges, coverage):
    rng, with_edges, without = np.random.default_rng(0), [], []
    for _ in range(20):
        sample = fs.datasets.simulate(10_000, rng.uniform(0.6, 0.9, 10), coverage=coverage, random_state=rng)
        declared = fs.LabelModel(fs.DependencyGraph(10, source_edges=edges)).fit(sample.votes)
        with_edges.append(declared.score(sample.votes, sample.y))
        without.append(fs.LabelModel().fit(sample.votes).score(sample.votes, sample.y))
    assert np.mean(with_edges) > np.mean(without) - 0.003


def test_declaring_a_copied_source_helps():
    """Two sources that copy a third one: declared, they count about once."""
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(5_000, [0.65, 0.8, 0.8, 0.8, 0.75], random_state=rng)
    codes = np.asarray(sample.votes.codes)
    copies = np.where(rng.random((5_000, 2)) < 0.9, codes[:, :1], rng.integers(0, 2, (5_000, 2)))
    votes = np.column_stack([copies, codes]).astype(np.int8)
    graph = fs.DependencyGraph(7, source_edges=[(0, 1), (0, 2), (1, 2)])
    assert fs.LabelModel(graph).fit(votes).score(votes, sample.y) > (
        fs.LabelModel(method="triplet").fit(votes).score(votes, sample.y) + 0.02
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("two pairs", "triplet"),
        ("chain, two a task", "triplet"),
        ("three triples", "covariance"),
        ("three triples", "triplet"),
    ],
)
def test_intervals_cover_on_graphs(name, method):
    parts = {**GRAPHS, **LARGE}[name]
    graph = graph_of(*parts)
    model = random_model(np.random.default_rng(3), graph.n_tasks, *parts)
    balance, rng, inside = model.balance(), np.random.default_rng(0), []
    tables = np.array([np.array(balance[task]) for task in graph.source_task])[:, :, None] * model.confusion()
    truth = np.einsum("mkk->m", tables[:, :, :2]) / tables[:, :, :2].sum(axis=(1, 2))
    for _ in range(120):
        votes, _ = model.sample(4_000, rng)
        given = balance[0] if graph.n_tasks == 1 else balance
        fitted = fs.LabelModel(graph, method=method, class_balance=given).fit(fs.Votes(votes, (0, 1)))
        low, high = fitted.accuracies_interval_.T
        inside.append((low <= truth) & (truth <= high))
    assert 0.92 < np.mean(inside) < 0.98


# ---------------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def frames():
    graph = fs.DependencyGraph.chain(4, 4, source_edges=[(0, 1)])
    edges = list(graph.task_edges), list(graph.source_edges)
    model = random_model(np.random.default_rng(6), 4, graph.source_task, *edges)
    votes, truths = model.sample(3_000, np.random.default_rng(0))
    return graph, votes, truths


def test_shapes_of_a_chain(frames):
    graph, votes, truths = frames
    model = fs.LabelModel(graph).fit(votes)
    assert model.predict_proba(votes).shape == (3_000, 4, 2)
    assert model.predict(votes).shape == model.predict(votes, joint=True).shape == (3_000, 4)
    assert model.class_balance_.shape == (4, 2)
    assert model.task_tables_.shape == (3, 2, 2)
    assert model.log_likelihood(votes).shape == (3_000,)
    assert model.graph_ == graph
    assert model.score(votes, truths) > 0.8
    np.testing.assert_allclose(model.predict_proba(votes).sum(axis=2), 1)


def test_votes_may_be_stacked_by_task(frames):
    graph, votes, _ = frames
    stacked = votes.reshape(-1, 4, 4)
    model = fs.LabelModel(graph).fit(stacked)
    flat = fs.LabelModel(graph).fit(votes)
    np.testing.assert_array_equal(model.predict_proba(stacked), flat.predict_proba(votes))
    assert fs.Moments.of(stacked, graph) == fs.Moments.of(votes, graph)
    with pytest.raises(VotesError, match=mentions("4 tasks", "4 sources", "(3000, 4, 3)")):
        model.predict_proba(votes[:, :12].reshape(-1, 4, 3))


def test_dependence_of_tasks_is_learned_by_default(frames):
    """A chain with a uniform balance must not ignore its edges."""
    graph, votes, truths = frames
    alone = fs.DependencyGraph(16, 4, source_edges=graph.source_edges)
    together, apart = (
        fs.LabelModel(graph, class_balance="uniform"),
        fs.LabelModel(alone, class_balance="uniform"),
    )
    assert together.fit(votes).score(votes, truths) > apart.fit(votes).score(votes, truths) + 0.01
    silent = np.full((1, 16), -1, np.int8)
    silent[0, :4] = votes[np.flatnonzero((votes[:, :4] == 1).all(axis=1))[0], :4]
    posterior = together.predict_proba(silent)[0]
    assert abs(posterior[1, 1] - together.class_balance_[1, 1]) > 0.05  # though nobody votes on task 1
    np.testing.assert_allclose(apart.predict_proba(silent)[0, 1:], 0.5)


def test_counts_merge_and_fit_alike(frames):
    graph, votes, _ = frames
    whole = fs.Moments.of(votes, graph)
    parts = fs.Moments.of(votes[:1000], graph) + fs.Moments.of(votes[1000:], graph)
    assert parts == whole
    assert whole - fs.Moments.of(votes[1000:], graph) == fs.Moments.of(votes[:1000], graph)
    by_counts = fs.LabelModel(graph).fit_moments(whole)
    in_parts = fs.LabelModel(graph).partial_fit(votes[:1000]).partial_fit(votes[1000:])
    np.testing.assert_array_equal(
        by_counts.predict_proba(votes), fs.LabelModel(graph).fit(votes).predict_proba(votes)
    )
    np.testing.assert_array_equal(by_counts.predict_proba(votes), in_parts.predict_proba(votes))


def test_only_the_pairs_that_the_graph_needs_are_counted():
    graph = fs.DependencyGraph.chain(500, 6)
    moments = fs.Moments.of(np.zeros((2, 3000), np.int8), graph)
    assert sum(pairs.to_dense().array.size for pairs in moments._pairs) == 499 * 4 * 12 * 12
    with pytest.raises(fs.FlyingSquidError, match="pairs"):
        moments.pair_counts  # noqa: B018


def test_unit_counts_equal_a_loop():
    rng = np.random.default_rng(0)
    codes = rng.integers(-2, 2, (300, 5)).astype(np.int8)
    graph = fs.DependencyGraph(5, source_edges=[(1, 3), (3, 4)])
    weights = rng.integers(0, 4, 300)
    dense = fs.Moments.of(fs.Votes(codes, (0, 1)), graph, sample_weight=weights)
    sparse = fs.Votes.from_sparse(csr_array(np.maximum(codes, -1) + 1))
    again = fs.Moments.of(sparse, graph, sample_weight=weights)
    assert all(map(np.array_equal, dense._units, again._units))
    for unit, _, counts in dense.unit_votes():
        expected = np.zeros_like(counts)
        for row, weight in zip(np.maximum(codes, -1), weights, strict=True):
            state = sum((row[i] + 1) * 3**digit for digit, i in enumerate(unit))
            expected[state, 0] += weight
            for j, vote in enumerate(row):
                if vote >= 0:
                    expected[state, 1 + vote * 5 + j] += weight
        np.testing.assert_array_equal(counts, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kernel_items", [40, 4_000])
def test_units_are_counted_alike_by_every_kernel(kernel_items):
    codes = np.random.default_rng(1).integers(-1, 2, (kernel_items, 7)).astype(np.int8)
    graph = fs.DependencyGraph(7, source_edges=[(0, 1), (2, 6)])
    parts = [fs.Moments.of(codes[i : i + 1], graph) for i in range(0, kernel_items)]
    assert sum(parts[1:], parts[0]) == fs.Moments.of(codes, graph)


def test_classes_in_another_order_are_aligned():
    codes = np.random.default_rng(1).integers(-1, 2, (200, 5)).astype(np.int8)
    graph = fs.DependencyGraph(5, source_edges=[(0, 1), (1, 2)])
    turned = np.where(codes < 0, codes, 1 - codes).astype(np.int8)
    one = fs.Moments.of(fs.Votes(codes, ("no", "yes")), graph)
    other = fs.Moments.of(fs.Votes(turned, ("yes", "no")), graph)
    assert other.aligned_to(one) == one


@pytest.mark.parametrize("options", [{}, {"temper": "auto"}, {"method": "covariance"}, {"temper": 0.5}])
def test_a_graph_survives_a_file(frames, tmp_path, options):
    graph, votes, _ = frames
    model = fs.LabelModel(graph, **options).fit(votes)
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    np.testing.assert_array_equal(again.predict(votes, joint=True), model.predict(votes, joint=True))
    np.testing.assert_array_equal(again.log_likelihood(votes), model.log_likelihood(votes))
    np.testing.assert_array_equal(again.task_tables_, model.task_tables_)
    assert again.graph_ == graph == again.graph
    assert again.moments_ == model.moments_
    assert str(again.summary()) == str(model.summary())
    fs.Moments.of(votes, graph).save(tmp_path / "counts.fsq")
    assert fs.load(tmp_path / "counts.fsq") == model.moments_
    assert again.partial_fit(votes).moments_.n_items == 6_000


def test_scikit_learn_can_handle_graphs(frames):
    graph, votes, _ = frames
    model = fs.LabelModel(graph, method=fs.solvers.Triplet("median"))
    assert clone(model).graph == graph
    assert clone(model).get_params() == model.get_params()
    fitted = pickle.loads(pickle.dumps(model.fit(votes)))
    np.testing.assert_array_equal(fitted.predict_proba(votes), model.predict_proba(votes))


def test_gold_labels_of_tasks(frames):
    graph, votes, truths = frames
    gold = np.where(np.arange(3_000)[:, None] < 150, truths, -1)
    model = fs.LabelModel(graph).fit(votes, gold=gold)
    assert abs(model.class_balance_[:, 1] - truths[:150].mean(axis=0)).max() < 0.08
    assert model.score(votes, gold) == model.score(votes[:150], truths[:150])
    # Known on every item, they leave nothing to estimate, of single sources and of units.
    told = fs.LabelModel(graph).fit(votes, gold=truths)
    for source, task in enumerate(graph.source_task):
        for k in (0, 1):
            cast = votes[truths[:, task] == k, source]
            expected = [(cast == vote).mean() for vote in (0, 1, -1)]
            np.testing.assert_allclose(told.confusion_[source, k], expected, atol=2e-3)
    for unit in told.fit_.units:
        states = (votes[:, list(unit.sources)] + 1) @ 3 ** np.arange(len(unit.sources))
        of_class = states[truths[:, graph.source_task[unit.sources[0]]] == 1]
        np.testing.assert_allclose(
            unit.table[1], np.bincount(of_class, minlength=9) / len(of_class), atol=2e-3
        )
    with pytest.raises(VotesError, match=r"\(3000, 4\)"):
        fs.LabelModel(graph).fit(votes, gold=gold[:, 0])


def test_an_item_is_explained_by_its_own_votes_and_by_other_tasks(frames):
    graph, votes, _ = frames
    model = fs.LabelModel(graph, temper=0.7).fit(votes)
    for task in range(4):
        why = model.explain(votes[0], task=task)
        posterior = model.predict_proba(votes[:1])[0, task]
        best = model.classes_.tolist().index(why.predicted)
        assert why.log_odds == pytest.approx(np.log(posterior[best] / posterior[1 - best]), abs=1e-9)
        assert why.probabilities == pytest.approx(tuple(posterior))
        names = [c.source for c in why.contributions]
        assert f"source {4 * task} & source {4 * task + 1}" in names
        assert "other tasks" in names
    with pytest.raises(OptionError, match="`task` must be"):
        model.explain(votes[0])
    with pytest.raises(OptionError, match=r"`task` must be .* from 0 to 3; got 4"):
        model.explain(votes[0], task=4)


def test_summary_and_diagnostics_of_a_graph(frames):
    graph, votes, _ = frames
    model = fs.LabelModel(graph).fit(votes)
    assert len(model.summary().to_dict()["source"]) == 16
    found = model.diagnostics_
    assert found.fit_test is not None
    assert found.fit_test.p_value > 1e-4
    assert np.isfinite(model.accuracies_interval_).all()
    ignored = fs.LabelModel(fs.DependencyGraph.chain(4, 4)).fit(votes)
    assert ignored.diagnostics_.fit_test.p_value < 1e-6  # the pairs that were not declared are noticed


def test_excess_correlation_and_temper():
    """Errors that persist from frame to frame are seen, and tempered."""
    rng, n, d = np.random.default_rng(0), 4_000, 6
    truths = np.empty((n, d), int)
    truths[:, 0] = rng.integers(0, 2, n)
    wrong = np.empty((n, d, 4), bool)
    wrong[:, 0] = rng.random((n, 4)) < 0.3
    for t in range(1, d):
        truths[:, t] = np.where(rng.random(n) < 0.9, truths[:, t - 1], 1 - truths[:, t - 1])
        again = rng.random((n, 4)) < 0.6
        wrong[:, t] = np.where(again, wrong[:, t - 1], rng.random((n, 4)) < 0.3)
    votes = np.where(wrong, 1 - truths[:, :, None], truths[:, :, None]).astype(np.int8)
    graph = fs.DependencyGraph.chain(d, 4)
    plain, tempered = fs.LabelModel(graph).fit(votes), fs.LabelModel(graph, temper="auto").fit(votes)
    assert plain.temper_ == 1
    # Neighboring truths correlate .8, and errors .6.
    assert np.mean(plain.excess_correlation_) == pytest.approx(0.8 * 0.6, abs=0.03)
    assert tempered.temper_ == pytest.approx(
        (1 - np.mean(plain.excess_correlation_)) / (1 + np.mean(plain.excess_correlation_)), rel=0.05
    )

    def log_loss(model):
        return -np.mean(np.log(np.take_along_axis(model.predict_proba(votes), truths[:, :, None], axis=2)))

    assert log_loss(tempered) < log_loss(plain) - 0.005
    independent = fs.LabelModel(graph).fit(model_votes(rng, n))
    assert abs(np.nanmean(independent.excess_correlation_)) < 0.02


def model_votes(rng: np.random.Generator, n: int) -> np.ndarray:
    graph = fs.DependencyGraph.chain(6, 4)
    model = random_model(rng, 6, graph.source_task, list(graph.task_edges), [], abstains=False)
    return model.sample(n, rng)[0]


# ---------------------------------------------------------------------- bad input


def test_bad_input_is_named(frames):
    graph, votes, _ = frames
    with pytest.raises(GraphError, match="16 sources for 15 columns"):
        fs.LabelModel(graph).fit(votes[:, :15])
    with pytest.raises(OptionError, match="`graph` must be a DependencyGraph"):
        fs.LabelModel("chain").fit(votes)
    for solver in (fs.solvers.Triplet, fs.solvers.Marginal):
        with pytest.raises(OptionError, match=r"`cliques` must be .*got 'exact'"):
            solver(cliques="exact")
    with pytest.raises(OptionError, match="`graph` must have source edges"):
        fs.LabelModel(method=LINEAR).fit(votes)
    four = fs.DependencyGraph(8, source_edges=[(a, b) for a in range(4) for b in range(a)])
    with pytest.raises(GraphError, match="at most 3 sources"):
        fs.LabelModel(four, method=LINEAR).fit(votes[:, :8])
    for temper in (0, 1.5, "always", True, float("nan")):
        with pytest.raises(OptionError, match="`temper`"):
            fs.LabelModel(graph, temper=temper).fit(votes)
    with pytest.raises(OptionError, match=r"`temper`.*task edges"):
        fs.LabelModel(temper=0.5).fit(votes)
    uneven = fs.DependencyGraph.chain(2, [9, 7])
    with pytest.raises(OptionError, match="same sources"):
        fs.LabelModel(uneven, temper="auto").fit(votes)
    with pytest.raises(GraphError, match=r"Moments\.of"):
        fs.LabelModel(graph).fit_moments(fs.Moments.of(votes))
    with pytest.raises(GraphError, match=r"Moments\.of"):
        fs.LabelModel().fit_moments(fs.Moments.of(votes, graph))
    with pytest.raises(fs.FlyingSquidError, match="different graphs"):
        fs.Moments.of(votes, graph) + fs.Moments.of(votes)
    with pytest.raises(OptionError, match="`tie_break`"):
        fs.LabelModel(graph).fit(votes).predict(votes, "abstain", joint=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full((3, 2), 0.5), r"shape \(3, 2\)"),
        ([0.5, 0.6], "sums to"),
        (np.full((4, 2), 0.4), "sums to"),
        (np.full(16, 0.1), "must sum to 1.*1.6"),
        (np.eye(16)[0], "> 0 in every cell"),
        ([["a", "b"]], "array of numbers"),
        (np.full((4, 3), 1 / 3), r"shape \(4, 3\)"),
    ],
)
def test_bad_balances_of_tasks(frames, given, message):
    graph, votes, _ = frames
    with pytest.raises(OptionError, match=message):
        fs.LabelModel(graph, class_balance=given).fit(votes)


def test_two_tasks_read_a_square_by_its_sum():
    graph = fs.DependencyGraph.chain(2, 3)
    votes = np.random.default_rng(0).integers(0, 2, (50, 6))
    votes[:, 1:3] = votes[:, :1]
    votes[:, 4:] = votes[:, 3:4]
    flips = np.random.default_rng(1).random(votes.shape) < 0.2
    votes = np.where(flips, 1 - votes, votes)
    per_task = fs.LabelModel(graph, class_balance=[[0.4, 0.6], [0.3, 0.7]]).fit(votes)
    np.testing.assert_allclose(per_task.class_balance_, [[0.4, 0.6], [0.3, 0.7]])
    joint = fs.LabelModel(graph, class_balance=[[0.1, 0.3], [0.2, 0.4]]).fit(votes)
    np.testing.assert_allclose(joint.class_balance_, [[0.4, 0.6], [0.3, 0.7]])
    np.testing.assert_allclose(joint.task_tables_[0], [[0.1, 0.3], [0.2, 0.4]])


@pytest.mark.parametrize("temper", [0.3, 0.8])
def test_tempering_weakens_the_evidence_of_other_tasks_only(temper):
    """Against enumeration; and near 0 every task stands alone."""
    graph = graph_of(*GRAPHS["chain, three a task"])
    model = random_model(np.random.default_rng(9), 3, *GRAPHS["chain, three a task"])
    rows = model.sample(40, np.random.default_rng(0))[0]
    votes, fitted = fs.Votes(rows, (0, 1)), with_parameters(model, graph, temper)
    each = np.stack(
        [
            np.prod([model.confusion()[i][:, rows[:, i]] for i in graph.sources_of(d)], axis=0)
            for d in range(3)
        ]
    )  # (D, 2, rows): P(votes on task d | Y_d)
    joint = np.einsum("ijk,in,jn,kn->nijk", model.truths, *(each**temper))
    for task, others in enumerate([(2, 3), (1, 3), (1, 2)]):
        expected = joint.sum(axis=others) * each[task].T ** (1 - temper)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fitted.predict_proba(votes)[:, task], expected, atol=1e-10)
    apart = with_parameters(model, graph, 1e-12)
    alone = model.balance()[:, :, None] * each
    np.testing.assert_allclose(
        apart.predict_proba(votes), (alone / alone.sum(axis=1, keepdims=True)).transpose(2, 0, 1), atol=1e-10
    )


def test_a_detector_that_never_fires_on_one_frame_is_helped_by_neighbors():
    graph = fs.DependencyGraph.chain(3, 3)
    model = random_model(np.random.default_rng(2), 3, graph.source_task, list(graph.task_edges), [])
    votes, _ = model.sample(20_000, np.random.default_rng(0))
    votes[:, 1] = -1
    with pytest.warns(fs.exceptions.SourceWarning, match="always abstain"):
        fitted = fs.LabelModel(graph, class_balance=model.balance()).fit(fs.Votes(votes, (0, 1)))
    judged = [0, *range(2, 9)]
    np.testing.assert_allclose(fitted.confusion_[judged], model.confusion()[judged], atol=0.05)


def test_a_one_sided_source_is_no_raw_instrument():
    """A pair and a source that only says yes on one task; three good sources on the next one."""
    parts = ((0, 0, 0, 1, 1, 1), [(0, 1)], [(0, 1)])
    rng = np.random.default_rng(0)
    model = random_model(rng, 2, *parts, abstains=False)
    one_sided = np.zeros((3, 2))
    one_sided[:, 0], one_sided[:, 1] = [0.95, 0, 0.05], [0.4, 0, 0.6]  # no vote, class 0, class 1
    groups = tuple((s, t, one_sided) if s == (2,) else (s, t, table) for s, t, table in model.groups)
    model = Model(model.truths, groups)
    votes, _ = model.sample(50_000, rng)
    with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
        fitted = fs.LabelModel(graph_of(*parts), class_balance=model.balance()).fit(fs.Votes(votes, (0, 1)))
    unit = fitted.fit_.units[0]
    exact = np.stack([model.groups[0][2][..., k].T.ravel() for k in (0, 1)])
    np.testing.assert_allclose(unit.table, exact, atol=0.03)


def test_tables_of_units_agree_on_what_they_share():
    """Also where cells are rare and clipped."""
    parts = GRAPHS["star of three"]
    votes, _ = random_model(np.random.default_rng(0), 1, *parts).sample(300, np.random.default_rng(1))
    fitted = fs.LabelModel(graph_of(*parts)).fit(fs.Votes(votes, (0, 1)))
    margins = [unit.margin((0,)) for unit in fitted.fit_.units]
    assert len(margins) == 3
    for margin_of_unit in margins[1:]:
        np.testing.assert_allclose(margin_of_unit, margins[0], atol=1e-12)
    np.testing.assert_allclose(fitted.confusion_[0], margins[0][:, [1, 2, 0]], atol=1e-12)
    np.testing.assert_allclose([unit.table.sum(axis=1) for unit in fitted.fit_.units], 1, atol=1e-9)


def test_given_triplets_need_not_judge_helpers():
    graph = graph_of(*GRAPHS["chain, two a task"])
    model = random_model(np.random.default_rng(2), 3, *GRAPHS["chain, two a task"])
    triplets = [(0, 1, 2), (2, 3, 4), (4, 5, 3)]
    assert_exact(model, fit_exactly(model, graph, method=fs.solvers.Triplet("best", triplets)), graph)


def test_errors_persist_under_a_given_joint_table_too():
    graph = fs.DependencyGraph.chain(2, 4)
    votes = fs.datasets.simulate_sequence(
        4_000, [0.7] * 4, persistence=0.5, error_persistence=0.6, lengths=[2] * 2_000,
        random_state=0,
    ).votes  # fmt: skip
    stacked = np.asarray(votes.codes).reshape(2_000, 2, 4)
    model = fs.LabelModel(graph, class_balance=[[0.375, 0.125], [0.125, 0.375]], temper="auto").fit(stacked)
    assert model.temper_ < 0.7
    assert model.diagnostics_.verdict.kind == "unproven"
    assert "persist" in str(model.diagnostics_.verdict)


@pytest.mark.slow
def test_the_error_of_a_pair_of_tasks_is_calibrated():
    graph = fs.DependencyGraph.chain(2, 6)
    model = random_model(np.random.default_rng(4), 2, graph.source_task, [(0, 1)], [], abstains=False)
    truth = 4 * (margin(model.truths, (0, 1))[1, 1] - np.prod(model.balance()[:, 1]))
    rng, z = np.random.default_rng(0), []
    for _ in range(200):
        votes, _ = model.sample(2_000, rng)
        fitted = fs.LabelModel(graph, class_balance=model.balance()).fit(fs.Votes(votes, (0, 1)))
        pair = fitted.fit_.assessment.tasks.pairs[0]
        z.append((pair.covariance - truth) / pair.error)
    assert 0.8 < np.std(z) < 1.25


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_the_likelihood_is_a_distribution_whatever_the_balance():
    sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.7, 0.65], coverage=0.6, random_state=0)
    every = fs.Votes(all_patterns(4, 2), (0, 1))
    sums = []
    for p in (0.1, 0.5):
        model = fs.LabelModel(class_balance=[p, 1 - p]).fit(sample.votes)
        assert np.exp(model.log_likelihood(every)).sum() == pytest.approx(1, abs=1e-5)
        sums.append(model.log_likelihood(sample.votes).sum())
    assert sums[1] > sums[0]  # the even balance is the true one
    paired = fs.LabelModel(fs.DependencyGraph(4, source_edges=[(0, 1)]), class_balance=[0.2, 0.8])
    assert np.exp(paired.fit(sample.votes).log_likelihood(every)).sum() == pytest.approx(1, abs=1e-5)


def test_three_dependent_sources_need_more_than_a_hair_of_imbalance_for_the_linear_system():
    sample = fs.datasets.simulate(4_000, [0.85, 0.75, 0.7, 0.65, 0.85, 0.75], coverage=0.7, random_state=2)
    graph = fs.DependencyGraph(6, source_edges=[(0, 1), (1, 2), (0, 2)])
    with pytest.raises(NotIdentifiableError, match=mentions("0.002", "4,000")):
        fs.LabelModel(graph, method=LINEAR, class_balance=[0.499, 0.501]).fit(sample.votes)


def test_triplets_that_no_truth_separates_are_refused():
    graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    votes = fs.datasets.simulate(2_000, [0.8] * 6, random_state=0).votes
    good = [(0, 2, 3), (1, 4, 5)]
    fs.LabelModel(graph, method=fs.solvers.Triplet("best", good)).fit(votes)
    with pytest.raises(OptionError, match="independent given the truth of one task"):
        fs.LabelModel(graph, method=fs.solvers.Triplet("best", [*good, (0, 1, 2)])).fit(votes)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("fit.unit_tables", lambda a: np.where(np.arange(len(a)) == 3, np.nan, a)),
        ("fit.task_tables", lambda a: a[::-1].copy()),
        ("fit.edge_excess", lambda a: a + 5),
        ("fit.triplets_used", lambda a: a - 10**6),
        ("fit.errors", lambda a: -1 - a),
        ("fit.confusion", lambda a: a.astype(np.float32)),
        ("counts.unit_0", lambda a: a - 10**6),
    ],
)
def test_tampered_files_of_graphs_are_refused(frames, tmp_path, name, change):
    graph, votes, _ = frames
    balance = [[0.3, 0.7]] * 4
    state = fs.LabelModel(graph, class_balance=balance).fit(votes)._to_state()
    write_state(
        tmp_path / "model.fsq",
        State(state.kind, state.meta, {**state.arrays, name: change(state.arrays[name])}),
    )
    with pytest.raises(fs.exceptions.ModelFileError):
        fs.load(tmp_path / "model.fsq")


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_known_signs_decide_which_sources_are_right():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (4_000, 1))
    right = rng.random((4_000, 6)) < [0.9, 0.25, 0.3, 0.2, 0.25, 0.25]
    votes = np.where(right, y, 1 - y)
    votes[:, 5] = np.where(rng.random(4_000) < 0.6, votes[:, 4], votes[:, 5])
    graph = fs.DependencyGraph(6, source_edges=[(4, 5)])
    known = fs.LabelModel(graph, method="triplet", signs={0: 1}).fit(votes)
    np.testing.assert_allclose(known.accuracies_, [0.9, 0.25, 0.3, 0.2, 0.25, 0.25], atol=0.03)
    assumed = fs.LabelModel(graph, method="triplet").fit(votes)
    np.testing.assert_allclose(assumed.accuracies_, 1 - known.accuracies_, atol=0.03)
