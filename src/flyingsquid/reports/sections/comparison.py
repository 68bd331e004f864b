"""The model beside majority vote, always shown."""

from __future__ import annotations

import numpy as np

from flyingsquid._table import Table
from flyingsquid.analysis.comparison import Comparison
from flyingsquid.analysis.contested import disagreement_buckets
from flyingsquid.estimation.normal import wilson
from flyingsquid.reports.charts import Estimate, intervals
from flyingsquid.reports.escape import safe
from flyingsquid.reports.page import Section, figure, grid
from flyingsquid.reports.study import Study

_NUMERIC = ("", ' class="n"')
_LEAST_VOTES = 30  # of a source to be called the best one
_HEADINGS = {
    "bucket": "Votes on the item",
    "items": "Items",
    "share": "Share",
    "confidence": "Mean probability",
    "differs": "Not the majority's",
    "known": "Known",
    "majority_accuracy": "Majority vote right",
    "accuracy": "Model right",
}


def comparison_section(study: Study) -> Section:
    """Who is right more often, and on which items the two part."""
    heading = "Beside majority vote"
    if study.model is None:
        words = "There is no model to compare: all labels on this page are shares of the votes."
        return Section("majority", heading, f"<p>{words}</p>{grid([_buckets(study)])}")
    found = study.comparison
    verdict = getattr(getattr(study.model, "diagnostics_", None), "verdict", None)
    words = f"<p>{safe(found.sentence())}</p>"
    if verdict is not None:
        words += f"<p>The model's own account: {safe(verdict.words, 2_000)}</p>"
    drawing = _accuracy(study, found)
    if drawing:
        return Section("majority", heading, grid([f"<div>{words}</div>", drawing, _buckets(study)]))
    return Section("majority", heading, words + grid([_buckets(study)]))


def _accuracy(study: Study, found: Comparison) -> str:
    if found.model is None or found.majority is None:
        return ""
    rows = [
        _share("label model", found.model.accuracy, found.n_known),
        _share("majority vote", found.majority.accuracy, found.n_known, "other"),
    ]
    right, wrong = study.column("correct"), study.column("incorrect")
    votes = right + wrong
    precision = np.divide(right, votes, out=np.full(len(votes), -1.0), where=votes >= _LEAST_VOTES)
    best = int(np.argmax(precision))
    single = ""
    if precision[best] >= 0:
        rows.append(_share("best single source", float(precision[best]), int(votes[best]), "other"))
        single = (
            f" The best single source is {study.names[best][:80]}, on the {int(votes[best]):,} known items "
            "that it votes on."
        )
    drawing = intervals(
        rows,
        label="Accuracy of the model and of majority vote on known items",
        says="; ".join(f"{row.name}: {row.value:.1%}" for row in rows),
    )
    caption = (
        f"How to read it: share of right labels among {found.n_known:,} items of known class, with 95% "
        f"intervals.{safe(single)} F1: {found.model.f1:.3f} against {found.majority.f1:.3f}; log loss: "
        f"{found.model.log_loss:.3f} against {found.majority.log_loss:.3f} (lower is better)."
    )
    return figure("Who is right more often?", drawing, caption)


def _share(name: str, share: float, count: int, kind: str = "") -> Estimate:
    low, high = wilson(np.array(share), np.array(count))
    return Estimate(name, share, float(low), float(high), kind=kind)


def _buckets(study: Study) -> str:
    table = disagreement_buckets(study.every, study.y, model=study.model, task=study.task)
    caption = (
        "How to read it: items by how far their votes are apart. Unanimous items need no model; what a "
        "model is worth shows where votes are split."
    )
    return figure("Where do the sources disagree?", _plain_table(table, _HEADINGS), caption, wide=True)


def _plain_table(table: Table, headings: dict[str, str]) -> str:
    """A small table that does not sort."""
    formats = table.formats or ("",) * len(table.columns)
    texts = [any(isinstance(row[c], str) for row in table.rows) for c in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{_NUMERIC[not text]}>{safe(headings.get(column, column))}</th>'
        for column, text in zip(table.columns, texts, strict=True)
    )
    body = []
    for row in table.rows:
        cells = []
        for value, spec, text in zip(row, formats, texts, strict=True):
            if text:
                cells.append(f"<td>{safe(value)}</td>")
            else:
                cells.append(f'<td class="n">{"" if value is None else format(value, spec or ",.4g")}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<div class="scroll"><table '
        f'class="full"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )
