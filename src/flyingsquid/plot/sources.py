"""Sources beside each other: accuracies, coverage, and what the labels owe to each."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid.analysis import Table
from flyingsquid.analysis.influence import LeaveOneOut
from flyingsquid.exceptions import OptionError
from flyingsquid.plot._canvas import (
    BLUE,
    GREY,
    ORANGE,
    SKY,
    height_of,
    in_percent,
    name_rows,
    one_axis,
    plain,
)

# An accuracy that changes less, a twentieth of a point, has not changed.
_NO_CHANGE = 5e-4


def plot_accuracies(summary: Table, axis: Any = None) -> Any:
    """Draw how often each source is right: estimated with its interval, and measured on known labels.

    How to read it: one row a source, the best above. A dot is the estimate of the model, the line its 95%
    interval; a hollow diamond is the share of right votes on items of known class. Where lines overlap, the
    order of the sources is not settled.

    Parameters
    ----------
    summary : Table
        As ``fs.summarize(votes, y, model=model)`` gives it, with known labels, a model, or both.
    axis : matplotlib axes, optional

    Returns
    -------
    the axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> axis = plot_accuracies(fs.summarize(sample.votes, sample.y, model=model))  # doctest: +SKIP
    """
    columns = _columns(summary, "plot_accuracies")
    estimated, measured = _numbers(columns, "accuracy"), _numbers(columns, "precision")
    if estimated is None and measured is None:
        raise OptionError(
            "there is no accuracy in this summary; pass summarize a model, known labels, or both"
        )
    first = measured if estimated is None else estimated
    order = np.argsort(-np.nan_to_num(first, nan=-1.0), kind="stable")
    rows = np.arange(len(order))
    axis = one_axis(axis, 6.5, height_of(len(order)))
    if estimated is not None:
        low, high = _numbers(columns, "accuracy_low"), _numbers(columns, "accuracy_high")
        if low is not None and high is not None:
            axis.hlines(rows, low[order], high[order], color=BLUE, linewidth=2.2, alpha=0.5)
        axis.plot(estimated[order], rows, "o", color=BLUE, markersize=5, label="estimated")
    if measured is not None:
        style = {
            "markerfacecolor": "none",
            "markeredgecolor": ORANGE,
            "markersize": 6,
            "markeredgewidth": 1.4,
        }
        axis.plot(measured[order], rows, "D", label="on known labels", **style)
    name_rows(axis, [columns["name"][i] for i in order])
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_xlabel("share of right votes")
    in_percent(axis)
    if estimated is not None and measured is not None:
        axis.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, 1.0), ncols=1)
    return axis


def plot_coverage(summary: Table, axis: Any = None) -> Any:
    """Draw on how many items each source votes, votes with others, and votes against others.

    How to read it: the whole bar is the share of the items that the source votes on. The middle shade is the
    part on which others vote too, the dark one the part on which at least one of them disagrees. A pale end
    is the source's own ground; a dark bar is a source that is always disputed.

    Parameters
    ----------
    summary : Table
        As ``fs.summarize(votes)`` gives it.
    axis : matplotlib axes, optional

    Returns
    -------
    the axes
    """
    columns = _columns(summary, "plot_coverage")
    parts = [_numbers(columns, name) for name in ("coverage", "overlaps", "conflicts")]
    order = np.argsort(-np.nan_to_num(parts[0]), kind="stable")
    axis = one_axis(axis, 6.5, height_of(len(order)))
    for values, colour, words in zip(
        parts, ("#D6E6F2", SKY, BLUE), ("votes", "and others vote", "and others disagree"), strict=True
    ):
        if values is not None:
            axis.barh(range(len(order)), values[order], height=0.72, color=colour, label=words)
    name_rows(axis, [columns["name"][i] for i in order])
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the items")
    in_percent(axis)
    axis.legend(fontsize=8, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
    return axis


def plot_leave_one_out(found: LeaveOneOut, axis: Any = None, *, most: int = 30) -> Any:
    """Draw what the labels owe to each source.

    How to read it: the bar is the share of the labels that change when the source is left out and the model
    is fitted again. With known labels its colour says what that does to the accuracy: blue bars are sources
    that help (without them accuracy falls), orange ones hurt, grey ones do neither, and the number is the
    change in points.

    Parameters
    ----------
    found : LeaveOneOut
        As ``flyingsquid.models.leave_one_out`` gives it.
    axis : matplotlib axes, optional
    most : int
        Draw at most so many sources, the most influential.

    Returns
    -------
    the axes
    """
    if not isinstance(found, LeaveOneOut):
        raise OptionError(f"plot_leave_one_out takes what leave_one_out gives, not {type(found).__name__}")
    order = np.argsort(-np.nan_to_num(found.changed), kind="stable")[:most]
    axis = one_axis(axis, 6.5, height_of(len(order)))
    values, change = np.nan_to_num(found.changed[order]), found.accuracy_change
    colours = [GREY] * len(order)
    if change is not None:
        colours = [_colour(change[i]) for i in order]
        for row, i in enumerate(order):
            words = f"{100 * change[i]:+.1f}" if np.isfinite(change[i]) else "no fit"
            axis.annotate(
                words, (values[row], row), (4, 0), textcoords="offset points", va="center", fontsize=7.5
            )
    axis.barh(range(len(order)), values, height=0.7, color=colours)
    name_rows(axis, [found.source_names[i] for i in order])
    axis.set_xlim(0, 1.12 * max(float(values.max(initial=0.0)), 1e-3))
    axis.set_xlabel("share of the labels that change without the source")
    in_percent(axis)
    if change is not None:
        axis.set_title(
            "number: change of the accuracy without it, in points", fontsize=8, loc="left", color="0.35"
        )
    plain(axis)
    return axis


def _colour(change: float) -> str:
    if not abs(change) >= _NO_CHANGE:
        return GREY
    return BLUE if change < 0 else ORANGE


def _columns(summary: Any, asked: str) -> dict[str, list[Any]]:
    if not isinstance(summary, Table) or "name" not in summary.columns:
        raise OptionError(f"{asked} takes the table that fs.summarize gives, not {type(summary).__name__}")
    return summary.to_dict()


def _numbers(columns: dict[str, list[Any]], name: str) -> Any:
    if name not in columns:
        return None
    return np.array([np.nan if value is None else float(value) for value in columns[name]])
