"""Pictures that come out the same in every run."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

BLUE, LIGHT, DARK = "#2563a8", "#9ec3e6", "#1b3a5c"
RED, AMBER, GREY, BLACK = "#c2410c", "#e0a458", "#9aa3ad", "#222222"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "flyingsquid",
    "svg.fonttype": "none",
    "font.size": 9,
    "legend.frameon": False,
}


def can_draw() -> bool:
    """Whether matplotlib, of the extra ``flyingsquid[plot]``, is installed."""
    return find_spec("matplotlib") is not None


def svg_of(
    draw: Callable[[Any, Mapping[str, Any]], None], results: Mapping[str, Any], size: tuple[float, float]
) -> str:
    """The picture as svg. Nothing of matplotlib's global state is changed."""
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
    # Trailing blanks are nothing but noise in a file that is kept under version control.
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"
