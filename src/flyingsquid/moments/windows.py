"""Windows over streams: counts of the last W rows, of all rows with decaying weights, or of a block.

A window takes rows and returns counts. Rows are counted in batches, when counts are requested or a buffer is
full, so that taking a single row costs little. The state of a window does not depend on how the rows were cut
into chunks, nor on when counts were requested; so a window that was saved continues exactly.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.moments.moments import Moments
from flyingsquid.moments.window_layout import Layout, RowRing, Vector

# Size of the buffer of rows that are not counted yet.
_WAITING = 1024
# Most memory of a window of rows.
_MOST_BYTES = 1 << 32
_MOST_ROWS = 1 << 53


class Window(ABC):
    """Counts over the recent rows of a stream.

    Attributes
    ----------
    layout : Layout
    n_seen : int
        Rows taken so far.
    urgent : bool
        Whether many rows were dropped at once; reset by the reader of the counts.
    """

    exact = True
    ring: RowRing

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.n_seen = 0
        self.urgent = False

    @abstractmethod
    def extend(self, codes: NDArray[Any]) -> None:
        """Add rows of codes, shape (n, m)."""

    @abstractmethod
    def append(self, row: Any) -> None:
        """Add one row of codes, shape (m,), which must be valid."""

    @abstractmethod
    def counts(self) -> Vector:
        """Return the counts, shape (layout.size,)."""

    @property
    @abstractmethod
    def n_items(self) -> float:
        """Number of rows in the window, or the sum of their weights."""

    def weight_since(self, position: int) -> float:
        """Return the weight in the window of the rows from a position on."""
        return min(self.n_seen - position, self.n_items)

    @abstractmethod
    def _widen(self, before: Layout) -> None:
        """Move the counts to the current layout."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the complete state as JSON values and arrays."""

    @abstractmethod
    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore a window from the result of :meth:`state`."""

    def draft(self, n_rows: int | None = None) -> Self:  # noqa: ARG002
        """Return a window that can take ``n_rows`` more, or any number (None), without changing this one."""
        twin = copy.copy(self)
        twin.ring = self.ring.copy()
        return twin

    def state_of_rows(self, first: int) -> dict[str, NDArray[Any]]:
        """Return the rows from position ``first`` on as arrays."""
        return {"rows": np.ascontiguousarray(self.ring.read(first, self.n_seen))}

    def restore_rows(self, arrays: dict[str, NDArray[Any]], first: int) -> None:
        """Restore the rows from the result of :meth:`state_of_rows`."""
        rows = checked_rows(arrays["rows"], self.layout)
        require(len(rows) == self.n_seen - first)
        self.ring.write(first, rows)

    def moments(self) -> Moments:
        """Return the counts as Moments."""
        return self.layout.moments(self.counts(), exact=self.exact)

    def widen(self, layout: Layout) -> None:
        """Continue with more sources or classes; see :meth:`Layout.widened`."""
        before, self.layout = self.layout, layout
        self._widen(before)


class RollingCounts(Window):
    """Exact counts of the last ``size`` rows: new ones are added, the oldest are subtracted.

    Examples
    --------
    >>> from flyingsquid.moments.counting import CountPlan
    >>> window = RollingCounts(Layout(CountPlan.all_pairs(2), (0, 1)), 3)
    >>> window.extend(np.array([[0, 1], [1, 1], [0, -1], [1, 1]]))
    >>> window.moments() == Moments.of([[1, 1], [0, -1], [1, 1]])
    True
    """

    def __init__(self, layout: Layout, size: int) -> None:
        super().__init__(layout)
        self.size = size
        self._slack = max(_WAITING, size // 8)
        needed = (size + self._slack) * layout.n_sources * layout.dtype.itemsize
        if needed > _MOST_BYTES:
            raise OptionError(
                f"`window` must keep at most {_MOST_BYTES >> 30} GB of votes; got {format_value(size, 30)} "
                f'with {format_count(layout.n_sources, "source")}. A shorter window, window="auto" or '
                "`decay` need less memory."
            )
        self.ring = RowRing(size + self._slack, layout)
        self._counted = 0
        self._total = layout.zeros()

    @property
    def n_items(self) -> float:
        return min(self.n_seen, self.size)

    def extend(self, codes: NDArray[Any]) -> None:
        if len(codes) > self.size + self._slack:  # no row of the ring stays in the window
            skipped = len(codes) - self.size
            self.n_seen += skipped
            self._counted, codes = self.n_seen, codes[skipped:]
            self._total = np.zeros_like(self._total)
            self._oldest = self.n_seen
        for start in range(0, len(codes), self._slack):
            part = codes[start : start + self._slack]
            if self.n_seen + len(part) - self._counted > self._slack:
                self._flush()
            self.ring.write(self.n_seen, part)
            self.n_seen += len(part)

    def draft(self, n_rows: int | None = None) -> Self:
        if n_rows is None or n_rows > self._slack:
            return super().draft(n_rows)
        # New rows overwrite only rows that left the window, so both windows can share the ring.
        if self.n_seen + n_rows - self._counted > self._slack:
            self._flush()
        return copy.copy(self)

    # Earlier rows were skipped and never counted.
    _oldest = 0

    def append(self, row: Any) -> None:
        ring, at = self.ring, self.n_seen
        where = at % ring.capacity
        if where >= len(ring.codes):
            ring.reserve(where + 1)
        ring.codes[where] = row
        self.n_seen = at = at + 1
        if at - self._counted >= self._slack:
            self._flush()

    def counts(self) -> Vector:
        self._flush()
        return self._total

    def _flush(self) -> None:
        if self._counted == self.n_seen:
            return
        count, read = self.layout.count, self.ring.read
        total = self._total + count(read(self._counted, self.n_seen))
        gone = max(self._oldest, self._counted - self.size), self.n_seen - self.size
        if gone[1] > gone[0]:
            total -= count(read(*gone))
        # One assignment, not in place: an interrupt finds all rows counted or none, and a draft has its own.
        self._total, self._counted = total, self.n_seen

    def _widen(self, before: Layout) -> None:
        self.ring.widen(self.layout)
        self._total = before.moved(self._total, self.layout)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._flush()  # sums of integers do not depend on their order
        rows = self.state_of_rows(max(self._oldest, self.n_seen - self.size))
        return {}, {**rows, "total": self._total}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: ARG002
        self._counted, self._oldest = self.n_seen, max(0, self.n_seen - self.size)
        self.restore_rows(arrays, self._oldest)
        self._total = checked_vector(arrays["total"], self.layout)


class BlockWindow(Window):
    """Window whose rows are counted in blocks of a fixed size, at fixed positions.

    Attributes
    ----------
    block : int
        Number of rows of a block.
    ring : RowRing
        The rows of the block that is not full yet.
    """

    def __init__(self, layout: Layout, block: int) -> None:
        super().__init__(layout)
        self.block = block
        self.ring = RowRing(block, layout)

    @property
    def waiting(self) -> int:
        """Number of rows of the block that is not full yet."""
        return self.n_seen % self.block

    def extend(self, codes: NDArray[Any]) -> None:
        start = 0
        while start < len(codes):
            part = codes[start : start + self.block - self.waiting]
            self.ring.write(self.n_seen, part)
            self.n_seen += len(part)
            start += len(part)
            if not self.waiting:
                self._close()

    def append(self, row: Any) -> None:
        ring, where = self.ring, self.n_seen % self.block
        ring.codes[where] = row
        self.n_seen += 1
        if where + 1 == self.block:
            self._close()

    @abstractmethod
    def _close(self) -> None:
        """Count a block that has just been filled."""


class DecayedCounts(BlockWindow):
    """Counts in which a row of age t has the weight ``decay ** t``.

    Examples
    --------
    >>> from flyingsquid.moments.counting import CountPlan
    >>> window = DecayedCounts(Layout(CountPlan.all_pairs(2), (0, 1)), 0.5)
    >>> window.extend(np.array([[0, 1], [1, 1], [0, -1]]))
    >>> batch = Moments.of([[0, 1], [1, 1], [0, -1]], sample_weight=[0.25, 0.5, 1])
    >>> window.n_items, window.moments() == batch
    (1.75, True)
    """

    exact = False

    def __init__(self, layout: Layout, decay: float, block: int = 256) -> None:
        super().__init__(layout, block)
        self.decay = decay
        self._total = layout.zeros()
        self._weights = decay ** np.arange(block - 1, -1, -1.0)

    @property
    def n_items(self) -> float:
        return self.weight_since(0)

    def weight_since(self, position: int) -> float:
        return float((1 - self.decay ** (self.n_seen - position)) / (1 - self.decay))

    def counts(self) -> Vector:
        waiting = self.waiting
        if not waiting:
            return self._total
        new = self.layout.count(self.ring.read(0, waiting), self._weights[self.block - waiting :])
        return np.asarray(self._total * self.decay**waiting + new)

    def _close(self) -> None:
        new = self.layout.count(self.ring.read(0, self.block), self._weights)
        self._total = self._total * self.decay**self.block + new

    def _widen(self, before: Layout) -> None:
        self.ring.widen(self.layout)
        self._total = before.moved(self._total, self.layout)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {**self.state_of_rows(self.n_seen - self.waiting), "total": self._total}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:  # noqa: ARG002
        self.restore_rows(arrays, self.n_seen - self.waiting)
        self._total = checked_vector(arrays["total"], self.layout)


def require(fits: bool) -> None:
    """Raise an error for a state whose parts do not agree with each other."""
    if not fits:
        raise ModelFileError("The parts of the window in the file do not agree with each other.")


def checked_rows(rows: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return rows of codes; raise an error if they do not match the layout."""
    fits = rows.ndim == 2 and rows.dtype == layout.dtype and rows.shape[1] == layout.n_sources
    require(fits and (not rows.size or bool(rows.min() >= -4 and rows.max() < layout.n_classes)))
    return rows


def checked_vector(vector: NDArray[Any], layout: Layout) -> Vector:
    """Return a vector of counts; raise an error if it does not match the layout."""
    require(vector.dtype == np.float64 and vector.shape == (layout.size,))
    require(bool(np.isfinite(vector).all() and (vector >= 0).all()))
    # First the number of rows, which no other count exceeds; sums of weights are rounded.
    require(vector[0] <= _MOST_ROWS and bool((vector <= vector[0] * (1 + 1e-9)).all()))
    return np.ascontiguousarray(vector)
