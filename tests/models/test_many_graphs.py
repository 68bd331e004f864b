"""Many classes on dependency graphs, against exact enumeration."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.estimation.proportional import fit_margins
from flyingsquid.exceptions import (
    GraphError,
    ModelFileError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
)
from flyingsquid.files.state import State, write_state
from flyingsquid.fits import GraphFit
from flyingsquid.votes.patterns import all_patterns
from tests.oracle.graphs import Model, margin, random_many
from tests.support.errors import mentions
from tests.support.strategies import graph_of, votes_of

pytestmark = pytest.mark.slow

N = 1e12  # so many items that no cell is rare and half a vote is nothing
CLIQUE = [(0, 1), (0, 2), (1, 2)]
THREE_A_TASK = (0, 0, 0, 1, 1, 1, 2, 2, 2)
# name: classes, task of each source, task edges, source edges, whether sources abstain
GRAPHS: dict[str, Any] = {
    "pair": (3, (0,) * 5, [], [(0, 1)], True),
    "pair, four classes": (4, (0,) * 5, [], [(0, 1)], True),
    "clique of three": (3, (0,) * 5, [], CLIQUE, True),
    "clique of three, four classes": (4, (0,) * 5, [], CLIQUE, True),
    "shared node": (3, (0,) * 5, [], [(0, 1), (1, 2)], True),
    "chain, three a task": (3, THREE_A_TASK, [(0, 1), (1, 2)], [], False),
    "chain, two a task": (3, (0, 0, 1, 1, 2, 2), [(0, 1), (1, 2)], [], True),
    "chain, one inside, two at the ends": (3, (0, 0, 1, 2, 3, 3), [(0, 1), (1, 2), (2, 3)], [], True),
    "chain with a pair": (3, (0, 0, 0, 0, 1, 1, 1, 1), [(0, 1)], [(0, 1), (5, 6)], False),
    "chain, a task that is one pair": (3, (0, 0, 1, 1, 2, 2), [(0, 1), (1, 2)], [(2, 3)], True),
    "chain, four classes": (4, (0, 0, 0, 1, 1, 1), [(0, 1)], [], True),
    "triangle": (3, THREE_A_TASK, [(0, 1), (1, 2), (0, 2)], [], False),
    "disconnected": (3, (0, 0, 0, 1, 1, 1), [], [], True),
    "two classes": (2, (0, 0, 0, 0, 1, 1, 1, 1), [(0, 1)], [(0, 1)], True),
}


def model_of(name: str, seed: int = 0) -> tuple[Model, fs.DependencyGraph]:
    n_classes, *edges, abstains = GRAPHS[name]
    model = random_many(np.random.default_rng(seed), n_classes, *edges, abstains=abstains)
    return model, graph_of(*edges)


def fit_exactly(model: Model, graph: fs.DependencyGraph, **options) -> fs.LabelModel:
    """Fit on every possible row, weighted by its exact probability."""
    rows = model.patterns()
    votes = votes_of(rows, model.n_classes)
    return fs.LabelModel(graph, **options).fit(votes, sample_weight=N * model.evidence(rows))


def assert_exact(model: Model, fitted: fs.LabelModel, rows: np.ndarray, atol: float) -> None:
    graph, votes = fitted.graph_, votes_of(rows, model.n_classes)
    np.testing.assert_allclose(fitted.confusion_, model.confusion(), atol=atol)
    np.testing.assert_allclose(np.atleast_2d(fitted.class_balance_), model.balance(), atol=atol)
    for edge, table in zip(graph.task_edges, fitted.task_tables_, strict=True):
        np.testing.assert_allclose(table, margin(model.truths, edge), atol=atol)
    assert isinstance(fitted.fit_, GraphFit)
    for unit in fitted.fit_.units:
        np.testing.assert_allclose(unit.table, unit_of(model, unit.sources), atol=atol)
    posterior = fitted.predict_proba(votes).reshape(len(rows), graph.n_tasks, model.n_classes)
    np.testing.assert_allclose(posterior, model.posterior(rows), atol=100 * atol)
    np.testing.assert_allclose(fitted.log_likelihood(votes), np.log(model.evidence(rows)), atol=100 * atol)


def unit_of(model: Model, sources: tuple[int, ...]) -> np.ndarray:
    """P(joint votes | Y), shape (K, (K+1)^s), in the order of ``all_patterns``."""
    members, _, table = next(group for group in model.groups if set(sources) <= set(group[0]))
    axes = tuple(members.index(i) for i in sources)
    states = all_patterns(len(sources), model.n_classes) + 1
    return margin(table, (*axes, table.ndim - 1))[tuple(states.T)].T


# ---------------------------------------------------------------------- exact


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", GRAPHS)
def test_exact_moments_give_exact_parameters(name, seed):
    model, graph = model_of(name, seed)
    fitted = fit_exactly(model, graph, method="decomposition")
    assert_exact(model, fitted, model.patterns(), 1e-10)
    assert fitted.diagnostics_.method == "decomposition"


@pytest.mark.parametrize("name", ["pair", "clique of three", "chain, three a task", "chain with a pair"])
def test_passes_stay_where_they_are_exact(name):
    model, graph = model_of(name)
    fitted = fit_exactly(model, graph)
    assert fitted.diagnostics_.method == "em"
    assert_exact(model, fitted, model.patterns(), 1e-9)


@pytest.mark.parametrize(
    "name", ["pair", "chain, three a task", "chain, a task that is one pair", "triangle"]
)
def test_joint_labels_equal_enumeration(name):
    model, graph = model_of(name, seed=3)
    fitted = fit_exactly(model, graph, method="decomposition")
    rows = model.patterns()[:: max(1, len(model.patterns()) // 500)]
    labels = fitted.predict(votes_of(rows, 3), joint=True).reshape(len(rows), graph.n_tasks)
    joint = model.joint(rows)
    at = tuple(labels.T)
    best = joint.reshape(len(rows), -1).max(axis=1)
    np.testing.assert_allclose(joint[(np.arange(len(rows)), *at)], best, rtol=1e-8)


@pytest.mark.slow
def test_a_chain_of_five_is_exact():
    """4^15 rows are too many. The fit reads triples inside a task and pairs across an edge, and a coupling of
    tasks that are no neighbors keeps both: given the truths, tasks 0, 2, 4 move together, and 1 and 3."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4)]
    source_task = tuple(i // 3 for i in range(15))
    model = random_many(np.random.default_rng(1), 3, source_task, edges, [], abstains=False)
    rows, weights = coupled_rows(model, ((0, 2, 4), (1, 3)))
    votes = votes_of(rows, 3)
    fitted = fs.LabelModel(graph_of(source_task, edges), method="decomposition")
    fitted.fit(votes, sample_weight=N * weights)
    some = model.sample(300, np.random.default_rng(0))[0]
    assert_exact(model, fitted, some, 1e-9)


def coupled_rows(model: Model, blocks: tuple[tuple[int, ...], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and probabilities. Given the truths, tasks of a block are comonotone, and blocks independent."""
    patterns = np.array(np.unravel_index(np.arange(27), (3, 3, 3))).T  # votes of the three sources of a task
    tables = [table for _, _, table in model.groups]
    rows: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for y in np.ndindex(model.truths.shape):
        found, chance = np.zeros((1, 15), np.int8), np.array([model.truths[y]])
        for block in blocks:
            steps = []
            for task in block:
                single = [tables[3 * task + i][1:, y[task]] for i in range(3)]
                steps.append(np.cumsum(np.einsum("a,b,c->abc", *single).ravel()))
            ends = np.unique(np.round(np.concatenate(steps), 15))
            size, middle = np.diff(ends, prepend=0.0), ends - np.diff(ends, prepend=0.0) / 2
            part = np.zeros((len(ends), 15), np.int8)
            for task, step in zip(block, steps, strict=True):
                at = np.minimum(np.searchsorted(step, middle), 26)
                part[:, 3 * task : 3 * task + 3] = patterns[at]
            found = (found[:, None] + part[None]).reshape(-1, 15)
            chance = np.outer(chance, size).ravel()
        rows.append(found)
        weights.append(chance)
    return np.concatenate(rows), np.concatenate(weights)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["shared", "by task", "joint", "estimate"])
def test_the_class_balance_may_be_given(given):
    model, graph = model_of("chain, three a task")
    balance = {
        "shared": [0.2, 0.3, 0.5],
        "by task": model.balance(),
        "joint": model.truths,
        "estimate": "estimate",
    }[given]
    fitted = fit_exactly(model, graph, method="decomposition", class_balance=balance)
    assert ("given" in fitted.fit_.balance_note) == (given != "estimate")
    if given == "shared":
        np.testing.assert_allclose(fitted.class_balance_, [balance] * 3)
        np.testing.assert_allclose(fitted.task_tables_.sum(axis=1), [balance] * 2, atol=1e-9)
        nobody = fitted.predict_proba(np.full((1, 9), -1))
        assert nobody.shape == (1, 3, 3)
    else:
        assert_exact(model, fitted, model.patterns(), 1e-10)
    refined = fit_exactly(model, graph, class_balance=balance)
    np.testing.assert_allclose(refined.class_balance_, fitted.class_balance_, atol=1e-9)


def test_margins_keep_odds_ratios():
    rng = np.random.default_rng(0)
    table, rows, columns = rng.random((3, 4)), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    found = fit_margins(table, rows, columns)
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)

    def odds(t):
        return t[0, 0] * t[2, 3] / (t[0, 3] * t[2, 0])

    assert odds(found) == pytest.approx(odds(table))


# ---------------------------------------------------------------------- samples


@pytest.mark.parametrize("method", ["auto", "decomposition"])
@pytest.mark.parametrize("n_classes", [3, 4])
def test_labels_are_nearly_those_of_bayes_rule(n_classes, method):
    graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    model = random_many(np.random.default_rng(1), n_classes, (0,) * 6, [], [(0, 1)])
    codes, truths = model.sample(20_000, np.random.default_rng(0))
    votes = votes_of(codes, n_classes)
    fitted = fs.LabelModel(graph, method=method).fit(votes)
    best = np.mean(model.posterior(codes)[:, 0].argmax(axis=1) == truths[:, 0])
    slack = 0.002 if method == "auto" else 0.006
    assert fitted.score(votes, truths) > best - slack
    ignoring = fs.LabelModel(method="decomposition").fit(votes)
    assert fitted.score(votes, truths) > ignoring.score(votes, truths)
    assert np.abs(fitted.confusion_ - model.confusion()).max() < 0.05


@pytest.fixture(scope="module")
def frames():
    graph = fs.DependencyGraph.chain(4, 4, source_edges=[(0, 1)])
    sample = fs.datasets.simulate_graph(
        20_000, graph, [0.8, 0.7, 0.75, 0.65] * 4, coverage=0.8, n_classes=3, random_state=0
    )
    return graph, sample


@pytest.fixture(scope="module")
def fitted(frames):
    graph, sample = frames
    return fs.LabelModel(graph).fit(sample.votes)


def test_a_chain_beats_its_frames_one_by_one(frames, fitted):
    graph, sample = frames
    together = fitted.score(sample.votes, sample.y)
    alone = fs.DependencyGraph(16, 4, source_edges=graph.source_edges)
    assert together > fs.LabelModel(alone).fit(sample.votes).score(sample.votes, sample.y) + 0.05
    # The truths of neighbors are one with probability .8 + .2/3.
    np.testing.assert_allclose(np.einsum("ekk->e", fitted.task_tables_), 0.8 + 0.2 / 3, atol=0.02)
    np.testing.assert_allclose(fitted.accuracies_, sample.accuracies, atol=0.03)
    np.testing.assert_allclose(fitted.coverage_, sample.coverage, atol=0.02)
    np.testing.assert_allclose(fitted.class_balance_, 1 / 3, atol=0.03)


@pytest.mark.parametrize("n", [150, 600])
def test_few_items_fall_back_to_agreement_and_stay_useful(frames, n):
    graph, sample = frames
    few, y = sample.votes[:n], sample.y[:n]
    model = fs.LabelModel(graph, n_classes=3).fit(few)
    majority = np.mean(
        [
            fs.MajorityVote().fit(part).score(part, y[:, task])
            for task in range(4)
            for part in [few.of_sources(graph.sources_of(task))]
        ]
    )
    assert model.score(few, y) > majority + 0.05


def test_a_task_that_three_views_refuse_is_named():
    rng = np.random.default_rng(0)
    graph = fs.DependencyGraph.chain(2, 3)
    y = rng.integers(0, 3, 400)
    codes = np.where(rng.random((400, 6)) < 0.8, y[:, None], rng.integers(0, 3, (400, 6))).astype(np.int8)
    codes[:, 3:] = rng.integers(0, 3, (400, 3))  # nothing is to be seen on task 1
    votes = votes_of(codes, 3)
    with pytest.raises(NotIdentifiableError, match=r"Task 1, sources 'source 3'.*em"):
        fs.LabelModel(graph, method="decomposition").fit(votes)
    model = fs.LabelModel(graph).fit(votes)
    assert "by agreement because three views do not suffice: task 1" in model.diagnostics_.reason
    assert np.mean(model.predict(votes)[:, 0] == y) > 0.85


# ---------------------------------------------------------------------- the estimator


def test_shapes(frames, fitted):
    graph, sample = frames
    votes = sample.votes[:500]
    assert fitted.predict_proba(votes).shape == (500, 4, 3)
    np.testing.assert_allclose(fitted.predict_proba(votes).sum(axis=2), 1)
    assert fitted.predict(votes).shape == fitted.predict(votes, joint=True).shape == (500, 4)
    assert fitted.class_balance_.shape == (4, 3)
    assert fitted.confusion_.shape == (16, 3, 4)
    assert fitted.task_tables_.shape == (3, 3, 3)
    assert fitted.log_likelihood(votes).shape == (500,)
    assert np.isnan(fitted.accuracies_interval_).all()
    assert fitted.graph_ == graph


def test_votes_may_be_stacked_or_sparse(frames):
    graph, sample = frames
    votes = sample.votes[:2_000]
    codes = np.asarray(votes.codes)
    flat = fs.LabelModel(graph).fit(votes)
    stacked = fs.LabelModel(graph, n_classes=3).fit(codes.reshape(-1, 4, 4))
    np.testing.assert_array_equal(stacked.predict_proba(codes.reshape(-1, 4, 4)), flat.predict_proba(votes))
    sparse = fs.Votes.from_sparse(csr_array(codes + 1))
    np.testing.assert_allclose(
        fs.LabelModel(graph).fit(sparse).predict_proba(sparse), flat.predict_proba(votes), atol=1e-9
    )


def test_the_order_of_classes_decides_nothing(frames):
    graph, sample = frames
    codes = np.asarray(sample.votes[:5_000].codes)
    turned = np.array([2, 0, 1, -1])[codes]  # -1 reads the last entry
    one, other = fs.LabelModel(graph).fit(codes), fs.LabelModel(graph).fit(turned)
    np.testing.assert_allclose(
        other.predict_proba(turned)[:, :, [2, 0, 1]], one.predict_proba(codes), atol=1e-8
    )


@pytest.mark.parametrize("options", [{}, {"method": "decomposition"}, {"temper": "auto"}, {"temper": 0.5}])
def test_a_file_keeps_every_bit(frames, tmp_path, options):
    graph, sample = frames
    votes = sample.votes[:5_000]
    model = fs.LabelModel(graph, **options).fit(votes)
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    for name in ("predict_proba", "predict", "log_likelihood"):
        np.testing.assert_array_equal(getattr(again, name)(votes), getattr(model, name)(votes))
    np.testing.assert_array_equal(again.predict(votes, joint=True), model.predict(votes, joint=True))
    for name in ("task_tables_", "confusion_", "accuracies_", "class_balance_", "excess_correlation_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.graph_ == graph == again.graph
    assert again.moments_ == model.moments_
    assert again.temper_ == model.temper_
    assert again.get_params() == model.get_params()
    assert str(again.summary()) == str(model.summary())
    assert again.diagnostics_.verdict == model.diagnostics_.verdict
    assert again.diagnostics_.reason == model.diagnostics_.reason
    assert str(again.explain(votes[[0]], task=2)) == str(model.explain(votes[[0]], task=2))
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.predict_proba(votes), model.predict_proba(votes))
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("unit_tables", lambda a: np.where(np.arange(len(a)) == 3, np.nan, a)),
        ("unit_tables", lambda a: a[1:]),
        ("task_tables", lambda a: 2 * a),
        ("class_balance", lambda a: a[:, ::-1] + 0.1),
        ("confusion", lambda a: a[:, :, :3]),
        ("edge_excess", lambda a: a + 5),
        ("edge_excess", lambda a: a[:1]),
    ],
)
def test_tampered_files_are_refused(fitted, tmp_path, name, change):
    state = fitted._to_state()
    name = f"fit.{name}"
    changed = np.ascontiguousarray(change(state.arrays[name]))
    write_state(tmp_path / "m.fsq", State(state.kind, state.meta, {**state.arrays, name: changed}))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "m.fsq")


def test_tampered_temper_is_refused(fitted, tmp_path):
    state = fitted._to_state()
    write_state(
        tmp_path / "m.fsq",
        State(state.kind, {**state.meta, "fit": {**state.meta["fit"], "temper": 2.0}}, state.arrays),
    )
    with pytest.raises(ModelFileError, match="temper"):
        fs.load(tmp_path / "m.fsq")


def test_an_item_is_explained(frames):
    graph, sample = frames
    votes = sample.votes[:4_000]
    model = fs.LabelModel(graph, temper=0.7).fit(votes)
    for task in range(4):
        why = model.explain(votes[[7]], task=task)
        posterior = model.predict_proba(votes[[7]])[0, task]
        second, first = np.sort(posterior)[-2:]
        assert why.log_odds == pytest.approx(np.log(first / second), abs=1e-9)
        assert why.probabilities == pytest.approx(tuple(posterior))
        assert why.predicted == posterior.argmax()
        assert why.against == np.argsort(posterior)[-2]
        names = [c.source for c in why.contributions]
        assert f"source {4 * task} & source {4 * task + 1}" in names
        assert "other tasks" in names
    with pytest.raises(OptionError, match="`task`"):
        model.explain(votes[[0]])


def test_summary_and_diagnostics(fitted):
    assert len(fitted.summary().to_dict()["source"]) == 16
    found = fitted.diagnostics_
    assert (found.method, found.reason) == ("em", "three views and ten passes over the votes")
    assert found.class_balance == "by the labels of ten passes over the votes"
    assert found.verdict.kind == "unproven"  # a graph of many classes has no test of independence
    assert found.verdict.gain > 0.05


def test_one_task_has_the_shapes_of_one_task():
    model = random_many(np.random.default_rng(1), 3, (0,) * 6, [], [(0, 1)])
    codes, truths = model.sample(3_000, np.random.default_rng(0))
    fitted = fs.LabelModel(fs.DependencyGraph(6, source_edges=[(0, 1)])).fit(codes)
    assert fitted.predict_proba(codes).shape == (3_000, 3)
    assert fitted.predict(codes).shape == fitted.predict(codes, joint=True).shape == (3_000,)
    assert fitted.class_balance_.shape == (3,)
    assert fitted.score(codes, truths[:, 0]) > 0.9
    assert "source 0 & source 1" in str(fitted.explain(codes[0]))


@pytest.mark.slow
def test_errors_that_persist_are_seen_and_tempered():
    rng, n, d = np.random.default_rng(0), 6_000, 5
    truths, votes = np.empty((n, d), int), np.empty((n, d, 4), np.int8)
    shift = np.where(rng.random((n, 4)) < 0.3, rng.integers(1, 3, (n, 4)), 0)
    truths[:, 0] = rng.integers(0, 3, n)
    for t in range(d):
        if t:
            truths[:, t] = np.where(rng.random(n) < 0.85, truths[:, t - 1], rng.integers(0, 3, n))
            fresh = np.where(rng.random((n, 4)) < 0.3, rng.integers(1, 3, (n, 4)), 0)
            shift = np.where(rng.random((n, 4)) < 0.6, shift, fresh)
        votes[:, t] = (truths[:, t, None] + shift) % 3
    graph = fs.DependencyGraph.chain(d, 4)
    plain, tempered = fs.LabelModel(graph).fit(votes), fs.LabelModel(graph, temper="auto").fit(votes)
    assert plain.temper_ == 1
    assert np.mean(plain.excess_correlation_) > 0.3
    assert 0.2 < tempered.temper_ < 0.6
    assert "errors persist from task to task" in plain.diagnostics_.verdict.text

    def log_loss(model):
        return -np.mean(np.log(np.take_along_axis(model.predict_proba(votes), truths[:, :, None], axis=2)))

    assert log_loss(tempered) < log_loss(plain) - 0.01
    independent = fs.datasets.simulate_graph(6_000, graph, 0.7, n_classes=3, random_state=rng)
    assert abs(np.mean(fs.LabelModel(graph).fit(independent.votes).excess_correlation_)) < 0.05


def test_a_source_that_never_votes_has_no_weight():
    model = random_many(np.random.default_rng(1), 3, (0,) * 6, [], [(0, 1)])
    codes, _ = model.sample(3_000, np.random.default_rng(0))
    silent = np.column_stack([codes, np.full(3_000, -1)]).astype(np.int8)
    plain = fs.LabelModel(fs.DependencyGraph(6, source_edges=[(0, 1)])).fit(codes)
    with pytest.warns(SourceWarning, match="always abstain.*source 6") as caught:
        more = fs.LabelModel(fs.DependencyGraph(7, source_edges=[(0, 1)])).fit(silent)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(more.predict_proba(silent), plain.predict_proba(codes), atol=1e-6)
    assert more.diagnostics_.silent == ("source 6",)


# ---------------------------------------------------------------------- learned graphs


def test_a_graph_is_learned_and_used():
    truth = fs.DependencyGraph(8, source_edges=[(0, 1), (2, 3)])
    sample = fs.datasets.simulate_graph(
        10_000, truth, 0.7, coverage=0.8, copying=0.7, n_classes=3, random_state=0
    )
    model = fs.LabelModel("learn").fit(sample.votes)
    assert model.graph_ == truth
    assert set(model.graph_.scores) == set(truth.source_edges)  # the evidence is kept
    given = fs.LabelModel(truth).fit(sample.votes)
    np.testing.assert_array_equal(model.predict_proba(sample.votes), given.predict_proba(sample.votes))
    ignoring = fs.LabelModel(method="em").fit(sample.votes)
    y = sample.y[:, 0]
    assert model.score(sample.votes, y) > ignoring.score(sample.votes, y) + 0.003


def test_where_nothing_is_learned_there_is_no_graph():
    graph = fs.DependencyGraph(8)
    sample = fs.datasets.simulate_graph(3_000, graph, 0.7, n_classes=3, random_state=0)
    model = fs.LabelModel("learn").fit(sample.votes)
    assert model.graph_.is_trivial
    assert model.graph_.scores == {}
    np.testing.assert_array_equal(
        model.predict_proba(sample.votes), fs.LabelModel().fit(sample.votes).predict_proba(sample.votes)
    )


def test_a_learned_graph_that_leaves_too_little_is_left_out():
    graph = fs.DependencyGraph(8, source_edges=[(0, 1)])
    rng = np.random.default_rng(0)
    codes = np.asarray(
        fs.datasets.simulate_graph(2_000, graph, 0.6, copying=0.9, n_classes=3, random_state=rng).votes.codes
    ).copy()
    codes[codes == 2] = -1  # nobody votes for the third class, so no view tells it apart
    votes = votes_of(codes, 3)
    with pytest.warns(SourceWarning, match="dependencies") as caught:
        model = fs.LabelModel("learn").fit(votes)
    assert caught[0].filename == __file__
    assert model.graph_.is_trivial
    np.testing.assert_array_equal(model.predict_proba(votes), fs.LabelModel().fit(votes).predict_proba(votes))
    insisting = fs.LabelModel("learn", method="em").fit(votes)
    assert insisting.graph_.source_edges == ((0, 1),)
    with pytest.raises(NotIdentifiableError, match="cannot distinguish"):
        fs.LabelModel("learn", method="decomposition").fit(votes)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_few_votes_are_not_passed_over():
    """Rules that rarely fire: the balance labels the silent items, and is not learned from them."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 4_000, p=[0.8, 0.1, 0.1])
    codes = np.full((4_000, 8), -1, np.int8)
    for i in range(8):
        own = i % 2  # nobody votes for the third class, so no view tells it apart
        codes[rng.random(4_000) < np.where(y == own, 0.3, 0.02), i] = own
    graph, votes = fs.DependencyGraph(8, source_edges=[(0, 2)]), votes_of(codes, 3)
    model = fs.LabelModel(graph).fit(votes)
    assert model.diagnostics_.method == "agreement"
    assert model.diagnostics_.class_balance == "uniform, the default of the method"
    assert "do not suffice, with too few votes for EM passes: task 0" in model.diagnostics_.reason
    np.testing.assert_allclose(model.class_balance_, 1 / 3)
    np.testing.assert_allclose(model.predict_proba(np.full((1, 8), -1)), 1 / 3)
    voted = (codes >= 0).any(axis=1)
    assert np.mean(model.predict(votes)[voted] == y[voted]) > 0.85
    insisting = fs.LabelModel(graph, method="em").fit(votes)
    assert np.ptp(insisting.class_balance_) > 0.1


# ---------------------------------------------------------------------- bad input


def test_bad_input_is_named(frames):
    graph, sample = frames
    votes = sample.votes[:500]
    with pytest.raises(OptionError, match='"triplet" supports two classes'):
        fs.LabelModel(graph, method="triplet").fit(votes)
    for method in ("agreement", "one_vs_rest"):
        with pytest.raises(OptionError, match=f'`graph` is not supported by method="{method}"'):
            fs.LabelModel(graph, method=method).fit(votes)
    with pytest.raises(OptionError, match='"covariance" supports two classes'):
        fs.LabelModel("learn", method="covariance").fit(votes)
    with pytest.raises(OptionError, match="supports two classes"):
        fs.LabelModel(graph, method=fs.solvers.Triplet(cliques="linear")).fit(votes)
    with pytest.raises(OptionError, match="call fit"):
        fs.LabelModel(graph).fit_moments(fs.Moments.of(votes, graph))
    with pytest.raises(OptionError, match="call fit"):
        fs.LabelModel(graph).partial_fit(votes)
    with pytest.raises(OptionError, match="`gold`"):
        fs.LabelModel(graph, method="decomposition").fit(votes, gold=sample.y[:500])
    with pytest.raises(OptionError, match="`signs`"):
        fs.LabelModel(graph, signs={0: 1}).fit(votes)
    with pytest.raises(OptionError, match=r"`class_balance` must have shape.*got shape \(2,\)"):
        fs.LabelModel(graph, class_balance=[0.5, 0.5]).fit(votes)


@pytest.mark.parametrize("method", ["auto", "decomposition"])
def test_too_few_groups_are_named(method):
    codes = np.random.default_rng(0).integers(0, 3, (300, 4)).astype(np.int8)
    pairs = fs.DependencyGraph(4, source_edges=[(0, 1), (2, 3)])
    with pytest.raises(NotIdentifiableError, match=mentions("'source 0', 'source 1'", "edges")):
        fs.LabelModel(pairs, method=method).fit(codes)
    end = graph_of((0, 1, 1, 1), [(0, 1)])
    with pytest.raises(NotIdentifiableError, match=mentions("Task 0", "'source 0'")):
        fs.LabelModel(end, method=method).fit(codes)


def test_graphs_that_are_too_wide_for_many_classes_are_refused():
    grid = fs.DependencyGraph.grid(9, 9, 3)
    codes = np.random.default_rng(0).integers(0, 3, (20, 243)).astype(np.int8)
    with pytest.raises(GraphError, match=mentions("treewidth", "got 9", "3 classes")):
        fs.LabelModel(grid).fit(codes)
    chain = fs.DependencyGraph.chain(2, 3)
    many = np.random.default_rng(0).integers(0, 50, (300, 6)).astype(np.int8)
    with pytest.raises(GraphError, match=r"`task_edges`.*at most 40 classes"):
        fs.LabelModel(chain, n_classes=50).fit(many)
    clique = fs.DependencyGraph(6, source_edges=[(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)])
    with pytest.raises(GraphError, match=r"0, 1, 2, 3 depend on each other.*GB"):
        fs.LabelModel(clique, n_classes=50).fit(many)


def test_the_simulator_draws_from_its_declared_distribution():
    graph = fs.DependencyGraph.chain(2, 3)
    sample = fs.datasets.simulate_graph(
        50_000,
        graph,
        [0.9, 0.5, 0.7] * 2,
        coverage=0.6,
        class_balance=[0.1, 0.2, 0.3, 0.4],
        n_classes=4,
        correlation=0.5,
        random_state=0,
    )
    codes = np.asarray(sample.votes.codes)
    assert sample.votes.classes == (0, 1, 2, 3)
    np.testing.assert_allclose(np.bincount(sample.y[:, 1]) / 50_000, [0.1, 0.2, 0.3, 0.4], atol=0.01)
    alike = 0.5 + 0.5 * 0.3
    assert np.mean(sample.y[:, 0] == sample.y[:, 1]) == pytest.approx(alike, abs=0.01)
    truth = sample.y[:, list(graph.source_task)]
    for i, accuracy in enumerate([0.9, 0.5, 0.7] * 2):
        cast = codes[:, i] >= 0
        assert cast.mean() == pytest.approx(0.6, abs=0.01)
        assert np.mean(codes[cast, i] == truth[cast, i]) == pytest.approx(accuracy, abs=0.01)
    with pytest.raises(OptionError, match="`correlation`"):
        fs.datasets.simulate_graph(10, graph, 0.7, n_classes=3, correlation=-0.2, random_state=0)


@pytest.mark.parametrize("balance", [None, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize(
    "graph",
    [fs.DependencyGraph(5, source_edges=[(0, 1)]), fs.DependencyGraph.chain(3, 4)],
    ids=["pair", "chain"],
)
def test_files_of_sources_that_never_abstain_come_back(graph, balance, tmp_path):
    votes = fs.datasets.simulate_graph(1_500, graph, 0.7, n_classes=3, random_state=0).votes
    model = fs.LabelModel(graph, class_balance=balance).fit(votes)
    assert model.confusion_.min() >= 0
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq").predict_proba(votes)
    np.testing.assert_array_equal(again, model.predict_proba(votes))


def test_gold_labels_of_all_items_give_the_tables_of_these_labels():
    """Gold labels stay fixed during the passes, so nothing is left to estimate."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 2_000, p=[0.5, 0.3, 0.2])
    votes = np.where(rng.random((2_000, 5)) < 0.6, y[:, None], rng.integers(0, 3, (2_000, 5)))
    copied = rng.random(2_000) < 0.5
    votes[copied, 1] = votes[copied, 0]
    graph = fs.DependencyGraph(5, source_edges=[(0, 1)])
    model = fs.LabelModel(graph).fit(votes, gold=y)
    seen = [[[np.mean(votes[y == k, i] == v) for v in range(3)] for k in range(3)] for i in range(5)]
    np.testing.assert_allclose(model.confusion_[:, :, :3], seen, atol=5e-3)
    np.testing.assert_allclose(model.class_balance_, np.bincount(y) / 2_000, atol=1e-2)
    assert model.n_gold_ == 2_000
    assert model.fit_.uses_gold
    with pytest.raises(fs.exceptions.OptionError, match="gold"):
        fs.LabelModel(graph, method="decomposition").fit(votes, gold=y)


def test_gold_labels_of_one_task_of_a_chain_are_used():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.random((1_500, 3)) < 0.2, axis=1) + rng.integers(0, 3, (1_500, 1))
    y %= 3
    right = rng.random((1_500, 9)) < 0.7
    votes = np.where(right, np.repeat(y, 3, axis=1), rng.integers(0, 3, (1_500, 9)))
    graph = fs.DependencyGraph.chain(3, 3)
    gold = np.full(y.shape, -1)
    gold[:, 1] = y[:, 1]
    model = fs.LabelModel(graph).fit(votes.reshape(1_500, 3, 3), gold=gold)
    seen = [[np.mean(votes[y[:, 1] == k, 3] == v) for v in range(3)] for k in range(3)]
    np.testing.assert_allclose(model.confusion_[3, :, :3], seen, atol=5e-3)
