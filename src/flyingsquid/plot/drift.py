"""Accuracies of a stream over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid.exceptions import OptionError
from flyingsquid.models.drift import DriftHistory
from flyingsquid.plot._canvas import plain, several_axes

# More bands than this cover each other.
_MOST_BANDS = 12


def plot_drift(history: DriftHistory, axes: Any = None) -> Any:
    """Draw accuracies with their intervals and change points, and the window below.

    Parameters
    ----------
    history : DriftHistory
        As ``OnlineLabelModel.history_`` has it.
    axes : two matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    the two axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> stream = fs.datasets.simulate_drift(
    ...     5_000, [0.9, 0.8, 0.7], [0.6, 0.8, 0.7], random_state=0)
    >>> online = fs.OnlineLabelModel(window=1_000, method="triplet")
    >>> online = online.partial_fit(stream.votes[:2_500]).partial_fit(stream.votes[2_500:])
    >>> top, bottom = plot_drift(online.history_)  # doctest: +SKIP
    """
    if not isinstance(history, DriftHistory):
        raise OptionError(f"plot_drift takes the history_ of an online model, not {type(history).__name__}")
    if axes is None:
        axes = several_axes(2, 8, 4.5, sharex=True, height_ratios=(3, 1))
    top, bottom = axes
    for source, name in enumerate(history.source_names):
        (line,) = top.plot(history.positions, history.accuracies[:, source], label=name, linewidth=1.4)
        if len(history.source_names) <= _MOST_BANDS:
            low, high = history.intervals[:, source].T
            top.fill_between(history.positions, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    for change in history.changes():
        top.axvline(change.position, color="0.6", linewidth=0.8, linestyle=":")
    top.set_ylabel("accuracy")
    top.legend(fontsize=8, frameon=False, ncols=max(1, min(5, len(history.source_names))))
    bottom.plot(history.positions, history.windows, color="0.3", linewidth=1.2, drawstyle="steps-post")
    bottom.set_ylabel("items in the window")
    bottom.set_xlabel("items seen")
    bottom.set_ylim(0, 1.1 * max(1.0, float(np.max(history.windows, initial=1.0))))
    for axis in (top, bottom):
        plain(axis)
    return top, bottom
