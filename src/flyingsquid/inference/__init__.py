"""Inference: posteriors and labels from estimated parameters, in log space."""

from flyingsquid.inference.junction_tree import Emissions, max_product, sum_product, with_own_evidence
from flyingsquid.inference.posterior import (
    Correction,
    binary_evidence,
    binary_posterior,
    class_evidence,
    class_posterior,
    smoothed_shares,
    vote_shares,
)
from flyingsquid.inference.sequences import combine_rows, forward_backward, viterbi
from flyingsquid.inference.weighted import Mixture, mixture_posterior

__all__ = [
    "Correction",
    "Emissions",
    "Mixture",
    "binary_evidence",
    "binary_posterior",
    "class_evidence",
    "class_posterior",
    "combine_rows",
    "forward_backward",
    "max_product",
    "mixture_posterior",
    "smoothed_shares",
    "sum_product",
    "viterbi",
    "vote_shares",
    "with_own_evidence",
]
