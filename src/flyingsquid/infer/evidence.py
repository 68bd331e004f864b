"""What the votes on each task say about its truth, with units of dependent sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.distinct import by_pattern
from flyingsquid.votes.packing import packed_chunks
from flyingsquid.votes.states import Codes, dense_chunks

Array = NDArray[np.float64]
_CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class Emissions:
    """P(votes | truth) of D tasks, in logs.

    Attributes
    ----------
    tasks : tuple of D tuples of int
        The sources on each task.
    log_tables : array of shape (m, K, K + 1)
        log P(vote | Y = k) of each source, no vote last; 0 for sources inside a unit.
    units : tuple of (sources, array of shape (K, (K + 1)^s))
        log P(joint votes | what earlier units said, Y = k), states in the order of ``all_patterns(s, K)``.
    """

    tasks: tuple[tuple[int, ...], ...]
    log_tables: Array
    units: tuple[tuple[tuple[int, ...], Array], ...] = ()

    def evidence(self, codes: Codes) -> Array:
        """log P(votes on task d | Y_d = k), shape (n, D, K)."""
        n, m = codes.shape
        n_classes = self.log_tables.shape[1]
        result = np.empty((n, len(self.tasks), n_classes))
        owner = {source: task for task, sources in enumerate(self.tasks) for source in sources}
        units: list[list[tuple[tuple[int, ...], Array]]] = [[] for _ in self.tasks]
        for sources, table in self.units:
            at = self.tasks[owner[sources[0]]]
            units[owner[sources[0]]].append((tuple(at.index(i) for i in sources), table))
        for rows, chunk in dense_chunks(codes, _CHUNK_CELLS):
            for task, sources in enumerate(self.tasks):
                columns = chunk if len(sources) == m else chunk[:, list(sources)]
                log_tables = self.log_tables[list(sources)]
                result[rows, task] = by_pattern(
                    columns, partial(_directly, log_tables=log_tables, units=units[task]), n_classes
                )
        return result


def with_own_evidence(posterior: Array, evidence: Array, temper: float) -> Array:
    """Posteriors in which the evidence of others was taken to the power ``temper``, and one's own was not.

    Parameters
    ----------
    posterior : array of shape (..., K)
        P(Y = k | votes) where all evidence was tempered.
    evidence : array of shape (..., K)
        log P(own votes | Y = k), not tempered.

    Examples
    --------
    >>> even, own = np.array([[0.5, 0.5]]), np.log([[0.2, 0.8]])
    >>> with_own_evidence(even, own, 0.0)  # the others say nothing: what is left is one's own
    array([[0.2, 0.8]])
    """
    if temper == 1:
        return posterior
    own = evidence - evidence.max(axis=-1, keepdims=True)
    full = posterior * np.exp((1 - temper) * own)
    total = full.sum(axis=-1, keepdims=True)
    # Where both sides were as sure of opposite classes as numbers can say, the votes at hand decide.
    return np.asarray(np.where(total > 0, full / np.where(total > 0, total, 1), own == 0))


def _directly(codes: NDArray[Any], log_tables: Array, units: list[tuple[tuple[int, ...], Array]]) -> Array:
    """log P(votes | Y = k) for the sources of one task, shape (n, K)."""
    n, m = codes.shape
    n_classes, silent = log_tables.shape[1], log_tables[:, :, -1]
    result = np.tile(silent.sum(axis=0), (n, 1))
    rows = max(1, _CHUNK_CELLS // m)
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        part = result[start : start + rows]
        for vote in range(n_classes):
            part += (chunk == vote).astype(np.float64) @ (log_tables[:, :, vote] - silent)
        for at, table in units:
            for inside, numbers in packed_chunks(chunk[:, list(at)], n_classes):
                part[inside] += table.T[numbers]
    return result
