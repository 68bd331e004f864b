"""Numbers about a fit; no pictures."""

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
from flyingsquid.analysis.fit_test import FitTest
from flyingsquid.analysis.many import diagnose_many, explain_classes
from flyingsquid.analysis.many_graph import diagnose_many_graph
from flyingsquid.analysis.many_logs import log_likelihood_of, logs_of
from flyingsquid.analysis.opinions import diagnose_opinion, explain_opinion
from flyingsquid.analysis.sequences import SequenceDiagnostics, diagnose_sequences, summarize_sequences
from flyingsquid.analysis.summary import summarize_sources, summarize_tally
from flyingsquid.analysis.table import Table
from flyingsquid.analysis.tally import SourceTally
from flyingsquid.analysis.verdict import Verdict

__all__ = [
    "Contribution",
    "Diagnostics",
    "Explanation",
    "FitTest",
    "SequenceDiagnostics",
    "SourceTally",
    "Table",
    "Verdict",
    "VoteCount",
    "concern_of_silence",
    "concerns",
    "count_item",
    "diagnose",
    "diagnose_many",
    "diagnose_many_graph",
    "diagnose_opinion",
    "diagnose_sequences",
    "emissions_of",
    "explain_classes",
    "explain_item",
    "explain_on_graph",
    "explain_opinion",
    "log_likelihood_of",
    "logs_of",
    "summarize_sequences",
    "summarize_sources",
    "summarize_tally",
]
