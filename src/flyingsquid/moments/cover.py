"""Which pairs of sources are counted: a cover of the pairs that a graph needs, by blocks of columns.

Blocks rather than a list of pairs, because a block is one matrix product and a list of pairs is none.
Without a graph there is one block of all sources. A chain of D tasks has D - 1 blocks of a fixed size,
so counting is linear in D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyingsquid.graph import DependencyGraph

# Groups of sources on one task that suffice to judge each other, without help from other tasks.
_ENOUGH_GROUPS = 3


@dataclass(frozen=True, slots=True)
class Cover:
    """What is counted.

    Attributes
    ----------
    n_sources : int
    graph : DependencyGraph, or None for one task of independent sources
    blocks : tuple of tuples of int
        The sources of each block, ascending; all pairs inside a block are counted.
    homes : tuple of D int
        The block that judges the sources of each task.
    edge_blocks : tuple of int
        The block that holds both tasks of each task edge.
    units : tuple of tuples of int
        Dependent sources whose joint votes are counted.
    unit_blocks : tuple of int
        The block whose sources each unit is counted with.
    """

    n_sources: int
    graph: DependencyGraph | None
    blocks: tuple[tuple[int, ...], ...]
    homes: tuple[int, ...]
    edge_blocks: tuple[int, ...] = ()
    units: tuple[tuple[int, ...], ...] = ()
    unit_blocks: tuple[int, ...] = ()

    @classmethod
    def everything(cls, n_sources: int) -> Cover:
        """One block of all sources."""
        return cls(n_sources, None, (tuple(range(n_sources)),), (0,))

    @classmethod
    def of(cls, graph: DependencyGraph) -> Cover:
        """The blocks that a graph needs.

        A task with three groups of its own is judged by them. One with fewer also needs the sources of
        its neighbours, and those of two neighbours beside each other.
        """
        if graph.is_trivial:
            return cls.everything(graph.n_sources)
        blocks: dict[tuple[int, ...], int] = {}
        homes = {}
        for task in range(graph.n_tasks):
            own, near = graph.sources_of(task), graph.neighbors(task)
            if len(set(graph._groups[list(own)].tolist())) < _ENOUGH_GROUPS or not near:
                columns = {*own, *(i for other in near for i in graph.sources_of(other))}
                homes[task] = blocks.setdefault(tuple(sorted(columns)), len(blocks))
        helped = set(homes)  # their blocks hold all neighbours, so all their edges too
        edge_blocks = []
        for edge in graph.task_edges:
            at = next((homes[task] for task in edge if task in helped), -1)
            if at < 0:
                columns = {i for task in edge for i in graph.sources_of(task)}
                at = blocks.setdefault(tuple(sorted(columns)), len(blocks))
            edge_blocks.append(at)
            for task in edge:
                homes.setdefault(task, at)
        units = tuple(clique for tree in graph._units for clique in tree.cliques)
        unit_blocks = tuple(homes[graph.source_task[unit[0]]] for unit in units)
        ordered = tuple(homes[task] for task in range(graph.n_tasks))
        return cls(graph.n_sources, graph, tuple(blocks), ordered, tuple(edge_blocks), units, unit_blocks)

    def positions(self, block: int, sources: tuple[int, ...]) -> tuple[int, ...]:
        """Where sources stand in a block."""
        found = np.searchsorted(self.blocks[block], sources)
        return tuple(int(i) for i in found)
