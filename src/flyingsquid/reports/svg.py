"""Draw chart descriptions as SVG. Colors and fonts come from the style sheet, by class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np

from flyingsquid._table import text_width
from flyingsquid._values import format_count
from flyingsquid.charts import (
    BarChart,
    Chart,
    HeatMap,
    Histogram,
    IntervalChart,
    IntervalRow,
    LayeredBarChart,
    Line,
    LineChart,
)
from flyingsquid.reports.page import escape_name, escape_text, figure, legend, shorten

# Charts are drawn for a phone, so that text keeps its size there; a wide page enlarges them.
_WIDTH = 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, _WIDTH - 12, 10.0, 180.0
_ROW = 17.0
_LONGEST_LABEL = 138.0  # largest width of row names
_NUMBER = 38.0  # width of an annotation next to a bar
_HEAT_MAP = 1.5 * _WIDTH  # as tall as wide, so it gets more of the page
_PANEL = 84.0  # height of one of several panels
_LETTER, _WIDEST_LETTER = 5.2, 6.6  # mean and largest width of a letter of 10.5 pixels; fonts differ

Legend = list[tuple[str, str]]


def chart_figure(chart: Chart, caption: str, *, wide: bool = False) -> str:
    """Return a figure with a chart and its legend; ``caption`` is HTML."""
    drawing, entries = _RENDERERS[type(chart)](chart)
    return figure(chart.title, drawing, caption, key=legend(entries), wide=wide)


def panels_figure(chart: LineChart, chances: Mapping[str, float], caption: str) -> str:
    """Return a figure with one panel for each line of a chart, two next to each other, on one scale.

    ``chances`` are horizontal reference lines by the name of the line.
    """
    references = [chances.get(line.name, np.nan) for line in chart.lines]
    known = [value for value in references if np.isfinite(value)]
    values = np.concatenate([*(line.known() for line in chart.lines), known])
    y_low, y_high = float(values.min()), float(values.max())
    span = float(max(line.x.max() for line in chart.lines))
    width = (_WIDTH - 16) / 2
    parts = []
    for i, (line, chance) in enumerate(zip(chart.lines, references, strict=True)):
        left, top = (i % 2) * (width + 16), (i // 2) * (_PANEL + 14)
        x = Scale(0.0, span, left + 34, left + width)
        y = Scale(y_low, y_high, top + _PANEL - 14, top + 18)
        parts += _draw_panel(line, x, y, top, chance)
        if i >= len(chart.lines) - 2:
            parts.append(_text("0", x.start, y.start + 12, "tick start"))
            parts.append(_text(f"{span:,.0f}", x.end, y.start + 12, "tick end"))
    drawing = _svg(chart, -(-len(chart.lines) // 2) * (_PANEL + 14), parts)
    entries = [(_line("chance", 0, 6, 14, 6), "chance")] if known else []
    if any(line.changes for line in chart.lines):
        entries.append((_line("change", 7, 0, 7, 12), "a change"))
    return figure(chart.title, drawing, caption, key=legend(entries), wide=True)


def draw_bars(chart: BarChart, longest_label: float = _LONGEST_LABEL) -> str:
    """Draw bars to the right and to the left of zero, each with its annotation."""
    left = _label_width(chart.names, longest_label)
    signed = min(0.0, *chart.values) < 0
    zero = left + (_NUMBER + (_RIGHT - left - 2 * _NUMBER) / 2 if signed else 4)
    reach = max(map(abs, chart.values)) or 1.0
    scale = (_RIGHT - _NUMBER - zero) / reach
    bottom = _ROW * len(chart.names) + 6
    parts = [_line("zero", zero, 2, zero, bottom)]
    if chart.percent:
        parts += _ticks_below(Scale(0.0, reach, zero, _RIGHT - _NUMBER), bottom, 4)
    rows = zip(chart.names, chart.values, chart.tones, chart.annotations, strict=True)
    for at, (name, value, tone, annotation) in enumerate(rows):
        y, length = _ROW * at + 7, abs(value) * scale
        start, end, side = (
            (zero, zero + length + 4, "") if value >= 0 else (zero - length, zero - length - 4, " end")
        )
        parts.append(_row_label(name, y + _ROW / 2 - 3, left))
        parts.append(_rect(f"bar {tone}", start, y, length, _ROW - 6))
        parts.append(_text(annotation, end, y + _ROW / 2 - 3, f"value central{side}"))
    return _svg(chart, bottom + (18 if chart.percent else 4), parts)


def _render_bars(chart: BarChart) -> tuple[str, Legend]:
    return draw_bars(chart), []


def _render_intervals(chart: IntervalChart) -> tuple[str, Legend]:
    known = [
        value
        for row in chart.rows
        for value in (row.value, row.low, row.high, row.gold, row.chance)
        if value is not None
    ]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    pad = max(0.01, 0.04 * (high - low))
    left = _label_width(row.name for row in chart.rows)
    x = Scale(max(low - pad, 0.0), min(high + pad, 1.0), left, _RIGHT)
    bottom = _ROW * len(chart.rows) + 6
    parts = _ticks_below(x, bottom)
    for at, row in enumerate(chart.rows):
        y = _row_center(at)
        parts.append(_row_label(row.name, y, left))
        if row.low is not None and row.high is not None:
            parts.append(_line(f"whisker {row.tone}", x(row.low), y, x(row.high), y))
        if row.chance is not None:
            parts.append(_line("chance", x(row.chance), y - _ROW / 2, x(row.chance), y + _ROW / 2))
        if row.gold is not None:
            hint = f"{row.name[:80]}: {row.gold:.1%} on gold labels"
            parts.append(_diamond("gold-mark", x(row.gold), y, hint))
        if row.value is not None:
            parts.append(_dot(f"point {row.tone}", x(row.value), y, hint=_interval_hint(row)))
    entries: Legend = []
    if chart.value_label:
        entries.append((_line("whisker", 0, 6, 14, 6) + _dot("point", 7, 6), chart.value_label))
    if chart.gold_label and any(row.gold is not None for row in chart.rows):
        entries.append((_diamond("gold-mark", 7, 6), chart.gold_label))
    if chart.bad_label and any(row.tone == "bad" for row in chart.rows):
        entries.append((_dot("point bad", 7, 6), chart.bad_label))
    if chart.chance_label:
        entries.append((_line("chance", 7, 0, 7, 12), chart.chance_label))
    return _svg(chart, bottom + 18, parts), entries


def _interval_hint(row: IntervalRow) -> str:
    ends = "" if row.low is None or row.high is None else f", {row.low:.1%} to {row.high:.1%}"
    chance = "" if row.chance is None else f"; chance {row.chance:.1%}"
    return f"{row.name[:80]}: {row.value:.1%}{ends}{chance}"


def _render_layered_bars(chart: LayeredBarChart) -> tuple[str, Legend]:
    values = np.array([layer.values for layer in chart.layers])
    longest = float((values.sum(axis=0) if chart.stacked else values[0]).max(initial=1e-6))
    left = _label_width(chart.names)
    x = Scale(0.0, 1.0 if longest > 0.4 and not chart.stacked else longest, left, _RIGHT)
    bottom = _ROW * len(chart.names) + 6
    parts = _ticks_below(x, bottom, 4)
    heights = [_ROW - 6] * len(chart.layers) if chart.stacked else [11.0, 7.0, 3.0]
    for at, name in enumerate(chart.names):
        y, before = _row_center(at), 0.0
        parts.append(_row_label(name, y, left))
        for layer, height in zip(chart.layers, heights, strict=True):
            share = layer.values[at]
            hint = f"{name[:80]}: {layer.label} {share:.1%}"
            if share > 0:
                start = x(before)
                width = x(before + share) - start
                parts.append(_rect(f"bar {layer.tone}", start, y - height / 2, width, height, hint))
            before += share * chart.stacked
    entries = [
        (_rect(f"bar {layer.tone}", 0, 6 - height / 2, 14, height), layer.label)
        for layer, height in zip(chart.layers, heights, strict=True)
    ]
    return _svg(chart, bottom + 18, parts), entries


def _render_histogram(chart: Histogram) -> tuple[str, Legend]:
    edges = chart.edges.tolist()
    x = Scale(edges[0], edges[-1], _LEFT, _RIGHT)
    y = Scale(0.0, max(chart.layers[0].values) or 1.0, _BOTTOM, _TOP)
    ticks = round_ticks(0.0, y.high, 4)
    parts = _ticks_beside(y, ticks, _LEFT, _RIGHT, _percent_format(ticks) if chart.percent else ",g")
    for layer in chart.layers:
        for low, high, value in zip(edges, edges[1:], layer.values, strict=False):
            left, right = x(low) + 0.7, x(high) - 0.7
            shown = f"{value:.2%}" if chart.percent else f"{value:,g}"
            hint = f"{low:.2f} to {high:.2f}: {shown} {layer.label}"
            if value > 0:
                parts.append(
                    _rect(f"bar {layer.tone}", left, y(value), right - left, _BOTTOM - y(value), hint)
                )
    parts += [_text(f"{t:g}", x(t), _BOTTOM + 13, _tick_class(x, t)) for t in round_ticks(x.low, x.high, 5)]
    parts.append(_line("zero", _LEFT, _BOTTOM, _RIGHT, _BOTTOM))
    parts.append(_text(chart.x_label, _RIGHT, _BOTTOM + 28, "tick end"))
    entries = [(_rect(f"bar {layer.tone}", 1, 1, 12, 10), layer.label) for layer in chart.layers]
    return _svg(chart, _BOTTOM + 34, parts), entries if len(entries) > 1 else []


def _render_lines(chart: LineChart) -> tuple[str, Legend]:
    if chart.unit_square:
        return _draw_reliability(chart), []
    values = np.concatenate([line.known() for line in chart.lines])
    pad = 0.05 * float(np.ptp(values)) or 0.01
    y = Scale(max(float(values.min()) - pad, 0.0), min(float(values.max()) + pad, 1.0), _BOTTOM, _TOP)
    place: Callable[[float], float] = log10 if chart.logarithmic else float
    positions = np.unique(np.concatenate([line.x for line in chart.lines])).tolist()
    x = Scale(place(positions[0]), place(positions[-1]), _LEFT, _RIGHT)
    ticks = round_ticks(y.low, y.high, 4)
    parts = _ticks_beside(y, ticks, _LEFT, _RIGHT, _percent_format(ticks))
    for line in chart.lines:
        points = [(x(place(float(v))), y(float(value))) for v, value in zip(line.x, line.y, strict=True)]
        parts += _draw_whiskers(line, [px for px, _ in points], y)
        parts.append(_path(f"curve {line.tone}", points))
        for (px, py), size, value in zip(points, line.x, line.y, strict=True):
            hint = f"{line.name}, {size:,.0f} {chart.x_label}: {value:.1%}"
            parts.append(_dot(f"point {line.tone}", px, py, 3, hint))
    last = -np.inf
    for position in positions:
        px = x(place(position))
        if px - last > 44:
            parts.append(_text(f"{position:,.0f}", px, _BOTTOM + 13, _tick_class(x, place(position))))
            last = px
    parts.append(_text(chart.x_label, _RIGHT, _BOTTOM + 28, "tick end"))
    entries = [
        (_line(f"curve {line.tone}", 0, 6, 14, 6) + _dot(f"point {line.tone}", 7, 6, 3), line.name)
        for line in chart.lines
    ]
    return _svg(chart, _BOTTOM + 34, parts), entries


def _draw_reliability(chart: LineChart) -> str:
    """Draw observed frequencies against probabilities; larger points stand for more items."""
    (line,) = chart.lines
    start = floor(10 * min(float(line.x.min()), float(line.known().min()))) / 10
    x, y = Scale(start, 1.0, _LEFT, _RIGHT), Scale(start, 1.0, 230, 22)
    ticks = round_ticks(start, 1.0, 5)
    parts = _ticks_beside(y, ticks, _LEFT, _RIGHT, ".1f")
    parts += [_text(f"{t:.1f}", x(t), 244, _tick_class(x, t)) for t in ticks]
    parts.append(_path("curve ideal", [(x(start), y(start)), (x(1.0), y(1.0))]))
    places = [x(float(v)) for v in line.x]
    parts += _draw_whiskers(line, places, y)
    sizes = np.ones(len(places)) if line.sizes is None else line.sizes
    for px, probability, observed, size in zip(places, line.x, line.y, sizes, strict=True):
        radius = 2.2 + 3 * float(np.sqrt(size / sizes.max()))
        hint = f"predicted {probability:.2f}, observed {observed:.2f} on {format_count(int(size), 'item')}"
        parts.append(_dot("point", px, y(float(observed)), radius, hint))
    parts += [_text("predicted", x.end, 258, "tick end"), _text("observed", 0, 10, "tick start")]
    return _svg(chart, 264, parts)


def _draw_whiskers(line: Line, places: Sequence[float], y: Scale) -> list[str]:
    if line.low is None or line.high is None:
        return []
    return [
        _line(f"whisker {line.tone}", px, y(float(low)), px, y(float(high)))
        for px, low, high in zip(places, line.low, line.high, strict=True)
        if np.isfinite(low) and np.isfinite(high)
    ]


def _draw_panel(line: Line, x: Scale, y: Scale, top: float, chance: float) -> list[str]:
    parts = [_fitted_text(line.name, x.start, top + 9, x.end - x.start, "value")]
    parts += _ticks_beside(y, round_ticks(y.low, y.high, 2), x.start, x.end, ".0%")
    if np.isfinite(chance):
        parts.append(_line("chance", x.start, y(chance), x.end, y(chance)))
    seen = np.flatnonzero(np.isfinite(line.y))
    if line.low is not None and line.high is not None:
        band = [(x(float(line.x[i])), float(line.low[i]), float(line.high[i])) for i in seen]
        band = [(px, low, high) for px, low, high in band if np.isfinite(low) and np.isfinite(high)]
        upper = [(px, y(high)) for px, _, high in band]
        lower = [(px, y(low)) for px, low, _ in reversed(band)]
        parts += [_path("band", upper + lower, closed=True)] if band else []
    if len(seen):
        parts.append(_path("curve", [(x(float(line.x[i])), y(float(line.y[i]))) for i in seen]))
    return parts + [_line("change", x(change), y.end, x(change), y.start) for change in line.changes]


def _render_heat_map(chart: HeatMap) -> tuple[str, Legend]:
    """Draw the lower triangle. Rows have names and numbers, columns the same numbers."""
    m = len(chart.names)
    pairs = chart.pairs()
    strongest = max(0.2, float(np.nanmax(np.abs(pairs), initial=0.0)))
    names_end = _label_width(chart.names)
    left = names_end + 20
    side = min((_HEAT_MAP - left) / max(m - 1, 1), 34.0)
    gap, bottom = 0.5 if side > 6 else 0.2, (m - 1) * side
    parts = []
    for i in range(1, m):
        top = (i - 1) * side
        parts.append(_row_label(chart.names[i], top + side / 2, names_end))
        parts.append(_text(str(i + 1), left - 5, top + side / 2, "side"))
        for j in range(i):
            kind, more = _cell_style(chart.values[i, j] / strongest)
            place = (left + j * side + gap, top + gap, side - 2 * gap, side - 2 * gap)
            parts.append(_rect(kind, *place, chart.hints[i][j], more))
    parts += [
        _text(str(j + 1), left + (j + 0.5) * side, bottom + 12, "tick")
        for j in range(0, m - 1, ceil(14 / side))  # so that numbers do not overlap
    ]
    # The first name has no row of its own.
    parts.append(
        _fitted_text(f"1 = {chart.names[0]}", left + side + 6, side / 2, _LONGEST_LABEL, "value central")
    )
    drawing = _svg(chart, bottom + 16, parts, max(left + bottom, _WIDTH))
    none = "0 or no common items" if np.isnan(pairs).any() else "0"
    shades = [(1.0, f"{chart.value_label}: {strongest:.2f}"), (0.5, f"{strongest / 2:.2f}"), (np.nan, none)]
    if (np.nan_to_num(pairs) < -0.02).any():
        shades.append((-0.6, "below 0"))
    styles = [(*_cell_style(strength), text) for strength, text in shades]
    entries = [(_rect(kind, 1, 1, 12, 10, more=more), text) for kind, more, text in styles]
    return f'<div class="scroll">{drawing}</div>', entries


def _cell_style(strength: float) -> tuple[str, str]:
    """Return the class and the opacity of a cell; ``strength`` 1 is the strongest, NaN unknown."""
    if not np.isfinite(strength):
        return "frame", ""
    return "bar" if strength >= 0 else "bar bad", f' fill-opacity="{min(abs(strength), 1.0):.2f}"'


_RENDERERS: dict[type, Callable[[Any], tuple[str, Legend]]] = {
    BarChart: _render_bars,
    HeatMap: _render_heat_map,
    Histogram: _render_histogram,
    IntervalChart: _render_intervals,
    LayeredBarChart: _render_layered_bars,
    LineChart: _render_lines,
}


# ---------------------------------------------------------------------- scales, ticks and marks


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from values to positions in the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most ``most`` + 1 round numbers between two.

    >>> round_ticks(0.47, 0.96)
    [0.5, 0.6, 0.7, 0.8, 0.9]
    >>> round_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = max(high - low, 1e-12)
    magnitude = 10.0 ** floor(log10(span / most))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if span / (m * magnitude) <= most + 1e-9)
    first = int(-(-low // step)) if low % step > step * 1e-9 else round(low / step)
    ticks = []
    while first * step <= high + step * 1e-9:
        ticks.append(round(first * step, 12) + 0.0)
        first += 1
    return ticks


def fit_text(text: str, columns: int) -> str:
    """Shorten a text to a number of columns; a Chinese character takes two.

    >>> fit_text("a_rather_long_name_1", 12), fit_text("漢字漢字漢字漢字", 9)
    ('a_rath…ame_1', '漢字…漢字')
    """
    for most in range(columns, 1, -1):
        shown = shorten(text, most)
        if text_width(shown) <= columns:
            return shown
    return shorten(text, 2)


def _ticks_below(x: Scale, bottom: float, most: int = 5) -> list[str]:
    ticks = round_ticks(x.low, x.high, most)
    spec = _percent_format(ticks)
    lines = [_line("grid", x(tick), 4, x(tick), bottom) for tick in ticks]
    return lines + [_text(format(tick, spec), x(tick), bottom + 13, _tick_class(x, tick)) for tick in ticks]


def _ticks_beside(y: Scale, ticks: Sequence[float], left: float, right: float, spec: str) -> list[str]:
    lines = [_line("grid", left, y(tick), right, y(tick)) for tick in ticks]
    return lines + [_text(format(tick, spec), left - 6, y(tick), "side") for tick in ticks]


def _tick_class(x: Scale, tick: float) -> str:
    """Return the class of a tick label, which is aligned inward at both ends."""
    return "tick start" if x(tick) <= x.start + 1 else "tick end" if x(tick) >= x.end - 1 else "tick"


def _percent_format(ticks: Sequence[float]) -> str:
    return ".0%" if all(abs(100 * t - round(100 * t)) < 1e-6 for t in ticks) else ".1%"


def _row_center(at: int) -> float:
    return _ROW * at + _ROW / 2 + 4


def _label_width(names: Iterable[str], most: float = _LONGEST_LABEL) -> float:
    longest = max((text_width(shorten(name)) for name in names), default=0)
    return min(most, max(40.0, 14 + longest * _WIDEST_LETTER))


def _svg(chart: Chart, height: float, parts: Iterable[str], width: float = _WIDTH) -> str:
    kind = "plot big" if width > _WIDTH else "plot"
    return (
        f'<svg class="{kind}" viewBox="0 0 {_format(width)} {_format(height)}" role="img" '
        f'aria-label="{escape_text(chart.title)}"><desc>{escape_text(chart.description, 2_000)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _format(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"  # adding 0 turns -0.0 into 0


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line class="{kind}" x1="{_format(x1)}" y1="{_format(y1)}" x2="{_format(x2)}" y2="{_format(y2)}"/>'
    )


def _rect(kind: str, x: float, y: float, width: float, height: float, hint: str = "", more: str = "") -> str:
    place = f'x="{_format(x)}" y="{_format(y)}"'
    size = f'width="{_format(max(width, 0))}" height="{_format(max(height, 0))}"'
    return _mark(f'rect class="{kind}" {place} {size}{more}', hint)


def _dot(kind: str, x: float, y: float, radius: float = 3.6, hint: str = "") -> str:
    return _mark(f'circle class="{kind}" cx="{_format(x)}" cy="{_format(y)}" r="{_format(radius)}"', hint)


def _diamond(kind: str, x: float, y: float, hint: str = "") -> str:
    return _mark(
        f'path class="{kind}" d="M{_format(x)} {_format(y - 4.6)}l4.6 4.6l-4.6 4.6l-4.6 -4.6Z"', hint
    )


def _path(kind: str, points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    corners = "L".join(f"{_format(x)} {_format(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{corners}{"Z" * closed}"/>'


def _mark(opening: str, hint: str) -> str:
    """Return an element; ``hint`` is shown when the pointer is on it."""
    tag = opening.partition(" ")[0]
    return f"<{opening}><title>{escape_text(hint)}</title></{tag}>" if hint else f"<{opening}/>"


def _text(text: str, x: float, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{_format(x)}" y="{_format(y)}">{escape_text(text)}</text>'


def _row_label(name: str, y: float, width: float) -> str:
    return _fitted_text(name, width - 6, y, width - 8, "row")


def _fitted_text(text: str, x: float, y: float, width: float, kind: str) -> str:
    """Return an untrusted text, shortened to a width; the pointer shows all of it."""
    shown = fit_text(text, int(width / _LETTER))
    columns = text_width(shown)
    fit = ""
    if columns * _WIDEST_LETTER > width:  # a wide font might need more room, so letters are set closer
        fit = f' textLength="{_format(min(width, columns * 5.8))}" lengthAdjust="spacingAndGlyphs"'
    return (
        f'<text class="{kind}" x="{_format(x)}" y="{_format(y)}"{fit}>{escape_text(shown)}'
        f"<title>{escape_name(text, 200)}</title></text>"
    )
