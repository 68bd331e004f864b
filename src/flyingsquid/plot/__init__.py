"""Plots with matplotlib; needs the extra ``flyingsquid[plot]``.

Every function takes matplotlib axes, or creates a new figure, and returns the axes. New figures are not
registered with pyplot and no global style is changed.
"""

from flyingsquid.plot.plots import (
    plot_accuracies,
    plot_coverage,
    plot_dependence,
    plot_posteriors,
    plot_result,
)

__all__ = [
    "plot_accuracies",
    "plot_coverage",
    "plot_dependence",
    "plot_posteriors",
    "plot_result",
]
