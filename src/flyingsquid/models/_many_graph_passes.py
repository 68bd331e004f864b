"""A few passes over the votes of a graph: labels by the parameters, parameters by the labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import emissions_of
from flyingsquid.estimate import ManyGraphFit
from flyingsquid.estimate.balance import TaskBalance
from flyingsquid.estimate.expected import expected_tables, expected_units
from flyingsquid.estimate.many_graph import with_task_tables, with_units
from flyingsquid.estimate.refine import PASSES
from flyingsquid.infer import sum_product, with_own_evidence
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

_BY_PASSES = "by the labels of ten passes over the votes"


def refine_on_graph(
    fit: ManyGraphFit,
    votes: Votes,
    moments: Moments,
    sample_weight: NDArray[Any] | None,
    balance: TaskBalance,
    temper: float,
) -> ManyGraphFit:
    """Pass over the votes, starting from a fit.

    Parameters
    ----------
    moments : the counts that the fit was made of
    balance : what is given of the class balance stays as it is
    temper : the power that the evidence of other tasks is taken to
    """
    graph, n_classes = fit.graph, votes.n_classes
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    weights = np.ones(votes.n_items) if sample_weight is None else np.asarray(sample_weight, np.float64)
    for _ in range(PASSES):
        evidence = emissions_of(tasks, fit.tables, None, fit.balance, fit.units).evidence(votes.codes)
        posterior, _ = sum_product(temper * evidence, graph.task_tree, fit.task_tables)
        posterior = with_own_evidence(posterior, evidence, temper) * weights[:, None, None]
        as_voted = (posterior.sum(axis=0) + 1) / (weights.sum() + n_classes)
        settled = [
            given if isinstance(given, np.ndarray) else row
            for given, row in zip(balance.tasks, as_voted, strict=True)
        ]
        tables = expected_tables(votes.codes, posterior, graph)
        units = expected_units(votes.codes, posterior, graph, tables)
        fit = replace(fit, balance=np.stack(settled), tables=with_units(tables, units), units=units)
        # Not by the labels: those of neighbours share the errors that persist from task to task.
        fit = with_task_tables(fit, moments, as_voted, balance.joint)
    note = fit.balance_note if isinstance(balance.tasks[0], np.ndarray) else _BY_PASSES
    return replace(fit, method="refined", balance_note=note)
