"""A dependency graph in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyingsquid.graph.dependency import DependencyGraph

MOST_LISTED = 10


def in_one_line(graph: DependencyGraph) -> str:
    """The sizes alone."""
    parts = [f"{_count(graph.n_sources, 'source')} on {_count(graph.n_tasks, 'task')}"]
    parts += [_count(len(graph.task_edges), "task edge")] * bool(graph.task_edges)
    parts += [_count(len(graph.source_edges), "source edge")] * bool(graph.source_edges)
    return ", ".join(parts)


def in_words(graph: DependencyGraph) -> str:
    """Tasks with their sources, edges, dependent units and treewidth, one a line."""
    lines = [in_one_line(graph)]
    tasks = range(min(graph.n_tasks, MOST_LISTED))
    lines += [f"task {task}: {_positions('source', graph.sources_of(task))}" for task in tasks]
    if graph.n_tasks > MOST_LISTED:
        lines.append(f"... and {graph.n_tasks - MOST_LISTED:,} more tasks")
    if graph.n_tasks > 1:
        lines.append(_task_words(graph))
    return "\n".join([*lines, *_unit_words(graph)])


def _task_words(graph: DependencyGraph) -> str:
    if not graph.task_edges:
        return "task edges: none, the truths are independent of each other"
    shown = _listed([f"{a}-{b}" for a, b in graph.task_edges])
    return f"task edges: {shown} (treewidth {graph._task_tree.width})"


def _unit_words(graph: DependencyGraph) -> list[str]:
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


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MOST_LISTED:,} more" if len(texts) > MOST_LISTED else ""
    return ", ".join(texts[:MOST_LISTED]) + more


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
