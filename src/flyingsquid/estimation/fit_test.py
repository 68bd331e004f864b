"""Test of whether the sources err independently given the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.conditional import ConditionalFit, fit_conditional
from flyingsquid.estimation.flags import SourceFlags
from flyingsquid.estimation.residuals import RESIDUAL_FLOOR, FitStatistic, Residuals
from flyingsquid.estimation.separation import Separation
from flyingsquid.estimation.triplets import Pairs, all_triplets_median
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FitTest:
    """Goodness of fit of conditional independence.

    Attributes
    ----------
    statistic : float
        n Σ (Cᵢⱼ - bᵢbⱼ)² / E[Var(λᵢ|Y) Var(λⱼ|Y)] over pairs.
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


def independence_of(moments: Moments, flags: SourceFlags, separation: Separation) -> FitTest | None:
    """Test sources of two classes from their counts; None if there are too few."""
    fit = rank_one_fit(moments, flags, separation)
    return None if fit is None else independence_test(fit, flags)


def independence_p_value(fit: ConditionalFit) -> float | None:
    """Return how well independent sources of two classes fit; None if there are too few."""
    test = _misfit(fit)
    return None if test is None else test.p_value


def independence_test(fit: ConditionalFit, flags: SourceFlags) -> FitTest | None:
    """Test the rank-one residuals; None with fewer than four sources that vary, or too few items."""
    test = _misfit(fit)
    if test is None:
        return None
    centered, used = fit.centered, fit.weights > 0
    varies = np.flatnonzero(used.any(axis=1))
    block = np.ix_(varies, varies)
    effective = _effective_sources(
        centered.covariance[block],
        centered.variance[varies],
        used[block],
        flags.copies[varies],
        centered.n_items,
    )
    return FitTest(test.statistic, test.degrees, test.p_value, effective)


def rank_one_fit(moments: Moments, flags: SourceFlags, separation: Separation) -> ConditionalFit | None:
    """Fit all pairs of sources at once, up to a common sign; None if the counts do not suffice."""
    try:
        return fit_conditional(moments, flags, method="covariance", screen=0.0, separation=separation)
    except NotIdentifiableError:
        return None


def _misfit(fit: ConditionalFit) -> FitStatistic | None:
    centered, used = fit.centered, fit.weights > 0
    m = int(used.any(axis=1).sum())
    # With more sources than a quarter of the items the limit law does not hold.
    if used.sum() // 2 <= m or m > centered.n_items / 4:
        return None
    return Residuals.of(centered, used, fit.strength).statistic()


def _effective_sources(
    covariance: Array, variance: Array, used: NDArray[np.bool_], copies: NDArray[np.intp], n_items: float
) -> float:
    """m² / Σ Rᵢⱼ², with R the correlations that the truth does not explain."""
    m = len(variance)
    b = _robust_strength(covariance, variance, used, n_items)
    residual = np.maximum(variance - b**2, RESIDUAL_FLOOR * variance)
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
