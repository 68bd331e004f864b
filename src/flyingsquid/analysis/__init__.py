"""Numbers about a fit; no pictures."""

from flyingsquid.analysis.agreement import Agreement, agreement, dependence_given_truth, effective_sources
from flyingsquid.analysis.calibration import Calibration, calibrate, calibration
from flyingsquid.analysis.comparison import Comparison, Scores, compare_with_majority
from flyingsquid.analysis.contested import (
    ContestedRow,
    ContestedRows,
    contested_rows,
    disagreement_buckets,
)
from flyingsquid.analysis.diagnostics import Diagnostics, concern_of_silence, concerns, diagnose
from flyingsquid.analysis.emissions import emissions_of
from flyingsquid.analysis.explain import (
    Contribution,
    Explanation,
    VoteCount,
    count_item,
    explain_item,
    explain_on_graph,
)
from flyingsquid.analysis.findings import DependentPair, Findings, Ranked, find
from flyingsquid.analysis.fit_test import FitTest
from flyingsquid.analysis.many import diagnose_many, explain_classes
from flyingsquid.analysis.many_graph import diagnose_many_graph
from flyingsquid.analysis.many_logs import log_likelihood_of, logs_of
from flyingsquid.analysis.opinions import diagnose_opinion, explain_opinion
from flyingsquid.analysis.sequences import SequenceDiagnostics, diagnose_sequences, summarize_sequences
from flyingsquid.analysis.summarize import summarize
from flyingsquid.analysis.summary import summarize_sources, summarize_tally
from flyingsquid._table import Table
from flyingsquid.analysis.tally import SourceTally
from flyingsquid.analysis.verdict import Verdict
from flyingsquid.analysis.words import in_words, say

__all__ = [
    "Agreement",
    "Calibration",
    "Comparison",
    "ContestedRow",
    "ContestedRows",
    "Contribution",
    "DependentPair",
    "Diagnostics",
    "Explanation",
    "Findings",
    "FitTest",
    "Ranked",
    "Scores",
    "SequenceDiagnostics",
    "SourceTally",
    "Table",
    "Verdict",
    "VoteCount",
    "agreement",
    "calibrate",
    "calibration",
    "compare_with_majority",
    "concern_of_silence",
    "concerns",
    "contested_rows",
    "count_item",
    "dependence_given_truth",
    "diagnose",
    "diagnose_many",
    "diagnose_many_graph",
    "diagnose_opinion",
    "diagnose_sequences",
    "disagreement_buckets",
    "effective_sources",
    "emissions_of",
    "explain_classes",
    "explain_item",
    "explain_on_graph",
    "explain_opinion",
    "find",
    "in_words",
    "log_likelihood_of",
    "logs_of",
    "say",
    "summarize",
    "summarize_sequences",
    "summarize_sources",
    "summarize_tally",
]
