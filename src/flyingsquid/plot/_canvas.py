"""Axes to draw on, and colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's colours, which the colour-blind can tell apart too; grey for what is not the point.
BLUE, ORANGE, SKY, GREY = "#0072B2", "#D55E00", "#56B4E9", "#8A8F98"
# A row for a source, in inches.
ROW = 0.24


def one_axis(axis: Any, width: float, height: float) -> Any:
    """The axis that was given, or that of a new figure of so many inches.

    The figure belongs to nobody: pyplot does not know it, so nothing has to be closed. Its ``savefig`` writes
    it, and a notebook shows ``axis.figure``.
    """
    return several_axes(1, width, height)[0] if axis is None else axis


def several_axes(rows: int, width: float, height: float, **options: Any) -> Any:
    """Axes below each other in a new figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'flyingsquid[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.subplots(rows, 1, squeeze=False, **options)[:, 0]


def height_of(n_rows: int) -> float:
    """Inches for a picture with one row a source."""
    return max(2.0, 0.9 + ROW * n_rows)


def name_rows(axis: Any, names: Any) -> None:
    """One row a source, from above to below."""
    axis.set_yticks(range(len(names)), [shortened(name) for name in names], fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    plain(axis)


def plain(axis: Any) -> None:
    """Without the box around."""
    axis.spines[["top", "right"]].set_visible(False)


def in_percent(axis: Any, which: str = "x") -> None:
    """Shares as percentages, with as many digits as the ticks have."""
    from matplotlib.ticker import FuncFormatter

    words = FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}%")
    getattr(axis, f"{which}axis").set_major_formatter(words)


def shortened(name: Any, most: int = 28) -> str:
    """A name on one line that leaves room for the picture. ``$`` is taken for itself, not for mathematics."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")
