"""All possible rows of a few sources, for sums over rows that factor into two halves of the sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from flyingsquid.votes.codes import Codes, OneHot, spread_by_class
from flyingsquid.votes.patterns import all_patterns, n_patterns, pattern_counts

Array = NDArray[np.float64]
# Largest number of rows of a grid; beyond it, distinct rows are fewer. A grid is faster if at least this
# share of its rows occurs, which needs at least this many items per row.
_MOST_ROWS, _ROWS_THAT_OCCUR, _ITEMS_PER_ROW = 1 << 17, 0.25, 0.25
# Largest number of one-hot cells of a half, and number of grids that are kept.
_MOST_CELLS, _MOST_GRIDS = 1 << 18, 16
# Largest log odds of a half; odds of two halves have a finite product.
_LARGEST = 350.0


class PatternGrid:
    """Votes of all possible rows, in the order of :func:`all_patterns`, with the sums of :class:`OneHot`.

    A row consists of a row of the first half of the sources and a row of the second half. Sums over the votes
    on a row add up from both, and sums over rows are taken along one axis at a time, so the rows themselves
    are never stored. :func:`pattern_grid` returns a grid.

    Attributes
    ----------
    n_sources, n_classes : int
    n_items : int
        Number of rows.
    n_votes, totals : array of shape (n,)
        Number of votes on each row.

    Examples
    --------
    >>> grid = pattern_grid(4, 2)
    >>> grid.n_items, int(grid.n_votes.max()), grid.vote_sums(np.ones(81)).tolist()
    (81, 4, [[27.0, 27.0, 27.0, 27.0], [27.0, 27.0, 27.0, 27.0]])
    """

    def __init__(self, n_sources: int, n_classes: int) -> None:
        self.n_sources, self.n_classes = n_sources, n_classes
        self.n_items = n_patterns(n_sources, n_classes)
        first = n_sources // 2
        # The numbers of the first sources change fastest, so they are the last axis.
        sizes, self._sources = (n_sources - first, first), (slice(first, n_sources), slice(first))
        self._hot = [one_hot_patterns(size, n_classes) for size in sizes]
        self._voted = [
            hot.reshape(len(hot), n_classes, size).sum(axis=1)
            for hot, size in zip(self._hot, sizes, strict=True)
        ]
        self.n_votes = np.add.outer(*(voted.sum(axis=1) for voted in self._voted)).ravel()
        self.n_votes.flags.writeable = False  # grids are shared
        self.totals = self.n_votes

    def __getitem__(self, rows: Any) -> OneHot:
        return OneHot.of(all_patterns(self.n_sources, self.n_classes)[rows], self.n_classes)

    def __matmul__(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (K m,) or (K m, r) over the votes on each row, shape (n,) or (n, r)."""
        # Column by column, because NumPy adds few long rows several times as fast as many short ones.
        second, first = (np.ascontiguousarray(half.T) for half in self._half_sums(weights))
        sums = second[:, :, None] + first[:, None, :]
        return sums.reshape(*weights.shape[1:], self.n_items).T

    def _half_sums(self, weights: Array) -> tuple[Array, Array]:
        """Return the sums of both halves, shape (rows, r)."""
        width = weights.size // len(weights)
        of_votes = weights.reshape(self.n_classes, self.n_sources, width)
        second, first = (
            hot @ of_votes[:, at].reshape(hot.shape[1], width)
            for hot, at in zip(self._hot, self._sources, strict=True)
        )
        return second, first

    def share_of_second(self, weights: Array, offset: float, counts: Array) -> Array:
        """Return ``counts`` (n,) times P(Y = 1), for log odds of class 0.

        The log odds are ``offset`` plus the sums of ``weights`` of shape (2 m,).
        """
        odds = self._odds(weights, offset)
        if odds is None:
            return np.asarray(counts * expit(-(self @ weights + offset)))
        odds += 1
        return np.divide(counts, odds, out=odds)

    def binary_posterior(self, weights: Array, offset: float | Array) -> Array:
        """Return P(Y = k), shape (n, 2), for log odds of class 1.

        The log odds are ``offset``, a number or of shape (n,), plus the sums of ``weights`` of shape (2 m,).
        """
        odds = self._odds(weights, offset) if isinstance(offset, float) else None
        if odds is None:
            log_odds = self @ weights + offset
            return np.array([expit(-log_odds), expit(log_odds)]).T
        both = np.empty((2, self.n_items))
        np.add(odds, 1, out=both[0])
        np.divide(1, both[0], out=both[0])
        np.multiply(odds, both[0], out=both[1])
        return both.T

    def _odds(self, weights: Array, offset: float) -> Array | None:
        """Return the exponential of ``offset`` plus the sums of ``weights``, shape (n,); None if too large.

        The exponential of a sum is the product of those of its halves, so only few are computed.
        """
        second, first = self._half_sums(weights)
        second += offset
        if max(np.abs(second).max(), np.abs(first).max()) > _LARGEST:
            return None
        return np.asarray((np.exp(second) * np.exp(first).T).ravel())

    def class_sums(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (m, K) over the votes for each class on each row, shape (n, K)."""
        return self @ spread_by_class(weights)

    def vote_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (n,) or (n, r) over the rows with each vote, shape (K, m) or (K, m, r)."""
        if values.ndim > 1:
            return np.stack([self.vote_sums(column) for column in values.T], axis=2)
        table = values.reshape([len(hot) for hot in self._hot])
        # Products with ones, because NumPy sums short axes slowly.
        marginals = table @ np.ones(table.shape[1]), np.ones(table.shape[0]) @ table
        sums = np.empty((self.n_classes, self.n_sources))
        for hot, at, marginal in zip(self._hot, self._sources, marginals, strict=True):
            part = sums[:, at]
            part[:] = (marginal @ hot).reshape(part.shape)
        return sums

    def co_votes(self, weights: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Iterator[Array]:
        """Yield sums of columns of ``weights`` (n, r) over rows that both of p pairs vote on, (p,)."""
        return (self._products(self._voted, each)[0, first, 0, second] for each in weights.T)

    def pair_counts(self, counts: Array) -> Array:
        """Return how often source i votes a and source j votes b, shape (K, K, m, m), axes a, b, i, j.

        ``counts`` of shape (n,) is how often each row occurs.
        """
        return self._products(self._hot, counts).transpose(0, 2, 1, 3)

    def _products(self, halves: list[Array], weights: Array) -> Array:
        """Sum products of two columns over rows, shape (w, m, w, m); a half of s sources is (rows, w s)."""
        second, first = halves
        table = weights.reshape(len(second), len(first))
        width = (second.shape[1] + first.shape[1]) // self.n_sources
        sums = np.empty((width, self.n_sources, width, self.n_sources))
        for a, b, right in (
            (0, 0, second * table.sum(axis=1)[:, None]),
            (1, 1, first * table.sum(axis=0)[:, None]),
            (0, 1, table @ first),
        ):
            shape = (width, halves[a].shape[1] // width, width, halves[b].shape[1] // width)
            part = (halves[a].T @ right).reshape(shape)
            sums[:, self._sources[a], :, self._sources[b]] = part
            if a != b:
                sums[:, self._sources[b], :, self._sources[a]] = part.transpose(2, 3, 0, 1)
        return sums


@lru_cache(_MOST_GRIDS)
def pattern_grid(n_sources: int, n_classes: int) -> PatternGrid:
    """Return the grid of all rows of some sources."""
    return PatternGrid(n_sources, n_classes)


def one_hot_patterns(n_sources: int, n_classes: int) -> Array:
    """Return one-hot votes of every possible row, shape (n, K m), class-major columns."""
    patterns = all_patterns(n_sources, n_classes)
    hot = patterns[:, None, :] == np.arange(n_classes)[:, None]
    return hot.reshape(len(patterns), n_classes * n_sources).astype(np.float64)


class CountedRows(NamedTuple):
    """Number of occurrences of each possible row in votes.

    Attributes
    ----------
    grid : PatternGrid
        All possible rows.
    counts : array of shape (n_patterns,)
    are_dense : bool
        True if so many of the possible rows occur that sums over all of them are faster.
    """

    grid: PatternGrid
    counts: Array
    are_dense: bool

    @classmethod
    def of(cls, codes: Codes, n_classes: int, weights: NDArray[Any] | None) -> CountedRows | None:
        """Count rows; None if there are too many possible ones for their number to be useful."""
        n, m = codes.shape
        if isinstance(codes, csr_array) or m > _MOST_ROWS.bit_length():
            return None
        size, half = n_patterns(m, n_classes), m - m // 2
        if size > _MOST_ROWS or n < _ITEMS_PER_ROW * size:
            return None
        if n_patterns(half, n_classes) * n_classes * half > _MOST_CELLS:
            return None
        counts = pattern_counts(codes, n_classes, weights).astype(np.float64, copy=False)
        are_dense = bool(np.count_nonzero(counts) >= _ROWS_THAT_OCCUR * size)
        return cls(pattern_grid(m, n_classes), counts, are_dense)
