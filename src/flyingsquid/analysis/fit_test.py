"""Do the sources err independently given the truth? What the residuals of the fit say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from flyingsquid.estimate.conditional import ConditionalFit
from flyingsquid.estimate.rank_one import fit_rank_one

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
        How many independent sources these are worth: m / (1 + (m-1) times the mean residual
        correlation), between 1 and m.
    """

    statistic: float
    degrees: int
    p_value: float
    effective_sources: float


def independence_test(fit: ConditionalFit) -> FitTest | None:
    """Test the rank-one residuals; None with fewer than four sources that vary."""
    centered = fit.centered
    varies = np.flatnonzero((fit.weights > 0).any(axis=1))
    m = len(varies)
    block = np.ix_(varies, varies)
    used = fit.weights[block] > 0
    degrees = int(used.sum() // 2 - m)
    if degrees < 1:
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
    mean = max(float(correlation.sum()) / max(int(used.sum()), 1), 0.0)
    effective = m / (1 + (m - 1) * mean)
    return FitTest(statistic, degrees, float(chi2.sf(statistic, degrees)), float(effective))
