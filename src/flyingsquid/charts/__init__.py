"""Kinds of charts: frozen descriptions of their content, independent of the renderer.

``plot.py`` draws them on matplotlib axes and ``reports/svg.py`` as SVG, so both show the same data under
the same labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Tone = Literal["main", "half", "pale", "other", "bad"]
"""Emphasis of a mark. Renderers map it to a color: main and bad are the two that a reader must tell apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """Base class of all charts.

    Attributes
    ----------
    title : str
        Question that the chart answers.
    description : str
        Most important result, for readers who do not see the chart.
    note : str
        Short remark to show above the chart; may be empty.
    """

    title: str
    description: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One row of an :class:`IntervalChart`. Unknown values are left out.

    Attributes
    ----------
    name : str
    value, low, high : float or None
        A value and its interval.
    gold : float or None
        The value on gold labels.
    chance : float or None
        The value that is expected by chance.
    tone : Tone
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    gold: float | None = None
    chance: float | None = None
    tone: Tone = "main"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalChart(Chart):
    """Shares with intervals, one row each.

    Attributes
    ----------
    rows : tuple of IntervalRow
    x_label : str
    value_label, gold_label, chance_label, bad_label : str
        Legend entries; without a label there is no entry.
    """

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
    """Bars made of several shares, one bar per name.

    Attributes
    ----------
    names : tuple of str
    layers : tuple of Layer
        Each layer is a part of the previous one; if ``stacked``, layers follow each other.
    x_label : str
    stacked : bool
    """

    names: tuple[str, ...]
    layers: tuple[Layer, ...]
    x_label: str
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BarChart(Chart):
    """One bar per name, to the right of zero or to the left.

    Attributes
    ----------
    names : tuple of str
    values : tuple of floats
    tones : tuple of Tone
    annotations : tuple of str
        Text at the end of each bar.
    x_label : str
    percent : bool
        Whether the values are shares, shown on an axis in percent.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    tones: tuple[Tone, ...]
    annotations: tuple[str, ...]
    x_label: str
    percent: bool = False


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
    """Points of a :class:`LineChart`, all arrays of shape (r,).

    Attributes
    ----------
    name : str
    x, y : arrays
    low, high : arrays or None
        Ends of intervals; NaN if unknown.
    sizes : array or None
        Number of items of each point.
    changes : tuple of floats
        Positions on the x axis to mark.
    tone : Tone
    """

    name: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    sizes: Array | None = None
    changes: tuple[float, ...] = ()
    tone: Tone = "main"

    def known(self) -> Array:
        """Return all finite y values, with the ends of intervals."""
        arrays = [values for values in (self.y, self.low, self.high) if values is not None]
        values = np.concatenate(arrays)
        return values[np.isfinite(values)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LineChart(Chart):
    """Lines on common axes.

    Attributes
    ----------
    lines : tuple of Line
    x_label, y_label : str
    percent : bool
        Whether the y axis shows shares in percent.
    logarithmic : bool
        Whether the x axis shows shares in percent.
    unit_square : bool
        Whether both axes are probabilities, with the diagonal as reference.
    steps : bool
        Whether values stay constant until the next point.
    """

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    percent: bool = False
    logarithmic: bool = False
    unit_square: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatMap(Chart):
    """A symmetric matrix over names; the diagonal is not drawn.

    Attributes
    ----------
    names : tuple of m str
    values : array of shape (m, m)
        NaN if unknown.
    value_label : str
    hints : sequence of m sequences of str
        Text for each cell.
    """

    names: tuple[str, ...]
    values: Array
    value_label: str
    hints: Sequence[Sequence[str]]

    def pairs(self) -> Array:
        """Return the values below the diagonal, shape (m * (m - 1) / 2,)."""
        return np.asarray(self.values[np.tril_indices(len(self.names), -1)])
