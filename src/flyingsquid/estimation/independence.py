"""Do pairs of sources agree as often as their tables predict? For any number of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# Pairs that share fewer items say too little.
_SHARED = 50.0


def agreement_misfit(moments: Moments, tables: Array, balance: Array) -> float:
    """Mean squared standardised residual of the agreement of pairs, about 1 for independent sources.

    Parameters
    ----------
    moments : Moments of K classes, all pairs counted
    tables : array of shape (m, K, K), axes source, truth, vote
        P(source i votes v, Y = k | Y = k), up to how often it votes.
    balance : array of shape (K,)

    Returns
    -------
    float
        Infinite where no pair shares enough items.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 5_000)
    >>> right = rng.random((5_000, 4)) < 0.7
    >>> votes = np.where(right, y[:, None], (y[:, None] + rng.integers(1, 3, (5_000, 4))) % 3)
    >>> table = np.full((3, 3), 0.15) + 0.55 * np.eye(3)
    >>> agreement_misfit(Moments.of(votes), np.tile(table, (4, 1, 1)), np.full(3, 1 / 3)) < 2
    True
    """
    overlap, agreement = (
        np.asarray(counts, np.float64) for counts in (moments.overlap(), moments.agreement())
    )
    votes = tables / np.maximum(tables.sum(axis=2, keepdims=True), 1e-12)
    expected = np.einsum("k,ikv,jkv->ij", balance, votes, votes, optimize=True)
    expected = np.clip(expected, 1e-9, 1 - 1e-9)
    judged = np.triu(overlap >= _SHARED, 1)
    if not judged.any():
        return float("inf")
    residual = agreement[judged] - overlap[judged] * expected[judged]
    return float(np.mean(residual**2 / (overlap * expected * (1 - expected))[judged]))
