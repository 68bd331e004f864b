"""Parameters of sources that give scores: a Gaussian one-factor model in closed form, from triplets.

Source j gives item i the score ``mean_j + spread_j * (loading_j * truth_i + noise_ij)``, where the truth has
mean 0 and variance 1, and noise is independent between sources. For three sources, c_ij c_ik / c_jk is
loading_i², as for triplets of votes (Fu et al. 2020, section 3), where c are correlations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments.scores import ScoreMoments

Array = NDArray[np.float64]
# Smallest variance of noise, as a share of the variance of scores: weights stay finite.
_LEAST_NOISE = 1e-6
# A pair of sources needs this many items in common.
_LEAST_OVERLAP = 3
# Doubt in the model that remains if it fits perfectly, as it always does for three sources: errors that all
# sources share look like truth. Of .03, .05 and .08, none was clearly better on random panels of asset_scores
# and rewardbench2_scores, on which this was chosen.
_DOUBT = 0.05
# How abruptly equal weights give way to better ones. Of 150 random panels of three and of five judges of
# rewardbench2_scores, 32% and 17% are below the mean of z-scores with 2, and 20% and 3% with 4.
_SHARPNESS = 4


@dataclass(frozen=True, slots=True, eq=False)
class ScoreParameters:
    """Estimated parameters of m sources.

    Attributes
    ----------
    means, spreads : arrays of shape (m,)
        Mean and standard deviation of the scores, each a mean over repeats; NaN without varying scores.
    loadings : array of shape (m,)
        Correlation with the truth; NaN if it is not determined. Such a source has weight 0.
    noise : array of shape (m,)
        Variance of the noise that repeats share, as a share of the variance of scores.
    repeat_noise : array of shape (m,)
        Variance between repeats in the same unit; 0 without repeats.
    single : array of shape (m,)
        Variance of single scores in the same unit.
    square_errors, scale_errors, noise_errors : arrays of shape (m,)
        Standard errors of the squared loadings, of the logarithms of the loadings compared with the mean of
        all sources, and of the noise.
    misfit : float
        Root mean square of the correlations that the loadings do not explain, beyond sampling error.
    equal : bool
        Whether all sources are assumed to be equally reliable.
    tails : array of shape (m,)
        Excess kurtosis of the noise, by which the posterior discounts scores far from the others; 0 (Gaussian
        noise) if the shrinkage is given.
    doubt : float
        Uncertainty of the weights that follow from the loadings; 0 if the shrinkage is given.
    shrinkage : float
        Share of equal weights, in [0, 1].
    """

    means: Array
    spreads: Array
    loadings: Array
    noise: Array
    repeat_noise: Array
    single: Array
    square_errors: Array
    scale_errors: Array
    noise_errors: Array
    misfit: float
    equal: bool
    tails: Array
    doubt: float = 0.0
    shrinkage: float = 0.0

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Mask of the sources whose loading is determined, shape (m,)."""
        return ~np.isnan(self.loadings)

    @property
    def shared(self) -> float:
        """Correlation of noise that the posterior assumes between any two sources."""
        return self.misfit if self.doubt > 0 else 0.0

    def noise_of(self, repeats: NDArray[np.int64]) -> Array:
        """Return the variance of noise of means over repeats; ``repeats`` has shape (..., m)."""
        return np.where(self.usable, self.noise + self.repeat_noise / np.maximum(repeats, 1), 1.0)

    def weights_of(self, repeats: NDArray[np.int64]) -> Array:
        """Return the weights of standardized means over repeats; ``repeats`` has shape (..., m)."""
        loadings = np.where(self.usable, self.loadings, 0.0)
        typical = np.abs(loadings / (self.noise_of(np.ones(len(loadings), np.int64)) + self.doubt))
        unit = typical.sum() / self.usable.sum()
        best = loadings / (self.noise_of(repeats) + self.doubt) / unit
        return np.where(self.usable, self.shrinkage + (1 - self.shrinkage) * best, 0.0)


def fit_scores(moments: ScoreMoments, shrinkage: float | None = None) -> ScoreParameters:
    """Estimate the parameters of all sources; ``shrinkage=None`` is chosen by how well the model fits.

    Raises
    ------
    NotIdentifiableError
        If fewer than two sources have varying scores on common items, or if they do not agree.
    """
    correlations, spreads = correlate(moments)
    triplets = Triplets(correlations, moments.pairs)
    loadings = _signed(triplets.squares, correlations, equal=triplets.equal)
    usable = ~np.isnan(loadings)
    misfit = measure_misfit(correlations, loadings, moments.pairs) if usable.sum() > 3 else 0.0
    noise, repeat_noise, single = _split_noise(moments, spreads, loadings)
    errors = _standard_errors(triplets, loadings, moments.pairs, misfit)
    tails = measure_tails(moments, spreads, loadings) if shrinkage is None else np.zeros(len(loadings))
    found = ScoreParameters(
        moments.means(),
        spreads,
        loadings,
        noise,
        repeat_noise,
        single,
        *errors,
        misfit,
        triplets.equal,
        tails,
    )
    if shrinkage is not None:
        return replace(found, shrinkage=shrinkage)
    doubt = float(np.sqrt(_DOUBT**2 + misfit**2 + np.mean(found.square_errors[usable] ** 2)))
    return replace(found, doubt=doubt, shrinkage=choose_shrinkage(loadings, correlations, doubt))


def correlate(moments: ScoreMoments) -> tuple[Array, Array]:
    """Return correlations (m, m), 0 for pairs without enough items, and standard deviations (m,)."""
    covariances = moments.covariances()
    variances = np.maximum(np.nan_to_num(np.diagonal(covariances)), 0.0)
    # Rounding may leave a tiny variance to a source that always gives the same score.
    constant = (variances <= (1e-13 * moments.center) ** 2) | (moments.counts < _LEAST_OVERLAP)
    spreads = np.where(constant, np.nan, np.sqrt(variances))
    correlations = covariances / spreads[:, None] / spreads[None, :]
    correlations = np.where(moments.pairs >= _LEAST_OVERLAP, correlations, 0.0)
    # A few common items may deviate more than all items of a source.
    return np.clip(np.nan_to_num(correlations), -1.0, 1.0), spreads


class Triplets:
    """Squared loadings from all triplets of sources, and their derivatives.

    The mean of c_ij c_ik / c_jk with weights c_jk² is Σ c_ij c_ik c_jk / Σ c_jk². Triplets are also weighted
    by the numbers of common items of their pairs. A source in no triplet is compared with sources that are in
    some. If there are none, as for two sources, or if they contradict each other, all sources are assumed to
    be equally reliable. Time O(m³).

    Attributes
    ----------
    squares : array of shape (m,)
        Squared loadings, which may be outside [0, 1] because of sampling noise; NaN if not determined.
    equal : bool
        Whether all sources are assumed to be equally reliable.

    Examples
    --------
    >>> loadings = np.array([0.9, 0.8, 0.5, 0.3])
    >>> squares = Triplets(np.outer(loadings, loadings), np.full((4, 4), 100)).squares
    >>> np.sqrt(squares).round(10)
    array([0.9, 0.8, 0.5, 0.3])
    """

    def __init__(self, correlations: Array, pairs: NDArray[np.int64]) -> None:
        m = len(correlations)
        self._c = np.where(np.eye(m, dtype=bool), 0.0, correlations)
        self._shares = np.where(self._c != 0, pairs / max(1, int(pairs.max())), 0.0)
        self._weighted = self._shares * self._c
        numerators = ((self._weighted @ self._weighted) * self._weighted).sum(axis=1)
        self._denominators = ((self._shares @ (self._weighted * self._c)) * self._shares).sum(axis=1)
        solved = self._denominators > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            self.squares: Array = np.where(solved, numerators / self._denominators, np.nan)
        self.equal = bool((self.squares > 0).sum() < 2 and self._shares.any())
        if self.equal:
            mean = self._weighted.sum() / self._shares.sum()
            self.squares = np.where(self._shares.any(axis=1), mean, np.nan)
        self._sizes = np.sqrt(np.maximum(np.nan_to_num(self.squares), 0.0))
        self._totals = self._shares @ self._sizes**2
        for k in np.flatnonzero(np.isnan(self.squares) & (self._totals > 0)):
            self.squares[k] = ((self._shares[k] * np.abs(self._c[k])) @ self._sizes / self._totals[k]) ** 2

    def gradient(self, i: int) -> Array:
        """Return the derivatives of a squared loading: a change D of c changes it by the sum of g * D."""
        if self.equal:
            return np.asarray(self._shares / self._shares.sum())
        g = np.zeros_like(self._c)
        if self._denominators[i] > 0:
            row, weights = self._weighted[i], self._shares[i]
            g = row[:, None] * row[None, :] * self._shares
            g -= 2 * self.squares[i] * weights[:, None] * weights[None, :] * self._weighted
            own = weights * (self._weighted @ row)
            scale = self._denominators[i]
        else:
            own = np.sqrt(self.squares[i]) * self._shares[i] * np.sign(self._c[i]) * self._sizes
            scale = self._totals[i]
        g[i, :] += own
        g[:, i] += own
        return np.asarray(g / scale)


def _signed(squares: Array, correlations: Array, *, equal: bool) -> Array:
    """Return loadings, with signs such that most of the agreement is positive; NaN if not determined."""
    sizes = np.sqrt(np.clip(np.nan_to_num(squares), 0.0, 1.0))
    if (sizes > 0).sum() < 2:
        raise NotIdentifiableError(
            "`scores` must come from at least two sources that vary, have three items in common, and agree "
            "more than by chance."
        )
    if equal:
        return np.where(np.isnan(squares), np.nan, sizes)
    c = np.where(np.eye(len(squares), dtype=bool), 0.0, correlations)
    values, vectors = np.linalg.eigh(c)
    first = vectors[:, np.argmax(values)]
    signs = np.where(c @ (np.where(first < 0, -1.0, 1.0) * sizes) < 0, -1.0, 1.0)
    if (signs * sizes).sum() < 0:
        signs = -signs
    return np.where(np.isnan(squares), np.nan, signs * sizes)


def measure_misfit(correlations: Array, loadings: Array, pairs: NDArray[np.int64]) -> float:
    """Return the root mean square of unexplained correlations, beyond their sampling error."""
    model = np.outer(loadings, loadings)
    used = np.triu((pairs >= _LEAST_OVERLAP) & ~np.isnan(model), 1)
    if not used.any():
        return 0.0
    sampling = (1 - model[used] ** 2) ** 2 / pairs[used]
    excess = float(np.mean((correlations - model)[used] ** 2 - sampling))
    return float(np.sqrt(max(0.0, excess)))


def _standard_errors(
    triplets: Triplets, loadings: Array, pairs: NDArray[np.int64], misfit: float
) -> tuple[Array, Array, Array]:
    """Return standard errors of squared loadings, of log loadings and of noise, each of shape (m,).

    Log loadings are compared with their mean over sources, weighted by the squared loadings.
    """
    usable = ~np.isnan(loadings)
    squares = np.where(usable, loadings**2, 0.0)
    used = np.flatnonzero(usable & (squares > 0))
    weights = squares / squares.sum()
    mean = sum(weights[i] * triplets.gradient(i) / (2 * squares[i]) for i in used.tolist())
    errors = np.full((3, len(loadings)), np.nan)
    for i in np.flatnonzero(usable).tolist():
        g = triplets.gradient(i)
        own = np.zeros_like(g)
        own[i, i] = 1.0
        relative = g / (2 * squares[i]) - mean if squares[i] > 0 else None
        # A squared loading is a share of the variance; noise is the variance that is left.
        found = [g - squares[i] * own, relative, own - g]
        for row, gradient in enumerate(found):
            if gradient is not None:
                variance = variance_of(gradient, np.where(usable, loadings, 0.0), pairs, misfit)
                errors[row, i] = np.sqrt(variance)
    return errors[0], errors[1], errors[2]


def variance_of(gradient: Array, loadings: Array, pairs: NDArray[np.int64], misfit: float) -> float:
    """Return the variance of a function of the covariances with this gradient.

    Covariances of n Gaussian vectors are those of a Wishart distribution: a sum of g_jk s_jk has the variance
    2 tr(G Σ G Σ) / n. If scores are missing independently, the covariance of s_jk and s_lm is divided by the
    number of items n, by that of each source in both pairs instead of n, and by n_jk for one pair. The misfit
    of the model is added as an error of every pair. Time O(m²).
    """
    counts = np.maximum(np.diagonal(pairs), 1)
    between = np.where((pairs > 0) & ~np.eye(len(pairs), dtype=bool), gradient, 0.0)
    own = np.diagonal(gradient)
    other = np.where(between != 0, pairs, 0)
    n = float((counts @ (other > 0) @ counts) / other.sum()) if other.any() else float(counts.max())
    fewer = np.maximum(n / counts - 1, 0.0)
    noise = 1 - loadings**2
    g = between + np.diag(own)
    moved = g @ loadings
    trace = (loadings @ moved) ** 2 + 2 * (moved**2 @ noise) + noise @ (g**2) @ noise
    with_own = loadings * (between @ loadings)
    trace += 2 * fewer @ ((between @ loadings) ** 2 + between**2 @ noise + with_own**2)
    trace += fewer @ (own**2 + 4 * own * with_own)
    same = np.where(other > 0, n / np.maximum(pairs, 1) - 1 - fewer - fewer[:, None], 0.0)
    trace += (between**2 * same * (1 + np.outer(loadings, loadings) ** 2)).sum()
    return float(2 * max(trace, 0.0) / n + 2 * misfit**2 * (between**2).sum())


def _split_noise(moments: ScoreMoments, spreads: Array, loadings: Array) -> tuple[Array, Array, Array]:
    """Return shared noise, variance between repeats, and variance of single scores, as shares."""
    average = moments.inverse_repeats / np.maximum(moments.counts, 1)
    repeats = np.nan_to_num(moments.repeat_variances() / spreads**2)
    noise = np.maximum(1 - loadings**2 - repeats * average, _LEAST_NOISE)
    return noise, repeats, 1 + repeats * (1 - average)


def measure_tails(moments: ScoreMoments, spreads: Array, loadings: Array) -> Array:
    """Return the excess kurtosis of the noise of each source beyond its sampling error, shape (m,), >= 0.

    The fourth cumulant of source j is loading_j⁴ * κ + noise_j² * excess_j, where κ is that of the truth, and
    that of two scores of each of two sources is loading_i² * loading_j² * κ, which determines κ.
    """
    squares, units = np.nan_to_num(loadings**2), np.outer(spreads, spreads) ** 2
    # Fourth powers of scores below 1e-77 underflow; their noise counts as Gaussian.
    cumulants = np.zeros_like(units)
    np.divide(moments.fourth_cumulants(), units, out=cumulants, where=units > np.finfo(np.float64).tiny)
    cumulants = np.nan_to_num(cumulants)  # pairs without common items
    between = np.outer(squares, squares) * (1 - np.eye(len(squares)))
    weights = between * moments.pairs
    truth = (weights * cumulants).sum() / max(float((weights * between).sum()), _LEAST_NOISE)
    # The standard error of the fourth cumulant of n Gaussian scores.
    errors = np.sqrt(24 / np.maximum(moments.counts, 1))
    excess = np.diagonal(cumulants) - squares**2 * truth - errors
    return np.maximum(excess, 0.0) / np.maximum(1 - squares, _LEAST_NOISE) ** 2


def choose_shrinkage(loadings: Array, correlations: Array, doubt: float) -> float:
    """Return the share of equal weights: near 1 if the gain of better weights is uncertain.

    The gain is the difference between the squared correlations of the weighted and of the equally weighted
    sum with the truth. If it is small, sources that agree most with the others may be those that share errors
    rather than the best ones.
    """
    usable = ~np.isnan(loadings)
    loaded, c = loadings[usable], correlations[np.ix_(usable, usable)]
    weights = loaded / (np.maximum(1 - loaded**2, _LEAST_NOISE) + doubt)

    def reliability(w: Array) -> float:
        return float((w @ loaded) ** 2 / max(w @ c @ w, _LEAST_NOISE))

    gain = max(0.0, reliability(weights) - reliability(np.ones(len(loaded))))
    return float(1 / (1 + (gain / doubt) ** _SHARPNESS))


@dataclass(frozen=True, slots=True, eq=False)
class TruthScale:
    """The scale of the truth: the scales of the sources, weighted by their share in the estimates.

    Source j gives an item the score ``center + bias_j + scale_j * (truth - center) + noise``.

    Attributes
    ----------
    center, spread : float
        Mean and standard deviation of the truth.
    bias, bias_errors, scale : arrays of shape (m,)
        NaN for sources that are not usable.
    """

    center: float
    spread: float
    bias: Array
    bias_errors: Array
    scale: Array

    @classmethod
    def of(cls, fit: ScoreParameters, moments: ScoreMoments) -> TruthScale:
        """Return the scale of the truth, computed from estimated parameters."""
        weights = fit.weights_of(np.ones(len(fit.means), np.int64))
        shares = np.maximum(weights, 0) * np.maximum(np.nan_to_num(fit.loadings), 0)
        shares = shares / shares.sum()
        spreads = np.nan_to_num(fit.spreads)
        loaded = spreads * np.nan_to_num(fit.loadings)
        center, spread = float(shares @ np.nan_to_num(fit.means)), float(shares @ loaded)
        counts = np.maximum(moments.counts, 1)
        covariances = np.outer(loaded, loaded)
        np.fill_diagonal(covariances, spreads**2)
        covariances = covariances * moments.pairs / np.outer(counts, counts)
        contrasts = np.eye(len(counts)) - shares
        errors = np.sqrt(np.maximum(((contrasts @ covariances) * contrasts).sum(axis=1), 0.0))
        bias = np.where(fit.usable, fit.means - center, np.nan)
        return cls(
            center, spread, bias, np.where(fit.usable, errors, np.nan), fit.spreads * fit.loadings / spread
        )
