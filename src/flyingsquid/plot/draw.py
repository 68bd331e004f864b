"""Draw chart descriptions on matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, degrees, pi, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.charts.build import seriate
from flyingsquid.charts.kinds import (
    BarChart,
    HeatMap,
    Histogram,
    IntervalChart,
    LayeredBarChart,
    Line,
    LineChart,
    Tone,
)

Array = NDArray[np.float64]
# Colors of Okabe and Ito, which color-blind readers can tell apart.
BLUE, ORANGE = "#0072B2", "#D55E00"
COLORS: dict[Tone, str] = {
    "main": BLUE,
    "half": "#56B4E9",
    "pale": "#D6E6F2",
    "other": "#8A8F98",
    "bad": ORANGE,
}
# Values are written into the cells of a heat map while the cells are large enough.
_MOST_NUMBERS = 14
# More bands than this cover each other.
_MOST_BANDS = 12


def new_axes(rows: int, width: float, height: float, **options: Any) -> Any:
    """Return axes below each other in a new figure of ``width`` x ``height`` inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'flyingsquid[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.subplots(rows, 1, squeeze=False, **options)[:, 0]


def draw_intervals(chart: IntervalChart, axis: Any) -> Any:
    """Draw dots with intervals, and diamonds for values on gold labels."""
    axis = _row_axis(chart.rows, axis)
    for at, row in enumerate(chart.rows):
        if row.low is not None and row.high is not None:
            axis.hlines(at, row.low, row.high, color=COLORS[row.tone], linewidth=2.2, alpha=0.5)
    points = [(row.value, at) for at, row in enumerate(chart.rows) if row.value is not None]
    if points:
        axis.plot(*zip(*points, strict=True), "o", color=BLUE, markersize=5, label=chart.value_label)
    gold = [(row.gold, at) for at, row in enumerate(chart.rows) if row.gold is not None]
    if gold:
        style = {"markerfacecolor": "none", "markeredgecolor": ORANGE, "markersize": 6}
        axis.plot(*zip(*gold, strict=True), "D", markeredgewidth=1.4, label=chart.gold_label, **style)
    _name_rows(axis, [row.name for row in chart.rows])
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_xlabel(chart.x_label)
    _percent(axis.xaxis)
    if points and gold:
        _legend(axis, loc="upper left")
    return axis


def draw_layered_bars(chart: LayeredBarChart, axis: Any) -> Any:
    """Draw bars within bars, or behind each other if they are stacked."""
    axis = _row_axis(chart.names, axis)
    before = np.zeros(len(chart.names))
    for layer in chart.layers:
        style = {"height": 0.72, "left": before, "color": COLORS[layer.tone], "label": layer.label}
        axis.barh(range(len(chart.names)), layer.values, **style)
        before = before + np.array(layer.values) * chart.stacked
    _name_rows(axis, chart.names)
    axis.set_xlim(0, 1)
    axis.set_xlabel(chart.x_label)
    _percent(axis.xaxis)
    _legend(axis, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
    return axis


def draw_bars(chart: BarChart, axis: Any) -> Any:
    """Draw bars to the right and to the left of zero; shares carry their annotations."""
    axis = _row_axis(chart.names, axis)
    colors = [COLORS[tone] for tone in chart.tones]
    axis.barh(range(len(chart.names)), chart.values, height=0.7, color=colors)
    _name_rows(axis, chart.names)
    axis.set_xlabel(_literal(chart.x_label))
    if chart.percent:
        for at, (value, text) in enumerate(zip(chart.values, chart.annotations, strict=True)):
            place = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
            axis.annotate(text, (value, at), (4, 0), **place)
        axis.set_xlim(0, 1.12 * max(*chart.values, 1e-3))
        _percent(axis.xaxis)
    else:
        axis.axvline(0, color="0.3", linewidth=0.8)
    _note(axis, chart.note)
    return axis


def draw_histogram(chart: Histogram, axis: Any) -> Any:
    """Draw bars between edges, layers in front of each other."""
    axis = _axis(axis, 6.0, 2.8)
    width = np.diff(chart.edges)
    for layer in chart.layers:
        bars = {"width": 0.94 * width, "color": COLORS[layer.tone], "label": layer.label}
        axis.bar(chart.edges[:-1] + width / 2, layer.values, **bars)
    axis.set(xlim=(chart.edges[0], 1), xlabel=_literal(chart.x_label), ylabel=chart.y_label)
    if chart.percent:
        _percent(axis.yaxis)
    _open(axis)
    return axis


def draw_lines(chart: LineChart, axis: Any) -> Any:
    """Draw lines with bands; probabilities with whiskers and the diagonal."""
    axis = _axis(axis, 6.0, 3.2)
    bands = len(chart.lines) <= _MOST_BANDS
    colored = len({line.tone for line in chart.lines}) == len(chart.lines)
    for line in chart.lines:
        _draw_line(chart, line, axis, COLORS[line.tone] if colored else None, band=bands)
    for change in (change for line in chart.lines for change in line.changes):
        axis.axvline(change, color="0.6", linewidth=0.8, linestyle=":")
    if chart.unit_square:
        axis.plot([0, 1], [0, 1], color=COLORS["other"], linewidth=1, linestyle="--")
        axis.set(xlim=(0, 1), ylim=(0, 1))
    if chart.logarithmic:
        ticks = np.unique(np.concatenate([line.x for line in chart.lines]))
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks], fontsize=8)
        axis.minorticks_off()
    if chart.steps:
        axis.set_ylim(0, 1.1 * max(1.0, *(float(np.max(line.y, initial=1.0)) for line in chart.lines)))
    if chart.percent:
        _percent(axis.yaxis)
        axis.grid(axis="y", color="0.92", linewidth=0.8)
    axis.set(xlabel=_literal(chart.x_label), ylabel=chart.y_label)
    if len(chart.lines) > 1:
        _legend(axis, ncols=1 if chart.percent else min(5, len(chart.lines)))
    _note(axis, chart.note)
    _open(axis)
    return axis


def _draw_line(chart: LineChart, line: Line, axis: Any, color: str | None, *, band: bool) -> None:
    markers = {"marker": "o", "markersize": 4} if chart.percent or chart.unit_square else {}
    style = {"drawstyle": "steps-post"} if chart.steps else {}
    name = _literal(line.name)
    (drawn,) = axis.plot(line.x, line.y, color=color, linewidth=1.4, label=name, **markers, **style)
    color = drawn.get_color()
    if line.low is not None and line.high is not None:
        if chart.unit_square:
            axis.vlines(line.x, line.low, line.high, color=color, alpha=0.5, linewidth=2)
        elif band:
            axis.fill_between(line.x, line.low, line.high, color=color, alpha=0.15, linewidth=0)


def draw_heat_map(chart: HeatMap, axis: Any) -> Any:
    """Draw all pairs, with their values if there is room; pairs without a value stay white."""
    m = len(chart.names)
    side = max(3.2, 2.2 + 0.22 * m)
    axis = _axis(axis, side + 0.9, side)
    shown = np.array(chart.values)
    np.fill_diagonal(shown, np.nan)
    finite = shown[np.isfinite(shown)]
    low, high = float(min(0.0, finite.min(initial=0.0))), float(finite.max(initial=0.0) or 1.0)
    image = axis.imshow(shown, cmap="cividis", vmin=low, vmax=max(high, low + 1e-3))
    names = [_short(name) for name in chart.names]
    size = 8 if m <= 40 else 5
    axis.set_xticks(range(m), names, rotation=90, fontsize=size)
    axis.set_yticks(range(m), names, fontsize=size)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(shown if m <= _MOST_NUMBERS else np.zeros((0, 0))):
        if np.isfinite(value):
            color = "white" if value < (low + high) / 2 else "black"
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)
    bar = axis.figure.colorbar(image, ax=axis, shrink=0.75, pad=0.02)
    bar.set_label(chart.value_label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    return axis


def draw_circle(values: Array, names: Sequence[str], axis: Any, *, least: float, most: int) -> Any:
    """Draw sources on a circle with lines between pairs; ``values``, shape (m, m), are correlations."""
    axis = _axis(axis, 7.0, 6.8)
    m = len(names)
    angle = {source: 2 * pi * place / m for place, source in enumerate(seriate(np.maximum(values, 0.0)))}
    first, second = np.triu_indices(m, 1)
    size = values[first, second]
    strong = np.flatnonzero(np.abs(size) >= least)
    drawn = strong[np.argsort(-np.abs(size[strong]), kind="stable")][:most]
    top = float(np.abs(size[drawn]).max(initial=0.0))
    weakest = 0.8 * float(np.abs(size[drawn]).min(initial=top))
    for at in drawn[::-1]:
        share = (abs(size[at]) - weakest) / max(top - weakest, 1e-9)
        style = {"linewidth": 0.7 + 3.0 * share, "alpha": 0.3 + 0.6 * share, "solid_capstyle": "round"}
        curve = _bend(angle[int(first[at])], angle[int(second[at])])
        axis.plot(*curve, color=BLUE if size[at] > 0 else ORANGE, **style)
    _draw_names(axis, names, angle)
    count = format_count(len(strong), "pair")
    if len(strong) > len(drawn):
        count = f"{len(drawn)} strongest of {count}"
    axis.set_title(f"{count} with a correlation of at least {least:g} given the truth", fontsize=9)
    return axis


def _bend(a: float, b: float) -> tuple[Array, Array]:
    """Return x and y of a curve between two angles on the circle, bent toward the center."""
    t = np.linspace(0, 1, 24)
    ends = np.array([[cos(a), sin(a)], [cos(b), sin(b)]])
    middle = ends.mean(axis=0) * (0.9 - 0.6 * np.linalg.norm(ends[0] - ends[1]) / 2)
    points = np.outer((1 - t) ** 2, ends[0]) + np.outer(2 * t * (1 - t), middle) + np.outer(t**2, ends[1])
    return points[:, 0], points[:, 1]


def _draw_names(axis: Any, names: Sequence[str], angles: dict[int, float]) -> None:
    for source, angle in angles.items():
        axis.plot(cos(angle), sin(angle), "o", color="0.25", markersize=4)
        left = cos(angle) < 0
        axis.text(
            1.06 * cos(angle),
            1.06 * sin(angle),
            _short(names[source]),
            fontsize=8 if len(names) <= 40 else 5.5,
            rotation=degrees(angle) + (180 if left else 0),
            rotation_mode="anchor",
            ha="right" if left else "left",
            va="center",
        )
    reach = 1.1 + 0.032 * max(len(_short(name)) for name in names)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axis.axis("off")


def _axis(axis: Any, width: float, height: float) -> Any:
    return new_axes(1, width, height)[0] if axis is None else axis


def _row_axis(rows: Sequence[Any], axis: Any) -> Any:
    return _axis(axis, 6.5, max(2.0, 0.9 + 0.24 * len(rows)))


def _name_rows(axis: Any, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    _open(axis)


def _open(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _legend(axis: Any, **options: Any) -> None:
    axis.legend(fontsize=8, frameon=False, **options)


def _note(axis: Any, note: str) -> None:
    if note:
        axis.set_title(_literal(note), fontsize=9, loc="left")


def _percent(axis: Any) -> None:
    """Show shares in percent, with as many digits as the ticks have."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}%"))


def _short(name: Any, most: int = 28) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(name))
    return _literal(text if len(text) <= most else f"{text[: most - 1]}…")


def _literal(text: str) -> str:
    """Escape ``$``, which would start mathematics."""
    return text.replace("$", r"\$")
