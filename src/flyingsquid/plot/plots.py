"""The functions of ``fs.plot``: check the input, describe the chart, draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid.analysis.agreement import Agreement
from flyingsquid.analysis.comparison import Calibration
from flyingsquid.analysis.influence import LearningCurve, LeaveOneOut
from flyingsquid.charts import build
from flyingsquid.charts.kinds import Chart
from flyingsquid.exceptions import OptionError
from flyingsquid.fits import Explanation, VoteCount
from flyingsquid.judges.asking import AskingSimulation
from flyingsquid.models.drift import DriftHistory
from flyingsquid.plot.draw import draw, new_axes

# What each result is drawn as, given the largest number of bars.
_CHARTS: dict[type, Callable[[Any, int], tuple[Chart, ...]]] = {
    Agreement: lambda found, _: (build.agreement_chart(found),),
    Calibration: lambda found, _: build.calibration_charts(found),
    Explanation: lambda why, most: (build.explanation_chart(why, most),),
    VoteCount: lambda why, most: (build.explanation_chart(why, most),),
    LeaveOneOut: lambda found, most: (build.leave_one_out_chart(found, most),),
    LearningCurve: lambda curve, _: (build.learning_curve_chart(curve),),
    AskingSimulation: lambda found, _: (build.asking_chart(found),),
    DriftHistory: lambda history, _: build.drift_charts(history),
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
    chart, *below = describe(result, most)
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
    return draw(build.accuracy_chart(columns), axis)


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
    return draw(build.coverage_chart(_summary_columns(summary, "overlaps")), axis)


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
    return draw(build.dependence_chart(values, names), axis)


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
    return draw(build.posterior_chart(values, event=event, bins=bins), axis)


def _summary_columns(summary: Any, needed: str) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = summary.to_dict() if isinstance(summary, Table) else {}
    if needed not in columns:
        raise OptionError(
            f"`summary` must be a table of sources, as fs.summarize returns it; got {type(summary).__name__}."
        )
    return {"name": columns.get("source", []), **columns}
