"""Accuracies over time, where the items are in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.drift import DriftHistory
from flyingsquid.reports.escape import safe
from flyingsquid.reports.marks import line
from flyingsquid.reports.page import Section, figure, key
from flyingsquid.reports.panels import Course, courses
from flyingsquid.reports.study import Study
from flyingsquid.votes import Votes

_MOST_PANELS = 24
_LEAST_ITEMS = 500
_WINDOWS, _STEPS = 10, 50
_MOST_CHANGES = 12


def drift_section(study: Study) -> Section:
    """Small multiples of accuracies over items, with the changes; empty unless items are in order."""
    heading = "Over time"
    kept = getattr(study.model, "history_", None)
    if not study.ordered and kept is None:
        return Section("drift", heading, "")
    try:
        history = _history(study) if kept is None else kept
    except FlyingSquidError as error:
        return Section(
            "drift", heading, f"<p>{safe(f'Accuracies over time could not be estimated: {error}', 1_000)}</p>"
        )
    if len(history) < 2:
        words = (
            f"Too few items to see sources change: {study.votes.n_items:,}, and at least {_LEAST_ITEMS:,} "
            "are needed."
        )
        return Section("drift", heading, f"<p>{words}</p>")
    changes = history.changes()
    told = "".join(f"<li>{safe(str(change), 300)}</li>" for change in changes[:_MOST_CHANGES])
    more = len(changes) - _MOST_CHANGES
    told += f"<li>and {more:,} more changes</li>" if more > 0 else ""
    words = (
        f'<ul class="words">{told}</ul>'
        if changes
        else "<p>No source changed by more than chance explains.</p>"
    )
    return Section("drift", heading, words + _picture(study, history))


def _history(study: Study) -> DriftHistory:
    """What a model that forgets would have noted on the way through the items."""
    shown = study.shown()[0][:_MOST_PANELS]
    names = tuple(study.names[j] for j in shown)
    votes = replace(study.votes.of_sources(shown).to_dense(), names=names)
    if votes.n_items < _LEAST_ITEMS:
        m = len(names)
        return DriftHistory(names, np.zeros(0, np.int64), np.zeros(0), np.zeros((0, m)), np.zeros((0, m, 2)))
    # Triplets follow a source that changes from counts alone; of many classes the model decides.
    method: Literal["triplet", "auto"] = "triplet" if votes.n_classes == 2 else "auto"
    history = _pass_over(votes, method)
    return history if len(history) > 1 else _pass_over(votes, "auto")


def _pass_over(votes: Votes, method: Literal["triplet", "auto"]) -> DriftHistory:
    n = votes.n_items
    step = max(n // _STEPS, 1)
    window = max(n // _WINDOWS, _LEAST_ITEMS // 5)
    online = OnlineLabelModel(window=window, refresh=step, method=method, classes=votes.classes)
    with capture_source_warnings():  # each window would warn of what the whole already did
        for start in range(0, n, step):
            online.partial_fit(votes[start : start + step])
        return online.history_


def _picture(study: Study, history: DriftHistory) -> str:
    at = {name: [c.position for c in history.changes() if c.source == name] for name in history.source_names}
    # Those that changed first, then in the order of the other plots.
    order = sorted(range(len(history.source_names)), key=lambda j: not at[history.source_names[j]])
    kept = order[:_MOST_PANELS]
    panels = [
        Course(
            history.source_names[j],
            history.positions.astype(np.float64),
            history.accuracies[:, j],
            history.intervals[:, j, 0],
            history.intervals[:, j, 1],
            tuple(at[history.source_names[j]]),
        )
        for j in kept
    ]
    n_changes = sum(map(len, at.values()))
    chance = 1 / study.votes.n_classes
    drawing = courses(
        panels,
        chance=chance,
        label="Accuracy of each source over time",
        says=f"{n_changes} changes were found.",
    )
    left = f" {len(order) - len(kept):,} more sources are not shown." if len(order) > len(kept) else ""
    marks = [(line("chance", 0, 6, 14, 6), "even chance")]
    if n_changes:
        marks.append((line("change", 7, 0, 7, 12), "a change"))
    caption = (
        "How to read it: the estimated accuracy of each source in a window that moves over the items, first "
        f"to last, with its 95% band; all panels have one scale, and sources that changed come first.{left}"
    )
    return figure("Do the sources change?", drawing, caption, key=key(marks), wide=True)
