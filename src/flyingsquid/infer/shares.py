"""Vote shares: what majority vote knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.votes.states import Codes, rows_of_entries

_CHUNK_CELLS = 1 << 18


def vote_shares(codes: Codes, n_classes: int) -> NDArray[np.float64]:
    """Each class's share of an item's votes, shape (n, 1, K); uniform where nobody votes."""
    counts = _count_sparse(codes, n_classes) if isinstance(codes, csr_array) else _count(codes, n_classes)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.full_like(counts, 1 / n_classes), where=total > 0)
    return shares[:, None, :]


def smoothed_shares(codes: Codes, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vote shares with K votes added that fall as the prior says, shape (n, 1, K).

    An item without votes gets the prior; no class is ever impossible.

    >>> smoothed_shares(np.array([[1, 1], [-1, -1]]), np.array([0.5, 0.5]))[:, 0]
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    k = len(prior)
    counts = _count_sparse(codes, k) if isinstance(codes, csr_array) else _count(codes, k)
    shares = (counts + k * prior) / (counts.sum(axis=1, keepdims=True) + k)
    return shares[:, None, :]


def _count(codes: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Votes for each class, shape (n, K)."""
    n, m = codes.shape
    counts = np.empty((n, n_classes))
    rows = min(n, max(1, _CHUNK_CELLS // m))
    hot, ones = np.empty((rows, m), np.float32), np.ones(m, np.float32)
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        part = hot[: len(chunk)]
        for k in range(n_classes):
            part[...] = chunk == k
            # Zeros and ones cannot overflow; some BLAS kernels raise the flag from what lies beside a row.
            with np.errstate(invalid="ignore"):
                counts[start : start + len(chunk), k] = part @ ones
    return counts


def _count_sparse(codes: csr_array, n_classes: int) -> NDArray[np.float64]:
    n = codes.shape[0]
    voted = codes.data > 0
    row = rows_of_entries(codes)[voted]
    cell = row * n_classes + codes.data[voted].astype(np.intp) - 1
    return np.bincount(cell, minlength=n * n_classes).reshape(n, n_classes).astype(np.float64)
