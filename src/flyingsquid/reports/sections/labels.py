"""The labels: how sure they are, whether that is right, and how often each class is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.calibration import calibration
from flyingsquid.reports.charts import Estimate, intervals
from flyingsquid.reports.escape import safe
from flyingsquid.reports.marks import diamond, dot, line, rect
from flyingsquid.reports.page import Section, figure, grid, key
from flyingsquid.reports.panels import histogram, reliability
from flyingsquid.reports.study import Study

Array = NDArray[np.float64]
_BINS = 20
_MOST_CLASSES = 30


def labels_section(study: Study) -> Section:
    """Histogram of posteriors, calibration where the truth is known, and the balance of classes."""
    body = grid([_histogram(study), _calibration(study), _balance(study)])
    return Section("labels", "Labels", body)


def _what(study: Study) -> str:
    return "label model" if study.model is not None else "majority vote"


def _histogram(study: Study) -> str:
    posterior, gold = study.items.posterior, study.items.gold
    binary = study.votes.n_classes == 2
    values = posterior[:, 1] if binary else posterior.max(axis=1)
    start = 0.0 if binary else 1 / study.votes.n_classes
    edges = np.linspace(start, 1.0, _BINS + 1)
    n = len(values)
    shares = np.histogram(np.clip(values, start, 1.0), edges)[0] / n
    below = None
    if gold is not None:
        wrong = (gold >= 0) & (study.items.labels != gold)
        below = np.histogram(np.clip(values[wrong], start, 1.0), edges)[0] / n
    sure = float((posterior.max(axis=1) >= 0.9).mean())
    what = f"P({study.classes[1]})" if binary else "probability of the label"
    drawing = histogram(
        shares,
        below,
        edges,
        what=what,
        label="Histogram of the probabilities",
        says=f"{sure:.1%} of the labels have a probability of 0.9 or more.",
    )
    ends = (
        "Items at both ends are decided, those in the middle are not"
        if binary
        else "Items at the right end are decided"
    )
    marks = [(rect("bar", 1, 1, 12, 10), "items")]
    if below is not None:
        marks.append((rect("bar bad", 1, 1, 12, 10), "of these, wrong by known classes"))
    caption = (
        f"How to read it: each bar is a share of all items. {ends}. {sure:.0%} of the labels are given with "
        "0.9 or more."
    )
    return figure("How sure are the labels?", drawing, caption, key=key(marks) if below is not None else "")


def _calibration(study: Study) -> str:
    if study.items.gold is None or not (study.items.gold >= 0).any() or study.model is None:
        return ""
    found = calibration(study.model, study.every, study.y, task=study.task)
    seen = found.counts > 0
    binary = study.votes.n_classes == 2
    start = (
        0.0
        if binary
        else float(np.floor(10 * min(found.probability[seen].min(), found.low[seen].min())) / 10)
    )
    drawing = reliability(
        found.probability[seen],
        found.observed[seen],
        found.low[seen],
        found.high[seen],
        found.counts[seen],
        start,
        label="Calibration",
        says=f"Probabilities are off by {found.error:.1%} on average.",
    )
    what = f"P({safe(study.classes[1])})" if binary else "the probability of the label"
    caption = (
        f"How to read it: known items in groups by {what}; the larger the point, the more items. On the "
        "dashed line the claim is right; to the right of one half a point below it claims too much. Bars "
        f"are 95% intervals. Claims are off by {found.error:.1%} on average ({int(found.counts.sum()):,} "
        "items)."
    )
    return figure("Are the probabilities right?", drawing, caption)


def _balance(study: Study) -> str:
    n_classes = study.votes.n_classes
    if n_classes > _MOST_CLASSES:
        return ""
    given = np.bincount(study.items.labels, minlength=n_classes) / study.votes.n_items
    mean = study.items.posterior.mean(axis=0)
    gold = study.items.gold
    truth: list[float | None] = [None] * n_classes
    if gold is not None and (gold >= 0).any():
        counts = np.bincount(gold[gold >= 0], minlength=n_classes)
        truth = (counts / counts.sum()).tolist()
    rows = [
        Estimate(
            study.classes[k],
            float(given[k]),
            min(float(given[k]), float(mean[k])),
            max(float(given[k]), float(mean[k])),
            truth[k],
        )
        for k in range(n_classes)
    ]
    drawing = intervals(
        rows, label="Share of each class", says="; ".join(f"{r.name}: {r.value:.1%}" for r in rows[:20])
    )
    marks = [
        (
            line("whisker", 0, 6, 14, 6) + dot("point", 2, 6),
            "labels given; the line ends at the mean probability",
        )
    ]
    if truth[0] is not None:
        marks.append((diamond("gold-mark", 7, 6), "known classes"))
    caption = (
        f"How to read it: the share of items that the {_what(study)} gives each class. A long line means "
        "that many items of the class are uncertain, so that counting labels and adding probabilities "
        "differ."
    )
    return figure("How often is each class given?", drawing, caption, key=key(marks))
