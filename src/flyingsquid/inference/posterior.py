"""Posteriors of one task with independent sources, vote shares, and their correction by gold labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.weighted import EVEN_VOTE, to_probabilities
from flyingsquid.kernels import binary_labels, kernels_for
from flyingsquid.moments import DenseLogs, VoteLogs
from flyingsquid.votes.codes import Codes, OneHot
from flyingsquid.votes.grid import PatternGrid
from flyingsquid.votes.patterns import by_pattern
from flyingsquid.votes.tallies import class_counts, sum_binary_votes

Array = NDArray[np.float64]
LEAST_PROBABILITY = 1e-12
"""Smaller probabilities count as this one, so that a single item cannot dominate a regression."""
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


# ---------------------------------------------------------------------- correction by gold labels


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Correction:
    """Linear change of the log probabilities of an item.

    The corrected log probability of class k is, up to a constant per item, ``of_posterior`` times the log of
    the posterior, plus ``of_share`` times the log of the vote share, plus ``intercepts[k]``, plus the sum of
    ``tables[i, v, k]`` over the votes v of sources i.

    Attributes
    ----------
    of_posterior, of_share : float
    intercepts : array of shape (K,)
    tables : array of shape (m, K, K) or None
        Contribution of a vote of source i for class v to class k; None if not estimated.
    """

    of_posterior: float
    of_share: float
    intercepts: Array
    tables: Array | None = None

    def apply(self, labels: Array, one_hot: OneHot | PatternGrid) -> Array:
        """Return corrected posteriors, shape (n, K), of posteriors ``labels`` and the votes of the items."""
        counts = one_hot.class_sums(np.ones((one_hot.n_sources, labels.shape[1])))
        scores = self.of_posterior * log_probabilities(labels)
        scores += self.of_share * log_shares(counts)
        scores += self.intercepts
        if self.tables is not None:
            scores += one_hot @ np.swapaxes(self.tables, 0, 1).reshape(-1, len(self.intercepts))
        return to_probabilities(scores)

    def without_votes(self, labels: Array) -> Array:
        """Return the corrected posterior of an item without votes, shape (K,)."""
        scores = self.of_posterior * log_probabilities(labels) + self.intercepts
        return to_probabilities(scores[None])[0]

    def parts(self, codes: NDArray[Any], base: Array, best: int, second: int) -> Array:
        """Return the contribution of each of s votes to the log odds of two classes, shape (s,).

        ``codes`` are the classes voted for, and ``base`` of shape (s,) is the contribution of each vote
        without the correction. The vote share is a sum over votes of one class, which share it equally.
        """
        at = np.arange(len(self.intercepts))
        counts = (codes[:, None] == at).sum(axis=0).astype(np.float64)
        per_vote = self.of_share * (log_shares(counts[None]) - log_shares(np.zeros((1, len(at)))))[0]
        common = self.of_share * np.log1p(counts.sum() / EVEN_VOTE)  # the denominator, equal for all classes
        per_vote = (per_vote + common) / np.maximum(counts, 1.0)
        sides = (codes == best).astype(np.float64) - (codes == second)
        adds = self.of_posterior * base + sides * per_vote[codes]
        if self.tables is not None:
            of_votes = self.tables[np.arange(len(codes)), codes]
            adds += of_votes[:, best] - of_votes[:, second]
        return np.asarray(adds)

    def of_sources(self, sources: NDArray[np.intp]) -> Correction:
        """Return the correction for items that only these sources vote on."""
        return replace(self, tables=None if self.tables is None else self.tables[sources])


def log_probabilities(labels: Array) -> Array:
    """Return logarithms of posteriors, bounded."""
    return np.asarray(np.log(np.maximum(labels, LEAST_PROBABILITY)))


def log_shares(counts: Array) -> Array:
    """Return the log of the share of each class in the votes and one vote for all classes, shape (n, K)."""
    smoothed = counts + EVEN_VOTE / counts.shape[1]
    return np.asarray(np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))
