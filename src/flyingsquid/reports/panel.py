"""Section about a panel of judges: self-agreement, position bias, redundancy."""

from __future__ import annotations

from flyingsquid._table import Scalar
from flyingsquid.analysis.panels import panel_report
from flyingsquid.reports.escape import escape_name, escape_text
from flyingsquid.reports.page import Section, table
from flyingsquid.reports.study import Study

_HEADINGS = {
    "judge": "Judge",
    "sources": "Sources",
    "accuracy": "Accuracy, estimated",
    "gold_accuracy": "Accuracy on gold labels",
    "self_agreement": "Self-agreement, orders swapped",
    "position_bias": "Position bias",
    "retest": "Same answer when repeated",
    "accuracy_at_most": "Accuracy at most",
    "refused": "Without a usable answer",
    "changes": "Labels changed without it",
    "cost": "Cost",
}


def panel_section(study: Study) -> Section:
    """Return a table of the judges of a panel; empty unless the votes have a structure."""
    structure = study.all_votes.structure
    if structure is None or study.model is None or study.task is not None:
        return Section("panel", "Panel of judges", "")
    found = panel_report(study.all_votes, study.y, model=study.model)
    shown = found.table()
    kept = [at for at, _ in enumerate(shown.columns) if any(row[at] not in (None, "") for row in shown.rows)]
    headings = [(_HEADINGS[shown.columns[at]], at > 0) for at in kept]
    rows = [[_cell(row[at], shown.formats[at]) for at in kept] for row in shown.rows]
    note = (
        "Answers of one judge, in other orders or repeated, count as one source. Self-agreement: share of "
        "items with the same answer in both orders. Position bias: share of items decided by position. "
        "Accuracy at most: if all errors were random; errors that a judge repeats make it less accurate. 95% "
        "intervals in brackets."
    )
    sentences = "".join(f"<li>{escape_text(sentence, 600)}</li>" for sentence in found.sentences())
    return Section(
        "panel",
        "Panel of judges",
        f'<ul class="words">{sentences}</ul>{table(headings, rows)}<p class="note">{escape_text(note)}</p>',
    )


def _cell(value: Scalar, spec: str) -> str:
    if isinstance(value, (int, float)):
        return escape_text(format(value, spec))
    return "" if value is None else f"<bdi>{escape_name(str(value), 60)}</bdi>"
