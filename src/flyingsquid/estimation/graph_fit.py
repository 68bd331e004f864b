"""Fit on a dependency graph: each task separately, then units of dependent sources, then all tasks.

Each task is a small problem: its sources, and those of its neighbors if its own are too few. So the fit is
linear in the number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list
from flyingsquid.estimation.balance import TaskBalance
from flyingsquid.estimation.binary import (
    BinaryTasks,
    Evidence,
    TaskFit,
    check_unused_options,
    fit_binary,
    is_imbalanced,
)
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.estimation.proportional import tables_of_tasks
from flyingsquid.estimation.sources import Separation, SignedMoments
from flyingsquid.estimation.standard_errors import pool_tables, with_gold
from flyingsquid.estimation.transition import TaskPair, pair_of_tasks
from flyingsquid.estimation.triplets import SYMMETRIC, Options, triplet_pairs
from flyingsquid.estimation.units import (
    UnitCounts,
    UnitTable,
    by_linear_system,
    by_outside_sources,
    reconcile_units,
    unit_table,
)
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

Array = NDArray[np.float64]


def fit_graph(
    moments: Moments,
    balance: TaskBalance,
    options: Options,
    *,
    votes: Votes | None = None,
    sample_weight: NDArray[Any] | None = None,
    gold: Sequence[GoldCounts | None] | None = None,
) -> BinaryTasks:
    """Estimate every task, every unit of dependent sources, and the dependence between tasks.

    Parameters
    ----------
    moments : Moments of two classes, counted for the graph
    balance : TaskBalance
        The class balance of each task, if it was given.
    votes, sample_weight : Votes and array of shape (n,), or None
        The votes that were counted, if they are available.
    gold : sequence of GoldCounts, or None
        For each task, the votes of the sources of its block on gold labels.
    """
    graph = moments.graph
    if graph is None:
        raise GraphError("`moments` must be counted for the graph, by Moments.of(votes, graph).")
    n_tasks = graph.n_tasks
    tasks = []
    for task in range(n_tasks):
        known = None if gold is None else gold[task]
        try:
            local = _locate(moments, graph, task, options, balance, known)
            tasks.append(_fit_task(moments, local, balance.tasks[task], options, votes, sample_weight, known))
        except NotIdentifiableError as error:
            raise error if n_tasks == 1 else NotIdentifiableError(f"Task {task}: {error}") from error
    _require_valid_triplets(moments, graph, tasks, options)
    units = _fit_units(moments, graph, tasks, options, gold)
    pairs = _fit_pairs(moments, graph, tasks)
    balances = np.stack([task.fit.balance for task in tasks])
    found = tables_of_tasks(graph, pairs, balances, balance.joint)
    return BinaryTasks(graph, tuple(tasks), units, pairs, found.tables, found.mismatch)


@dataclass(frozen=True, slots=True)
class _Place:
    around: tuple[int, ...]
    columns: tuple[int, ...]
    own: tuple[int, ...]
    separation: Separation
    method: str


def _locate(
    moments: Moments,
    graph: DependencyGraph,
    task: int,
    options: Options,
    balance: TaskBalance,
    gold: GoldCounts | None,
) -> _Place:
    """Return the sources that are used to estimate a task, and their relations given its truth."""
    method, around = options.method, moments.sources_around(task)
    voting = np.asarray(moments.vote_counts.sum(axis=1) > 0)
    own = graph.sources_of(task)
    groups, votes = graph._groups[list(own)], voting[list(own)]
    if len(np.unique(groups[votes])) < 3 and method != "marginal":
        columns = np.array(around)
        separated = graph._separated_by(task)[columns]
        n_groups = len(np.unique(separated[voting[columns]]))
        if n_groups >= 3:
            numbers = np.unique(separated, return_inverse=True)[1]
            return _Place(around, around, own, Separation(numbers, np.isin(columns, own)), method)
        # With one or two groups, an imbalanced class balance replaces the third.
        if method not in SYMMETRIC or not (gold is not None or is_imbalanced(balance.tasks[task])):
            _refuse_few_groups(moments, own, n_groups, method)
        method = "marginal"
        check_unused_options(moments, own, options)
    numbers = np.unique(groups, return_inverse=True)[1]
    return _Place(around, own, own, Separation(numbers, np.ones(len(own), np.bool_)), method)


def _refuse_few_groups(moments: Moments, own: tuple[int, ...], n_groups: int, method: str) -> NoReturn:
    shown = format_list([moments.source_names[i] for i in own], 5)
    instead = "Declare fewer edges, or add sources"
    if method in SYMMETRIC:
        instead += "; or pass an imbalanced `class_balance`, which can replace the third"
    raise NotIdentifiableError(
        "`graph` must leave at least three groups of sources that are independent given the truth to "
        f"estimate {shown}; got {n_groups}, including neighboring tasks. {instead}."
    )


def _require_valid_triplets(
    moments: Moments, graph: DependencyGraph, tasks: Sequence[TaskFit], options: Options
) -> None:
    """Raise OptionError for a triplet that no task can use."""
    for triplet in options.triplets or ():
        around = [tasks[task] for task in {graph.source_task[i] for i in triplet}]
        for place in around:
            at = [place.columns.index(i) for i in triplet if i in place.columns]
            if len(at) == 3 and len(set(place.fit.separation.groups[at].tolist())) == 3:
                break
        else:
            names = ", ".join(repr(moments.source_names[i]) for i in triplet)
            raise OptionError(
                "`triplets` must name sources that are independent given the truth of one task; got "
                f"({names}), of which two depend on each other or are on tasks that are not neighbors."
            )


def _fit_task(
    moments: Moments,
    place: _Place,
    balance: Any,
    options: Options,
    votes: Votes | None,
    sample_weight: NDArray[Any] | None,
    gold: GoldCounts | None,
) -> TaskFit:
    whole = len(place.columns) == moments.n_sources
    at = {source: position for position, source in enumerate(place.columns)}
    inside = list(np.searchsorted(place.around, place.columns))
    evidence = Evidence(
        moments.select(place.columns),
        votes if votes is None or whole else votes.of_sources(place.columns),
        sample_weight,
        None if gold is None else gold.of_sources(inside),
        place.separation,
    )
    triplets = None
    if options.triplets is not None and place.method == options.method:
        triplets = [(at[i], at[j], at[k]) for i, j, k in options.triplets if {i, j, k} <= set(at)]
    anchors = {at[i]: sign for i, sign in options.anchors.items() if i in place.own}
    own = replace(options, method=place.method, anchors=anchors, triplets=triplets)
    fit = fit_binary(evidence, balance, own)
    fit = with_gold(fit, evidence, method=place.method, screen=options.screen)
    return TaskFit(place.columns, place.own, place.method, fit)


def _fit_units(
    moments: Moments,
    graph: DependencyGraph,
    tasks: Sequence[TaskFit],
    options: Options,
    gold: Sequence[GoldCounts | None] | None,
) -> tuple[UnitTable, ...]:
    separators = [separator for tree in graph._units for separator in tree.separators]
    found: list[UnitTable] = []
    seen = [0] * graph.n_tasks
    for votes, separator in zip(moments.unit_votes(), separators, strict=True):
        unit = votes.sources
        number = graph.source_task[unit[0]]
        task, known = tasks[number], None if gold is None else gold[number]
        fit, at = task.fit, np.searchsorted(task.columns, unit)
        counts = UnitCounts.of(votes.counts, moments.n_items, votes.positions(task.columns), 2)
        try:
            if options.cliques == "linear":
                part = moments.select(task.columns)
                pairs = triplet_pairs(part, SignedMoments.of(part), fit.flags, fit.separation, options.screen)
                joint = by_linear_system(counts, at, fit, pairs)
            else:
                joint = by_outside_sources(counts, int(fit.separation.groups[at[0]]), fit)
        except NotIdentifiableError as error:
            names = ", ".join(repr(moments.source_names[i]) for i in unit)
            raise NotIdentifiableError(f"Sources {names}: {error}") from error
        solved = unit_table(
            unit,
            separator,
            joint,
            counts,
            fit.tables[at],
            fit.balance,
            abstention_counts=fit.conditional is not None,
            shrunk=options.cliques != "linear",
        )
        if known is not None and task.fit.worth is not None:
            worth = task.fit.worth[at].min(axis=0)
            table = pool_tables(solved.table, worth, known.units[seen[number]])
            solved = replace(solved, table=table)
        seen[number] += 1
        found.append(solved)
    return reconcile_units(found)


def _fit_pairs(moments: Moments, graph: DependencyGraph, tasks: Sequence[TaskFit]) -> tuple[TaskPair, ...]:
    pairs = []
    # If all tasks have the same number of sources, numbered task by task, sources at equal positions are one
    # detector.
    same = graph.stacked_shape is not None
    for a, b in graph.task_edges:
        first, second = tasks[a], tasks[b]
        pairs.append(
            pair_of_tasks(
                moments.select(first.own + second.own),
                (first.estimated_slopes, second.estimated_slopes),
                (first.fit.balance, second.fit.balance),
                same_detectors=same,
            )
        )
    return tuple(pairs)
