"""Rare cases of ``estimation/`` and ``inference/`` that property tests rarely draw: ties, second chunks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.estimation import confusion, mixture
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.estimation.conditional import _indicator_triplets
from flyingsquid.estimation.dependence import near_copies
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.estimation.graph_tables import expected_tables, require_few_cells
from flyingsquid.estimation.independence import FitTest, Residuals
from flyingsquid.estimation.proportional import tables_from_joint
from flyingsquid.estimation.source_estimates import _share_right
from flyingsquid.estimation.sources import CenteredMoments, SignedMoments
from flyingsquid.estimation.structure import _weakest, _worst
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.estimation.transition import fit_transition_many, pair_of_tasks
from flyingsquid.estimation.triplets import accuracies_from_balance
from flyingsquid.estimation.trust import Trust
from flyingsquid.estimation.units import UnitCounts, UnitTable, ignore_abstention, unit_table
from flyingsquid.estimation.weighted import is_one_sided
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError, SourceWarning
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.inference.junction_tree import max_product, sum_product
from flyingsquid.inference.weighted import Mixture, mixture_posterior
from flyingsquid.moments import Moments, SparseTables, VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.decisions import as_label_array
from flyingsquid.votes.patterns import all_patterns
from tests.oracle.tasks import Tasks, small_tree


def test_a_clique_of_two_tasks_within_its_parent_adds_nothing():
    tree = JunctionTree(((0, 1, 2), (1, 2), (1, 2, 3)), (-1, 0, 1), ((), (1, 2), (1, 2)))
    edges = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
    tasks, plain = Tasks.random(np.random.default_rng(7), 4, 3, edges), small_tree(4, edges)
    evidence = np.random.default_rng(8).normal(size=(5, 4, 3))
    ours, theirs = tables_from_joint(tree, tasks.joint()), tables_from_joint(plain, tasks.joint())
    found, expected = sum_product(evidence, tree, ours), sum_product(evidence, plain, theirs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(max_product(evidence, tree, ours), max_product(evidence, plain, theirs))


@pytest.mark.parametrize("n_classes", [2, 9])  # by dense products, and by sparse ones
def test_weighted_labels_of_many_different_rows_are_those_of_each_row(n_classes):
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, n_classes, (9_000, 40)).astype(np.int8)
    weights = rng.uniform(0.5, 2, (40, n_classes))
    uniform = np.full(n_classes, 1 / n_classes)
    mixture = Mixture(weights=weights, one_sided=np.zeros(40, bool), without_votes=uniform)
    at = [0, 1, 6_553, 6_554, 8_999]
    one_by_one = np.concatenate([mixture_posterior(codes[[i]], mixture) for i in at])
    np.testing.assert_allclose(mixture_posterior(codes, mixture)[at], one_by_one, rtol=1e-12)


def test_sources_that_all_keep_silent_have_no_accuracies():
    silent = Moments.of(Votes.from_classes(np.full((50, 3), -1), classes=(0, 1)))
    with pytest.raises(NotIdentifiableError, match="differ significantly from 0"):
        accuracies_from_balance(SignedMoments.of(silent), np.array([0.2, 0.8]), ("a", "b", "c"))


def test_pairs_are_taken_back_one_a_source_the_weakest_first():
    scores = np.full((4, 4), np.inf)
    for (i, j), score in {(0, 1): 2.0, (1, 2): 1.0, (2, 3): 1.5, (0, 3): 5.0}.items():
        scores[i, j] = scores[j, i] = score
    chosen = _weakest(scores, 3.0)
    assert [(int(i), int(j)) for i, j in np.argwhere(np.triu(chosen))] == [(1, 2)]
    assert (chosen == chosen.T).all()


def binary(rng, n, right, y):
    return np.where(rng.random((n, len(right))) < right, y[:, None], 1 - y[:, None])


@pytest.mark.parametrize("second", [[0.85, 0.7], [0.97, 0.96], [0.65, 0.6, 0.65]])
def test_the_error_of_how_two_tasks_go_together_is_calibrated(second):
    """Sources of known worth on two imbalanced tasks: off by as much as the standard error says."""
    rng, off = np.random.default_rng(1), []
    first, second = np.array([0.9, 0.8, 0.75]), np.array(second)
    for _ in range(300):
        a = rng.random(500) < 0.15
        b = np.where(rng.random(500) < 0.5, a, rng.random(500) < 0.15)
        votes = np.hstack([binary(rng, 500, first, a), binary(rng, 500, second, b)])
        balance = (np.array([0.85, 0.15]),) * 2
        pair = pair_of_tasks(
            Moments.of(votes), (2 * first - 1, 2 * second - 1), balance, same_detectors=False
        )
        off.append((pair.covariance - 0.5 * 4 * 0.15 * 0.85) / pair.error)
    assert np.std(off) == pytest.approx(1, abs=0.12)
    assert abs(np.mean(off)) < 0.2


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
def test_sources_that_vote_on_the_same_items_are_no_copies_unless_they_say_the_same():
    rng = np.random.default_rng(2)
    votes = binary(rng, 2_000, np.array([0.7, 0.7, 0.8, 0.8, 0.75]), rng.random(2_000) < 0.4)
    votes[1_000:, :2] = -1
    assert near_copies(Moments.of(votes)).tolist() == [0, 1, 2, 3, 4]
    votes[:1_000, :2] = 1  # one class only, on the same items
    assert near_copies(Moments.of(votes)).tolist() == [0, 0, 1, 2, 3]
    votes[:, :2] = 1  # on every item, so they are not evidence for each other
    assert near_copies(Moments.of(votes)).tolist() == [0, 1, 2, 3, 4]


def test_triplets_of_votes_are_used_or_skipped():
    rng = np.random.default_rng(3)
    votes = binary(rng, 300, np.array([0.8, 0.75, 0.7, 0.52, 0.5, 0.51]), rng.random(300) < 0.5)
    _, used, skipped = _indicator_triplets(Moments.of(votes), ~np.eye(6, dtype=bool), screen=2.0)
    np.testing.assert_array_equal(used + skipped, 2 * 10)  # both votes, and 10 pairs of the 5 others
    assert (used > 0).all()
    assert (skipped > 0).all()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"method": "em"}, "5 sources and 3 classes have 45 cells"),
        ({"method": "agreement", "class_balance": "estimate"}, "5 sources and 3 classes have 45 cells"),
        ({"method": fs.solvers.OneVsRest("covariance")}, "5 sources and 3 classes have 45 cells"),
    ],
)
def test_what_needs_whole_tables_is_named_where_they_are_too_large(options, what):
    votes = np.random.default_rng(4).integers(0, 3, (60, 5))
    with use_limits(table_cells=5 * 3**2 - 1), pytest.raises(OptionError, match=what):
        fs.LabelModel(**options).fit(votes)
    with use_limits(table_cells=5 * 3**2):  # just small enough
        confusion.require_dense(Moments.of(votes), None, "em")


def test_tables_that_are_too_large_are_left_out(monkeypatch):
    rng = np.random.default_rng(5)
    votes = np.where(
        rng.random((400, 6)) < 0.7, rng.integers(0, 3, 400)[:, None], rng.integers(0, 3, (400, 6))
    )
    moments = Moments.of(votes)
    whole = fs.LabelModel(method="weighted").fit_moments(moments).accuracies_
    monkeypatch.setattr(mixture, "MOST_CELLS", 6 * 3**2 - 1)
    assert fs.LabelModel().fit(votes).fit_.mixture.tables is None
    with_silence = np.column_stack([votes, np.full(400, -1)])
    with pytest.warns(SourceWarning, match="always abstain"):
        assert fs.LabelModel(method="weighted").fit(with_silence).accuracies_[6] == 0.5
    apart = fs.LabelModel(method="weighted").fit_moments(moments).accuracies_
    np.testing.assert_allclose(apart, whole, rtol=1e-6)
    monkeypatch.setattr(mixture, "MOST_CELLS", 6 * 3**2)
    assert fs.LabelModel().fit(votes).fit_.mixture.tables is not None


def test_a_joint_table_that_was_rounded_sums_to_1_afterwards():
    rounded = np.array([[0.4, 0.1], [0.2, 0.3]]) * 1.0009
    balance = resolve_task_balance(rounded, (0, 1), 2)
    assert balance.joint is not None
    assert balance.joint.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(np.asarray(balance.tasks), [[0.5, 0.5], [0.6, 0.4]], atol=1e-12)


def test_one_vote_for_a_second_class_is_enough_to_use_several():
    rng = np.random.default_rng(7)
    votes = binary(rng, 500, np.array([0.8, 0.7, 0.75, 0.7]), rng.random(500) < 0.5)
    votes[:, 3] = np.where(votes[:, 3] == 0, -1, 1)
    votes[0, 3] = 0
    assert not is_one_sided(Moments.of(votes).vote_counts.astype(float)).any()
    votes[0, 3] = -1
    found = is_one_sided(Moments.of(votes).vote_counts.astype(float))
    assert found.tolist() == [False, False, False, True]


def test_ignore_abstention_keeps_the_votes():
    """P(who votes | Y) becomes P(who votes), and P(votes | who votes, Y) stays, even if it is 0."""
    rng = np.random.default_rng(8)
    table, balance = rng.random((3, 16)), np.array([0.5, 0.3, 0.2])
    silent = all_patterns(2, 3) < 0
    table[1, ~silent[:, 0] & silent[:, 1]] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    found = ignore_abstention(UnitTable((0, 1), (), table), balance).table
    for who in ((True, True), (True, False), (False, True), (False, False)):
        these = (silent == who).all(axis=1)
        before, after = table[:, these].sum(axis=1), found[:, these].sum(axis=1)
        np.testing.assert_allclose(after[before > 0], balance @ before, rtol=1e-12)
        for k in np.flatnonzero(before):
            np.testing.assert_allclose(found[k, these] / after[k], table[k, these] / before[k], rtol=1e-12)


def test_a_probability_over_several_readings_stays_one():
    assert _worst([FitTest(3.0, 5, 0.7), FitTest(2.0, 5, 0.8)]).p_value == 1.0
    worst = _worst([FitTest(9.0, 5, 0.1), FitTest(2.0, 5, 0.8)])
    assert (worst.statistic, worst.p_value) == (9.0, pytest.approx(0.2))


def test_the_largest_statistic_is_the_worst_if_no_probability_is_left():
    assert _worst([FitTest(2e3, 5, 0.0), FitTest(9e3, 5, 0.0), FitTest(4e3, 5, 0.0)]).statistic == 9e3


def test_what_gold_labels_prefer_by_hand():
    """Ten known items of each class; a source right on 7 and on 8 of them, and one hardly ever wrong."""
    y = np.repeat([0, 1], 10)
    often = np.repeat([0, 1, 0, 1], [7, 3, 2, 8])
    known = GoldCounts.of(Votes.from_classes(np.column_stack([often, y])), y)
    rates = np.full((2, 2), 0.4)  # four items in five have a vote: a variance of 0.8
    one = known.preference(np.array([0.5, 0.0]), rates)
    assert one == pytest.approx(2 * 0.5 / (0.8 - 0.25) * (15 - 5))
    assert known.preference(np.array([-0.5, 0.0]), rates) == pytest.approx(-one)
    sure = known.preference(np.array([0.0, 0.85]), rates)
    assert sure == pytest.approx(2 * 0.85 / (0.2 * 0.8) * 20)  # no source is taken to be surer


def test_gold_labels_that_are_exactly_even_leave_the_balance_even():
    votes = Votes.from_classes(np.array([[0, 0], [1, 1], [2, 2], [2, 1]]))
    gold = GoldCounts.of(votes, np.array([0, 1, 2, -1]))
    np.testing.assert_allclose(gold.balance_with_uniform(), 1 / 3, rtol=1e-12)


def test_tables_of_tasks_as_large_as_they_may_be():
    width_8, width_9 = (fs.DependencyGraph.grid(side, 9, 3) for side in (8, 9))
    assert (width_8._task_tree.width, width_9._task_tree.width) == (8, 9)
    require_few_cells(width_8, 3)  # 3⁹ cells
    with pytest.raises(GraphError, match=r"treewidth.*got 9"):
        require_few_cells(width_9, 3)


@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes"), (1, "other"), ((0, 1), (1, 0))])
def test_labels_come_back_as_they_were_given(classes):
    labels = as_label_array(classes)
    assert labels.shape == (2,)
    assert tuple(labels.tolist()) == classes


def test_rows_that_nothing_follows_say_nothing_of_what_follows():
    rng = np.random.default_rng(9)
    y = rng.integers(0, 3, 600)
    right = rng.random((600, 5)) < 0.8
    votes = np.where(right, y[:, None], (y[:, None] + rng.integers(1, 3, (600, 5))) % 3)
    model = fs.SequenceLabelModel().fit(votes, np.ones(600, int))
    assert model.diagnostics_.correlation == 0
    np.testing.assert_allclose(
        model.predict_proba(votes, [600]), model.predict_proba(votes, np.ones(600, int))
    )


def test_a_source_is_not_compared_with_itself():
    rng = np.random.default_rng(10)
    votes = binary(rng, 300, np.array([0.8, 0.7, 0.6]), rng.random(300) < 0.3)
    centered = CenteredMoments.of(Moments.of(votes))
    for table in (centered.covariance, centered.noise, *centered.cross):
        np.testing.assert_array_equal(np.diagonal(table), 0.0)
        assert (table[~np.eye(3, dtype=bool)] != 0).all()


def test_joint_votes_that_never_occurred_say_what_their_sources_say_one_by_one():
    rng = np.random.default_rng(11)
    states, balance = rng.random(9), np.array([0.6, 0.4])
    single = rng.dirichlet(np.ones(3), (2, 2))
    states[[4, 7]] = 0.0
    states /= states.sum()
    counts = UnitCounts(1000.0, states, np.zeros((9, 2, 1)))
    joint = np.outer(states, [0.7, 0.3])
    found = unit_table((0, 1), (), joint, counts, single, balance, abstention_counts=True)
    joint = balance[:, None] * found.table
    np.testing.assert_allclose(joint.sum(axis=0)[states > 0], states[states > 0], rtol=1e-6)
    unseen = joint[:, [4, 7]]
    assert (unseen.sum(axis=0) < 1 / 1000).all()
    first, second = all_patterns(2, 2)[[4, 7]].T
    alone = balance[:, None] * single[0][:, first] * single[1][:, second]
    np.testing.assert_allclose(unseen[1] / unseen[0], alone[1] / alone[0], rtol=1e-3)


def test_the_linear_system_takes_three_dependent_sources_and_no_more():
    rng = np.random.default_rng(12)
    for largest in (3, 4):
        edges = [(a, b) for a in range(largest) for b in range(a)]
        graph = fs.DependencyGraph(8, source_edges=edges)
        sample = fs.datasets.simulate_graph(4_000, graph, 0.75, class_balance=[0.2, 0.8], random_state=rng)
        model = fs.LabelModel(graph, method=fs.solvers.Triplet(cliques="linear"), class_balance=[0.2, 0.8])
        if largest == 3:
            assert model.fit(sample.votes).score(sample.votes, sample.y) > 0.85
        else:
            with pytest.raises(GraphError, match="at most 3 sources"):
                model.fit(sample.votes)


def test_dependent_sources_that_refuse_are_silent_like_others():
    graph = fs.DependencyGraph(5, source_edges=[(0, 1)])
    sample = fs.datasets.simulate_graph(2_000, graph, 0.8, coverage=0.7, random_state=13)
    codes = np.array(sample.votes.codes)
    refused = np.where((codes == -1) & (np.arange(len(codes)) % 2 == 0)[:, None], -2, codes)
    model = fs.LabelModel(graph).fit(sample.votes)
    expected = model.predict_proba(sample.votes)
    np.testing.assert_array_equal(model.predict_proba(fs.Votes(refused.astype(np.int8), (0, 1))), expected)


@pytest.mark.parametrize("dtype", [None, np.float32])
def test_sparse_tables_are_arrays_of_the_type_asked_for(dtype):
    tables = SparseTables.from_counts(np.ones((2, 3)), VotesByClass(csr_array((6, 3))), np.array([0.5, 0.8]))
    made = np.asarray(tables, dtype)
    assert made.dtype == (dtype or np.float64)
    np.testing.assert_allclose(made[1], [[0.8 / 3] * 3 + [0.2]] * 3, rtol=1e-6)


def test_a_transition_of_three_classes_rests_on_pairs_of_different_sources():
    rng = np.random.default_rng(14)
    votes = np.where(
        rng.random((300, 4)) < 0.8, rng.integers(0, 3, 300)[:, None], rng.integers(0, 3, (300, 4))
    )
    votes[:, 3] = -1  # in nobody's pair
    tables = np.full((4, 3, 4), 0.1)
    tables[:, range(3), range(3)] = 0.7
    even = np.full(3, 1 / 3)
    assert fit_transition_many(fs.SequenceMoments.of(votes), tables, even).pairs == 6


@pytest.mark.parametrize("first", [True, False])
def test_a_transition_needs_the_class_balance_on_both_sides(first):
    """Sequences of two rows: one of the two has the given balance, the other has a different one."""
    rng = np.random.default_rng(15)
    balance, other = np.array([0.6, 0.2, 0.2]), np.array([0.2, 0.2, 0.6])
    shares = (balance, other) if first else (other, balance)
    y = np.column_stack([rng.choice(3, 20_000, p=share) for share in shares]).ravel()
    votes = np.where(rng.random((len(y), 4)) < 0.7, y[:, None], rng.integers(0, 3, (len(y), 4)))
    tables = np.zeros((4, 3, 4))
    tables[:, :, :3] = 0.7 * np.eye(3) + 0.1
    moments = fs.SequenceMoments.of(votes, [2] * 20_000)
    found = fit_transition_many(moments, tables, balance)
    np.testing.assert_allclose(found.joint, np.outer(balance, balance))
    assert np.isinf(found.error)


def test_classes_without_gold_labels_are_named_by_votes():
    """Gold labels of class 0 say which column it is; for the other two, most votes are correct."""
    truth = np.array([[0.2, 0.7, 0.1], [0.2, 0.1, 0.7], [0.6, 0.2, 0.2]])  # columns 2, 0 and 1 by votes
    found = np.stack([truth] * 3)
    known = np.zeros((3, 3, 3))
    assert confusion._names(found, None).tolist() == [1, 2, 0]
    assert confusion._names(found, known).tolist() == [1, 2, 0]
    known[:, 0, 2] = 9  # items of class 0 have votes for class 2, as in the first column
    assert confusion._names(found, known).tolist() == [0, 2, 1]


def test_abstention_that_does_not_count_has_the_rate_of_all_items_in_every_class():
    rng = np.random.default_rng(16)
    codes = rng.integers(-1, 2, (500, 6)).astype(np.int8)
    codes[rng.random((500, 6)) < np.linspace(0, 0.5, 6)] = -1
    posterior = rng.dirichlet([1, 1], (500, 2))
    graph = fs.DependencyGraph(6, n_tasks=2, source_task=[0, 0, 0, 1, 1, 1])
    tables = expected_tables(codes, posterior, graph, np.array([False, True]))
    np.testing.assert_allclose(tables.sum(axis=2), 1)
    abstained = (codes < 0).mean(axis=0)
    np.testing.assert_allclose(tables[:3, :, 2], np.repeat(abstained[:3, None], 2, axis=1))
    assert np.abs(tables[3:, 0, 2] - tables[3:, 1, 2]).min() > 1e-4


@pytest.mark.parametrize("balance", [None, [0.3, 0.3, 0.4]])
def test_the_note_on_the_class_balance_tells_where_it_comes_from(balance):
    graph = fs.DependencyGraph(5, source_edges=[(0, 1)])
    votes = fs.datasets.simulate_graph(3_000, graph, 0.8, n_classes=3, random_state=0).votes
    model = fs.LabelModel(graph, method="decomposition", class_balance=balance).fit(votes)
    assert ("given" in model.fit_.balance_note) == (balance is not None)


def test_three_sources_leave_nothing_to_test():
    moments = Moments.of(fs.datasets.simulate(400, [0.8, 0.7, 0.75], random_state=0).votes)
    used = ~np.eye(3, dtype=bool)
    test = Residuals.of(CenteredMoments.of(moments), used, np.full(3, 0.5)).statistic()
    assert (test.degrees, test.p_value) == (0, 1.0)


def test_a_source_without_votes_is_as_accurate_as_all_votes():
    rows = rows_of(Votes(np.array([[0, 1, -1], [1, 1, -1], [0, -1, -1]], np.int8), (0, 1)), None)
    np.testing.assert_allclose(_share_right(np.array([3.0, 1.0, 0.0]), rows), [1.0, 0.5, 0.8])


def test_too_many_classes_for_tables_leave_weighted_votes():
    votes = Votes(np.random.default_rng(0).integers(0, 4_000, (300, 3)).astype(np.int16), tuple(range(4_000)))
    fit = mixture.fit_mixture(Moments.of(votes), None, None)
    assert fit.mixture.tables is None
    assert fit.trust == Trust(0.0)
