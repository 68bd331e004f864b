"""Patterns of rows by compiled loops: how often each occurs, and what a table says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels.switch import Kernels, as_bytes, rows_of, share_out


def histogram(kernels: Kernels, codes: NDArray[Any], n_classes: int, size: int) -> NDArray[np.int64]:
    """How often each of ``size`` patterns occurs in dense ``codes`` (n, m), shape (size,)."""

    def count(blocks: Sequence[slice]) -> NDArray[np.int64]:
        counts = np.zeros((4, size), np.int64)
        for rows in blocks:
            kernels.histogram(as_bytes(codes[rows]), n_classes + 1, counts)
        return np.asarray(counts.sum(axis=0))

    return np.asarray(sum(share_out(count, rows_of(codes))))


def look_up(
    kernels: Kernels, codes: NDArray[Any], n_classes: int, table: NDArray[Any], answer: NDArray[Any]
) -> None:
    """Write ``table[pattern]`` (patterns, ...) of each row of ``codes`` (n, m) to ``answer`` (n, ...)."""
    flat, target = table.reshape(len(table), -1), answer.reshape(len(answer), -1)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.look_up(as_bytes(codes[rows]), n_classes + 1, flat, target[rows])

    share_out(write, rows_of(codes))
