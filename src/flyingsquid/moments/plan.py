"""Plans of counting: which pairs of sources and joint votes are counted, and whether they fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count
from flyingsquid.exceptions import GraphError, IncompatibleError, VotesError
from flyingsquid.graph import DependencyGraph

# Groups of sources on one task that suffice to estimate each other without help from other tasks.
_ENOUGH_GROUPS = 3


@dataclass(frozen=True, slots=True)
class CountPlan:
    """The pairs and joint votes that are counted, as sets of sources.

    All pairs inside a set are counted, which is one matrix product per set. Without a graph there is one set
    of all sources. A chain of D tasks has D - 1 sets of a fixed size, so counting is linear in D.

    Attributes
    ----------
    n_sources : int
    graph : DependencyGraph, or None for one task of independent sources
    pair_sets : tuple of tuples of int
        The sources of each set, ascending.
    task_sets : tuple of D int
        Number of the set that the sources of each task are estimated from.
    edge_sets : tuple of int
        Number of the set that holds both tasks of each task edge.
    units : tuple of tuples of int
        Dependent sources whose joint votes are counted.
    unit_sets : tuple of int
        Number of the set whose sources each unit is counted with.
    """

    n_sources: int
    graph: DependencyGraph | None
    pair_sets: tuple[tuple[int, ...], ...]
    task_sets: tuple[int, ...]
    edge_sets: tuple[int, ...] = ()
    units: tuple[tuple[int, ...], ...] = ()
    unit_sets: tuple[int, ...] = ()

    @classmethod
    @lru_cache
    def all_pairs(cls, n_sources: int) -> CountPlan:
        """Return the plan without a graph: one set of all sources."""
        return cls(n_sources, None, (tuple(range(n_sources)),), (0,))

    @classmethod
    def of(cls, graph: DependencyGraph) -> CountPlan:
        """Return the sets that a graph needs.

        A task with three groups of its own is estimated from them. One with fewer also needs the sources of
        its neighbors, and those of two adjacent neighbors.
        """
        if graph.is_trivial:
            return cls.all_pairs(graph.n_sources)
        sets: dict[tuple[int, ...], int] = {}
        homes = {}
        for task in range(graph.n_tasks):
            own, near = graph.sources_of(task), graph.neighbors(task)
            if len(set(graph._groups[list(own)].tolist())) < _ENOUGH_GROUPS or not near:
                columns = {*own, *(i for other in near for i in graph.sources_of(other))}
                homes[task] = sets.setdefault(tuple(sorted(columns)), len(sets))
        helped = set(homes)  # their sets hold all neighbors, so all their edges too
        edge_sets = []
        for edge in graph.task_edges:
            at = next((homes[task] for task in edge if task in helped), -1)
            if at < 0:
                columns = {i for task in edge for i in graph.sources_of(task)}
                at = sets.setdefault(tuple(sorted(columns)), len(sets))
            edge_sets.append(at)
            for task in edge:
                homes.setdefault(task, at)
        units = tuple(clique for tree in graph._units for clique in tree.cliques)
        unit_sets = tuple(homes[graph.source_task[unit[0]]] for unit in units)
        task_sets = tuple(homes[task] for task in range(graph.n_tasks))
        return cls(graph.n_sources, graph, tuple(sets), task_sets, tuple(edge_sets), units, unit_sets)

    @property
    def largest_set(self) -> int:
        """Number of sources in the largest set."""
        return max(len(sources) for sources in self.pair_sets)

    def positions(self, number: int, sources: tuple[int, ...]) -> tuple[int, ...]:
        """Return the positions of sources in a set that contains them."""
        return tuple(int(i) for i in np.searchsorted(self.pair_sets[number], sources))

    def set_with(self, sources: tuple[int, ...]) -> int:
        """Return the number of a set that holds all of some sources.

        Raises
        ------
        IncompatibleError
            If there is none.
        """
        for number in self._likely_sets(sources):
            if set(sources) <= set(self.pair_sets[number]):
                return number
        raise IncompatibleError(
            f"Pairs of the sources {', '.join(map(str, sources[:6]))} are not counted because the graph does "
            "not need them. Count the votes without a graph."
        )

    def _likely_sets(self, sources: tuple[int, ...]) -> list[int]:
        """Return numbers of sets, those that the graph assigns to the tasks of the sources first."""
        first: list[int] = []
        if self.graph is not None:
            tasks = tuple(sorted({self.graph.source_task[i] for i in sources}))
            if len(tasks) == 1:
                first.append(self.task_sets[tasks[0]])
            if tasks in self.graph.task_edges:
                first.append(self.edge_sets[self.graph.task_edges.index(tasks)])
            if sources in self.pair_sets:
                first.append(self.pair_sets.index(sources))
        return first + [number for number in range(len(self.pair_sets)) if number not in first]

    def shapes(self, n_classes: int) -> list[tuple[int, ...]]:
        """Return the shapes of the dense counts of all pair sets, then of all units."""
        k = n_classes
        shapes: list[tuple[int, ...]] = [(k, k, len(s), len(s)) for s in self.pair_sets]
        for unit, number in zip(self.units, self.unit_sets, strict=True):
            shapes.append(((k + 1) ** len(unit), 1 + k * len(self.pair_sets[number])))
        return shapes


# ---------------------------------------------------------------------- sizes


def are_pairs_sparse(n_sources: int, n_classes: int) -> bool:
    """Return whether counts of pairs are stored sparsely. It depends only on the shape."""
    return n_classes > 2 and (n_sources * n_classes) ** 2 * 8 > LIMITS.get().dense_pair_bytes


def check_plan_size(plan: CountPlan, n_classes: int) -> None:
    """Raise an error for counts that would not fit into memory."""
    limits, together = LIMITS.get(), 0
    for unit, number in zip(plan.units, plan.unit_sets, strict=True):
        states = (n_classes + 1) ** len(unit)
        size = states * (1 + n_classes * len(plan.pair_sets[number])) * 8
        if size > limits.unit_bytes:
            raise GraphError(
                f"Sources {', '.join(map(str, unit))} depend on each other, and their joint votes on "
                f"{n_classes:,} classes have {states:,} states; counting them would need {size / 1e9:,.0f} "
                "GB. Remove edges between them, or declare fewer classes."
            )
        together += size
    if together > limits.all_units_bytes:
        raise GraphError(
            f"{len(plan.units):,} groups of sources depend on each other; counting the joint votes of all of "
            f"them on {n_classes:,} classes would need {together / 1e9:,.0f} GB. Declare fewer edges, or "
            "fewer classes."
        )
    largest = plan.largest_set
    if are_pairs_sparse(largest, n_classes):
        return
    size = (largest * n_classes) ** 2 * 8
    if size > limits.pair_bytes:
        raise VotesError(
            f"Counts of all pairs of {largest:,} sources and {n_classes:,} classes would need "
            f"{size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use "
            "MajorityVote."
        )


def check_sequence_size(n_sources: int, n_classes: int) -> None:
    """Raise an error for counts of neighboring items that would not fit into memory."""
    size = (n_sources * n_classes) ** 2 * 8
    if size > LIMITS.get().pair_bytes:
        raise VotesError(
            f"Counts of neighboring items for {format_count(n_sources, 'source')} and {n_classes:,} classes "
            f"would need {size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use "
            "LabelModel."
        )


def check_frequencies(weights: NDArray[Any]) -> None:
    """Raise an error for weights that are probabilities instead of numbers of items."""
    total = float(weights.sum())
    if weights.dtype.kind == "f" and len(weights) > 1 and total < 1 + 1e-6:
        raise VotesError(
            f"`sample_weight` must sum to the number of items; got a sum of {total:g} for "
            f"{format_count(len(weights), 'item')}. Multiply probabilities by the number of items."
        )
