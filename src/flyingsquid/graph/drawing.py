"""Drawing of a dependency graph as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, cos, hypot, pi, sin, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyingsquid.graph.dependency import DependencyGraph

Point = tuple[float, float]

STEP = 42.0  # between neighboring sources
DROP = 84.0  # from a truth down to its first row of sources
GRID_DROP = 46.0  # less in a grid, where they stand next to the edge to the cell below
WIDEST_ROW = 12  # sources of one task side by side; more start a second row
LONGEST_LINE = 8  # tasks of a chain side by side; more form a circle
TRUTH_RADIUS = 19.0
SOURCE_RADIUS = 15.0
MARGIN = 14.0
WIDEST = 700  # pixels; a larger drawing is shown smaller, never cut
MOST_LABELS = 60  # more could not be read

# Grays and a red that are visible on a white and on a dark page; nodes have their own background.
RULES = {
    ".truth": "fill:#1f3a5f;stroke:#8fa6c4;stroke-width:1.5",
    ".source": "fill:#fff;stroke:#5b6b80;stroke-width:1.5",
    ".task-edge": "stroke:#5b7ba6;stroke-width:4;fill:none",
    ".vote": "stroke:#8a96a6;stroke-width:1.2",
    ".source-edge": "stroke:#d1495b;stroke-width:2.4;fill:none",
    "text": "font-family:sans-serif;text-anchor:middle;dominant-baseline:central",
    ".of-truth": "fill:#fff;font-size:14px;font-weight:bold",
    ".of-source": "fill:#222;font-size:12px",
}
# A style within a picture holds for the whole page that it is put on, hence the name in front.
STYLE = "".join(f".flyingsquid-graph {mark}{{{rule}}}" for mark, rule in RULES.items())


def to_svg(
    graph: DependencyGraph, *, labels: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> str:
    """Draw truths filled and sources open, task edges thick and source edges curved and red.

    ``labels`` are the short names on the m sources, default λ0, λ1, ...; ``names`` are shown as tooltips.

    >>> from flyingsquid.graph import DependencyGraph
    >>> to_svg(DependencyGraph(3)).startswith("<svg ")
    True
    """
    layout = lay_out(graph)
    curves = {edge: _control(graph, layout, edge) for edge in graph.source_edges}
    bends = [_middle(layout, edge, control) for edge, control in curves.items()]
    left, top, width, height = _box(layout, bends)
    scale = min(1.0, WIDEST / width)
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="flyingsquid-graph" role="img" '
        f'width="{width * scale:.0f}" height="{height * scale:.0f}" '
        f'viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}">',
        f"<title>{escape(repr(graph))}</title>",
        f"<desc>{escape(graph.describe())}</desc>",
        f"<style>{STYLE}</style>",
        *(_line("task-edge", layout.truths[a], layout.truths[b]) for a, b in graph.task_edges),
        *_votes(graph, layout),
        *(_curve(layout.sources[a], control, layout.sources[b]) for (a, b), control in curves.items()),
        *_truths(graph, layout),
        *_sources(graph, layout, labels, names),
        "</svg>",
    ]
    return "\n".join(lines)


def _votes(graph: DependencyGraph, layout: Layout) -> list[str]:
    pairs = zip(graph.source_task, layout.sources, strict=True)
    return [_line("vote", layout.truths[task], point) for task, point in pairs]


def _truths(graph: DependencyGraph, layout: Layout) -> list[str]:
    names = ["Y"] if graph.n_tasks == 1 else [f"Y{task}" for task in range(graph.n_tasks)]
    every = ceil(graph.n_tasks / MOST_LABELS)
    return [
        _node("truth", point, TRUTH_RADIUS, name, task % every == 0)
        for task, (point, name) in enumerate(zip(layout.truths, names, strict=True))
    ]


def _sources(
    graph: DependencyGraph, layout: Layout, labels: Sequence[str] | None, names: Sequence[str] | None
) -> list[str]:
    labeled = graph.n_sources <= MOST_LABELS
    shown = [f"λ{i}" for i in range(graph.n_sources)] if labels is None else labels
    hints = shown if names is None else names
    return [
        _node("source", point, SOURCE_RADIUS, label, labeled, hint)
        for point, label, hint in zip(layout.sources, shown, hints, strict=True)
    ]


def _node(kind: str, point: Point, radius: float, name: str, labeled: bool, hint: str = "") -> str:
    x, y = point
    # The title shows when the pointer rests on the node, even if there is no room for labels.
    title = f"<title>{escape(hint or name)}</title>"
    circle = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>'
    text = f'<text class="of-{kind}" x="{x:.1f}" y="{y:.1f}">{escape(name)}</text>'
    return circle + text * labeled


def _line(kind: str, start: Point, end: Point) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _curve(start: Point, control: Point, end: Point) -> str:
    (x1, y1), (cx, cy), (x2, y2) = start, control, end
    return f'<path class="source-edge" d="M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"/>'


def _control(graph: DependencyGraph, layout: Layout, edge: tuple[int, int]) -> Point:
    """Return the control point of a source edge: away from the truth, so that it crosses no vote."""
    (x1, y1), (x2, y2) = (layout.sources[source] for source in edge)
    tx, ty = layout.truths[graph.source_task[edge[0]]]
    length = hypot(x2 - x1, y2 - y1)
    across, along = (y1 - y2) / length, (x2 - x1) / length
    middle = (x1 + x2) / 2, (y1 + y2) / 2
    side = 1 if across * (middle[0] - tx) + along * (middle[1] - ty) >= 0 else -1
    bulge = side * (24 + 0.42 * length)
    return middle[0] + across * bulge, middle[1] + along * bulge


def _middle(layout: Layout, edge: tuple[int, int], control: Point) -> Point:
    (x1, y1), (x2, y2) = (layout.sources[source] for source in edge)
    return (x1 + x2) / 4 + control[0] / 2, (y1 + y2) / 4 + control[1] / 2


def _box(layout: Layout, curves: list[Point]) -> tuple[float, float, float, float]:
    points = [*layout.truths, *layout.sources, *curves]
    room = TRUTH_RADIUS + MARGIN
    left, right = min(x for x, _ in points) - room, max(x for x, _ in points) + room
    top, bottom = min(y for _, y in points) - room, max(y for _, y in points) + room
    return left, top, right - left, bottom - top


# ---------------------------------------------------------------------- positions


@dataclass(frozen=True, slots=True)
class Layout:
    """A point for each truth, (D,), and for each source, (m,)."""

    truths: tuple[Point, ...]
    sources: tuple[Point, ...]


def lay_out(graph: DependencyGraph) -> Layout:
    """Place tasks above their sources; short chains as lines, grids as grids, anything else on a circle."""
    columns = _columns(graph)
    if columns is None:
        return _on_a_circle(graph)
    most = max(len(graph.sources_of(task)) for task in range(graph.n_tasks))
    is_grid = columns < graph.n_tasks
    across = min(most, WIDEST_ROW) * STEP + (40 if graph.n_tasks > 1 else 0) + (30 if is_grid else 0)
    down = (GRID_DROP if is_grid else DROP) + ceil(most / WIDEST_ROW) * STEP + 34
    truths: list[Point] = []
    for task in range(graph.n_tasks):
        row, column = divmod(task, columns)
        truths.append((column * max(across, 84.0), row * down))
    sources: list[Point] = [(0.0, 0.0)] * graph.n_sources
    for task, truth in enumerate(truths):
        for source, point in zip(graph.sources_of(task), _below(truth, graph, task, is_grid), strict=True):
            sources[source] = point
    return Layout(tuple(truths), tuple(sources))


def _columns(graph: DependencyGraph) -> int | None:
    """Return the number of tasks in a row of the drawing, or None if the tasks form no rows."""
    if not graph.task_edges:
        return graph.n_tasks if graph.n_tasks <= LONGEST_LINE else ceil(sqrt(graph.n_tasks))
    if graph.n_tasks <= LONGEST_LINE and all(b == a + 1 for a, b in graph.task_edges):
        return graph.n_tasks
    width = graph.neighbors(0)[-1] if graph.neighbors(0) else 0
    if width < 2 or graph.n_tasks % width:
        return None
    across = {(t, t + 1) for t in range(graph.n_tasks) if (t + 1) % width}
    down = {(t, t + width) for t in range(graph.n_tasks - width)}
    return width if set(graph.task_edges) == across | down else None


def _below(truth: Point, graph: DependencyGraph, task: int, is_grid: bool) -> list[Point]:
    """Return the positions of rows below the truth, bent like a fan."""
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
