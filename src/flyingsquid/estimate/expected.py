"""Tables from labels that are probabilities: what a pass over the votes of a graph leaves.

Every table keeps a weak prior, so that a source with few votes is not believed more than it has shown, and
dependent sources with few joint votes are taken to be what they are one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate.agreement import PRIOR_VOTES, prior_table
from flyingsquid.estimate.units import UnitTable, in_agreement
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes.packing import all_patterns, packed_chunks
from flyingsquid.votes.states import Codes, dense_codes

Array = NDArray[np.float64]


def expected_tables(codes: Codes, posterior: Array, graph: DependencyGraph) -> Array:
    """P(vote = v | Y = k) of every source, shape (m, K, K + 1), no vote last.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    posterior : array of shape (n, D, K)
        P(Y_d = k | votes), times how often the item counts.
    """
    n_classes = posterior.shape[2]
    tables = np.empty((graph.n_sources, n_classes, n_classes + 1))
    total = posterior.sum(axis=0)
    believed = prior_table(n_classes)
    for task in range(graph.n_tasks):
        own = list(graph.sources_of(task))
        columns = dense_codes(codes[:, own])
        votes = np.stack([(columns == vote).T @ posterior[:, task] for vote in range(n_classes)], axis=2)
        coverage = votes.sum(axis=(1, 2)) / total[task].sum()
        silent = np.maximum(total[task] - votes.sum(axis=2), 0.0)
        silent += PRIOR_VOTES * (1 - coverage[:, None])
        votes = votes + PRIOR_VOTES * coverage[:, None, None] * believed
        tables[own] = np.concatenate([votes, silent[:, :, None]], axis=2)
    return np.asarray(tables / tables.sum(axis=2, keepdims=True))


def expected_units(
    codes: Codes, posterior: Array, graph: DependencyGraph, tables: Array
) -> tuple[UnitTable, ...]:
    """P(joint votes | Y = k) of every unit; ``tables``, shape (m, K, K + 1), are those of single sources."""
    n_classes = posterior.shape[2]
    found = []
    for tree in graph.units:
        for sources, separator in zip(tree.cliques, tree.separators, strict=True):
            given = posterior[:, graph.source_task[sources[0]]]
            alone = np.ones((n_classes, (n_classes + 1) ** len(sources)))
            for column, source in enumerate(sources):
                alone *= tables[source][:, all_patterns(len(sources), n_classes)[:, column]]
            counts = PRIOR_VOTES * alone
            for rows, numbers in packed_chunks(dense_codes(codes[:, list(sources)]), n_classes):
                for k in range(n_classes):
                    counts[k] += np.bincount(numbers, given[rows, k], minlength=counts.shape[1])
            found.append(UnitTable(sources, separator, counts / counts.sum(axis=1, keepdims=True)))
    return in_agreement(found)
