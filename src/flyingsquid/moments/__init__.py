"""The one statistic: counts of pairs of votes, in one item and in neighbouring rows."""

from flyingsquid.moments.gathered import Gathered, gather
from flyingsquid.moments.lagged import SequenceMoments
from flyingsquid.moments.moments import Moments

__all__ = ["Gathered", "Moments", "SequenceMoments", "gather"]
