"""Dependency graph: the task of each source, and edges between sources and between tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, is_integer
from flyingsquid.exceptions import GraphError
from flyingsquid.graph.drawing import to_svg
from flyingsquid.graph.junction import (
    Elimination,
    JunctionTree,
    adjacency,
    components,
    consecutive,
    junction_tree,
    narrowest,
    tree_of,
)
from flyingsquid.graph.reading import (
    FORMAT,
    WIDEST_COMPUTED,
    Edges,
    check_fields,
    read_count,
    read_counts,
    read_edges,
    read_index,
    read_source_task,
    require_narrow,
    require_one_task,
    require_small_units,
)

MOST_LISTED = 10


@dataclass(frozen=True, init=False, repr=False)
class DependencyGraph:
    """Graph of sources, tasks and their dependencies.

    A task is one unknown truth: the label of an item, or of one frame, word or pixel of it. Every source
    votes on one task and depends on its truth. Sources are otherwise independent of each other unless an
    edge joins them; the truths of tasks are independent unless an edge joins those.

    Parameters
    ----------
    n_sources : int
        The number m of sources, counted over all tasks.
    n_tasks : int
        The number D of tasks.
    source_task : sequence of m ints, optional
        The task of each source. Default: consecutive blocks of m / D sources.
    task_edges : pairs of tasks
        Truths that depend on each other, such as those of neighboring frames.
    source_edges : pairs of sources
        Sources of one task that depend on each other even when the truth is known: two rules on one word, two
        models with one backbone.

    Attributes
    ----------
    n_sources, n_tasks : int
    source_task : tuple of m ints
    task_edges, source_edges : tuples of pairs
        Sorted, with the lower position first.

    Raises
    ------
    GraphError
        If an argument is invalid, or the graph is too wide: more than 4 sources in one clique of the
        triangulated graph, or tasks of treewidth above 12.

    Examples
    --------
    >>> graph = DependencyGraph(5, source_edges=[(1, 0)])
    >>> graph
    DependencyGraph(5 sources on 1 task, 1 source edge)
    >>> DependencyGraph.chain(3, 4)
    DependencyGraph(12 sources on 3 tasks, 2 task edges)
    """

    n_sources: int
    n_tasks: int
    source_task: tuple[int, ...]
    task_edges: Edges
    source_edges: Edges

    def __init__(
        self,
        n_sources: int,
        n_tasks: int = 1,
        *,
        source_task: Iterable[int] | None = None,
        task_edges: Iterable[Iterable[int]] = (),
        source_edges: Iterable[Iterable[int]] = (),
    ) -> None:
        m = read_count(n_sources, "n_sources")
        n_tasks = read_count(n_tasks, "n_tasks")
        keep = object.__setattr__  # the value is frozen from here on
        keep(self, "n_sources", m)
        keep(self, "n_tasks", n_tasks)
        keep(self, "source_task", read_source_task(source_task, m, n_tasks))
        keep(self, "task_edges", read_edges(task_edges, "task_edges", "task", n_tasks))
        keep(self, "source_edges", read_edges(source_edges, "source_edges", "source", m))
        require_one_task(self.source_edges, self.source_task)
        require_small_units(self._units, self.source_edges)
        require_narrow(self._task_elimination.width)

    @classmethod
    def chain(
        cls,
        n_tasks: int,
        sources_per_task: int | Iterable[int],
        source_edges: Iterable[Iterable[int]] = (),
    ) -> DependencyGraph:
        """Return a chain of tasks, such as frames or words: each depends on the one before.

        Parameters
        ----------
        n_tasks : int
            The number D of tasks.
        sources_per_task : int, or sequence of D ints
            Sources are numbered task by task. With one number s, source i of task d has position d·s + i, so
            votes of shape (n, D, s) are votes of shape (n, D·s).
        source_edges : pairs
            With one number s: pairs of positions within a task, 0 to s - 1, repeated on every task:
            "detectors 0 and 1 share a backbone". With a sequence: pairs of positions among all sources.

        Examples
        --------
        >>> DependencyGraph.chain(3, 4, source_edges=[(0, 1)]).source_edges
        ((0, 1), (4, 5), (8, 9))
        >>> DependencyGraph.chain(2, [1, 3]).source_task
        (0, 1, 1, 1)
        """
        n_tasks = read_count(n_tasks, "n_tasks")
        counts = read_counts(sources_per_task, "sources_per_task", n_tasks)
        n_sources = read_count(sum(counts), "n_sources")
        if is_integer(sources_per_task):
            within = read_edges(source_edges, "source_edges", "source", counts[0], " within a task")
            starts = range(0, n_sources, counts[0])
            source_edges = [(start + a, start + b) for start in starts for a, b in within]
        return cls(
            n_sources,
            n_tasks,
            source_task=[task for task, count in enumerate(counts) for _ in range(count)],
            task_edges=[(task, task + 1) for task in range(n_tasks - 1)],
            source_edges=source_edges,
        )

    @classmethod
    def grid(cls, height: int, width: int, sources_per_cell: int) -> DependencyGraph:
        """Return a grid of tasks, such as pixels: each depends on those left, right, above and below it.

        The cell in row r and column c is task r·width + c. Sources are numbered cell by cell. The shorter
        side is at most 12 cells; cut larger pictures into tiles.

        >>> DependencyGraph.grid(2, 2, 3).task_edges
        ((0, 1), (0, 2), (1, 3), (2, 3))
        """
        height, width = read_count(height, "height"), read_count(width, "width")
        each = read_count(sources_per_cell, "sources_per_cell")
        # The treewidth of a grid is known, so that a large one can be rejected without triangulating it.
        require_narrow(min(height, width) if max(height, width) > 1 else 0)
        n_sources = read_count(height * width * each, "n_sources")
        cell = np.arange(height * width).reshape(height, width)
        across = zip(cell[:, :-1].ravel().tolist(), cell[:, 1:].ravel().tolist(), strict=True)
        down = zip(cell[:-1].ravel().tolist(), cell[1:].ravel().tolist(), strict=True)
        return cls(n_sources, height * width, task_edges=[*across, *down])

    # ------------------------------------------------------------------ facts

    @property
    def is_trivial(self) -> bool:
        """True if there is one task and no source edge."""
        return self.n_tasks == 1 and not self.source_edges

    @cached_property
    def stacked_shape(self) -> tuple[int, int] | None:
        """(D, s) if the sources are numbered task by task, s for each, so that votes may be (n, D, s).

        >>> DependencyGraph.chain(3, 4).stacked_shape
        (3, 4)
        """
        each, left_over = divmod(self.n_sources, self.n_tasks)
        even = not left_over and self.source_task == read_source_task(None, self.n_sources, self.n_tasks)
        return (self.n_tasks, each) if even else None

    def sources_of(self, task: int) -> tuple[int, ...]:
        """Return the sources that vote on a task, ascending."""
        return self._sources_of[read_index(task, "task", "task", self.n_tasks)]

    def neighbors(self, task: int) -> tuple[int, ...]:
        """Return the tasks that an edge joins to this one, ascending."""
        return tuple(sorted(self._task_adjacency[read_index(task, "task", "task", self.n_tasks)]))

    # ------------------------------------------------------------------ as text, picture and plain data

    def __repr__(self) -> str:
        return f"DependencyGraph({_sizes(self)})"

    def describe(self) -> str:
        """Describe the graph in several lines.

        >>> DependencyGraph.chain(2, 3, source_edges=[(0, 2)]).describe().splitlines()
        ['6 sources on 2 tasks, 1 task edge, 2 source edges',
         'task 0: sources 0 to 2',
         'task 1: sources 3 to 5',
         'task edges: 0-1 (treewidth 1)',
         'dependent unit of 2: sources 0, 2 (one table)',
         'dependent unit of 2: sources 3, 5 (one table)']
        """
        lines = [_sizes(self)]
        tasks = range(min(self.n_tasks, MOST_LISTED))
        lines += [f"task {task}: {_positions('source', self.sources_of(task))}" for task in tasks]
        if self.n_tasks > MOST_LISTED:
            lines.append(f"... and {self.n_tasks - MOST_LISTED:,} more tasks")
        if self.task_edges:
            shown = _listed([f"{a}-{b}" for a, b in self.task_edges])
            lines.append(f"task edges: {shown} (treewidth {self._task_tree.width})")
        elif self.n_tasks > 1:
            lines.append("task edges: none, the truths are independent of each other")
        return "\n".join([*lines, *_describe_units(self)])

    def to_svg(self) -> str:
        """Draw the graph as SVG; notebooks display it."""
        return to_svg(self)

    def _repr_svg_(self) -> str:
        return to_svg(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the graph as integers and lists, for :meth:`from_dict`.

        >>> DependencyGraph(2).to_dict()
        {'format': 1, 'n_sources': 2, 'n_tasks': 1,
         'source_task': [0, 0], 'task_edges': [], 'source_edges': []}
        """
        return {
            "format": FORMAT,
            "n_sources": self.n_sources,
            "n_tasks": self.n_tasks,
            "source_task": list(self.source_task),
            "task_edges": [list(edge) for edge in self.task_edges],
            "source_edges": [list(edge) for edge in self.source_edges],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DependencyGraph:
        """Return the graph that :meth:`to_dict` described."""
        return cls(**check_fields(data))

    def to_json(self) -> str:
        """Return the graph as one line of JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> DependencyGraph:
        """Return the graph that :meth:`to_json` wrote.

        >>> DependencyGraph.from_json(DependencyGraph.chain(2, 3).to_json())
        DependencyGraph(6 sources on 2 tasks, 1 task edge)
        """
        try:
            data = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise GraphError(f"`text` must be a dependency graph in JSON: {error}.") from error
        return cls.from_dict(data)

    # ------------------------------------------------------------------ derived from the value, and cached

    def __getstate__(self) -> dict[str, Any]:
        # What is cached is cheap to find again, and would make equal graphs pickle differently.
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def _groups(self) -> NDArray[np.intp]:
        """Number of the group of each source, shape (m,). Source edges connect the members of a group.

        Groups are numbered by their lowest source; a source without edges is its own group.
        """
        return _read_only(components(self.source_edges, self.n_sources))

    @cached_property
    def _units(self) -> tuple[JunctionTree, ...]:
        """Junction tree of each group of two or more sources.

        Variables are sources. The truth of their task is also in every clique and separator.

        >>> DependencyGraph(4, source_edges=[(0, 1), (1, 3)])._units
        (JunctionTree(cliques=((1, 3), (0, 1)), parents=(-1, 0), separators=((), (1,))),)
        """
        members: dict[int, list[int]] = {}
        for source in sorted({source for edge in self.source_edges for source in edge}):
            members.setdefault(int(self._groups[source]), []).append(source)
        edges: dict[int, list[tuple[int, int]]] = {group: [] for group in members}
        for edge in self.source_edges:
            edges[int(self._groups[edge[0]])].append(edge)
        return tuple(_unit(sources, edges[group]) for group, sources in members.items())

    def _separated_by(self, task: int) -> NDArray[np.intp]:
        """Return the connected part of each source when the truth of ``task`` is removed, shape (m,).

        Sources in different parts are independent given that truth. Parts are numbered from 0. Time
        O(m + D + edges); the result is not cached.

        >>> DependencyGraph.chain(3, 2)._separated_by(1)
        array([0, 0, 2, 3, 1, 1])
        """
        task = read_index(task, "task", "task", self.n_tasks)
        edges = self._task_edge_array
        parts = components(edges[(edges != task).all(axis=1)], self.n_tasks)
        part = parts[self._task_array]
        # Sources of the task itself are connected by source edges only, and these join sources of one task.
        own = self._task_array == task
        part[own] = parts.max() + 1 + self._groups[own]
        return consecutive(part)

    @cached_property
    def _task_tree(self) -> JunctionTree:
        """Junction tree of the tasks; a forest if they form independent parts."""
        return tree_of(self._task_elimination)

    @cached_property
    def _sources_of(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in range(self.n_tasks)]
        for source, task in enumerate(self.source_task):
            found[task].append(source)
        return tuple(map(tuple, found))

    @cached_property
    def _task_adjacency(self) -> tuple[frozenset[int], ...]:
        return adjacency(self.task_edges, self.n_tasks)

    @cached_property
    def _task_elimination(self) -> Elimination:
        return narrowest(self._task_adjacency, WIDEST_COMPUTED)

    @cached_property
    def _task_array(self) -> NDArray[np.intp]:
        return _read_only(np.array(self.source_task, np.intp))

    @cached_property
    def _task_edge_array(self) -> NDArray[np.intp]:
        return _read_only(np.array(self.task_edges, np.intp).reshape(-1, 2))


def _unit(sources: list[int], edges: list[tuple[int, int]]) -> JunctionTree:
    position = {source: k for k, source in enumerate(sources)}
    tree = junction_tree(adjacency([(position[a], position[b]) for a, b in edges], len(sources)))

    def named(positions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sources[k] for k in positions)

    return JunctionTree(tuple(map(named, tree.cliques)), tree.parents, tuple(map(named, tree.separators)))


def _read_only(array: NDArray[np.intp]) -> NDArray[np.intp]:
    array.flags.writeable = False
    return array


def _sizes(graph: DependencyGraph) -> str:
    """Return the numbers of sources, tasks and edges."""
    parts = [f"{format_count(graph.n_sources, 'source')} on {format_count(graph.n_tasks, 'task')}"]
    parts += [format_count(len(graph.task_edges), "task edge")] * bool(graph.task_edges)
    parts += [format_count(len(graph.source_edges), "source edge")] * bool(graph.source_edges)
    return ", ".join(parts)


def _describe_units(graph: DependencyGraph) -> list[str]:
    if not graph._units:
        return ["dependent sources: none, all are independent of each other given the truth"]
    lines = []
    for unit in graph._units[:MOST_LISTED]:
        members = sorted({source for clique in unit.cliques for source in clique})
        parts = len(unit.cliques)
        how = "one table" if parts == 1 else f"{parts} tables of up to {unit.width + 1} sources"
        lines.append(f"dependent unit of {len(members)}: {_positions('source', members)} ({how})")
    if len(graph._units) > MOST_LISTED:
        lines.append(f"... and {len(graph._units) - MOST_LISTED:,} more dependent units")
    return lines


def _positions(noun: str, positions: Sequence[int]) -> str:
    first, last = positions[0], positions[-1]
    if len(positions) > 2 and last - first == len(positions) - 1:
        return f"{noun}s {first} to {last}"
    return f"{noun}{'s' * (len(positions) > 1)} {_listed([str(p) for p in positions])}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more
