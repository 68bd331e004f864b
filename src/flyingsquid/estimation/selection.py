"""Choose vote patterns whose gold labels improve a model most: Bayesian experimental design.

Gold labels correct a model by a logistic regression with a Gaussian prior (``gold_regression``). So the log
odds of an item, between its two most probable classes, are Gaussian before any label is seen, and items that
share votes are correlated. A gold label of pattern i reduces the variance of pattern j by C_ij^2 w_i / (1 +
w_i C_ii), where C is the covariance and w_i = p_i (1 - p_i). The value of a smaller variance depends on how
often the pattern occurs and on how likely its label is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.correction import log_probabilities, log_shares
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]
# Prior standard deviations of the coefficients of posterior, vote share and intercepts, and of those of
# votes. With 0.5 for the first, a similar number of labels is needed on the design datasets.
_CALIBRATION, _VOTES = 1.0, 0.3
# A label of an item that the model is certain of still tells something, because the model may be wrong.
_LEAST_INFORMATION = 0.02


class Choice(NamedTuple):
    """Chosen patterns in order, and the value of each relative to the first; shapes (n,)."""

    patterns: NDArray[np.intp]
    gains: Array


def choose_patterns(
    labels: Array, cast: OneHot, counts: Array, n_labeled: NDArray[np.intp], free: NDArray[np.intp], n: int
) -> Choice:
    """Choose up to n patterns one after the other, each given the ones before.

    Parameters
    ----------
    labels : array of shape (u, K)
        Posteriors of u distinct patterns by the present model.
    cast : OneHot
        Their votes.
    counts : array of shape (u,)
        How many items have each pattern.
    n_labeled, free : integer arrays of shape (u,)
        How many items of each pattern have gold labels, and how many can be chosen. A pattern is chosen again
        if that has a higher value than a pattern without labels.
    n : int

    Notes
    -----
    Time O(u^2) for each choice and for each existing label, memory O(u^2).
    """
    covariance, odds = _log_odds(labels, cast)
    p = 1 / (1 + np.exp(-odds))
    information = np.maximum(p * (1 - p), _LEAST_INFORMATION)
    _observe(covariance, np.flatnonzero(n_labeled), np.asarray(n_labeled * information))
    left, patterns, gains = free.copy(), [], []
    for _ in range(min(n, int(free.sum()))):
        values = _values(covariance, odds, counts, information)
        values[left <= 0] = -np.inf
        best = int(np.argmax(values))
        patterns.append(best)
        gains.append(max(float(values[best]), 0.0))
        left[best] -= 1
        _observe(covariance, np.array([best]), information)
    scale = max(gains, default=0.0) or 1.0
    return Choice(np.array(patterns, np.intp), np.array(gains) / scale)


def _log_odds(labels: Array, cast: OneHot) -> tuple[Array, Array]:
    """Return the prior covariance of the log odds of all patterns, shape (u, u), and their means."""
    u, n_classes = labels.shape
    at, order = np.arange(u), np.argsort(-labels, axis=1, kind="stable")
    best, second = order[:, 0], order[:, 1]
    counts = cast.class_sums(np.ones((cast.n_sources, n_classes)))
    odds, shares = (
        scores[at, best] - scores[at, second] for scores in (log_probabilities(labels), log_shares(counts))
    )
    covariance = _CALIBRATION**2 * (np.outer(odds, odds) + np.outer(shares, shares))
    for k in range(n_classes):
        sides = (best == k).astype(np.float64) - (second == k)
        rows = np.flatnonzero(sides)
        if not len(rows):
            continue
        votes = cast[rows].dense_votes(k)
        shared = np.asarray(votes @ votes.T)
        part = np.outer(sides[rows], sides[rows]) * (_CALIBRATION**2 + _VOTES**2 * shared)
        covariance[np.ix_(rows, rows)] += part
    return covariance, odds


def _observe(covariance: Array, at: NDArray[np.intp], information: Array) -> None:
    """Update the covariance, in place, for labels of the patterns ``at`` with the given information."""
    shared = covariance[at]
    own = shared[:, at] + np.diag(1 / information[at])
    covariance -= shared.T @ np.linalg.solve(own, shared)


def _values(covariance: Array, odds: Array, counts: Array, information: Array) -> Array:
    """Return the expected value of a gold label of each pattern, shape (u,).

    A label is wrong if the log odds, of mean z and variance v, have the other sign. The expected size of log
    odds of the wrong sign changes with v by phi(z / sqrt v) / (2 sqrt v).
    """
    # Rounding may leave a small negative variance.
    variance = np.maximum(covariance.diagonal(), 1e-12)
    doubt = counts * np.exp(-(odds**2) / (2 * variance)) / np.sqrt(variance)
    return np.asarray(doubt @ covariance**2 * information / (1 + information * variance))
