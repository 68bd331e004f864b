"""Analysis of votes and fitted models: sources, agreement, disagreement, calibration, influence and rates."""

from flyingsquid._table import Table
from flyingsquid.analysis.agreement import Agreement, agreement, dependence_given_truth
from flyingsquid.analysis.calibration import Calibration, calibration
from flyingsquid.analysis.comparison import Comparison, compare_with_majority
from flyingsquid.analysis.disagreement import (
    ContestedItems,
    contested_items,
    disagreement_buckets,
    label_buckets,
)
from flyingsquid.analysis.findings import findings
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut, learning_curve, leave_one_out
from flyingsquid.analysis.labels_saved import LabelsSaved, labels_saved
from flyingsquid.analysis.panels import PanelReport, panel_report, replicates
from flyingsquid.analysis.rate_results import Rate, RateDifference, Rates
from flyingsquid.analysis.rates import estimate_rate
from flyingsquid.analysis.reliability import Reliability, cohen_kappa, fleiss_kappa, krippendorff_alpha
from flyingsquid.analysis.sentences import Findings
from flyingsquid.analysis.suggestions import Suggestion, Suggestions, suggest_items
from flyingsquid.analysis.summarize import summarize

# Functions that the guides use, and the types that they return.
__all__ = [
    "Agreement",
    "Calibration",
    "Comparison",
    "ContestedItems",
    "Findings",
    "LabelsSaved",
    "LearningCurve",
    "LeaveOneOut",
    "PanelReport",
    "Rate",
    "RateDifference",
    "Rates",
    "Reliability",
    "Suggestion",
    "Suggestions",
    "Table",
    "agreement",
    "calibration",
    "cohen_kappa",
    "compare_with_majority",
    "contested_items",
    "dependence_given_truth",
    "disagreement_buckets",
    "estimate_rate",
    "findings",
    "fleiss_kappa",
    "krippendorff_alpha",
    "label_buckets",
    "labels_saved",
    "learning_curve",
    "leave_one_out",
    "panel_report",
    "replicates",
    "suggest_items",
    "summarize",
]
