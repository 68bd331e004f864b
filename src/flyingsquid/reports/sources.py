"""Sections about sources: charts and a table, judges, missing votes, changes over time, and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from flyingsquid._values import format_count
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.agreement import agreement
from flyingsquid.analysis.findings import DependentPair, describe_dependence
from flyingsquid.analysis.panels import panel_report
from flyingsquid.charts import (
    Layer,
    LayeredBarChart,
    Tone,
    accuracy_chart,
    agreement_chart,
    coverage_chart,
    drift_charts,
)
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.drawing import STYLE, to_svg
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.drift import DriftHistory
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
from flyingsquid.reports.study import MOST_SHOWN, Study
from flyingsquid.reports.svg import chart_figure, panels_figure
from flyingsquid.votes import Votes

# The table lists at most this many sources.
_MOST_ROWS = 1_000
_HEADINGS = {
    "name": "Source",
    "accuracy": "Accuracy, estimated",
    "precision": "Accuracy on gold labels",
    "polarity": "Votes for",
    "flags": "Remarks",
}
_PANEL_HEADINGS = {
    "judge": "Judge",
    "sources": "Sources",
    "accuracy": "Accuracy, estimated",
    "gold_accuracy": "Accuracy on gold labels",
    "self_agreement": "Self-agreement, orders swapped",
    "position_bias": "Position bias",
    "retest": "Same answer when repeated",
    "accuracy_at_most": "Accuracy at most",
    "refused": "Refused, unparseable or failed",
    "changes": "Labels changed without it",
    "cost": "Cost",
}
_SHARES = {"coverage", "overlaps", "conflicts", "precision", "accuracy"}
# Columns of text, and how much of them is shown.
_TEXTS = {"name": 60, "polarity": 60, "flags": 240}
# The first and last columns; counts of missing votes are between them.
_FIRST = ("name", "accuracy", "precision", "coverage", "overlaps", "conflicts", "votes")
_LAST = ("polarity", "flags")
# Columns that are shown within another one, or not at all.
_HIDDEN = ("j", "correct", "incorrect", "accuracy_low", "accuracy_high")

_TONES: dict[str, Tone] = {"refused": "bad", "unparseable": "main", "failed": "other", "abstained": "pale"}
_PROBLEMS = tuple(_TONES)[:3]

_MOST_PANELS, _MOST_CHANGES = 24, 12
# Drift needs this many items, read in steps with a window of a tenth of them.
_LEAST_ITEMS, _WINDOWS, _STEPS = 500, 10, 50


def sources_section(study: Study) -> Section:
    """Return charts of accuracy and coverage, and a table of all sources."""
    shown, left_out = study.shown()
    figures = []
    if {"accuracy", "precision"} & set(study.summary):
        chart = accuracy_chart(
            study.summary,
            shown,
            worse_than_chance=study.findings.worse_than_chance,
            chance=study.findings.chance,
            estimated_label=f"estimated {_basis(study)}, 95% interval",
        )
        caption = (
            "How to read it: sources farther to the right are more accurate. Sources with overlapping "
            "intervals may be equally accurate. The dashed mark is chance: the accuracy of random votes with "
            f"the same class frequencies. {left_out}"
        )
        figures.append(chart_figure(chart, caption))
    caption = (
        "How to read it: bars are shares of all items. Each bar is a part of the one around it. A source "
        f"with many votes and few conflicts is accurate, or votes on easy items. {left_out}"
    )
    figures.append(chart_figure(coverage_chart(study.summary, shown), caption))
    return Section("sources", "Sources", grid(figures) + _table(study))


def _basis(study: Study) -> str:
    # A model that was passed may have used gold labels.
    return "by the model" if study.is_model_given else "from votes alone"


def _table(study: Study) -> str:
    """Return all columns of the summary as a sortable table, best sources first."""
    present = [c for c in study.summary if any(v not in (None, "") for v in study.summary[c])]
    if set(study.summary["polarity"]) == {", ".join(map(str, study.votes.classes))}:
        present.remove("polarity")  # every source votes for every class
    others = [c for c in present if c not in (*_FIRST, *_LAST, *_HIDDEN)]
    columns = [c for c in (*_FIRST, *others, *_LAST) if c in present]
    active = study.most_active(_MOST_ROWS)
    kept = [j for j in study.ranked() if j in active]
    sorted_by = next((c for c in ("accuracy", "precision") if c in columns), "coverage")
    head = "".join(_head(c, is_sorted=c == sorted_by) for c in columns)
    body = "".join("<tr>" + "".join(_cell(study, c, j) for c in columns) + "</tr>" for j in kept)
    is_long = len(kept) > 16
    search = (
        '<input class="find" id="find-source" type="search" placeholder="Find a source" '
        'aria-label="Find a source" hidden>'
    )
    notes = []
    if "accuracy" in columns:
        notes.append(f"Accuracy, estimated: share of correct votes {_basis(study)}, with its 95% interval.")
    if "precision" in columns:
        n_gold = study.findings.n_gold
        items = format_count(n_gold, "item")
        notes.append(f"Accuracy on gold labels: share of correct votes on {items} with gold labels.")
    if len(kept) < len(study.names):
        left_out = len(study.names) - len(kept)
        notes.append(
            f"{left_out:,} more sources with the fewest votes are not shown; fs.summarize lists all."
        )
    return (
        '<h3 class="apart" id="all-sources">All sources</h3><p class="note">Click on a heading to sort. '
        f"Coverage, overlaps and conflicts are shares of all items.</p>{search * is_long}"
        f'<div class="scroll{" tall" * is_long}" tabindex="0" role="region" aria-labelledby="all-sources">'
        f'<table class="sources sortable" data-find="find-source"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        + "".join(f'<p class="note">{escape_text(note)}</p>' for note in notes)
    )


def _head(column: str, *, is_sorted: bool) -> str:
    kind = "" if column in _TEXTS else ' class="n"'
    order = ' aria-sort="descending"' if is_sorted else ""
    return f'<th scope="col"{kind}{order}>{escape_text(_HEADINGS.get(column, column.capitalize()))}</th>'


def _cell(study: Study, column: str, j: int) -> str:
    value = study.summary[column][j]
    if column in _TEXTS:
        tag, kind = ("th", 'scope="row"') if column == "name" else ("td", 'class="text"')
        return f"<{tag} {kind}><bdi>{escape_name(value or '', _TEXTS[column])}</bdi></{tag}>"
    if value is None:
        return '<td class="n" data-v=""></td>'
    text = f"{value:.1%}" if column in _SHARES else f"{value:,.10g}"
    return f'<td class="n" data-v="{value:.12g}">{text}{_cell_detail(study, column, j)}</td>'


def _cell_detail(study: Study, column: str, j: int) -> str:
    """Return the interval of an accuracy, or the number of votes on gold labels."""
    summary = study.summary
    if column == "precision":
        return f"<small>of {summary['correct'][j] + summary['incorrect'][j]:,}</small>"
    if column == "accuracy":
        low, high = summary["accuracy_low"][j], summary["accuracy_high"][j]
        return "" if low is None or high is None else f"<small>{100 * low:.0f}–{100 * high:.0f}</small>"
    return ""


def missing_section(study: Study) -> Section:
    """Return missing votes by reason; empty unless some were refused, unparseable or failed."""
    counts = study.votes.missing_counts()
    reasons = [reason for reason in _TONES if counts[reason].any()]
    problems = np.sum([counts[reason] for reason in _PROBLEMS], axis=0)
    troubled = np.argsort(-problems, kind="stable")[: int((problems > 0).sum())]
    if not len(troubled):
        return Section("missing", "Missing votes", "")
    shown, total = troubled[:MOST_SHOWN], ", ".join(f"{int(counts[r].sum()):,} {r}" for r in reasons)
    chart = LayeredBarChart(
        title="Why are votes missing?",
        description=f"In total: {total}.",
        names=tuple(study.names[j] for j in shown),
        layers=tuple(
            Layer(r, tuple((counts[r][shown] / study.votes.n_items).tolist()), _TONES[r]) for r in reasons
        ),
        x_label="share of items",
        stacked=True,
    )
    rest = len(troubled) - len(shown)
    caption = (
        f"How to read it: shares of all items without a vote of the source. In total: {total}. The label "
        "model treats all of them as missing; refusals, unparseable answers and failures can be repaired."
        + (f" {rest:,} more sources are not shown." if rest else "")
    )
    return Section("missing", "Missing votes", chart_figure(chart, caption))


def drift_section(study: Study) -> Section:
    """Return accuracies over time with their changes; empty unless the items are in order."""
    heading = "Over time"
    recorded = getattr(study.model, "history_", None)
    if not study.ordered and recorded is None:
        return Section("drift", heading, "")
    try:
        history = _replay(study) if recorded is None else recorded
    except FlyingSquidError as error:
        text = escape_text(f"Accuracies over time could not be estimated: {error}", 1_000)
        return Section("drift", heading, f"<p>{text}</p>")
    if history is None or len(history) < 2:
        text = f"Changes over time need at least {_LEAST_ITEMS:,} items; there are {study.votes.n_items:,}."
        return Section("drift", heading, f"<p>{text}</p>")
    changes = history.changes()
    text = "<p>No source changed significantly.</p>"
    if changes:
        sentences = [f"<li>{escape_text(change, 300)}</li>" for change in changes[:_MOST_CHANGES]]
        if len(changes) > _MOST_CHANGES:
            sentences.append(f"<li>{len(changes) - _MOST_CHANGES:,} more changes</li>")
        text = f'<ul class="words">{"".join(sentences)}</ul>'
    chart, _ = drift_charts(history)
    lines = sorted(chart.lines, key=lambda line: not line.changes)
    left_out = len(lines) - _MOST_PANELS
    caption = (
        "How to read it: estimated accuracy of each source in a window that moves from the first to the last "
        "item, with its 95% interval. All panels have the same scale; sources that changed come first."
        + (f" {left_out:,} more sources are not shown." if left_out > 0 else "")
    )
    shown = replace(chart, lines=tuple(lines[:_MOST_PANELS]))
    chances = dict(zip(study.names, study.findings.chance, strict=True))
    return Section("drift", heading, text + panels_figure(shown, chances, caption))


def _replay(study: Study) -> DriftHistory | None:
    """Return the history of an online model over the items; None if there are too few."""
    if study.votes.n_items < _LEAST_ITEMS:
        return None
    shown = study.shown()[0][:_MOST_PANELS]
    votes = replace(study.votes.of_sources(shown).to_dense(), names=tuple(study.names[j] for j in shown))
    # Triplets of counts follow a change faster; they support two classes.
    history = _history(votes, "triplet" if votes.n_classes == 2 else "auto")
    return history if len(history) > 1 else _history(votes, "auto")


def _history(votes: Votes, method: Literal["triplet", "auto"]) -> DriftHistory:
    n = votes.n_items
    step, window = max(n // _STEPS, 1), max(n // _WINDOWS, _LEAST_ITEMS // 5)
    online = OnlineLabelModel(window=window, refresh=step, method=method, classes=votes.classes)
    with capture_source_warnings():  # the fit of all items has warned already
        for start in range(0, n, step):
            online.partial_fit(votes[start : start + step])
        return online.history_


# ---------------------------------------------------------------------- panels of judges


def panel_section(study: Study) -> Section:
    """Return a table of the judges of a panel; empty unless the votes have a structure."""
    structure = study.all_votes.structure
    if structure is None or study.model is None or study.task is not None:
        return Section("panel", "Panel of judges", "")
    found = panel_report(study.all_votes, study.y, model=study.model)
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
        f'<ul class="words">{sentences}</ul>{render_table(found.table(), _PANEL_HEADINGS)}'
        f'<p class="note">{escape_text(note)}</p>',
    )


# ---------------------------------------------------------------------- pairs of sources


_MOST_PAIRS = 12


def agreement_section(study: Study) -> Section:
    """Return a heat map of all pairs, the most accurate sources first."""
    if len(study.names) < 2:
        return Section("agreement", "Agreement", "")
    shown, left_out = study.paired()
    found = agreement(study.votes.of_sources(shown))
    # Sources without names are numbered, and selecting some of them numbers these again.
    found = replace(found, source_names=tuple(study.names[j] for j in shown))
    if not (np.nan_to_num(found.beyond_chance[np.triu_indices(len(shown), 1)]) > 0).any():
        text = (
            "No pair of sources agrees more often than by chance. Sources that vote only for the same class "
            "always agree, which chance explains."
        )
        return Section("agreement", "Agreement", f'<p class="note">{text}</p>')
    chart = agreement_chart(found, sort=False)
    caption = (
        "How to read it: each cell is a pair of sources, by row and column number, best sources first. "
        "Stronger colors show more agreement beyond chance (Cohen's kappa). Accurate sources agree because "
        "both are correct. A strong color far from the upper corner indicates a pair with common errors. "
        f"Hover over a cell to see the share of equal votes. {left_out}"
    )
    return Section("agreement", "Agreement", chart_figure(chart, caption, wide=True))


def dependencies_section(study: Study) -> Section:
    """Return the dependent pairs of sources: how many, the strongest in a table, and as a graph."""
    found = study.findings
    if not found.n_pairs:
        return Section("dependencies", "Dependencies", "")
    text = describe_dependence(found) + _describe_graph(study)
    if found.dependent:
        text += " If sources copy each other, keep only one: copies look like independent evidence."
    pairs = found.dependent[:_MOST_PAIRS]
    figures = [_graph(pairs), _strongest(pairs, len(found.dependent))] if pairs else []
    return Section("dependencies", "Dependencies", f"<p>{escape_text(text, 1_000)}</p>{grid(figures)}")


def _describe_graph(study: Study) -> str:
    """Return a sentence about the dependencies that the model allows for; empty if there are none."""
    graph = getattr(study.model, "graph_", None)
    if graph is None or not graph.source_edges:
        return ""
    how = "learned from the votes" if getattr(graph, "correlations", None) else "given"
    pairs = format_count(len(graph.source_edges), "pair")
    return f" The model allows for dependencies of {pairs} of sources, which were {how}."


def _number(pairs: Sequence[DependentPair]) -> dict[str, int]:
    """Return the sources of the pairs with their numbers, in the order of the pairs."""
    names = [name for pair in pairs for name in (pair.first, pair.second)]
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _graph(pairs: Sequence[DependentPair]) -> str:
    numbers = _number(pairs)
    edges = [sorted((numbers[pair.first], numbers[pair.second])) for pair in pairs]
    names = [shorten(name, 80) for name in numbers]
    labels = [str(number + 1) for number in numbers.values()]
    graph = DependencyGraph(len(numbers), source_edges=edges)
    # The page has its own colors, which follow its theme, and its policy allows no other style.
    drawing = to_svg(graph, labels=labels, names=names).replace(f"<style>{STYLE}</style>", "")
    caption = (
        "How to read it: Y is the truth, and circles are the sources of the table with their numbers. Hover "
        "over a circle to see its name. Curved lines are the pairs of the table."
    )
    return figure("Which sources depend on each other?", drawing, caption)


def _strongest(pairs: Sequence[DependentPair], total: int) -> str:
    """Return a table of pairs with their correlations."""
    numbers, rows = _number(pairs), []
    for pair in pairs:
        one, other = (
            f"{numbers[name] + 1} <bdi>{escape_name(name, 34)}</bdi>" for name in (pair.first, pair.second)
        )
        rows.append([f"{one}<br>{other}", f"{pair.correlation:+.2f}"])
    which = f"The {len(rows)} strongest of {total:,} pairs." if len(rows) < total else ""
    caption = (
        "How to read it: correlation of the votes of two sources given the truth. It is 0 for independent "
        f"sources, 1 for copies, and negative if they agree less often than the truth explains. {which}"
    )
    cells = table([("Pair", False), ("Correlation", True)], rows)
    return figure("Which pairs are most dependent?", cells, caption)
