"""Shares of classes from gold labels and probabilities: exact laws, coverage and width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from flyingsquid.estimation.shares import (
    NORMAL_95,
    difference_interval,
    effective_size,
    estimate_shares,
    gold_shares,
    looks_random,
    wilson,
)

MANY = 10**9


def population(n_items, n_classes, noise, rng, share=None):
    """Return classes, and probabilities that are the truth mixed with noise."""
    y = rng.choice(n_classes, n_items, p=share)
    blurred = np.eye(n_classes)[y] + noise * rng.exponential(size=(n_items, n_classes))
    return y, blurred / blurred.sum(axis=1, keepdims=True)


def draw(y, posterior, n, resamples, rng):
    """Return gold labels and probabilities of random samples, shapes (resamples, n, K)."""
    at = np.stack([rng.choice(len(y), n, replace=False) for _ in range(resamples)])
    return np.eye(posterior.shape[1])[y[at]], posterior[at]


def estimate(gold, probabilities, posterior, z=NORMAL_95):
    return estimate_shares(
        gold, probabilities, posterior.mean(axis=0), posterior.var(axis=0), len(posterior), z
    )


# ---------------------------------------------------------------------- laws


@pytest.mark.parametrize("n_items", [40, 60, 100_000])
def test_constant_probabilities_change_nothing(n_items):
    gold = np.eye(3)[np.arange(40) % 5 % 3]
    same = np.array([0.2, 0.5, 0.3])
    found = estimate_shares(gold, np.tile(same, (40, 1)), same, np.zeros(3), n_items, NORMAL_95)
    share, low, high = gold_shares(gold, n_items, NORMAL_95)
    np.testing.assert_allclose(found.share, gold.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=1e-12)
    np.testing.assert_allclose(found.share, share)
    np.testing.assert_allclose(found.n_effective, 40)
    assert not found.coefficient.any()


def test_probabilities_against_the_gold_labels_are_ignored():
    gold = np.eye(2)[np.arange(40) % 2]
    wrong = 1 - gold
    found = estimate_shares(gold, wrong, np.array([0.9, 0.1]), np.full(2, 0.09), 1_000, NORMAL_95)
    np.testing.assert_array_equal(found.coefficient, 0)
    np.testing.assert_allclose(found.share, 0.5)


def test_gold_labels_alone_have_the_interval_of_wilson():
    gold = np.eye(2)[(np.arange(50) % 7 == 0).astype(int)]
    share, low, high = gold_shares(gold, MANY, NORMAL_95)
    np.testing.assert_allclose([low, high], wilson(share, np.array([50, 50])), rtol=1e-6)


def test_interval_solves_the_equation_of_the_score_test():
    """Wilson's ends are the shares whose test statistic is z, with the variance for a finite population."""
    n, n_items = 60, 300
    gold = np.eye(2)[(np.arange(n) % 4 == 0).astype(int)]
    share, low, high = gold_shares(gold, n_items, NORMAL_95)
    for end in (low, high):
        error = np.sqrt(end * (1 - end) / n * (n_items - n) / (n_items - 1))
        np.testing.assert_allclose(np.abs(end - share) / error, NORMAL_95)


def test_all_items_labeled_leave_nothing_open():
    y, posterior = population(30, 3, 0.5, np.random.default_rng(0))
    found = estimate(np.eye(3)[y], posterior, posterior)
    np.testing.assert_allclose([found.low, found.high], [found.share] * 2, atol=1e-12)
    np.testing.assert_allclose(found.share, np.bincount(y, minlength=3) / 30)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(5, 60), st.sampled_from([0.0, 0.05, 0.5, 5.0])
)
def test_shares_add_up_and_lie_in_their_intervals(seed, n_classes, n, noise):
    rng = np.random.default_rng(seed)
    y, posterior = population(500, n_classes, noise, rng)
    found = estimate(*draw(y, posterior, n, 4, rng), posterior)
    np.testing.assert_allclose(found.share.sum(axis=-1), 1)
    assert (found.low >= 0).all()
    assert (found.low <= found.share).all()
    assert (found.share <= found.high).all()
    assert (found.high <= 1).all()
    assert (found.coefficient >= 0).all()
    assert np.isfinite(found.n_effective).all()
    assert (found.n_effective <= 500).all()


def test_order_of_items_and_classes_does_not_matter():
    rng = np.random.default_rng(0)
    y, posterior = population(400, 3, 0.5, rng)
    gold, probabilities = (part[0] for part in draw(y, posterior, 50, 1, rng))
    found = estimate(gold, probabilities, posterior)
    order, swap = rng.permutation(50), [2, 0, 1]
    np.testing.assert_allclose(estimate(gold[order], probabilities[order], posterior), found)
    swapped = estimate(gold[:, swap], probabilities[:, swap], posterior[:, swap])
    np.testing.assert_allclose(swapped, np.array(found)[:, swap])


def test_one_class_only():
    gold = np.eye(2)[np.zeros(20, int)]
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet([5, 1], 1_000)
    found = estimate(gold, posterior[:20], posterior)
    share, low, high = gold_shares(gold, 1_000, NORMAL_95)
    np.testing.assert_allclose([found.share, found.low, found.high], [share, low, high], atol=1e-12)
    assert found.low[0] < 0.9


def test_effective_size_has_the_variance_it_claims():
    def variance(n, n_items):
        return (n_items - n) / (n_items - 1) / n

    for n, n_items, gain in ((100, 10_000, 3.0), (100, 150, 2.0)):
        size = effective_size(n, n_items, gain)
        assert variance(size, n_items) == pytest.approx(variance(n, n_items) / gain)


def test_difference_of_equal_estimates_is_symmetric():
    difference, low, high = difference_interval((0.5, 0.4, 0.6), (0.5, 0.4, 0.6))
    assert (difference, low) == (0.0, pytest.approx(-high))
    assert high == pytest.approx(0.1 * np.sqrt(2))


def by_definition(gold, probabilities, mean, variance, n_items, z):
    """Return ``estimate_shares`` for one sample, one number at a time."""
    n, classes = len(gold), range(gold.shape[1])
    y = [[gold[i, k] - gold[:, k].mean() for k in classes] for i in range(n)]
    f = [[probabilities[i, k] - probabilities[:, k].mean() for k in classes] for i in range(n)]
    slopes, residuals, shares = [], [], []
    for k in classes:
        product = sum(y[i][k] * f[i][k] for i in range(n))
        spread = sum(f[i][k] ** 2 for i in range(n))
        denominator = max(spread, (n - 1) * variance[k])
        slope = product / denominator if product > 0 else 0.0
        noise = sum((y[i][k] - slope * f[i][k]) ** 2 for i in range(n)) / (n - 2)
        signal = slope**2 * denominator
        slopes.append(min(slope * (1 - noise / signal), 1.5) if signal > noise else 0.0)
        residuals.append([y[i][k] - slopes[k] * f[i][k] for i in range(n)])
        shares.append(gold[:, k].mean() + slopes[k] * (mean[k] - probabilities[:, k].mean()))
    # Residuals and shares do not add up yet; the classes with the largest residuals make up for it.
    sizes = [sum(e**2 for e in residuals[k]) for k in classes]
    part = [size / sum(sizes) if sum(sizes) > 0 else 1 / len(sizes) for size in sizes]
    shares = [max(share - part[k] * (sum(shares) - 1), 0.0) for k, share in enumerate(shares)]
    shares = [share / sum(shares) for share in shares]
    found = []
    correction = (n_items - n) / (n_items - 1)
    for k in classes:
        left = sum((residuals[k][i] - part[k] * sum(r[i] for r in residuals)) ** 2 for i in range(n))
        total = sum(y[i][k] ** 2 for i in range(n))
        open_part = left / total if total else 1.0
        open_part *= 1 + min(max(1 - open_part, 0.0), 1.0) / (n - 2)
        p, v = shares[k], correction / n
        # The ends are the roots of (p - x)² = z² (open x (1 - x) + (1 - open) allowance) v, in Wilson's form.
        pull = z**2 * open_part * v
        center = (p + pull / 2) / (1 + pull)
        reach = z * np.sqrt(p * (1 - p) * open_part * v + (z * v) ** 2 / 4) / (1 + pull)
        before, after = p * (1 - p) + z**2 * v / 4, p * (1 - p) * open_part + z**2 * v / 4
        gain = before / after if open_part > 0 else 1.0
        size = n_items / (1 + (n_items - n) / (n * gain))
        low, high = min(max(center - reach, 0.0), p), max(min(center + reach, 1.0), p)
        found.append((p, low, high, slopes[k], size))
    return np.transpose(found)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n", [3, 12, 60])
def test_estimate_agrees_with_its_definition(n, n_classes):
    rng = np.random.default_rng(n)
    for noise in (0.02, 0.5, 2.0):
        y, posterior = population(200, n_classes, noise, rng)
        gold, probabilities = (part[0] for part in draw(y, posterior, n, 1, rng))
        rest = posterior.mean(axis=0), posterior.var(axis=0), 200, NORMAL_95
        expected = by_definition(gold, probabilities, *rest)
        np.testing.assert_allclose(estimate_shares(gold, probabilities, *rest), expected, atol=1e-12)


def test_probabilities_close_to_one_half_are_used_with_a_limit():
    gold = np.eye(2)[np.arange(40) % 2]
    shrunk = 0.5 + 0.1 * (gold - 0.5)
    found = estimate(gold, shrunk, np.concatenate([shrunk, shrunk[:1]]))
    np.testing.assert_array_equal(found.coefficient, 1.5)


@pytest.mark.parametrize("n_values", [1, 3])
def test_sample_looks_random_unless_a_mean_is_too_far_off(n_values):
    """By chance, a mean of at least one of the values is too far off in at most one of 1,000 samples."""
    n, n_items, variance = 40, 100, np.full(n_values, 0.09)
    error = 0.3 * np.sqrt((n_items - n) / (n_items - 1) / n)
    limit = norm.ppf(1 - 0.0005 / n_values) * error
    for sign in (-1, 1):
        for factor, is_random in ((0.999, True), (1.001, False)):
            sample = np.full((n, n_values), 0.5)
            sample[:, -1] += sign * factor * limit
            assert looks_random(sample, np.full(n_values, 0.5), variance, n_items) is is_random


def test_all_items_or_none_always_look_random():
    values = np.linspace(0, 1, 10)[:, None]
    for sample in (values, values[:0]):
        assert looks_random(sample, np.array([0.9]), np.array([0.01]), 10)


def test_rounding_of_a_constant_is_no_evidence_against_a_random_sample():
    assert looks_random(np.full((5, 1), 0.3 + 1e-10), np.array([0.3]), np.array([1e-22]), 100)


# ---------------------------------------------------------------------- coverage


@pytest.mark.parametrize("noise", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("share", [[0.5, 0.5], [0.85, 0.15], [0.6, 0.25, 0.15]])
@pytest.mark.parametrize("n", [70, 200])
def test_coverage_and_width(noise, share, n):
    rng = np.random.default_rng(0)
    y, posterior = population(5_000, len(share), noise, rng, share)
    # The model is biased: it favors the first class, and errs on a part of the items.
    posterior = posterior * np.linspace(2, 0.5, len(share))
    posterior /= posterior.sum(axis=1, keepdims=True)
    posterior[:250] = posterior[rng.permutation(250)]
    gold, probabilities = draw(y, posterior, n, 1_000, rng)
    truth = np.bincount(y) / len(y)
    found = estimate(gold, probabilities, posterior)
    coverage = ((found.low <= truth) & (truth <= found.high)).mean(axis=0)
    _, low, high = gold_shares(gold, len(y), NORMAL_95)
    width = (found.high - found.low).mean(axis=0) / (high - low).mean(axis=0)
    assert coverage.min() >= 0.93
    assert width.max() <= 1.05
    if noise < 1:
        assert width.max() < 0.8


def test_useless_probabilities_cost_almost_nothing():
    rng = np.random.default_rng(0)
    y = rng.choice(2, 5_000, p=[0.7, 0.3])
    posterior = rng.dirichlet([1, 1], 5_000)
    gold, probabilities = draw(y, posterior, 50, 2_000, rng)
    found = estimate(gold, probabilities, posterior)
    share, low, high = gold_shares(gold, 5_000, NORMAL_95)
    truth = np.bincount(y) / len(y)
    assert (found.high - found.low).mean() <= 1.02 * (high - low).mean()
    assert ((found.share - truth) ** 2).mean() <= 1.05 * ((share - truth) ** 2).mean()
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= 0.93


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_other_levels_of_confidence(confidence):
    rng = np.random.default_rng(0)
    y, posterior = population(5_000, 2, 0.3, rng)
    truth = np.bincount(y) / len(y)
    gold, probabilities = draw(y, posterior, 200, 2_000, rng)
    found = estimate(gold, probabilities, posterior, norm.ppf((1 + confidence) / 2))
    assert ((found.low <= truth) & (truth <= found.high)).mean() == pytest.approx(confidence, abs=0.025)


def test_reported_precision_is_that_of_repeated_samples():
    rng = np.random.default_rng(0)
    y, posterior = population(20_000, 2, 0.3, rng)
    truth = np.bincount(y) / len(y)
    gold, probabilities = draw(y, posterior, 200, 2_000, rng)
    found = estimate(gold, probabilities, posterior)
    share, _, _ = gold_shares(gold, len(y), NORMAL_95)
    gain = ((share - truth) ** 2).mean() / ((found.share - truth) ** 2).mean()
    assert gain > 3
    assert np.median(found.n_effective) == pytest.approx(effective_size(200, 20_000, gain), rel=0.2)


def test_difference_covers():
    rng = np.random.default_rng(0)
    ends, truth = [], []
    for share in ([0.4, 0.6], [0.6, 0.4]):
        y, posterior = population(3_000, 2, 0.5, rng, share)
        found = estimate(*draw(y, posterior, 80, 1_000, rng), posterior)
        ends.append(np.stack([found.share, found.low, found.high])[:, :, 1].T)
        truth.append((y == 1).mean())
    held = [
        low <= truth[0] - truth[1] <= high
        for _, low, high in (difference_interval(tuple(a), tuple(b)) for a, b in zip(*ends, strict=True))
    ]
    assert 0.93 <= np.mean(held) <= 0.985
