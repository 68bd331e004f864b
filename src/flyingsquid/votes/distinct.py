"""Distinct rows with counts: 65 million rows of 3 binary sources have at most 27."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.kernels import kernels_for
from flyingsquid.kernels.patterns import look_up
from flyingsquid.votes.packing import all_patterns, n_patterns, packed_chunks, packed_words, pattern_counts
from flyingsquid.votes.states import Codes

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes

_TABLE_PATTERNS = 1 << 17
# A function of a row is tabulated for all patterns while the table is small and pays for itself.
_FUNCTION_PATTERNS, _ITEMS_PER_PATTERN = 1 << 16, 4
_DOUBLE = np.dtype(np.float64)
# Rows looked at to see whether there are many alike, and how few of them may differ.
_SAMPLE, _FEW = 2_048, 0.25


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """The different rows of a vote matrix.

    Attributes
    ----------
    votes : Votes
        u distinct rows. Missing votes are equal whatever their reason.
    counts : int64 array of shape (u,)
        How many items have each row.
    inverse : integer array of shape (n,)
        ``votes[inverse]`` is the matrix again.
    """

    votes: Votes
    counts: NDArray[np.int64]
    inverse: NDArray[np.intp]


def distinct_codes(
    codes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp]]:
    """Distinct rows of dense ``codes`` (n, m), their counts, and for each row its index."""
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
    """Whether dense codes probably have far fewer distinct rows than items, judged by a sample of rows."""
    n, m = codes.shape
    if isinstance(codes, csr_array) or n < 2 * _SAMPLE:
        return False
    if 2 * n_patterns(m, n_classes) <= n:
        return True
    sample = codes[:: n // _SAMPLE]
    return _n_distinct(sample, n_classes) <= _FEW * len(sample)


def _n_distinct(codes: NDArray[Any], n_classes: int) -> int:
    """How many rows differ; of few rows no table of all patterns is made."""
    words = packed_words(codes, n_classes)
    ordered = words[np.lexsort(words.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


def compressed(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Distinct rows and how often each counts, where rows are far fewer than items; otherwise None.

    Missing votes are equal whatever their reason. ``weights`` of shape (n,) say how often each item counts.

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
    """Distinct rows of dense ``codes`` (n, m) in a fixed order, and how often each counts."""
    m = codes.shape[1]
    if weights is None and n_patterns(m, n_classes) <= _TABLE_PATTERNS:
        histogram = pattern_counts(codes, n_classes)
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
) -> NDArray[Any]:
    """Apply a function of a row of votes to all rows, once per distinct row if that is faster.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes
    compute : callable
        Takes codes of any rows and returns one result per row, shape (rows, ...).
    dtype : data type of results that are looked up in a table; computed results are float64

    Returns
    -------
    array of shape (n, ...)
    """
    if isinstance(codes, csr_array):
        return compute(codes)
    n, m = codes.shape
    size = n_patterns(m, n_classes)
    if size > _FUNCTION_PATTERNS or n < size * _ITEMS_PER_PATTERN:
        if not is_repetitive(codes, n_classes):
            return compute(codes)
        distinct, _, inverse = distinct_codes(codes, n_classes)
        return np.asarray(compute(distinct).astype(dtype, copy=False)[inverse])
    table = compute(all_patterns(m, n_classes)).astype(dtype, copy=False)
    result = np.empty((n, *table.shape[1:]), dtype)
    kernels = kernels_for(codes, n_classes, "patterns")
    if kernels is not None:
        look_up(kernels, codes, n_classes, table, result)
        return result
    for rows, numbers in packed_chunks(codes, n_classes):
        np.take(table, numbers, axis=0, out=result[rows], mode="clip")
    return result
