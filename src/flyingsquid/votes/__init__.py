"""What the sources said: votes and their constructors."""

from flyingsquid.votes.coerce import as_votes, one_row
from flyingsquid.votes.distinct import DistinctRows
from flyingsquid.votes.scores import score_bins
from flyingsquid.votes.states import ABSTAIN, REASONS
from flyingsquid.votes.votes import Votes

__all__ = ["ABSTAIN", "REASONS", "DistinctRows", "Votes", "as_votes", "one_row", "score_bins"]
