"""Plots with matplotlib; needs the extra ``flyingsquid[plot]``.

Every function takes matplotlib axes, or creates a new figure, and returns the axes. New figures are not
registered with pyplot and no global style is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid._values import read_integer
from flyingsquid.analysis.agreement import Agreement
from flyingsquid.analysis.comparison import Calibration
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut
from flyingsquid.charts import (
    BarChart,
    Chart,
    HeatMap,
    Histogram,
    IntervalChart,
    LayeredBarChart,
    Line,
    LineChart,
    Tone,
    accuracy_chart,
    agreement_chart,
    asking_chart,
    calibration_charts,
    coverage_chart,
    dependence_chart,
    drift_charts,
    explanation_chart,
    learning_curve_chart,
    leave_one_out_chart,
    posterior_chart,
)
from flyingsquid.exceptions import OptionError
from flyingsquid.fits import Explanation, VoteCount
from flyingsquid.judges.asking import AskingSimulation
from flyingsquid.models.drift import DriftHistory

__all__ = ["plot_accuracies", "plot_coverage", "plot_dependence", "plot_posteriors", "plot_result"]

# What each result is drawn as, given the largest number of bars.
_CHARTS: dict[type, Callable[[Any, int], tuple[Chart, ...]]] = {
    Agreement: lambda found, _: (agreement_chart(found),),
    Calibration: lambda found, _: calibration_charts(found),
    Explanation: lambda why, most: (explanation_chart(why, most),),
    VoteCount: lambda why, most: (explanation_chart(why, most),),
    LeaveOneOut: lambda found, most: (leave_one_out_chart(found, most),),
    LearningCurve: lambda curve, _: (learning_curve_chart(curve),),
    AskingSimulation: lambda found, _: (asking_chart(found),),
    DriftHistory: lambda history, _: drift_charts(history),
}


def plot_result(result: Any, axis: Any = None, *, most: int = 30) -> Any:
    """Plot a result of an analysis, an explanation, or the history of a stream.

    ==================  =======================================================================
    result              plot
    ==================  =======================================================================
    Agreement           Heat map of all pairs; bright pairs agree beyond chance.
    Calibration         Observed frequencies against probabilities, and the number of items
                        below. A curve flatter than the diagonal is overconfident.
    Explanation,        Bars that support the label (blue) or oppose it (orange). With the
    VoteCount           class balance (gray), they add up to the log odds in the title: 2.2
                        is 9 to 1, 4.6 is 99 to 1.
    LeaveOneOut         Share of labels that change without each source. With gold labels,
                        numbers are changes of accuracy: blue sources help, orange ones hurt.
    LearningCurve       Share of labels that are the same as with all items, and the accuracy
                        on gold labels. Bands are the range over repeats.
    AskingSimulation    Accuracy against the cost of asking judges, next to asking all.
    DriftHistory        Accuracies over a stream with intervals and change points, and the
                        window below.
    ==================  =======================================================================

    Parameters
    ----------
    result : one of the above
    axis : matplotlib axes, optional
        Two of them for Calibration and DriftHistory.
    most : int, default=30
        Number of bars of an explanation, or of LeaveOneOut; the strongest are shown.

    Returns
    -------
    matplotlib axes, or a tuple of two for Calibration and DriftHistory

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> axis = fs.plot.plot_result(fs.analysis.agreement(sample.votes))
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> axis = fs.plot.plot_result(model.explain(sample.votes[0]))
    >>> found = fs.analysis.calibration(model, sample.votes, sample.y)
    >>> top, bottom = fs.plot.plot_result(found)
    """
    describe = _CHARTS.get(type(result))
    if describe is None:
        kinds = ", ".join(kind.__name__ for kind in _CHARTS)
        raise OptionError(f"`result` must be one of {kinds}; got {type(result).__name__}.")
    chart, *below = describe(result, read_integer("most", most, 1))
    if not below:
        return draw(chart, axis)
    if axis is None:
        width, height, ratio = (4.4, 5.0, 4) if isinstance(result, Calibration) else (8.0, 4.5, 3)
        axis = new_axes(2, width, height, sharex=True, height_ratios=(ratio, 1))
    top, bottom = axis
    draw(chart, top)
    top.set_xlabel("")
    draw(below[0], bottom)
    return top, bottom


def plot_accuracies(summary: Table, axis: Any = None) -> Any:
    """Plot the accuracy of each source: the estimate with its interval, and the value on gold labels.

    Each row is a source, the best first. A dot is the estimate of the model, the line its 95% interval; a
    hollow diamond is the share of correct votes on items with gold labels. If intervals overlap, the order of
    the sources is uncertain.

    Parameters
    ----------
    summary : Table
        Result of ``fs.summarize(votes, y, model=model)``, with gold labels, a model, or both; or of
        ``model.summary()``.
    axis : matplotlib axes, optional

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> axis = fs.plot.plot_accuracies(fs.summarize(sample.votes, sample.y, model=model))
    """
    columns = _summary_columns(summary, "coverage")
    if not {"accuracy", "precision"} & set(columns):
        raise OptionError(
            "`summary` must have accuracies; pass a model, gold labels or both to fs.summarize."
        )
    return draw(accuracy_chart(columns), axis)


def plot_coverage(summary: Table, axis: Any = None) -> Any:
    """Plot the coverage of each source, with the share of overlaps and conflicts.

    The whole bar is the share of items that the source votes on. In the middle shade, other sources vote too;
    in the dark shade, at least one of them disagrees.

    Parameters
    ----------
    summary : Table
        Result of ``fs.summarize(votes)``.
    axis : matplotlib axes, optional

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> axis = fs.plot.plot_coverage(fs.summarize(sample.votes))
    """
    return draw(coverage_chart(_summary_columns(summary, "overlaps")), axis)


def plot_dependence(correlations: NDArray[np.float64], names: Sequence[str], axis: Any = None) -> Any:
    """Plot which sources make the same errors, as a heat map.

    Bright pairs agree more often than the truth explains. Dependent sources are next to each other.

    Parameters
    ----------
    correlations : array of shape (m, m)
        Correlations of the votes given the truth, as ``fs.analysis.dependence_given_truth`` returns them;
        NaN if unknown.
    names : sequence of m str
    axis : matplotlib axes, optional

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> found = fs.analysis.dependence_given_truth(sample.votes, sample.y)
    >>> axis = fs.plot.plot_dependence(found, sample.votes.source_names)
    """
    values, m = np.asarray(correlations, np.float64), len(names)
    if values.shape != (m, m):
        raise OptionError(f"`correlations` must have shape ({m}, {m}) for {m} names; got {values.shape}.")
    return draw(dependence_chart(values, names), axis)


def plot_posteriors(
    probabilities: ArrayLike, axis: Any = None, *, event: str | None = None, bins: int = 40
) -> Any:
    """Plot the certainty of the labels as a histogram.

    Labels at the ends are certain, those in the middle are undecided. Many items in the middle have no votes,
    or votes that cancel.

    Parameters
    ----------
    probabilities : array of shape (n, K) or (n,)
        As ``predict_proba`` returns them. For two classes the probability of the second is shown; for more,
        the largest of each item.
    axis : matplotlib axes, optional
    event : str, optional
        Label of the x axis.
    bins : int, default=40

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> axis = fs.plot.plot_posteriors(model.predict_proba(sample.votes))
    """
    values = np.asarray(probabilities, np.float64)
    if values.ndim not in (1, 2) or not values.size:
        raise OptionError(f"`probabilities` must have shape (n, K) or (n,); got {values.shape}.")
    return draw(posterior_chart(values, event=event, bins=read_integer("bins", bins, 1)), axis)


def _summary_columns(summary: Any, needed: str) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = summary.to_dict() if isinstance(summary, Table) else {}
    if needed not in columns:
        raise OptionError(
            f"`summary` must be a table of sources, as fs.summarize returns it; got {type(summary).__name__}."
        )
    return {"name": columns.get("source", []), **columns}


# ---------------------------------------------------------------------- drawing of chart descriptions

# Colors of Okabe and Ito, which color-blind readers can tell apart.
BLUE, ORANGE = "#0072B2", "#D55E00"
COLORS: dict[Tone, str] = {
    "main": BLUE,
    "half": "#56B4E9",
    "pale": "#D6E6F2",
    "other": "#8A8F98",
    "bad": ORANGE,
}
# Values are written into the cells of a heat map while the cells are large enough.
_MOST_NUMBERS = 14
# More bands than this cover each other.
_MOST_BANDS = 12


def new_axes(rows: int, width: float, height: float, **options: Any) -> Any:
    """Return axes below each other in a new figure of ``width`` x ``height`` inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'flyingsquid[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.subplots(rows, 1, squeeze=False, **options)[:, 0]


def _draw_intervals(chart: IntervalChart, axis: Any) -> Any:
    """Draw dots with intervals, and diamonds for values on gold labels."""
    axis = _row_axis(chart.rows, axis)
    for at, row in enumerate(chart.rows):
        if row.low is not None and row.high is not None:
            axis.hlines(at, row.low, row.high, color=COLORS[row.tone], linewidth=2.2, alpha=0.5)
    points = [(row.value, at) for at, row in enumerate(chart.rows) if row.value is not None]
    if points:
        axis.plot(*zip(*points, strict=True), "o", color=BLUE, markersize=5, label=chart.value_label)
    gold = [(row.gold, at) for at, row in enumerate(chart.rows) if row.gold is not None]
    if gold:
        style = {"markerfacecolor": "none", "markeredgecolor": ORANGE, "markersize": 6}
        axis.plot(*zip(*gold, strict=True), "D", markeredgewidth=1.4, label=chart.gold_label, **style)
    _name_rows(axis, [row.name for row in chart.rows])
    axis.grid(axis="x", color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_xlabel(chart.x_label)
    _percent(axis.xaxis)
    if points and gold:
        _legend_above(axis, 2)
    return axis


def _draw_layered_bars(chart: LayeredBarChart, axis: Any) -> Any:
    """Draw bars within bars, or behind each other if they are stacked."""
    axis = _row_axis(chart.names, axis)
    before = np.zeros(len(chart.names))
    for layer in chart.layers:
        style = {"height": 0.72, "left": before, "color": COLORS[layer.tone], "label": layer.label}
        axis.barh(range(len(chart.names)), layer.values, **style)
        before = before + np.array(layer.values) * chart.stacked
    _name_rows(axis, chart.names)
    axis.set_xlim(0, 1)
    axis.set_xlabel(chart.x_label)
    _percent(axis.xaxis)
    _legend_above(axis, 3)
    return axis


def _draw_bars(chart: BarChart, axis: Any) -> Any:
    """Draw bars to the right and to the left of zero; shares carry their annotations."""
    axis = _row_axis(chart.names, axis)
    colors = [COLORS[tone] for tone in chart.tones]
    axis.barh(range(len(chart.names)), chart.values, height=0.7, color=colors)
    _name_rows(axis, chart.names)
    axis.set_xlabel(_literal(chart.x_label))
    if chart.percent:
        for at, (value, text) in enumerate(zip(chart.values, chart.annotations, strict=True)):
            place = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
            axis.annotate(text, (value, at), (4, 0), **place)
        axis.set_xlim(0, 1.12 * max(*chart.values, 1e-3))
        _percent(axis.xaxis)
    else:
        axis.axvline(0, color="0.3", linewidth=0.8)
    _note(axis, chart.note)
    return axis


def _draw_histogram(chart: Histogram, axis: Any) -> Any:
    """Draw bars between edges, layers in front of each other."""
    axis = _axis(axis, 6.0, 2.8)
    width = np.diff(chart.edges)
    for layer in chart.layers:
        bars = {"width": 0.94 * width, "color": COLORS[layer.tone], "label": layer.label}
        axis.bar(chart.edges[:-1] + width / 2, layer.values, **bars)
    axis.set(xlim=(chart.edges[0], 1), xlabel=_literal(chart.x_label), ylabel=chart.y_label)
    if chart.percent:
        _percent(axis.yaxis)
    _open(axis)
    return axis


def _draw_lines(chart: LineChart, axis: Any) -> Any:
    """Draw lines with bands; probabilities with whiskers and the diagonal."""
    axis = _axis(axis, 6.0, 3.2)
    bands = len(chart.lines) <= _MOST_BANDS
    colored = len({line.tone for line in chart.lines}) == len(chart.lines)
    for line in chart.lines:
        _draw_line(chart, line, axis, COLORS[line.tone] if colored else None, band=bands)
    for change in (change for line in chart.lines for change in line.changes):
        axis.axvline(change, color="0.6", linewidth=0.8, linestyle=":")
    if chart.unit_square:
        axis.plot([0, 1], [0, 1], color=COLORS["other"], linewidth=1, linestyle="--")
        axis.set(xlim=(0, 1), ylim=(0, 1))
    if chart.logarithmic:
        ticks = np.unique(np.concatenate([line.x for line in chart.lines]))
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks], fontsize=8)
        axis.minorticks_off()
    if chart.steps:
        axis.set_ylim(0, 1.1 * max(1.0, *(float(np.max(line.y, initial=1.0)) for line in chart.lines)))
    if chart.percent:
        _percent(axis.yaxis)
        axis.grid(axis="y", color="0.92", linewidth=0.8)
    axis.set(xlabel=_literal(chart.x_label), ylabel=chart.y_label)
    if len(chart.lines) > 1:
        _legend(axis, ncols=1 if chart.percent else min(5, len(chart.lines)))
    _note(axis, chart.note)
    _open(axis)
    return axis


def _draw_line(chart: LineChart, line: Line, axis: Any, color: str | None, *, band: bool) -> None:
    markers = {"marker": "o", "markersize": 4} if chart.percent or chart.unit_square else {}
    style = {"drawstyle": "steps-post"} if chart.steps else {}
    name = _literal(line.name)
    (drawn,) = axis.plot(line.x, line.y, color=color, linewidth=1.4, label=name, **markers, **style)
    color = drawn.get_color()
    if line.low is not None and line.high is not None:
        if chart.unit_square:
            axis.vlines(line.x, line.low, line.high, color=color, alpha=0.5, linewidth=2)
        elif band:
            axis.fill_between(line.x, line.low, line.high, color=color, alpha=0.15, linewidth=0)


def _draw_heat_map(chart: HeatMap, axis: Any) -> Any:
    """Draw all pairs, with their values if there is room; pairs without a value stay white."""
    m = len(chart.names)
    side = max(3.2, 2.2 + 0.22 * m)
    axis = _axis(axis, side + 0.9, side)
    shown = np.array(chart.values)
    np.fill_diagonal(shown, np.nan)
    finite = shown[np.isfinite(shown)]
    low, high = float(min(0.0, finite.min(initial=0.0))), float(finite.max(initial=0.0) or 1.0)
    image = axis.imshow(shown, cmap="cividis", vmin=low, vmax=max(high, low + 1e-3))
    names = [_short(name) for name in chart.names]
    size = 8 if m <= 40 else 5
    axis.set_xticks(range(m), names, rotation=90, fontsize=size)
    axis.set_yticks(range(m), names, fontsize=size)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(shown if m <= _MOST_NUMBERS else np.zeros((0, 0))):
        if np.isfinite(value):
            color = "white" if value < (low + high) / 2 else "black"
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)
    bar = axis.figure.colorbar(image, ax=axis, shrink=0.75, pad=0.02)
    bar.set_label(chart.value_label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    return axis


_RENDERERS: dict[type, Callable[[Any, Any], Any]] = {
    BarChart: _draw_bars,
    HeatMap: _draw_heat_map,
    Histogram: _draw_histogram,
    IntervalChart: _draw_intervals,
    LayeredBarChart: _draw_layered_bars,
    LineChart: _draw_lines,
}


def draw(chart: Chart, axis: Any = None) -> Any:
    """Draw a chart on matplotlib axes, or on those of a new figure, and return them."""
    return _RENDERERS[type(chart)](chart, axis)


def _axis(axis: Any, width: float, height: float) -> Any:
    return new_axes(1, width, height)[0] if axis is None else axis


def _row_axis(rows: Sequence[Any], axis: Any) -> Any:
    return _axis(axis, 6.5, max(2.0, 0.9 + 0.24 * len(rows)))


def _name_rows(axis: Any, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    _open(axis)


def _open(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _legend(axis: Any, **options: Any) -> None:
    axis.legend(fontsize=8, frameon=False, **options)


def _legend_above(axis: Any, columns: int) -> None:
    """Place the legend above the axes, because the rows fill them."""
    _legend(axis, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0))


def _note(axis: Any, note: str) -> None:
    if note:
        axis.set_title(_literal(note), fontsize=9, loc="left")


def _percent(axis: Any) -> None:
    """Show shares in percent, with as many digits as the ticks have."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}%"))


def _short(name: Any, most: int = 28) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(name))
    return _literal(text if len(text) <= most else f"{text[: most - 1]}…")


def _literal(text: str) -> str:
    """Escape ``$``, which would start mathematics."""
    return text.replace("$", r"\$")
