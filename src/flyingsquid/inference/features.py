"""Features of items as evidence: regressions on features, and posteriors by votes and features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.weighted import to_probabilities
from flyingsquid.votes.features import Features

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Added to probabilities before logarithms are taken: bounds the log odds of two equally frequent classes at
# 3.9, and keeps noise from raising the odds of rare classes.
_SMOOTHING = 0.02
# Values are clipped at this distance from the mean, in standard deviations.
_FARTHEST = 10.0
# Lower limit of probabilities: keeps the logarithm finite for a class that votes exclude.
_LEAST = 1e-300


class Learner(NamedTuple):
    """Ridge regression of class probabilities on features, one per fold of items.

    Attributes
    ----------
    means, scales : arrays of shape (d,)
        Columns are standardized with them; the scale of a constant column is huge.
    intercepts : array of shape (F, K)
    coefficients : array of shape (F, d, K)
        Fold f is predicted by the regression on all other folds.
    balance : array of shape (K,)
        Mean of the probabilities in training.
    slope : float in (0, 1]
        How much less predictions differ from the balance than the probabilities that they stand for.
    """

    means: Array
    scales: Array
    intercepts: Array
    coefficients: Array
    balance: Array
    slope: float

    def evidence(self, features: Features) -> tuple[Array, Mask]:
        """Return log P(features | Y = k) up to a constant, (n, K), and which items have features, (n,)."""
        found = np.zeros((features.n_items, len(self.balance)))
        present = np.zeros(features.n_items, bool)
        for at, rows, folds in features.chunks():
            present[at] = ~np.isnan(rows).all(axis=1)
            values = standardized(rows, self.means, self.scales)
            for fold in range(len(self.coefficients)):
                items = np.flatnonzero(folds == fold)
                predicted = self.intercepts[fold] + values[items] @ self.coefficients[fold]
                found[at.start + items] = to_evidence(predicted, self.balance, self.slope)
        found[~present] = 0.0
        return found, present


class FeatureWeights(NamedTuple):
    """Parameters for adding features to a posterior.

    Attributes
    ----------
    learner : Learner
    shares : array of shape (2,)
        How much of the evidence of votes and of features counts, in [0, 1].
    offsets : array of shape (2, K)
        Added to the log probabilities of items without votes, and of items with votes.
    """

    learner: Learner
    shares: Array
    offsets: Array

    def log_odds(self, posterior: Array, has_votes: Mask, features: Features) -> Array:
        """Return the contribution of features to log probabilities, shape (n, K); 0 without features.

        ``posterior`` (n, K) is that of the votes.
        """
        evidence, present = self.learner.evidence(features)
        adds = weighted_evidence(posterior, evidence, has_votes, self.shares, self.offsets)
        adds[~present] = 0.0
        return adds


def weighted_evidence(
    posterior: Array, evidence: Array, has_votes: Mask, shares: Array, offsets: Array
) -> Array:
    """Return what the ``evidence`` (n, K) of features adds to the log probabilities of votes.

    If votes do not count fully, they lose a part of their evidence.

    Examples
    --------
    >>> one, features = np.array([[0.2, 0.8]]), np.log([[0.5, 0.5]])
    >>> adds = weighted_evidence(one, features, np.array([True]), np.array([0.5, 1.0]), np.zeros((2, 2)))
    >>> combine(one, adds).round(3)
    array([[0.333, 0.667]])
    """
    adds = shares[1] * evidence + offsets[has_votes.astype(np.intp)]
    logs = np.log(np.maximum(posterior[has_votes], _LEAST))
    adds[has_votes] -= (1 - shares[0]) * (logs - logs.max(axis=1, keepdims=True))
    return np.asarray(adds)


def to_evidence(predicted: Array, balance: Array, slope: float) -> Array:
    """Return log P(features | Y = k) up to a constant, shape (n, K), from predicted posteriors (n, K).

    A regression on uncertain labels predicts values near their mean: P(Y | features) times ``slope`` plus a
    constant. This is inverted, and the result is divided by the class balance.

    Examples
    --------
    >>> to_evidence(np.array([[0.4, 0.6], [0.5, 0.5]]), np.array([0.5, 0.5]), 0.25).round(2)
    array([[-1.47,  0.57],
           [ 0.  ,  0.  ]])
    """
    share = np.maximum(balance + (predicted - balance) / slope, 0.0)
    total = share.sum(axis=1, keepdims=True)
    share /= np.where(total > 0, total, 1.0)
    # If all items have the same features, they are in one fold, and a regression on no items predicts 0.
    return np.where(total > 0, np.log((share + _SMOOTHING) / (balance + _SMOOTHING)), 0.0)


def combine(posterior: Array, adds: Array) -> Array:
    """Return posteriors (n, K) with ``adds`` (n, K) added to their logarithms; unchanged if it is 0.

    >>> combine(np.array([[0.5, 0.5]]), np.array([[0.0, np.log(3)]]))
    array([[0.25, 0.75]])
    """
    combined = to_probabilities(np.log(np.maximum(posterior, _LEAST)) + adds)
    unchanged = ~adds.any(axis=1)
    combined[unchanged] = posterior[unchanged]
    return combined


def standardized(rows: Array, means: Array, scales: Array) -> Array:
    """Return standardized rows; missing values become 0, the mean."""
    values = np.clip((rows - means) / scales, -_FARTHEST, _FARTHEST)
    return np.asarray(np.nan_to_num(values, copy=False))
