"""What a user passes as a graph, checked and put in one form; every bad value named and located."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from flyingsquid._values import format_value, is_integer
from flyingsquid.exceptions import GraphError

Edges = tuple[tuple[int, int], ...]


# Every source and task is listed, so that a number in the wrong place would take all memory.
_MOST = 10_000_000


def read_count(value: Any, name: str) -> int:
    """A whole number of at least 1."""
    if not is_integer(value):
        raise GraphError(f"{name}={format_value(value)} is no whole number; give a number of at least 1")
    if value < 1:
        raise GraphError(f"{name}={format_value(value)} is too small; at least 1 is needed")
    if value > _MOST:
        raise GraphError(f"{name}={format_value(value, 30)}, and at most {_MOST:,} fit into memory")
    return int(value)


def read_counts(values: Any, name: str, length: int) -> tuple[int, ...]:
    """``length`` whole numbers of at least 1; one number stands for all of them."""
    if is_integer(values) or isinstance(values, (bool, float, str)):
        return (read_count(values, name),) * length
    read = _listed(values, name)
    if len(read) != length:
        raise GraphError(f"{name} has {len(read)} numbers for {length} tasks; give one number a task")
    return tuple(read_count(value, f"{name}[{d}]") for d, value in enumerate(read))


def read_index(value: Any, name: str, noun: str, length: int, scope: str = "") -> int:
    """A position among ``length`` sources or tasks; ``scope``: where they are counted."""
    if not is_integer(value):
        raise GraphError(
            f"{name}: {format_value(value)} is no whole number; {noun}s are given by position, from 0"
        )
    if not 0 <= value < length:
        have = f"{length} {noun}{'s' * (length > 1)}{scope}"
        raise GraphError(
            f"{name}: there is no {noun} {format_value(value)}{scope}; with {have} positions are "
            f"{_span(length)}"
        )
    return int(value)


def read_source_task(source_task: Any, n_sources: int, n_tasks: int) -> tuple[int, ...]:
    """The task of each source; None divides the sources evenly, task by task."""
    if n_tasks > n_sources:
        raise GraphError(
            f"{n_tasks} tasks have only {n_sources} source{'s' * (n_sources > 1)}; each task needs one"
        )
    if source_task is None:
        if n_sources % n_tasks:
            raise GraphError(
                f"{n_sources} sources cannot be divided evenly among {n_tasks} tasks; pass source_task, the "
                "task of each source"
            )
        each = n_sources // n_tasks
        return tuple(task for task in range(n_tasks) for _ in range(each))
    read = _listed(source_task, "source_task")
    if len(read) != n_sources:
        raise GraphError(
            f"source_task has {len(read)} entries for {n_sources} sources; give one task a source"
        )
    tasks = tuple(_one_task(entry, i, n_tasks) for i, entry in enumerate(read))
    without = sorted(set(range(n_tasks)) - set(tasks))
    if without:
        raise GraphError(
            f"no source votes on {_some('task', without)}; give each task a source, or leave the task out "
            "and number the others from 0"
        )
    return tasks


def read_edges(edges: Any, name: str, noun: str, length: int, scope: str = "") -> Edges:
    """Pairs of positions, the lower one first, sorted."""
    places: dict[tuple[int, int], int] = {}
    for place, edge in enumerate(_listed(edges, name)):
        pair = _pair(edge, name, place, noun, length, scope)
        if pair in places:
            raise GraphError(
                f"{name}[{place}] repeats {name}[{places[pair]}], the edge between {noun}s {pair[0]} and "
                f"{pair[1]}; an edge has no direction, so give it once"
            )
        places[pair] = place
    return tuple(sorted(places))


def require_one_task(source_edges: Edges, source_task: tuple[int, ...]) -> None:
    """Refuse an edge between sources that vote on different tasks."""
    for a, b in source_edges:
        if source_task[a] != source_task[b]:
            raise GraphError(
                f"source_edges: sources {a} and {b} vote on different tasks, {source_task[a]} and "
                f"{source_task[b]}. Such an edge breaks the method when tasks are biased, that is when one "
                "class is more frequent than the other. Declare both sources on one task, or drop the edge"
            )


def _one_task(entry: Any, source: int, n_tasks: int) -> int:
    if isinstance(entry, Iterable) and not isinstance(entry, str):
        raise GraphError(
            f"source_task[{source}]={format_value(entry)}: a source votes on exactly one task. Add one that "
            "votes on two tasks twice, as two columns"
        )
    return read_index(entry, f"source_task[{source}]", "task", n_tasks)


def _pair(edge: Any, name: str, place: int, noun: str, length: int, scope: str) -> tuple[int, int]:
    where = f"{name}[{place}]"
    ends = tuple(edge) if isinstance(edge, Iterable) and not isinstance(edge, (str, Mapping)) else ()
    if len(ends) != 2:
        raise GraphError(f"{where}={format_value(edge)} is no pair of {noun}s; write {name}=[(0, 1), ...]")
    a, b = (read_index(end, f"{where}={_shown(ends)}", noun, length, scope) for end in ends)
    if a == b:
        raise GraphError(f"{where} joins {noun} {a} to itself; an edge joins two different {noun}s")
    return (a, b) if a < b else (b, a)


def _listed(values: Any, name: str) -> list[Any]:
    # A set of edges is fine; anything that is read in order needs one.
    unordered = isinstance(values, AbstractSet) and name not in ("task_edges", "source_edges")
    if isinstance(values, (str, bytes, Mapping)) or unordered or not isinstance(values, Iterable):
        raise GraphError(f"{name}={format_value(values)} is no sequence; give a list or a tuple")
    try:
        return list(values)
    except TypeError as error:  # an array without dimensions claims to be iterable
        raise GraphError(f"{name}={format_value(values)} is no sequence; give a list or a tuple") from error


def _span(length: int) -> str:
    return f"0 to {length - 1}" if length > 1 else "0 only"


def _shown(ends: tuple[Any, ...]) -> str:
    return f"({', '.join(map(format_value, ends))})"


def _some(noun: str, positions: list[int], most: int = 5) -> str:
    more = f" and {len(positions) - most} more" if len(positions) > most else ""
    return f"{noun}{'s' * (len(positions) > 1)} {', '.join(map(str, positions[:most]))}{more}"
