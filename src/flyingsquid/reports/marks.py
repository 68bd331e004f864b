"""The marks that plots are made of, as SVG. Colours and letters come from the style sheet, by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10

from flyingsquid._table import text_width
from flyingsquid.reports.escape import name, plain, safe

# Plots are drawn for a phone, so that letters keep their size there; a wide page shows them larger.
WIDTH = 360.0
LABEL = 138.0  # what names of rows take of it at most
ROW = 17.0
_LETTER = 5.2  # mean width of a letter of 10.5 pixels; fonts differ
_WIDEST_LETTER = 6.6


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to places on the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def plot(height: float, parts: Iterable[str], *, label: str, says: str, width: float = WIDTH) -> str:
    """A drawing. ``label`` names it, ``says`` is what somebody who does not see it is told."""
    kind = "plot big" if width > WIDTH else "plot"
    return (
        f'<svg class="{kind}" viewBox="0 0 {num(width)} {num(height)}" role="img" '
        f'aria-label="{safe(label)}"><desc>{safe(says, 2_000)}</desc>{"".join(parts)}</svg>'
    )


def num(value: float) -> str:
    """A coordinate, short. Adding 0 turns -0.0 into 0."""
    return f"{round(value, 1) + 0.0:g}"


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}"/>'


def rect(
    kind: str, x: float, y: float, width: float, height: float, *, hint: str = "", more: str = ""
) -> str:
    """A rectangle; ``hint`` shows when the pointer rests on it."""
    place = f'x="{num(x)}" y="{num(y)}" width="{num(max(width, 0))}" height="{num(max(height, 0))}"'
    return _with_hint(f'rect class="{kind}" {place}{more}', hint, "rect")


def dot(kind: str, x: float, y: float, radius: float = 3.6, *, hint: str = "") -> str:
    """A filled circle."""
    return _with_hint(f'circle class="{kind}" cx="{num(x)}" cy="{num(y)}" r="{num(radius)}"', hint, "circle")


def diamond(kind: str, x: float, y: float, *, hint: str = "") -> str:
    """A square that stands on its corner."""
    reach = 4.6
    points = ((x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y))
    corners = "L".join(f"{num(px)} {num(py)}" for px, py in points)
    return _with_hint(f'path class="{kind}" d="M{corners}Z"', hint, "path")


def path(kind: str, points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """A line through points, or the area that they enclose."""
    corners = "L".join(f"{num(x)} {num(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{corners}{"Z" * closed}"/>'


def words(text: str, x: float, y: float, kind: str = "") -> str:
    """Words of ours, or numbers; names of strangers go through :func:`text_within`."""
    return f'<text class="{kind}" x="{num(x)}" y="{num(y)}">{safe(text)}</text>'


def row_label(source: str, y: float, width: float = LABEL) -> str:
    """A name at the left of a row, cut to what fits; whole where the pointer rests on it."""
    return text_within(source, width - 6, y, width - 8, "row")


def label_width(names: Iterable[str], most: float = LABEL) -> float:
    """What the names of rows take of the width: no more than the longest of them needs."""
    longest = max((text_width(plain(each, 60)) for each in names), default=0)
    return min(most, max(40.0, 14 + longest * _WIDEST_LETTER))


def text_within(text: str, x: float, y: float, room: float, kind: str) -> str:
    """A text of strangers, cut to the room there is; whole where the pointer rests on it."""
    shown = fitted(text, int(room / _LETTER))
    # Where a wide font might need more than there is, letters are set closer.
    squeeze = text_width(shown) * _WIDEST_LETTER > room
    fit = f' textLength="{num(min(room, text_width(shown) * 5.8))}" lengthAdjust="spacingAndGlyphs"' * squeeze
    return (
        f'<text class="{kind}" x="{num(x)}" y="{num(y)}"{fit}>{safe(shown)}'
        f"<title>{name(text, 200)}</title></text>"
    )


def fitted(text: str, columns: int) -> str:
    """The text cut in the middle to so many columns, of which a Chinese character takes two.

    >>> fitted("a_rather_long_name_1", 12), fitted("漢字漢字漢字漢字", 9)
    ('a_rath…ame_1', '漢字…漢字')
    """
    for most in range(columns, 1, -1):
        shown = plain(text, most)
        if text_width(shown) <= columns:
            return shown
    return plain(text, 2)


def percent(ticks: Sequence[float]) -> str:
    """How ticks are to be printed: with as many digits as tell them apart."""
    return ".0%" if all(abs(100 * t - round(100 * t)) < 1e-6 for t in ticks) else ".1%"


def ticks_below(scale: Scale, ticks: Sequence[float], top: float, bottom: float) -> Iterable[str]:
    """Thin lines at round shares, and the numbers below them."""
    spec = percent(ticks)
    for tick in ticks:
        x = scale(tick)
        yield line("grid", x, top, x, bottom)
        end = " start" if x <= scale.start + 1 else " end" if x >= scale.end - 1 else ""
        yield words(format(tick, spec), x, bottom + 13, f"tick{end}")


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most ``most`` + 1 round numbers between two.

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


def _with_hint(opening: str, hint: str, tag: str) -> str:
    return f"<{opening}><title>{safe(hint)}</title></{tag}>" if hint else f"<{opening}/>"
