"""Patterns: rows of votes as numbers, to count them, to find distinct rows, and to label each row once.

A row of m codes is a number of m digits in base K + 1, so equal rows have equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.kernels import histogram, kernels_for, look_up
from flyingsquid.votes.codes import ABSTAIN, Codes, smallest_dtype

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes


# Rows are packed with floats, because only floats go through BLAS; both types are exact below a power of two.
_EXACT_FLOAT32 = 1 << 24
_EXACT_FLOAT64 = 1 << 53
_EXACT_INT32 = 1 << 31
_CHUNK_CELLS = 1 << 20
# Columns are processed in pieces that stay in the cache. Up to this many are faster without BLAS.
_COLUMN_ROWS, _FEW_COLUMNS = 1 << 16, 12


def n_patterns(n_sources: int, n_classes: int) -> int:
    """Return the number of possible rows.

    >>> n_patterns(3, 2)
    27
    """
    return int((n_classes + 1) ** n_sources)


def packed_chunks(codes: NDArray[Any], n_classes: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Yield ``(rows, numbers)`` for chunks of ``codes`` of shape (n, m).

    Every reason for a missing vote packs as "missing". Needs ``n_patterns < 2**53``.
    """
    n, m = codes.shape
    radix = n_classes + 1
    if (m <= _FEW_COLUMNS or codes.flags.f_contiguous) and n_patterns(m, n_classes) < _EXACT_INT32:
        yield from _packed_columns(codes, radix)
        return
    dtype = np.float32 if n_patterns(m, n_classes) < _EXACT_FLOAT32 else np.float64
    powers = (float(radix) ** np.arange(m)).astype(dtype)
    offset = powers.sum(dtype=np.float64)
    rows = max(1, min(n, _CHUNK_CELLS // m))
    digits = np.empty((rows, m), dtype)
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        part = digits[: len(chunk)]
        part[...] = chunk
        np.maximum(part, ABSTAIN, out=part)
        # Some BLAS kernels also compute on a few cells beyond the matrix, and may raise flags for them.
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = (part @ powers + offset).astype(np.intp)
        yield slice(start, start + len(chunk)), numbers


def _packed_columns(codes: NDArray[Any], radix: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Yield the same digit by digit: faster for few columns, and for arrays stored column by column.

    As many digits as fit are combined in the small type of the codes, with many rows per instruction.
    """
    n, m = codes.shape
    rows, together = max(1, min(n, _COLUMN_ROWS)), _digits_that_fit(radix, codes.dtype)
    digits, total = np.empty(rows, codes.dtype), np.empty(rows, np.int32)
    has_reasons = bool(n) and int(codes.min()) < ABSTAIN
    offset = sum(radix**j for j in range(m))  # a missing vote is digit 0, and -1 in the codes
    for start in range(0, n, rows):
        part = slice(start, min(n, start + rows))
        chunk = np.maximum(codes[part], ABSTAIN) if has_reasons else codes[part]
        some, numbers = digits[: len(chunk)], total[: len(chunk)]
        numbers[...] = 0
        for low in reversed(range(0, m, together)):
            high = min(m, low + together)
            some[...] = chunk[:, high - 1]
            for j in reversed(range(low, high - 1)):
                some *= radix
                some += chunk[:, j]
            numbers *= radix ** (high - low)
            numbers += some
        yield part, (numbers + offset).astype(np.intp)


@lru_cache
def _digits_that_fit(radix: int, dtype: np.dtype[Any]) -> int:
    """Return the number of digits from -1 to radix - 2 that fit into the type; at least one."""
    most, digits, largest = min(int(np.iinfo(dtype).max), _EXACT_INT32 - 1), 1, max(1, radix - 2)
    while largest * radix + max(1, radix - 2) <= most:
        largest, digits = largest * radix + max(1, radix - 2), digits + 1
    return digits


def pattern_counts(codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Count how often each pattern occurs in dense ``codes`` (n, m), shape (n_patterns,).

    The counts are integers, or floats with ``weights`` of shape (n,).
    """
    size = n_patterns(codes.shape[1], n_classes)
    kernels = kernels_for(codes, n_classes, "patterns") if weights is None else None
    if kernels is not None and size < _EXACT_FLOAT32:
        return histogram(kernels, codes, n_classes, size)
    counts = np.zeros(size, np.int64 if weights is None else np.float64)
    for rows, numbers in packed_chunks(codes, n_classes):
        counts += np.bincount(numbers, None if weights is None else weights[rows], minlength=size)
    return counts


@lru_cache(8)
def all_patterns(n_sources: int, n_classes: int) -> NDArray[Any]:
    """Return every possible row of codes, shape (n_patterns, m); row r has the number r.

    >>> all_patterns(1, 2)[:, 0].tolist()
    [-1, 0, 1]
    """
    radix, size = n_classes + 1, n_patterns(n_sources, n_classes)
    patterns = np.empty((size, n_sources), smallest_dtype(n_classes))
    digit = np.arange(-1, n_classes)[:, None]
    for j in range(n_sources):
        patterns[:, j].reshape(-1, radix, radix**j)[...] = digit
    patterns.flags.writeable = False  # shared by all callers
    return patterns


def packed_words(codes: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
    """Pack rows that need several numbers, shape (n, words); equal rows have equal numbers."""
    n, m = codes.shape
    digits = int(np.log(_EXACT_FLOAT64) / np.log(n_classes + 1))
    words = np.empty((n, -(-m // digits)), np.intp)
    for w in range(words.shape[1]):
        columns = codes[:, w * digits : (w + 1) * digits]
        for rows, numbers in packed_chunks(columns, n_classes):
            words[rows, w] = numbers
    return words


# ---------------------------------------------------------------------- distinct rows


_TABLE_PATTERNS = 1 << 17
# A function of a row is tabulated for all patterns while the table is small and has no more rows than there
# are items: 100,000 x 10 are labeled in 0.4x of the time.
_FUNCTION_PATTERNS, _ITEMS_PER_PATTERN = 1 << 16, 1
_DOUBLE = np.dtype(np.float64)
# Size of the sample of rows, and the largest share of distinct rows in it, for rows to be repetitive.
_SAMPLE, _FEW = 2_048, 0.25


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """Distinct rows of a vote matrix.

    Attributes
    ----------
    votes : Votes
        u distinct rows. Missing votes are equal regardless of their reason.
    counts : int64 array of shape (u,)
        How many items have each row.
    inverse : integer array of shape (n,)
        ``votes[inverse]`` is the original matrix.
    """

    votes: Votes
    counts: NDArray[np.int64]
    inverse: NDArray[np.intp]


def distinct_codes(
    codes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp]]:
    """Return distinct rows of dense ``codes`` (n, m), their counts, and the index of each row."""
    m = codes.shape[1]
    if n_patterns(m, n_classes) <= _TABLE_PATTERNS:
        return _by_table(codes, n_classes)
    words = packed_words(codes, n_classes)
    order = np.lexsort(words.T)
    ordered = words[order]
    is_first = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    inverse = np.empty(len(codes), np.intp)
    inverse[order] = np.cumsum(is_first) - 1
    counts = np.diff(np.r_[np.flatnonzero(is_first), len(codes)])
    return np.maximum(codes[order[is_first]], -1), counts, inverse


def is_repetitive(codes: Codes, n_classes: int) -> bool:
    """Return whether dense codes probably have far fewer distinct rows than items, by a sample."""
    n, m = codes.shape
    if isinstance(codes, csr_array) or n < 2 * _SAMPLE:
        return False
    if 2 * n_patterns(m, n_classes) <= n:
        return True
    sample = codes[:: n // _SAMPLE]
    return _n_distinct(sample, n_classes) <= _FEW * len(sample)


def _n_distinct(codes: NDArray[Any], n_classes: int) -> int:
    """Count distinct rows without a table of all patterns."""
    words = packed_words(codes, n_classes)
    ordered = words[np.lexsort(words.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


def compressed(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return distinct rows and how often each counts; None if they are not far fewer than items.

    Missing votes are equal regardless of their reason. ``weights`` of shape (n,) are weights of items.

    >>> rows, counts = compressed(np.tile(np.array([[0, 1], [1, -1]], np.int8), (5_000, 1)), 2, None)
    >>> rows.tolist(), counts.tolist()
    ([[1, -1], [0, 1]], [5000, 5000])
    """
    if not is_repetitive(codes, n_classes):
        return None
    return counted_codes(codes, n_classes, weights)


def counted_codes(
    codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return distinct rows of dense ``codes`` (n, m) in a fixed order, and how often each counts.

    Rows whose ``weights`` of shape (n,) add up to 0 may be left out.
    """
    m = codes.shape[1]
    if n_patterns(m, n_classes) <= _TABLE_PATTERNS:
        histogram = pattern_counts(codes, n_classes, weights)
        present = np.flatnonzero(histogram)
        return all_patterns(m, n_classes)[present], histogram[present]
    rows, times, inverse = distinct_codes(codes, n_classes)
    if weights is not None:
        return rows, np.bincount(inverse, weights, minlength=len(rows))
    return rows, times


def _by_table(
    codes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp]]:
    m = codes.shape[1]
    size = n_patterns(m, n_classes)
    histogram = np.zeros(size, np.int64)
    numbers = np.empty(len(codes), np.intp)
    for rows, chunk in packed_chunks(codes, n_classes):
        numbers[rows] = chunk
        histogram += np.bincount(chunk, minlength=size)
    present = np.flatnonzero(histogram)
    rank = np.empty(size, np.intp)
    rank[present] = np.arange(len(present))
    return all_patterns(m, n_classes)[present], histogram[present], rank[numbers]


def by_pattern(
    codes: Codes,
    compute: Callable[[Any], NDArray[np.float64]],
    n_classes: int = 2,
    dtype: np.dtype[Any] = _DOUBLE,
    tables: dict[np.dtype[Any], NDArray[Any]] | None = None,
) -> NDArray[Any]:
    """Apply a function of a row of votes to all rows, once per distinct row if that is faster.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes
    compute : callable
        Takes codes of any rows and returns one result per row, shape (rows, ...).
    dtype : data type of results that are looked up in a table; computed results are float64
    tables : dict from data types to arrays, optional
        Results of all patterns from earlier calls with the same function, which are used and added to.

    Returns
    -------
    array of shape (n, ...)
    """
    if isinstance(codes, csr_array):
        return compute(codes)
    n, m = codes.shape
    size = n_patterns(m, n_classes)
    table = None if tables is None else tables.get(dtype)
    if table is None and (size > _FUNCTION_PATTERNS or n < size * _ITEMS_PER_PATTERN):
        if not is_repetitive(codes, n_classes):
            return compute(codes)
        distinct, _, inverse = distinct_codes(codes, n_classes)
        return np.asarray(compute(distinct).astype(dtype, copy=False)[inverse])
    if table is None:
        table = compute(all_patterns(m, n_classes)).astype(dtype, copy=False)
        if tables is not None:
            tables[dtype] = table
    result = np.empty((n, *table.shape[1:]), dtype)
    kernels = kernels_for(codes, n_classes, "patterns")
    if kernels is not None:
        look_up(kernels, codes, n_classes, table, result)
        return result
    for rows, numbers in packed_chunks(codes, n_classes):
        np.take(table, numbers, axis=0, out=result[rows], mode="clip")
    return result
