"""Estimates of sources by the labels of a mixture, and their errors, as loops over items and votes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from flyingsquid.estimation import source_estimates as module
from flyingsquid.estimation.dependence import Dependence
from flyingsquid.estimation.intervals import (
    AccuracyEvidence,
    accuracy_reach,
    balance_intervals,
    intervals_around,
    suspicion,
    usable_trust,
)
from flyingsquid.estimation.source_estimates import (
    RowLabels,
    assess_sources,
    estimate_by_gold,
    estimate_sources,
)
from flyingsquid.estimation.table_em import RowEM, Tables, rows_of
from flyingsquid.estimation.trust import Trust
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.inference.weighted import Mixture, mixture_posterior
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from tests.support.strategies import votes_of_four


def sample(seed, n=120, n_classes=2, one_sided=False):
    votes = votes_of_four(seed, n, n_classes, one_sided=one_sided)
    return Votes.from_classes(votes, classes=range(n_classes))


def fitted(votes, trust, *, with_tables=True):
    """A mixture of weighted votes and tables with a given trust."""
    moments, rows = Moments.of(votes), rows_of(votes, None)
    weights = vote_weights(moments, None)
    tables = RowEM(rows, weights, None).start()
    mixture = Mixture(
        weights=weights.weights,
        one_sided=weights.one_sided,
        without_votes=np.full(votes.n_classes, 1 / votes.n_classes),
        tables=tables.term(weights) if with_tables else None,
        trust=trust,
    )
    return moments, RowLabels.of(rows, mixture), mixture, tables


def labels_of_items(votes, mixture):
    """Posteriors of each item by weighted votes alone, and by tables alone."""
    codes = np.asarray(votes.codes)
    weighted = Mixture(
        weights=mixture.weights, one_sided=mixture.one_sided, without_votes=mixture.without_votes
    )
    by_weights = mixture_posterior(codes, weighted)
    several = Mixture(
        weights=mixture.weights, one_sided=np.zeros(4, bool), without_votes=mixture.tables.balance,
        tables=mixture.tables, trust=1.0,
    ) if mixture.tables is not None and not mixture.one_sided.any() else None  # fmt: skip
    return by_weights, None if several is None else mixture_posterior(codes, several)


def hard(labels):
    best = labels >= labels.max(axis=1, keepdims=True) - 1e-9
    return best / best.sum(axis=1, keepdims=True)


def right_votes(codes, labels):
    """Mean probability of the votes of each source."""
    return np.array([labels[np.flatnonzero(c >= 0), c[c >= 0]].mean() for c in codes.T])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_sources_are_as_accurate_as_the_labels_say(n_classes, trust):
    votes = sample(n_classes, n_classes=n_classes)
    codes = np.asarray(votes.codes)
    moments, labels, mixture, tables = fitted(votes, trust)
    found = estimate_sources(moments, labels, mixture, tables, Trust(trust), None)
    by_weights, by_tables = labels_of_items(votes, mixture)
    believed = (by_weights + hard(by_weights)) / 2
    mixed = trust * by_tables + (1 - trust) * believed
    np.testing.assert_allclose(found.accuracies, right_votes(codes, mixed), rtol=1e-9)
    voted = (codes >= 0).any(axis=1)
    mass = mixed[voted].sum(axis=0) + 1
    np.testing.assert_allclose(found.balance, mass / mass.sum(), rtol=1e-9)
    confusion = np.asarray(found.confusion)
    for i in range(4):
        for k in range(n_classes):
            for v in range(-1, n_classes):
                share = mixed[codes[:, i] == v, k].sum() / mixed[:, k].sum()
                assert confusion[i, k, v] == pytest.approx(share)


def test_one_sided_sources_are_estimated_by_weighted_votes_only():
    votes = sample(4, one_sided=True)
    moments, labels, mixture, tables = fitted(votes, 0.4)
    assert mixture.one_sided.tolist() == [False, False, False, True]
    found = estimate_sources(moments, labels, mixture, tables, Trust(0.4), None)
    by_weights, _ = labels_of_items(votes, mixture)
    believed = (by_weights + hard(by_weights)) / 2
    alone = right_votes(np.asarray(votes.codes), believed)
    assert found.accuracies[3] == pytest.approx(alone[3])
    assert (np.abs(found.accuracies - alone)[:3] > 1e-3).all()


def test_a_given_balance_is_kept_and_a_source_without_votes_is_a_coin():
    codes = np.array(sample(5).codes)
    codes[:, 2] = -1
    moments, labels, mixture, tables = fitted(Votes.from_classes(codes, classes=[0, 1]), 0.5)
    given = np.array([0.3, 0.7])
    for each in (labels, None):
        found = estimate_sources(moments, each, mixture, tables, Trust(0.5), given)
        assert found.balance is given
        assert found.accuracies[2] == 0.5


def test_doubt_and_plausible_labels_are_means_over_the_items_of_a_source():
    votes = sample(6)
    codes = np.asarray(votes.codes)
    moments, labels, mixture, tables = fitted(votes, 0.0)
    sources = estimate_sources(moments, labels, mixture, tables, Trust(0.0), None)
    none = Dependence(None)
    errors = assess_sources(moments, labels, mixture, None, Trust(0.0), none, sources, with_balance=True)
    by_weights, _ = labels_of_items(votes, mixture)
    evidence = errors.evidence
    equal = np.array([[(row == k).sum() for k in (0, 1)] for row in codes], float)
    plausible = [right_votes(codes, hard(each)) for each in (by_weights, equal)]
    for i in range(4):
        items = codes[:, i] >= 0
        assert evidence.doubt[i] == pytest.approx((1 - by_weights[items].max(axis=1)).mean())
        reachable = [sources.accuracies[i], plausible[0][i], plausible[1][i]]
        assert evidence.lowest[i] == pytest.approx(min(reachable))
        assert evidence.highest[i] == pytest.approx(max(reachable))
        n = items.sum()
        share = (sources.accuracies[i] * n + 1) / (n + 2)
        assert errors.accuracies[i] == pytest.approx(np.sqrt(share * (1 - share) / n))
    assert evidence.n_groups == 4
    n_voted = (codes >= 0).any(axis=1).sum()
    sampling = np.sqrt(sources.balance * (1 - sources.balance) / n_voted)
    cast = (codes >= 0).sum(axis=0)
    expected = balance_intervals(
        sources.balance, sampling, doubt=cast @ evidence.doubt / cast.sum(), trust=0.0, one_sided=0.0
    )
    np.testing.assert_allclose(errors.balance, expected, rtol=1e-9)


def test_a_single_vote_has_no_standard_error():
    codes = np.array(sample(7).codes)
    codes[:, 2] = -1
    codes[50, 2] = 1
    votes = Votes.from_classes(codes, classes=[0, 1])
    moments, labels, mixture, _ = fitted(votes, 0.0)
    for each in (labels, None):
        sources = estimate_sources(moments, each, mixture, None, Trust(0.0), None)
        errors = assess_sources(
            moments, each, mixture, None, Trust(0.0), Dependence(None), sources, with_balance=False
        )
        assert np.isnan(errors.accuracies).tolist() == [False, False, True, False]
        assert errors.balance is None
    assert np.isnan(estimate_by_gold(moments, labels.rows, labels.fallback, None)[1].accuracies[2])


def test_gold_labels_leave_a_reach_by_the_doubt_of_corrected_labels():
    votes = sample(8)
    moments, labels, *_ = fitted(votes, 0.0)
    found, errors = estimate_by_gold(moments, labels.rows, labels.fallback, None)
    codes = np.asarray(votes.codes)
    by_weights, _ = labels_of_items(votes, fitted(votes, 0.0)[2])
    doubt = np.array([(1 - by_weights[c >= 0].max(axis=1)).mean() for c in codes.T])
    np.testing.assert_allclose(errors.reach, np.tile(0.05 + 0.75 * doubt, (2, 1)).T, rtol=1e-9)
    np.testing.assert_allclose(found.accuracies, right_votes(codes, by_weights), rtol=1e-9)
    cast = (codes >= 0).sum(axis=0)
    n_voted = (codes >= 0).any(axis=1).sum()
    sampling = np.sqrt(found.balance * (1 - found.balance) / n_voted)
    expected = balance_intervals(
        found.balance, sampling, doubt=cast @ doubt / cast.sum(), trust=0.0, one_sided=0.0
    )
    np.testing.assert_allclose(errors.balance, expected, rtol=1e-9)
    given, errors = estimate_by_gold(moments, labels.rows, labels.fallback, np.array([0.3, 0.7]))
    assert given.balance.tolist() == [0.3, 0.7]
    assert errors.balance is None


# ---------------------------------------------------------------------- errors under the tables


@pytest.mark.parametrize("n_classes", [2, 3])
def test_errors_of_tables_are_those_of_the_outer_product_of_scores(n_classes):
    """Scores of P(right | Y) and of the balance are differences of the expected log-likelihood."""
    votes = sample(n_classes, n_classes=n_classes)
    codes = np.asarray(votes.codes)
    _, labels, mixture, tables = fitted(votes, 1.0)
    _, by_tables = labels_of_items(votes, mixture)
    right = np.array([[tables.tables[i, k, k] for k in range(n_classes)] for i in range(4)])
    size = 4 * n_classes

    def likelihood(parameters, n):
        """Expected log-likelihood of item n: a vote is right, or is not; the last class has what is left."""
        accuracies = parameters[:size].reshape(n_classes, 4)
        balance = np.append(parameters[size:], 1 - parameters[size:].sum())
        total = by_tables[n] @ np.log(balance)
        for i in np.flatnonzero(codes[n] >= 0):
            for k in range(n_classes):
                p = accuracies[k, i]
                total += by_tables[n, k] * np.log(p if codes[n, i] == k else 1 - p)
        return total

    at = np.concatenate([right.T.ravel(), tables.balance[:-1]])
    steps = 1e-6 * np.eye(len(at))
    scores = np.array([[(likelihood(at + s, n) - likelihood(at - s, n)) / 2e-6 for s in steps]
                       for n in range(len(codes))])  # fmt: skip
    information = scores.T @ scores
    share = np.array([by_tables[codes[:, i] >= 0].mean(axis=0) for i in range(4)])
    accuracy = (share * right).sum(axis=1)
    variance = np.maximum(accuracy * (1 - accuracy), 0.02)
    # Pseudo-votes: 100 tie a row to the mean of the rows of its source, 40 tie that mean.
    for i in range(4):
        for k in range(n_classes):
            for other in range(n_classes):
                tie = 100 * ((k == other) - 1 / n_classes) + 40 / n_classes**2
                information[k * 4 + i, other * 4 + i] += tie / variance[i]
    information[:size, :size] += 1e-3 * np.eye(size)
    information[size:, size:] += np.diag(20 / n_classes / tables.balance[:-1] ** 2)
    covariance = np.linalg.inv(information)
    errors, of_balance = module._table_errors(labels.rows, labels.by_tables, tables)
    for i in range(4):
        slope = np.zeros(len(at))
        for k in range(n_classes):
            slope[k * 4 + i] = share[i, k]
        slope[size:] = right[i, :-1] - right[i, -1]
        assert errors[i] == pytest.approx(np.sqrt(slope @ covariance @ slope), rel=1e-5)
    own = covariance[size:, size:]
    expected = [*np.sqrt(np.diag(own)), np.sqrt(own.sum())]
    np.testing.assert_allclose(of_balance, expected, rtol=1e-5)


def test_very_many_parameters_have_errors_of_each_source_alone():
    votes = sample(2)
    *_, tables = fitted(votes, 1.0)
    codes = np.asarray(votes.codes)
    wide = Votes.from_classes(np.tile(codes, (1, 76)), classes=[0, 1])
    rows = rows_of(wide, None)
    many = Tables(np.tile(tables.tables, (76, 1, 1)), tables.balance)
    posterior = np.random.default_rng(0).dirichlet([1, 1], len(rows.counts))
    errors, of_balance = module._table_errors(rows, posterior, many)
    assert not of_balance.any()
    scores = np.zeros((len(rows.counts), 4))
    for n, row in enumerate(
        np.array([rows.one_hot.dense_votes(k)[:, :4] for k in (0, 1)]).transpose(1, 2, 0)
    ):
        for i in range(4):
            for k in range(2):
                p = tables.tables[i, k, k]
                scores[n, i] += posterior[n, k] * (row[i, k] / p - row[i, 1 - k] / (1 - p))
    votes = sum(rows.one_hot.dense_votes(k) for k in (0, 1))[:, :4]
    share = votes.T @ (rows.counts[:, None] * posterior)
    share /= share.sum(axis=1, keepdims=True)
    accuracy = (share * np.einsum("mkk->mk", tables.tables)).sum(axis=1)
    information = rows.counts @ scores**2 + 40 / (accuracy * (1 - accuracy))
    np.testing.assert_allclose(errors[:4], information**-0.5, rtol=1e-9)


# ---------------------------------------------------------------------- counts of pairs


@pytest.mark.parametrize("n_classes", [2, 3])
def test_typical_items_have_the_mean_votes_and_a_normal_margin(n_classes):
    votes = sample(3, n_classes=n_classes)
    codes = np.asarray(votes.codes)
    moments, _, mixture, _ = fitted(votes, 0.0)
    weights = mixture.weights
    of_source = [np.mean([weights[i, v] for v in codes[:, i] if v >= 0]) for i in range(4)]
    mean = np.average(of_source, weights=(codes >= 0).sum(axis=0))
    share, wins, doubt = module._typical_items(moments, mixture)
    for i in range(4):
        for k in range(n_classes):
            items = codes[codes[:, i] == k]
            agree = against = 0.0
            for row in items:
                for j in range(4):
                    if j != i and row[j] >= 0:
                        agree += of_source[j] * (row[j] == k) / len(items)
                        against += of_source[j] * (row[j] != k) / len(items)
            total = weights[i, k] + agree + against + 1
            assert share[i, k] == pytest.approx((weights[i, k] + agree + 1 / n_classes) / total)
            competitor = against if n_classes == 2 else 0.6 * against
            margin, number = weights[i, k] + agree - competitor, (agree + competitor) / mean
            spread = mean * np.sqrt(number * (1 + 0.1 * number))
            assert wins[i, k] == pytest.approx(stats.norm.cdf(margin / spread))
            density = stats.norm(margin, spread).pdf
            ends = margin - 12 * spread, margin + 12 * spread
            distance = integrate.quad(lambda x: abs(x) * density(x), *ends, points=[0.0], limit=200)[0]  # noqa: B023
            top = (weights[i, k] + agree + competitor + 2 / n_classes + distance) / 2
            assert doubt[i, k] == pytest.approx(np.clip(1 - top / total, 0, 1), abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("trust", [0.4, 0.8])
def test_counts_give_accuracies_by_typical_items_and_by_tables(n_classes, trust):
    votes = sample(1, n_classes=n_classes)
    codes = np.asarray(votes.codes)
    moments, _, mixture, tables = fitted(votes, trust)
    share, wins, _ = module._typical_items(moments, mixture)
    found = estimate_sources(moments, None, mixture, None, Trust(0.0), None)
    cast = moments.vote_counts
    right = [np.average((share[i] + wins[i]) / 2, weights=cast[i]) for i in range(4)]
    np.testing.assert_allclose(found.accuracies, right)
    # A vote is right as often as others agree; otherwise the class is that of the other votes on the items.
    expected = np.zeros((4, n_classes, n_classes))  # source, class, vote
    for i in range(4):
        for v in range(n_classes):
            met = np.full(n_classes, 1 / n_classes)
            for row in codes[codes[:, i] == v]:
                for j in range(4):
                    if j != i and row[j] >= 0:
                        met[row[j]] += 1
            met[v] = 0
            expected[i, :, v] = cast[i, v] * (1 - share[i, v]) * met / met.sum()
            expected[i, v, v] = cast[i, v] * share[i, v]
    mass = expected.sum(axis=(0, 2)) + 1
    balance = mass / mass.sum()
    np.testing.assert_allclose(found.balance, balance)
    shares = expected / (len(codes) * balance)[:, None]
    plain = np.concatenate([shares, np.maximum(1 - shares.sum(axis=2, keepdims=True), 0)], axis=2)
    plain /= plain.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(np.asarray(found.confusion), plain)
    # Tables from pairs are trusted at most .8, and then they are used alone.
    both = estimate_sources(moments, None, mixture, tables, Trust(trust), None)
    np.testing.assert_allclose(both.balance, trust / 0.8 * tables.balance + (1 - trust / 0.8) * balance)
    if trust == 0.8:
        own = [sum(tables.balance[k] * tables.tables[i, k, k] for k in range(n_classes)) for i in range(4)]
        np.testing.assert_allclose(both.accuracies, own)


# ---------------------------------------------------------------------- rules of intervals


def evidence(n_groups=8, n_classes=2, **changed):
    values = {
        "accuracies": np.array([0.9, 0.4]), "lowest": np.array([0.85, 0.4]), "highest": np.array([0.9, 0.5]),
        "doubt": np.array([0.1, 0.2]), "trust": np.array([0.0, 0.5]), "suspect": np.array([0.0, 1.0]),
        "contradiction": 0.0,
    }  # fmt: skip
    return AccuracyEvidence(**(values | changed), n_groups=n_groups, n_classes=n_classes)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_reach_is_what_wrong_labels_and_plausible_labels_allow(n_classes):
    given = evidence(n_classes=n_classes)
    found = accuracy_reach(given)
    for i in range(2):
        wrong = (1.7 + 0.8 * given.suspect[i]) * given.doubt[i]
        toward = wrong * n_classes / (n_classes - 1) * (given.accuracies[i] - 1 / n_classes)
        away = (0.1 + 0.3 * given.suspect[i]) * given.doubt[i]
        below = 0.05 + max(toward, given.accuracies[i] - given.lowest[i] + away)
        above = 0.05 + max(-toward, given.highest[i] - given.accuracies[i] + away)
        np.testing.assert_allclose(found[i], (1 - given.trust[i]) * np.array([below, above]))


def test_contradiction_reaches_to_the_other_side_of_chance_and_three_sources_to_chance():
    sure = {"doubt": np.zeros(2), "lowest": np.array([0.9, 0.4]), "highest": np.array([0.9, 0.4])}
    sure |= {"trust": np.zeros(2), "suspect": np.zeros(2)}
    np.testing.assert_allclose(accuracy_reach(evidence(**sure)), 0.05)
    found = accuracy_reach(evidence(contradiction=1.0, **sure))
    np.testing.assert_allclose(found, 0.05 + np.array([[1.2 * 0.4, 0], [0, 1.2 * 0.1]]), atol=1e-12)
    found = accuracy_reach(evidence(n_groups=3, **sure))
    np.testing.assert_allclose(found, 0.05 + np.array([[0.4, 0], [0, 0.1]]), atol=1e-12)
    assert np.isnan(accuracy_reach(evidence(n_groups=2, **sure))).all()


def test_intervals_join_sampling_and_reach_in_quadrature_within_0_and_1():
    found = intervals_around(
        np.array([0.5, 0.98]), np.array([0.01, 0.05]), np.array([[0.1, 0.0], [0.3, 0.3]])
    )
    z = stats.norm.ppf(0.975)
    expected = [[0.5 - np.hypot(z * 0.01, 0.1), 0.5 + z * 0.01], [0.98 - np.hypot(z * 0.05, 0.3), 1.0]]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(intervals_around(np.array([0.01]), np.array([0.1])), [[0.0, 0.01 + z * 0.1]])


def test_trust_in_intervals_needs_more_than_three_sources_and_tested_pairs():
    assert usable_trust(0.7, 10, 0, 4) == 0.7
    assert usable_trust(0.7, 10, 0, 3) == 0
    assert usable_trust(0.7, 10, 5, 4) == pytest.approx(0.7 * 100 / (100 + 4 * 5))
    assert usable_trust(0.7, 0, 5, 4) == 0


def test_one_sided_sources_and_many_dependent_pairs_are_suspicious():
    one_sided = np.array([False, True])
    assert suspicion(one_sided, 0, 5).tolist() == [0, 1]
    assert suspicion(one_sided, 1, 10).tolist() == pytest.approx([1 / 45 / 0.1, 1])
    assert suspicion(one_sided, 9, 10).tolist() == [1, 1]
    assert suspicion(one_sided, 0, 0).tolist() == [0, 1]


def test_balance_intervals_widen_with_doubt_and_one_sided_votes():
    balance, errors = np.array([0.3, 0.7]), np.array([0.01, 0.01])
    z = stats.norm.ppf(0.975)
    for doubt, trust, one_sided in ((0.0, 0.0, 0.0), (0.1, 0.0, 0.5), (0.1, 0.5, 1.0), (0.1, 1.0, 0.0)):
        reach = (1 - trust) * (0.05 + 0.9 * (1 + one_sided) * doubt)
        total = np.hypot(z * 0.01, reach)
        found = balance_intervals(balance, errors, doubt=doubt, trust=trust, one_sided=one_sided)
        np.testing.assert_allclose(found, balance[:, None] + total * np.array([-1, 1]))


# ---------------------------------------------------------------------- very many sources or classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_tables_that_are_not_stored_leave_accuracies_and_the_balance_unchanged(monkeypatch, n_classes):
    votes = sample(n_classes, n_classes=n_classes)
    moments, labels, mixture, tables = fitted(votes, 0.0)
    rows = rows_of(votes, None)
    every = [
        estimate_sources(moments, each, mixture, tables, Trust(0.0), None)
        for each in (RowLabels.of(rows, mixture), labels)
    ]
    monkeypatch.setattr(module, "MOST_CELLS", 0)
    for each, found in zip((RowLabels.of(rows, mixture), labels), every, strict=True):
        again = estimate_sources(moments, each, mixture, tables, Trust(0.0), None)
        np.testing.assert_allclose(again.accuracies, found.accuracies, rtol=1e-9)
        np.testing.assert_allclose(again.balance, found.balance, rtol=1e-9)


def test_counts_of_two_classes_need_no_table_of_classes_by_classes(monkeypatch):
    """A vote that is wrong is for the other class, whatever the other sources vote."""
    moments, _, mixture, _ = fitted(sample(1), 0.0)
    stored = estimate_sources(moments, None, mixture, None, Trust(0.0), None)
    monkeypatch.setattr(module, "MOST_CELLS", 0)
    found = estimate_sources(moments, None, mixture, None, Trust(0.0), None)
    np.testing.assert_allclose(found.accuracies, stored.accuracies)
    np.testing.assert_allclose(found.balance, stored.balance)


def test_sources_that_cannot_be_compared_one_by_one_count_as_average_ones(monkeypatch):
    moments, _, mixture, _ = fitted(sample(1), 0.0)
    equal = Mixture(
        weights=np.full((4, 2), 1.3), one_sided=mixture.one_sided, without_votes=mixture.without_votes
    )
    one_by_one = module._typical_items(moments, equal)
    monkeypatch.setattr(module, "MOST_SOURCES", 3)
    for found, expected in zip(module._typical_items(moments, equal), one_by_one, strict=True):
        np.testing.assert_allclose(found, expected)


def test_errors_of_a_sample_of_rows_are_nearly_those_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 6_000)
    codes = np.where(rng.random((6_000, 14)) < 0.7, y[:, None], 1 - y[:, None]).astype(np.int8)
    votes = Votes.from_classes(codes, classes=[0, 1])
    moments, rows = Moments.of(votes), rows_of(votes, None)
    em = RowEM(rows, vote_weights(moments, None), None)
    tables = em.start()
    posterior = em.posterior(tables)
    whole = module._table_errors(rows, posterior, tables)
    monkeypatch.setattr(module, "_MOST_SCORE_CELLS", 0)  # then 2,000 rows are used
    part = module._table_errors(rows, posterior, tables)
    for found, expected in zip(part, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.15)
        assert (found != expected).any()
