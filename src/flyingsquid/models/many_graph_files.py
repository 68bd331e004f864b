"""Fitted models of many classes on graphs, as plain states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation import ManyGraphFit
from flyingsquid.estimation.many_tasks import Route
from flyingsquid.exceptions import ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State
from flyingsquid.models._graphs import flat_tables, read_task_tables, read_temper, read_units
from flyingsquid.models._many_graph import keep_many_graph
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.many_files import counts_in, silent_and_one_sided
from flyingsquid.moments.files import to_state as counts_to_state

KIND = "LabelModel.many_graph"


def to_state(model: LabelModel, options: dict[str, Any]) -> State:
    """Arrays and JSON that hold everything."""
    fit, counts = model._many_graph, counts_to_state(model.moments_)
    if fit is None:  # the caller knows; the type does not
        raise ModelFileError("the model has two classes, or no graph")
    meta = {
        "options": options,
        "counts": counts.meta,
        "method": fit.method,
        "routes": list(fit.routes),
        "reason": fit.reason,
        "balance_note": fit.balance_note,
        "temper": model.temper_,
        "mismatch": fit.mismatch,
    }
    arrays = {
        "class_balance": fit.balance,
        "confusion": fit.tables,
        "unit_tables": flat_tables([unit.table for unit in fit.units]),
        "task_tables": flat_tables(fit.task_tables),
        "excess": _excess_array(fit.excess, model.graph_),
    }
    return State(KIND, meta, {**counts.arrays, **arrays})


def from_state(state: State, options: dict[str, Any]) -> LabelModel:
    """A fitted model; refused where its parts do not agree."""
    moments = counts_in(state)
    graph, temper = moments.graph, read_temper(state.meta["temper"])
    if graph is None:
        raise ModelFileError("the counts in the file are of no graph")
    balance, tables = state.arrays["class_balance"], state.arrays["confusion"]
    m, k, n_tasks = moments.n_sources, moments.n_classes, graph.n_tasks
    fits = (
        balance.shape == (n_tasks, k)
        and tables.shape == (m, k, k + 1)
        and {str(balance.dtype), str(tables.dtype)} == {"float64"}
        and bool((balance > 0).all() and np.abs(balance.sum(axis=1) - 1).max() < 1e-9)
        and bool((tables >= 0).all() and np.abs(tables.sum(axis=2) - 1).max() < 1e-6)
    )
    if not fits:
        raise ModelFileError("the tables in the file are no probabilities, or do not fit its counts")
    fit = ManyGraphFit(
        graph,
        balance,
        str(state.meta["balance_note"]),
        tables,
        read_units(state.arrays["unit_tables"], graph, k),
        read_task_tables(state.arrays["task_tables"], graph, balance),
        float(state.meta["mismatch"]),
        _read_excess(state.arrays["excess"], graph),
        _read_routes(state.meta["routes"], n_tasks),
        str(state.meta["method"]),
        str(state.meta["reason"]),
        *silent_and_one_sided(moments),
    )
    model = LabelModel(graph, **options)
    model._check_options()
    keep_many_graph(model, moments, fit, temper)
    return model


def _read_routes(routes: Any, n_tasks: int) -> tuple[Route, ...]:
    if len(routes) != n_tasks or not set(routes) <= set(get_args(Route)):
        raise ModelFileError("the file does not say how each of its tasks was judged")
    return tuple(routes)


def _per_edge(graph: DependencyGraph) -> int:
    return 0 if graph.stacked_shape is None or not graph.task_edges else graph.stacked_shape[1]


def _excess_array(excess: Sequence[NDArray[np.float64]], graph: DependencyGraph) -> NDArray[np.float64]:
    """One row a task edge, also where there is none."""
    return np.array(excess, np.float64).reshape(len(graph.task_edges), _per_edge(graph))


def _read_excess(excess: NDArray[Any], graph: DependencyGraph) -> tuple[NDArray[np.float64], ...]:
    """Persistence of errors across every task edge, one number a detector."""
    known = np.nan_to_num(excess)
    if excess.shape != (len(graph.task_edges), _per_edge(graph)) or not (np.abs(known) <= 1).all():
        raise ModelFileError("correlations of errors in the file exceed 1, or do not fit the graph")
    return tuple(np.asarray(row, np.float64) for row in excess)
