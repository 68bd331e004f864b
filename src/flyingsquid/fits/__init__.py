"""Fitted parameters: immutable values with one interface."""

from flyingsquid.fits.base import Assessment, Fit
from flyingsquid.fits.corrected import CorrectedFit
from flyingsquid.fits.diagnostics import Diagnostics, Verdict
from flyingsquid.fits.explanation import Contribution, Explanation, VoteCount
from flyingsquid.fits.graph import GraphFit
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.fits.weighted import WeightedFit

__all__ = [
    "Assessment",
    "Contribution",
    "CorrectedFit",
    "Diagnostics",
    "Explanation",
    "Fit",
    "GraphFit",
    "IndependentFit",
    "Verdict",
    "VoteCount",
    "WeightedFit",
]
