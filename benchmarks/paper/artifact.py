"""Tables and figures of the paper: how one is described, and how its page and its picture are formatted."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BLUE, LIGHT, DARK = "#2563a8", "#9ec3e6", "#1b3a5c"
RED, AMBER, GRAY, BLACK = "#c2410c", "#e0a458", "#9aa3ad", "#222222"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "flyingsquid",  # the same element names in every run
    "svg.fonttype": "none",
    "font.size": 9,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Data and sizes to measure with.

    Attributes
    ----------
    data : directory of real votes, or None
    peers : Python interpreter of the environment of other label models, or None
    quick : whether to use small sizes, only to check that everything runs
    """

    data: Path | None = None
    peers: Path | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Measured numbers of one table or figure.

    Attributes
    ----------
    results : JSON data, the same in every run
    timings : JSON data that depends on the machine; empty if nothing was timed
    """

    results: dict[str, Any]
    timings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One table or figure of the paper.

    Attributes
    ----------
    name : name on the command line and of the files
    title : title of the page
    datasets : names of the real datasets that it uses; empty for simulations
    measure : function from a Setting to an Outcome
    render : function from results and timings to the body of the page, without title and picture
    draw : function of a matplotlib figure and results that draws on the figure
    size : width and height of the picture in inches
    needs_data : whether it can only be measured with at least one of its datasets
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    measure: Callable[[Setting], Outcome]
    render: Callable[[Mapping[str, Any], Mapping[str, Any]], str]
    draw: Callable[[Any, Mapping[str, Any]], None]
    size: tuple[float, float] = (7.0, 3.2)
    needs_data: bool = True


# ---------------------------------------------------------------------- formatting


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table; the first column is aligned left, the others right.

    >>> print(table(["n", "error"], [["100", "0.5"]]))
    | n | error |
    |---|---:|
    | 100 | 0.5 |
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(head) - 1), *lines[1:]])


def percent(value: float | None, *, missing: str = "-") -> str:
    """Format a fraction in %, with one digit.

    >>> percent(0.8312), percent(None)
    ('83.1', '-')
    """
    return missing if value is None else f"{100 * value:.1f}"


def number(value: float) -> str:
    """Format a number with two significant digits.

    >>> number(0.001234), number(1234.0)
    ('0.0012', '1,200')
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.2g}"


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def svg_of(
    draw: Callable[[Any, Mapping[str, Any]], None], results: Mapping[str, Any], size: tuple[float, float]
) -> str:
    """Draw a picture as SVG, the same in every run, without changes to matplotlib's global state."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure, results)
        for axis in figure.axes:
            axis.spines[["top", "right"]].set_visible(False)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    # Trailing blanks would be reported by every check of the repository.
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"
