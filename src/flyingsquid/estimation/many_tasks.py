"""One task of K classes on a graph: its sources by three views, with those of its neighbours where needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import listed
from flyingsquid.estimation.agreement import agreement_tables
from flyingsquid.estimation.many import with_coverage
from flyingsquid.estimation.refine import Passes, refine
from flyingsquid.estimation.views import three_views
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
Route: TypeAlias = Literal["views", "em", "agreement"]
_ENOUGH_GROUPS = 3
# Passing over votes pays where an item has this many, as without a graph.
_VOTES_AN_ITEM = 2.5
_INSTEAD = 'use method="em", which then starts from agreement'


@dataclass(frozen=True, slots=True)
class TaskViews:
    """What is known of one task and the sources around it.

    Attributes
    ----------
    columns : tuple of b int
        The sources: those of the task, and those of its neighbours where they were asked.
    groups : integer array of shape (b,)
        Sources with equal numbers may depend on each other given the truth.
    tables : array of shape (b, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    route : "views", "em" or "agreement"
        Who judged it: three views, or the agreement of the task's sources, with passes over the votes or
        without.
    """

    columns: tuple[int, ...]
    groups: NDArray[np.intp]
    tables: Array
    balance: Array
    route: Route = "views"

    def tables_of(self, sources: tuple[int, ...]) -> Array:
        """The tables of some of the sources, in their order."""
        return self.tables[[self.columns.index(i) for i in sources]]


@dataclass(frozen=True, slots=True)
class _Place:
    """Sources around a task, and which of them may depend on each other given its truth."""

    columns: tuple[int, ...]
    groups: NDArray[np.intp]


def _places(votes: Votes, graph: DependencyGraph, task: int, voting: NDArray[np.bool_]) -> list[_Place]:
    """The task's own sources, then with those of its neighbours; either only if it has three groups."""
    own = graph.sources_of(task)
    places = [_Place(own, graph._groups[list(own)])]
    near = [i for other in graph.neighbors(task) for i in graph.sources_of(other)]
    if near:
        columns = tuple(sorted((*own, *near)))
        places.append(_Place(columns, graph._separated_by(task)[list(columns)]))
    sizes = [len(np.unique(place.groups[voting[list(place.columns)]])) for place in places]
    if max(sizes) < _ENOUGH_GROUPS:
        raise NotIdentifiableError(
            f"{_where(votes, graph, task)}: three groups of sources that are independent given the truth are "
            f"needed to judge {votes.n_classes} classes, and the graph leaves {max(sizes)}, neighbouring "
            "tasks included. Declare fewer edges, or add sources"
        )
    return [place for place, size in zip(places, sizes, strict=True) if size >= _ENOUGH_GROUPS]


def _where(votes: Votes, graph: DependencyGraph, task: int) -> str:
    own, names = graph.sources_of(task), votes.source_names
    shown = listed([names[i] for i in own], 5)
    return f"sources {shown}" if graph.n_tasks == 1 else f"task {task}, sources {shown}"


def fit_task(
    votes: Votes,
    sample_weight: NDArray[Any] | None,
    graph: DependencyGraph,
    task: int,
    voting: NDArray[np.bool_],
    *,
    method: str,
) -> TaskViews:
    """Three views of the task's own sources; where these do not suffice, with those of its neighbours.

    Where these do not tell the classes apart either: refused by ``method`` "decomposition"; by agreement with
    passes over the votes for "em"; for "em_if_dense" with passes only if there are votes enough.
    ``voting`` of shape (m,) are the sources that vote at all.
    """
    own = graph.sources_of(task)
    failure: NotIdentifiableError | None = None
    for place in _places(votes, graph, task, voting):
        inside = votes if len(place.columns) == votes.n_sources else votes.of_sources(place.columns)
        try:
            is_own = np.isin(place.columns, own)
            views = three_views(inside, sample_weight, place.groups, is_own, instead=_INSTEAD)
        except NotIdentifiableError as error:
            failure = failure or error
            continue
        silence = np.maximum(1 - views.tables.sum(axis=2, keepdims=True), 0.0)
        tables = np.concatenate([views.tables, silence], axis=2)
        return TaskViews(place.columns, place.groups, tables, views.balance)
    agreeing = None
    if method != "decomposition":
        agreeing = _by_agreement(votes, sample_weight, graph, task, voting, spare=method == "em_if_dense")
    if agreeing is None:
        raise NotIdentifiableError(f"{_where(votes, graph, task)}: {failure}") from failure
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
    """The task's own sources by what the others say; None where there is nobody to compare with.

    Few votes are not passed over if ``spare``: labels would then be what the balance says, and the balance
    what the labels say.
    """
    own = graph.sources_of(task)
    groups = graph._groups[list(own)]
    if len(np.unique(groups[voting[list(own)]])) < 2:
        return None
    inside = votes if len(own) == votes.n_sources else votes.of_sources(own)
    counts, n_classes = Moments.of(inside, sample_weight=sample_weight), votes.n_classes
    tables, balance = agreement_tables(counts), np.full(n_classes, 1 / n_classes)
    passed = not spare or _votes_around(votes, sample_weight, graph, task) >= _VOTES_AN_ITEM
    if passed:
        refined = refine(Passes(inside, sample_weight), tables, balance, learn_balance=True)
        tables, balance = refined.tables, refined.balance
    full = with_coverage(tables, counts)
    return TaskViews(own, groups, full, balance, "em" if passed else "agreement")


def _votes_around(
    votes: Votes, sample_weight: NDArray[Any] | None, graph: DependencyGraph, task: int
) -> float:
    """How many votes an item has on a task and its neighbours, on average."""
    around = [i for near in (task, *graph.neighbors(task)) for i in graph.sources_of(near)]
    cast = item_votes(votes.codes[:, around]).cast
    return float(np.average(cast, weights=sample_weight))
