"""Posterior of one binary task whose sources are independent given the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from flyingsquid.votes.packing import all_patterns, n_patterns, packed_chunks
from flyingsquid.votes.states import Codes

Array = NDArray[np.float64]
# A table of all patterns is used while it is small, and pays for itself.
_TABLE_PATTERNS = 1 << 16
_ITEMS_PER_PATTERN = 4
_CHUNK_CELLS = 1 << 18


def binary_posterior(codes: Codes, prior: Array, weights: Array) -> Array:
    """P(Y = k | votes), shape (n, 1, 2); the middle axis is the task.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of two classes
    prior : array of shape (2,)
        P(Y = k). It enters once.
    weights : array of shape (m, 3)
        log P(vote v | Y=1) - log P(vote v | Y=0) for both votes, and for no vote. Where the last is
        0, a missing vote adds nothing, and an item without votes gets the prior.
    """
    absence = weights[:, 2]
    offset = float(np.log(prior[1]) - np.log(prior[0]) + absence.sum())
    weights = weights[:, :2] - absence[:, None]
    if isinstance(codes, csr_array):
        return _probabilities(offset + _sparse_evidence(codes, weights))
    n, m = codes.shape
    size = n_patterns(m, 2)
    if size > _TABLE_PATTERNS or n < size * _ITEMS_PER_PATTERN:
        return _probabilities(_dense_evidence(codes, offset, weights))
    table = _probabilities(_dense_evidence(all_patterns(m, 2), offset, weights))
    posterior = np.empty((n, 1, 2))
    for rows, numbers in packed_chunks(codes, 2):
        np.take(table, numbers, axis=0, out=posterior[rows], mode="clip")
    return posterior


def _probabilities(log_odds: Array) -> Array:
    posterior = np.empty((len(log_odds), 1, 2))
    # Each side by its own logistic: 1 - p would round the small side of a sure label to 0.
    expit(-log_odds, out=posterior[:, 0, 0])
    expit(log_odds, out=posterior[:, 0, 1])
    return posterior


def _dense_evidence(codes: NDArray[Any], offset: float, weights: Array) -> Array:
    """Log odds of class 1, shape (n,), without an (n, m) float temporary."""
    n, m = codes.shape
    rows = min(n, max(1, _CHUNK_CELLS // m))
    buffer = np.empty((rows, m))
    log_odds = np.full(n, offset)
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        hot = buffer[: len(chunk)]
        for vote in (0, 1):
            hot[...] = chunk == vote
            log_odds[start : start + len(chunk)] += hot @ weights[:, vote]
    return log_odds


def _sparse_evidence(codes: csr_array, weights: Array) -> Array:
    voted = codes.data > 0
    evidence = np.zeros(len(codes.data))
    evidence[voted] = weights[codes.indices[voted], codes.data[voted].astype(np.intp) - 1]
    each = csr_array((evidence, codes.indices, codes.indptr), shape=codes.shape)
    return np.asarray(each.sum(axis=1), np.float64).ravel()
