"""Plots with one row a source: intervals, bars beside each other, parts of a whole, what is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flyingsquid.reports.marks import (
    LABEL,
    ROW,
    WIDTH,
    Scale,
    diamond,
    dot,
    label_width,
    line,
    plot,
    rect,
    round_ticks,
    row_label,
    ticks_below,
    words,
)

_RIGHT = WIDTH - 12


@dataclass(frozen=True, slots=True)
class Estimate:
    """One row of :func:`intervals`: a share with its ends, and what is known of it."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    gold: float | None = None
    kind: str = ""


def intervals(rows: Sequence[Estimate], *, label: str, says: str, chance: float | None = None) -> str:
    """A dot with its interval for each row; a diamond where the truth is known."""
    known = [v for row in rows for v in (row.value, row.low, row.high, row.gold, chance) if v is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    pad = max(0.01, 0.04 * (high - low))
    left = label_width(row.name for row in rows)
    x = Scale(max(low - pad, 0.0), min(high + pad, 1.0), left, _RIGHT)
    bottom = ROW * len(rows) + 6
    parts = [*ticks_below(x, round_ticks(x.low, x.high), 4, bottom)]
    if chance is not None:
        parts += [line("chance", x(chance), 0, x(chance), bottom)]
    for at, row in enumerate(rows):
        y = ROW * at + ROW / 2 + 4
        parts.append(row_label(row.name, y, left))
        if row.low is not None and row.high is not None:
            parts.append(line(f"whisker {row.kind}", x(row.low), y, x(row.high), y))
        if row.gold is not None:
            parts.append(
                diamond("gold-mark", x(row.gold), y, hint=f"{row.name[:80]}: {row.gold:.1%} on known items")
            )
        if row.value is not None:
            parts.append(dot(f"point {row.kind}", x(row.value), y, hint=_told(row)))
    return plot(bottom + 18, parts, label=label, says=says)


def _told(row: Estimate) -> str:
    ends = "" if row.low is None or row.high is None else f", {row.low:.1%} to {row.high:.1%}"
    return f"{row.name[:80]}: {row.value:.1%}{ends}"


def nested(
    names: Sequence[str], layers: Sequence[tuple[str, Sequence[float], str]], *, label: str, says: str
) -> str:
    """Bars within bars: each layer (what, m shares, kind) is a part of the one before, drawn thinner."""
    most = max([*layers[0][1], 1e-6])
    left = label_width(names)
    x = Scale(0.0, 1.0 if most > 0.4 else most, left, _RIGHT)
    bottom = ROW * len(names) + 6
    parts = [*ticks_below(x, round_ticks(0.0, x.high, 4), 4, bottom)]
    for at, name in enumerate(names):
        y = ROW * at + ROW / 2 + 4
        parts.append(row_label(name, y, left))
        for depth, (what, shares, kind) in enumerate(layers):
            height = (11.0, 7.0, 3.0)[depth]
            hint = f"{name[:80]}: {what} {shares[at]:.1%}"
            parts.append(rect(f"bar {kind}", left, y - height / 2, x(shares[at]) - left, height, hint=hint))
    return plot(bottom + 18, parts, label=label, says=says)


def parts_of_whole(
    names: Sequence[str],
    shares: Sequence[Sequence[float]],
    whats: Sequence[str],
    *,
    kinds: Sequence[int],
    label: str,
    says: str,
) -> str:
    """Stacked bars: ``shares[i][r]`` is the part of what r in row i, drawn in the colour of its kind."""
    top = max([sum(row) for row in shares] or [1.0]) or 1.0
    left = label_width(names)
    x = Scale(0.0, top, left, _RIGHT)
    bottom = ROW * len(names) + 6
    parts = [*ticks_below(x, round_ticks(0.0, top, 4), 4, bottom)]
    for at, (name, row) in enumerate(zip(names, shares, strict=True)):
        parts.append(row_label(name, ROW * at + ROW / 2 + 4, left))
        before = 0.0
        for share, what, kind in zip(row, whats, kinds, strict=True):
            if share > 0:
                hint = f"{name[:80]}: {share:.2%} {what}"
                width = x(before + share) - x(before)
                parts.append(rect(f"r{kind}", x(before), ROW * at + 7, width, ROW - 6, hint=hint))
            before += share
    return plot(bottom + 18, parts, label=label, says=says)


def both_ways(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    says: str,
    spec: str = "+.2f",
    most_label: float = LABEL,
) -> str:
    """Bars to the right and to the left of zero, each with its number."""
    reach = max([abs(v) for v in values] or [1.0]) or 1.0
    names_end = label_width(names, most_label)
    room = 38.0  # for the numbers at both ends
    lowest = min([0.0, *values])
    middle = names_end + (room + (_RIGHT - names_end - 2 * room) / 2 if lowest < 0 else 4)
    scale = (_RIGHT - room - middle) / reach
    parts = [line("zero", middle, 2, middle, ROW * len(names) + 6)]
    for at, (name, value) in enumerate(zip(names, values, strict=True)):
        y, long = ROW * at + 7, abs(value) * scale
        left = middle if value >= 0 else middle - long
        parts.append(row_label(name, y + ROW / 2 - 3, names_end))
        parts.append(rect("bar" if value >= 0 else "bar bad", left, y, long, ROW - 6))
        side = "value central" if value >= 0 else "value central end"
        parts.append(
            words(
                format(value + 0.0, spec),
                middle + (long + 4 if value >= 0 else -long - 4),
                y + ROW / 2 - 3,
                side,
            )
        )
    return plot(ROW * len(names) + 10, parts, label=label, says=says)
