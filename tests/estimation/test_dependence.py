"""Dependence between sources: correlations of pairs, quantiles, the robust fit and competing factors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from flyingsquid.estimation import dependence as module
from flyingsquid.estimation.dependence import (
    Dependence,
    find_copies,
    find_dependence,
    near_copies,
    pair_correlations,
    row_quantiles,
)
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes


def simulate(n, accuracies, seed=0, coverage=1.0, share=0.5):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])
    votes[rng.random(votes.shape) >= coverage] = -1
    return votes.astype(np.int8)


def moments_of(votes, n_classes=2):
    return Moments.of(Votes.from_classes(votes, classes=range(n_classes)))


@pytest.mark.parametrize("quantile", [0.0, 0.3, 0.5, 0.85, 1.0])
def test_quantiles_are_those_of_the_finite_values_of_each_row(quantile):
    values = np.random.default_rng(0).normal(size=(6, 9))
    values[1, 3:] = values[2, 1:] = values[3] = np.inf
    values[4, ::2] = np.inf
    found = row_quantiles(values, quantile)
    for row, one in zip(values, found, strict=True):
        finite = row[np.isfinite(row)]
        assert one == pytest.approx(np.quantile(finite, quantile) if len(finite) else 0.0)
    several = row_quantiles(np.stack([values, -np.abs(values)]), np.array([[0.5], [quantile]]))
    np.testing.assert_allclose(several[0], row_quantiles(values, 0.5))


def correlation_by_definition(one, other, n_classes):
    """Agreement beyond chance, relative to that of each source with itself."""
    both = (one >= 0) & (other >= 0)
    p, q = ([(each[both] == k).mean() for k in range(n_classes)] for each in (one, other))
    scale = np.sqrt((1 - np.dot(p, p)) * (1 - np.dot(q, q)))
    return (np.mean(one[both] == other[both]) - np.dot(p, q)) / scale, both.sum()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_correlations_of_pairs_are_agreement_beyond_chance(n_classes):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 200)
    votes = np.where(rng.random((200, 5)) < 0.7, y[:, None], rng.integers(0, n_classes, (200, 5)))
    votes[rng.random(votes.shape) < 0.2] = -1
    at, correlation, items = pair_correlations(moments_of(votes, n_classes))
    assert at.tolist() == list(range(5))
    assert not correlation.diagonal().any()
    assert not items.diagonal().any()
    for i in range(5):
        for j in range(5):
            if i != j:
                expected = correlation_by_definition(votes[:, i], votes[:, j], n_classes)
                assert (correlation[i, j], items[i, j]) == pytest.approx(expected)


@pytest.mark.parametrize(("shared", "is_compared"), [(30, True), (29, False)])
def test_pairs_are_compared_from_thirty_shared_items_on(shared, is_compared):
    votes = simulate(200, [0.8] * 6)
    votes[shared:, 5] = -1
    at, *_ = pair_correlations(moments_of(votes))
    assert (5 in at) == is_compared


@pytest.mark.parametrize(("rare", "is_compared"), [(10, True), (9, False)])
def test_pairs_are_compared_from_ten_votes_outside_the_most_frequent_class_on(rare, is_compared):
    votes = simulate(200, [0.8] * 6)
    votes[:, 5] = 0
    votes[:rare, 5] = 1
    at, *_ = pair_correlations(moments_of(votes))
    assert (5 in at) == is_compared


def test_four_sources_with_all_pairs_are_needed():
    assert pair_correlations(moments_of(simulate(200, [0.8] * 4))) is not None
    assert pair_correlations(moments_of(simulate(200, [0.8] * 3))) is None
    votes = simulate(200, [0.8] * 4)
    votes[:100, 0] = votes[100:, 1] = -1  # one of six pairs shares no item
    assert pair_correlations(moments_of(votes)) is None


def test_strengths_of_independent_sources_are_fitted_exactly():
    b = np.array([0.9, 0.8, 0.6, 0.5, 0.3, 0.7, 0.6, 0.8])
    correlation = np.outer(b, b)
    np.fill_diagonal(correlation, 0.0)
    precision = np.where(np.eye(8) > 0, 0.0, 500.0)
    excess, is_dependent = module._outliers(correlation, precision)
    assert not is_dependent.any()
    assert excess.max() < 1e-3
    # A pair that shares half of its evidence beyond the truth agrees by b b' + (1 - b b') / 2.
    correlation[0, 1] = correlation[1, 0] = 0.72 + 0.28 / 2
    excess, is_dependent = module._outliers(correlation, precision)
    assert np.argwhere(np.triu(is_dependent)).tolist() == [[0, 1]]
    assert excess[0, 1] == pytest.approx(0.5, abs=0.01)
    assert excess[0, 1] == excess[1, 0]


def test_starts_are_fitted_one_by_one_as_they_are_together(monkeypatch):
    votes = simulate(2_000, [0.9, 0.8, 0.7, 0.75, 0.65, 0.85])
    votes[:1_200, 1] = votes[:1_200, 0]
    _, correlation, precision = pair_correlations(moments_of(votes))
    together = module._outliers(correlation, precision)
    monkeypatch.setattr(module, "_FEW_PAIRS", 0)
    alone = module._outliers(correlation, precision)
    assert together[1].sum() == 2
    np.testing.assert_array_equal(together[1], alone[1])
    np.testing.assert_allclose(together[0], alone[0], atol=0.002)


def test_quantiles_of_a_matrix_may_be_several():
    values = np.random.default_rng(0).normal(size=(5, 8))
    found = row_quantiles(values, np.array([[0.2], [0.5]]))
    np.testing.assert_array_equal(found, [row_quantiles(values, 0.2), row_quantiles(values, 0.5)])


@pytest.mark.parametrize(("n_items", "excess", "is_dependent"), [
    (20_000, 0.12, True), (20_000, 0.08, False), (1_500, 0.12, True), (700, 0.12, False),
])  # fmt: skip
def test_a_dependent_pair_exceeds_the_fit_by_four_errors_and_a_tenth(n_items, excess, is_dependent):
    """The standard error of a correlation r of n items is about (1 - r) over the root of n."""
    b = np.full(8, 0.7)
    correlation = np.outer(b, b)
    np.fill_diagonal(correlation, 0.0)
    correlation[0, 1] = correlation[1, 0] = 0.49 + 0.51 * excess
    precision = np.where(np.eye(8) > 0, 0.0, float(n_items))
    assert module._outliers(correlation, precision)[1].any() == is_dependent


def test_the_second_factor_is_relative_to_the_first_and_beyond_noise():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = basis @ np.diag([3.0, 1.2, 0.4, 0, 0, 0]) @ basis.T
    precision = np.full((6, 6), 1_000.0)
    noise = 2 * np.sqrt(6 / 1_000)
    assert module._second_factor(matrix, precision, 2) == pytest.approx((1.2 - noise) / 3)
    assert module._second_factor(matrix, precision, 3) == pytest.approx((0.4 - noise) / 3)
    assert module._second_factor(matrix, precision, 5) == 0  # not beyond noise
    assert module._second_factor(matrix, precision, 7) == 0  # fewer sources than factors
    assert module._second_factor(matrix, np.full((6, 6), 1.0), 2) == 0  # not even the first one
    some = np.where(np.arange(6) < 3, 1_000.0, 0.0) * np.ones((6, 1))  # pairs without items have no noise
    assert module._second_factor(matrix, some, 2) == pytest.approx((1.2 - 2 * np.sqrt(3 / 1_000)) / 3)


@pytest.mark.parametrize(
    ("second_factor", "n_dependent", "rare", "expected"),
    [
        (0.2, 8, 0.5, 0.5),
        (0.4, 4, 0.5, 0.5),
        (0.4, 8, 0.15, 0.5),
        (0.2, 4, 0.15, 0.125),
        (0.4, 8, 0.5, 1.0),
        (0.1, 8, 0.5, 0.0),
        (0.4, 2, 0.5, 0.0),
        (0.4, 8, 0.05, 0.0),
    ],
)
def test_a_contradiction_needs_a_second_factor_many_sources_and_two_classes(
    second_factor, n_dependent, rare, expected
):
    votes = np.zeros((1_000, 8), np.int8)
    votes[: round(1_000 * rare)] = 1
    is_dependent = np.zeros((8, 8), bool)
    is_dependent[:n_dependent, :n_dependent] = True
    found = module._contradiction(second_factor, is_dependent, moments_of(votes))
    assert found == pytest.approx(expected, abs=1e-4)


def test_near_copies_count_in_full_and_other_dependence_by_a_factor():
    shared = np.array([[0.0, 0.95, 0.5], [0.95, 0.0, 0.96], [0.5, 0.96, 0.0]])
    found = Dependence(shared, np.array([0, 0, 1])).scaled(0.5)
    np.testing.assert_allclose(found, [[0, 0.95, 0.25], [0.95, 0, 0.48], [0.25, 0.48, 0]])
    assert Dependence(None).scaled(0.5) is None


def test_rules_that_share_only_their_blanks_are_not_copies():
    rng = np.random.default_rng(0)
    spans = np.where(rng.random((3_000, 5)) < 0.04, 1, -1)
    spans[rng.random(3_000) < 0.02] = 1  # found by all, so that pairs can be compared
    filled = np.where((spans < 0).all(axis=1, keepdims=True), 0, spans)
    filled = np.column_stack([filled, filled[:, 0]])
    assert near_copies(moments_of(filled)).tolist() == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize(("copied", "is_copy"), [(0.97, True), (0.8, False)])
def test_copies_explain_nine_tenths_of_the_agreement_beyond_the_truth(copied, is_copy):
    votes = simulate(4_000, [0.75] * 6)
    same = np.random.default_rng(1).random(4_000) < copied
    votes[same, 1] = votes[same, 0]
    found = find_copies(moments_of(votes))
    assert (found.groups[0] == found.groups[1]) == is_copy
    expected = np.zeros((6, 6))
    expected[0, 1] = expected[1, 0] = is_copy
    np.testing.assert_array_equal(found.shared, expected)
    assert len(set(found.groups.tolist())) == 6 - is_copy
    dependent = find_dependence(moments_of(votes))
    assert dependent.n_pairs == 1
    assert dependent.shared[0, 1] == (1.0 if is_copy else pytest.approx(0.8, abs=0.04))


@pytest.mark.parametrize(("n_other", "is_copy"), [(5, True), (6, False)])
def test_one_sided_copies_share_nineteen_of_twenty_items(n_other, is_copy):
    votes = simulate(1_000, [0.8] * 5)
    votes[:, :2] = -1
    votes[:100, 0] = 1
    votes[n_other:100, 1] = 1  # 100 - n_other of 100 items
    assert (near_copies(moments_of(votes)).tolist()[:2] == [0, 0]) == is_copy
    votes[:100, 1] = np.where(votes[:100, 1] == 1, 0, -1)  # for the other class
    assert near_copies(moments_of(votes)).tolist()[:2] == [0, 1]


@pytest.mark.parametrize(("n_votes", "is_copy"), [(30, True), (29, False), (949, True), (950, False)])
def test_one_sided_sources_with_few_votes_or_on_nearly_every_item_are_not_compared(n_votes, is_copy):
    votes = simulate(1_000, [0.8] * 5)
    votes[:, :2] = -1
    votes[:n_votes, :2] = 1
    assert (near_copies(moments_of(votes)).tolist()[:2] == [0, 0]) == is_copy


def test_more_sources_than_can_be_compared_are_taken_for_independent(monkeypatch):
    votes = simulate(300, [0.8] * 6)
    votes[:, 1] = votes[:, 0]
    moments = moments_of(votes)
    assert near_copies(moments).tolist() == [0, 0, 1, 2, 3, 4]
    monkeypatch.setattr(module, "MOST_SOURCES", 6)
    assert near_copies(moments).tolist() == [0, 0, 1, 2, 3, 4]
    monkeypatch.setattr(module, "MOST_SOURCES", 5)
    assert near_copies(moments).tolist() == [0, 1, 2, 3, 4, 5]
    assert pair_correlations(moments) is None
    for found in (find_copies(moments), find_dependence(moments)):
        assert found.shared is None
        assert found.groups is None


def test_a_pair_that_fits_has_the_mean_loss_of_a_normal_residual():
    def loss(z):
        return stats.norm.pdf(z) * z**2 / (module._SCALE**2 + z**2)

    assert pytest.approx(integrate.quad(loss, -12, 12)[0], abs=5e-4) == module._MEAN_LOSS


def test_a_group_of_dependent_sources_counts_as_one_outlier_less_than_its_sources():
    """Sources 0, 1 and 2 are a group, and so are 4 and 5; pairs are in both orders."""
    dependent = {frozenset(pair) for pair in ((0, 1), (1, 2), (4, 5))}
    pairs = np.nonzero(~np.eye(7, dtype=bool))
    z = np.random.default_rng(0).normal(0, 3, (7, 7))
    z = ((z + z.T) / 2)[pairs]
    is_dependent = np.array([frozenset(pair) in dependent for pair in zip(*pairs, strict=True)])
    expected = 2 * (2 + 1)
    expected += module._MEAN_LOSS * (2 * 3 - 2 * (2 + 1))
    for residual, is_outlier in zip(z, is_dependent, strict=True):
        if not is_outlier:
            expected += residual**2 / (3.0**2 + residual**2)
    assert module._loss(z, is_dependent, pairs, 7) == pytest.approx(expected)
    # A third pair in the first group follows from the other two, and is as noisy as a pair that fits.
    is_dependent |= np.array([set(pair) == {0, 2} for pair in zip(*pairs, strict=True)])
    fits = np.zeros(len(z))
    assert module._loss(fits, is_dependent, pairs, 7) == pytest.approx(2 * (2 + 1) + 2 * module._MEAN_LOSS)
