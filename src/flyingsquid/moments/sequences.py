"""Counts of sequences: the votes on all items, and on neighboring items."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from flyingsquid._values import format_count, format_list
from flyingsquid.exceptions import IncompatibleError, ModelFileError, VotesError
from flyingsquid.files.state import OBJECT, State, check_fields, finite, write_state
from flyingsquid.moments import files
from flyingsquid.moments.counting import check_sequence_size, slices_by_cost
from flyingsquid.moments.moments import Moments
from flyingsquid.votes import Votes, as_votes, one_row
from flyingsquid.votes.arguments import read_lengths, starts_of
from flyingsquid.votes.codes import Codes, OneHot
from flyingsquid.votes.patterns import all_patterns, n_patterns, packed_chunks

# A table of patterns against patterns is used while it is small and pays for itself: with 6 sources, from
# about 30,000 rows on.
_JOINT_CELLS = 1 << 20
_ROWS_PER_CELL = 0.06
_JOINT_ROWS = 1 << 17
_BUFFER_BYTES = 1 << 26
# Below 2**24, up to which float32 counts exactly, and large enough for BLAS.
_CHUNK_ROWS = 1 << 17


def count_lagged(codes: Codes, n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    """Count how often each pair of votes occurs on an item and the next item.

    Parameters
    ----------
    codes : dense (T, m) or sparse codes
    breaks : sorted rows of shape (sequences - 1,)
        First rows of sequences, except row 0: the row before belongs to another sequence.

    Returns
    -------
    array of shape (K, K, m, m)
        ``[a, b, i, j]`` times source i voted a and source j voted b in the next row; integers in float64.
    """
    m = codes.shape[1]
    if isinstance(codes, csr_array):
        counts = _by_sparse_product(codes, n_classes, breaks)
    else:
        cells = n_patterns(m, n_classes) ** 2
        few = cells <= _JOINT_CELLS and len(codes) >= cells * _ROWS_PER_CELL
        counts = (_by_joint_histogram if few else _by_product)(codes, n_classes, breaks)
    return counts.reshape(n_classes, m, n_classes, m).transpose(0, 2, 1, 3)


def count_votes(codes: Codes, n_classes: int, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Count how often each source votes for each class in some rows, shape (m, K)."""
    chosen: Any = codes[rows]
    if isinstance(chosen, csr_array):
        voted = chosen.data > 0
        cell = chosen.indices[voted] * n_classes + chosen.data[voted].astype(np.intp) - 1
        return np.bincount(cell, minlength=codes.shape[1] * n_classes).reshape(-1, n_classes)
    return np.stack([np.count_nonzero(chosen == k, axis=0) for k in range(n_classes)], axis=1)


def _one_hot(codes: NDArray[Any], n_classes: int, dtype: Any) -> NDArray[Any]:
    """Return one-hot votes of dense codes, shape (rows, K m), class-major columns."""
    hot = np.empty((len(codes), n_classes, codes.shape[1]), dtype)
    for k in range(n_classes):
        hot[:, k] = codes == k
    return hot.reshape(len(codes), -1)


def _inside(breaks: NDArray[np.intp], start: int, rows: int) -> NDArray[np.intp]:
    """Return the breaks right after one of ``rows`` rows from ``start`` on, relative to ``start``."""
    first, last = np.searchsorted(breaks, [start, start + rows], side="right")
    return breaks[first:last] - start


def _by_joint_histogram(codes: NDArray[Any], n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    m = codes.shape[1]
    size = n_patterns(m, n_classes)
    joint = np.zeros(size * size, np.int64)
    for start in range(0, len(codes) - 1, _JOINT_ROWS):
        # One row more, because the last one of a chunk has its neighbor in the next chunk.
        chunk = codes[start : start + _JOINT_ROWS + 1]
        numbers = np.empty(len(chunk), np.intp)
        for rows, part in packed_chunks(chunk, n_classes):
            numbers[rows] = part
        follows = numbers[:-1] * size + numbers[1:]
        joint += np.bincount(follows, minlength=size * size)
        # Counting all neighbors and subtracting those across a border is cheaper than a mask.
        joint -= np.bincount(follows[_inside(breaks, start, _JOINT_ROWS) - 1], minlength=size * size)
    hot = _one_hot(all_patterns(m, n_classes), n_classes, np.float64)
    return np.asarray(hot.T @ (joint.reshape(size, size) @ hot))


def _by_product(
    codes: NDArray[Any], n_classes: int, breaks: NDArray[np.intp], buffer_bytes: int = _BUFFER_BYTES
) -> NDArray[np.float64]:
    n, m = codes.shape
    width = n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, buffer_bytes // (width * 4)))
    counts = np.zeros((width, width))
    for start in range(0, n - 1, rows):
        hot = _one_hot(codes[start : start + rows + 1], n_classes, np.float32)
        counts += hot[:-1].T @ hot[1:]
        inside = _inside(breaks, start, rows)
        counts -= hot[inside - 1].T @ hot[inside]
    return counts


def _by_sparse_product(codes: csr_array, n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    one_hot = OneHot.of(codes, n_classes).matrix
    n, width = one_hot.shape
    second = np.setdiff1d(np.arange(1, n), breaks, assume_unique=True)
    each = np.diff(one_hot.indptr).astype(np.int64)
    counts = np.zeros((width, width))
    for part in slices_by_cost(each[second - 1] * each[second]):
        product = (one_hot[second[part] - 1].T @ one_hot[second[part]]).tocoo()
        counts[product.row, product.col] += product.data
    return counts


# ---------------------------------------------------------------------- counts of sequences


KIND = "SequenceMoments"
TABLES = ("lagged", "first", "second")
# Float counts may fall below zero by this share of all pairs when parts are subtracted.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SequenceMoments:
    """Counts of neighboring items in sequences. Immutable and mergeable, as :class:`Moments`.

    Build with :meth:`of`. A pair of neighbors is counted by the part that holds its second row, so the parts
    of a sequence that was cut add up exactly.

    Attributes
    ----------
    rows : Moments
        Counts of all rows, regardless of their order.
    n_pairs : int or float
        Number of neighboring rows within a sequence.
    lagged : array of shape (K, K, m, m), read-only
        ``lagged[a, b, i, j]`` times source i voted a and source j voted b in the next row.
    first, second : arrays of shape (m, K), read-only
        Number of votes of each source for each class in the first and in the second row of a pair. They
        differ from the counts of all rows because the ends of a sequence are in one pair only.

    Examples
    --------
    >>> video = Votes.from_classes([[0, 0], [0, 1], [1, 1], [1, -1], [1, 1]])
    >>> whole = SequenceMoments.of(video, lengths=[3, 2])
    >>> whole
    SequenceMoments(5 rows, 3 pairs x 2 sources, classes 0, 1, integer counts)
    >>> morning, evening = video[:2], video[2:]
    >>> later = SequenceMoments.of(evening, lengths=[1, 2], previous=morning[[-1]])
    >>> whole == SequenceMoments.of(morning) + later
    True
    """

    rows: Moments
    n_pairs: int | float
    lagged: NDArray[Any]
    first: NDArray[Any]
    second: NDArray[Any]

    def __post_init__(self) -> None:
        for table in self._tables:
            table.flags.writeable = False

    @property
    def _tables(self) -> tuple[NDArray[Any], ...]:
        return self.lagged, self.first, self.second

    @classmethod
    def of(cls, votes: Any, lengths: Any = None, *, previous: Any = None) -> SequenceMoments:
        """Count the rows of sequences and pairs of neighbors.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (T, m)
            The rows of all sequences, one sequence after the other.
        lengths : list of integers that add up to T, optional
            Rows of each sequence; None is one sequence, or as the index of a pandas table tells.
        previous : the votes on one row, optional
            The last row of the previous part, if ``votes`` begins in the middle of a sequence.
        """
        read = as_votes(votes)
        sequences = read_lengths(lengths, read.n_items, votes)
        return cls.of_rows(Moments.of(read), read, sequences, previous=previous)

    @classmethod
    def of_rows(
        cls, rows: Moments, votes: Votes, lengths: NDArray[np.intp], *, previous: Any = None
    ) -> SequenceMoments:
        """Count pairs of neighbors if the counts of all rows are known."""
        starts = starts_of(lengths)
        n, k, codes = votes.n_items, votes.n_classes, votes.codes
        check_sequence_size(votes.n_sources, k)
        ends = np.append(starts[1:], n) - 1
        totals = np.asarray(rows.vote_counts)
        first, second = totals - count_votes(codes, k, ends), totals - count_votes(codes, k, starts)
        breaks = starts[1:]
        if previous is not None:
            before = _read_previous(previous, votes)
            codes = _stacked(before, codes)
            breaks = breaks + 1
            first = first + count_votes(codes, k, np.array([0]))
            second = second + count_votes(codes, k, np.array([1]))
        lagged = np.rint(count_lagged(codes, k, breaks)).astype(np.int64)
        return cls(rows, n - len(starts) + (previous is not None), lagged, first, second)

    @property
    def is_exact(self) -> bool:
        """True if the counts are integers."""
        return self.rows.is_exact and self.lagged.dtype.kind == "i"

    def lagged_rates(self, a: int, b: int) -> NDArray[np.float64]:
        """Return P(source i votes a, and source j votes b in the next row), shape (m, m)."""
        return np.asarray(self.lagged[a, b] / self.n_pairs, np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file atomically; ``flyingsquid.load`` reads it."""
        write_state(path, self.to_state())

    def to_state(self) -> State:
        """Return the complete state as arrays and JSON values."""
        rows = files.to_state(self.rows)
        arrays = dict(zip(TABLES, self._tables, strict=True))
        return State(KIND, {"rows": rows.meta, "n_pairs": self.n_pairs}, {**rows.arrays, **arrays})

    @classmethod
    def from_state(cls, state: State) -> SequenceMoments:
        """Return the counts in a state; raise an error for impossible ones."""
        check_fields(state.meta, {"rows": OBJECT, "n_pairs": finite(0)})
        try:
            rows = Moments.from_state(State(files.KIND, state.meta["rows"], state.arrays))
            n_pairs = state.meta["n_pairs"]
            tables = [state.arrays[name] for name in TABLES]
        except KeyError as error:
            raise ModelFileError(
                f"The counts of sequences in the file are incomplete: {error} is missing."
            ) from error
        k, m = rows.n_classes, rows.n_sources
        fits = (
            [table.shape for table in tables] == [(k, k, m, m), (m, k), (m, k)]
            and {str(table.dtype) for table in tables} <= {"int64", "float64"}
            and all(bool((table >= 0).all() and np.isfinite(table).all()) for table in tables)
            and 0 <= n_pairs <= rows.n_items
        )
        if not fits:
            raise ModelFileError("The counts of neighbors in the file do not agree with its rows.")
        moments = cls(rows, n_pairs, *tables)
        if not moments._lowest_count() >= moments._tolerance():
            raise ModelFileError("The counts in the file are inconsistent: no sequences have these counts.")
        return moments

    # ------------------------------------------------------------------ algebra

    def __add__(self, other: object) -> SequenceMoments:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        other = other.aligned_to(self)
        tables = (a + b for a, b in zip(self._tables, other._tables, strict=True))
        return SequenceMoments(self.rows + other.rows, self.n_pairs + other.n_pairs, *tables)

    def __radd__(self, other: object) -> SequenceMoments:
        # sum(parts) starts from 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, other: object) -> SequenceMoments:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        other = other.aligned_to(self)
        tables = (a - b for a, b in zip(self._tables, other._tables, strict=True))
        rest = SequenceMoments(self.rows - other.rows, self.n_pairs - other.n_pairs, *tables)
        lowest = rest._lowest_count()
        if lowest < self._tolerance():
            raise IncompatibleError(
                f"Cannot subtract: a count of neighbors would be {lowest:g}. The right operand must be part "
                "of the left one."
            )
        clipped = (np.maximum(table, 0) for table in rest._tables)
        return SequenceMoments(rest.rows, max(rest.n_pairs, 0), *clipped)

    def _lowest_count(self) -> float:
        """Return the smallest count of any pair of neighboring votes or missing votes."""
        second_missing = self.first.T[:, :, None] - self.lagged.sum(axis=1)  # i votes a, j missing
        first_missing = self.second.T[:, None, :] - self.lagged.sum(axis=0)  # i missing, j votes b
        both_missing = self.n_pairs - self.first.sum(axis=1)[:, None] - first_missing.sum(axis=0)
        parts = (self.lagged, second_missing, first_missing, both_missing)
        return float(min(self.n_pairs, *(part.min() for part in parts)))

    def _tolerance(self) -> float:
        """Return the largest negative rounding error of a count."""
        return 0.0 if self.is_exact else -_ROUNDING * self.n_pairs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        return (
            self.rows == other.rows
            and self.n_pairs == other.n_pairs
            and all(map(np.array_equal, self._tables, other._tables))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy is read-only too.
        return SequenceMoments, (self.rows, self.n_pairs, *self._tables)

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        kind = "integer" if self.is_exact else "float"
        return (
            f"SequenceMoments({format_count(self.rows.n_items, 'row')}, "
            f"{format_count(self.n_pairs, 'pair')} x {format_count(self.rows.n_sources, 'source')}, "
            f"classes {format_list(self.rows.classes)}, "
            f"{kind} counts)"
        )

    def aligned_to(self, other: SequenceMoments) -> SequenceMoments:
        """Return these counts with sources and classes in the order of ``other``, which must be the same."""
        rows = self.rows.aligned_to(other.rows)
        lagged, first, second = self._tables
        if rows.classes != self.rows.classes:
            k = np.array([self.rows.classes.index(c) for c in rows.classes])
            lagged, first, second = lagged[np.ix_(k, k)], first[:, k], second[:, k]
        if rows.names is not None and self.rows.names is not None and rows.names != self.rows.names:
            j = np.array([self.rows.names.index(name) for name in rows.names])
            lagged, first, second = lagged[:, :, j[:, None], j], first[j], second[j]
        if lagged is self.lagged:
            return replace(self, rows=rows)
        return SequenceMoments(rows, self.n_pairs, *map(np.ascontiguousarray, (lagged, first, second)))


def _read_previous(previous: Any, votes: Votes) -> Votes:
    row = as_votes(one_row(previous, votes.names), votes.classes, check=False)
    if row.shape != (1, votes.n_sources):
        raise VotesError(
            f"`previous` must be one row with {format_count(votes.n_sources, 'source')}, the last row of "
            f"the part before; got {format_count(row.n_items, 'row')} with "
            f"{format_count(row.n_sources, 'source')}."
        )
    return row.matched_to(votes.classes, votes.names)


def _stacked(before: Votes, codes: Any) -> Any:
    """Return the codes below those of the previous row, in the same storage."""
    dense: Any = before.to_dense().codes
    if not isinstance(codes, csr_array):
        return np.concatenate([dense, codes])
    # Sparse codes hold class + 1 for a vote, and nothing for an abstain.
    top = csr_array(np.where(dense >= -1, dense + 1, dense).astype(codes.dtype))
    return csr_array(vstack([top, codes]))
