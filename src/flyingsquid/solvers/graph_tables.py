"""Confusion tables on a dependency graph, for any number of classes: three views, then EM passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flyingsquid.estimation.agreement import PASSES
from flyingsquid.estimation.graph_moments import expected_tables, expected_units
from flyingsquid.estimation.graph_tables import ManyGraphFit, fit_many_graph, with_task_tables, with_units
from flyingsquid.estimation.transition import effective_row, persistence_of_errors
from flyingsquid.exceptions import OptionError
from flyingsquid.fits.concerns import silent_sources_concern
from flyingsquid.fits.graph import GraphFit, emissions_from_tables, excess_by_source
from flyingsquid.inference import sum_product, with_own_evidence
from flyingsquid.moments import ConfusionTables
from flyingsquid.solvers.base import FitData
from flyingsquid.votes import Votes

_BY_PASSES = "by the labels of ten passes over the votes"
_UNIFORM = "uniform, the default of the method"


def solve_tables_on_graph(data: FitData, start: str, *, passes: bool | None = None) -> GraphFit:
    """Fit K classes on a graph.

    Parameters
    ----------
    data : FitData
    start : {"decomposition", "em", "em_if_dense"}
        Start if three views fail on a task: the first raises an error, the others use agreement with EM
        passes, the last only if there are enough votes.
    passes : bool, optional
        Whether to make EM passes from there; by default unless ``start`` is "decomposition".
    """
    moments, balance = data.moments, data.balance
    if data.votes is None:
        raise OptionError(
            f"A graph with {moments.n_classes} classes needs the votes themselves, and only counts are "
            "available; call fit(votes)."
        )
    found = fit_many_graph(data.votes, data.weights, moments, balance, method=start)
    temper = _temper(found, data)
    reason = found.reason
    if start != "decomposition" if passes is None else passes:
        found = refine_on_graph(found, data.votes, data, temper)
    return GraphFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=found.method,
        reason=reason,
        balance_note=found.balance_note,
        class_balance=found.balance,
        accuracies=found.accuracies,
        confusion=ConfusionTables.of(found.tables),
        concerns=silent_sources_concern(moments),
        graph=found.graph,
        temper=temper,
        units=found.units,
        clique_tables=found.task_tables,
        silence_counts=True,
        edge_excess=found.excess,
        mismatch=found.mismatch,
    )


def _temper(found: ManyGraphFit, data: FitData) -> float:
    if data.temper is None:
        return 1.0
    if not isinstance(data.temper, str):
        return float(data.temper)
    by_source = np.nan_to_num(excess_by_source(found.excess, found.graph))
    return effective_row(persistence_of_errors(by_source, data.moments.coverage))


def refine_on_graph(fit: ManyGraphFit, votes: Votes, data: FitData, temper: float) -> ManyGraphFit:
    """Return the fit after EM passes over the votes, with other tasks' evidence tempered."""
    graph, n_classes, balance = fit.graph, votes.n_classes, data.balance
    weights = np.ones(votes.n_items) if data.weights is None else np.asarray(data.weights, np.float64)
    by_views = np.array([route == "views" for route in fit.routes])
    spared = np.array([route == "agreement" for route in fit.routes])
    kept = spared[list(graph.source_task)]
    given = isinstance(balance.tasks[0], np.ndarray)
    if spared.all():
        return replace(fit, method="agreement", balance_note=fit.balance_note if given else _UNIFORM)
    for _ in range(PASSES):
        emissions = emissions_from_tables(graph, fit.tables, fit.balance, fit.units, silence_counts=True)
        evidence = emissions.evidence(votes.codes)
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
        # Not from the labels, because those of neighbors share the errors that persist from task to task.
        fit = with_task_tables(fit, data.moments, as_voted, balance.joint)
    return replace(fit, method="em", balance_note=fit.balance_note if given else _BY_PASSES)
