"""Accuracies over time: recorded estimates of a stream, and change points of sources."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log, log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State, read_array

Array = NDArray[np.float64]
# How often a stream without drift may show a change; small, because intervals of few items are too short.
_FALSE_ALARMS = 1e-4
# When there are more records, every second one of the older half is dropped: the past gets coarser.
MOST_RECORDS = 512
# Smaller changes are not reported.
_LEAST_CHANGE = 0.04


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A source whose accuracy changed.

    Attributes
    ----------
    source : str
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
    source_names : tuple of m str
    positions : integer array of shape (r,)
        Items seen at each record.
    windows : array of shape (r,)
        Number of items that the estimates are based on: the effective window.
    accuracies : array of shape (r, m)
        NaN for a source that was added later.
    intervals : array of shape (r, m, 2)
        95% intervals; NaN if the method has none.

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

    @classmethod
    def empty(cls, source_names: tuple[str, ...]) -> DriftHistory:
        m = len(source_names)
        return cls(source_names, np.zeros(0, np.int64), np.zeros(0), np.zeros((0, m)), np.zeros((0, m, 2)))

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        span = f", items {self.positions[0]:,} to {self.positions[-1]:,}" if len(self) else ""
        records = format_count(len(self), "record")
        sources = format_count(len(self.source_names), "source")
        return f"DriftHistory({records} of {sources}{span})"

    def changes(self) -> tuple[ChangePoint, ...]:
        """Return the change points of the sources in chronological order.

        The records of a source are split at the position where the means of both sides differ most, if the
        difference is significant. Each side is then split in the same way. A long gradual change is reported
        as several steps.
        """
        found = []
        for source, name in enumerate(self.source_names):
            series = self._series(source)
            if series is not None:
                found += [ChangePoint(name, *step) for step in _steps(series, len(self.source_names))]
        return tuple(sorted(found, key=lambda change: change.position))

    def extended(self, position: int, window: float, accuracies: Array, intervals: Array) -> DriftHistory:
        """Return these records and an additional one; if there are too many, the past gets coarser."""
        kept, old = np.arange(len(self) + 1), MOST_RECORDS // 2
        if len(self) == MOST_RECORDS:
            kept = np.delete(kept, np.arange(1, old, 2))
        return DriftHistory(
            self.source_names,
            np.append(self.positions, position)[kept],
            np.append(self.windows, window)[kept],
            np.concatenate([self.accuracies, accuracies[None]])[kept],
            np.concatenate([self.intervals, intervals[None]])[kept],
        )

    def with_sources(self, source_names: tuple[str, ...]) -> DriftHistory:
        """Return the records for these sources: those of the history, then new ones."""
        new = len(source_names) - len(self.source_names)
        accuracies = np.pad(self.accuracies, ((0, 0), (0, new)), constant_values=np.nan)
        intervals = np.pad(self.intervals, ((0, 0), (0, new), (0, 0)), constant_values=np.nan)
        return DriftHistory(source_names, self.positions, self.windows, accuracies, intervals)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the records as arrays, for files."""
        recorded = ("positions", "windows", "accuracies", "intervals")
        return {f"history.{name}": np.ascontiguousarray(getattr(self, name)) for name in recorded}

    @classmethod
    def from_state(cls, state: State, source_names: tuple[str, ...]) -> DriftHistory:
        """Return the records in a file; raise ModelFileError for damaged ones."""
        r, m = len(state.arrays["history.positions"]), len(source_names)
        if r > MOST_RECORDS:
            raise ModelFileError("The history in the file is too long.")
        return cls(
            source_names,
            read_array(state, "history.positions", (r,), "int64", low=0),
            read_array(state, "history.windows", (r,), low=0.0),
            read_array(state, "history.accuracies", (r, m), low=0.0, high=1.0, may_be_nan=True),
            read_array(state, "history.intervals", (r, m, 2), low=0.0, high=1.0, may_be_nan=True),
        )

    def _series(self, source: int) -> _Series | None:
        """Return the records of one source, if there are enough."""
        known = np.isfinite(self.accuracies[:, source])
        if known.sum() < 4:
            return None
        value, window = self.accuracies[known, source], self.windows[known]
        reach = np.diff(self.intervals[known, source], axis=1)[:, 0] / (2 * NORMAL_95)
        # Without a formula: as for a share of the window, twice, because the truth is not seen.
        rough = 2 * np.sqrt(np.maximum(value * (1 - value), 0.05) / window)
        error = np.maximum(np.where(np.isfinite(reach), reach, rough), 1e-6)
        return _Series(self.positions[known].astype(np.float64), window, value, error)


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    """Records of one source: arrays of shape (r,)."""

    positions: Array
    windows: Array
    values: Array
    errors: Array

    @property
    def information(self) -> Array:
        """New information of each record: windows overlap, so only the new share counts."""
        gaps = np.diff(self.positions, prepend=self.positions[0] - self.windows[0])
        return np.minimum(gaps / self.windows, 1.0) / self.errors**2

    def shortest_window(self, cut: int) -> float:
        """Return the shortest window near a cut; a long one may not show the change."""
        return float(self.windows[cut - 1 : cut + 2].min())

    def locate_change(self, cut: int) -> float:
        """Return the position of the change between record ``cut`` and the one before it."""
        return float(self.positions[cut - 1] + self.positions[cut] - self.shortest_window(cut)) / 2


def _steps(series: _Series, n_series: int) -> list[tuple[int, float, float]]:
    """Return (position, before, after) of every step of one series."""
    threshold = sqrt(2 * log(2 * n_series * len(series.values) / _FALSE_ALARMS))
    cuts = _remove_close_cuts(series, sorted(_find_cuts(series, 0, len(series.values), threshold)))
    edges = [0, *cuts, len(series.values)]
    steps = []
    for left, cut, right in zip(edges, edges[1:], edges[2:], strict=False):
        at = series.locate_change(cut)
        before, after = (_level(series, slice(*part), at) for part in ((left, cut), (cut, right)))
        if abs(after - before) >= _LEAST_CHANGE:
            steps.append((_rounded(at, series.shortest_window(cut)), before, after))
    return steps


def _remove_close_cuts(series: _Series, cuts: list[int]) -> list[int]:
    """Remove cuts that are within a window of the previous one, because they show the same change."""
    kept: list[int] = []
    for cut in cuts:
        at = series.locate_change(cut)
        if not kept or at - series.locate_change(kept[-1]) >= series.shortest_window(cut):
            kept.append(cut)
    return kept


def _find_cuts(series: _Series, low: int, high: int, threshold: float) -> list[int]:
    """Return the records between ``low`` and ``high`` at which the level changes."""
    if high - low < 4:
        return []
    single = 1 / series.errors[low:high] ** 2
    information, values = series.information[low:high], series.values[low:high]
    at = np.arange(2, high - low - 1)  # at least two records on each side
    known = np.concatenate([[0.0], np.cumsum(information)])
    sums = np.concatenate([[0.0], np.cumsum(information * values)])
    left, right = sums[at] / known[at], (sums[-1] - sums[at]) / (known[-1] - known[at])
    # A stretch shorter than a window counts as one window.
    worth_left = np.maximum(known[at], np.maximum.accumulate(single)[at - 1])
    worth_right = np.maximum(known[-1] - known[at], np.maximum.accumulate(single[::-1])[::-1][at])
    scores = np.abs(left - right) / np.sqrt(1 / worth_left + 1 / worth_right)
    best = int(np.argmax(scores))
    if scores[best] < threshold or abs(left[best] - right[best]) < _LEAST_CHANGE:
        return []
    cut = low + int(at[best])
    # Windows that reach across the cut see both sides: their records are a slope, not further steps.
    middle = series.locate_change(cut)
    before = low + int(np.searchsorted(series.positions[low:cut], middle, side="right"))
    starts = series.positions[cut:high] - series.windows[cut:high]
    after = cut + int(np.argmax(starts >= middle)) if (starts >= middle).any() else high
    return [cut, *_find_cuts(series, low, before, threshold), *_find_cuts(series, after, high, threshold)]


def _level(series: _Series, part: slice, cut: float) -> float:
    """Return the mean of a segment, without the records whose windows contain the cut."""
    positions, inside = series.positions[part], series.values[part]
    clear = (positions <= cut) | (positions - series.windows[part] >= cut)
    return float(inside[clear].mean() if clear.any() else inside.mean())


def _rounded(at: float, window: float) -> int:
    """Return a position rounded to the precision of a window."""
    unit = 10 ** max(0, floor(log10(max(window / 4, 1))))
    return max(0, round(at / unit) * unit)
