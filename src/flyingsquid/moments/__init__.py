"""The one statistic: counts of pairs of votes."""

from flyingsquid.moments.moments import Moments

__all__ = ["Moments"]
