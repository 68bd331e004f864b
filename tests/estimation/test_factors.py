"""Factor model of votes: exact on exact correlations, consistent, and equivariant."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import flyingsquid as fs
from flyingsquid.estimation.factors import (
    Factors,
    count_factors,
    direction_by_gold,
    fit_factors,
    informative_items,
    solve_factors,
)


def random_loadings(m, rank, rng):
    loadings = rng.uniform(-0.5, 0.8, (m, rank))
    size = np.sqrt((loadings**2).sum(axis=1, keepdims=True))
    return loadings / np.maximum(size / 0.9, 1)


@pytest.mark.parametrize(("m", "rank"), [(3, 1), (6, 1), (6, 2), (7, 2), (12, 3), (40, 2), (30, 4)])
def test_exact_correlations_give_exact_loadings(m, rank):
    rng = np.random.default_rng(m + rank)
    for _ in range(10):
        truth = random_loadings(m, rank, rng)
        correlation = truth @ truth.T
        np.fill_diagonal(correlation, 1)
        found = solve_factors(correlation, rank)
        np.testing.assert_allclose(found @ found.T, truth @ truth.T, atol=1e-8)


def test_rank_one_is_the_triplet_formula():
    a = np.array([0.8, 0.6, 0.5])
    np.testing.assert_allclose(solve_factors(np.outer(a, a), 1)[:, 0], a, atol=1e-12)


def test_the_order_of_sources_does_not_matter():
    rng = np.random.default_rng(0)
    truth = random_loadings(11, 2, rng)
    noisy = truth @ truth.T + 0.02 * rng.standard_normal((11, 11))
    noisy = (noisy + noisy.T) / 2
    order = rng.permutation(11)
    plain, moved = solve_factors(noisy, 2), solve_factors(noisy[np.ix_(order, order)], 2)
    np.testing.assert_allclose(moved @ moved.T, (plain @ plain.T)[np.ix_(order, order)], atol=1e-8)


def two_explanations(n, rng, *, truth=(0.8, 0.1), bias=(0.1, 0.8), m=8):
    """Return votes of which one half follows the truth and one half a bias, with the truth."""
    y, b = rng.choice([-1, 1], (2, n))
    of_y, of_b = np.repeat([truth[0], bias[0]], m // 2), np.repeat([truth[1], bias[1]], m // 2)
    mean = y[:, None] * of_y + b[:, None] * of_b
    votes = (rng.random((n, m)) < (1 + mean) / 2).astype(int)
    return fs.Votes.from_classes(votes, classes=(0, 1)), (y + 1) // 2, np.column_stack([of_y, of_b])


def test_loadings_of_votes_approach_the_truth_with_the_root_of_the_number_of_items():
    rng = np.random.default_rng(0)

    def error(n):
        errors = []
        for _ in range(30):
            votes, _, truth = two_explanations(n, rng)
            found = fit_factors(fs.Moments.of(votes), 2).loadings
            errors.append(np.mean((found @ found.T - truth @ truth.T) ** 2))
        return np.sqrt(np.mean(errors))

    assert error(500) / error(8_000) == pytest.approx(4, rel=0.35)


def test_the_number_of_factors_is_found():
    rng = np.random.default_rng(0)
    two, y, _ = two_explanations(2_000, rng)
    assert fit_factors(fs.Moments.of(two)).rank == 2
    right = rng.random((2_000, 8)) < 0.8
    one = fs.Votes.from_classes(np.where(right, y[:, None], 1 - y[:, None]), classes=(0, 1))
    assert fit_factors(fs.Moments.of(one)).rank == 1
    assert count_factors(np.zeros((6, 6)), np.full((6, 6), 100.0)) == 1


def test_informative_items_determine_the_direction_better_than_random_ones():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(15):
        votes, y, _ = two_explanations(400, rng)
        scores = fit_factors(fs.Moments.of(votes), 2).scores(votes.codes)
        plain = np.asarray(votes.codes).mean(axis=1)
        none = np.zeros(400, bool)
        chosen = informative_items(scores, none, 6)
        assert len(set(chosen.tolist())) == 6
        for at in (chosen, rng.choice(400, 6, replace=False)):
            found = direction_by_gold(scores, plain, scores[at], y[at])
            hits.append(((scores @ found.coefficients + found.intercept > 0) == y).mean())
    best, at_random = np.mean(hits[::2]), np.mean(hits[1::2])
    assert best > at_random


def test_labeled_items_are_not_chosen_again():
    scores = np.random.default_rng(0).standard_normal((8, 2))
    is_labeled = np.arange(8) < 5
    assert sorted(informative_items(scores, is_labeled, 10).tolist()) == [5, 6, 7]
    assert is_labeled.sum() == 5


@pytest.mark.parametrize("n_gold", [6, 12])
def test_gold_labels_choose_the_direction(n_gold):
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(20):
        votes, y, _ = two_explanations(400, rng)
        factors = fit_factors(fs.Moments.of(votes), 2)
        scores = factors.scores(votes.codes)
        plain = np.asarray(votes.codes).mean(axis=1)
        at = rng.choice(400, n_gold, replace=False)
        found = direction_by_gold(scores, plain, scores[at], y[at])
        hits.append(((scores @ found.coefficients + found.intercept > 0) == y).mean())
    assert np.mean(hits) > 0.9


def test_left_out_log_odds_are_those_of_fits_without_the_item():
    rng = np.random.default_rng(0)
    scores, plain = rng.standard_normal((50, 2)), rng.random(50)
    at, gold = np.arange(12), rng.integers(0, 2, 12)
    found = direction_by_gold(scores, plain, scores[at], gold)
    for i in range(12):
        others = at != i
        without = direction_by_gold(scores, plain, scores[at[others]], gold[others])
        expected = scores[i] @ without.coefficients + without.intercept
        assert found.left_out[i] == pytest.approx(expected, abs=1e-8)


def test_votes_that_do_not_determine_factors():
    few = fs.Votes.from_classes(np.random.default_rng(0).integers(0, 2, (100, 5)), classes=(0, 1))
    assert fit_factors(fs.Moments.of(few), 2) is None
    three = fs.Votes.from_classes(np.random.default_rng(0).integers(0, 3, (100, 8)), classes=(0, 1, 2))
    assert fit_factors(fs.Moments.of(three)) is None
    short = fs.Votes.from_classes(np.random.default_rng(0).integers(0, 2, (8, 8)), classes=(0, 1))
    assert fit_factors(fs.Moments.of(short)) is None


@pytest.mark.parametrize(("n_apart", "is_enough"), [(2, True), (4, False)])
def test_four_fifths_of_the_pairs_must_be_comparable(n_apart, is_enough):
    votes, _, _ = two_explanations(1_000, np.random.default_rng(0), m=6)
    codes = np.asarray(votes.codes).copy()
    codes[:500, :n_apart] = codes[500:, 5] = -1  # the pairs of these with the last source share no item
    found = fit_factors(fs.Moments.of(fs.Votes.from_classes(codes, classes=(0, 1))), 1)
    assert (found is not None) == is_enough


# ---------------------------------------------------------------------- definitions


def penalized_loss(theta, features, gold, mean, precision, weights):
    logits = features @ theta
    loss = weights @ (np.logaddexp(0, logits) - gold * logits)
    return loss + ((theta - mean) ** 2 * precision).sum() / 2


def test_direction_is_the_mode_of_its_posterior_and_left_out_items_have_no_part():
    """The prior is half a unit along the label-free labels, with deviations 2 and, for the intercept, .5."""
    rng = np.random.default_rng(0)
    every, labels = rng.normal(size=(200, 2)) * [1.0, 3.0], rng.random(200)
    gold, weights = rng.integers(0, 2, 12), rng.uniform(0.5, 2, 12)
    found = direction_by_gold(every, labels, every[:12], gold, weights)
    spread = np.sqrt((every**2).mean(axis=0))
    start = (every / spread).T @ (2 * labels - 1)
    mean = np.append(0.5 * start / np.linalg.norm(start), 0.0)
    precision = np.array([1 / 4, 1 / 4, 4.0])
    features = np.column_stack([every[:12] / spread, np.ones(12)])

    def best(share):
        arguments = (features, gold, mean, precision, share)
        return optimize.minimize(penalized_loss, mean, arguments, tol=1e-12).x

    whole = best(weights)
    np.testing.assert_allclose(found.coefficients, whole[:2] / spread, atol=1e-4)
    assert found.intercept == pytest.approx(whole[2], abs=1e-4)
    for i in range(12):
        without = best(np.where(np.arange(12) == i, 0.0, weights))
        assert found.left_out[i] == pytest.approx(features[i] @ without, abs=1e-4)


def test_informative_items_increase_the_determinant_of_the_information_most():
    rng = np.random.default_rng(1)
    scores, labeled = rng.normal(size=(15, 2)), np.arange(15) < 3
    features = np.column_stack([scores / np.sqrt((scores**2).mean(axis=0)), np.ones(15)])
    information = np.diag([1 / 4, 1 / 4, 4.0]) + features[:3].T @ features[:3]
    left, expected = list(range(3, 15)), []
    for _ in range(4):
        gains = [np.linalg.det(information + np.outer(features[i], features[i])) for i in left]
        best = left.pop(int(np.argmax(gains)))
        information = information + np.outer(features[best], features[best])
        expected.append(best)
    assert informative_items(scores, labeled, 4).tolist() == expected
    assert sorted(informative_items(scores, labeled, 99).tolist()) == list(range(3, 15))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([3, 0.5, 0, 0, 0, 0], 1), ([3, 0.8, 0, 0, 0, 0], 2), ([3, 0.8, 0.8, 0, 0, 0], 2), ([0.01] * 6, 1)],
)
def test_factors_are_counted_if_they_exceed_noise_and_a_fifth_of_the_largest(sizes, expected):
    """The noise of 1,000 items and six sources is .15; six sources determine two factors."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    found = count_factors(basis @ np.diag(sizes) @ basis.T, np.full((6, 6), 1_000.0))
    assert found == expected


def test_votes_are_standardized_by_their_mean_and_deviation():
    rng = np.random.default_rng(0)
    y = rng.random(2_000) < 0.3
    votes = np.where(rng.random((2_000, 6)) < 0.85, y[:, None], ~y[:, None]).astype(int)
    votes[rng.random(votes.shape) < 0.1] = -1
    found = fit_factors(fs.Moments.of(votes))
    for i in range(6):
        signed = 2 * votes[votes[:, i] >= 0, i] - 1
        assert found.means[i] == pytest.approx(signed.mean())
        assert found.scales[i] == pytest.approx(signed.std())


def test_scores_are_the_regression_of_factors_on_votes():
    """The coefficients are the inverse of the implied correlations times the loadings."""
    loadings = random_loadings(7, 2, np.random.default_rng(3))
    scales = np.linspace(0.5, 1.0, 7)
    scales[4] = 0.0
    correlation = loadings @ loadings.T
    np.fill_diagonal(correlation, 1)
    expected = np.linalg.solve(correlation, loadings) / np.where(scales > 0, scales, np.inf)[:, None]
    np.testing.assert_allclose(Factors(loadings, np.zeros(7), scales).coefficients, expected, atol=1e-12)


def test_scores_of_items_leave_out_missing_votes():
    rng = np.random.default_rng(0)
    factors = Factors(random_loadings(5, 2, rng), rng.uniform(-0.5, 0.5, 5), rng.uniform(0.5, 1, 5))
    codes = rng.integers(-1, 2, (20, 5))
    expected = np.zeros((20, 2))
    for n, i in np.argwhere(codes >= 0):
        expected[n] += (2 * codes[n, i] - 1 - factors.means[i]) * factors.coefficients[i]
    np.testing.assert_allclose(factors.scores(codes), expected, atol=1e-12)


def test_undecided_labels_give_the_direction_no_prior():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    found = direction_by_gold(scores, np.full(30, 0.5), scores, gold)
    mirrored = direction_by_gold(scores, np.full(30, 0.5), -scores, gold)
    assert np.isfinite(found.coefficients).all()
    np.testing.assert_allclose(found.coefficients, -mirrored.coefficients, atol=1e-8)
