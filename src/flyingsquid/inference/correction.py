"""Correction of posteriors by gold labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
