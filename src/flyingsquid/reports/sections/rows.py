"""The items that matter most to look at, each with what its sources add."""

from __future__ import annotations

from typing import Any

from flyingsquid._table import as_scalar
from flyingsquid.analysis.contested import ContestedRow, contested_rows
from flyingsquid.models import MajorityVote
from flyingsquid.reports.charts import both_ways
from flyingsquid.reports.escape import name, plain, safe
from flyingsquid.reports.page import Section
from flyingsquid.reports.records import gist, whole
from flyingsquid.reports.study import Study

MOST_ITEMS = 15
_MOST_CONTRIBUTIONS = 14


def rows_section(study: Study) -> Section:
    """Two lists: where the model cannot decide, and where it overrules the majority."""
    model = study.model or MajorityVote().fit(study.every)
    found = contested_rows(model, study.every, study.y, n=MOST_ITEMS, task=study.task)
    body = _listed(
        study, model, found.unsure, "Undecided",
        "Many votes stand against each other, and the label is a close call. A known label here teaches "
        "most.",
    )  # fmt: skip
    if study.model is not None:
        many = f"{found.n_overruled:,} items in all. " if found.n_overruled else ""
        body += _listed(
            study, model, found.overruled, "Against the majority",
            f"The model's label is not the one that most sources vote for. {many}Open a few: do you agree "
            "with it?",
        )  # fmt: skip
    return Section("items", "Items to look at", body)


def _listed(study: Study, model: Any, rows: tuple[ContestedRow, ...], heading: str, words: str) -> str:
    if not rows:
        return ""
    records = [None] * len(rows) if study.records is None else study.records.pick([row.row for row in rows])
    items = "".join(_item(study, model, row, record) for row, record in zip(rows, records, strict=True))
    return f'<h3 class="apart">{heading}</h3><p class="note">{words}</p>{items}'


def _item(study: Study, model: Any, row: ContestedRow, record: Any) -> str:
    ids = study.every.items
    known = f"item {row.row:,}" if ids is None else f"{plain(ids[row.row], 40)}"
    label = as_scalar(row.label)
    top = row.probabilities[study.votes.classes.index(row.label)]
    wrong = row.gold is not None and row.gold != row.label
    verdict = f"<bdi>{name(label, 24)}</bdi> · {top:.2f}"
    if row.gold is not None:
        truth = name(as_scalar(row.gold), 24)
        verdict += f' <span class="wrong">is <bdi>{truth}</bdi></span>' if wrong else " ✓"
    preview = gist(record) if record is not None else _tally(study, row)
    return (
        f'<details class="item"><summary><span class="id"><bdi>{name(known, 40)}</bdi></span>'
        f'<span class="gist"><bdi>{preview}</bdi></span><span class="p">{verdict}</span></summary>'
        f'<div class="inside">{_inside(study, model, row, record)}</div></details>'
    )


def _inside(study: Study, model: Any, row: ContestedRow, record: Any) -> str:
    keywords = {} if study.task is None else {"task": study.task}
    why = model.explain(study.every[[row.row]], **keywords)
    shown = why.contributions[:_MOST_CONTRIBUTIONS]
    rest = why.contributions[_MOST_CONTRIBUTIONS:]
    names = [f"{c.source} · {plain(c.said, 14)}" for c in shown]
    values = [c.adds for c in shown]
    log_odds = getattr(why, "prior_log_odds", None)
    if log_odds is not None:
        names, values = ["class balance", *names], [log_odds, *values]
    else:
        # A majority vote has shares of each class; those against the label point the other way.
        values = [v if c.vote == why.predicted else -v for v, c in zip(values, shown, strict=True)]
    if rest:
        names.append(f"{len(rest):,} more sources")
        values.append(sum(c.adds for c in rest))
    unit = "log odds" if log_odds is not None else "shares of the votes"
    against = getattr(why, "against", None)
    rival = "" if against is None else f" against {name(as_scalar(against), 30)}"
    drawing = both_ways(
        names, values, label="What each source adds", says=why.sentence(), most_label=170, spec="+.2f"
    )
    facts = f"Votes: {_tally(study, row)}."
    if row.items > 1:
        facts += f" {row.items:,} items have the same votes."
    text = "" if record is None else f"<div>{whole(record)}</div>"
    return (
        f'{text}<div>{drawing}<p class="note">To the right: for '
        f"<b><bdi>{name(as_scalar(row.label), 30)}</bdi></b>{rival}; to the left: against it, in {unit}. "
        f"{facts}</p></div>"
    )


def _tally(study: Study, row: ContestedRow) -> str:
    """Votes by class, as HTML, classes without votes left out."""
    cast = [(k, count) for k, count in enumerate(row.votes) if count]
    cast.sort(key=lambda pair: -pair[1])
    told = ", ".join(f"{count:,} × {safe(study.classes[k], 40)}" for k, count in cast[:6])
    return told + (" and others" if len(cast) > 6 else "")
