"""All possible rows of a few sources, for sums over rows that factor into two halves of the sources."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.votes.codes import Codes, OneHot
from flyingsquid.votes.patterns import all_patterns, n_patterns, packed_chunks, pattern_counts

Array = NDArray[np.float64]
# Largest number of rows of a grid; beyond it, distinct rows are fewer. A grid is faster if at least this
# share of its rows occurs, which needs at least this many items per row.
_MOST_ROWS, _ROWS_THAT_OCCUR, _ITEMS_PER_ROW = 1 << 17, 0.25, 0.25


class PatternGrid:
    """Votes of all possible rows, in the order of :func:`all_patterns`, with the sums of :class:`OneHot`.

    A row is a row of the first half of the sources next to one of the second half. Sums over the votes on a
    row add up from both, and sums over rows are taken along one axis at a time, so the rows themselves are
    never stored.

    Examples
    --------
    >>> grid = PatternGrid(4, 2)
    >>> grid.n_items, int(grid.n_votes.max()), grid.vote_sums(np.ones(81)).tolist()
    (81, 4, [[27.0, 27.0, 27.0, 27.0], [27.0, 27.0, 27.0, 27.0]])
    """

    def __init__(self, n_sources: int, n_classes: int) -> None:
        self.n_sources, self.n_classes = n_sources, n_classes
        first = n_sources // 2
        sizes = (n_sources - first, first)  # the numbers of the first sources change fastest
        self._halves = [OneHot.of(all_patterns(size, n_classes), n_classes) for size in sizes]
        self._sources = (np.arange(first, n_sources), np.arange(first))

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return n_patterns(self.n_sources, self.n_classes)

    @property
    def n_votes(self) -> NDArray[Any]:
        """Number of votes on each row, shape (n,)."""
        second, first = (half.n_votes for half in self._halves)
        return np.add.outer(second, first).ravel()

    @property
    def totals(self) -> Array:
        """Number of votes on each row as floats, shape (n,)."""
        return self.n_votes.astype(np.float64)

    def __getitem__(self, rows: Any) -> OneHot:
        return OneHot.of(all_patterns(self.n_sources, self.n_classes)[rows], self.n_classes)

    def __matmul__(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (K m,) or (K m, r) over the votes on each row, shape (n,) or (n, r)."""
        width = weights.size // len(weights)
        of_votes = weights.reshape(self.n_classes, self.n_sources, width)
        second, first = (
            half @ of_votes[:, at].reshape(self.n_classes * len(at), width)
            for half, at in zip(self._halves, self._sources, strict=True)
        )
        sums = second[:, None, :] + first[None, :, :]
        return np.asarray(sums.reshape(self.n_items, *weights.shape[1:]))

    def class_sums(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (m, K) over the votes for each class on each row, shape (n, K)."""
        second, first = (
            half.class_sums(weights[at]) for half, at in zip(self._halves, self._sources, strict=True)
        )
        return np.asarray((second[:, None, :] + first[None, :, :]).reshape(self.n_items, -1))

    def vote_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (n,) or (n, r) over the rows with each vote, shape (K, m) or (K, m, r)."""
        second, first = (half.n_items for half in self._halves)
        width = values.size // self.n_items
        # Products with ones, because NumPy sums short axes slowly.
        by_first = np.ones(second) @ values.reshape(second, first * width)
        by_second = values.reshape(second, first * width) @ np.tile(np.eye(width), (first, 1))
        sums = np.empty((self.n_classes, self.n_sources, *values.shape[1:]))
        for half, at, marginal in zip(self._halves, self._sources, (by_second, by_first), strict=True):
            sums[:, at] = half.vote_sums(marginal.reshape(half.n_items, *values.shape[1:]))
        return sums

    def co_votes(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (n,) over the rows that both of two sources vote on, shape (m, m)."""
        table = weights.reshape(*(half.n_items for half in self._halves))
        sums = np.empty((self.n_sources, self.n_sources))
        voted = [half.dense_votes().astype(np.float64) for half in self._halves]
        for axis, (votes, at) in enumerate(zip(voted, self._sources, strict=True)):
            sums[np.ix_(at, at)] = votes.T @ (votes * table.sum(axis=1 - axis)[:, None])
        across = voted[0].T @ table @ voted[1]
        sums[np.ix_(*self._sources)] = across
        sums[np.ix_(*self._sources[::-1])] = across.T
        return sums


def counted_grid(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None
) -> tuple[PatternGrid, Array] | None:
    """Return the grid of the sources of ``codes`` (n, m) and how often each row occurs; None if it is slower.

    ``weights`` of shape (n,) are weights of items.
    """
    n, m = codes.shape
    if isinstance(codes, csr_array) or m > _MOST_ROWS.bit_length():
        return None
    size = n_patterns(m, n_classes)
    if size > _MOST_ROWS or n < _ITEMS_PER_ROW * size:
        return None
    if weights is None:
        counts = pattern_counts(codes, n_classes).astype(np.float64)
    else:
        counts = np.zeros(size)
        for rows, numbers in packed_chunks(codes, n_classes):
            counts += np.bincount(numbers, weights[rows], minlength=size)
    if np.count_nonzero(counts) < _ROWS_THAT_OCCUR * size:
        return None
    return PatternGrid(m, n_classes), counts
