"""The part of the label model that fits tasks of two classes, on a graph or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._remarks import say
from flyingsquid.analysis import concerns, emissions_of
from flyingsquid.estimation import (
    GoldCounts,
    GraphFit,
    Options,
    UnitTable,
    accuracy_errors,
    fit_graph,
    persistence_of_errors,
    resolve_task_balance,
)
from flyingsquid.estimation.drawing import draw_around_task
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _options
from flyingsquid.models._graphs import edge_tables, excess_by_source
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel


def solve_binary(
    model: LabelModel,
    moments: Moments,
    gold: list[GoldCounts | None] | None,
    votes: Votes | None = None,
    weights: NDArray[Any] | None = None,
    *,
    independent: bool = False,
) -> None:
    """Fit the tasks of two classes, and keep what was found.

    ``independent`` says that the sources were seen to be so, for ``method="auto"``.
    """
    names = moments.source_names
    method, reason = model.method, ""
    if method == "auto" and independent:
        method, reason = "covariance", "the votes look independent given the truth"
    elif method == "auto":
        method, reason = "triplet_mean", "the mean over all triplets"
    options = Options(
        method=method,
        anchors=_options.read_anchors(model.signs, names),
        screen=model.screen,
        triplets=_options.read_triplets(model.triplets, names),
        cliques=model.cliques,
    )
    n_tasks = 1 if moments.graph is None else moments.graph.n_tasks
    balance = resolve_task_balance(model.class_balance, moments.classes, n_tasks)
    fit = fit_graph(moments, balance, options, votes=votes, sample_weight=weights, gold=gold)
    keep_binary(model, moments, fit, method, reason)
    model._gold = gold
    worth_a_look = concerns(fit, names)
    if worth_a_look:
        # Three frames up is the caller of fit, fit_moments or partial_fit.
        say(f"{worth_a_look}. See diagnostics_", stacklevel=4)


def keep_binary(model: LabelModel, moments: Moments, fit: GraphFit, method: str, reason: str) -> None:
    """Make the parameters of a fit those of the model."""
    graph = moments.graph or DependencyGraph(moments.n_sources)
    excess = excess_by_source([pair.excess for pair in fit.pairs], graph)
    persistence = persistence_of_errors(np.nan_to_num(excess), moments.coverage)
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_ = moments, graph
    model._tasks = graph.stacked_shape
    model._pending = None
    model._many = model._many_graph = model._opinion = model._passes = None
    model.coverage_ = np.minimum(moments.coverage, 1.0)
    mean_parameters = fit.gather([task.fit.mean_parameters for task in fit.tasks])
    share = np.divide(
        mean_parameters, model.coverage_, out=np.zeros_like(mean_parameters), where=model.coverage_ > 0
    )
    model.accuracies_ = np.clip((1 + share) / 2, 0.0, 1.0)
    tables = fit.gather([task.fit.tables for task in fit.tasks])
    for unit in fit.units:
        for source in unit.sources:
            # States of one source are no vote, class 0, class 1; here no vote is last.
            tables[source] = unit.margin((source,))[:, [1, 2, 0]]
    weights = fit.gather([task.fit.weights for task in fit.tasks])
    clique_tables = fit.tables if fit.graph is not None else (fit.balance[0],)
    keep_parameters(model, fit.balance, tables, weights, fit.units, clique_tables)
    model.excess_correlation_ = excess
    model.temper_ = _options.read_temper(model.temper, persistence)
    model._fit = fit
    model._interval = model._diagnostics = None
    # Options may be set anew after the fit; what belongs to the fit is kept with it.
    model._fitted_with = {
        "method": str(method),
        "reason": reason,
        "screen": float(model.screen),
        "by_hand": model.triplets is not None,
    }


def keep_parameters(
    model: LabelModel,
    balance: NDArray[np.float64],
    tables: NDArray[np.float64],
    weights: NDArray[np.float64],
    units: tuple[UnitTable, ...],
    clique_tables: tuple[NDArray[np.float64], ...],
) -> None:
    """What inference needs, from a fit or from a file; ``balance`` has shape (D, 2)."""
    graph = model.graph_
    model.class_balance_ = balance[0] if graph.n_tasks == 1 else balance
    model.confusion_, model._weights = tables, weights
    model._units, model._clique_tables = units, clique_tables
    model.task_tables_ = edge_tables(graph, clique_tables)
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    model._emissions = emissions_of(tasks, tables, weights, balance, units)


def errors_of_accuracies(model: LabelModel) -> NDArray[np.float64]:
    """Standard errors of ``accuracies_``, shape (m,)."""
    used, moments = model._fitted_with, model.moments_
    errors = [
        accuracy_errors(
            moments if moments.graph is None else moments.part(task.block, task.columns),
            task.fit,
            method=task.method,
            screen=used["screen"],
            by_hand=used["by_hand"],
            rows=draw_around_task(model._fit, number) if task.fit.conditional is not None else None,
        )
        for number, task in enumerate(model._fit.tasks)
    ]
    return model._fit.gather(errors)
