"""Patterns of rows by compiled loops: how often each occurs, and what a table says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels.switch import Kernels, as_bytes, rows_of, share_out


def histogram(kernels: Kernels, codes: NDArray[Any], n_classes: int, size: int) -> NDArray[np.int64]:
    """How often each of ``size`` patterns occurs in dense ``codes`` (n, m), shape (size,)."""
    cells, by_column = _as_they_lie(codes)
    powers = _powers(codes, n_classes)

    def count(blocks: Sequence[slice]) -> NDArray[np.int64]:
        counts = np.zeros((4, size), np.int64)
        for rows in blocks:
            kernels.histogram(cells, by_column, rows.start, rows.stop, powers, counts)
        return np.asarray(counts.sum(axis=0))

    return np.asarray(sum(share_out(count, rows_of(codes))))


def look_up(
    kernels: Kernels, codes: NDArray[Any], n_classes: int, table: NDArray[Any], answer: NDArray[Any]
) -> None:
    """Write ``table[pattern]`` (patterns, ...) of each row of ``codes`` (n, m) to ``answer`` (n, ...)."""
    flat, target = table.reshape(len(table), -1), answer.reshape(len(answer), -1)
    cells, by_column = _as_they_lie(codes)
    powers = _powers(codes, n_classes)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.look_up(cells, by_column, rows.start, rows.stop, powers, flat, target)

    share_out(write, rows_of(codes))


def _as_they_lie(codes: NDArray[Any]) -> tuple[NDArray[np.int8], bool]:
    """Cells row by row (n, m), or column by column (m, n) where they lie so, and whether they do."""
    by_column = bool(codes.flags.f_contiguous and not codes.flags.c_contiguous)
    return as_bytes(codes.T if by_column else codes), by_column


def _powers(codes: NDArray[Any], n_classes: int) -> NDArray[np.int32]:
    return np.asarray((n_classes + 1) ** np.arange(codes.shape[1]), np.int32)
