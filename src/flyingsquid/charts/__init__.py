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
