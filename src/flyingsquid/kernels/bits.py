"""Pairs of votes as common bits: eight items a byte, 64 a machine word, counted by population count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels.switch import Kernels, as_bytes, blocks_of, share_out

# Items whose bits are compared at a time: 2 KB a plane, so that tiles of planes stay in the cache.
_ROWS = 1 << 14
# Up to so many planes every thread has counters of its own, and takes rows; beyond, they share them.
_FEW_PLANES = 1_024
_PLANE_BYTES = 1 << 26
_TILE = 32


def pair_counts(kernels: Kernels, codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """How often two votes occur in one item, shape (K m, K m), row v m + j for "source j votes v"."""
    width = n_classes * codes.shape[1]
    if width <= _FEW_PLANES:
        parts = share_out(
            lambda blocks: _of_rows(kernels, codes, n_classes, blocks), blocks_of(len(codes), _ROWS)
        )
        counts = np.asarray(sum(parts))
    else:
        counts = _of_planes(kernels, codes, n_classes)
    for tile in blocks_of(width, 256):
        # In place and piece by piece: of very many sources the counts are what takes the memory.
        counts[tile.stop :, tile] = counts[tile, tile.stop :].T
        inside = counts[tile, tile]
        counts[tile, tile] = np.triu(inside) + np.triu(inside, 1).T
    return counts


def _of_rows(
    kernels: Kernels, codes: NDArray[Any], n_classes: int, blocks: Sequence[slice]
) -> NDArray[np.int64]:
    """Counts right of the diagonal of some blocks of rows."""
    width = n_classes * codes.shape[1]
    octets, counts = np.zeros((width, _ROWS // 8), np.uint8), np.zeros((width, width), np.int64)
    for rows in blocks:
        if rows.stop - rows.start < _ROWS:
            octets[:] = 0
        kernels.pack(as_bytes(codes[rows]), n_classes, octets)
        kernels.count(octets.view(np.uint64), 0, width, counts)
    return counts


def _of_planes(kernels: Kernels, codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Counts right of the diagonal, all threads on the same rows."""
    width = n_classes * codes.shape[1]
    step = max(_ROWS, _PLANE_BYTES * 8 // width // _ROWS * _ROWS)
    counts = np.zeros((width, width), np.int64)
    for some in blocks_of(len(codes), step):
        part = codes[some]
        pieces = [np.zeros((width, _ROWS // 8), np.uint8) for _ in range(-(-len(part) // _ROWS))]

        def pack(blocks: Sequence[slice], part: NDArray[Any] = part, pieces: list[Any] = pieces) -> None:
            for rows in blocks:
                kernels.pack(as_bytes(part[rows]), n_classes, pieces[rows.start // _ROWS])

        def count(blocks: Sequence[slice], pieces: list[Any] = pieces) -> None:
            for planes in blocks:
                for piece in pieces:
                    kernels.count(piece.view(np.uint64), planes.start, planes.stop, counts)

        share_out(pack, blocks_of(len(part), _ROWS))
        share_out(count, blocks_of(width, _TILE))
    return counts
