"""Test of the independence of the sources given the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from flyingsquid.estimation.conditional import ConditionalFit, fit_conditional, fit_rank_one
from flyingsquid.estimation.sources import (
    CenteredMoments,
    Separation,
    SignedMoments,
    SourceFlags,
    flag_sources,
)
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Lower bound of the residual variance, as a share of a source's variance.
RESIDUAL_FLOOR = 0.05
# Pairs whose expected covariance is less certain than this, given the other pairs, are not tested.
_LEAST_INFORMATION = 0.1
# |skewness| of the truth at a class balance of 5/95; larger estimates are mostly noise.
_MOST_SKEWED = 4.0
_REWEIGHTINGS = 2
# Relative error of b: far below its sampling error, and reached without O(m³) steps.
_TOLERANCE = 1e-8
# More sources than this are not tested by default: the test compares all pairs.
_MOST_TESTED = 300
CLEARLY_DEPENDENT = 1e-3
"""Sources are clearly dependent below this p-value."""


@dataclass(frozen=True, slots=True)
class FitTest:
    """Test of whether the sources err independently given the truth, over the pairs that are not freed.

    Attributes
    ----------
    statistic : float
        Σ rᵢⱼ²/Var(rᵢⱼ) over pairs: n Σ (Cᵢⱼ - bᵢbⱼ)² / E[Var(λᵢ|Y) Var(λⱼ|Y)].
    degrees : int
        Number of pairs minus number of sources.
    p_value : float
        Small if some sources agree more, or less, than the truth explains. A dependence that all sources
        share looks like the truth and cannot be detected here.
    """

    statistic: float
    degrees: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Residuals:
    """Rank-one fit to the pairs ``used``, and the residual of every pair.

    Attributes
    ----------
    centered : CenteredMoments
    used : mask of shape (m, m)
        The pairs that were fitted; the others are free.
    strength : array of shape (m,)
        bᵢ = Cov(λᵢ, Y)/√Var(Y), up to one sign for all.
    noise : array of shape (m, m)
        E[Var(λᵢ|Y) Var(λⱼ|Y)]: n times the variance of a pair that b does not absorb.
    """

    centered: CenteredMoments
    used: Mask
    strength: Array
    noise: Array

    @classmethod
    def of(cls, centered: CenteredMoments, used: Mask, start: Array) -> Residuals:
        """Fit b and the noise alternately, from ``start`` of shape (m,).

        Examples
        --------
        >>> from flyingsquid.datasets import simulate
        >>> from flyingsquid.moments import Moments
        >>> votes = simulate(10_000, [0.8, 0.7, 0.7, 0.6, 0.8], random_state=0).votes
        >>> centered = CenteredMoments.of(Moments.of(votes))
        >>> residuals = Residuals.of(centered, ~np.eye(5, dtype=bool), np.ones(5))
        >>> residuals.strength.round(1)
        array([0.6, 0.4, 0.4, 0.2, 0.6])
        >>> bool(abs(residuals.scores()).max() < 3)
        True
        """
        most = np.sqrt((1 - RESIDUAL_FLOOR) * centered.variance)
        strength = np.clip(start, -most, most)
        weights = _inverse(np.outer(centered.variance, centered.variance), used)
        for _ in range(_REWEIGHTINGS):
            noise = _pair_noise(centered, weights, strength)
            weights = _inverse(noise, used)
            strength = fit_rank_one(centered.covariance, weights, strength, _TOLERANCE)
            strength = np.clip(strength, -most, most)
        return cls(centered, used, strength, _pair_noise(centered, weights, strength))

    @classmethod
    def at(cls, centered: CenteredMoments, used: Mask, strength: Array) -> Residuals:
        """Return the residuals of a given b, shape (m,)."""
        weights = _inverse(np.outer(centered.variance, centered.variance), used)
        return cls(centered, used, strength, _pair_noise(centered, weights, strength))

    @property
    def values(self) -> Array:
        """Cᵢⱼ - bᵢbⱼ, shape (m, m); the diagonal has no meaning."""
        return np.asarray(self.centered.covariance - np.outer(self.strength, self.strength))

    @property
    def correlations(self) -> Array:
        """Correlation of two sources given the truth, shape (m, m), for pairs that are free."""
        return np.asarray(np.clip(self.values * np.sqrt(_inverse(self.noise, self.noise > 0)), -1.0, 1.0))

    @property
    def loss(self) -> float:
        """Σ rᵢⱼ²/Var(rᵢⱼ) over the pairs that were fitted."""
        total = np.sum(_inverse(self.noise, self.used) * self.values**2)
        return float(self.centered.n_items * total / 2)

    @property
    def raw_scores(self) -> Array:
        """Residuals in standard errors as if b were known, shape (m, m)."""
        return np.asarray(self.values * np.sqrt(self.centered.n_items * _inverse(self.noise, self.used)))

    def scores(self, sources: NDArray[np.intp] | None = None) -> Array:
        """Return the distance of each pair from what the other pairs imply, in standard errors.

        Its square is the loss that freeing the pair saves, or that fitting it again would cost. 0 for pairs
        that the others hardly determine. Shape (m, m), or only pairs of s ``sources``, shape (s, s).

        Notes
        -----
        Counts of sources that rarely vote on the same items have a Poisson distribution, whose tails are
        heavier than those of a normal distribution. By Bennett's inequality, a score z is replaced by
        √(2s²h(z/s)), with h(u) = (1+u)log(1+u) - u and s² the variance of the count; for large s that is z.
        """
        b = self.strength
        sources = np.arange(len(b)) if sources is None else sources
        precision = _inverse(self.noise, self.used)
        information = precision * b
        information *= b[:, None]
        np.fill_diagonal(information, precision @ b**2)
        # The ridge keeps a source without any pair from making the system singular.
        information[np.diag_indices_from(information)] += 1e-9 * max(float(information.max()), 1e-300)
        inside = np.ix_(sources, sources)
        used, noise, b = self.used[inside], self.noise[inside], b[sources]
        # n times the variance of bᵢbⱼ; it may be NaN for pairs without information.
        with np.errstate(invalid="ignore", over="ignore"):
            inverse = _part_of_inverse(information, sources)
            fitted = np.outer(inverse.diagonal(), b**2)
            fitted = fitted + fitted.T + 2 * np.outer(b, b) * inverse
        left = np.where(used, noise - fitted, noise + fitted)
        known = left > _LEAST_INFORMATION * noise
        known &= noise > _LEAST_INFORMATION * np.where(used, 0.0, left)
        values = self.centered.covariance[inside] - np.outer(b, b)
        z = values * np.sqrt(self.centered.n_items * _inverse(left, known))
        np.fill_diagonal(z, 0.0)
        return _with_long_tails(z, np.sqrt(self.centered.n_items * noise))

    def statistic(self) -> FitTest:
        """Return the test of the loss, with the remaining degrees of freedom."""
        linked = int(self.used.any(axis=1).sum())
        degrees = max(int(self.used.sum() // 2) - linked, 0)
        return FitTest(self.loss, degrees, float(chdtrc(degrees, self.loss)) if degrees else 1.0)


def _part_of_inverse(information: Array, sources: NDArray[np.intp]) -> Array:
    """Return the inverse of a positive definite matrix (m, m) for s of its rows and columns, shape (s, s).

    If they are last, the inverse of their part of the Cholesky factor suffices. Not by SciPy: its BLAS has
    threads of its own, which wait for those of NumPy.
    """
    if len(sources) == len(information):
        return np.asarray(np.linalg.inv(information), np.float64)
    last = np.zeros(len(information), np.bool_)
    last[sources] = True
    order = np.concatenate([np.flatnonzero(~last), sources])
    factor = np.linalg.cholesky(information[np.ix_(order, order)])[-len(sources) :, -len(sources) :]
    half = np.linalg.inv(factor)
    return np.asarray(half.T @ half)


def _pair_noise(centered: CenteredMoments, weights: Array, strength: Array) -> Array:
    """Return E[Var(λᵢ|Y) Var(λⱼ|Y)], shape (m, m).

    Var(λᵢ|Y) = vᵢ + hᵢỹ with vᵢ = Var(λᵢ) - bᵢ² and hᵢ = Cov(λᵢ², ỹ) - 2E[λᵢ]bᵢ - κbᵢ², so the product is
    vᵢvⱼ + hᵢhⱼ on average: sources that vote mostly on one class have more noise there. Pairs of votes do not
    determine κ, the skewness of the truth; it is chosen so that sources differ least between the classes.
    """
    squares, variance = strength**2, centered.variance
    left = np.maximum(variance - squares, RESIDUAL_FLOOR * variance)
    evidence = weights @ squares
    tilt = ((centered.squares * weights) @ strength) * _inverse(evidence, evidence > 0)
    tilt -= 2 * centered.mean * strength
    trust = _inverse(variance**2, variance > 0)
    skewness = float(np.sum(trust * tilt * squares)) / max(float(np.sum(trust * squares**2)), 1e-300)
    tilt = tilt - np.clip(skewness, -_MOST_SKEWED, _MOST_SKEWED) * squares
    # A variance is positive on both classes; at a uniform balance that is |h| < v.
    share = np.clip(tilt * _inverse(left, left > 0), -1.0, 1.0)
    parts = np.stack([left, share * left])
    noise = parts.T @ parts
    if 1 + share.max() * share.min() < RESIDUAL_FLOOR:
        np.maximum(noise, RESIDUAL_FLOOR * np.outer(left, left), out=noise)
    return np.asarray(noise)


def _with_long_tails(z: Array, deviation: Array) -> Array:
    u = np.divide(np.abs(z), deviation, out=np.zeros_like(z), where=deviation > 0)
    u = np.maximum(u, 1e-4)  # below, 2h(u)/u² is 1 but for rounding
    return np.asarray(z * np.sqrt(2 * ((1 + u) * np.log1p(u) - u)) / u)


def _inverse(values: Array, where: Mask) -> Array:
    """Return 1/values in a mask if possible, 0 elsewhere."""
    if values.min(initial=1.0) > 0:
        return np.asarray(where / values)  # half the time
    divisor = np.where(where & (values > 0), values, np.inf)
    return np.divide(1.0, divisor, out=divisor)  # faster than a division with a mask


def independence_of_votes(moments: Moments, groups: NDArray[np.intp] | None = None) -> FitTest | None:
    """Test sources from their counts; None for more than two classes, and for too few or many sources.

    Sources of one group, an integer array of shape (m,), may depend on each other.
    """
    if moments.n_classes > 2 or moments.n_sources > _MOST_TESTED:
        return None
    separation = Separation.independent(moments.n_sources)
    if groups is not None:
        separation = replace(separation, groups=groups)
    return independence_of(moments, flag_sources(SignedMoments.of(moments)), separation)


def independence_of(moments: Moments, flags: SourceFlags, separation: Separation) -> FitTest | None:
    """Test sources of two classes from their counts; None if there are too few."""
    try:
        fit = fit_conditional(moments, flags, method="covariance", screen=0.0, separation=separation)
    except NotIdentifiableError:
        return None
    return independence_test(fit)


def independence_test(fit: ConditionalFit) -> FitTest | None:
    """Test the rank-one residuals; None with fewer than four sources that vary, or too few items."""
    centered, used = fit.centered, fit.weights > 0
    m = int(used.any(axis=1).sum())
    # The asymptotic distribution does not hold if sources are more than a quarter of the items.
    if used.sum() // 2 <= m or m > centered.n_items / 4:
        return None
    return Residuals.of(centered, used, fit.strength).statistic()
