"""Pairs of sources: who agrees with whom, and who depends on whom."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, degrees, pi, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import Agreement
from flyingsquid.exceptions import OptionError
from flyingsquid.plot._canvas import BLUE, ORANGE, one_axis, shortened

# Numbers are written into the cells of a heat map while these are large enough.
_MOST_NUMBERS = 14


def plot_agreement(found: Agreement, axis: Any = None, *, beyond_chance: bool = True) -> Any:
    """Draw who agrees with whom, as a heat map.

    How to read it: each cell is a pair of sources; bright pairs agree much, dark ones as chance would have
    it (Cohen's kappa, or with ``beyond_chance=False`` the share of equal votes). Sources are ordered so that
    those that agree stand together: a bright block is a family. White cells are pairs that never meet.

    Parameters
    ----------
    found : Agreement
        As ``flyingsquid.analysis.agreement`` gives it.
    axis : matplotlib axes, optional
    beyond_chance : bool

    Returns
    -------
    the axes
    """
    if not isinstance(found, Agreement):
        raise OptionError(f"plot_agreement takes what analysis.agreement gives, not {type(found).__name__}")
    values = found.beyond_chance if beyond_chance else found.share
    m = len(found.source_names)
    order = _seriated(np.nan_to_num(values))
    shown = np.array(values)[np.ix_(order, order)]
    np.fill_diagonal(shown, np.nan)  # a source with itself says nothing, and would outshine the rest
    side = max(3.2, 2.2 + 0.22 * m)
    axis = one_axis(axis, side + 0.9, side)
    low = min(0.0, float(np.nanmin(shown))) if np.isfinite(shown).any() else 0.0
    high = float(np.nanmax(shown)) if np.isfinite(shown).any() else 1.0
    image = axis.imshow(shown, cmap="cividis", vmin=low, vmax=max(high, low + 1e-3))
    names = [shortened(found.source_names[i]) for i in order]
    size = 8 if m <= 40 else 5
    axis.set_xticks(range(m), names, rotation=90, fontsize=size)
    axis.set_yticks(range(m), names, fontsize=size)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    if m <= _MOST_NUMBERS:
        middle = (low + high) / 2
        for (i, j), value in np.ndenumerate(shown):
            if np.isfinite(value):
                colour = "white" if value < middle else "black"
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    bar = axis.figure.colorbar(image, ax=axis, shrink=0.75, pad=0.02)
    bar.set_label("agreement beyond chance" if beyond_chance else "share of equal votes", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    return axis


def plot_dependence(
    correlations: NDArray[np.float64],
    names: Sequence[str],
    axis: Any = None,
    *,
    least: float = 0.1,
    most: int = 30,
) -> Any:
    """Draw which sources err together, as a graph.

    How to read it: sources stand on a circle, those that depend on each other near each other. A line is a
    pair that agrees more than the truth explains, the thicker the more; an orange line is a pair that agrees
    less. Only the strongest lines are drawn, and the title says how many there are. Sources without a line
    stand alone.

    Parameters
    ----------
    correlations : array of shape (m, m)
        Correlation of the votes given the truth, as ``flyingsquid.analysis.dependence_given_truth`` gives
        it; 0 or NaN for none. Those of ``fs.learn_structure`` are given for edges: put them into such an
        array.
    names : sequence of m texts
    axis : matplotlib axes, optional
    least : float
        Leave weaker dependence out.
    most : int
        Draw at most so many lines.

    Returns
    -------
    the axes
    """
    values = np.nan_to_num(np.asarray(correlations, np.float64))
    m = len(names)
    if values.shape != (m, m):
        raise OptionError(f"correlations have shape {values.shape}; {m} names need ({m}, {m})")
    axis = one_axis(axis, 7.0, 6.8)
    order = _seriated(np.maximum(values, 0.0))
    turn = {source: 2 * pi * place / m for place, source in enumerate(order)}
    first, second = np.triu_indices(m, 1)
    size = values[first, second]
    strong = np.flatnonzero(np.abs(size) >= least)
    drawn = strong[np.argsort(-np.abs(size[strong]), kind="stable")][:most]
    top = float(np.abs(size[drawn]).max(initial=0.0))
    weakest = 0.8 * float(np.abs(size[drawn]).min(initial=top))
    for at in drawn[::-1]:
        a, b = turn[int(first[at])], turn[int(second[at])]
        share = (abs(size[at]) - weakest) / max(top - weakest, 1e-9)
        axis.plot(
            *_bent(a, b),
            color=BLUE if size[at] > 0 else ORANGE,
            linewidth=0.7 + 3.0 * share,
            alpha=0.3 + 0.6 * share,
            solid_capstyle="round",
        )
    _circle_of_names(axis, names, turn)
    words = (
        f"{len(drawn)} strongest of {len(strong)} pairs"
        if len(strong) > len(drawn)
        else f"{len(strong)} pairs"
    )
    axis.set_title(f"{words} with a correlation of at least {least:g} given the truth", fontsize=9)
    return axis


def _bent(a: float, b: float) -> list[NDArray[np.float64]]:
    """A curve between two places on the circle that leans to the middle, x and y."""
    t = np.linspace(0, 1, 24)
    ends = np.array([[cos(a), sin(a)], [cos(b), sin(b)]])
    middle = ends.mean(axis=0) * (0.9 - 0.6 * np.linalg.norm(ends[0] - ends[1]) / 2)
    points = np.outer((1 - t) ** 2, ends[0]) + np.outer(2 * t * (1 - t), middle) + np.outer(t**2, ends[1])
    return [points[:, 0], points[:, 1]]


def _circle_of_names(axis: Any, names: Sequence[str], turn: dict[int, float]) -> None:
    for source, angle in turn.items():
        axis.plot(cos(angle), sin(angle), "o", color="0.25", markersize=4)
        leans_left = cos(angle) < 0
        axis.text(
            1.06 * cos(angle),
            1.06 * sin(angle),
            shortened(names[source]),
            fontsize=8 if len(names) <= 40 else 5.5,
            rotation=degrees(angle) + (180 if leans_left else 0),
            rotation_mode="anchor",
            ha="right" if leans_left else "left",
            va="center",
        )
    reach = 1.1 + 0.032 * max(len(shortened(name)) for name in names)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axis.axis("off")


def _seriated(values: NDArray[np.float64]) -> list[int]:
    """An order in which similar sources stand together: a chain that grows from the best linked one."""
    m = len(values)
    alike = (values + values.T) / 2
    np.fill_diagonal(alike, -np.inf)
    if m < 3:
        return list(range(m))
    start = int(np.argmax(np.where(np.isfinite(alike), alike, 0).sum(axis=1)))
    chain, left = [start], set(range(m)) - {start}
    while left:
        rest = sorted(left)
        # The chain grows at the end where the likeness is larger.
        head, tail = alike[chain[0], rest], alike[chain[-1], rest]
        if head.max() > tail.max():
            nearest = rest[int(head.argmax())]
            chain.insert(0, nearest)
        else:
            nearest = rest[int(tail.argmax())]
            chain.append(nearest)
        left.remove(nearest)
    return chain
