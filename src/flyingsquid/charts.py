"""Charts: frozen descriptions of their content, independent of the renderer, and functions that make them.

``plot.py`` draws them on matplotlib axes and ``reports/svg.py`` as SVG, so both show the same data under
the same labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from flyingsquid._values import format_count
from flyingsquid.analysis.agreement import Agreement
from flyingsquid.analysis.comparison import Calibration
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut
from flyingsquid.fits import Explanation, VoteCount
from flyingsquid.judges.asking import AskingSimulation
from flyingsquid.models.drift import DriftHistory

Array = NDArray[np.float64]
Tone = Literal["main", "half", "pale", "other", "bad"]
"""Emphasis of a mark. Renderers map it to a color: main and bad are the two that a reader must tell apart."""
Columns = Mapping[str, Sequence[Any]]
# A change of accuracy below a twentieth of a point counts as no change.
_NO_CHANGE = 5e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """Base class of all charts."""

    title: str  # the question that the chart answers
    description: str  # the most important result, for readers who do not see the chart
    note: str = ""  # a short remark to show above the chart


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One row of an :class:`IntervalChart`. Unknown values are left out."""

    name: str
    value: float | None
    low: float | None = None  # ends of the interval of the value
    high: float | None = None
    gold: float | None = None  # the value on gold labels
    chance: float | None = None  # the value that is expected by chance
    tone: Tone = "main"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalChart(Chart):
    """Shares with intervals, one per row. Values of an empty label are not in the legend."""

    rows: tuple[IntervalRow, ...]
    x_label: str
    value_label: str = ""
    gold_label: str = ""
    chance_label: str = ""
    bad_label: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one kind in a chart of several, one per row or bin."""

    label: str
    values: tuple[float, ...]
    tone: Tone = "main"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayeredBarChart(Chart):
    """Bars made of several shares, one bar per name."""

    names: tuple[str, ...]
    layers: tuple[Layer, ...]  # each is a part of the one before; if stacked, they follow each other
    x_label: str
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BarChart(Chart):
    """One bar per name, to the right of zero or to the left."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    tones: tuple[Tone, ...]
    annotations: tuple[str, ...]  # text at the end of each bar
    x_label: str
    percent: bool = False  # whether values are shares, shown in percent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram(Chart):
    """Bars between ``edges``, shape (b + 1,); each layer has b values and is a part of the one before."""

    edges: Array
    layers: tuple[Layer, ...]
    x_label: str
    y_label: str
    percent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Points of a :class:`LineChart`, all arrays of shape (r,)."""

    name: str
    x: Array
    y: Array
    low: Array | None = None  # ends of intervals; NaN if unknown
    high: Array | None = None
    sizes: Array | None = None  # number of items of each point
    changes: tuple[float, ...] = ()  # positions on the x axis to mark
    tone: Tone = "main"

    def known(self) -> Array:
        """Return all finite y values, with the ends of intervals."""
        arrays = [values for values in (self.y, self.low, self.high) if values is not None]
        values = np.concatenate(arrays)
        return values[np.isfinite(values)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LineChart(Chart):
    """Lines on common axes."""

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    percent: bool = False  # whether the y axis shows shares in percent
    logarithmic: bool = False  # whether the x axis is logarithmic
    unit_square: bool = False  # whether both axes are probabilities, with the diagonal as reference
    steps: bool = False  # whether values stay constant until the next point


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatMap(Chart):
    """A symmetric matrix over m names; the diagonal is not drawn."""

    names: tuple[str, ...]
    values: Array  # shape (m, m), NaN if unknown
    value_label: str
    hints: Sequence[Sequence[str]]  # text for each cell

    def pairs(self) -> Array:
        """Return the values below the diagonal, shape (m * (m - 1) / 2,)."""
        return np.asarray(self.values[np.tril_indices(len(self.names), -1)])


# ---------------------------------------------------------------------- charts of results


def accuracy_chart(
    summary: Columns,
    order: Sequence[int] | None = None,
    *,
    worse_than_chance: Collection[str] = (),
    chance: Sequence[float] | None = None,
    estimated_label: str = "estimated, 95% interval",
) -> IntervalChart:
    """Describe the accuracy of each source, by the model and on gold labels.

    Parameters
    ----------
    summary : columns of ``fs.summarize``
    order : positions of the sources to show, default=best first
    worse_than_chance : names of sources to mark
    chance : sequence of m floats, optional
        Accuracy of random votes of each source.
    estimated_label : str
    """
    estimated, measured = (column(summary, name) for name in ("accuracy", "precision"))
    low, high = (column(summary, name) for name in ("accuracy_low", "accuracy_high"))
    shown = _descending(estimated if "accuracy" in summary else measured) if order is None else order
    rows = tuple(
        IntervalRow(
            str(summary["name"][j]),
            _known(estimated[j]),
            _known(low[j]),
            _known(high[j]),
            _known(measured[j]),
            None if chance is None else _known(chance[j]),
            tone="bad" if summary["name"][j] in worse_than_chance else "main",
        )
        for j in shown
    )
    ends = [(row.name, row.gold if row.value is None else row.value) for row in rows[:1] + rows[-1:]]
    return IntervalChart(
        title="How accurate is each source?",
        description=" ".join(f"{name[:60]}: {value or 0:.0%}." for name, value in ends),
        rows=rows,
        x_label="share of correct votes",
        value_label=estimated_label if "accuracy" in summary else "",
        gold_label="on gold labels" if "precision" in summary else "",
        chance_label="chance" if chance is not None else "",
        bad_label="worse than chance on gold labels" if "precision" in summary else "worse than chance",
    )


def coverage_chart(summary: Columns, order: Sequence[int] | None = None) -> LayeredBarChart:
    """Describe the coverage of each source, with the share of overlaps and conflicts."""
    parts: tuple[tuple[str, str, Tone], ...] = (
        ("coverage", "votes", "pale"),
        ("overlaps", "others vote too", "half"),
        ("conflicts", "others disagree", "main"),
    )
    coverage = column(summary, "coverage")
    shown = _descending(coverage) if order is None else order
    layers = tuple(
        Layer(label, tuple(float(column(summary, name)[j]) for j in shown), tone)
        for name, label, tone in parts
        if name in summary
    )
    return LayeredBarChart(
        title="On how many items does each source vote?",
        description=f"Sources vote on {np.min(coverage):.0%} to {np.max(coverage):.0%} of the items.",
        names=tuple(str(summary["name"][j]) for j in shown),
        layers=layers,
        x_label="share of items",
    )


def leave_one_out_chart(found: LeaveOneOut, most: int) -> BarChart:
    """Describe the share of labels that change without each source, and the change of the accuracy."""
    order = np.argsort(-np.nan_to_num(found.changed), kind="stable")[:most]
    values, change = np.nan_to_num(found.changed[order]), found.accuracy_change
    tones: tuple[Tone, ...] = tuple("main" for _ in order)
    annotations = tuple(
        f"{value:.1%}" if np.isfinite(found.changed[j]) else "no fit"
        for j, value in zip(order, values, strict=True)
    )
    note = ""
    if change is not None:
        tones = tuple(_effect(change[j]) for j in order)
        annotations = tuple(_points(change[j]) if np.isfinite(change[j]) else "no fit" for j in order)
        note = "number: change of accuracy without the source, in points"
    names = tuple(found.source_names[j] for j in order)
    return BarChart(
        title="How much do the labels depend on each source?",
        description=f"Largest: {names[0][:60]}, {values[0]:.1%} of the labels." if names else "",
        note=note,
        names=names,
        values=tuple(values.tolist()),
        tones=tones,
        annotations=annotations,
        x_label="share of labels that change without the source",
        percent=True,
    )


def explanation_chart(why: Explanation | VoteCount, most: int) -> BarChart:
    """Describe the contributions of the strongest ``most`` sources to one label; others share one bar."""
    is_count = isinstance(why, VoteCount)
    # Shares of votes have no sign: those for other classes count against the label.
    signed = [-c.adds if is_count and c.vote != why.predicted else c.adds for c in why.contributions]
    names = [f"{c.source}: {c.shown_vote}" for c in why.contributions]
    rest = len(signed) - most
    if rest > 0:
        names[most:], signed[most:] = [f"{rest:,} more"], [float(sum(signed[most:]))]
    tones: list[Tone] = ["main" if value > 0 else "bad" for value in signed]
    note = why.claim()
    if isinstance(why, VoteCount):
        x_label = f"share of the votes, against and for {why.predicted}"
    else:
        names, signed, tones = ["class balance", *names], [why.prior_log_odds, *signed], ["other", *tones]
        rival = "" if why.against is None else f" against {why.against}"
        x_label = f"contribution to the log odds of {why.predicted}{rival}"
        note += f"; log odds {why.log_odds:+.2f}"
    return BarChart(
        title="What does each source contribute?",
        description=why.sentence(),
        note=note,
        names=tuple(names),
        values=tuple(signed),
        tones=tuple(tones),
        annotations=tuple(f"{value + 0.0:+.2f}" for value in signed),
        x_label=x_label,
    )


def agreement_chart(found: Agreement, *, sort: bool = True) -> HeatMap:
    """Describe the agreement of each pair of sources; ``sort`` places similar sources next to each other."""
    values = np.array(found.beyond_chance)
    values[~np.isfinite(found.share)] = np.nan  # pairs without common items
    m = len(found.source_names)
    order = order_by_similarity(np.nan_to_num(values)) if sort else list(range(m))
    names = tuple(found.source_names[j] for j in order)
    shown, share = values[np.ix_(order, order)], found.share[np.ix_(order, order)]
    lower = np.tril_indices(m, -1)
    description = ""
    if np.isfinite(shown[lower]).any():
        at = int(np.nanargmax(shown[lower]))
        i, j = int(lower[0][at]), int(lower[1][at])
        pair = f"{names[j][:60]} and {names[i][:60]}"
        description = f"Highest agreement: {pair}, equal on {share[i, j]:.1%} of common items."
    return HeatMap(
        title="Which sources agree?",
        description=description,
        names=names,
        values=shown,
        value_label="agreement beyond chance (kappa)",
        hints=[[_pair_hint(names[i], names[j], share[i, j]) for j in range(m)] for i in range(m)],
    )


def dependence_chart(values: Array, names: Sequence[str]) -> HeatMap:
    """Describe correlations given the truth, shape (m, m), dependent sources next to each other."""
    order = order_by_similarity(np.nan_to_num(np.maximum(values, 0.0)))
    shown, sorted_names = values[np.ix_(order, order)], tuple(names[j] for j in order)
    return HeatMap(
        title="Which sources make the same errors?",
        description=f"Largest correlation: {np.nanmax(shown - np.eye(len(order)), initial=0.0):.2f}.",
        names=sorted_names,
        values=shown,
        value_label="correlation given the truth",
        hints=[[f"{a[:60]} and {b[:60]}" for b in sorted_names] for a in sorted_names],
    )


def posterior_chart(
    posterior: Array, *, wrong: Array | None = None, event: str | None = None, bins: int = 40
) -> Histogram:
    """Describe the certainty of labels.

    Parameters
    ----------
    posterior : array of shape (n, K) or (n,)
        For two classes the probability of the second is shown; for more, the largest of each item.
    wrong : array of shape (n,), optional
        Probability that the label of each item is wrong: 0 or 1, or in between if classes tie.
    event : str, optional
        Label of the x axis.
    bins : int
    """
    binary = posterior.ndim == 1 or posterior.shape[1] == 2
    values = posterior if posterior.ndim == 1 else posterior[:, 1] if binary else posterior.max(axis=1)
    start = 0.0 if binary else 1 / posterior.shape[1]
    edges = np.linspace(start, 1.0, bins + 1)
    layers = [Layer("items", _bin_shares(values, edges, len(values)))]
    if wrong is not None:
        layers.append(Layer("wrong by gold labels", _bin_shares(values, edges, len(values), wrong), "bad"))
    certain = float(np.mean((np.maximum(values, 1 - values) if binary else values) >= 0.9))
    return Histogram(
        title="How certain are the labels?",
        description=f"{certain:.1%} of the labels have a probability of at least 0.9.",
        edges=edges,
        layers=tuple(layers),
        x_label=event or ("P(second class)" if binary else "probability of the label"),
        y_label="share of items",
        percent=True,
    )


def calibration_charts(found: Calibration) -> tuple[LineChart, Histogram]:
    """Describe probabilities compared with observed frequencies, and how many items each bin has."""
    seen = found.counts > 0
    line = Line(
        "observed",
        found.probability[seen],
        found.observed[seen],
        found.low[seen],
        found.high[seen],
        found.counts[seen].astype(np.float64),
    )
    reliability = LineChart(
        title="Are the probabilities calibrated?",
        description=f"Probabilities differ from observed frequencies by {found.error:.1%} on average.",
        note=f"expected calibration error: {found.error:.3f}",
        lines=(line,),
        x_label=found.event,
        y_label="observed frequency",
        unit_square=True,
    )
    counts = Histogram(
        title="How many items have each probability?",
        description=f"{format_count(int(found.counts.sum()), 'item')}.",
        edges=found.edges,
        layers=(Layer("items", tuple(found.counts.astype(np.float64).tolist()), "other"),),
        x_label=found.event,
        y_label="items",
    )
    return reliability, counts


def learning_curve_chart(curve: LearningCurve) -> LineChart:
    """Describe how labels change with the number of items, for the sizes that could be fitted."""
    lines = [_mean_line("same label as with all items", curve.sizes, curve.same, "main")]
    if curve.accuracy is not None:
        lines.append(_mean_line("correct on gold labels", curve.sizes, curve.accuracy, "other"))
    last = lines[-1]
    ends = [f"{share:.1%} with {size:,.0f} items" for size, share in zip(last.x, last.y, strict=True)]
    return LineChart(
        title="Would more items help?",
        description=f"{last.name}: {', '.join(ends[:1] + ends[1:][-1:])}.",
        lines=tuple(lines),
        x_label="items fitted",
        y_label="",
        percent=True,
        logarithmic=True,
    )


def asking_chart(found: AskingSimulation) -> LineChart:
    """Describe accuracy against the cost of asking, round by round, next to asking all judges."""
    measure = "correct on gold labels" if found.is_scored else "same label as asking all judges"
    whole = np.array([found.cost[0], found.asking.full_cost])
    share = found.cost[-1] / found.asking.full_cost
    return LineChart(
        title="How many calls do the labels need?",
        description=(
            f"{found.accuracy[-1]:.1%} {measure} with {share:.0%} of the cost of asking all judges, which "
            f"gives {found.full_accuracy:.1%}."
        ),
        lines=(
            Line(f"adaptive asking: {measure}", found.cost, found.accuracy),
            Line("asking all judges", whole, np.full(2, found.full_accuracy), tone="other"),
        ),
        x_label="cost",
        y_label="",
        percent=True,
    )


def drift_charts(history: DriftHistory) -> tuple[LineChart, LineChart]:
    """Describe the accuracy of each source over a stream, and the size of the window."""
    positions = history.positions.astype(np.float64)
    changes = history.changes()
    lines = tuple(
        Line(
            name,
            positions,
            history.accuracies[:, j],
            history.intervals[:, j, 0],
            history.intervals[:, j, 1],
            changes=tuple(float(change.position) for change in changes if change.source == name),
        )
        for j, name in enumerate(history.source_names)
    )
    accuracies = LineChart(
        title="Do the sources change over time?",
        description=f"{len(changes):,} changes were found.",
        lines=lines,
        x_label="items seen",
        y_label="accuracy",
    )
    window = LineChart(
        title="How many items are in the window?",
        description="",
        lines=(Line("window", positions, history.windows.astype(np.float64), tone="other"),),
        x_label="items seen",
        y_label="window",
        steps=True,
    )
    return accuracies, window


def column(columns: Columns, name: str) -> Array:
    """Return a numeric column of ``fs.summarize``, shape (m,), NaN if blank; all NaN if there is none."""
    values = columns.get(name, [None] * len(columns["name"]))
    return np.array([np.nan if value is None else float(value) for value in values])


def order_by_similarity(values: Array) -> list[int]:
    """Return an order in which similar sources are neighbors, by clusters with average linkage.

    ``values``, shape (m, m), are finite similarities.
    """
    m = len(values)
    if m < 3:
        return list(range(m))
    between = ((values + values.T) / 2)[np.triu_indices(m, 1)]
    return [int(j) for j in leaves_list(linkage(between.max() - between, "average"))]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _descending(values: Array) -> list[int]:
    return [int(j) for j in np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")]


def _effect(change: float) -> Tone:
    """Return the tone of a source by the effect of leaving it out on the accuracy."""
    if not abs(change) >= _NO_CHANGE:
        return "other"
    return "main" if change < 0 else "bad"


def _pair_hint(one: str, other: str, share: float) -> str:
    pair = f"{one[:80]} and {other[:80]}"
    return f"{pair}: {share:.1%}" if np.isfinite(share) else f"{pair}: no common items"


def _points(change: float) -> str:
    """Return a change in points, without a sign if it rounds to 0."""
    points = round(100 * change, 1)
    return f"{points:+.1f}" if points else "0.0"


def _bin_shares(values: Array, edges: Array, total: int, weights: Array | None = None) -> tuple[float, ...]:
    inside = np.clip(values, edges[0], edges[-1])
    return tuple((np.histogram(inside, edges, weights=weights)[0] / max(total, 1)).tolist())


def _mean_line(name: str, sizes: NDArray[Any], values: Array, tone: Tone) -> Line:
    """Return the mean over repeats with the range as interval, for the sizes that could be fitted."""
    known = np.isfinite(values).any(axis=1)
    kept = values[known]
    mean, low, high = (
        np.array([f(row[np.isfinite(row)]) for row in kept]) for f in (np.mean, np.min, np.max)
    )
    return Line(name, sizes[known].astype(np.float64), mean, low, high, tone=tone)
