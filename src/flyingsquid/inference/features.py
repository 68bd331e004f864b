"""Features of items as evidence: regressions on features, and posteriors by votes and features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.features import Features

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Added to probabilities before logarithms are taken: bounds the log odds of two equally frequent classes at
# 3.9, and keeps noise from raising the odds of rare classes.
_SMOOTHING = 0.02
# Values are clipped at this distance from the mean, in standard deviations.
_FARTHEST = 10.0


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
    separation : float in (0, 1]
        Variance of these probabilities relative to that of certain labels.
    """

    means: Array
    scales: Array
    intercepts: Array
    coefficients: Array
    balance: Array
    separation: float

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
                found[at.start + items] = to_evidence(predicted, self.balance, self.separation)
        found[~present] = 0.0
        return found, present


class FeatureWeights(NamedTuple):
    """Parameters for adding features to a posterior.

    Attributes
    ----------
    learner : Learner
    weight : float in [0, 1]
        0 if the features are not used.
    offsets : array of shape (2, K)
        Added to the log evidence of items without votes, and of items with votes.
    """

    learner: Learner
    weight: float
    offsets: Array

    def log_odds(self, has_votes: Mask, features: Features) -> Array:
        """Return the contribution of features to log probabilities, shape (n, K); 0 without features."""
        evidence, present = self.learner.evidence(features)
        adds = self.weight * evidence + self.offsets[has_votes.astype(np.intp)]
        adds[~present] = 0.0
        return adds


def to_evidence(predicted: Array, balance: Array, separation: float) -> Array:
    """Return log P(features | Y = k) up to a constant, shape (n, K), from predicted posteriors (n, K).

    A regression on uncertain labels predicts values near their mean. If the labels are calibrated, the
    prediction is P(Y | features) times ``separation`` plus a constant. This is inverted, and the result is
    divided by the class balance.

    Examples
    --------
    >>> to_evidence(np.array([[0.4, 0.6], [0.5, 0.5]]), np.array([0.5, 0.5]), 0.25).round(2)
    array([[-1.47,  0.57],
           [ 0.  ,  0.  ]])
    """
    share = np.maximum(balance + (predicted - balance) / separation, 0.0)
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(np.log((share + _SMOOTHING) / (balance + _SMOOTHING)))


def combine(posterior: Array, adds: Array) -> Array:
    """Return posteriors (n, K) with ``adds`` (n, K) added to their logarithms; unchanged if it is 0.

    >>> combine(np.array([[0.5, 0.5]]), np.array([[0.0, np.log(3)]]))
    array([[0.25, 0.75]])
    """
    # A class that votes exclude stays excluded: the lower limit keeps its logarithm finite.
    logs = np.log(np.maximum(posterior, 1e-300)) + adds
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    unchanged = ~adds.any(axis=1)
    logs[unchanged] = posterior[unchanged]
    return logs


def standardized(rows: Array, means: Array, scales: Array) -> Array:
    """Return standardized rows; missing values become 0, the mean."""
    values = np.clip((rows - means) / scales, -_FARTHEST, _FARTHEST)
    return np.asarray(np.nan_to_num(values, copy=False))
