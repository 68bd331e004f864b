"""A few passes over the votes of a graph: labels by the parameters, parameters by the labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import emissions_of
from flyingsquid.estimate import ManyGraphFit
from flyingsquid.estimate.balance import TaskBalance
from flyingsquid.estimate.expected import expected_edges, expected_tables, expected_units
from flyingsquid.estimate.proportional import tables_from_edges
from flyingsquid.estimate.refine import PASSES
from flyingsquid.infer import clique_counts, with_own_evidence
from flyingsquid.models._graphs import edge_tables
from flyingsquid.votes import Votes

_BY_PASSES = "by the labels of ten passes over the votes"


def refine_on_graph(
    fit: ManyGraphFit,
    votes: Votes,
    sample_weight: NDArray[Any] | None,
    balance: TaskBalance,
    temper: float,
) -> ManyGraphFit:
    """Pass over the votes, starting from a fit.

    Parameters
    ----------
    balance : what is given of the class balance stays as it is
    temper : the power that the evidence of other tasks is taken to
    """
    graph, n_classes = fit.graph, votes.n_classes
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    weights = np.ones(votes.n_items) if sample_weight is None else np.asarray(sample_weight, np.float64)
    total = float(weights.sum())
    for _ in range(PASSES):
        evidence = emissions_of(tasks, fit.tables, None, fit.balance, fit.units).evidence(votes.codes)
        posterior, counts = clique_counts(temper * evidence, graph.task_tree, fit.task_tables, weights)
        posterior = with_own_evidence(posterior, evidence, temper) * weights[:, None, None]
        learned = (posterior.sum(axis=0) + 1) / (total + n_classes)
        settled = np.stack(
            [
                given if isinstance(given, np.ndarray) else row
                for given, row in zip(balance.tasks, learned, strict=True)
            ]
        )
        tables = expected_tables(votes.codes, posterior, graph)
        units = expected_units(votes.codes, posterior, graph, tables)
        for unit in units:
            for source in unit.sources:
                tables[source] = np.roll(unit.margin((source,)), -1, axis=1)
        task_tables = fit.task_tables
        if balance.joint is None:
            edges = expected_edges(edge_tables(graph, counts), graph.task_edges, settled)
            task_tables = tables_from_edges(graph.task_tree, graph.task_edges, edges, settled).tables
        fit = replace(fit, balance=settled, tables=tables, units=units, task_tables=task_tables)
    note = fit.balance_note if isinstance(balance.tasks[0], np.ndarray) else _BY_PASSES
    return replace(fit, method="refined", balance_note=note)
