"""The part of the label model that fits many classes on a dependency graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._remarks import say
from flyingsquid.analysis import concern_of_silence, emissions_of
from flyingsquid.estimation import ManyGraphFit, fit_many_graph, persistence_of_errors, resolve_task_balance
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.models import _options
from flyingsquid.models._auto import solve_opinion
from flyingsquid.models._graphs import edge_tables, excess_by_source
from flyingsquid.models._many_graph_passes import refine_on_graph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel


def solve_many_graph(
    model: LabelModel,
    moments: Moments,
    votes: Votes | None = None,
    weights: NDArray[Any] | None = None,
    gold: Any = None,
) -> None:
    """Fit and keep K classes on a graph.

    A learned graph on which three views refuse is left out with a warning, where the method is left open:
    on real rules such graphs lost points, and nobody asked for their edges.
    """
    if gold is not None:
        raise OptionError(
            "gold= has no part in fitting more than two classes on a graph; leave out one of the two"
        )
    if votes is None:
        raise OptionError(
            f"a graph with {moments.n_classes} classes is fitted by triples of votes, and only counts of "
            "pairs are at hand; call fit(votes)"
        )
    n_tasks = 1 if moments.graph is None else moments.graph.n_tasks
    balance = resolve_task_balance(model.class_balance, moments.classes, n_tasks)
    found = isinstance(model.graph, str) and model.method == "auto"  # nobody asked for these edges
    try:
        fit = fit_many_graph(
            votes, weights, moments, balance, method="decomposition" if found else model.method
        )
    except NotIdentifiableError as error:
        if not found:
            raise
        say(
            f"The learned dependencies are left out, because they leave too little to judge by: {error}",
            stacklevel=4,
        )
        solve_opinion(model, Moments.of(votes, sample_weight=weights), votes, weights)
        return
    temper = _options.read_temper(model.temper, _persistence(fit, moments))
    if model.method != "decomposition":
        fit = refine_on_graph(fit, votes, moments, weights, balance, temper)
        passed = model.method == "auto" and fit.method == "refined"
        chosen = ["three views and ten passes over the votes"] if passed else []
        fit = replace(fit, reason="; ".join([*chosen, *([fit.reason] if fit.reason else [])]))
    keep_many_graph(model, moments, fit, temper)
    worth_a_look = concern_of_silence(moments.source_names, fit.silent)
    if worth_a_look:
        say(f"{worth_a_look}. See diagnostics_", stacklevel=4)


def _persistence(fit: ManyGraphFit, moments: Moments) -> float:
    excess = excess_by_source(fit.excess, fit.graph)
    return persistence_of_errors(np.nan_to_num(excess), moments.coverage)


def keep_many_graph(model: LabelModel, moments: Moments, fit: ManyGraphFit, temper: float) -> None:
    """Make the parameters of a fit, or of a file, those of the model."""
    graph = fit.graph
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_ = moments, graph
    model._tasks, model._pending, model._gold = graph.stacked_shape, None, None
    model._many, model._opinion, model._many_graph = None, None, fit
    model.coverage_ = np.minimum(moments.coverage, 1.0)
    model.accuracies_, model.confusion_ = fit.accuracies, fit.tables
    model.class_balance_ = fit.balance[0] if graph.n_tasks == 1 else fit.balance
    model._units, model._clique_tables = fit.units, fit.task_tables
    model.task_tables_ = edge_tables(graph, fit.task_tables)
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    model._emissions = emissions_of(tasks, fit.tables, None, fit.balance, fit.units)
    model.excess_correlation_ = excess_by_source(fit.excess, graph)
    model.temper_ = temper
    model._interval, model._passes = np.full((graph.n_sources, 2), np.nan), None
    model._diagnostics = None
