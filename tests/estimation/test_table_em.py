"""Confusion tables by EM: shrinkage, passes and their fixed points."""

import numpy as np
import pytest

from flyingsquid.estimation.table_em import PairEM, RowEM, converge, rows_of, shrunken_tables
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from tests.support.strategies import votes_of_four


def shrunk(expected, row_votes):
    """The definition of tied tables, one source, one row and one vote at a time."""
    m, n_classes, _ = expected.shape
    hits = [sum(expected[i, k, k] for k in range(n_classes)) for i in range(m)]
    cast = [expected[i].sum() for i in range(m)]
    average = (sum(hits) + 40 * 0.7) / (sum(cast) + 40)
    tables = np.zeros_like(expected)
    for i in range(m):
        own = min(max((hits[i] + 40 * average) / (cast[i] + 40), 0.05), 0.98)
        for k in range(n_classes):
            for v in range(n_classes):
                pseudo = own if v == k else (1 - own) / (n_classes - 1)
                tables[i, k, v] = (expected[i, k, v] + row_votes * pseudo) / (
                    expected[i, k].sum() + row_votes
                )
    return tables


@pytest.mark.parametrize("n_classes", [2, 4])
def test_tables_are_shrunk_toward_the_accuracy_of_their_source(n_classes):
    expected = np.random.default_rng(0).gamma(1.0, 40.0, (3, n_classes, n_classes))
    expected[2] = 0  # a source without votes is average
    tables = shrunken_tables(expected, 100.0)
    np.testing.assert_allclose(tables, shrunk(expected, 100.0), rtol=1e-12)
    np.testing.assert_allclose(tables.sum(axis=2), 1)


def simulate(n, accuracies, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])
    return votes.astype(np.int8), y


def test_tables_of_many_items_converge_to_the_share_of_votes_in_each_class():
    votes, y = simulate(50_000, [0.9, 0.75, 0.6, 0.7])
    moments = Moments.of(votes)
    em = RowEM(rows_of(Votes.from_classes(votes, classes=[0, 1]), None), vote_weights(moments, None), None)
    tables = em.start()
    for _ in range(200):
        tables = em.passes()(tables)
    observed = np.array([[(votes[y == k] == v).mean(axis=0) for v in range(2)] for k in range(2)])
    np.testing.assert_allclose(tables.tables, observed.transpose(2, 0, 1), atol=0.02)
    np.testing.assert_allclose(tables.balance, [0.5, 0.5], atol=0.02)


@pytest.mark.parametrize("one_sided", [False, True])
def test_two_classes_take_the_same_pass_as_many(one_sided):
    """Two classes have a fast path."""
    votes, _ = simulate(600, [0.9, 0.75, 0.6, 0.7])
    if one_sided:
        votes[votes[:, 3] == 0, 3] = -1
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    assert weights.one_sided.any() == one_sided
    em = RowEM(rows_of(Votes.from_classes(votes, classes=[0, 1]), None), weights, None)
    now = em.start()
    labels = em.posterior(now)
    votes = em.rows.one_hot.vote_sums(labels * em.rows.counts[:, None]).transpose(1, 2, 0)
    for found in (em._expect(now, 0.0), em.rows.count(labels)):
        np.testing.assert_allclose(found.votes, votes, rtol=1e-9)
        np.testing.assert_allclose(found.items, em.rows.counts @ labels, rtol=1e-9)
        np.testing.assert_allclose(found.voted, em.rows.voted @ labels, rtol=1e-9)


def test_pairs_start_without_one_sided_sources():
    """The class balance of the start is that of the votes of sources of several classes."""
    votes, _ = simulate(900, [0.9, 0.8, 0.8, 0.8])
    votes[votes[:, 3] == 0, 3] = -1
    votes[:600, :3] = 0  # most votes of the others are for the first class
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    em = PairEM(moments, weights, np.zeros((4, 4)), None)
    assert weights.one_sided.tolist() == [False, False, False, True]
    assert em.start().balance[0] > 0.6


# ---------------------------------------------------------------------- passes, as loops over items


def sample(seed=0, n=150, one_sided=False, n_classes=2):
    return votes_of_four(seed, n, n_classes, one_sided=one_sided)


def start_of(votes, n_classes, balance=None):
    moments = Moments.of(Votes.from_classes(votes, classes=range(n_classes)))
    weights = vote_weights(moments, None)
    return RowEM(rows_of(Votes.from_classes(votes, classes=range(n_classes)), None), weights, balance)


def posterior_of_item(row, tables, weights, abstention):
    """Bayes' theorem; votes of a one-sided source have the likelihood of their shares."""
    n_classes = len(tables.balance)
    logs = np.log(tables.balance)
    for i, v in enumerate(row):
        if weights.one_sided[i]:
            continue
        if v >= 0:
            logs = logs + np.log(tables.tables[i, :, v])
        if abstention:
            voting = tables.coverage[i] if v >= 0 else 1 - tables.coverage[i]
            logs = logs + abstention * np.log(voting)
    if weights.one_sided.any():
        sums = np.full(n_classes, 1 / n_classes)
        for i, v in enumerate(row):
            if v >= 0 and weights.one_sided[i]:
                sums[v] += weights.weights[i, v]
        logs = logs + np.log(sums / sums.sum())
    return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum(), np.log(np.exp(logs).sum())


def pass_by_definition(votes, tables, weights, balance, abstention):
    """One pass of EM: expected counts, then shrunk shares."""
    (n, m), n_classes = votes.shape, len(tables.balance)
    expected, mass, items = np.zeros((m, n_classes, n_classes)), np.zeros(n_classes), np.zeros(n_classes)
    for row in votes:
        posterior, _ = posterior_of_item(row, tables, weights, abstention)
        items += posterior
        mass += posterior * (1.0 if (row >= 0).any() else abstention)
        for i, v in enumerate(row):
            if v >= 0:
                expected[i, :, v] += posterior
    coverage = None
    if abstention:
        voted = expected.sum(axis=2)
        overall = voted.sum(axis=1, keepdims=True) / n
        coverage = np.clip((voted + 100 * overall) / (items + 100), 1e-4, 1 - 1e-4)
    if weights.one_sided.any():
        expected[weights.one_sided] = 0
    found = (mass + 20 / n_classes) / (mass.sum() + 20) if balance is None else balance
    return shrunk(expected, 100.0), found, coverage


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("abstention", [0.0, 0.6])
@pytest.mark.parametrize("balance", [None, 0.7])
def test_a_pass_is_that_of_a_loop_over_items(n_classes, one_sided, abstention, balance):
    votes = sample(n_classes, one_sided=one_sided, n_classes=n_classes)
    given = (
        None if balance is None else np.array([balance, *[(1 - balance) / (n_classes - 1)] * (n_classes - 1)])
    )
    em = start_of(votes, n_classes, given)
    assert em.weights.one_sided.any() == one_sided
    tables = em.start()
    if abstention:
        tables = tables._replace(coverage=np.random.default_rng(1).uniform(0.3, 0.9, (4, n_classes)))
    found = em.passes(abstention)(tables)
    expected = pass_by_definition(votes, tables, em.weights, given, abstention)
    np.testing.assert_allclose(found.tables, expected[0], rtol=1e-9)
    np.testing.assert_allclose(found.balance, expected[1], rtol=1e-9)
    if abstention:
        np.testing.assert_allclose(found.coverage, expected[2], rtol=1e-9)
    else:
        assert found.coverage is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_moved_share_and_likelihood_gain_are_means_over_items_with_votes(n_classes):
    votes = sample(7, one_sided=True, n_classes=n_classes)
    em = start_of(votes, n_classes)
    tables = em.anchored()
    by_votes = [np.full(n_classes, 1 / n_classes) for _ in votes]
    for row, sums in zip(votes, by_votes, strict=True):
        for i, v in enumerate(row):
            if v >= 0:
                sums[v] += em.weights.weights[i, v]
    hard = np.array([(sums >= sums.max() - 1e-9) / (sums >= sums.max() - 1e-9).sum() for sums in by_votes])
    expected = np.zeros((4, n_classes, n_classes))
    voted = (votes >= 0).any(axis=1)
    for row, label in zip(votes, hard, strict=True):
        for i, v in enumerate(row):
            if v >= 0 and not em.weights.one_sided[i]:
                expected[i, :, v] += label
    mass = hard[voted].sum(axis=0) + 20 / n_classes
    unmoved = tables._replace(tables=shrunk(expected, 10.0), balance=mass / mass.sum())
    moved, gain = np.zeros(n_classes), 0.0
    for row, label in zip(votes[voted], hard[voted], strict=True):
        posterior, likelihood = posterior_of_item(row, tables, em.weights, 0.0)
        moved += (posterior >= posterior.max() - 1e-9) - label
        gain += likelihood - posterior_of_item(row, unmoved, em.weights, 0.0)[1]
    assert em.moved_share(tables) == pytest.approx(np.abs(moved).sum() / 2 / voted.sum())
    assert em.likelihood_gain(tables) == pytest.approx(gain / voted.sum())


def test_anchored_labels_keep_a_tenth_of_the_weighted_votes():
    votes = sample(3, one_sided=True)
    em = start_of(votes, 2)
    labels = em.by_votes
    for number in range(10):
        if number:
            labels = 0.9 * em.posterior(tables) + 0.1 * em.by_votes  # noqa: F821
        tables = em._maximize(*em.rows.count(labels)[:2], 10.0)
    np.testing.assert_allclose(em.anchored().tables, tables.tables, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("abstention", [0.0, 0.6])
@pytest.mark.parametrize("n_votes", [150, 1])
def test_a_pass_on_pairs_is_that_of_a_loop_over_pairs_of_answers(n_classes, abstention, n_votes):
    """Every pair of sources labels its item by its two answers; a source counts as often as it votes."""
    votes = sample(5, n_classes=n_classes)
    votes[n_votes:, 1] = -1
    votes[0] = [0, 1, -1, -1]  # with one vote, the source meets only one other, on which half depends
    moments = Moments.of(Votes.from_classes(votes, classes=range(n_classes)))
    weights = vote_weights(moments, None)
    shared = np.zeros((4, 4))
    shared[0, 1] = shared[1, 0] = 0.5
    em = PairEM(moments, weights, shared, None)
    tables = em.start()
    rng = np.random.default_rng(2)
    if abstention:
        tables = tables._replace(coverage=rng.uniform(0.3, 0.9, (4, n_classes)))
    answers, met = np.zeros((4, n_classes, n_classes + 1)), np.zeros((4, n_classes + 1))
    for row in votes:
        for i in range(4):
            for j in range(4):
                silent = (row[i] < 0) or (row[j] < 0)
                counted = 0.0 if i == j else (1 - shared[i, j]) * (abstention if silent else 1.0)
                if not counted:
                    continue
                likelihood = tables.balance.copy()
                for at in (i, j):
                    voting = np.ones(n_classes) if tables.coverage is None else tables.coverage[at]
                    if row[at] >= 0:
                        likelihood *= tables.tables[at, :, row[at]] * voting**abstention
                    else:
                        likelihood *= (1 - voting) ** abstention
                answers[i, :, row[i]] += counted * likelihood / likelihood.sum()  # no vote is last
                met[i, row[i]] += counted
    cast = np.array([[(votes[:, i] == v).sum() for v in [*range(n_classes), -1]] for i in range(4)])
    answers *= np.divide(cast, met, out=np.zeros_like(met), where=met > 0)[:, None]
    found = em.passes(abstention)(tables) if abstention else em.passes()(tables)
    np.testing.assert_allclose(found.tables, shrunk(answers[:, :, :-1], 100.0), rtol=1e-9)
    n_items = (cast if abstention else cast[:, :-1]).sum() / 4
    mass = n_items * answers.sum(axis=(0, 2)) / answers.sum() + 20 / n_classes
    np.testing.assert_allclose(found.balance, mass / mass.sum(), rtol=1e-9)
    if abstention:
        voted, items = answers[:, :, :-1].sum(axis=2), answers.sum(axis=2)
        overall = voted.sum(axis=1, keepdims=True) / items.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.coverage, (voted + 100 * overall) / (items + 100), rtol=1e-9)


@pytest.mark.parametrize("abstention", [0.0, 0.5])
def test_acceleration_finds_the_fixed_point(abstention):
    em = start_of(sample(9, n=400), 2)
    step = em.passes(abstention)
    plain = step(em.start())
    found = converge(step, plain)
    for _ in range(400):
        plain = step(plain)
    np.testing.assert_allclose(found.flat(), plain.flat(), atol=2e-3)
    np.testing.assert_allclose(step(found).flat(), found.flat(), atol=1e-5)
    np.testing.assert_allclose(found.tables.sum(axis=2), 1)
    assert found.balance.sum() == pytest.approx(1)


def test_rows_count_items_with_and_without_votes():
    votes = sample(1, n=60)
    weights = np.random.default_rng(0).uniform(0.5, 2, 60)
    rows = rows_of(Votes.from_classes(votes, classes=[0, 1]), weights)
    assert rows.n_items == pytest.approx(weights.sum())
    assert rows.n_voted == pytest.approx(weights[(votes >= 0).any(axis=1)].sum())
    cast = [[weights[votes[:, i] == k].sum() for k in (0, 1)] for i in range(4)]
    np.testing.assert_allclose(rows.votes, cast)


def test_tables_that_are_exact_enough_are_returned_early():
    votes = sample(1, n=500)
    moments = Moments.of(votes)
    em = RowEM(rows_of(Votes.from_classes(votes, classes=[0, 1]), None), vote_weights(moments, None), None)
    asked = []

    def converged(is_enough):
        return converge(em.passes(), em.start(), lambda tables: asked.append(tables) or is_enough).flat()

    exact = converge(em.passes(), em.start()).flat()
    np.testing.assert_array_equal(converged(False), exact)
    early = converged(True)
    assert len(asked) == 2  # once each
    np.testing.assert_array_equal(early, asked[1].flat())
    assert 0 < np.abs(early - exact).max() < 0.2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_passes_on_pairs_start_from_how_often_others_agree(n_classes, monkeypatch):
    """Each vote of a source is right as often as the other sources agree with it, averaged over classes."""
    votes = sample(5, n_classes=n_classes, one_sided=True)
    moments = Moments.of(Votes.from_classes(votes, classes=range(n_classes)))
    weights = vote_weights(moments, None)
    shared = np.zeros((4, 4))
    shared[0, 1] = shared[1, 0] = 0.5
    monkeypatch.setattr(PairEM, "passes", lambda em: lambda tables: tables)
    start = PairEM(moments, weights, shared, None).start()
    counted = (1 - shared) * weights.discounts * np.outer(~weights.one_sided, ~weights.one_sided)
    for i in range(4):
        agree, met = np.zeros((2, n_classes))
        for row in votes:
            for j in range(4):
                if j != i and row[i] >= 0 and row[j] >= 0:
                    met[row[i]] += counted[i, j]
                    agree[row[i]] += counted[i, j] * (row[i] == row[j])
        share = [agree[k] / met[k] if met[k] else 0.5 for k in range(n_classes)]
        right = min(max(np.mean(share), 1 / n_classes + 0.02), 0.95)
        wrong = (1 - right) / (n_classes - 1)
        expected = np.where(np.eye(n_classes) > 0, right, wrong)
        np.testing.assert_allclose(start.tables[i], expected, rtol=1e-12)
    several = votes[:, ~weights.one_sided]
    n_votes = np.array([(several == k).sum() + 1 for k in range(n_classes)])
    np.testing.assert_allclose(start.balance, n_votes / n_votes.sum())
