"""Parameters to posteriors, in log space."""

from flyingsquid.infer.decide import TIE_BREAKS, TieBreak, decide
from flyingsquid.infer.evidence import Emissions
from flyingsquid.infer.junction import max_product, sum_product
from flyingsquid.infer.posterior import binary_posterior
from flyingsquid.infer.shares import vote_shares

__all__ = [
    "TIE_BREAKS",
    "Emissions",
    "TieBreak",
    "binary_posterior",
    "decide",
    "max_product",
    "sum_product",
    "vote_shares",
]
