"""The sources: how often they are right, how often they vote, and everything about them in a table."""

from __future__ import annotations

import numpy as np

from flyingsquid.reports.charts import Estimate, intervals, nested
from flyingsquid.reports.escape import name, safe
from flyingsquid.reports.marks import diamond, dot, line, rect
from flyingsquid.reports.page import Section, figure, grid, key
from flyingsquid.reports.study import Study

# The table names so many sources; a page of more than that is no longer read.
MOST_ROWS = 1_000
_HEADINGS = {
    "j": "#",
    "name": "Source",
    "polarity": "Votes for",
    "coverage": "Coverage",
    "overlaps": "Overlaps",
    "conflicts": "Conflicts",
    "precision": "Right on known items",
    "accuracy": "Accuracy, estimated",
    "votes": "Votes",
    "flags": "Remarks",
}
_SHARES = {"coverage", "overlaps", "conflicts", "precision", "accuracy"}
_TEXTS = {"name", "polarity", "flags"}
_WIDEST = {"polarity": 60, "flags": 240}
_FIND = (
    '<input class="find" id="find-source" type="search" placeholder="Find a source" '
    'aria-label="Find a source" hidden>'
)
# The order of columns; what else occurs, reasons of missing votes, stands before the texts.
_FIRST = ("name", "accuracy", "precision", "coverage", "overlaps", "conflicts", "votes")
_LAST = ("polarity", "flags")
# Shown within another column, or not at all.
_WITHIN = ("j", "correct", "incorrect", "accuracy_low", "accuracy_high")


def sources_section(study: Study) -> Section:
    """Plots of accuracy and coverage, then the table."""
    figures = [_accuracies(study), _coverage(study)]
    return Section("sources", "Sources", grid(figures) + table(study))


def _accuracies(study: Study) -> str:
    if not (study.judged or "precision" in study.columns):
        return ""
    shown, left_out = study.shown()
    rows = [
        Estimate(
            study.names[j],
            _known(study, "accuracy", j),
            _known(study, "accuracy_low", j),
            _known(study, "accuracy_high", j),
            _known(study, "precision", j),
            "bad" if study.names[j] in study.found.worse_than_chance else "",
        )
        for j in shown
    ]
    chance = 1 / study.votes.n_classes
    ends = " to ".join(
        f"{row.name[:60]} ({(row.gold or 0.0) if row.value is None else row.value:.0%})"
        for row in (rows[0], rows[-1])
    )
    drawing = intervals(rows, chance=chance, label="Accuracy of each source", says=f"Best first: {ends}.")
    marks = []
    if study.judged:
        marks.append(
            (line("whisker", 0, 6, 14, 6) + dot("point", 7, 6), f"estimated {_by(study)}, 95% interval")
        )
    if "precision" in study.columns:
        marks.append((diamond("gold-mark", 7, 6), "on items of known class"))
    if any(row.kind for row in rows):
        marks.append((dot("point bad", 7, 6), "worse than chance"))
    marks.append((line("chance", 7, 0, 7, 12), f"even chance among {study.votes.n_classes} classes"))
    caption = (
        "How to read it: the further to the right, the more often a vote of the source is right. Sources "
        f"whose intervals overlap may be equally good. {left_out}"
    )
    return figure("How often is each source right?", drawing, caption, key=key(marks))


def _by(study: Study) -> str:
    # A model that was passed may have seen known labels.
    return "by the model" if study.given else "from votes alone"


def _known(study: Study, column: str, j: int) -> float | None:
    value = study.columns[column][j] if column in study.columns else None
    return None if value is None else float(value)


def _coverage(study: Study) -> str:
    shown, left_out = study.shown()
    coverage = study.column("coverage")
    layers = [
        (what, study.column(column)[shown].tolist(), kind)
        for what, column, kind in (
            ("votes on", "coverage", "back"),
            ("with others on", "overlaps", "half"),
            ("in conflict on", "conflicts", "bad"),
        )
    ]
    drawing = nested(
        [study.names[j] for j in shown],
        layers,
        label="Coverage, overlaps and conflicts of each source",
        says=f"Sources vote on {np.min(coverage):.0%} to {np.max(coverage):.0%} of the items.",
    )
    marks = [
        (rect("bar back", 0, 1, 14, 10), "the source votes (coverage)"),
        (rect("bar half", 0, 3, 14, 6), "others vote too (overlaps)"),
        (rect("bar bad", 0, 5, 14, 3), "one says something else (conflicts)"),
    ]
    caption = (
        "How to read it: bars are shares of all items, each a part of the one around it. A source that "
        f"votes much and is rarely in conflict is either good, or alone with easy items. {left_out}"
    )
    return figure("How much does each source say?", drawing, caption, key=key(marks))


def table(study: Study) -> str:
    """All columns of the summary, sortable, in the order of accuracy."""
    present = [c for c in study.columns if any(v not in (None, "") for v in study.columns[c])]
    others = [c for c in present if c not in (*_FIRST, *_LAST, *_WITHIN)]
    columns = [c for c in (*_FIRST, *others, *_LAST) if c in present]
    order = study.ranked()
    voting = study.most_voting(MOST_ROWS)
    kept = [j for j in order if j in voting]
    left = len(order) - len(kept)
    sorted_by = "accuracy" if "accuracy" in columns else "precision" if "precision" in columns else "coverage"
    head = "".join(_head(c, descending=c == sorted_by) for c in columns)
    body = "".join("<tr>" + "".join(_cell(study, c, j) for c in columns) + "</tr>" for j in kept)
    many = len(kept) > 16
    find = _FIND if many else ""
    notes = _notes(study)
    if left:
        notes.append(
            f"{left:,} more sources, those with the fewest votes, are not in this table; fs.summarize lists "
            "all."
        )
    return (
        '<h3 class="apart" id="all-sources">All sources</h3><p class="note">Click on a heading to sort. '
        f"Coverage, overlaps and conflicts are shares of all items.</p>{find}"
        f'<div class="scroll{" tall" * many}" tabindex="0" role="region" aria-labelledby="all-sources">'
        f'<table class="sources sortable" data-find="find-source"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        + "".join(f'<p class="note">{safe(note)}</p>' for note in notes)
    )


def _notes(study: Study) -> list[str]:
    notes = []
    if study.judged:
        notes.append(f"Accuracy, estimated: how often a vote is right, {_by(study)}, with its 95% interval.")
    if "precision" in study.columns:
        known = study.found.n_known
        notes.append(
            f"Right on known items: right votes among its votes on the {known:,} items of known class."
        )
    return notes


def _head(column: str, *, descending: bool) -> str:
    kind = "" if column in _TEXTS else ' class="n"'
    order = ' aria-sort="descending"' if descending else ""
    return f'<th scope="col"{kind}{order}>{safe(_HEADINGS.get(column, column.capitalize()))}</th>'


def _cell(study: Study, column: str, j: int) -> str:
    value = study.columns[column][j]
    if column == "name":
        return f'<th scope="row"><bdi>{name(value)}</bdi></th>'
    if column in _TEXTS:
        return f'<td class="text"><bdi>{name(value or "", _WIDEST[column])}</bdi></td>'
    if value is None:
        return '<td class="n" data-v=""></td>'
    shown = f"{value:.1%}" if column in _SHARES else f"{value:,.10g}"
    return f'<td class="n" data-v="{value:.12g}">{shown}{_beside(study, column, j)}</td>'


def _beside(study: Study, column: str, j: int) -> str:
    """The interval of an accuracy, or how many votes were right."""
    if column == "precision":
        right, wrong = study.columns["correct"][j], study.columns["incorrect"][j]
        return f"<small>of {right + wrong:,}</small>"
    if column == "accuracy":
        low, high = study.columns["accuracy_low"][j], study.columns["accuracy_high"][j]
        return "" if low is None or high is None else f"<small>{100 * low:.0f}–{100 * high:.0f}</small>"
    return ""
