"""All possible rows of a few sources, for sums over rows that factor into two halves of the sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from flyingsquid.votes.codes import FEW_CLASSES, Codes, OneHot, spread_by_class
from flyingsquid.votes.patterns import all_patterns, n_patterns, packed_chunks, pattern_counts

Array = NDArray[np.float64]
# Largest number of rows of a grid; beyond it, distinct rows are fewer. A grid is faster if at least this
# share of its rows occurs, which needs at least this many items per row.
_MOST_ROWS, _ROWS_THAT_OCCUR, _ITEMS_PER_ROW = 1 << 17, 0.25, 0.25
# Largest number of one-hot cells of a half, and number of grids that are kept.
_MOST_CELLS, _MOST_GRIDS = 1 << 18, 16
# Largest log odds of a half; odds of two halves have a finite product.
_LARGEST = 350.0


class PatternRows:
    """Votes of some possible rows, with the sums over the votes on a row of :class:`OneHot`.

    A row consists of a row of the first half of the sources and a row of the second half. Sums add up from
    both, so they are computed once per row of a half. They are the same to the last bit for a row alone,
    among others, and in a :class:`PatternGrid` of all rows.

    Attributes
    ----------
    n_sources, n_classes : int
    n_items : int
        Number of rows.
    n_votes, totals : array of shape (n,)
        Number of votes on each row.
    """

    n_sources: int
    n_classes: int
    n_items: int
    # Of the second and the first half: one-hot votes of all rows, numbers of votes, sources, rows that occur.
    _hot: list[Array]
    _numbers: list[Array]
    _sources: tuple[slice, slice]
    _at: tuple[Any, Any]

    def __init__(self, grid: PatternGrid, numbers: NDArray[np.intp]) -> None:
        self.n_sources, self.n_classes, self.n_items = grid.n_sources, grid.n_classes, len(numbers)
        self._hot, self._sources, self._numbers = grid._hot, grid._sources, grid._numbers
        second, first = np.divmod(numbers, len(self._hot[1]))
        self._at = (..., second), (..., first)

    @cached_property
    def n_votes(self) -> Array:
        second, first = (number[at] for number, at in zip(self._numbers, self._at, strict=True))
        n_votes = np.asarray(second + first).ravel()
        n_votes.flags.writeable = False  # grids are shared
        return n_votes

    @property
    def totals(self) -> Array:
        return self.n_votes

    def __matmul__(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (K m,) or (K m, r) over the votes on each row, shape (n,) or (n, r)."""
        # Column by column, because NumPy adds few long rows several times as fast as many short ones.
        second, first = (
            np.ascontiguousarray(half.T)[at]
            for half, at in zip(self._half_sums(weights), self._at, strict=True)
        )
        return np.asarray(second + first).reshape(*weights.shape[1:], self.n_items).T

    def _half_sums(self, weights: Array) -> tuple[Array, Array]:
        """Return the sums of all rows of both halves, shape (rows, r)."""
        width = weights.size // len(weights)
        of_votes = weights.reshape(self.n_classes, self.n_sources, width)
        second, first = (
            hot @ of_votes[:, at].reshape(hot.shape[1], width)
            for hot, at in zip(self._hot, self._sources, strict=True)
        )
        return second, first

    def binary_posterior(self, weights: Array, offset: float | Array) -> Array:
        """Return P(Y = k), shape (n, 2), for log odds of class 1.

        The log odds are ``offset``, a number or of shape (n,), plus the sums of ``weights`` of shape (2 m,).
        """
        halves = self._half_odds(weights, offset) if isinstance(offset, float) else None
        if halves is None:
            log_odds = self @ weights + offset
            return np.array([expit(-log_odds), expit(log_odds)]).T
        second, first = (half[at] for half, at in zip(halves, self._at, strict=True))
        odds = (second * first).ravel()
        both = np.empty((2, self.n_items))
        np.add(odds, 1, out=both[0])
        np.divide(1, both[0], out=both[0])
        np.multiply(odds, both[0], out=both[1])
        return both.T

    def _half_odds(self, weights: Array, offset: float) -> list[Array] | None:
        """Return the exponentials of sums of ``weights`` of both halves, one with ``offset``, shape (rows,).

        The exponential of a sum is their product, so only few are computed. None if they are too large.
        """
        second, first = self._half_sums(weights)
        second += offset
        if max(np.abs(second).max(), np.abs(first).max()) > _LARGEST:
            return None
        return [np.exp(second[:, 0]), np.exp(first[:, 0])]

    def class_sums(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (m, K) over the votes for each class on each row, shape (n, K)."""
        return self @ spread_by_class(weights)


class PatternGrid(PatternRows):
    """Votes of all possible rows, in the order of :func:`all_patterns`, with the sums of :class:`OneHot`.

    Sums over rows are taken along one half of the sources at a time, so the rows themselves are never stored.
    :func:`pattern_grid` returns a grid.

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
        self._numbers = [voted.sum(axis=1) for voted in self._voted]
        self._at = (..., slice(None), None), (..., None, slice(None))

    def __getitem__(self, rows: Any) -> OneHot:
        return OneHot.of(all_patterns(self.n_sources, self.n_classes)[rows], self.n_classes)

    def rows(self, numbers: NDArray[np.intp]) -> PatternRows:
        """Return the rows with these numbers, of shape (n,)."""
        return PatternRows(self, numbers)

    def share_of_second(self, weights: Array, offset: float, counts: Array) -> Array:
        """Return ``counts`` (n,) times P(Y = 1), for log odds of class 0.

        The log odds are ``offset`` plus the sums of ``weights`` of shape (2 m,).
        """
        halves = self._half_odds(weights, offset)
        if halves is None:
            return np.asarray(counts * expit(-(self @ weights + offset)))
        # 1 + odds as a product of matrices with two columns, in half the time of a product and a sum.
        second, first = (np.stack([odds, np.ones(len(odds))]) for odds in halves)
        odds = (second.T @ first).ravel()
        return np.divide(counts, odds, out=odds)

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


def row_chunks(codes: Codes, n_classes: int) -> Iterator[tuple[slice, PatternRows | OneHot]]:
    """Yield slices of items and their votes: as rows of a grid if there are few possible rows."""
    m = codes.shape[1]
    if isinstance(codes, csr_array) or n_classes > FEW_CLASSES or n_patterns(m, n_classes) > _MOST_ROWS:
        yield from OneHot.chunks(codes, n_classes)
        return
    grid = pattern_grid(m, n_classes)
    if codes is all_patterns(m, n_classes):
        yield slice(None), grid
        return
    for items, numbers in packed_chunks(codes, n_classes):
        yield items, grid.rows(numbers)


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
