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
_EVEN = "even, the default of the method"


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
    by_views = np.array([route == "views" for route in fit.routes])
    spared = np.array([route == "agreement" for route in fit.routes])
    kept = spared[list(graph.source_task)]
    given = isinstance(balance.tasks[0], np.ndarray)
    if spared.all():
        return replace(fit, method="agreement", balance_note=fit.balance_note if given else _EVEN)
    for _ in range(PASSES):
        evidence = emissions_of(tasks, fit.tables, None, fit.balance, fit.units).evidence(votes.codes)
        posterior, _ = sum_product(temper * evidence, graph._task_tree, fit.task_tables)
        posterior = with_own_evidence(posterior, evidence, temper) * weights[:, None, None]
        as_voted = (posterior.sum(axis=0) + 1) / (weights.sum() + n_classes)
        as_voted[spared] = fit.balance[spared]
        settled = [
            known if isinstance(known, np.ndarray) else row
            for known, row in zip(balance.tasks, as_voted, strict=True)
        ]
        tables = expected_tables(votes.codes, posterior, graph, by_views)
        tables[kept] = fit.tables[kept]
        units = expected_units(votes.codes, posterior, graph, tables, by_views)
        units = tuple(
            old if spared[graph.source_task[old.sources[0]]] else new
            for old, new in zip(fit.units, units, strict=True)
        )
        fit = replace(fit, balance=np.stack(settled), tables=with_units(tables, units), units=units)
        # Not by the labels: those of neighbours share the errors that persist from task to task.
        fit = with_task_tables(fit, moments, as_voted, balance.joint)
    return replace(fit, method="refined", balance_note=fit.balance_note if given else _BY_PASSES)
