"""Plots with two axes: histograms, calibration, curves over items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.reports.marks import (
    WIDTH,
    Scale,
    dot,
    line,
    path,
    percent,
    plot,
    rect,
    round_ticks,
    text_within,
    words,
)

Array = NDArray[np.float64]
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, WIDTH - 12, 10.0, 180.0
_PANEL = (WIDTH, 84.0)


def ticks_beside(y: Scale, ticks: Sequence[float], left: float, right: float, spec: str) -> Iterable[str]:
    """Thin lines at round numbers, and the numbers at their left."""
    for tick in ticks:
        yield line("grid", left, y(tick), right, y(tick))
        yield words(format(tick, spec), left - 6, y(tick), "side")


def histogram(shares: Array, below: Array | None, edges: Array, *, label: str, says: str, what: str) -> str:
    """Bars between ``edges``, (b + 1,): ``shares`` of all items, (b,); ``below``, the wrong ones of them."""
    x = Scale(float(edges[0]), float(edges[-1]), _LEFT, _RIGHT)
    top = float(shares.max()) or 1.0
    y = Scale(0.0, top, _BOTTOM, _TOP)
    ticks = round_ticks(0.0, top, 4)
    parts = [*ticks_beside(y, ticks, _LEFT, _RIGHT, percent(ticks))]
    for b, share in enumerate(shares.tolist()):
        left, right = x(float(edges[b])) + 0.7, x(float(edges[b + 1])) - 0.7
        hint = f"{edges[b]:.2f} to {edges[b + 1]:.2f}: {share:.2%} of items"
        parts.append(rect("bar", left, y(share), right - left, _BOTTOM - y(share), hint=hint))
        if below is not None and below[b] > 0:
            part = float(below[b])
            hint = f"{edges[b]:.2f} to {edges[b + 1]:.2f}: {part:.2%} of items, wrong"
            parts.append(rect("bar bad", left, y(part), right - left, _BOTTOM - y(part), hint=hint))
    below_axis = round_ticks(x.low, x.high, 5)
    parts += [words(f"{t:g}", x(t), _BOTTOM + 13, f"tick{_end(x, t)}") for t in below_axis]
    parts += [line("zero", _LEFT, _BOTTOM, _RIGHT, _BOTTOM), words(what, _RIGHT, _BOTTOM + 28, "tick end")]
    return plot(_BOTTOM + 34, parts, label=label, says=says)


def _end(x: Scale, tick: float) -> str:
    return " start" if x(tick) <= x.start + 1 else " end" if x(tick) >= x.end - 1 else ""


def reliability(
    claimed: Array,
    found: Array,
    low: Array,
    high: Array,
    counts: NDArray[np.int64],
    start: float,
    *,
    label: str,
    says: str,
) -> str:
    """What was claimed against what was found, (b,) each, with intervals; the diagonal is perfect."""
    x, y = Scale(start, 1.0, _LEFT, _RIGHT), Scale(start, 1.0, 230, 22)
    ticks = round_ticks(start, 1.0, 5)
    parts = [*ticks_beside(y, ticks, _LEFT, x.end, ".1f")]
    parts += [words(f"{t:.1f}", x(t), 244, f"tick{_end(x, t)}") for t in ticks]
    parts += [path("curve ideal", [(x(start), y(start)), (x(1.0), y(1.0))])]
    largest = max(int(counts.max()), 1)
    for b in range(len(claimed)):
        place = x(float(claimed[b]))
        parts.append(line("whisker", place, y(float(low[b])), place, y(float(high[b]))))
        hint = f"claimed {claimed[b]:.2f}, found {found[b]:.2f} on {int(counts[b]):,} items"
        radius = 2.2 + 3 * float(np.sqrt(counts[b] / largest))
        parts.append(dot("point", place, y(float(found[b])), radius, hint=hint))
    parts += [words("claimed", x.end, 258, "tick end"), words("found", 0, 10, "tick start")]
    return plot(264, parts, label=label, says=says)


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """A number over items: places and values of shape (r,), its band, and where it changed."""

    name: str
    at: Array
    values: Array
    low: Array
    high: Array
    changes: tuple[int, ...] = ()


def courses(all_of: Sequence[Course], *, chance: float, label: str, says: str) -> str:
    """Small multiples, two beside each other, all on one scale."""
    known = np.concatenate([np.concatenate([c.values, c.low, c.high]) for c in all_of])
    known = known[np.isfinite(known)]
    y_low, y_high = float(min(known.min(), chance)), float(known.max())
    span = float(max(c.at.max() for c in all_of))
    width, height = (WIDTH - 16) / 2, _PANEL[1]
    parts = []
    for i, course in enumerate(all_of):
        left, top = (i % 2) * (width + 16), (i // 2) * (height + 14)
        x, y = Scale(0.0, span, left + 34, left + width), Scale(y_low, y_high, top + height - 14, top + 18)
        parts += _panel(course, x, y, top, chance, span, last=i >= len(all_of) - 2)
    rows = -(-len(all_of) // 2)
    return plot(rows * (height + 14), parts, label=label, says=says)


def _panel(
    course: Course, x: Scale, y: Scale, top: float, chance: float, span: float, *, last: bool
) -> list[str]:
    parts = [text_within(course.name, x.start, top + 9, x.end - x.start, "value")]
    parts += ticks_beside(y, round_ticks(y.low, y.high, 2), x.start, x.end, ".0%")
    parts.append(line("chance", x.start, y(chance), x.end, y(chance)))
    known = np.isfinite(course.low) & np.isfinite(course.high) & np.isfinite(course.values)
    at = [x(float(v)) for v in course.at]
    if known.any():
        upper = [(at[i], y(float(course.high[i]))) for i in np.flatnonzero(known)]
        lower = [(at[i], y(float(course.low[i]))) for i in np.flatnonzero(known)[::-1]]
        parts.append(path("band", upper + lower, closed=True))
    seen = np.flatnonzero(np.isfinite(course.values))
    if len(seen):
        parts.append(path("curve", [(at[i], y(float(course.values[i]))) for i in seen]))
    parts += [line("change", x(float(c)), y.end, x(float(c)), y.start) for c in course.changes]
    if last:
        parts.append(words("0", x.start, y.start + 12, "tick start"))
        parts.append(words(f"{span:,.0f}", x.end, y.start + 12, "tick end"))
    return parts


def curves(lines: Sequence[Course], *, label: str, says: str, what: str, logarithmic: bool = False) -> str:
    """One or two curves with bands on common axes, for instance accuracy against the number of items."""
    known = np.concatenate([np.concatenate([c.values, c.low, c.high]) for c in lines])
    known = known[np.isfinite(known)]
    pad = 0.05 * float(np.ptp(known)) or 0.01
    y = Scale(max(float(known.min()) - pad, 0.0), min(float(known.max()) + pad, 1.0), _BOTTOM, _TOP)
    place = (lambda v: float(np.log(v))) if logarithmic else float
    every = np.concatenate([c.at for c in lines])
    x = Scale(place(float(every.min())), place(float(every.max())), _LEFT, _RIGHT)
    ticks = round_ticks(y.low, y.high, 4)
    parts = [*ticks_beside(y, ticks, _LEFT, _RIGHT, percent(ticks))]
    for at, course in enumerate(lines):
        spots = [x(place(float(v))) for v in course.at]
        kind = "other" if at else ""
        for spot, low, high in zip(spots, course.low, course.high, strict=True):
            if np.isfinite(low) and np.isfinite(high):
                parts.append(line(f"whisker {kind}", spot, y(float(low)), spot, y(float(high))))
        parts.append(
            path(f"curve {kind}", [(s, y(float(v))) for s, v in zip(spots, course.values, strict=True)])
        )
        for spot, value, where in zip(spots, course.values, course.at, strict=True):
            hint = f"{course.name}, {where:,.0f} {what}: {value:.1%}"
            parts.append(dot(f"point {kind}", spot, y(float(value)), 3, hint=hint))
    seen: list[float] = []
    for value in np.unique(every).tolist():
        spot = x(place(value))
        if not seen or spot - seen[-1] > 44:
            parts.append(words(f"{value:,.0f}", spot, _BOTTOM + 13, f"tick{_end(x, place(value))}"))
            seen.append(spot)
    parts.append(words(what, _RIGHT, _BOTTOM + 28, "tick end"))
    return plot(_BOTTOM + 34, parts, label=label, says=says)
