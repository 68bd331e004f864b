"""Compiled loops. Importing this module imports numba; only ``dispatch.py`` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

# Planes of bits that are compared with each other while they are in the cache.
_TILE = 32
# Rows whose numbers are made at a time.
_STEP = 1_024


def _compile(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles, and keeps compiled code on disk if possible."""

    def decorate(function: Any) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no directory can be written to
            return njit(nogil=True, **options)(function)

    return decorate


@intrinsic  # type: ignore[untyped-decorator]
def _ones(_context: Any, _word: Any) -> Any:
    """Count the bits of a 64-bit word that are 1."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_compile()
def _number_rows(codes, powers, numbers):  # type: ignore[no-untyped-def]
    """Return the pattern of each row of ``codes`` (n, m) as a number: a sum of products, which vectorizes."""
    n, m = codes.shape
    for r in range(n):
        total = np.int32(0)
        for j in range(m):
            total += powers[j] * np.int32(max(codes[r, j], np.int8(-1)) + 1)
        numbers[r] = total


@_compile()
def _number_columns(columns, start, stop, powers, numbers):  # type: ignore[no-untyped-def]
    """Return the same for the items from ``start`` to ``stop`` of ``columns`` (m, n), source by source."""
    numbers[: stop - start] = 0
    for j in range(len(columns)):
        power, column = powers[j], columns[j, start:stop]
        for r in range(len(column)):
            numbers[r] += power * np.int32(max(column[r], np.int8(-1)) + 1)


@_compile()
def _number(cells, by_column, start, stop, powers, numbers):  # type: ignore[no-untyped-def]
    if by_column:
        _number_columns(cells, start, stop, powers, numbers)
    else:
        _number_rows(cells[start:stop], powers, numbers)


@_compile()
def histogram(cells, by_column, low, high, powers, counts):  # type: ignore[no-untyped-def]
    """Add to ``counts`` (4, patterns) how often each pattern occurs among the items from ``low`` to ``high``.

    ``cells`` are (n, m), or (m, n) if ``by_column``. Four rows of counters are used, so that a row does not
    have to wait until the counter of the previous one is written.
    """
    numbers = np.empty(_STEP, np.int32)
    for start in range(low, high, _STEP):
        stop = min(start + _STEP, high)
        _number(cells, by_column, start, stop, powers, numbers)
        for r in range(stop - start):
            counts[r & 3, numbers[r]] += 1


@_compile()
def look_up(cells, by_column, low, high, powers, table, answer):  # type: ignore[no-untyped-def]
    """Write ``table[pattern of item r]`` to ``answer[r]``, for a table (patterns, w) and an answer (n, w)."""
    numbers = np.empty(_STEP, np.int32)
    width = table.shape[1]
    for start in range(low, high, _STEP):
        stop = min(start + _STEP, high)
        _number(cells, by_column, start, stop, powers, numbers)
        part = answer[start:stop]
        if width == 2:
            for r in range(len(part)):
                part[r, 0] = table[numbers[r], 0]
                part[r, 1] = table[numbers[r], 1]
        else:
            for r in range(len(part)):
                for k in range(width):
                    part[r, k] = table[numbers[r], k]


@_compile()
def _octet(rows, vote, held):  # type: ignore[no-untyped-def]
    """Set the bits of ``held`` (m,): which of eight items each source gives a vote to."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    e, f, g, h = rows[4], rows[5], rows[6], rows[7]
    one = np.uint8(1)
    none = np.uint8(0)
    # Along the row, so that dozens of sources are compared by one instruction.
    for j in range(len(held)):
        held[j] = (
            (one if a[j] == vote else none)
            | (np.uint8(2) if b[j] == vote else none)
            | (np.uint8(4) if c[j] == vote else none)
            | (np.uint8(8) if d[j] == vote else none)
            | (np.uint8(16) if e[j] == vote else none)
            | (np.uint8(32) if f[j] == vote else none)
            | (np.uint8(64) if g[j] == vote else none)
            | (np.uint8(128) if h[j] == vote else none)
        )


@_compile()
def pack(codes, n_classes, octets):  # type: ignore[no-untyped-def]
    """Pack votes into bits: bit r % 8 of ``octets[v m + j, r // 8]`` is 1 if source j votes v on item r."""
    n, m = codes.shape
    held = np.empty(m, np.uint8)
    last = np.full((8, m), np.int8(-1))
    for g in range(-(-n // 8)):
        if 8 * g + 8 <= n:
            rows = codes[8 * g : 8 * g + 8]
        else:
            last[: n - 8 * g] = codes[8 * g :]
            rows = last
        for v in range(n_classes):
            _octet(rows, np.int8(v), held)
            for j in range(m):
                octets[v * m + j, g] = held[j]


@_compile()
def count(planes, counts):  # type: ignore[no-untyped-def]
    """Add the numbers of common bits of ``planes`` (W, words) to ``counts`` (W, W), right of the diagonal."""
    width, words = planes.shape
    for first in range(0, width, _TILE):
        for second in range(first, width, _TILE):
            for i in range(first, min(first + _TILE, width)):
                for j in range(max(i, second), min(second + _TILE, width)):
                    total = np.uint64(0)
                    for w in range(words):
                        total += _ones(planes[i, w] & planes[j, w])
                    counts[i, j] += np.int64(total)


@_compile(fastmath={"reassoc", "nsz", "contract"})
def binary_labels(codes, zero, one, offset, answer):  # type: ignore[no-untyped-def]
    """Write P(Y = 0 | votes) and P(Y = 1 | votes) of rows to ``answer`` (n, 2).

    The log odds of a row are ``offset`` plus one of three weights per source. Products with comparisons avoid
    table lookups.
    """
    n, m = codes.shape
    for r in range(n):
        odds = 0.0
        for j in range(m):
            odds += zero[j] * np.float64(codes[r, j] == 0) + one[j] * np.float64(codes[r, j] == 1)
        odds += offset
        # Each side by its own quotient: 1 - p would round the small side of a sure label to 0.
        small = np.exp(-abs(odds))
        large = 1.0 / (1.0 + small)
        small *= large
        answer[r, 0] = small if odds > 0 else large
        answer[r, 1] = large if odds > 0 else small


_CODES = np.array([[0, 1], [1, -1], [-4, 0]], np.int8)


def _check_patterns() -> bool:
    powers, table = np.array([1, 3], np.int32), np.arange(9.0)[:, None]
    for by_column, cells in ((False, _CODES), (True, np.ascontiguousarray(_CODES.T))):
        counts, answer = np.zeros((4, 9), np.int64), np.empty((3, 1))
        histogram(cells, by_column, 0, 3, powers, counts)
        look_up(cells, by_column, 0, 3, powers, table, answer)
        if answer[:, 0].tolist() != [7, 2, 3] or np.flatnonzero(counts.sum(axis=0)).tolist() != [2, 3, 7]:
            return False
    return True


def _check_bits() -> bool:
    octets, counts = np.zeros((4, 8), np.uint8), np.zeros((4, 4), np.int64)
    pack(_CODES, 2, octets)
    count(octets.view(np.uint64), counts)
    return counts.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def _check_labels() -> bool:
    answer = np.empty((3, 2))
    binary_labels(_CODES, np.array([1.0, 2.0]), np.array([4.0, 8.0]), 0.5, answer)
    return bool(np.allclose(answer[:, 1], 1 / (1 + np.exp([-9.5, -4.5, -2.5]))))


# Each compiles its functions and checks their results; only the requested ones are compiled.
CHECKS = {"patterns": _check_patterns, "bits": _check_bits, "labels": _check_labels}
