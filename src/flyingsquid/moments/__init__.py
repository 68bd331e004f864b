"""Counts of votes: pairs of votes on one item and on neighboring items, and confusion tables."""

from flyingsquid.moments.class_counts import VotesByClass
from flyingsquid.moments.confusion import ConfusionTables, SparseTables, VoteLogs
from flyingsquid.moments.gathered import Gathered, gather
from flyingsquid.moments.moments import Moments, UnitVotes
from flyingsquid.moments.pairs import PairAgreement
from flyingsquid.moments.sequences import SequenceMoments

__all__ = [
    "ConfusionTables",
    "Gathered",
    "Moments",
    "PairAgreement",
    "SequenceMoments",
    "SparseTables",
    "UnitVotes",
    "VoteLogs",
    "VotesByClass",
    "gather",
]
