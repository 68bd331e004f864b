"""Analysis of votes and fitted models: sources, agreement, disagreement, calibration, influence and rates."""

from flyingsquid._table import Table
from flyingsquid.analysis.agreement import (
    Agreement,
    Reliability,
    agreement,
    cohen_kappa,
    dependence_given_truth,
    fleiss_kappa,
    krippendorff_alpha,
)
from flyingsquid.analysis.comparison import Calibration, Comparison, calibration, compare_with_majority
from flyingsquid.analysis.disagreement import (
    ContestedItems,
    contested_items,
    disagreement_buckets,
    label_buckets,
)
from flyingsquid.analysis.findings import Findings, findings
from flyingsquid.analysis.influence import (
    LabelsSaved,
    LearningCurve,
    LeaveOneOut,
    labels_saved,
    learning_curve,
    leave_one_out,
)
from flyingsquid.analysis.panels import PanelReport, panel_report
from flyingsquid.analysis.rates import Rate, RateDifference, Rates, estimate_rate
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
    "suggest_items",
    "summarize",
]
