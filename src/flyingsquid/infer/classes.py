"""Posterior of one task with any number of classes, sources independent given the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.infer.sparse_classes import SparseLogs
from flyingsquid.votes.one_hot import one_hot
from flyingsquid.votes.states import Codes

Array = NDArray[np.float64]
_CHUNK_CELLS = 1 << 22
_DENSE_CELLS = 1 << 18
# Up to so many, dense products beat sparse ones.
_FEW_CLASSES = 8


def class_evidence(codes: Codes, log_tables: Array | SparseLogs) -> Array:
    """log P(votes | Y = k) up to rounding, shape (n, K).

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    log_tables : array of shape (m, K, K + 1), or SparseLogs
        log P(vote = v | Y = k), no vote last.
    """
    if isinstance(log_tables, SparseLogs):
        return log_tables.evidence(codes)
    m, n_classes, _ = log_tables.shape
    silence = log_tables[:, :, -1]
    # Rows are votes of a source, class by class; what a vote adds beyond silence.
    adds = (log_tables[:, :, :-1] - silence[:, :, None]).transpose(2, 0, 1).reshape(n_classes * m, n_classes)
    evidence = np.empty((codes.shape[0], n_classes))
    if not isinstance(codes, csr_array) and n_classes <= _FEW_CLASSES:
        return _dense_evidence(codes, adds.reshape(n_classes, m, n_classes)) + silence.sum(axis=0)
    rows = max(1, _CHUNK_CELLS // max(m, n_classes))
    for start in range(0, codes.shape[0], rows):
        part = one_hot(codes[start : start + rows], n_classes)
        evidence[start : start + rows] = part @ adds
    evidence += silence.sum(axis=0)
    return evidence


def _dense_evidence(codes: NDArray[Any], adds: Array) -> Array:
    """What the votes add, shape (n, K), for ``adds`` of shape (K, m, K); a product for each vote."""
    n, m = codes.shape
    rows = min(n, max(1, _DENSE_CELLS // m))
    buffer = np.empty((rows, m))
    evidence = np.zeros((n, adds.shape[2]))
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        hot = buffer[: len(chunk)]
        for vote, added in enumerate(adds):
            hot[...] = chunk == vote
            evidence[start : start + len(chunk)] += hot @ added
    return evidence


def class_posterior(codes: Codes, prior: Array, log_tables: Array | SparseLogs) -> Array:
    """P(Y = k | votes), shape (n, 1, K); the middle axis is the task. ``prior`` of shape (K,) enters once."""
    scores = class_evidence(codes, log_tables)
    scores += np.log(prior)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores[:, None, :]
