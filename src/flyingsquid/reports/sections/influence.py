"""What the labels owe to each source, and to the number of items: by fitting again."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut, learning_curve, leave_one_out
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.models import LabelModel
from flyingsquid.reports.charts import both_ways
from flyingsquid.reports.escape import safe
from flyingsquid.reports.page import Section, figure, grid
from flyingsquid.reports.panels import Course, curves
from flyingsquid.reports.study import Study
from flyingsquid.votes import Votes

# Each source costs a fit, so very many are not left out one by one, and very many items are sampled.
MOST_SOURCES = 60
MOST_ITEMS = 5_000
_MOST_BARS = 30
_REPEATS = 3


def influence_section(study: Study) -> Section:
    """Leave out each source in turn, then fit on ever more items; for models that can be fitted again."""
    heading = "Influence"
    if not isinstance(study.model, LabelModel) or study.task is not None or len(study.names) < 2:
        return Section("influence", heading, "")
    if len(study.names) > MOST_SOURCES:
        words = f"Not shown for more than {MOST_SOURCES} sources, because each costs a fit."
        return Section("influence", heading, f'<p class="note">{words}</p>')
    rng = np.random.default_rng(0)
    try:
        model, votes, y = _sample(study, rng)
        without = leave_one_out(model, votes, y)
        curve = learning_curve(model, votes, y, random_state=rng, repeats=_REPEATS)
    except FlyingSquidError as error:  # such as a model with known labels, which are not here
        return Section("influence", heading, f'<p class="note">Not shown: {safe(error, 600)}.</p>')
    sampled = votes.n_items < study.votes.n_items
    words = f'<p class="note">By a model of {votes.n_items:,} items, drawn from all.</p>' if sampled else ""
    return Section("influence", heading, words + grid([_left_out(without), _curve(curve)]))


def _sample(study: Study, rng: np.random.Generator) -> tuple[LabelModel, Votes, Any]:
    """The model and its items; of very many items some, and a model of them."""
    n = study.votes.n_items
    if n <= MOST_ITEMS:
        return study.model, study.every, study.y
    drawn = np.sort(rng.permutation(n)[:MOST_ITEMS])
    part = study.every[drawn]
    with capture_source_warnings():  # the fit of all items has said it
        model = LabelModel(**study.model.get_params(deep=False)).fit(part)
    y = None if study.items.gold is None else study.known_classes(drawn)
    return model, part, y


def _left_out(found: LeaveOneOut) -> str:
    names = found.source_names
    gold = found.accuracy_change is not None
    # What a source is worth is what is lost without it.
    worth = -100 * found.accuracy_change if found.accuracy_change is not None else 100 * found.changed
    known = [int(j) for j in np.flatnonzero(np.isfinite(worth))]
    if not known:
        return ""
    order = sorted(known, key=lambda j: (-abs(worth[j]), j))[:_MOST_BARS]
    order.sort(key=lambda j: (-worth[j], j))
    most = max(order, key=lambda j: abs(worth[j]))
    unit = "points of accuracy" if gold else "% of the labels"
    drawing = both_ways(
        [names[j] for j in order],
        [float(worth[j]) for j in order],
        label="What each source is worth",
        says=f"Largest: {names[most][:60]}, {worth[most]:.2f} {unit}.",
        spec="+.2f" if gold else ".2f",
    )
    rest = len(known) - len(order)
    left = f" {rest:,} more sources, which change less, are not shown." if rest else ""
    if gold:
        read = (
            "points of accuracy on known items that would be lost if the source were left out and the model "
            "fitted again; to the left, what would be gained without it."
        )
    else:
        read = (
            "the share of labels, in %, that would change if the source were left out and the model fitted "
            "again."
        )
    return figure("What is each source worth?", drawing, f"How to read it: {read}{left}")


def _curve(found: LearningCurve) -> str:
    values = found.same if found.accuracy is None else found.accuracy
    known = np.isfinite(values).any(axis=1)
    if known.sum() < 2:
        return ""
    sizes, values = found.sizes[known].astype(np.float64), values[known]
    middle, low, high = (
        np.array([f(row[np.isfinite(row)]) for row in values]) for f in (np.mean, np.min, np.max)
    )
    what = "the same label as by all items" if found.accuracy is None else "right labels on known items"
    course = Course(what, sizes, middle, low, high)
    drawing = curves(
        [course],
        label="Labels by the number of items fitted",
        says=f"From {middle[0]:.1%} with {sizes[0]:,.0f} items to {middle[-1]:.1%} with {sizes[-1]:,.0f}.",
        what="items fitted",
        logarithmic=True,
    )
    caption = (
        f"How to read it: the model is fitted on parts of the items, {_REPEATS} times for each size; points "
        f"are mean shares of {what}, bars reach from the lowest to the highest. Where the curve is flat, "
        "more items of the same kind would change little."
    )
    return figure("Would more items help?", drawing, caption)
