"""Section about single items: those to review, with the contribution of each source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flyingsquid._table import as_scalar
from flyingsquid._values import format_count
from flyingsquid.analysis.disagreement import ContestedItem, contested_items
from flyingsquid.charts.build import explanation_chart
from flyingsquid.models import MajorityVote
from flyingsquid.reports.escape import escape_name, escape_text, shorten
from flyingsquid.reports.page import Section
from flyingsquid.reports.study import Study
from flyingsquid.reports.svg import draw_bars

_MOST_ITEMS = 15
_MOST_CONTRIBUTIONS = 14
_MOST_FIELDS = 20
_LONGEST_TEXT, _LONGEST_PREVIEW = 2_000, 140
_LABEL_WIDTH = 170.0


def items_section(study: Study) -> Section:
    """Return the section with two lists: uncertain items, and items whose label differs from the majority."""
    model = study.model or MajorityVote().fit(study.all_votes)
    found = contested_items(
        model, study.all_votes, study.y, n=_MOST_ITEMS, task=study.task, features=study.features
    )
    text = "Many sources vote, and the label is uncertain. Gold labels for these items are the most useful."
    body = _list(study, model, found.uncertain, "Uncertain", text)
    if study.model is not None:
        total = format_count(found.n_overruled, "item")
        text = f"The label is not the one most sources vote for: {total} in total."
        body += _list(study, model, found.overruled, "Against the majority", text)
    return Section("items", "Items to look at", body)


def _list(study: Study, model: Any, items: tuple[ContestedItem, ...], heading: str, text: str) -> str:
    if not items:
        return ""
    records = [None] * len(items)
    if study.records is not None:
        records = study.records.pick([item.item for item in items])
    entries = "".join(_entry(study, model, item, record) for item, record in zip(items, records, strict=True))
    return f'<h3 class="apart">{heading}</h3><p class="note">{text}</p>{entries}'


def _entry(study: Study, model: Any, item: ContestedItem, record: Any) -> str:
    """Return one item: a line that opens to show its text and the contributions."""
    ids = study.all_votes.items
    name = f"item {item.item:,}" if ids is None else shorten(ids[item.item], 40)
    probability = item.probabilities[study.votes.classes.index(item.label)]
    verdict = f"<bdi>{escape_name(as_scalar(item.label), 24)}</bdi> · {probability:.2f}"
    if item.gold is not None and item.gold != item.label:
        gold = escape_name(as_scalar(item.gold), 24)
        verdict += f' <span class="wrong">gold: <bdi>{gold}</bdi></span>'
    elif item.gold is not None:
        verdict += " ✓"
    votes = _count_votes(study, item)
    return (
        f'<details class="item"><summary><span class="id"><bdi>{escape_name(name, 40)}</bdi></span>'
        f'<span class="gist"><bdi>{votes if record is None else _preview(record)}</bdi></span>'
        f'<span class="p">{verdict}</span></summary>'
        f'<div class="inside">{_details(study, model, item, record, votes)}</div></details>'
    )


def _details(study: Study, model: Any, item: ContestedItem, record: Any, votes: str) -> str:
    keywords: dict[str, Any] = {} if study.task is None else {"task": study.task}
    if study.features is not None:
        keywords["features"] = study.features[[item.item]]
    why = model.explain(study.all_votes[[item.item]], **keywords)
    chart = explanation_chart(why, _MOST_CONTRIBUTIONS)
    is_count = isinstance(model, MajorityVote)
    against = getattr(why, "against", None)
    rival = "" if against is None else f" against {escape_name(as_scalar(against), 30)}"
    same = f" {item.count:,} items have the same votes." if item.count > 1 else ""
    text = "" if record is None else f"<div>{_show(record)}</div>"
    return (
        f'{text}<div>{draw_bars(chart, _LABEL_WIDTH)}<p class="note">Right: for '
        f"<b><bdi>{escape_name(as_scalar(item.label), 30)}</bdi></b>{rival}; left: against it, in "
        f"{'shares of the votes' if is_count else 'log odds'}. Votes: {votes}.{same}</p></div>"
    )


def _count_votes(study: Study, item: ContestedItem) -> str:
    """Return the votes for each class as HTML, without classes that have none."""
    cast = sorted(((count, k) for k, count in enumerate(item.votes) if count), key=lambda pair: -pair[0])
    text = ", ".join(f"{count:,} for {escape_text(study.classes[k], 40)}" for count, k in cast[:6])
    return text + (" and others" if len(cast) > 6 else "")


def _preview(record: Any) -> str:
    """Return the beginning of a record on one line as HTML; for a mapping, of its longest string."""
    if isinstance(record, Mapping):
        strings = [value for value in record.values() if isinstance(value, str)]
        fields = ", ".join(f"{key}: {value}" for key, value in list(record.items())[:4])
        record = max(strings, key=len) if strings else fields
    text = str(record)
    more = "…" if len(text) > _LONGEST_PREVIEW else ""
    return escape_name(text[:_LONGEST_PREVIEW] + more, _LONGEST_PREVIEW + 8)


def _show(record: Any) -> str:
    """Return a record as HTML: a mapping as a list of its fields, anything else as a quotation."""
    if not isinstance(record, Mapping):
        return f"<blockquote><bdi>{escape_text(record, _LONGEST_TEXT)}</bdi></blockquote>"
    fields = list(record.items())
    rows = "".join(
        f"<dt>{escape_name(key)}</dt><dd><bdi>{escape_text(value, _LONGEST_TEXT)}</bdi></dd>"
        for key, value in fields[:_MOST_FIELDS]
    )
    rest = len(fields) - _MOST_FIELDS
    more = f'<p class="note">{rest:,} more fields</p>' if rest > 0 else ""
    return f"<dl>{rows}</dl>{more}"
