"""Pictures on matplotlib axes; needs the extra ``flyingsquid[plot]``.

Every function takes axes, or makes a figure that pyplot does not know, and gives them back; no style is
changed.
"""

from flyingsquid.plot.drift import plot_drift
from flyingsquid.plot.labels import plot_calibration, plot_explanation, plot_learning_curve, plot_posteriors
from flyingsquid.plot.pairs import plot_agreement, plot_dependence
from flyingsquid.plot.sources import plot_accuracies, plot_coverage, plot_leave_one_out

__all__ = [
    "plot_accuracies",
    "plot_agreement",
    "plot_calibration",
    "plot_coverage",
    "plot_dependence",
    "plot_drift",
    "plot_explanation",
    "plot_learning_curve",
    "plot_leave_one_out",
    "plot_posteriors",
]
