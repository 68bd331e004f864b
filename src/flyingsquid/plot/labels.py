"""Labels: how sure they are, whether that can be believed, where one comes from, and how they settle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from flyingsquid.analysis import Calibration
from flyingsquid.analysis.influence import LearningCurve
from flyingsquid.exceptions import OptionError
from flyingsquid.fits import Explanation, VoteCount
from flyingsquid.plot._canvas import (
    BLUE,
    GREY,
    ORANGE,
    height_of,
    in_percent,
    name_rows,
    one_axis,
    plain,
    several_axes,
)


def plot_posteriors(
    probabilities: ArrayLike, axis: Any = None, *, event: str | None = None, bins: int = 40
) -> Any:
    """Draw how sure the labels are, as a histogram.

    How to read it: labels near the ends are sure, those in the middle are open. A heap in the middle is
    items without votes, or with votes that cancel; two heaps at the ends are labels that hardly doubt, which
    is good news only if they are calibrated.

    Parameters
    ----------
    probabilities : array of shape (n, K), as ``predict_proba`` gives it, or (n,)
        Of two classes the second is drawn; of more, the largest probability of each item.
    axis : matplotlib axes, optional
    event : text, optional
        What the probabilities are of.
    bins : int

    Returns
    -------
    the axes
    """
    values = np.asarray(probabilities, np.float64)
    if values.ndim not in (1, 2) or not values.size:
        raise OptionError(f"probabilities have shape {values.shape}; (n, K) or (n,) is needed")
    binary = values.ndim == 1 or values.shape[1] == 2
    shown = values if values.ndim == 1 else values[:, 1] if binary else values.max(axis=1)
    axis = one_axis(axis, 6.0, 2.8)
    axis.hist(shown, bins=bins, range=(0, 1), color=BLUE, edgecolor="white", linewidth=0.4)
    axis.set_xlim(0, 1)
    axis.set_xlabel(event or ("P(second class)" if binary else "probability of the label"))
    axis.set_ylabel("items")
    plain(axis)
    return axis


def plot_calibration(found: Calibration, axes: Any = None) -> Any:
    """Draw probabilities beside what happened, and how many there are below.

    How to read it: a dot is a bin of items with about the same probability; its height is how often the event
    occurred among them, the line its 95% interval. Dots on the diagonal can be taken at their word. A curve
    flatter than the diagonal is too sure of itself, a steeper one not sure enough.

    Parameters
    ----------
    found : Calibration
        As ``flyingsquid.analysis.calibration`` gives it.
    axes : two matplotlib axes, optional

    Returns
    -------
    the two axes
    """
    if not isinstance(found, Calibration):
        kind = type(found).__name__
        raise OptionError(f"plot_calibration takes what analysis.calibration gives, not {kind}")
    if axes is None:
        axes = several_axes(2, 4.4, 5.0, sharex=True, height_ratios=(4, 1))
    top, bottom = axes
    known = found.counts > 0
    top.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="as they say")
    top.vlines(
        found.probability[known], found.low[known], found.high[known], color=BLUE, alpha=0.5, linewidth=2
    )
    top.plot(found.probability[known], found.observed[known], "o-", color=BLUE, markersize=4.5, linewidth=1.2)
    top.set(xlim=(0, 1), ylim=(0, 1), ylabel="how often it occurred")
    top.set_title(f"mean distance from the diagonal: {found.error:.3f}", fontsize=9, loc="left")
    width = np.diff(found.edges)
    bottom.bar(found.edges[:-1] + width / 2, found.counts, width=0.9 * width, color=GREY)
    bottom.set(xlabel=found.event, ylabel="items")
    for axis in axes:
        plain(axis)
    return top, bottom


def plot_explanation(why: Explanation | VoteCount, axis: Any = None, *, most: int = 20) -> Any:
    """Draw what each source adds to the log odds of one label.

    How to read it: blue bars speak for the label, orange ones against it, grey is what was known before any
    vote; the longer, the more. Together they are the log odds in the title: 0 is even, 2.2 is 9 to 1, 4.6 is
    99 to 1.

    Parameters
    ----------
    why : what ``model.explain(row)`` gives
    axis : matplotlib axes, optional
    most : int
        Draw at most so many sources; the weaker ones become one bar.

    Returns
    -------
    the axes
    """
    if not isinstance(why, (Explanation, VoteCount)):
        raise OptionError(f"plot_explanation takes what model.explain gives, not {type(why).__name__}")
    votes = isinstance(why, VoteCount)
    # A share of the votes speaks for the label or against it; what is added to log odds has its own sign.
    signed = [-c.adds if votes and c.vote != why.predicted else c.adds for c in why.contributions]
    names = [f"{c.source}: {c.said}" for c in why.contributions]
    parts = list(zip(names, signed, strict=True))[:most]
    if len(signed) > most:
        parts.append((f"{len(signed) - most} more", float(sum(signed[most:]))))
    colours = [BLUE if value > 0 else ORANGE for _, value in parts]
    title = why.claim()
    axis = one_axis(axis, 6.5, height_of(len(parts) + 1))
    if isinstance(why, VoteCount):
        axis.set_xlabel(f"share of the votes, against and for {why.predicted}")
    else:
        parts, colours = [("before the votes", why.prior_log_odds), *parts], [GREY, *colours]
        rival = "" if why.against is None else f" against {why.against}"
        axis.set_xlabel(f"adds to the log odds of {why.predicted}{rival}")
        title += f"; log odds {why.log_odds:+.2f}"
    values = [value for _, value in parts]
    axis.barh(range(len(parts)), values, height=0.7, color=colours)
    axis.axvline(0, color="0.3", linewidth=0.8)
    name_rows(axis, [name for name, _ in parts])
    axis.set_title(title.replace("$", r"\$"), fontsize=9, loc="left")
    return axis


def plot_learning_curve(curve: LearningCurve, axis: Any = None) -> Any:
    """Draw how labels settle as more items are fitted.

    How to read it: the blue line is the share of labels that equal those of all items, the orange one, with
    known labels, the accuracy; the band is the range over repeats. A line that has become flat says that more
    items of the same kind would change little; what is still wrong then is the sources' fault.

    Parameters
    ----------
    curve : LearningCurve
        As ``flyingsquid.models.learning_curve`` gives it.
    axis : matplotlib axes, optional

    Returns
    -------
    the axes
    """
    if not isinstance(curve, LearningCurve):
        raise OptionError(f"plot_learning_curve takes what learning_curve gives, not {type(curve).__name__}")
    axis = one_axis(axis, 6.0, 3.2)
    lines = [(curve.same, BLUE, "o", "labels as with all items")]
    if curve.accuracy is not None:
        lines.append((curve.accuracy, ORANGE, "s", "right labels"))
    for values, colour, marker, words in lines:
        known = np.isfinite(values).any(axis=1)
        sizes, shown = curve.sizes[known], np.ma.masked_invalid(values[known])
        axis.fill_between(sizes, shown.min(axis=1), shown.max(axis=1), color=colour, alpha=0.15, linewidth=0)
        axis.plot(sizes, shown.mean(axis=1), marker=marker, markersize=4, color=colour, label=words)
    axis.set_xscale("log")
    axis.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes], fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel("items fitted")
    in_percent(axis, "y")
    axis.grid(axis="y", color="0.92", linewidth=0.8)
    axis.legend(fontsize=8, frameon=False, loc="best")
    plain(axis)
    return axis
