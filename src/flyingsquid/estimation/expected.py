"""Tables from labels that are probabilities: what a pass over the votes of a graph leaves.

Every table keeps a weak prior, so that a source with few votes is not believed more than it has shown, and
dependent sources with few joint votes are taken to be what they are one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import PRIOR_VOTES, prior_table
from flyingsquid.estimation.many_units import silence_says_nothing
from flyingsquid.estimation.units import UnitTable, in_agreement
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes.packing import all_patterns, packed_chunks
from flyingsquid.votes.states import Codes, dense_codes

Array = NDArray[np.float64]
_TINY = 1e-300


def expected_tables(
    codes: Codes, posterior: Array, graph: DependencyGraph, silence_counts: NDArray[np.bool_]
) -> Array:
    """P(vote = v | Y = k) of every source, shape (m, K, K + 1), no vote last.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    posterior : array of shape (n, D, K)
        P(Y_d = k | votes), times how often the item counts.
    silence_counts : mask of shape (D,)
        Tasks whose truth may change how often a source votes.
    """
    n_classes = posterior.shape[2]
    tables = np.empty((graph.n_sources, n_classes, n_classes + 1))
    total = posterior.sum(axis=0)
    believed = prior_table(n_classes)
    for task in range(graph.n_tasks):
        own = list(graph.sources_of(task))
        columns = dense_codes(codes[:, own])
        votes = np.stack([(columns == vote).T @ posterior[:, task] for vote in range(n_classes)], axis=2)
        coverage = np.minimum(votes.sum(axis=(1, 2)) / total[task].sum(), 1.0)
        silent = np.maximum(total[task] - votes.sum(axis=2), 0.0)
        silent += PRIOR_VOTES * (1 - coverage[:, None])
        votes = votes + PRIOR_VOTES * coverage[:, None, None] * believed
        if not silence_counts[task]:
            votes /= np.maximum(votes.sum(axis=2, keepdims=True), _TINY)
            votes *= coverage[:, None, None]
            silent = np.broadcast_to(1 - coverage[:, None], silent.shape)
        tables[own] = np.concatenate([votes, silent[:, :, None]], axis=2)
    return np.asarray(tables / tables.sum(axis=2, keepdims=True))


def expected_units(
    codes: Codes,
    posterior: Array,
    graph: DependencyGraph,
    tables: Array,
    silence_counts: NDArray[np.bool_],
) -> tuple[UnitTable, ...]:
    """P(joint votes | Y = k) of every unit; ``tables``, shape (m, K, K + 1), are those of single sources.

    Other parameters are those of :func:`expected_tables`.
    """
    n_classes = posterior.shape[2]
    balance = posterior.sum(axis=0) / posterior[:, 0].sum()
    found = []
    for tree in graph._units:
        for sources, separator in zip(tree.cliques, tree.separators, strict=True):
            task = graph.source_task[sources[0]]
            given = posterior[:, task]
            alone = np.ones((n_classes, (n_classes + 1) ** len(sources)))
            for column, source in enumerate(sources):
                alone *= tables[source][:, all_patterns(len(sources), n_classes)[:, column]]
            counts = PRIOR_VOTES * alone
            for rows, numbers in packed_chunks(dense_codes(codes[:, list(sources)]), n_classes):
                for k in range(n_classes):
                    counts[k] += np.bincount(numbers, given[rows, k], minlength=counts.shape[1])
            unit = UnitTable(sources, separator, counts / counts.sum(axis=1, keepdims=True))
            found.append(unit if silence_counts[task] else silence_says_nothing(unit, balance[task]))
    return in_agreement(found)
