"""Draw chart descriptions on matplotlib axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flyingsquid.charts.kinds import (
    BarChart,
    Chart,
    HeatMap,
    Histogram,
    IntervalChart,
    LayeredBarChart,
    Line,
    LineChart,
    Tone,
)

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


def _draw_intervals(chart: IntervalChart, axis: Any) -> Any:
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


def _draw_layered_bars(chart: LayeredBarChart, axis: Any) -> Any:
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


def _draw_bars(chart: BarChart, axis: Any) -> Any:
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


def _draw_histogram(chart: Histogram, axis: Any) -> Any:
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


def _draw_lines(chart: LineChart, axis: Any) -> Any:
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


def _draw_heat_map(chart: HeatMap, axis: Any) -> Any:
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


_RENDERERS: dict[type, Callable[[Any, Any], Any]] = {
    BarChart: _draw_bars,
    HeatMap: _draw_heat_map,
    Histogram: _draw_histogram,
    IntervalChart: _draw_intervals,
    LayeredBarChart: _draw_layered_bars,
    LineChart: _draw_lines,
}


def draw(chart: Chart, axis: Any = None) -> Any:
    """Draw a chart on matplotlib axes, or on those of a new figure, and return them."""
    return _RENDERERS[type(chart)](chart, axis)


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
