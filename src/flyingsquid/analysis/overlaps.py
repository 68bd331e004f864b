"""How a source stands beside the others, and beside known labels: one pass over the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.votes import Votes
from flyingsquid.votes.states import rows_of_entries

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
_CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RowVotes:
    """What an item's votes look like, whoever cast them.

    Attributes
    ----------
    cast : integer array of shape (n,)
        Votes on the item.
    split : mask of shape (n,)
        Whether two of them differ.
    """

    cast: Counts
    split: NDArray[np.bool_]


def look_at_rows(votes: Votes) -> RowVotes:
    """Count the votes on each item, and see whether any two differ.

    >>> rows = look_at_rows(Votes.from_classes([[0, 0, -1], [0, 1, 1], [-1, -1, -1]]))
    >>> rows.cast.tolist(), rows.split.tolist()
    ([2, 3, 0], [False, True, False])
    """
    n = votes.n_items
    if isinstance(votes.codes, csr_array):
        voted = votes.codes.data > 0
        row, value = rows_of_entries(votes.codes)[voted], votes.codes.data[voted].astype(np.int64)
        highest, lowest = np.zeros(n, np.int64), np.full(n, votes.n_classes + 1)
        np.maximum.at(highest, row, value)
        np.minimum.at(lowest, row, value)
        return RowVotes(np.bincount(row, minlength=n).astype(np.int64), highest > lowest)
    cast, split = np.empty(n, np.int64), np.empty(n, np.bool_)
    for rows, codes in _chunks(votes.codes):
        voted = codes >= 0
        cast[rows] = voted.sum(axis=1)
        lowest = np.where(voted, codes, np.iinfo(codes.dtype).max).min(axis=1)
        split[rows] = codes.max(axis=1) > lowest
    # Where nobody votes the lowest vote is larger than any, and the highest is none: no split.
    return RowVotes(cast, split & (cast > 1))


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
    rows = look_at_rows(votes)
    m, together = votes.n_sources, rows.cast > 1
    if isinstance(votes.codes, csr_array):
        voted = votes.codes.data > 0
        row, source = rows_of_entries(votes.codes)[voted], votes.codes.indices[voted]
        return SourceOverlaps(
            np.bincount(source[together[row]], minlength=m).astype(np.int64),
            np.bincount(source[rows.split[row]], minlength=m).astype(np.int64),
        )
    overlaps, conflicts = np.zeros(m, np.int64), np.zeros(m, np.int64)
    for part, codes in _chunks(votes.codes):
        voted = codes >= 0
        overlaps += np.count_nonzero(voted[together[part]], axis=0)
        conflicts += np.count_nonzero(voted[rows.split[part]], axis=0)
    return SourceOverlaps(overlaps, conflicts)


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
        if isinstance(part.codes, csr_array):
            voted = part.codes.data > 0
            of = truth[rows_of_entries(part.codes)[voted]]
            cells = (part.codes.indices[voted].astype(np.intp), part.codes.data[voted].astype(np.intp) - 1)
            counts += _by_class(*cells, of, m, n_classes)
        else:
            for rows, codes in _chunks(part.codes):
                row, source = np.nonzero(codes >= 0)
                counts += _by_class(
                    source, codes[row, source].astype(np.intp), truth[rows][row], m, n_classes
                )
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


def _chunks(codes: NDArray[Any]) -> Any:
    n, m = codes.shape
    step = max(1, _CHUNK_CELLS // m)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        yield rows, codes[rows]
