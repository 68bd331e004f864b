"""Intervals of shares, and shares of classes from a random sample of gold labels and probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
# An interval of this many standard errors to either side has a coverage of 95%.
NORMAL_95 = 1.959963984540054


def wilson(share: Array, n: NDArray[np.int64] | Array) -> tuple[Array, Array]:
    """Return the ends of the 95% interval of shares of n items (Wilson 1927), any shape; NaN if n is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _score_interval(share, 1.0, 1 / n, NORMAL_95)


# ---------------------------------------------------------------------- shares of classes


# Probabilities that are too close to one half lead to coefficients above 1. Without this limit the
# coverage of 95% intervals fell to 92.7% in one cell of the design half at n = 50 (docs/quality/rates.md).
_LARGEST_COEFFICIENT = 1.5
# Below this variance, probabilities are the same for all items up to rounding.
_CONSTANT = 1e-12
# A random sample is reported as non-random with at most this probability.
_FALSE_ALARM = 0.001


class Shares(NamedTuple):
    """Estimated shares of K classes, each field an array of shape (..., K).

    ``coefficient`` is that of the probabilities: 0 ignores them, and 1 takes them at face value.
    ``n_effective`` is the number of gold labels that would have the same variance without probabilities.
    """

    share: Array
    low: Array
    high: Array
    coefficient: Array
    n_effective: Array


def estimate_shares(
    gold: Array, probabilities: Array, mean: Array, variance: Array, n_items: int, z: float
) -> Shares:
    """Estimate the share of each class among ``n_items`` items of which n, drawn at random, have gold labels.

    Parameters
    ----------
    gold : array of shape (..., n, K)
        1 for the class of the gold label, otherwise 0; n >= 3.
    probabilities : array of shape (..., n, K)
        P(Y = k | votes) of the same items.
    mean, variance : arrays of shape (K,)
        Mean and variance of the probabilities of all ``n_items`` items.
    n_items : int
    z : float
        Quantile of the normal distribution, 1.96 for 95% intervals.

    Notes
    -----
    The estimate is that of prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023), in
    survey sampling the regression estimator: the share among the gold labels plus ``coefficient`` times the
    difference of the mean probability of all items and of the labeled ones. ``coefficient`` is the slope of
    the gold labels on the probabilities, with two safeguards for small samples. Its denominator is at least
    the variance over all items, because a sample without the rare, informative items does not determine the
    slope. And the slope is shrunk by the share of its square that is noise, to zero if its t statistic is
    below 1, so that useless probabilities are ignored. Estimates of more than two classes are made to add up
    to 1 by the classes with the largest residuals.

    The interval is Wilson's (1927) with the unexplained part of the variance, and for a finite population.
    Its term z² / 4n² is kept at the number of gold labels: it represents errors of the model that a small
    sample does not contain. If ``coefficient`` is 0, share and interval are those of the gold labels without
    a model.

    Examples
    --------
    >>> gold = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> same = np.full((5, 2), 0.5)
    >>> found = estimate_shares(gold, same, same[0], np.zeros(2), 10_000, 1.96)
    >>> found.share, found.n_effective
    (array([0.4, 0.6]), array([5., 5.]))
    """
    n = gold.shape[-2]
    labeled, predicted = gold.mean(axis=-2), probabilities.mean(axis=-2)
    y, f = gold - labeled[..., None, :], probabilities - predicted[..., None, :]
    total = (y**2).sum(axis=-2)
    coefficient = _slope(total, (y * f).sum(axis=-2), (f**2).sum(axis=-2), (n - 1) * variance, n)
    control, shift = coefficient[..., None, :] * f, coefficient * (mean - predicted)
    weight = _normalize(((y - control) ** 2).sum(axis=-2))
    residual = y - control + weight[..., None, :] * control.sum(axis=-1, keepdims=True)
    share = labeled + shift - weight * shift.sum(axis=-1, keepdims=True)
    # Below zero only by chance; the other classes make up for it.
    share = _normalize(np.maximum(share, 0.0))

    left = (residual**2).sum(axis=-2)
    varies = total > 0
    unexplained = np.divide(left, total, out=np.ones_like(total), where=varies)
    # The estimated slope takes a degree of freedom, as far as it is used.
    unexplained = unexplained * (1 + np.clip(1 - unexplained, 0.0, 1.0) / (n - 2))
    inverse_n = _inverse_size(n, n_items)
    low, high = _score_interval(share, unexplained, inverse_n, z)
    variance_alone = share * (1 - share)
    allowance = z**2 * inverse_n / 4
    gain = np.ones_like(share)
    np.divide(
        variance_alone + allowance, variance_alone * unexplained + allowance, out=gain, where=unexplained > 0
    )
    return Shares(share, low, high, coefficient, effective_size(n, n_items, gain))


def effective_size(n: int, n_items: int, gain: Array | float) -> Array:
    """Return the size of a sample whose variance is that of n of ``n_items`` items, divided by ``gain``.

    >>> [round(float(effective_size(100, n_items, 2.0))) for n_items in (10**9, 150)]
    [200, 120]
    """
    return np.asarray(n_items / (1 + (n_items - n) / (n * np.asarray(gain))))


def gold_shares(gold: Array, n_items: int, z: float) -> tuple[Array, Array, Array]:
    """Return shares of shape (..., K) in gold labels (..., n, K), and the ends of Wilson's interval.

    >>> share, low, high = gold_shares(np.repeat([[0.0, 1.0], [1.0, 0.0]], [30, 10], axis=0), 10**9, 1.96)
    >>> share, low.round(3), high.round(3)
    (array([0.25, 0.75]), array([0.142, 0.598]), array([0.402, 0.858]))
    """
    n, share = gold.shape[-2], gold.mean(axis=-2)
    return share, *_score_interval(share, 1.0, _inverse_size(n, n_items), z)


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the difference ``first - second`` of independent estimates, and the ends of its interval.

    Each estimate is (value, low, high). The distances to the ends are added in squares (Newcombe 1998,
    method 10).

    >>> [round(x, 3) for x in difference_interval((0.75, 0.65, 0.85), (0.5, 0.4, 0.6))]
    [0.25, 0.109, 0.391]
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    difference = a - b
    low = difference - float(np.hypot(a - a_low, b_high - b))
    high = difference + float(np.hypot(a_high - a, b - b_low))
    return difference, max(low, -1.0), min(high, 1.0)


def _slope(total: Array, product: Array, square: Array, population: Array, n: int) -> Array:
    """Return the coefficient of the probabilities, shape (..., K), from sums of squares and products."""
    denominator = np.maximum(square, population)
    usable = (population > _CONSTANT * n) & (product > 0)
    slope = np.divide(product, denominator, out=np.zeros_like(total), where=usable)
    noise = np.maximum(total - 2 * slope * product + slope**2 * square, 0.0) / (n - 2)
    signal = slope**2 * denominator
    kept = 1 - np.divide(noise, signal, out=np.ones_like(total), where=signal > noise)
    return np.asarray(np.minimum(slope * kept, _LARGEST_COEFFICIENT))


def _normalize(values: Array) -> Array:
    """Divide values of shape (..., K) by their sum; equal parts if it is 0."""
    total = values.sum(axis=-1, keepdims=True)
    equal = np.full_like(values, 1 / values.shape[-1])
    return np.divide(values, total, out=equal, where=total > 0)


def _inverse_size(n: int, n_items: int) -> float:
    """Return 1 / n for a sample of few of the items, and 0 for all of them."""
    return (n_items - n) / (max(n_items - 1, 1) * n)


def _score_interval(
    share: Array, unexplained: Array | float, inverse_n: Array | float, z: float
) -> tuple[Array, Array]:
    """Return Wilson's interval of a share, if a part of the variance of the labels is unexplained."""
    pull = z**2 * unexplained * inverse_n
    center = (share + pull / 2) / (1 + pull)
    reach = z * np.sqrt(share * (1 - share) * unexplained * inverse_n + (z * inverse_n / 2) ** 2) / (1 + pull)
    low, high = np.clip(center - reach, 0.0, 1.0), np.clip(center + reach, 0.0, 1.0)
    return np.minimum(low, share), np.maximum(high, share)


def looks_random(sample: Array, mean: Array, variance: Array, n_items: int) -> bool:
    """Test whether values of some items could be those of a random sample of all items.

    Parameters
    ----------
    sample : array of shape (n, v)
        Values of the items in the sample.
    mean, variance : arrays of shape (v,)
        Mean and variance of the values of all items.
    n_items : int
        Number of all items.

    Examples
    --------
    >>> values = np.linspace(0, 1, 1_000)[:, None]
    >>> [looks_random(values[rows], values.mean(axis=0), values.var(axis=0), 1_000)
    ...  for rows in (slice(None, None, 10), slice(100))]
    [True, False]
    """
    n = len(sample)
    if not 0 < n < n_items:
        return True
    gap = sample.mean(axis=0) - mean
    error = np.sqrt(variance * (n_items - n) / ((n_items - 1) * n))
    # Rounding of constant values is not evidence.
    scores = np.divide(np.abs(gap), error, out=np.zeros_like(gap), where=error > 1e-9)
    return bool(scores.max() <= ndtri(1 - _FALSE_ALARM / (2 * len(scores))))
