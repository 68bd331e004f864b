"""Rows as numbers: a row of m codes is a number of m digits in base K + 1.

Equal rows have equal numbers, so counting patterns, finding distinct rows and labelling by
lookup are all operations on one integer a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels import kernels_for
from flyingsquid.kernels.patterns import histogram
from flyingsquid.votes.states import ABSTAIN, smallest_dtype

# Float arithmetic does the packing because only floats go through BLAS; both types are
# exact below their own power of two.
_EXACT_FLOAT32 = 1 << 24
_EXACT_FLOAT64 = 1 << 53
_EXACT_INT32 = 1 << 31
_CHUNK_CELLS = 1 << 20
# Columns are taken in pieces that stay in the cache. Up to so many are faster by themselves than by BLAS.
_COLUMN_ROWS, _FEW_COLUMNS = 1 << 16, 12


def n_patterns(n_sources: int, n_classes: int) -> int:
    """How many different rows there can be.

    >>> n_patterns(3, 2)
    27
    """
    return int((n_classes + 1) ** n_sources)


def packed_chunks(codes: NDArray[Any], n_classes: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Yield ``(rows, numbers)`` for ``codes`` of shape (n, m), a chunk at a time.

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
        # Some kernels of BLAS compute on a few cells beyond the matrix too, and complain of what is there.
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = (part @ powers + offset).astype(np.intp)
        yield slice(start, start + len(chunk)), numbers


def _packed_columns(codes: NDArray[Any], radix: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """The same digit by digit: faster for few columns, and where these lie one after the other.

    As many digits as fit are put together in the small type of the codes, many rows an instruction.
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


def _digits_that_fit(radix: int, dtype: np.dtype[Any]) -> int:
    """How many digits from -1 to radix - 2 make a number that the type can hold; at least one."""
    most, digits, largest = min(int(np.iinfo(dtype).max), _EXACT_INT32 - 1), 1, max(1, radix - 2)
    while largest * radix + max(1, radix - 2) <= most:
        largest, digits = largest * radix + max(1, radix - 2), digits + 1
    return digits


def pattern_counts(codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """How often each pattern occurs in dense ``codes`` (n, m), shape (n_patterns,); for few patterns."""
    size = n_patterns(codes.shape[1], n_classes)
    kernels = kernels_for(codes, n_classes, "patterns")
    if kernels is not None and size < _EXACT_FLOAT32:
        return histogram(kernels, codes, n_classes, size)
    counts = np.zeros(size, np.int64)
    for _, numbers in packed_chunks(codes, n_classes):
        counts += np.bincount(numbers, minlength=size)
    return counts


def all_patterns(n_sources: int, n_classes: int) -> NDArray[Any]:
    """Every possible row of codes, shape (n_patterns, m); row r packs to the number r.

    >>> all_patterns(1, 2)[:, 0].tolist()
    [-1, 0, 1]
    """
    radix, size = n_classes + 1, n_patterns(n_sources, n_classes)
    patterns = np.empty((size, n_sources), smallest_dtype(n_classes))
    digit = np.arange(-1, n_classes)[:, None]
    for j in range(n_sources):
        patterns[:, j].reshape(-1, radix, radix**j)[...] = digit
    return patterns


def packed_words(codes: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
    """Pack rows that need several numbers: shape (n, words), equal exactly for equal rows."""
    n, m = codes.shape
    digits = int(np.log(_EXACT_FLOAT64) / np.log(n_classes + 1))
    words = np.empty((n, -(-m // digits)), np.intp)
    for w in range(words.shape[1]):
        columns = codes[:, w * digits : (w + 1) * digits]
        for rows, numbers in packed_chunks(columns, n_classes):
            words[rows, w] = numbers
    return words
