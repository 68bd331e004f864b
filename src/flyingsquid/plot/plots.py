"""The functions of ``fs.plot``: check the input, describe the chart, draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid.analysis.agreement import Agreement
from flyingsquid.analysis.calibration import Calibration
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut
from flyingsquid.charts import build
from flyingsquid.charts.kinds import LineChart
from flyingsquid.exceptions import OptionError
from flyingsquid.fits import Explanation, VoteCount
from flyingsquid.judges.asking import AskingSimulation
from flyingsquid.models.drift import DriftHistory
from flyingsquid.plot.draw import (
    draw_bars,
    draw_heat_map,
    draw_histogram,
    draw_intervals,
    draw_layered_bars,
    draw_lines,
    new_axes,
)


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

    Returns
    -------
    matplotlib axes

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
    return draw_intervals(build.accuracy_chart(columns), axis)


def plot_coverage(summary: Table, axis: Any = None) -> Any:
    """Plot the coverage of each source, with the share of overlaps and conflicts.

    The whole bar is the share of items that the source votes on. In the middle shade, other sources vote too;
    in the dark shade, at least one of them disagrees.

    Parameters
    ----------
    summary : Table
        Result of ``fs.summarize(votes)``.
    axis : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> axis = fs.plot.plot_coverage(fs.summarize(sample.votes))
    """
    return draw_layered_bars(build.coverage_chart(_summary_columns(summary, "overlaps")), axis)


def plot_leave_one_out(found: LeaveOneOut, axis: Any = None, *, most: int = 30) -> Any:
    """Plot the influence of each source on the labels.

    The bar is the share of labels that change when the model is fitted without the source. With gold labels
    the number is the change of accuracy in points: blue sources help, orange ones hurt, gray ones do neither.

    Parameters
    ----------
    found : LeaveOneOut
        Result of ``fs.analysis.leave_one_out``.
    axis : matplotlib axes, optional
    most : int, default=30
        Number of sources to show, the most influential first.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> found = fs.analysis.leave_one_out(model, sample.votes, sample.y)
    >>> axis = fs.plot.plot_leave_one_out(found)
    """
    _check(found, "found", LeaveOneOut)
    return draw_bars(build.leave_one_out_chart(found, most), axis)


def plot_explanation(why: Explanation | VoteCount, axis: Any = None, *, most: int = 20) -> Any:
    """Plot the contribution of each source to the log odds of one label.

    Blue bars support the label, orange ones oppose it, and the gray bar is the class balance. Together they
    are the log odds in the title: 0 is even, 2.2 is 9 to 1, 4.6 is 99 to 1.

    Parameters
    ----------
    why : Explanation or VoteCount
        Result of ``model.explain``.
    axis : matplotlib axes, optional
    most : int, default=20
        Number of sources to show; the weaker ones are added up in one bar.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> axis = fs.plot.plot_explanation(model.explain(sample.votes[0]))
    """
    _check(why, "why", Explanation, VoteCount)
    return draw_bars(build.explanation_chart(why, most), axis)


def plot_agreement(found: Agreement, axis: Any = None, *, beyond_chance: bool = True) -> Any:
    """Plot the agreement of each pair of sources as a heat map.

    Bright pairs agree often, dark ones as often as by chance. Sources that agree are next to each other, so a
    bright block is a group of similar sources. White cells are pairs without common items.

    Parameters
    ----------
    found : Agreement
        Result of ``fs.analysis.agreement``.
    axis : matplotlib axes, optional
    beyond_chance : bool, default=True
        Whether to show Cohen's kappa; otherwise the share of equal votes.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> axis = fs.plot.plot_agreement(fs.analysis.agreement(sample.votes))
    """
    _check(found, "found", Agreement)
    return draw_heat_map(build.agreement_chart(found, beyond_chance=beyond_chance), axis)


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

    Returns
    -------
    matplotlib axes

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
    return draw_heat_map(build.dependence_chart(values, names), axis)


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

    Returns
    -------
    matplotlib axes

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
    return draw_histogram(build.posterior_chart(values, event=event, bins=bins), axis)


def plot_calibration(found: Calibration, axes: Any = None) -> Any:
    """Plot probabilities against observed frequencies, and the number of items below.

    A dot is a bin of items with about the same probability; its height is how often the event occurred, the
    line its 95% interval. Dots on the diagonal are calibrated. A curve flatter than the diagonal is
    overconfident, a steeper one underconfident.

    Parameters
    ----------
    found : Calibration
        Result of ``fs.analysis.calibration``.
    axes : two matplotlib axes, optional

    Returns
    -------
    tuple of two matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> found = fs.analysis.calibration(model, sample.votes, sample.y)
    >>> top, bottom = fs.plot.plot_calibration(found)
    """
    _check(found, "found", Calibration)
    reliability, counts = build.calibration_charts(found)
    top, bottom = _above_another(reliability, axes, 4.4, 5.0, 4)
    draw_histogram(counts, bottom)
    return top, bottom


def plot_learning_curve(curve: LearningCurve, axis: Any = None) -> Any:
    """Plot how labels change as the model is fitted on more items.

    The blue line is the share of labels that are the same as with all items; the gray one, with gold labels,
    is the accuracy. Bands show the range over repeats. Where lines are flat, more items of the same kind
    would change little.

    Parameters
    ----------
    curve : LearningCurve
        Result of ``fs.analysis.learning_curve``.
    axis : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> curve = fs.analysis.learning_curve(model, sample.votes, sample.y, random_state=0)
    >>> axis = fs.plot.plot_learning_curve(curve)
    """
    _check(curve, "curve", LearningCurve)
    return draw_lines(build.learning_curve_chart(curve), axis)


def plot_asking(found: AskingSimulation, axis: Any = None) -> Any:
    """Plot accuracy against cost, as judges are asked round by round, next to asking all judges.

    Parameters
    ----------
    found : AskingSimulation
        Result of ``fs.judges.simulate_asking``.
    axis : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(500, [0.9, 0.8, 0.8, 0.7], random_state=0)
    >>> axis = fs.plot.plot_asking(fs.judges.simulate_asking(sample.votes, sample.y, stop_at=0.9))
    """
    _check(found, "found", AskingSimulation)
    return draw_lines(build.asking_chart(found), axis)


def plot_drift(history: DriftHistory, axes: Any = None) -> Any:
    """Plot accuracies over a stream with their intervals and change points, and the window below.

    Parameters
    ----------
    history : DriftHistory
        ``OnlineLabelModel.history_``.
    axes : two matplotlib axes, optional

    Returns
    -------
    tuple of two matplotlib axes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> stream = fs.datasets.simulate_drift(
    ...     5_000, [0.9, 0.8, 0.7], [0.6, 0.8, 0.7], random_state=0)
    >>> online = fs.OnlineLabelModel(window=1_000, method="triplet")
    >>> online = online.partial_fit(stream.votes[:2_500]).partial_fit(stream.votes[2_500:])
    >>> top, bottom = fs.plot.plot_drift(online.history_)
    """
    _check(history, "history", DriftHistory)
    accuracies, window = build.drift_charts(history)
    top, bottom = _above_another(accuracies, axes, 8.0, 4.5, 3)
    draw_lines(window, bottom)
    return top, bottom


def _above_another(chart: LineChart, axes: Any, width: float, height: float, ratio: int) -> tuple[Any, Any]:
    """Draw a chart on the upper of two axes that share x, and return both."""
    if axes is None:
        axes = new_axes(2, width, height, sharex=True, height_ratios=(ratio, 1))
    top, bottom = axes
    draw_lines(chart, top)
    top.set_xlabel("")
    return top, bottom


def _summary_columns(summary: Any, needed: str) -> dict[str, list[Any]]:
    _check(summary, "summary", Table)
    columns: dict[str, list[Any]] = summary.to_dict()
    if needed not in columns:
        raise OptionError("`summary` must be a table of sources; pass the result of fs.summarize.")
    return {"name": columns.get("source", []), **columns}


def _check(value: Any, parameter: str, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise OptionError(f"`{parameter}` must be of type {names}; got {type(value).__name__}.")
