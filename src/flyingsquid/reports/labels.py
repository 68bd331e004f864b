"""Sections about the labels: majority vote, certainty, influence of sources, and items to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import as_scalar
from flyingsquid._values import format_count
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.comparison import Comparison, calibration
from flyingsquid.analysis.disagreement import ContestedItem, contested_items, disagreement_buckets
from flyingsquid.analysis.influence import learning_curve, leave_one_out
from flyingsquid.charts import (
    IntervalChart,
    IntervalRow,
    Tone,
    calibration_charts,
    column,
    explanation_chart,
    learning_curve_chart,
    leave_one_out_chart,
    posterior_chart,
)
from flyingsquid.estimation.shares import wilson
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.models import LabelModel, MajorityVote
from flyingsquid.reports.page import (
    Section,
    escape_name,
    escape_text,
    figure,
    grid,
    render_table,
    shorten,
    table,
)
from flyingsquid.reports.study import Study
from flyingsquid.reports.svg import chart_figure, draw_bars
from flyingsquid.votes import Votes
from flyingsquid.votes.decisions import expected_credit

_HEADINGS = {
    "bucket": "Votes on the item",
    "confidence": "Mean probability",
    "differs": "Label differs",
    "gold": "Gold labels",
    "majority_accuracy": "Majority accuracy",
    "accuracy": "Model accuracy",
}
# A source needs this many gold labels to be called the best.
_LEAST_VOTES = 30
_BINS = 20
_MOST_CLASSES = 30
# Leaving out sources costs a fit for each, so it is limited, and run on a sample of the items.
_MOST_SOURCES, _MOST_ITEMS = 60, 5_000
_MOST_BARS, _REPEATS = 30, 3


def comparison_section(study: Study) -> Section:
    """Return the section that compares the model with majority vote."""
    buckets = disagreement_buckets(
        study.all_votes, study.y, model=study.model, task=study.task, features=study.features
    )
    caption = (
        "How to read it: items are grouped by how much their votes differ. A model can improve only the "
        "labels of items on which votes differ."
    )
    disagreement = figure(
        "Where do the sources disagree?", render_table(buckets, _HEADINGS), caption, wide=True
    )
    heading = "Comparison with majority vote"
    if study.model is None:
        text = "<p>There is no model: all labels on this page are shares of the votes.</p>"
        return Section("majority", heading, text + grid([disagreement]))
    return Section("majority", heading, grid([_scores(study, study.comparison), disagreement]))


def _scores(study: Study, found: Comparison) -> str:
    """Return the accuracies of the model, of majority vote and of the best source on gold labels."""
    if found.model is None or found.majority is None:
        return ""
    rows = [
        _accuracy_row("label model", found.model.accuracy, found.n_gold),
        _accuracy_row("majority vote", found.majority.accuracy, found.n_gold, "other"),
    ]
    right = column(study.summary, "correct")
    votes = right + column(study.summary, "incorrect")
    precision = np.divide(right, votes, out=np.full(len(votes), -1.0), where=votes >= _LEAST_VOTES)
    best = int(np.argmax(precision))
    single = ""
    if precision[best] >= 0:
        count = int(votes[best])
        rows.append(_accuracy_row("best source", float(precision[best]), count, "other"))
        cast = format_count(count, "vote")
        single = f" The best source is {study.names[best][:80]}, with {cast} on these items."
    chart = IntervalChart(
        title="Which labels are more accurate?",
        description="; ".join(f"{row.name}: {row.value:.1%}" for row in rows),
        rows=tuple(rows),
        x_label="accuracy",
    )
    caption = (
        f"How to read it: accuracy on {format_count(found.n_gold, 'item')} with gold labels, with 95% "
        "intervals."
        f"{escape_text(f'{single} {found.f1_name}')}: {found.model.f1:.3f} of the model, "
        f"{found.majority.f1:.3f} of majority vote; log loss: {found.model.log_loss:.3f} and "
        f"{found.majority.log_loss:.3f} (lower is better)."
    )
    return chart_figure(chart, caption)


def _accuracy_row(name: str, share: float, count: int, tone: Tone = "main") -> IntervalRow:
    low, high = wilson(np.array(share), np.array(count))
    return IntervalRow(name, share, float(low), float(high), tone=tone)


def labels_section(study: Study) -> Section:
    """Return the section about the certainty, calibration and class frequencies of the labels."""
    return Section("labels", "Labels", grid([_certainty(study), _calibration(study), _class_shares(study)]))


def _certainty(study: Study) -> str:
    posterior, gold, binary = study.items.posterior, study.items.gold, study.votes.n_classes == 2
    chart = posterior_chart(
        posterior,
        wrong=None if gold is None else np.where(gold < 0, 0, 1 - expected_credit(posterior, gold)),
        event=f"P({study.classes[1]})" if binary else None,
        bins=_BINS,
    )
    ends = "at both ends" if binary else "at the right end"
    caption = f"How to read it: bars are shares of all items. Items {ends} are certain. {chart.description}"
    return chart_figure(chart, caption)


def _calibration(study: Study) -> str:
    if study.items.gold is None or study.model is None:
        return ""
    found = calibration(study.model, study.all_votes, study.y, task=study.task, features=study.features)
    event = (
        f"P({escape_text(study.classes[1])})"
        if study.votes.n_classes == 2
        else "the probability of the label"
    )
    caption = (
        f"How to read it: {format_count(int(found.counts.sum()), 'item')} with votes and gold labels, "
        f"grouped by {event}; larger points stand for more items. Points on the dashed line are calibrated; "
        "above one half, points below the line are overconfident. Bars are 95% intervals. The mean "
        f"difference is {found.error:.1%}."
    )
    return chart_figure(calibration_charts(found)[0], caption)


def _class_shares(study: Study) -> str:
    """Return a table of classes: share of labels, class balance of the model, share of gold labels."""
    n_classes, gold = study.votes.n_classes, study.items.gold
    if n_classes > _MOST_CLASSES:
        return ""
    labels = np.bincount(study.items.labels, minlength=n_classes) / study.votes.n_items
    headings, columns = ["Labels"], [[f"{share:.1%}" for share in labels]]
    balance = np.asarray(getattr(study.model, "class_balance_", np.empty(0)))
    if balance.size:
        headings.append("Class balance")
        columns.append(_balance_cells(study, balance))
    if gold is not None:
        counts = np.bincount(gold[gold >= 0], minlength=n_classes)
        headings.append("Gold labels")
        columns.append([f"{share:.1%}" for share in counts / counts.sum()])
    names = [f"<bdi>{escape_name(name, 40)}</bdi>" for name in study.classes]
    cells = table(
        [("Class", False), *((heading, True) for heading in headings)], zip(names, *columns, strict=True)
    )
    caption = (
        "How to read it: shares of the classes in the labels, in the estimate of the model, and in the gold "
        "labels. If labels and class balance differ, many items are uncertain."
    )
    return figure("How often does each class occur?", cells, caption)


def _balance_cells(study: Study, balance: NDArray[Any]) -> list[str]:
    """Return the class balance of the task with its 95% intervals, if known."""
    task = study.task or 0
    shares = balance if balance.ndim == 1 else balance[task]
    found = np.asarray(study.model.class_balance_interval_)
    intervals = found if found.ndim == 2 else found[task]
    return [
        f"{share:.1%}<small>{100 * low:.0f}–{100 * high:.0f}</small>" if np.isfinite(low) else f"{share:.1%}"
        for share, (low, high) in zip(shares, intervals, strict=True)
    ]


def influence_section(study: Study) -> Section:
    """Return the effect of leaving out sources and items, for models that can be fitted again."""
    heading = "Influence"
    if not isinstance(study.model, LabelModel) or study.task is not None or len(study.names) < 2:
        return Section("influence", heading, "")
    if len(study.names) > _MOST_SOURCES:
        text = f"Not shown for more than {_MOST_SOURCES} sources, because it takes a fit for each."
        return Section("influence", heading, f'<p class="note">{text}</p>')
    rng = np.random.default_rng(0)
    try:
        model, votes, y = _sample(study, rng)
        without = leave_one_out(model, votes, y)
        curve = learning_curve(model, votes, y, random_state=rng, repeats=_REPEATS)
    except FlyingSquidError as error:  # for example a model that was fitted with gold labels
        return Section("influence", heading, f'<p class="note">Not shown: {escape_text(error, 600)}</p>')
    text = ""
    if votes.n_items < study.votes.n_items:
        text = (
            f'<p class="note">Based on a model of {format_count(votes.n_items, "item")}, drawn at random.</p>'
        )
    figures = []
    if np.isfinite(without.changed).any():
        caption = "How to read it: share of labels that change when the model is fitted without the source."
        if without.accuracy_change is not None:
            caption += (
                " Numbers are the change of accuracy without the source, in points: blue sources help, "
                "orange ones hurt."
            )
        rest = len(without.changed) - _MOST_BARS
        caption += f" {rest:,} more sources with less influence are not shown." if rest > 0 else ""
        figures.append(chart_figure(leave_one_out_chart(without, _MOST_BARS), caption))
    lines = learning_curve_chart(curve)
    if len(lines.lines[0].x) > 1:
        caption = (
            f"How to read it: the model is fitted on samples of the items, {_REPEATS} of each size. Points "
            "are means, and bars show the range. If a line becomes flat, more items of the same kind would "
            "change little."
        )
        figures.append(chart_figure(lines, caption))
    return Section("influence", heading, text + grid(figures))


def _sample(study: Study, rng: np.random.Generator) -> tuple[LabelModel, Votes, Any]:
    """Return the model, its votes and gold labels; for many items, a model of a sample."""
    n = study.votes.n_items
    if n <= _MOST_ITEMS:
        return study.model, study.all_votes, study.y
    drawn = np.sort(rng.permutation(n)[:_MOST_ITEMS])
    part = study.all_votes[drawn]
    with capture_source_warnings():  # the fit of all items has warned already
        model = LabelModel(**study.model.get_params(deep=False)).fit(part)
    return model, part, None if study.items.gold is None else study.gold_labels(drawn)


# ---------------------------------------------------------------------- single items


_MOST_LISTED = 15
_MOST_CONTRIBUTIONS = 14
_MOST_FIELDS = 20
_LONGEST_TEXT, _LONGEST_PREVIEW = 2_000, 140
_LABEL_WIDTH = 170.0


def items_section(study: Study) -> Section:
    """Return the section with two lists: uncertain items, and items whose label differs from the majority."""
    model = study.model or MajorityVote().fit(study.all_votes)
    found = contested_items(
        model, study.all_votes, study.y, n=_MOST_LISTED, task=study.task, features=study.features
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
    identity = None if ids is None else str(ids[item.item])
    name = f"item {item.item:,}" if identity is None else shorten(identity, 40)
    probability = item.probabilities[study.votes.classes.index(item.label)]
    verdict = f"<bdi>{escape_name(as_scalar(item.label), 24)}</bdi> ·&nbsp;{probability:.2f}"
    if item.gold is not None and item.gold != item.label:
        gold = escape_name(as_scalar(item.gold), 24)
        verdict += f' <span class="wrong">gold: <bdi>{gold}</bdi></span>'
    elif item.gold is not None:
        verdict += " ✓"
    votes = _count_votes(study, item)
    return (
        f'<details class="item"><summary><span class="id"><bdi>{escape_name(name, 40)}</bdi></span>'
        f'<span class="gist"><bdi>{votes if record is None else _preview(record, identity)}</bdi></span>'
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


def _preview(record: Any, identity: str | None) -> str:
    """Return the beginning of a record on one line as HTML; for a mapping, of its longest string.

    The ``identity`` of the item is shown next to it, and is not repeated.
    """
    if isinstance(record, Mapping):
        strings = [value for value in record.values() if isinstance(value, str) and value != identity]
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
