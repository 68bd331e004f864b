"""Do the sources err independently given the truth? What the residuals of the fit say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from flyingsquid.estimate.conditional import ConditionalFit
from flyingsquid.estimate.flags import SourceFlags
from flyingsquid.estimate.rank_one import fit_rank_one
from flyingsquid.estimate.triplets import Pairs, all_triplets_median

Array = NDArray[np.float64]
# Residual variance is not believed below this share of a source's variance.
_RESIDUAL_FLOOR = 0.05


@dataclass(frozen=True, slots=True)
class FitTest:
    """Goodness of fit of conditional independence.

    Attributes
    ----------
    statistic : float
        n Σ (Cᵢⱼ - bᵢbⱼ)² / (vᵢvⱼ) over pairs, with vᵢ the variance that the truth does not explain.
    degrees : int
        Pairs less sources.
    p_value : float
        Small when some sources agree more, or less, than the truth explains. A dependence that all
        sources share looks like truth and cannot be seen here.
    effective_sources : float
        How many independent sources these are worth: m² / Σ Rᵢⱼ², between 1 and m, with R the correlations
        that the truth does not explain (1 on the diagonal and between copies), less what noise adds.
        Silent sources do not count.
    """

    statistic: float
    degrees: int
    p_value: float
    effective_sources: float


def independence_test(fit: ConditionalFit, flags: SourceFlags) -> FitTest | None:
    """Test the rank-one residuals; None with fewer than four sources that vary, or too few items."""
    centered = fit.centered
    varies = np.flatnonzero((fit.weights > 0).any(axis=1))
    m = len(varies)
    block = np.ix_(varies, varies)
    used = fit.weights[block] > 0
    degrees = int(used.sum() // 2 - m)
    if degrees < 1 or m > centered.n_items / 4:  # with more sources the limit law does not hold
        return None
    variance, covariance = centered.variance[varies], centered.covariance[block]
    # The noise of a pair along the fit is absorbed by b; across it, it is that of the product of
    # two residuals. So these weights make the residuals independent with unit variance.
    b = fit.strength[varies]
    for _ in range(2):
        residual = np.maximum(variance - b**2, _RESIDUAL_FLOOR * variance)
        weights = used / np.outer(residual, residual)
        b = fit_rank_one(covariance, weights, b)
    residual = np.maximum(variance - b**2, _RESIDUAL_FLOOR * variance)
    correlation = np.where(used, covariance - np.outer(b, b), 0.0) / np.sqrt(np.outer(residual, residual))
    statistic = float(centered.n_items * np.sum(correlation**2) / 2)
    effective = _effective_sources(covariance, variance, used, flags.copies[varies], centered.n_items)
    return FitTest(statistic, degrees, float(chi2.sf(statistic, degrees)), effective)


def _effective_sources(
    covariance: Array, variance: Array, used: NDArray[np.bool_], copies: NDArray[np.intp], n_items: float
) -> float:
    """m² / Σ Rᵢⱼ², with R the correlations that the truth does not explain."""
    m = len(variance)
    b = _robust_strength(covariance, variance, used, n_items)
    residual = np.maximum(variance - b**2, _RESIDUAL_FLOOR * variance)
    # Only what pairs share beyond the truth makes them worth less.
    excess = np.maximum(np.abs(covariance) - np.outer(b, b), 0) / np.sqrt(np.outer(residual, residual))
    noise = 1 / np.sqrt(n_items)
    shared = np.where(used & (excess > 2 * noise), np.minimum(excess, 1.0), 0.0)
    n_copies = int((copies[:, None] == copies).sum()) - m
    return float(max(m**2 / (m + n_copies + np.sum(shared**2)), 1.0))


def _robust_strength(covariance: Array, variance: Array, used: NDArray[np.bool_], n_items: float) -> Array:
    """|b| by the median over triplets, which a few dependent pairs do not move, shape (m,)."""
    error = np.sqrt(np.outer(variance, variance) / n_items)
    strong = used & (np.abs(covariance) >= error) & (covariance != 0)
    values = all_triplets_median(Pairs(covariance, error, used, strong)).values
    return np.minimum(np.nan_to_num(values), np.sqrt(variance))
