"""Pictures on matplotlib axes; needs the extra ``flyingsquid[plot]``."""

from flyingsquid.plot.drift import plot_drift

__all__ = ["plot_drift"]
