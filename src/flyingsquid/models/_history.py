"""What an online model notes about its sources as it goes, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.drift import DriftHistory
from flyingsquid.exceptions import ModelFileError

Array = NDArray[np.float64]
# When there are more records, every second one of the older half is dropped: the past gets coarser.
MOST_RECORDS = 512


class Recorder:
    """Positions, windows, accuracies and intervals, the oldest thinned out."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []
        self._values: list[Array] = []  # accuracy, low end, high end: shape (m, 3) each

    def with_added(self, position: int, window: float, accuracies: Array, intervals: Array) -> Recorder:
        """These records and one more refresh."""
        longer = Recorder()
        longer._marks = [*self._marks, (position, window)]
        longer._values = [*self._values, np.column_stack([accuracies, intervals])]
        if len(longer._marks) > MOST_RECORDS:
            old = MOST_RECORDS // 2
            longer._marks[:old] = longer._marks[:old:2]
            longer._values[:old] = longer._values[:old:2]
        return longer

    def history(self, names: tuple[str, ...]) -> DriftHistory:
        """What was noted, as a value; NaN where a source was not there yet."""
        values = np.full((len(self._marks), len(names), 3), np.nan)
        for at, record in enumerate(self._values):
            values[at, : len(record)] = record
        positions = np.array([position for position, _ in self._marks], np.int64)
        windows = np.array([window for _, window in self._marks], np.float64)
        return DriftHistory(names, positions, windows, values[:, :, 0], values[:, :, 1:])

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that hold everything."""
        widths = np.array([len(record) for record in self._values], np.int64)
        flat = [record.ravel() for record in self._values]
        return {
            "history.positions": np.array([position for position, _ in self._marks], np.int64),
            "history.windows": np.array([window for _, window in self._marks], np.float64),
            "history.widths": widths,
            "history.values": np.concatenate(flat) if flat else np.zeros(0),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], n_sources: int) -> Recorder:
        """What :meth:`state` gave; refused where it does not agree with itself."""
        positions, windows, widths, values = (
            arrays[f"history.{name}"] for name in ("positions", "windows", "widths", "values")
        )
        fits = (
            positions.ndim == windows.ndim == widths.ndim == 1
            and len(positions) == len(windows) == len(widths) <= MOST_RECORDS
            and bool((widths <= n_sources).all() and (widths > 0).all())
            and values.shape == (3 * widths.sum(),)
            and {str(positions.dtype), str(widths.dtype)} <= {"int64"}
            and {str(windows.dtype), str(values.dtype)} <= {"float64"}
        )
        if not fits:
            raise ModelFileError("the history in the file does not agree with itself")
        recorder = cls()
        recorder._marks = list(zip(positions.tolist(), windows.tolist(), strict=True))
        ends = np.cumsum(3 * widths)
        recorder._values = (
            [part.reshape(-1, 3).copy() for part in np.split(values, ends[:-1])] if len(ends) else []
        )
        return recorder
