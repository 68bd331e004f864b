"""Summaries of votes and fitted models: agreement, dependence, calibration, comparison with majority vote."""

from flyingsquid._table import Table
from flyingsquid.analysis.agreement import Agreement, agreement, dependence_given_truth, effective_sources
from flyingsquid.analysis.calibration import Calibration, calibration
from flyingsquid.analysis.comparison import Comparison, Scores, compare_with_majority
from flyingsquid.analysis.contested import (
    ContestedRow,
    ContestedRows,
    contested_rows,
    disagreement_buckets,
)
from flyingsquid.analysis.findings import DependentPair, Findings, Ranked, find
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut, learning_curve, leave_one_out
from flyingsquid.analysis.summarize import summarize
from flyingsquid.analysis.words import in_words

__all__ = [
    "Agreement",
    "Calibration",
    "Comparison",
    "ContestedRow",
    "ContestedRows",
    "DependentPair",
    "Findings",
    "LearningCurve",
    "LeaveOneOut",
    "Ranked",
    "Scores",
    "Table",
    "agreement",
    "calibration",
    "compare_with_majority",
    "contested_rows",
    "dependence_given_truth",
    "disagreement_buckets",
    "effective_sources",
    "find",
    "in_words",
    "learning_curve",
    "leave_one_out",
    "summarize",
]
