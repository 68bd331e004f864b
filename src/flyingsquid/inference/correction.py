"""Correction of posteriors by gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.weighted import EVEN_VOTE, to_probabilities
from flyingsquid.votes.codes import OneHot
from flyingsquid.votes.grid import PatternGrid

Array = NDArray[np.float64]
LEAST_PROBABILITY = 1e-12
"""Smaller probabilities count as this one, so that a single item cannot dominate a regression."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Correction:
    """Linear change of the log probabilities of an item.

    The corrected log probability of class k is, up to a constant per item, ``of_posterior`` times the log of
    the posterior, plus ``of_share`` times the log of the vote share, plus ``intercepts[k]``, plus the
    ``weights`` of the votes for class k, plus the mean of ``confusion[v, k]`` over the votes v.

    Attributes
    ----------
    of_posterior, of_share : float
    intercepts : array of shape (K,)
    weights : array of shape (m, K)
        Contribution of a vote of source i for class k to that class.
    confusion : array of shape (K, K) or None
        Contribution of votes for class v to class k, for all sources together; None if not estimated.
    """

    of_posterior: float
    of_share: float
    intercepts: Array
    weights: Array
    confusion: Array | None = None

    def apply(self, labels: Array, cast: OneHot | PatternGrid) -> Array:
        """Return corrected posteriors, shape (n, K), of posteriors ``labels`` and the votes of the items."""
        counts = cast.class_sums(np.ones_like(self.weights))
        scores = self.of_posterior * log_probabilities(labels)
        scores += self.of_share * log_shares(counts)
        scores += self.intercepts + cast.class_sums(self.weights)
        if self.confusion is not None:
            scores += mean_votes(counts) @ self.confusion
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
        at = np.arange(self.weights.shape[1])
        counts = (codes[:, None] == at).sum(axis=0).astype(np.float64)
        per_vote = self.of_share * (log_shares(counts[None]) - log_shares(np.zeros((1, len(at)))))[0]
        common = self.of_share * np.log1p(counts.sum() / EVEN_VOTE)  # the denominator, equal for all classes
        per_vote = (per_vote + common) / np.maximum(counts, 1.0)
        sides = (codes == best).astype(np.float64) - (codes == second)
        sources = np.arange(len(codes))
        adds = self.of_posterior * base + sides * (per_vote[codes] + self.weights[sources, codes])
        if self.confusion is not None:
            adds += (self.confusion[codes, best] - self.confusion[codes, second]) / len(codes)
        return np.asarray(adds)

    def of_sources(self, sources: NDArray[np.intp]) -> Correction:
        """Return the correction for items that only these sources vote on."""
        return Correction(
            of_posterior=self.of_posterior,
            of_share=self.of_share,
            intercepts=self.intercepts,
            weights=self.weights[sources],
            confusion=self.confusion,
        )


def log_probabilities(labels: Array) -> Array:
    """Return logarithms of posteriors, bounded."""
    return np.asarray(np.log(np.maximum(labels, LEAST_PROBABILITY)))


def log_shares(counts: Array) -> Array:
    """Return the log of the share of each class in the votes and one vote for all classes, shape (n, K)."""
    smoothed = counts + EVEN_VOTE / counts.shape[1]
    return np.asarray(np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))


def mean_votes(counts: Array) -> Array:
    """Return the share of each class in the votes on an item, shape (n, K); 0 without votes."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
