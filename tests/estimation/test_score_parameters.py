"""Parameters of scores: exact on exact covariances, errors of the order of 1 / sqrt(n), honest intervals."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.estimation.scores import Triplets, TruthScale, fit_scores, measure_misfit, variance_of
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments.scores import ScoreMoments

LOADINGS = np.array([0.9, 0.8, 0.6, 0.5, -0.4])


def sample(rng, n, loadings=LOADINGS):
    truth = rng.normal(size=(n, 1))
    return truth * loadings + rng.normal(size=(n, len(loadings))) * np.sqrt(1 - loadings**2)


def exact_scores(mean, covariance, n=40):
    """Return n rows that have exactly this mean and covariance."""
    rows = np.random.default_rng(0).normal(size=(n, len(mean)))
    rows -= rows.mean(axis=0)
    white = rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows / n)).T
    return mean + white @ np.linalg.cholesky(covariance).T


@pytest.mark.parametrize("m", [3, 4, 8])
def test_exact_covariances_give_exact_parameters(m):
    rng = np.random.default_rng(m)
    scale, noise, bias = rng.uniform(0.5, 3, m), rng.uniform(0.2, 2, m), rng.normal(0, 5, m)
    scores = exact_scores(bias, 1.7**2 * np.outer(scale, scale) + np.diag(noise**2))
    moments = ScoreMoments.of(scores[:, :, None])
    fit = fit_scores(moments, 0.0)
    found = TruthScale.of(fit, moments)
    np.testing.assert_allclose(fit.spreads * np.sqrt(fit.noise), noise, rtol=1e-8)
    np.testing.assert_allclose(fit.spreads * fit.loadings, 1.7 * scale, rtol=1e-8)
    np.testing.assert_allclose(found.scale / found.scale[0], scale / scale[0], rtol=1e-8)
    np.testing.assert_allclose(found.bias - found.bias[0], bias - bias[0], rtol=1e-8, atol=1e-8)
    assert fit.misfit == pytest.approx(0, abs=1e-6)


def test_exact_covariances_with_missing_pairs():
    correlations = np.outer(LOADINGS, LOADINGS)
    pairs = np.full((5, 5), 100)
    pairs[0, 1] = pairs[1, 0] = 0
    pairs[4, :3] = pairs[:3, 4] = 0  # the last source is in no triplet, but in a pair
    correlations = np.where(pairs > 0, correlations, 0.0)
    squares = Triplets(correlations, pairs).squares
    np.testing.assert_allclose(squares, LOADINGS**2, rtol=1e-8)


def test_errors_fall_with_the_square_root_of_the_items():
    rng = np.random.default_rng(0)

    def error(n):
        found = [fit_scores(ScoreMoments.of(sample(rng, n)[:, :, None])).loadings for _ in range(60)]
        return np.sqrt(np.mean((np.array(found) - LOADINGS) ** 2))

    assert error(500) / error(8_000) == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize("i", range(5))
def test_gradients_are_finite_differences(i):
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.02, (5, 5))
    c = np.outer(LOADINGS, LOADINGS) + noise + noise.T
    pairs = np.full((5, 5), 100)
    pairs[0, 1] = pairs[1, 0] = 60
    pairs[4, :3] = pairs[:3, 4] = 0
    c[pairs == 0] = 0
    triplets = Triplets(c, pairs)
    gradient = triplets.gradient(i)
    for j, k in zip(*np.triu_indices(5, 1), strict=True):
        if pairs[j, k] and not (i == 4 and {j, k} != {3, 4}):  # the last one is compared with fixed loadings
            moved = c.copy()
            moved[j, k] += 1e-6
            moved[k, j] += 1e-6
            change = (Triplets(moved, pairs).squares[i] - triplets.squares[i]) / 1e-6
            assert gradient[j, k] + gradient[k, j] == pytest.approx(change, abs=1e-4)


def test_intervals_hold_the_parameters():
    rng = np.random.default_rng(0)
    held = {"square": [], "noise": [], "scale": []}
    logs = np.log(np.abs(LOADINGS))
    center = logs @ LOADINGS**2 / (LOADINGS @ LOADINGS)
    for _ in range(200):
        fit = fit_scores(ScoreMoments.of(sample(rng, 500)[:, :, None]))
        sizes = np.log(np.abs(fit.loadings) * fit.spreads)
        relative = sizes - sizes @ LOADINGS**2 / (LOADINGS @ LOADINGS)
        held["square"].append(np.abs(fit.loadings**2 - LOADINGS**2) < 1.96 * fit.square_errors)
        noise = (1 - LOADINGS**2) / fit.spreads**2
        held["noise"].append(np.abs(fit.noise - noise) < 1.96 * fit.noise_errors)
        held["scale"].append(np.abs(relative - (logs - center)) < 1.96 * fit.scale_errors)
    for name, each in held.items():
        assert 0.91 < np.mean(each) < 0.985, name


def test_equally_good_sources_get_nearly_equal_weights():
    rng = np.random.default_rng(0)
    fit = fit_scores(ScoreMoments.of(sample(rng, 300, np.full(5, 0.8))[:, :, None]))
    assert fit.shrinkage > 0.9


def test_a_source_that_is_noise_gets_little_weight():
    rng = np.random.default_rng(0)
    loadings = np.array([0.9, 0.9, 0.9, 0.0, 0.0, 0.0])
    fit = fit_scores(ScoreMoments.of(sample(rng, 2_000, loadings)[:, :, None]))
    weights = fit.weights_of(np.ones(6, np.int64))
    assert fit.shrinkage < 0.2
    assert np.abs(weights[3:]).max() < 0.2 * weights[:3].min()


def test_errors_that_sources_share_are_misfit():
    rng = np.random.default_rng(0)
    scores = sample(rng, 3_000, np.full(6, 0.7))
    clean = fit_scores(ScoreMoments.of(scores[:, :, None]))
    shared = scores + np.array([1, 1, 0, 0, 0, 0]) * rng.normal(size=(3_000, 1))
    fit = fit_scores(ScoreMoments.of(shared[:, :, None]))
    assert clean.misfit < 0.02
    assert fit.misfit > 0.08
    assert fit.doubt > clean.doubt


def test_tails_are_those_of_the_noise_and_not_of_the_truth():
    rng, n = np.random.default_rng(0), 100_000
    truth = rng.laplace(size=(n, 1)) / np.sqrt(2)  # excess kurtosis 3
    noise = rng.normal(size=(n, 4))
    noise[:, 0] = rng.laplace(size=n) / np.sqrt(2)
    noise[:, 1] = rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    fit = fit_scores(ScoreMoments.of((truth + noise)[:, :, None]))
    np.testing.assert_allclose(fit.tails, [3, 0, 0, 0], atol=0.3)


def test_tails_of_given_shrinkage_are_gaussian():
    scores = sample(np.random.default_rng(0), 200) ** 3
    assert fit_scores(ScoreMoments.of(scores[:, :, None])).tails.any()
    assert not fit_scores(ScoreMoments.of(scores[:, :, None]), 0.5).tails.any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-150, 1e-80, 1e-70, 1e50])
def test_extreme_units_of_scores_are_no_problem(unit):
    scores = sample(np.random.default_rng(0), 200)
    fit = fit_scores(ScoreMoments.of(unit * scores[:, :, None]))
    np.testing.assert_allclose(fit.loadings, fit_scores(ScoreMoments.of(scores[:, :, None])).loadings)
    assert np.isfinite(fit.tails).all()


def test_repeats_split_the_noise():
    rng = np.random.default_rng(0)
    truth, own = rng.normal(size=(4_000, 1, 1)), rng.normal(0, 0.5, (4_000, 3, 1))
    scores = truth + own + rng.normal(0, [[0.2], [0.7], [1.0]], (4_000, 3, 4))
    fit = fit_scores(ScoreMoments.of(scores))
    np.testing.assert_allclose(fit.spreads * np.sqrt(fit.repeat_noise), [0.2, 0.7, 1.0], rtol=0.03)
    np.testing.assert_allclose(fit.spreads * np.sqrt(fit.noise), 0.5, rtol=0.1)
    np.testing.assert_allclose(fit.single * fit.spreads**2, [1.29, 1.74, 2.25], rtol=0.06)


@pytest.mark.parametrize(
    "scores",
    [
        np.random.default_rng(0).normal(size=(50, 1)),
        np.column_stack([np.arange(9.0), -np.arange(9.0)]),
        np.ones((20, 4)),
        np.array([[1.0, 2.0, 3.0]]),
    ],
    ids=["one source", "reversed pair", "constant", "one item"],
)
def test_scores_that_determine_nothing_are_refused(scores):
    with pytest.raises(NotIdentifiableError):
        fit_scores(ScoreMoments.of(scores[:, :, None]))


def test_contradicting_triplets_mean_equal_sources():
    correlations = np.array([[1, 0.5, 0.5], [0.5, 1, -0.1], [0.5, -0.1, 1]])
    triplets = Triplets(correlations, np.full((3, 3), 50))
    assert triplets.equal
    np.testing.assert_allclose(triplets.squares, 0.3)


@pytest.mark.parametrize("coverage", [[1.0] * 4, [0.8] * 4, [0.9, 0.4, 0.7, 1.0]])
def test_variance_of_a_function_of_covariances_with_missing_scores(coverage):
    """Against 1,000 samples; with errors of pairs that cancel if all items have all scores."""
    rng = np.random.default_rng(0)
    loadings = np.array([0.95, 0.8, 0.6, 0.4])
    gradient = np.array([[0.3, 1, -1, -0.5], [1, 0, 1, -0.5], [-1, 1, 0, 1], [-0.5, -0.5, 1, -0.2]])
    found, expected = [], []
    for _ in range(1_000):
        truth, noise = rng.normal(size=(400, 1)), rng.normal(size=(400, 4))
        scores = loadings * truth + np.sqrt(1 - loadings**2) * noise
        scores[rng.random(scores.shape) > coverage] = np.nan
        moments = ScoreMoments.of(scores[:, :, None])
        found.append((gradient * moments.covariances()).sum())
        expected.append(variance_of(gradient, loadings, moments.pairs, 0.0))
    assert np.var(found) == pytest.approx(np.mean(expected), rel=0.15)


def test_misfit_is_what_correlations_exceed_their_loadings_by_beyond_chance():
    loadings = np.array([0.8, 0.6, 0.5])
    pairs = np.full((3, 3), 1_000)
    exact = np.outer(loadings, loadings)
    assert measure_misfit(exact, loadings, pairs) == 0
    sampling = np.mean(
        [(1 - (loadings[i] * loadings[j]) ** 2) ** 2 / 1_000 for i, j in ((0, 1), (0, 2), (1, 2))]
    )
    expected = pytest.approx(np.sqrt(0.2**2 - sampling))
    assert measure_misfit(exact + 0.2, loadings, pairs) == expected
    assert measure_misfit(exact + 0.2, loadings, np.zeros((3, 3), np.int64)) == 0
    assert measure_misfit(exact + 0.2, np.full(3, np.nan), pairs) == 0
