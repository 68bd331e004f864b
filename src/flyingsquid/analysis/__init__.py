"""Summaries of votes and fitted models: agreement, dependence, calibration, comparison with majority vote."""

from flyingsquid.analysis.agreement import Agreement, agreement, dependence_given_truth, effective_sources
from flyingsquid.analysis.calibration import Calibration, calibration
from flyingsquid.analysis.comparison import Comparison, Scores, compare_with_majority
from flyingsquid.analysis.contested import (
    ContestedRow,
    ContestedRows,
    contested_rows,
    disagreement_buckets,
)

# "as" keeps a name importable from here by the models without making it public.
from flyingsquid.analysis.diagnostics import Diagnostics as Diagnostics
from flyingsquid.analysis.diagnostics import concern_of_silence as concern_of_silence
from flyingsquid.analysis.diagnostics import concerns as concerns
from flyingsquid.analysis.diagnostics import diagnose as diagnose
from flyingsquid.analysis.emissions import emissions_of as emissions_of
from flyingsquid.analysis.explain import Explanation as Explanation
from flyingsquid.analysis.explain import VoteCount as VoteCount
from flyingsquid.analysis.explain import count_item as count_item
from flyingsquid.analysis.explain import explain_item as explain_item
from flyingsquid.analysis.explain import explain_on_graph as explain_on_graph
from flyingsquid.analysis.findings import DependentPair, Findings, Ranked, find
from flyingsquid.analysis.fit_test import FitTest as FitTest
from flyingsquid.analysis.many import diagnose_many as diagnose_many
from flyingsquid.analysis.many import explain_classes as explain_classes
from flyingsquid.analysis.many_graph import diagnose_many_graph as diagnose_many_graph
from flyingsquid.analysis.many_logs import log_likelihood_of as log_likelihood_of
from flyingsquid.analysis.many_logs import logs_of as logs_of
from flyingsquid.analysis.opinions import diagnose_opinion as diagnose_opinion
from flyingsquid.analysis.opinions import explain_opinion as explain_opinion
from flyingsquid.analysis.sequences import SequenceDiagnostics as SequenceDiagnostics
from flyingsquid.analysis.sequences import diagnose_sequences as diagnose_sequences
from flyingsquid.analysis.sequences import summarize_sequences as summarize_sequences
from flyingsquid.analysis.summarize import summarize
from flyingsquid.analysis.summary import summarize_sources as summarize_sources
from flyingsquid.analysis.summary import summarize_tally as summarize_tally
from flyingsquid.analysis.table import Table
from flyingsquid.analysis.tally import SourceTally as SourceTally
from flyingsquid.analysis.verdict import Verdict as Verdict
from flyingsquid.analysis.words import in_words

__all__ = [
    "Agreement",
    "Calibration",
    "Comparison",
    "ContestedRow",
    "ContestedRows",
    "DependentPair",
    "Findings",
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
    "summarize",
]
