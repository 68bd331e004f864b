"""How a source stands beside the others, and beside known labels: one pass over the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.votes import Votes
from flyingsquid.votes.tallies import item_votes, iter_votes, votes_on

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SourceOverlaps:
    """On how many items each of m sources is not alone.

    Attributes
    ----------
    overlaps : integer array of shape (m,)
        Items that the source and at least one other vote on.
    conflicts : integer array of shape (m,)
        Those of them on which at least one other votes for another class.
    """

    overlaps: Counts
    conflicts: Counts


def count_overlaps(votes: Votes) -> SourceOverlaps:
    """Count overlaps and conflicts of every source. Time O(nm), memory O(n + m).

    A source that votes on an item whose votes differ is at odds with somebody there, whatever its vote is. So
    one look at each item suffices.

    >>> found = count_overlaps(Votes.from_classes([[0, 0, -1], [0, 1, -1], [1, -1, -1]]))
    >>> found.overlaps.tolist(), found.conflicts.tolist()
    ([2, 2, 0], [1, 1, 0])
    """
    items = item_votes(votes.codes)
    return SourceOverlaps(votes_on(votes.codes, items.cast > 1), votes_on(votes.codes, items.split))


@dataclass(frozen=True, slots=True, eq=False)
class GoldTally:
    """What m sources said on items whose class is known.

    Attributes
    ----------
    right : integer array of shape (m, K)
        Right votes of each source on items of class k.
    cast : integer array of shape (m, K)
        All its votes on items of class k.
    said : integer array of shape (m, K)
        Its votes for class k on known items.
    items : integer array of shape (K,)
        Known items of each class.
    """

    right: Counts
    cast: Counts
    said: Counts
    items: Counts

    @classmethod
    def of(cls, votes: Votes, gold: NDArray[Any]) -> GoldTally:
        """Count ``votes`` on the items whose code in ``gold``, shape (n,), is not negative."""
        known = np.flatnonzero(gold >= 0)
        part, truth = votes[known], gold[known].astype(np.intp)
        m, n_classes = votes.n_sources, votes.n_classes
        counts = np.zeros((3, m * n_classes), np.int64)
        for item, source, vote in iter_votes(part.codes):
            counts += _by_class(source, vote, truth[item], m, n_classes)
        right, cast, said = counts.reshape(3, m, n_classes)
        return cls(right, cast, said, np.bincount(truth, minlength=n_classes).astype(np.int64))

    @property
    def correct(self) -> Counts:
        """Right votes, shape (m,)."""
        return np.asarray(self.right.sum(axis=1))

    @property
    def incorrect(self) -> Counts:
        """Wrong votes, shape (m,)."""
        return np.asarray(self.cast.sum(axis=1) - self.correct)

    @property
    def precision(self) -> Array:
        """Right votes among all votes, shape (m,); NaN for a source without votes on known items."""
        return _share(self.correct, self.cast.sum(axis=1))

    @property
    def balanced_accuracy(self) -> Array:
        """Mean over the classes of how often it is right there, shape (m,); NaN without votes."""
        shares = _share(self.right, self.cast)
        return _mean_of_known(shares)

    @property
    def balanced_error(self) -> Array:
        """Standard error of ``balanced_accuracy``, shape (m,)."""
        # One vote each way keeps two votes of one kind from being taken for certainty.
        p = (self.right + 1) / (self.cast + 2)
        variance = np.where(self.cast > 0, p * (1 - p) / np.maximum(self.cast, 1), 0.0)
        seen = np.maximum((self.cast > 0).sum(axis=1), 1)
        return np.asarray(np.sqrt(variance.sum(axis=1)) / seen)

    @property
    def chance(self) -> Array:
        """``balanced_accuracy`` of votes cast as often for each class, but at random, shape (m,)."""
        rates = self.said / np.maximum(self.said.sum(axis=1, keepdims=True), 1)
        return _mean_of_known(np.where(self.cast > 0, rates, np.nan))

    @property
    def worse_than_chance(self) -> NDArray[np.bool_]:
        """Whether the 95% interval of what a source reaches lies below what chance does, shape (m,).

        Sources of several classes by their balanced accuracy. A source of one class is worse than chance
        where that class is rarer among the items it votes on than among all.
        """
        several = (self.said > 0).sum(axis=1) > 1
        reach = NORMAL_95 * self.balanced_error
        below = np.nan_to_num(self.balanced_accuracy + reach, nan=np.inf) < np.nan_to_num(self.chance)
        cast = self.cast.sum(axis=1)
        p = (self.correct + 1) / (cast + 2)
        high = p + NORMAL_95 * np.sqrt(p * (1 - p) / np.maximum(cast, 1))
        base = (self.said > 0) @ (self.items / max(int(self.items.sum()), 1))
        return np.asarray(np.where(several, below, (cast > 1) & (high < base)))


def _by_class(
    source: NDArray[np.intp], vote: NDArray[np.intp], truth: NDArray[np.intp], m: int, n_classes: int
) -> Counts:
    """Right votes by class, votes by true class, and votes by class voted, shape (3, m * K)."""
    size, on = m * n_classes, vote == truth
    cells = (source[on] * n_classes + truth[on], source * n_classes + truth, source * n_classes + vote)
    return np.stack([np.bincount(cell, minlength=size) for cell in cells]).astype(np.int64)


def _share(part: NDArray[Any], whole: NDArray[Any]) -> Array:
    out = np.full(part.shape, np.nan)
    return np.divide(part, whole, out=out, where=whole > 0)


def _mean_of_known(values: Array) -> Array:
    """Mean over the last axis without NaN, NaN where nothing is known."""
    known = np.isfinite(values)
    return _share(np.where(known, values, 0.0).sum(axis=1), known.sum(axis=1))
