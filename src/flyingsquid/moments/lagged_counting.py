"""Counting kernels for neighbouring rows: how often one vote follows another. All give the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.votes.packing import all_patterns, n_patterns, packed_chunks
from flyingsquid.votes.states import Codes, rows_of_entries

# A table of patterns against patterns is used while it stays near the cache, and pays for itself.
_JOINT_CELLS = 1 << 20
_ROWS_PER_CELL = 0.25
_JOINT_ROWS = 1 << 17
_BUFFER_BYTES = 1 << 26
# Both well below 2**24, where float32 stops counting, and long enough for BLAS.
_CHUNK_ROWS = 1 << 17
_SPARSE_CHUNK_PAIRS = 1 << 22


def count_lagged(codes: Codes, n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    """Count how often each pair of votes occurs in a row and the row after it.

    Parameters
    ----------
    codes : dense (T, m) or sparse codes
    breaks : sorted rows of shape (sequences - 1,)
        The first rows of sequences, row 0 left out: the row before is no neighbour.

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
    """How often each source votes each class in some rows, shape (m, K)."""
    chosen: Any = codes[rows]
    if isinstance(chosen, csr_array):
        voted = chosen.data > 0
        cell = chosen.indices[voted] * n_classes + chosen.data[voted].astype(np.intp) - 1
        return np.bincount(cell, minlength=codes.shape[1] * n_classes).reshape(-1, n_classes)
    return np.stack([np.count_nonzero(chosen == k, axis=0) for k in range(n_classes)], axis=1)


def _one_hot(codes: NDArray[Any], n_classes: int, dtype: Any) -> NDArray[Any]:
    """Votes of dense codes as (rows, K m), class-major columns."""
    hot = np.empty((len(codes), n_classes, codes.shape[1]), dtype)
    for k in range(n_classes):
        hot[:, k] = codes == k
    return hot.reshape(len(codes), -1)


def _inside(breaks: NDArray[np.intp], start: int, rows: int) -> NDArray[np.intp]:
    """Breaks whose neighbour before is one of ``rows`` rows from ``start`` on, counted from there."""
    first, last = np.searchsorted(breaks, [start, start + rows], side="right")
    return breaks[first:last] - start


def _by_joint_histogram(codes: NDArray[Any], n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    m = codes.shape[1]
    size = n_patterns(m, n_classes)
    joint = np.zeros(size * size, np.int64)
    for start in range(0, len(codes) - 1, _JOINT_ROWS):
        # One row more, because the last one of a chunk has its neighbour in the next chunk.
        chunk = codes[start : start + _JOINT_ROWS + 1]
        numbers = np.empty(len(chunk), np.intp)
        for rows, part in packed_chunks(chunk, n_classes):
            numbers[rows] = part
        follows = numbers[:-1] * size + numbers[1:]
        joint += np.bincount(follows, minlength=size * size)
        # Counting all neighbours and taking back those across a border is cheaper than a mask.
        joint -= np.bincount(follows[_inside(breaks, start, _JOINT_ROWS) - 1], minlength=size * size)
    hot = _one_hot(all_patterns(m, n_classes), n_classes, np.float64)
    return np.asarray(hot.T @ (joint.reshape(size, size) @ hot))


def _by_product(codes: NDArray[Any], n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    n, m = codes.shape
    width = n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, _BUFFER_BYTES // (width * 4)))
    counts = np.zeros((width, width))
    for start in range(0, n - 1, rows):
        hot = _one_hot(codes[start : start + rows + 1], n_classes, np.float32)
        counts += hot[:-1].T @ hot[1:]
        inside = _inside(breaks, start, rows)
        counts -= hot[inside - 1].T @ hot[inside]
    return counts


def _by_sparse_product(codes: csr_array, n_classes: int, breaks: NDArray[np.intp]) -> NDArray[np.float64]:
    n, m = codes.shape
    voted = codes.data > 0
    row = rows_of_entries(codes)[voted]
    column = (codes.data[voted].astype(np.int64) - 1) * m + codes.indices[voted]
    one_hot = csr_array((np.ones(len(row)), (row, column)), shape=(n, n_classes * m))
    second = np.setdiff1d(np.arange(1, n), breaks, assume_unique=True)
    each = np.diff(one_hot.indptr).astype(np.int64)
    # The product of a chunk holds at most this many entries.
    cost = np.cumsum(each[second - 1] * each[second])
    counts = np.zeros((n_classes * m, n_classes * m))
    start = 0
    while start < len(second):
        reached = (cost[start - 1] if start else 0) + _SPARSE_CHUNK_PAIRS
        stop = max(start + 1, int(np.searchsorted(cost, reached, side="right")))
        part = second[start:stop]
        product = (one_hot[part - 1].T @ one_hot[part]).tocoo()
        counts[product.row, product.col] += product.data
        start = stop
    return counts
