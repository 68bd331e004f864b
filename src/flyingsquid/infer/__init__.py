"""Parameters to posteriors, in log space."""

from flyingsquid.infer.classes import class_evidence, class_posterior
from flyingsquid.infer.decide import TIE_BREAKS, TieBreak, decide
from flyingsquid.infer.evidence import Emissions, with_own_evidence
from flyingsquid.infer.junction import max_product, sum_product
from flyingsquid.infer.posterior import binary_evidence, binary_posterior
from flyingsquid.infer.scan import forward_backward, viterbi
from flyingsquid.infer.shares import smoothed_shares, vote_shares
from flyingsquid.infer.weighted import Opinion, opinion_posterior

__all__ = [
    "TIE_BREAKS",
    "Emissions",
    "Opinion",
    "TieBreak",
    "binary_evidence",
    "binary_posterior",
    "class_evidence",
    "class_posterior",
    "decide",
    "forward_backward",
    "max_product",
    "opinion_posterior",
    "smoothed_shares",
    "sum_product",
    "viterbi",
    "vote_shares",
    "with_own_evidence",
]
