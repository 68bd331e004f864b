"""Parameters to posteriors, in log space."""

from flyingsquid.infer.decide import TIE_BREAKS, TieBreak, decide
from flyingsquid.infer.posterior import binary_evidence, binary_posterior
from flyingsquid.infer.scan import forward_backward, viterbi
from flyingsquid.infer.shares import vote_shares

__all__ = [
    "TIE_BREAKS",
    "TieBreak",
    "binary_evidence",
    "binary_posterior",
    "decide",
    "forward_backward",
    "viterbi",
    "vote_shares",
]
