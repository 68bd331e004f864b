"""Checks of dependency graphs: arguments, plain data, and sizes that can be estimated in reasonable time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from flyingsquid._values import format_value, is_integer
from flyingsquid.exceptions import GraphError
from flyingsquid.graph.junction import JunctionTree

Edges = tuple[tuple[int, int], ...]

FORMAT = 1
FIELDS = ("n_sources", "n_tasks", "source_task", "task_edges", "source_edges")

MOST_SOURCES_IN_A_UNIT = 4
WIDEST_TASK_TREE = 12
WIDEST_COMPUTED = 4 * WIDEST_TASK_TREE  # beyond it the exact width is not computed
# Every source and task is listed, so that a number in the wrong place would take all memory.
_MOST = 10_000_000


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
    read = _listed(values, name)
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
    read = _listed(source_task, "source_task")
    if len(read) != n_sources:
        raise GraphError(
            f"`source_task` must have one task per source ({n_sources}); got {len(read)} entries."
        )
    tasks = tuple(_one_task(entry, i, n_tasks) for i, entry in enumerate(read))
    without = sorted(set(range(n_tasks)) - set(tasks))
    if without:
        raise GraphError(
            f"`source_task` must include every task; no source votes on {_format_positions('task', without)}."
        )
    return tasks


def read_edges(edges: Any, name: str, noun: str, length: int, scope: str = "") -> Edges:
    """Return pairs of positions, the lower one first, sorted."""
    places: dict[tuple[int, int], int] = {}
    for place, edge in enumerate(_listed(edges, name)):
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


def _listed(values: Any, name: str) -> list[Any]:
    # A set of edges is fine; anything that is read in order needs one.
    unordered = isinstance(values, AbstractSet) and name not in ("task_edges", "source_edges")
    if isinstance(values, (str, bytes, Mapping)) or unordered or not isinstance(values, Iterable):
        raise GraphError(f"`{name}` must be a list or a tuple; got {format_value(values)}.")
    try:
        return list(values)
    except TypeError as error:  # an array without dimensions is registered as iterable
        raise GraphError(f"`{name}` must be a list or a tuple; got {format_value(values)}.") from error


def _format_positions(noun: str, positions: list[int], most: int = 5) -> str:
    more = f" and {len(positions) - most} more" if len(positions) > most else ""
    return f"{noun}{'s' * (len(positions) > 1)} {', '.join(map(str, positions[:most]))}{more}"
