"""From a fit of many classes to what inference reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flyingsquid.estimation import ManyFit, SparseTables
from flyingsquid.estimation.sparse_tables import scaled_rows
from flyingsquid.infer import SparseLogs, class_evidence
from flyingsquid.votes import Votes
from flyingsquid.votes.one_hot import one_hot

Array = NDArray[np.float64]
# No vote is taken to be rarer than this given a class, or an item could be impossible.
_RAREST = 1e-9


def logs_of(fit: ManyFit) -> Array | SparseLogs:
    """What each vote says, in logs: an array (m, K, K + 1), or sparse where the tables are."""
    if not isinstance(fit.tables, SparseTables):
        return fit.log_tables
    return _sparse_logs(fit.tables, ~fit.silent)


def _sparse_logs(tables: SparseTables, voting: NDArray[np.bool_]) -> SparseLogs:
    shared, counts = voting[:, None] * np.ones_like(tables.shared), tables.beyond
    beyond = scaled_rows(counts, shared / tables.shared)
    beyond.data = np.log1p(beyond.data)
    return SparseLogs(
        np.where(voting[:, None], np.log(tables.shared), 0.0).T.ravel(),
        np.where(voting[:, None], -np.log(tables.totals), 0.0),
        beyond,
    )


def log_likelihood_of(tables: Array | SparseTables, balance: Array, votes: Votes) -> Array:
    """log P(votes of an item), shape (n,), by tables of shape (m, K, K + 1) themselves."""
    if isinstance(tables, SparseTables):
        coverage = tables.coverage
        evidence = _sparse_logs(tables, np.ones(len(coverage), np.bool_)).evidence(votes.codes)
        votes_log, silence_log = (np.log(np.maximum(p, _RAREST)) for p in (coverage, 1 - coverage))
        adds = np.tile(votes_log - silence_log, votes.n_classes)
        evidence += (one_hot(votes.codes, votes.n_classes) @ adds)[:, None] + silence_log.sum()
    else:
        evidence = class_evidence(votes.codes, np.log(np.maximum(tables, _RAREST)))
    return np.asarray(logsumexp(evidence + np.log(balance), axis=1))
