"""Posteriors of one task with independent sources, and vote shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.weighted import to_probabilities
from flyingsquid.kernels import binary_labels, kernels_for
from flyingsquid.moments import DenseLogs, VoteLogs
from flyingsquid.votes.codes import Codes
from flyingsquid.votes.patterns import by_pattern
from flyingsquid.votes.tallies import class_counts, sum_binary_votes

Array = NDArray[np.float64]
_DOUBLE = np.dtype(np.float64)
# Larger odds are not floats any more. No posterior is exactly 0.
_MOST_LOG_ODDS = 709.0


def binary_posterior(
    codes: Codes, prior: Array, weights: Array, dtype: np.dtype[Any] = _DOUBLE
) -> NDArray[Any]:
    """Return P(Y = k | votes) of two classes, shape (n, 1, 2); the middle axis is the task.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of two classes
    prior : array of shape (2,)
        P(Y = k).
    weights : array of shape (m, 3)
        log P(vote v | Y=1) - log P(vote v | Y=0) for both votes, and for no vote. If the last is
        0, a missing vote is ignored, and an item without votes gets the prior.
    dtype : data type of the result if that saves work, otherwise float64
    """
    offset = float(np.log(prior[1]) - np.log(prior[0]))
    return by_pattern(codes, lambda rows: _labels(rows, weights, offset, dtype), dtype=dtype)


def binary_evidence(codes: Codes, weights: Array) -> Array:
    """Sum over sources the weight of their vote or of no vote, shape (n,); ``weights`` of shape (m, 3).

    With weights log P(v | Y=1) - log P(v | Y=0) these are the log odds of class 1 minus those of the prior.
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
    # Each side by its own quotient: 1 - p would round small probabilities to 0.
    quotient = 1 / (1 + odds)
    posterior[:, 0, 0] = quotient
    np.multiply(odds, quotient, out=posterior[:, 0, 1])
    return posterior


# ---------------------------------------------------------------------- any number of classes


def class_evidence(codes: Codes, logs: Array | VoteLogs) -> Array:
    """Return log P(votes | Y = k), shape (n, K).

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    logs : VoteLogs, or an array of shape (m, K, K + 1)
        log P(vote = v | Y = k), no vote last.
    """
    return (DenseLogs(logs) if isinstance(logs, np.ndarray) else logs).evidence(codes)


def class_posterior(codes: Codes, prior: Array, logs: Array | VoteLogs) -> Array:
    """Return P(Y = k | votes), shape (n, 1, K), the middle axis is the task; ``prior`` has shape (K,)."""
    scores = class_evidence(codes, logs)
    scores += np.log(prior)
    return to_probabilities(scores)[:, None, :]


# ---------------------------------------------------------------------- vote shares


def vote_shares(codes: Codes, n_classes: int) -> NDArray[np.float64]:
    """Return the share of each class in an item's votes, shape (n, 1, K); uniform without votes."""
    counts = class_counts(codes, n_classes)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.full_like(counts, 1 / n_classes), where=total > 0)
    return shares[:, None, :]


def smoothed_shares(codes: Codes, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vote shares with K votes added in proportion to the prior, shape (n, 1, K).

    An item without votes gets the prior; no class has probability 0.

    >>> smoothed_shares(np.array([[1, 1], [-1, -1]]), np.array([0.5, 0.5]))[:, 0]
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    k = len(prior)
    counts = class_counts(codes, k)
    shares = (counts + k * prior) / (counts.sum(axis=1, keepdims=True) + k)
    return shares[:, None, :]
