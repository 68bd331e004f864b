"""Fit of K classes on a dependency graph: three views for every task, then units, then task edges.

The sources of a task, with those of its neighbors if its own are too few, are divided into three views;
sources that may depend on each other stay in one. The remaining steps are linear in the counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list
from flyingsquid.estimation.agreement import PRIOR_VOTES, EMVotes, agreement_tables, prior_table, refine
from flyingsquid.estimation.balance import TaskBalance
from flyingsquid.estimation.confusion import three_views, with_coverage
from flyingsquid.estimation.proportional import tables_of_tasks
from flyingsquid.estimation.transition import MOST_CLASSES, pair_of_many
from flyingsquid.estimation.units import (
    Instruments,
    UnitCounts,
    UnitTable,
    by_instruments,
    ignore_abstention,
    reconcile_units,
    unit_table,
    with_units,
)
from flyingsquid.exceptions import GraphError, NotIdentifiableError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Codes, dense_codes
from flyingsquid.votes.patterns import all_patterns, packed_chunks
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
Route: TypeAlias = Literal["views", "em", "agreement"]
_ENOUGH_GROUPS = 3
# EM passes improve the tables if items have at least this many votes on average, as without a graph.
_VOTES_PER_ITEM = 2.5
_INSTEAD = 'use method="em", which then starts from agreement'


@dataclass(frozen=True, slots=True)
class TaskViews:
    """Parameters of one task and the sources around it.

    Attributes
    ----------
    columns : tuple of b int
        The sources of the task, and those of its neighbors if they were used.
    groups : integer array of shape (b,)
        Sources with equal numbers may depend on each other given the truth.
    tables : array of shape (b, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    route : "views", "em" or "agreement"
        How it was estimated: by three views, or by the agreement of its sources, with or without EM passes.
    """

    columns: tuple[int, ...]
    groups: NDArray[np.intp]
    tables: Array
    balance: Array
    route: Route = "views"

    def tables_of(self, sources: tuple[int, ...]) -> Array:
        """Return the tables of some of the sources, in the given order."""
        return self.tables[[self.columns.index(i) for i in sources]]


def _list_places(
    votes: Votes, graph: DependencyGraph, task: int, voting: NDArray[np.bool_]
) -> list[tuple[tuple[int, ...], NDArray[np.intp]]]:
    """Return the sources of the task, then those with its neighbors; each only if it has three groups.

    Each is a pair of sources and their groups, which may depend on each other given the truth of the task.
    """
    own = graph.sources_of(task)
    places = [(own, graph._groups[list(own)])]
    near = [i for other in graph.neighbors(task) for i in graph.sources_of(other)]
    if near:
        columns = tuple(sorted((*own, *near)))
        places.append((columns, graph._separated_by(task)[list(columns)]))
    sizes = [len(np.unique(groups[voting[list(columns)]])) for columns, groups in places]
    if max(sizes) < _ENOUGH_GROUPS:
        raise NotIdentifiableError(
            f"{_format_location(votes, graph, task)}: `graph` must leave at least three groups of sources "
            f"that are independent given the truth; got {max(sizes)}, including neighboring tasks. Declare "
            "fewer edges, or add sources."
        )
    return [place for place, size in zip(places, sizes, strict=True) if size >= _ENOUGH_GROUPS]


def _format_location(votes: Votes, graph: DependencyGraph, task: int) -> str:
    own, names = graph.sources_of(task), votes.source_names
    shown = format_list([names[i] for i in own], 5)
    return f"Sources {shown}" if graph.n_tasks == 1 else f"Task {task}, sources {shown}"


def fit_task(
    votes: Votes,
    sample_weight: NDArray[Any] | None,
    graph: DependencyGraph,
    task: int,
    voting: NDArray[np.bool_],
    *,
    method: str,
) -> TaskViews:
    """Fit three views of the sources of a task, and of its neighbors if its own do not suffice.

    If these do not distinguish the classes either, ``method`` "decomposition" raises an error, "em" uses
    agreement and EM passes, and "em_if_dense" makes passes only if there are enough votes. ``voting`` of
    shape (m,) is a mask of the sources that vote.
    """
    own = graph.sources_of(task)
    failure: NotIdentifiableError | None = None
    for columns, groups in _list_places(votes, graph, task, voting):
        inside = votes if len(columns) == votes.n_sources else votes.of_sources(columns)
        try:
            views = three_views(inside, sample_weight, groups, np.isin(columns, own), instead=_INSTEAD)
        except NotIdentifiableError as error:
            failure = failure or error
            continue
        return TaskViews(columns, groups, views.tables, views.balance)
    agreeing = None
    if method != "decomposition":
        agreeing = _by_agreement(votes, sample_weight, graph, task, voting, spare=method == "em_if_dense")
    if agreeing is None:
        raise NotIdentifiableError(f"{_format_location(votes, graph, task)}: {failure}") from failure
    return agreeing


def _by_agreement(
    votes: Votes,
    sample_weight: NDArray[Any] | None,
    graph: DependencyGraph,
    task: int,
    voting: NDArray[np.bool_],
    *,
    spare: bool,
) -> TaskViews | None:
    """Estimate the sources of a task by agreement with each other; None if nothing can be compared.

    With ``spare``, there are no EM passes over few votes, because labels and balance would only reinforce
    each other.
    """
    own = graph.sources_of(task)
    groups = graph._groups[list(own)]
    if len(np.unique(groups[voting[list(own)]])) < 2:
        return None
    inside = votes if len(own) == votes.n_sources else votes.of_sources(own)
    counts, n_classes = Moments.of(inside, sample_weight=sample_weight), votes.n_classes
    tables, balance = agreement_tables(counts), np.full(n_classes, 1 / n_classes)
    passed = not spare or _votes_around(votes, sample_weight, graph, task) >= _VOTES_PER_ITEM
    if passed:
        refined = refine(EMVotes(inside, sample_weight), tables, balance, learn_balance=True)
        tables, balance = refined.tables, refined.balance
    full = with_coverage(tables, counts)
    return TaskViews(own, groups, full, balance, "em" if passed else "agreement")


def _votes_around(
    votes: Votes, sample_weight: NDArray[Any] | None, graph: DependencyGraph, task: int
) -> float:
    """Return the mean number of votes per item on a task and its neighbors."""
    around = [i for near in (task, *graph.neighbors(task)) for i in graph.sources_of(near)]
    n_votes = item_votes(votes.codes[:, around]).n_votes
    return float(np.average(n_votes, weights=sample_weight))


# Largest number of cells of a clique of tasks; every item needs a table of that size.
_MOST_CELLS = 1 << 15


@dataclass(frozen=True, slots=True)
class ManyGraphFit:
    """Parameters of D tasks with K classes each.

    Attributes
    ----------
    graph : DependencyGraph
    balance : array of shape (D, K)
    balance_note : str
        Origin of the balance, for messages.
    tables : array of shape (m, K, K + 1)
        P(vote = v | Y = k) of each source and its task, no vote last.
    units : tuple of UnitTable
        Every clique of dependent sources, after the one it shares sources with.
    task_tables : tuple of arrays of shape (K,) * c, one for each clique of ``graph._task_tree``
        P(Y_C).
    mismatch : float
        The largest difference between ``task_tables`` and the estimated pairs, which may contradict each
        other.
    excess : tuple of arrays, one per task edge
        For each detector, the persistence of its errors across the edge; empty if there are no detectors.
    routes : tuple of D "views", "em" or "agreement"
        How each task was estimated: by three views, which also use missing votes; or by the agreement of its
        sources, with or without EM passes, which ignores missing votes.
    method : str
        The method that was used.
    reason : str
        Why it was chosen, and other remarks on the fit.
    silent : mask of shape (m,)
        Sources that never vote.
    """

    graph: DependencyGraph
    balance: Array
    balance_note: str
    tables: Array
    units: tuple[UnitTable, ...]
    task_tables: tuple[Array, ...]
    mismatch: float
    excess: tuple[Array, ...]
    routes: tuple[Route, ...]
    method: str
    reason: str
    silent: NDArray[np.bool_]

    @property
    def accuracies(self) -> Array:
        """P(vote is right | source votes), shape (m,); one half for sources that never vote."""
        votes = self.balance[list(self.graph.source_task), :, None] * self.tables[:, :, :-1]
        n_votes = votes.sum(axis=(1, 2))
        right = np.einsum("mkk->m", votes)
        return np.divide(right, n_votes, out=np.full(len(n_votes), 0.5), where=(n_votes > 0) & ~self.silent)


def fit_many_graph(
    votes: Votes,
    sample_weight: NDArray[Any] | None,
    moments: Moments,
    balance: TaskBalance,
    *,
    method: str,
) -> ManyGraphFit:
    """Estimate every task, every unit of dependent sources, and the dependence between tasks.

    Parameters
    ----------
    votes, sample_weight : Votes and array of shape (n,)
        The votes that were counted.
    moments : Moments of K classes, counted for the graph
    balance : TaskBalance
        The class balance of each task, if it was given.
    method : "decomposition", "em" or "em_if_dense"
        If three views fail, the first raises an error. The others then estimate the task by the agreement of
        its sources and EM passes; "em_if_dense" makes passes only if there are enough votes.

    Raises
    ------
    NotIdentifiableError
        If a task has fewer than three groups of separated sources; for "decomposition" also if three views do
        not distinguish all classes.
    """
    graph = moments.graph
    if graph is None:
        raise GraphError("`moments` must be counted for the graph, by Moments.of(votes, graph).")
    require_few_cells(graph, moments.n_classes)
    silent = np.asarray(moments.vote_counts).sum(axis=1) == 0
    tasks = [
        fit_task(votes, sample_weight, graph, task, ~silent, method=method) for task in range(graph.n_tasks)
    ]
    given = [row if isinstance(row, np.ndarray) else None for row in balance.tasks]
    settled = [task.balance if row is None else row for task, row in zip(tasks, given, strict=True)]
    units = _fit_units(moments, graph, tasks, ~silent)
    tables = np.empty((graph.n_sources, moments.n_classes, moments.n_classes + 1))
    for number, task in enumerate(tasks):
        own = graph.sources_of(number)
        tables[list(own)] = task.tables_of(own)
    fit = ManyGraphFit(
        graph,
        np.stack(settled),
        "as given" if given[0] is not None else "by three views",
        with_units(tables, units),
        units,
        (),
        0.0,
        (),
        tuple(task.route for task in tasks),
        "decomposition",
        _describe_fallbacks(tasks),
        silent,
    )
    return with_task_tables(fit, moments, np.stack([task.balance for task in tasks]), balance.joint)


def with_task_tables(
    fit: ManyGraphFit, moments: Moments, as_voted: Array, joint: Array | None
) -> ManyGraphFit:
    """Add the dependence between tasks to a fit of their sources.

    Parameters
    ----------
    as_voted : array of shape (D, K)
        P(Y_d = k) as estimated from the votes; ``fit.balance`` may have been given.
    joint : array of shape (K,) * D, or None
        P(Y), if it was given.
    """
    graph = fit.graph
    instruments = [
        Instruments.of(fit.tables[list(graph.sources_of(task))], as_voted[task])
        for task in range(graph.n_tasks)
    ]
    pairs = [
        pair_of_many(
            moments.select(graph.sources_of(a) + graph.sources_of(b)),
            (instruments[a], instruments[b]),
            (as_voted[a], as_voted[b]),
            (fit.balance[a], fit.balance[b]),
            # If all tasks have the same number of sources, numbered task by task, sources at equal positions
            # are one detector.
            same_detectors=graph.stacked_shape is not None,
        )
        for a, b in graph.task_edges
    ]
    found = tables_of_tasks(graph, pairs, fit.balance, joint)
    excess = tuple(pair.excess for pair in pairs)
    return replace(fit, excess=excess, task_tables=found.tables, mismatch=found.mismatch)


def _describe_fallbacks(tasks: list[TaskViews]) -> str:
    """Describe the tasks that three views could not estimate."""
    notes = []
    for route, words in (("em", ""), ("agreement", ", with too few votes for EM passes")):
        named = [str(number) for number, task in enumerate(tasks) if task.route == route]
        if named:
            notes.append(f"by agreement because three views do not suffice{words}: task {', '.join(named)}")
    return "; ".join(notes)


def require_few_cells(graph: DependencyGraph, n_classes: int) -> None:
    """Raise GraphError if the tables of the tasks would be too large for K classes."""
    if graph.task_edges and n_classes > MOST_CLASSES:
        raise GraphError(
            f"`task_edges` are supported for at most {MOST_CLASSES} classes; got {n_classes}. Fit the "
            "tasks one by one."
        )
    width = graph._task_tree.width
    if n_classes ** (width + 1) > _MOST_CELLS:
        raise GraphError(
            f"`task_edges` must have a smaller treewidth for {n_classes} classes; got {width}, so that "
            f"every item needs tables of {n_classes}^{width + 1} cells (at most {_MOST_CELLS:,}). Use a "
            "smaller grid, or fewer task edges."
        )


def _fit_units(
    moments: Moments, graph: DependencyGraph, tasks: list[TaskViews], voting: NDArray[np.bool_]
) -> tuple[UnitTable, ...]:
    separators = [separator for tree in graph._units for separator in tree.separators]
    found = []
    for votes, separator in zip(moments.unit_votes(), separators, strict=True):
        unit, task = votes.sources, tasks[graph.source_task[votes.sources[0]]]
        balance, group = task.balance, task.groups[task.columns.index(unit[0])]
        counted = set(votes.counted_with)
        outside = tuple(
            source
            for source, number in zip(task.columns, task.groups, strict=True)
            if number != group and voting[source] and source in counted
        )
        counts = UnitCounts.of(votes.counts, moments.n_items, votes.positions(outside), moments.n_classes)
        joint = by_instruments(counts, balance, Instruments.of(task.tables_of(outside), balance))
        single, by_views = task.tables_of(unit), task.route == "views"
        solved = unit_table(unit, separator, joint, counts, single, balance, abstention_counts=by_views)
        found.append(solved)
    return reconcile_units(found)


# ---------------------------------------------------------------------- tables given labels


_TINY = 1e-300


def expected_tables(
    codes: Codes, posterior: Array, graph: DependencyGraph, abstention_counts: NDArray[np.bool_]
) -> Array:
    """Return P(vote = v | Y = k) of every source, shape (m, K, K + 1), no vote last.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    posterior : array of shape (n, D, K)
        P(Y_d = k | votes), times how often the item counts.
    abstention_counts : mask of shape (D,)
        Tasks whose truth may affect the coverage of a source.
    """
    n_classes = posterior.shape[2]
    tables = np.empty((graph.n_sources, n_classes, n_classes + 1))
    total = posterior.sum(axis=0)
    prior = prior_table(n_classes)
    for task in range(graph.n_tasks):
        own = list(graph.sources_of(task))
        columns = dense_codes(codes[:, own])
        votes = np.stack([(columns == vote).T @ posterior[:, task] for vote in range(n_classes)], axis=2)
        coverage = np.minimum(votes.sum(axis=(1, 2)) / total[task].sum(), 1.0)
        silent = np.maximum(total[task] - votes.sum(axis=2), 0.0)
        silent += PRIOR_VOTES * (1 - coverage[:, None])
        votes = votes + PRIOR_VOTES * coverage[:, None, None] * prior
        if not abstention_counts[task]:
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
    abstention_counts: NDArray[np.bool_],
) -> tuple[UnitTable, ...]:
    """Return P(joint votes | Y = k) of every unit; ``tables`` (m, K, K + 1) are those of single sources.

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
            found.append(unit if abstention_counts[task] else ignore_abstention(unit, balance[task]))
    return reconcile_units(found)
