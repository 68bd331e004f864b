"""Where truths and sources stand in a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, pi, sin, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyingsquid.graph.dependency import DependencyGraph

Point = tuple[float, float]

STEP = 42.0  # between neighbouring sources
DROP = 84.0  # from a truth down to its first row of sources
GRID_DROP = 46.0  # less in a grid, where they stand beside the edge to the cell below
WIDEST_ROW = 12  # sources of one task beside each other; more start a second row
LONGEST_LINE = 8  # tasks of a chain beside each other; more turn back below


@dataclass(frozen=True, slots=True)
class Layout:
    """A point for each truth, (D,), and for each source, (m,)."""

    truths: tuple[Point, ...]
    sources: tuple[Point, ...]


def lay_out(graph: DependencyGraph) -> Layout:
    """One task above its sources; chains as lines, grids as grids, anything else on a circle."""
    columns = _columns(graph)
    if columns is None:
        return _on_a_circle(graph)
    most = max(len(graph.sources_of(task)) for task in range(graph.n_tasks))
    is_grid = columns < graph.n_tasks and not _is_line(graph)
    across = min(most, WIDEST_ROW) * STEP + (40 if graph.n_tasks > 1 else 0) + (30 if is_grid else 0)
    down = (GRID_DROP if is_grid else DROP) + ceil(most / WIDEST_ROW) * STEP + 34
    truths: list[Point] = []
    for task in range(graph.n_tasks):
        row, column = divmod(task, columns)
        if row % 2 and not is_grid:
            column = columns - 1 - column  # a line turns back, so that its ends meet
        truths.append((column * max(across, 84.0), row * down))
    sources: list[Point] = [(0.0, 0.0)] * graph.n_sources
    for task, truth in enumerate(truths):
        for source, point in zip(graph.sources_of(task), _below(truth, graph, task, is_grid), strict=True):
            sources[source] = point
    return Layout(tuple(truths), tuple(sources))


def _columns(graph: DependencyGraph) -> int | None:
    """How many tasks stand beside each other, or None where rows would say nothing."""
    if not graph.task_edges and graph.n_tasks > LONGEST_LINE:
        return ceil(sqrt(graph.n_tasks))
    if _is_line(graph) or not graph.task_edges:
        return min(graph.n_tasks, LONGEST_LINE)
    width = graph.neighbors(0)[-1] if graph.neighbors(0) else 0
    if width < 2 or graph.n_tasks % width:
        return None
    across = {(t, t + 1) for t in range(graph.n_tasks) if (t + 1) % width}
    down = {(t, t + width) for t in range(graph.n_tasks - width)}
    return width if set(graph.task_edges) == across | down else None


def _is_line(graph: DependencyGraph) -> bool:
    return graph.task_edges == tuple((t, t + 1) for t in range(graph.n_tasks - 1))


def _below(truth: Point, graph: DependencyGraph, task: int, is_grid: bool) -> list[Point]:
    """Rows below the truth, bent like a fan. In a grid they stand clear of the edge to the cell below."""
    x, y = truth
    count = len(graph.sources_of(task))
    points = []
    for k in range(count):
        row, place = divmod(k, WIDEST_ROW)
        length = min(WIDEST_ROW, count - row * WIDEST_ROW)
        offset = place - (length - 1) / 2
        left = x + 34 + place * STEP if is_grid else x + offset * STEP
        bend = 0.0 if is_grid else -2.0 * offset**2 * min(1.0, 6 / length)
        fall = GRID_DROP if is_grid else DROP
        points.append((left, y + fall + row * STEP + bend))
    return points


def _on_a_circle(graph: DependencyGraph) -> Layout:
    rows = [min(len(graph.sources_of(task)), WIDEST_ROW) for task in range(graph.n_tasks)]
    # The outer ring holds every task's first row of sources with room between tasks.
    outer = max(sum(row * STEP + 24 for row in rows) / (2 * pi), DROP + 60)
    sources: list[Point] = [(0.0, 0.0)] * graph.n_sources
    truths: list[Point] = []
    per_step = 2 * pi / sum(row * STEP + 24 for row in rows)
    angle = -pi / 2 - rows[0] * STEP * per_step / 2  # task 0 at the top
    for task, row in enumerate(rows):
        room = (row * STEP + 24) * per_step
        middle = angle + room / 2 - 12 * per_step
        truths.append(_on_ring(outer - DROP, middle))
        for k, source in enumerate(graph.sources_of(task)):
            ring, place = divmod(k, WIDEST_ROW)
            shift = (place - (row - 1) / 2) * STEP * per_step
            sources[source] = _on_ring(outer + ring * STEP, middle + shift)
        angle += room
    return Layout(tuple(truths), tuple(sources))


def _on_ring(radius: float, angle: float) -> Point:
    return radius * cos(angle), radius * sin(angle)
