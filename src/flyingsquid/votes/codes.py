"""Codes of votes: classes count up from 0, missing votes count down from -1."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csc_array, csr_array, hstack, vstack

from flyingsquid._values import format_count, format_list, format_value, is_integer
from flyingsquid.exceptions import IncompatibleError, VotesError

ABSTAIN = -1
_CHUNK_CELLS = 1 << 20
MOST_CLASSES = int(np.iinfo(np.int16).max)
"""Codes have at most two bytes."""
REASONS = ("abstained", "refused", "unparseable", "failed", "not_asked")
"""Why a vote is missing; reason r has the code ``-1 - r``."""
NOT_ASKED = -5
"""Code of a vote that was not asked for, which is not evidence about the item."""

Codes: TypeAlias = NDArray[Any] | csr_array
"""Dense (n, m) codes, or sparse with ``class + 1`` for a vote and the code for a reason."""
Label: TypeAlias = Hashable


def code_of_reason(reason: str) -> int:
    """Return the negative code of a reason.

    >>> code_of_reason("refused")
    -2
    """
    return -1 - REASONS.index(reason)


@lru_cache
def smallest_dtype(n_classes: int) -> DTypeLike:
    """Return the smallest signed integer type that holds the codes of ``n_classes`` classes."""
    return np.min_scalar_type(-max(n_classes, len(REASONS)))


def shown_names(names: tuple[str, ...] | None, n_sources: int) -> tuple[str, ...]:
    """Return the names, or ``source 0``, ``source 1``, ... if there are none."""
    return _numbered_names(n_sources) if names is None else names


@lru_cache(32)
def _numbered_names(n_sources: int) -> tuple[str, ...]:
    return tuple(f"source {i}" for i in range(n_sources))


def shown_name(names: tuple[str, ...] | None, source: int) -> str:
    """Return the name of one source, or ``source 7`` if there are none."""
    return f"source {source}" if names is None else names[source]


def read_array(values: Any, what: str, constraint: str) -> NDArray[Any]:
    """Return user data as an array; raise VotesError if NumPy cannot read it."""
    if isinstance(values, np.matrix):
        return np.asarray(values)  # one column of a np.matrix has two dimensions
    if isinstance(values, np.ndarray):
        return values
    try:
        array = np.asanyarray(values)
        if isinstance(values, (list, tuple)) and array.dtype.kind in "US":
            return np.array(values, dtype=object)  # numbers and None next to strings became strings
        return array
    except Exception as error:  # user objects may raise any exception
        raise VotesError(f"`{what}` must be {constraint}; reading it failed: {error}") from error


def read_names(names: Iterable[str] | None, n_sources: int) -> tuple[str, ...] | None:
    """Return names of sources as a tuple, after checking that they are one distinct string per source."""
    if names is None:
        return None
    try:
        read = tuple(names)
    except Exception as error:  # user objects may raise any exception
        raise VotesError(f"`names` must be a sequence of source names; got {format_value(names)}.") from error
    if len(read) != n_sources:
        raise VotesError(
            f"`names` must have one name per source; got {format_count(len(read), 'name')} for "
            f"{format_count(n_sources, 'source')}."
        )
    if not all(isinstance(name, str) for name in read):
        raise VotesError(f"`names` must be strings; got {format_value(names)}.")
    if len(set(read)) < n_sources:
        twice = sorted({name for name in read if read.count(name) > 1})
        raise VotesError(f"`names` must be unique; got {', '.join(twice)} more than once.")
    return read


def read_columns(sources: Any, n_sources: int, names: tuple[str, ...] | None = None) -> list[int]:
    """Return positions of sources; ``sources`` are positions or names, one of them, or a slice."""
    if isinstance(sources, slice):
        return list(range(n_sources))[sources] or read_columns([], n_sources)
    if isinstance(sources, str) or is_integer(sources):
        sources = [sources]
    try:
        position = {name: j for j, name in enumerate(names or ())}
        listed = list(sources)
        unknown = [source for source in listed if isinstance(source, str) and source not in position]
        if unknown:
            raise VotesError(
                f"`sources` must contain only {', '.join(names or ()) or 'positions'}; got "
                f"{format_value(unknown[0])}."
            )
        read = [position[s] if isinstance(s, str) else operator.index(s) for s in listed]
    except VotesError:
        raise
    except Exception as error:  # user objects may raise any exception
        raise VotesError(f"`sources` must be a list of positions; reading it failed: {error}") from error
    if not read or not all(0 <= source < n_sources for source in read):
        raise VotesError(f"`sources` must be positions from 0 to {n_sources - 1}; got {format_value(read)}.")
    return read


class _NoSuchItemError(VotesError, IndexError):
    """Index out of range. Also an IndexError, which ends a loop over the items."""


def read_rows(rows: Any, n_items: int) -> slice | NDArray[Any]:
    """Return a slice or array that indexes items, for an item, a slice, a mask or a list."""
    if is_integer(rows):
        if not -n_items <= rows < n_items:
            raise _NoSuchItemError(
                f"Item {format_value(rows)} is out of range; there are {format_count(n_items, 'item')}."
            )
        rows = slice(int(rows) % n_items, int(rows) % n_items + 1)
    if not isinstance(rows, slice):
        try:
            rows = np.asarray(rows)
        except Exception as error:  # user objects may raise any exception
            raise VotesError(f"Votes are indexed by items; reading the index failed: {error}") from error
        rows = rows.astype(np.intp) if not rows.size else rows
        if rows.ndim != 1 or rows.dtype.kind not in "iub":
            raise VotesError("Votes are indexed by an item, a slice, a mask or a list of items.")
    return rows


def require_same(what: str, ours: set[Any], theirs: set[Any], advice: str = "") -> None:
    """Raise an error if two sets of sources or classes differ; ``advice`` replaces the usual one."""
    if ours == theirs:
        return
    found = (("unexpected", ours - theirs), ("missing", theirs - ours))
    listed = "; ".join(f"{how} {format_list(sorted(each, key=repr))}" for how, each in found if each)
    if not advice and what == "sources" and ours - theirs:
        advice = 'If they are new, `read_votes(votes, unknown_sources="ignore")` of a model leaves them out.'
    advice = advice or f"Use the same {what} on both sides."
    raise IncompatibleError(f"The {what} differ: {listed}. {advice}")


def n_votes_in(codes: Codes) -> int:
    """Count the cells that hold a vote, in parts, so that no mask of all cells is created."""
    if isinstance(codes, csr_array):
        return int(np.count_nonzero(codes.data > 0))
    step = max(1, _CHUNK_CELLS // codes.shape[1])
    return sum(int(np.count_nonzero(codes[at : at + step] >= 0)) for at in range(0, len(codes), step))


def rows_of_entries(matrix: csr_array) -> NDArray[np.intp]:
    """Return the row of each stored entry of a sparse matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def is_sparse(codes: Codes) -> bool:
    """Return whether codes are stored sparsely."""
    return isinstance(codes, csr_array)


def stack_codes(parts: Sequence[Codes]) -> Codes:
    """Join the codes of several groups of items, all stored in the same way."""
    if isinstance(parts[0], csr_array):
        return csr_array(vstack(parts, format="csr"))
    return np.concatenate(parts)


def sparse_codes(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> csr_array:
    """Build sparse codes from the arrays of a compressed sparse row matrix, columns in ascending order.

    Raises
    ------
    ValueError
        If the arrays do not describe a matrix of that shape.
    """
    matrix = csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    matrix.sort_indices()
    return matrix


def marked_cells(codes: Codes) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Return item, source and code of every cell with a vote or with a reason for a missing vote.

    The code of a vote is its class. The code of a reason is negative.
    """
    if isinstance(codes, csr_array):
        entries = codes.data.astype(np.int64)
        return rows_of_entries(codes), codes.indices, np.where(entries > 0, entries - 1, entries)
    item, source = np.nonzero(codes != ABSTAIN)
    return item, source, codes[item, source]


def dense_chunks(codes: Codes, cells: int) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield rows as dense codes: all at once if they are dense, otherwise about ``cells`` cells at a time."""
    n, m = codes.shape
    rows = max(1, cells // m) if isinstance(codes, csr_array) else max(1, n)
    for start in range(0, n, rows):
        yield slice(start, min(n, start + rows)), dense_codes(codes[start : start + rows])


def dense_codes(codes: Codes) -> NDArray[Any]:
    """Return codes as an array, shape (n, m); for sparse codes without the reasons of missing votes."""
    if not isinstance(codes, csr_array):
        return codes
    return np.asarray(np.maximum(codes.toarray(), 0) - 1)


def keep_sources(codes: Codes, kept: NDArray[np.bool_]) -> Codes:
    """Return codes in which all sources but those in a mask of shape (m,) abstain.

    >>> keep_sources(np.array([[0, 1], [1, -1]]), np.array([False, True])).tolist()
    [[-1, 1], [-1, -1]]
    """
    if not isinstance(codes, csr_array):
        return np.where(kept, codes, codes.dtype.type(ABSTAIN))
    masked = codes.copy()
    masked.data = np.where(kept[codes.indices], codes.data, 0).astype(codes.data.dtype)
    masked.eliminate_zeros()
    return masked


def check_codes(codes: Codes, n_classes: int) -> None:
    """Raise an error for codes that are not integers in the range of ``n_classes`` classes."""
    sparse = isinstance(codes, csr_array)
    if not sparse and not isinstance(codes, np.ndarray):
        raise VotesError(
            f"`codes` must be an array or a sparse array; got {type(codes).__name__}. Use Votes.from_classes "
            "for raw votes."
        )
    values: Any = codes.data if sparse else codes
    if values.dtype.kind != "i":
        raise VotesError(
            f"`codes` must be signed integers; got {values.dtype}. Use Votes.from_classes for raw votes."
        )
    highest = n_classes if sparse else n_classes - 1
    if values.size and not (-len(REASONS) <= values.min() and values.max() <= highest):
        raise VotesError(
            f"`codes` must be between -{len(REASONS)} and {highest} for {n_classes} classes; got "
            f"{values.min()} to {values.max()}. Use Votes.from_classes for raw votes."
        )


# ---------------------------------------------------------------------- one-hot votes


Array = NDArray[np.float64]
# Up to this many classes, a dense product beats a sparse one.
FEW_CLASSES = 8
# A product of dense matrices is faster if there are at most this many cells per vote.
_DENSE_SHARE = 8
# Rows of a sparse matrix are compressed if at most this share of them is distinct.
_MOSTLY_DISTINCT = 0.9
# Products of at most this many cells are faster dense: repeated ones, as in EM, two to three times. With at
# most this many cells per vote, so are larger repeated ones: fits of 10,000 x 10 by a sixth. Single ones are
# two to five times as fast in chunks of this many cells, which stay in the cache.
_FEW_CELLS, _CELLS_PER_VOTE, _MOST_DENSE_CELLS, _CACHED_CELLS = 1 << 15, 4, 1 << 20, 1 << 17
# Log odds beyond this are not distinguished.
_LARGEST_ODDS = 700.0


def spread_by_class(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights of shape (m, K) as a matrix (K m, K) that sums one-hot votes for each class."""
    m, n_classes = weights.shape
    spread = np.eye(n_classes)[:, None] * weights.T[:, :, None]
    return spread.reshape(n_classes * m, n_classes)


def sparse_width(codes: csr_array) -> int:
    """Return the number of cells of a dense row that take as much memory as a row of one-hot votes.

    A vote takes about as much as 16 cells. If chunks of a crowd had as few rows as chunks of dense codes,
    400,000 items of 2,000 sources would take 3.5 times as long to label.
    """
    n, m = codes.shape
    return max(1, min(m, 16 * codes.nnz // max(n, 1)))


def share_of_odds(odds: Array, counts: Array) -> Array:
    """Return ``counts``/(1 + exp(``odds``)), shape (n,), in place; several times as fast as SciPy's expit."""
    np.minimum(odds, _LARGEST_ODDS, out=odds)  # their exponential is finite
    np.exp(odds, out=odds)
    odds += 1
    return np.divide(counts, odds, out=odds)


class Entries(NamedTuple):
    """One entry per vote: ``source[t]`` votes for class ``vote[t]`` on ``item[t]``."""

    item: NDArray[np.intp]
    source: NDArray[np.intp]
    vote: NDArray[np.intp]


def sparse_votes(codes: csr_array) -> Entries:
    """Return the votes in sparse codes, item by item."""
    voted = codes.data > 0
    return Entries(
        rows_of_entries(codes)[voted],
        codes.indices[voted].astype(np.intp),
        codes.data[voted].astype(np.intp) - 1,
    )


class OneHot:
    """Votes as zeros and ones: one row per item, one column per class and source.

    Column ``v * m + i`` is 1 where source i votes for class v. Most cells are 0, so only the others are kept
    unless there are few cells.

    Attributes
    ----------
    n_classes : int

    Examples
    --------
    >>> votes = OneHot.of(np.array([[0, 1], [-1, 1]]), n_classes=2)
    >>> votes.n_votes.tolist(), (votes @ np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    ([2, 1], [5.0, 4.0])
    """

    __slots__ = ("_cells", "_transposed", "n_classes")

    def __init__(self, cells: Any, n_classes: int) -> None:
        self._cells, self._transposed = cells, cells.T  # an array or a sparse array of shape (n, K m)
        self.n_classes = n_classes

    @classmethod
    def of(cls, codes: Codes, n_classes: int, *, repeated: bool = False) -> OneHot:
        """Convert dense (n, m) or sparse codes; ``repeated`` if a dense copy for many products pays off."""
        n, m = codes.shape
        most = _FEW_CELLS
        if repeated:
            most = max(most, min(_CELLS_PER_VOTE * n_votes_in(codes), _MOST_DENSE_CELLS))
        if n * n_classes * m <= most:
            dense = dense_codes(codes) if isinstance(codes, csr_array) else codes
            # Stored row by row, so that the sums of a row do not depend on the layout of the codes.
            hot = np.empty((n, n_classes, m), np.bool_)
            for k in range(n_classes):
                np.equal(dense, k, out=hot[:, k])
            return cls(hot.reshape(n, n_classes * m).astype(np.float64), n_classes)
        # Votes are visited row by row, as they are stored, so that nothing has to be sorted by row.
        if isinstance(codes, csr_array):
            item, source, vote = sparse_votes(codes)
            n_votes = np.bincount(item, minlength=n)
        else:
            voted = codes >= 0
            at = np.flatnonzero(voted)
            source, vote, n_votes = at % m, np.take(codes, at), voted.sum(axis=1)
        index = np.int32 if max(len(vote), n_classes * m) < 1 << 31 else np.int64
        column = vote.astype(index) * m + source.astype(index)
        ends = np.concatenate([[0], np.cumsum(n_votes)]).astype(index)
        matrix = csr_array((np.ones(len(vote)), column, ends), shape=(n, n_classes * m))
        matrix.sort_indices()
        return cls(matrix, n_classes)

    @classmethod
    def chunks(cls, codes: Codes, n_classes: int) -> Iterator[tuple[slice, OneHot]]:
        """Yield slices of items and their votes, few at a time if that is faster."""
        n, m = codes.shape
        is_dense = _FEW_CELLS < n * n_classes * m <= _CELLS_PER_VOTE * n_votes_in(codes)
        width = sparse_width(codes) if isinstance(codes, csr_array) else m
        step = _CACHED_CELLS // (n_classes * m) if is_dense else 2 * _CHUNK_CELLS // max(width, n_classes)
        for start in range(0, n, max(1, step)):
            items = slice(start, start + max(1, step))
            yield items, cls.of(codes[items], n_classes, repeated=is_dense)

    @classmethod
    def of_strengths(cls, strengths: Array, n_classes: int) -> OneHot:
        """Convert votes that count by a strength instead of 0 or 1, shape (n, K m)."""
        return cls(strengths if strengths.size <= _FEW_CELLS else csr_array(strengths), n_classes)

    @property
    def matrix(self) -> csr_array:
        """Sparse array of shape (n, K m), for ``votes/`` and ``moments/``; others use the methods."""
        return self._cells if isinstance(self._cells, csr_array) else csr_array(self._cells)

    @property
    def n_items(self) -> int:
        return int(self._cells.shape[0])

    @property
    def n_sources(self) -> int:
        return int(self._cells.shape[1]) // self.n_classes

    @property
    def n_votes(self) -> NDArray[Any]:
        """Number of votes on each item, shape (n,)."""
        cells = self._cells
        if isinstance(cells, csr_array):
            return np.diff(cells.indptr)
        # A product is three times as fast as a count along an axis.
        return ((cells != 0) @ np.ones(cells.shape[1])).astype(np.intp)

    @property
    def totals(self) -> Array:
        """Sum of the strengths of the votes on each item, shape (n,)."""
        return np.asarray(self._cells @ np.ones(self._cells.shape[1]))

    def entries(self) -> Entries:
        """Return item, source and class of every vote, item by item."""
        matrix = self.matrix
        vote, source = np.divmod(matrix.indices, self.n_sources)
        return Entries(rows_of_entries(matrix), source, vote)

    def __getitem__(self, items: Any) -> OneHot:
        return OneHot(self._cells[items], self.n_classes)

    def evenly_shared(self) -> OneHot:
        """Return the votes with strengths that sum to 1 for each item that has votes."""
        voted, matrix = self.n_votes, self.matrix
        shares = matrix.data / np.repeat(voted, voted)
        return OneHot(csr_array((shares, matrix.indices, matrix.indptr), shape=matrix.shape), self.n_classes)

    def distinct(self, counts: Array) -> tuple[OneHot, Array]:
        """Return each row once with the sum of its ``counts`` (n,); dense or mostly distinct rows unchanged.

        Workers of a crowd often work on the same batches of items, and mostly agree.
        """
        cells = self._cells
        if not isinstance(cells, csr_array) or (found := _distinct_rows(cells.indptr, cells.indices)) is None:
            return self, counts
        first, inverse = found
        return self[first], np.asarray(np.bincount(inverse, counts, len(first)), np.float64)

    # ------------------------------------------------------------------ sums over the votes on an item

    def __matmul__(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (K m,) or (K m, r) over the votes on each item, shape (n,) or (n, r)."""
        return np.asarray(self._cells @ weights)

    def share_of_second(self, weights: Array, offset: float, counts: Array) -> Array:
        """Return ``counts`` (n,) times P(Y = 1), for log odds of class 0.

        The log odds are ``offset`` plus the sums of ``weights`` of shape (2 m,).
        """
        odds = self @ weights
        odds += offset
        return share_of_odds(odds, counts)

    def binary_posterior(self, weights: Array, offset: float | Array) -> Array:
        """Return P(Y = k), shape (n, 2), for log odds of class 1.

        The log odds are ``offset``, a number or of shape (n,), plus the sums of ``weights`` of shape (2 m,).
        """
        odds = self @ weights
        odds += offset
        # Each side by its own quotient: 1 - p would round the small side of a sure label to 0.
        small = np.exp(-np.abs(odds))
        large = 1 / (1 + small)
        small *= large
        is_first = odds < 0
        return np.array([np.where(is_first, large, small), np.where(is_first, small, large)]).T

    def class_sums(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (m, K) over the votes for each class on each item, shape (n, K)."""
        m, n_classes = weights.shape
        if n_classes <= FEW_CLASSES:
            return self @ spread_by_class(weights)
        by_class = csr_array(
            (weights.T.ravel(), np.repeat(np.arange(n_classes), m), np.arange(n_classes * m + 1)),
            shape=(n_classes * m, n_classes),
        )
        return np.asarray((self.matrix @ by_class).todense(), np.float64)

    def source_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (m, r) over the sources that vote on each item, shape (n, r)."""
        matrix, m = self.matrix, self.n_sources
        voters = csr_array((matrix.data, matrix.indices % m, matrix.indptr), shape=(matrix.shape[0], m))
        return np.asarray(voters @ values)

    # ------------------------------------------------------------------ sums over items

    def vote_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (n,) or (n, r) over the items with each vote, shape (K, m) or (K, m, r)."""
        sums = np.asarray(self._transposed @ values)
        return sums.reshape(self.n_classes, -1, *values.shape[1:])

    def dense_votes(self, k: int) -> Array:
        """Return as zeros and ones which sources vote for class k, shape (n, m)."""
        m = self.n_sources
        votes = self._cells[:, k * m : (k + 1) * m]
        return np.asarray(votes.toarray() if isinstance(votes, csr_array) else votes)

    def co_votes(self, weights: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Iterator[Array]:
        """Yield sums of columns of ``weights`` (n, r) over items that both sources of p pairs vote on, (p,).

        ``first`` and ``second`` are the sources of the pairs, each pair once.
        """
        cells, m = self._cells, self.n_sources
        voted: Any = None
        if isinstance(cells, np.ndarray):
            voted = cells[:, :m].copy()
            for k in range(1, self.n_classes):  # NumPy sums short axes slowly
                voted += cells[:, k * m : (k + 1) * m]
        elif cells.shape[0] * m <= _DENSE_SHARE * cells.nnz:
            voted = csr_array((np.ones(cells.nnz), cells.indices % m, cells.indptr), (cells.shape[0], m))
            voted = voted.toarray()
        if voted is not None:
            yield from (((voted * each[:, None]).T @ voted)[first, second] for each in weights.T)
            return
        # Two votes on an item add to the sum of their pair, or to the last sum if it is not listed.
        number = np.full(m * m, len(first), np.int32)
        number[first * m + second] = number[second * m + first] = np.arange(len(first))
        source = (cells.indices % m).astype(np.intp)
        # Sums of many classes would not fit into memory.
        for start in range(0, weights.shape[1], FEW_CLASSES):
            part = weights[:, start : start + FEW_CLASSES]
            sums = np.zeros((len(first) + 1, part.shape[1]))
            for items, n_pairs, one, other in _pairs_of_entries(cells.indptr):
                pair = number.take(source[one] * m + source[other])
                ends = np.concatenate([[0], np.cumsum(n_pairs)])
                sums += csc_array((np.ones(len(pair)), pair, ends), (len(sums), len(n_pairs))) @ part[items]
            yield from sums[:-1].T

    def features(self, sources: NDArray[np.intp]) -> VoteFeatures:
        """Return the votes of some sources as features."""
        columns = (np.arange(self.n_classes)[:, None] * self.n_sources + sources).ravel()
        return VoteFeatures(OneHot(self.matrix[:, columns], self.n_classes))


def _distinct_rows(
    indptr: NDArray[Any], columns: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the first of each group of rows with the same columns, and the group of every row.

    None if most rows are distinct. Rows are compared by the sums of pseudo-random numbers of their columns,
    and then column by column.
    """
    n = len(indptr) - 1
    numbers = columns.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixer of splitmix64
        numbers += np.uint64(0x9E3779B97F4A7C15)
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers)])  # modulo 2**64
    hashes = sums[indptr[1:]] - sums[indptr[:-1]]
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) > _MOSTLY_DISTINCT * n:
        return None
    is_first = np.zeros(n, np.bool_)
    is_first[first] = True
    # Groups are in the order of the matrix, where neighbors have columns in common.
    inverse = (np.cumsum(is_first) - 1)[first[inverse]]
    first = np.flatnonzero(is_first)
    size, like = np.diff(indptr), first[inverse]
    if not np.array_equal(size, size[like]):
        return None
    at = np.arange(len(columns)) + np.repeat(indptr[like] - indptr[:-1], size)
    return (first, inverse) if np.array_equal(columns, columns[at]) else None


def _pairs_of_entries(
    indptr: NDArray[Any],
) -> Iterator[tuple[slice, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]:
    """Yield slices of rows of a sparse matrix, with every two entries of a row.

    For each slice: the number of pairs of entries in each row, and the positions of both entries.
    """
    size = np.diff(indptr).astype(np.intp)
    n_pairs = size * (size - 1) // 2
    total, begin = np.cumsum(n_pairs), 0
    while begin < len(size):
        reached = (total[begin - 1] if begin else 0) + _CHUNK_CELLS
        end = max(begin + 1, int(np.searchsorted(total, reached, side="right")))
        rows = slice(begin, end)
        entry = np.arange(indptr[begin], indptr[end])
        later = np.repeat(indptr[begin + 1 : end + 1], size[rows]) - entry - 1
        one = np.repeat(entry, later)
        other = np.arange(len(one)) + np.repeat(entry + 1 - np.cumsum(later) + later, later)
        yield rows, n_pairs[rows], one, other
        begin = end


class VoteFeatures:
    """A constant 1 and the votes of s sources as 0 and 1: one row per item, 1 + K s columns."""

    __slots__ = ("_matrix", "votes")

    def __init__(self, votes: OneHot) -> None:
        self.votes = votes
        self._matrix = csr_array(hstack([np.ones((votes.n_items, 1)), votes.matrix], format="csr"))

    def sums(self, weights: Array) -> Any:
        """Sum the features over items with ``weights`` of shape (n,), shape (1 + K s,)."""
        return np.asarray(self._matrix.T @ weights)

    def products(self, other: VoteFeatures, weights: Array) -> Array:
        """Sum products with the features of ``other`` over items, shape (1 + K s, 1 + K t)."""
        weighted = self._matrix.multiply(weights[:, None]).tocsr()
        return np.asarray((weighted.T @ other._matrix).todense())
