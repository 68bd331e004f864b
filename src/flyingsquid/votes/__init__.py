"""Votes of sources on items: the vote matrix, its constructors, chunks and distinct rows."""

from flyingsquid.votes.codes import ABSTAIN, REASONS
from flyingsquid.votes.patterns import DistinctRows
from flyingsquid.votes.reading import VoteChunks, as_chunks, as_votes, one_row
from flyingsquid.votes.scores import score_bins
from flyingsquid.votes.structure import SourceInfo, Structure
from flyingsquid.votes.votes import Votes

__all__ = [
    "ABSTAIN",
    "REASONS",
    "DistinctRows",
    "SourceInfo",
    "Structure",
    "VoteChunks",
    "Votes",
    "as_chunks",
    "as_votes",
    "one_row",
    "score_bins",
]
