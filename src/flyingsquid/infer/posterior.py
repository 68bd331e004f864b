"""Posterior of one binary task whose sources are independent given the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels import kernels_for
from flyingsquid.kernels.labels import binary_labels
from flyingsquid.votes.distinct import by_pattern
from flyingsquid.votes.states import Codes
from flyingsquid.votes.tallies import sum_binary_votes

Array = NDArray[np.float64]
_DOUBLE = np.dtype(np.float64)
# Beyond, the odds are no longer a float; no label is 0.
_MOST_LOG_ODDS = 709.0


def binary_posterior(
    codes: Codes, prior: Array, weights: Array, dtype: np.dtype[Any] = _DOUBLE
) -> NDArray[Any]:
    """P(Y = k | votes), shape (n, 1, 2); the middle axis is the task.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of two classes
    prior : array of shape (2,)
        P(Y = k). It enters once.
    weights : array of shape (m, 3)
        log P(vote v | Y=1) - log P(vote v | Y=0) for both votes, and for no vote. Where the last is
        0, a missing vote adds nothing, and an item without votes gets the prior.
    dtype : the type of the answer where that saves work
    """
    offset = float(np.log(prior[1]) - np.log(prior[0]))
    return by_pattern(codes, lambda rows: _labels(rows, weights, offset, dtype), dtype=dtype)


def binary_evidence(codes: Codes, weights: Array) -> Array:
    """Sum over sources of the weight of their vote, or of none, shape (n,); ``weights`` of shape (m, 3).

    With weights log P(v | Y=1) - log P(v | Y=0) these are the log odds of class 1 less those of the prior.
    Weights of shape (m, 3, r) give r sums at once, shape (n, r).
    """
    return by_pattern(codes, lambda rows: sum_binary_votes(rows, weights))


def _labels(codes: Codes, weights: Array, offset: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    kernels = kernels_for(codes, 2, "labels")
    if kernels is None:
        return _probabilities(sum_binary_votes(codes, weights) + offset)
    answer = np.empty((codes.shape[0], 1, 2), dtype)
    binary_labels(kernels, codes, weights, offset, answer[:, 0])
    return answer


def _probabilities(log_odds: Array) -> Array:
    posterior = np.empty((len(log_odds), 1, 2))
    odds = np.exp(np.clip(log_odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS))
    # Each side by its own quotient: 1 - p would round the small side of a sure label to 0.
    quotient = 1 / (1 + odds)
    posterior[:, 0, 0] = quotient
    np.multiply(odds, quotient, out=posterior[:, 0, 1])
    return posterior
