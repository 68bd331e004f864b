"""Accuracies over time: what was noted of a stream, and when sources changed."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log, log10, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_NORMAL_95 = 1.959963984540054
# How often a stream without drift may show a change.
_FALSE_ALARMS = 0.01
# Smaller changes are not worth a sentence.
_LEAST_CHANGE = 0.03


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A source whose accuracy changed.

    Attributes
    ----------
    source : text
    position : int
        Around which item, counted from the beginning of the stream.
    before, after : float
        Mean accuracy in the stretch before, and in the one after.
    """

    source: str
    position: int
    before: float
    after: float

    def __str__(self) -> str:
        verb = "fell" if self.after < self.before else "rose"
        before, after = (f"{value:.2f}".removeprefix("0") for value in (self.before, self.after))
        return f"{self.source} {verb} from {before} to {after} around item {self.position:,}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DriftHistory:
    """Accuracies of the sources at recorded positions of a stream.

    Attributes
    ----------
    source_names : tuple of m texts
    positions : integer array of shape (r,)
        Items seen at each record.
    windows : array of shape (r,)
        How many items the estimates rest on: the effective window.
    accuracies : array of shape (r, m)
        NaN for a source that was not there yet.
    intervals : array of shape (r, m, 2)
        95% intervals; NaN where the method has none.

    Examples
    --------
    >>> at = np.arange(1, 41) * 500
    >>> accuracy = np.where(at < 10_000, 0.86, 0.61)[:, None]
    >>> interval = accuracy[:, :, None] + [-0.02, 0.02]
    >>> history = DriftHistory(("camera",), at, np.full(40, 1000.0), accuracy, interval)
    >>> print(history.changes()[0])
    camera fell from .86 to .61 around item 9,200
    """

    source_names: tuple[str, ...]
    positions: NDArray[np.int64]
    windows: Array
    accuracies: Array
    intervals: Array

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        span = f", items {self.positions[0]:,} to {self.positions[-1]:,}" if len(self) else ""
        return f"DriftHistory({len(self)} records of {len(self.source_names)} sources{span})"

    @property
    def centres(self) -> Array:
        """The middle of the window of each record, shape (r,): the time that its estimates speak of."""
        return np.asarray(self.positions - self.windows / 2)

    def changes(self) -> tuple[ChangePoint, ...]:
        """When sources changed, in the order of time.

        A stretch is cut in two where the means of its sides differ most, if they differ by more than their
        errors explain, and so are the sides. A drift that goes on for long shows as several steps.
        """
        found = []
        for source, name in enumerate(self.source_names):
            series = self._series(source)
            if series is not None:
                found += [ChangePoint(name, *step) for step in _steps(*series, len(self.source_names))]
        return tuple(sorted(found, key=lambda change: change.position))

    def _series(self, source: int) -> tuple[Array, Array, Array, Array] | None:
        """Times, values, standard errors and windows of the records of one source."""
        known = np.isfinite(self.accuracies[:, source])
        if known.sum() < 4:
            return None
        value, window = self.accuracies[known, source], self.windows[known]
        reach = np.diff(self.intervals[known, source], axis=1)[:, 0] / (2 * _NORMAL_95)
        # Without a formula: as for a share of the window, twice, because the truth is not seen.
        rough = 2 * np.sqrt(np.maximum(value * (1 - value), 0.05) / window)
        return self.centres[known], value, np.where(np.isfinite(reach), reach, rough), window


def _steps(
    times: Array, values: Array, errors: Array, windows: Array, n_series: int
) -> list[tuple[int, float, float]]:
    """(position, before, after) of every step of one series."""
    threshold = sqrt(2 * log(2 * n_series * len(times) / _FALSE_ALARMS))
    cuts = sorted(_cuts(times, values, errors, windows, 0, len(times), threshold))
    edges = [0, *cuts, len(times)]
    steps = []
    for left, cut, right in zip(edges, edges[1:], edges[2:], strict=False):
        at = (times[cut - 1] + times[cut]) / 2
        before = _level(times, values, windows, slice(left, cut), at)
        after = _level(times, values, windows, slice(cut, right), at)
        if abs(after - before) >= _LEAST_CHANGE:
            steps.append((_rounded(at, float(windows[cut])), before, after))
    return steps


def _cuts(
    times: Array, values: Array, errors: Array, windows: Array, low: int, high: int, threshold: float
) -> list[int]:
    if high - low < 4:
        return []
    at = np.arange(low + 2, high - 1)  # at least two records on each side
    sums = np.concatenate([[0.0], np.cumsum(values[low:high])])
    left = sums[at - low] / (at - low)
    right = (sums[-1] - sums[at - low]) / (high - at)
    # Windows overlap: a stretch is worth as many records as windows fit into it.
    window, error = windows[low:high].mean(), np.sqrt(np.mean(errors[low:high] ** 2))
    worth_left = 1 + np.maximum(times[at - 1] - times[low], 0) / window
    worth_right = 1 + np.maximum(times[high - 1] - times[at], 0) / window
    scores = np.abs(left - right) / (error * np.sqrt(1 / worth_left + 1 / worth_right) + 1e-12)
    best = int(np.argmax(scores))
    if scores[best] < threshold or abs(left[best] - right[best]) < _LEAST_CHANGE:
        return []
    cut = int(at[best])
    # Windows that reach across the cut see both sides: their records are a slope, not further steps.
    middle = (times[cut - 1] + times[cut]) / 2
    before = low + int(np.searchsorted(times[low:cut], middle - window / 2, side="right"))
    after = cut + int(np.searchsorted(times[cut:high], middle + window / 2))
    return [
        cut,
        *_cuts(times, values, errors, windows, low, before, threshold),
        *_cuts(times, values, errors, windows, after, high, threshold),
    ]


def _level(times: Array, values: Array, windows: Array, part: slice, cut: float) -> float:
    """The mean of a stretch, without the records whose windows reach across the cut."""
    clear = np.abs(times[part] - cut) >= windows[part] / 2
    inside = values[part]
    return float(inside[clear].mean() if clear.any() else inside.mean())


def _rounded(at: float, window: float) -> int:
    """A position to the digits that a window can tell."""
    unit = 10 ** max(0, floor(log10(max(window / 4, 1))))
    return max(0, round(at / unit) * unit)
