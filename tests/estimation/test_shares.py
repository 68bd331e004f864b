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
