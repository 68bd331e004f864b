"""Dependency graph: the task of each source, and edges between sources and between tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_integer
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

Edges = tuple[tuple[int, int], ...]

FORMAT = 1
FIELDS = ("n_sources", "n_tasks", "source_task", "task_edges", "source_edges")

MOST_SOURCES_IN_A_UNIT = 4
WIDEST_TASK_TREE = 12
WIDEST_COMPUTED = 4 * WIDEST_TASK_TREE  # beyond it the exact width is not computed
# Every source and task is listed, so that a number in the wrong place would take all memory.
_MOST = 10_000_000
# Tasks, edges and units that `describe` lists.
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


# ---------------------------------------------------------------------- checks of arguments


def read_count(value: Any, name: str) -> int:
    """Return an integer >= 1."""
    if not is_integer(value) or value < 1:
        raise GraphError(f"`{name}` must be an integer >= 1; got {format_value(value)}.")
    if value > _MOST:
        raise GraphError(f"`{name}` must be an integer <= {_MOST:,}; got {format_value(value, 30)}.")
    return int(value)


def read_counts(values: Any, name: str, length: int) -> tuple[int, ...]:
    """Return ``length`` integers >= 1; one integer is repeated."""
    if is_integer(values) or isinstance(values, (bool, float, str)):
        return (read_count(values, name),) * length
    read = _as_list(values, name)
    if len(read) != length:
        raise GraphError(f"`{name}` must have one number per task ({length}); got {len(read)} numbers.")
    return tuple(read_count(value, f"{name}[{d}]") for d, value in enumerate(read))


def read_index(value: Any, name: str, noun: str, length: int, scope: str = "") -> int:
    """Return the position of a source or task among ``length`` of them.

    ``name`` is the parameter for error messages; ``scope`` describes where positions are counted.
    """
    if not is_integer(value) or not 0 <= value < length:
        span = f"an integer from 0 to {length - 1}" if length > 1 else "0"
        raise GraphError(
            f"`{name}` must be the position of a {noun}{scope}, {span}; got {format_value(value)}."
        )
    return int(value)


def read_source_task(source_task: Any, n_sources: int, n_tasks: int) -> tuple[int, ...]:
    """Return the task of each source; None divides the sources evenly, task by task."""
    if n_tasks > n_sources:
        raise GraphError(
            f"`n_tasks` must be at most the number of sources ({n_sources}), one per task; got {n_tasks}."
        )
    if source_task is None:
        if n_sources % n_tasks:
            raise GraphError(
                f"`n_sources` must be a multiple of the number of tasks ({n_tasks}); got {n_sources}. Pass "
                "`source_task`, the task of each source, if tasks have different numbers of sources."
            )
        each = n_sources // n_tasks
        return tuple(task for task in range(n_tasks) for _ in range(each))
    read = _as_list(source_task, "source_task")
    if len(read) != n_sources:
        raise GraphError(
            f"`source_task` must have one task per source ({n_sources}); got {len(read)} entries."
        )
    tasks = tuple(_one_task(entry, i, n_tasks) for i, entry in enumerate(read))
    without = sorted(set(range(n_tasks)) - set(tasks))
    if without:
        raise GraphError(
            f"`source_task` must include every task; no source votes on {_positions('task', without)}."
        )
    return tasks


def read_edges(edges: Any, name: str, noun: str, length: int, scope: str = "") -> Edges:
    """Return pairs of positions, the lower one first, sorted."""
    places: dict[tuple[int, int], int] = {}
    for place, edge in enumerate(_as_list(edges, name)):
        pair = _pair(edge, name, place, noun, length, scope)
        if pair in places:
            raise GraphError(
                f"`{name}` must contain every edge once; {name}[{place}] repeats {name}[{places[pair]}], the "
                f"edge between {noun}s {pair[0]} and {pair[1]} (edges have no direction)."
            )
        places[pair] = place
    return tuple(sorted(places))


def require_one_task(source_edges: Edges, source_task: tuple[int, ...]) -> None:
    """Raise an error for an edge between sources that vote on different tasks."""
    for a, b in source_edges:
        if source_task[a] != source_task[b]:
            raise GraphError(
                f"`source_edges` must join sources of one task; sources {a} and {b} vote on tasks "
                f"{source_task[a]} and {source_task[b]}. Estimates with such an edge are wrong if one class "
                "is more frequent than another; declare both sources on one task, or drop the edge."
            )


def check_fields(data: Any) -> dict[str, Any]:
    """Return the fields of a graph as plain data; the graph checks their values."""
    if not isinstance(data, Mapping):
        raise GraphError(f"`data` must be a dict; got {format_value(data)}.")
    known = {"format", *FIELDS}
    for what, keys in (("missing", known - set(data)), ("unknown", set(data) - known)):
        if keys:
            raise GraphError(
                f"`data` must have the keys format, {', '.join(FIELDS)}; {what}: "
                f"{', '.join(sorted(map(format_value, keys)))}."
            )
    if type(data["format"]) is not int or data["format"] != FORMAT:
        raise GraphError(
            f"`data['format']` must be {FORMAT}; got {format_value(data['format'])}. Upgrade flyingsquid if "
            "a newer version wrote this graph."
        )
    for name in FIELDS[2:]:
        if not isinstance(data[name], (list, tuple)):
            raise GraphError(f"`{name}` must be a list; got {format_value(data[name])}.")
    return {name: data[name] for name in FIELDS}


def require_small_units(units: tuple[JunctionTree, ...], source_edges: Edges) -> None:
    """Raise an error for cliques whose tables of votes would be nearly empty."""
    for unit in units:
        largest = max(unit.cliques, key=len)
        if len(largest) > MOST_SOURCES_IN_A_UNIT:
            raise GraphError(_too_large(largest, set(source_edges)))


def require_narrow(width: int) -> None:
    """Raise an error if too many tasks must be summed at once."""
    if width > WIDEST_TASK_TREE:
        or_more = " or more" if width > WIDEST_COMPUTED else ""
        raise GraphError(
            f"`task_edges` must have a treewidth of at most {WIDEST_TASK_TREE}; got {width}{or_more}, which "
            f"needs tables of 2^{width + 1} cells per item. Use a smaller grid, cut a large one into tiles, "
            "or pass fewer task edges."
        )


def _too_large(clique: tuple[int, ...], edges: set[tuple[int, int]]) -> str:
    s = len(clique)
    shown = ", ".join(map(str, clique[:10])) + (", ..." if s > 10 else "")
    declared = sum((a, b) in edges for k, a in enumerate(clique) for b in clique[k + 1 :])
    joined = "" if declared == s * (s - 1) // 2 else " once the cycles among them are triangulated"
    # The exponent alone when the number would fill the screen.
    cells = f"2·3^{s} = {2 * 3**s:,}" if s <= 10 else f"2·3^{s}"
    return (
        f"`source_edges` must leave at most {MOST_SOURCES_IN_A_UNIT} sources that all depend on each other; "
        f"got {s}{joined} ({shown}). Their votes and the truth form a table of {cells} cells, with too few "
        "items in each. Keep only the strongest edges, or leave one of the sources out."
    )


def _one_task(entry: Any, source: int, n_tasks: int) -> int:
    if isinstance(entry, Iterable) and not isinstance(entry, str):
        raise GraphError(
            f"`source_task[{source}]` must be a single task; got {format_value(entry)}. Pass a source that "
            "votes on two tasks as two columns."
        )
    return read_index(entry, f"source_task[{source}]", "task", n_tasks)


def _pair(edge: Any, name: str, place: int, noun: str, length: int, scope: str) -> tuple[int, int]:
    where = f"{name}[{place}]"
    ends = tuple(edge) if isinstance(edge, Iterable) and not isinstance(edge, (str, Mapping)) else ()
    if len(ends) != 2:
        raise GraphError(
            f"`{where}` must be a pair of {noun}s, as in {name}=[(0, 1), ...]; got {format_value(edge)}."
        )
    a, b = (read_index(end, f"{where}[{at}]", noun, length, scope) for at, end in enumerate(ends))
    if a == b:
        raise GraphError(f"`{where}` must join two different {noun}s; got ({a}, {b}).")
    return (a, b) if a < b else (b, a)


def _as_list(values: Any, name: str) -> list[Any]:
    # A set of edges is fine; anything that is read in order needs one.
    unordered = isinstance(values, AbstractSet) and name not in ("task_edges", "source_edges")
    if isinstance(values, (str, bytes, Mapping)) or unordered or not isinstance(values, Iterable):
        raise GraphError(f"`{name}` must be a list or a tuple; got {format_value(values)}.")
    try:
        return list(values)
    except TypeError as error:  # an array without dimensions is registered as iterable
        raise GraphError(f"`{name}` must be a list or a tuple; got {format_value(values)}.") from error
