"""Posteriors of scores, compared with dense linear algebra and with sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student

from flyingsquid.inference.scores import LevelShares, posterior, probability_best, robust_posterior
from flyingsquid.inference.weighted import to_probabilities


def dense_posterior(z, loadings, noise):
    """Condition the joint Gaussian of truth and scores on the scores that are present."""
    present = ~np.isnan(z)
    if not present.any():
        return 0.0, 1.0
    cross = loadings[present]
    covariance = np.outer(cross, cross) + np.diag(noise[present])
    gain = np.linalg.solve(covariance, cross)
    return gain @ z[present], 1 - gain @ cross


@given(st.integers(0, 10_000))
def test_optimal_weights_give_the_exact_posterior(seed):
    rng = np.random.default_rng(seed)
    m = rng.integers(1, 6)
    loadings = rng.uniform(-0.95, 0.95, m)
    noise = rng.uniform(0.05, 2, (8, m))
    z = np.where(rng.random((8, m)) < 0.3, np.nan, rng.normal(size=(8, m)))
    mean, variance = posterior(z, loadings, noise, loadings / noise, 0.0)
    for i in range(8):
        expected = dense_posterior(z[i], loadings, noise[i])
        np.testing.assert_allclose((mean[i], variance[i]), expected, atol=1e-12)


def test_other_weights_condition_on_the_weighted_sum():
    """The regression of the truth on a sum of scores, by its covariances."""
    loadings, noise, weights = np.array([0.9, 0.5]), np.array([0.19, 0.75]), np.array([1.0, 1.0])
    z = np.array([[0.3, -1.2]])
    mean, variance = posterior(z, loadings, noise[None], weights[None], 0.0)
    total = (weights @ loadings) ** 2 + weights**2 @ noise
    assert mean[0] == pytest.approx(z.sum() * (weights @ loadings) / total)
    assert variance[0] == pytest.approx(1 - (weights @ loadings) ** 2 / total)


def test_shared_noise_widens_the_posterior():
    arguments = np.ones((1, 2)), np.array([0.8, 0.8]), np.full((1, 2), 0.36), np.ones((1, 2))
    assert posterior(*arguments, 0.1)[1] > posterior(*arguments, 0.0)[1]


def test_probabilities_of_the_best_agree_with_sampling():
    rng = np.random.default_rng(0)
    means, spread = np.array([0.0, 0.3, -0.5, 1.0]), np.array([1.0, 0.5, 2.0, 0.1])
    drawn = (means + spread * rng.normal(size=(400_000, 4))).argmax(axis=1)
    expected = np.bincount(drawn, minlength=4) / len(drawn)
    found = probability_best(means[None], spread[None] ** 2)[0]
    np.testing.assert_allclose(found, expected, atol=0.004)


def test_probabilities_of_many_groups_are_those_of_each():
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(3_000, 3)), rng.uniform(0.1, 1, (3_000, 3))
    whole = probability_best(means, variances)
    np.testing.assert_allclose(whole.sum(axis=1), 1)
    np.testing.assert_allclose(whole[2_999], probability_best(means[2_999:], variances[2_999:])[0])


def test_equal_candidates_are_equally_probable():
    found = probability_best(np.zeros((1, 3)), np.zeros((1, 3)))
    np.testing.assert_allclose(found, 1 / 3)


def test_cells_of_a_scale_have_probability_one_together():
    levels = np.array([1.0, 2.0, 4.0])
    shares = LevelShares.of(levels[:, None], np.array([0.7]), levels)
    for share_of_any in (0.0, 0.3, 1.0):
        evidence = shares.evidence(np.arange(3)[:, None], share_of_any)
        np.testing.assert_allclose(np.exp(evidence).sum(axis=0), 1)


def test_missing_scores_are_no_evidence():
    shares = LevelShares.of(np.ones((3, 2)), np.ones(2), np.arange(3.0))
    np.testing.assert_allclose(to_probabilities(shares.evidence(np.array([[-1, -1]]), 0.3)), 1 / 3)


def test_errors_that_respect_no_order_count_by_agreement():
    """Three judges give 1 and two give 5 stars."""
    levels = np.arange(1.0, 6.0)
    shares = LevelShares.of(np.repeat(levels[:, None], 5, axis=1), np.full(5, 1.4), levels)
    cells = np.array([[0, 0, 0, 4, 4], [1, 2, 2, 2, 3]])
    assert shares.evidence(cells, 0.0).argmax(axis=1).tolist() == [1, 2]
    assert shares.evidence(cells, 1.0).argmax(axis=1).tolist() == [0, 2]


@pytest.mark.parametrize("expected", [0.0, 0.4, 1.0])
def test_the_share_of_errors_without_order_follows_from_equal_scores(expected):
    levels, balance = np.arange(1.0, 6.0), np.full(5, 0.2)
    shares = LevelShares.of(np.repeat(levels[:, None], 3, axis=1), np.array([0.7, 1.0, 1.3]), levels)
    rates = [np.einsum("k,cki,ckj->ij", balance, p, p) for p in (shares.ordered, shares.any_level)]
    equal = 1e6 * ((1 - expected) * rates[0] + expected * rates[1])
    found = shares.share_of_any(np.full((3, 3), 10**6), equal.astype(np.int64), balance)
    assert found == pytest.approx(expected, abs=1e-4)


def test_reweighting_is_closer_to_the_exact_posterior_of_student_noise():
    rng = np.random.default_rng(0)
    loadings, noise, tails = (
        np.array([0.9, 0.8, 0.7]),
        np.array([0.19, 0.36, 0.51]),
        np.array([2.0, 1.0, 0.0]),
    )
    freedom = np.array([7.0, 10.0])
    truth = rng.normal(size=300)
    errors = rng.normal(size=(300, 3))
    errors[:, :2] = rng.standard_t(freedom, (300, 2)) * np.sqrt((freedom - 2) / freedom)
    z = truth[:, None] * loadings + errors * np.sqrt(noise)
    grid = np.linspace(-6, 6, 1_201)
    density = norm.logpdf(grid) + norm.logpdf((z[:, 2, None] - loadings[2] * grid) / np.sqrt(noise[2]))
    for j in range(2):
        scale = np.sqrt(noise[j] * (freedom[j] - 2) / freedom[j])
        density = density + student.logpdf((z[:, j, None] - loadings[j] * grid) / scale, freedom[j])
    weights = np.exp(density - density.max(axis=1, keepdims=True))
    exact = weights @ grid / weights.sum(axis=1)
    full = np.broadcast_to(noise, z.shape)
    plain = posterior(z, loadings, full, loadings / full, 0.0)[0]
    found = robust_posterior(z, loadings, full, loadings / full, 0.0, tails)[0]
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.7 * np.sqrt(np.mean((plain - exact) ** 2))


def test_without_tails_the_posterior_is_gaussian():
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(20, 3)), np.full((20, 3), 0.5)
    loadings = np.sqrt(np.full(3, 0.5))
    for one, other in zip(
        robust_posterior(z, loadings, noise, noise, 0.1, np.zeros(3)),
        posterior(z, loadings, noise, noise, 0.1),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_robust_posteriors_do_not_depend_on_the_units_of_a_judge():
    rng = np.random.default_rng(5)
    z, loadings, tails = rng.normal(size=(30, 4)), rng.uniform(0.3, 0.9, 4), np.array([0.0, 1.0, 3.0, 6.0])
    noise = np.broadcast_to(1 - loadings**2, z.shape)
    units = np.array([1.0, -1.0, 0.5, -3.0])  # a negative unit turns a scale around

    def result(unit):
        scaled = loadings * unit
        return robust_posterior(z * unit, scaled, noise * unit**2, scaled / (noise * unit**2), 0.0, tails)

    for found, expected in zip(result(units), result(np.ones(4)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
