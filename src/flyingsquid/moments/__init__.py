"""Counts of votes: pairs of votes on one item and on neighboring items, and confusion tables."""

from flyingsquid.moments.chunk_counts import ChunkCounts, RowCounts, count_chunks
from flyingsquid.moments.class_counts import VotesByClass
from flyingsquid.moments.confusion import ConfusionTables, DenseLogs, SparseTables, VoteLogs
from flyingsquid.moments.moments import Moments, UnitVotes
from flyingsquid.moments.pairs import PairAgreement
from flyingsquid.moments.sequences import SequenceMoments

__all__ = [
    "ChunkCounts",
    "ConfusionTables",
    "DenseLogs",
    "Moments",
    "PairAgreement",
    "RowCounts",
    "SequenceMoments",
    "SparseTables",
    "UnitVotes",
    "VoteLogs",
    "VotesByClass",
    "count_chunks",
]
