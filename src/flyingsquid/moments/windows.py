"""Windows over streams: counts of the last W rows, of all rows with decaying weights, or of a block.

A window takes rows and returns counts. Rows are counted in batches, when counts are requested or a buffer is
full, so that taking a single row costs little. The state of a window does not depend on how the rows were cut
into chunks, nor on when counts were requested; so a window that was saved continues exactly.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.moments.counting import CountPlan, count_missing, count_tables
from flyingsquid.moments.moments import Moments, moments_from_tables
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import Label, smallest_dtype

Vector = NDArray[np.float64]

# A window keeps a few copies of its counts, and every refresh reads all of them.
_MOST_NUMBERS = 1 << 25
# Rows of a ring to begin with.
_FIRST_ROWS = 1 << 12


@dataclass(frozen=True)
class Layout:
    """Positions of counts in a vector, so that adding and subtracting rows are single operations.

    The vector contains the number of rows, every pair set, every unit, and the votes that are missing for a
    reason.

    Attributes
    ----------
    plan : CountPlan
    classes : tuple of K labels
    names : tuple of m str, or None
    """

    plan: CountPlan
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None = None
    shapes: list[tuple[int, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        largest = self.plan.largest_set
        if (largest * self.n_classes) ** 2 > _MOST_NUMBERS:
            raise OptionError(
                f"Windows and losses support at most {_MOST_NUMBERS:,} counts of pairs; {largest:,} sources "
                f"and {self.n_classes:,} classes have more. Declare fewer classes, or drop rare sources."
            )
        shapes = [*self.plan.shapes(self.n_classes), (self.n_sources, len(REASONS) - 1)]
        object.__setattr__(self, "shapes", shapes)

    @property
    def n_sources(self) -> int:
        return self.plan.n_sources

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest data type of codes."""
        return np.dtype(smallest_dtype(self.n_classes))

    @cached_property
    def ends(self) -> list[int]:
        """End of each table; the number of rows comes before the first."""
        return (1 + np.cumsum([math.prod(shape) for shape in self.shapes])).tolist()

    @property
    def size(self) -> int:
        """Number of entries of a vector."""
        return self.ends[-1]

    def zeros(self) -> Vector:
        """Return the counts of no rows."""
        return np.zeros(self.size)

    def count(self, codes: NDArray[Any], weights: Vector | None = None) -> Vector:
        """Count rows.

        Parameters
        ----------
        codes : array of shape (n, m)
        weights : array of shape (n,), optional
            How much each row counts.

        Returns
        -------
        array of shape (size,), integers unless there are weights
        """
        if not len(codes):
            return self.zeros()
        pairs, units = count_tables(codes, self.n_classes, self.plan, weights)
        total = len(codes) if weights is None else weights.sum()
        tables = [*(part.to_dense().array for part in pairs), *units]
        parts = [np.array([total]), *(table.ravel() for table in tables)]
        parts.append(count_missing(codes, weights).ravel())
        return np.concatenate(parts, dtype=np.float64)

    def tables(self, vector: Vector) -> list[NDArray[np.float64]]:
        """Return pair sets, units, and missing votes as views."""
        starts = [1, *self.ends[:-1]]
        return [
            vector[low:high].reshape(shape)
            for low, high, shape in zip(starts, self.ends, self.shapes, strict=True)
        ]

    def moments(self, vector: Vector, *, exact: bool) -> Moments:
        """Return the counts as Moments; ``exact`` if they are integers."""
        tables = [np.rint(table).astype(np.int64) if exact else table.copy() for table in self.tables(vector)]
        total: int | float = round(vector[0]) if exact else float(vector[0])
        return moments_from_tables(self.plan, total, tables[:-1], tables[-1], self.classes, self.names)

    def widened(self, classes: tuple[Label, ...], names: tuple[str, ...] | None, n_sources: int) -> Layout:
        """Return a layout with more sources or classes; existing ones keep their place."""
        plan = self.plan if n_sources == self.n_sources else CountPlan.all_pairs(n_sources)
        return replace(self, plan=plan, classes=classes, names=names)

    def moved(self, vector: Vector, to: Layout) -> Vector:
        """Return the same counts in a wider layout; new sources and classes have no votes."""
        result = to.zeros()
        result[0] = vector[0]
        for old, new in zip(self.tables(vector), to.tables(result), strict=True):
            new[tuple(slice(0, side) for side in old.shape)] = old
        return result

    @cached_property
    def statistics(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions of the statistics that reveal a change: votes for a class, agreements of two sources.

        Returns
        -------
        array of shape (r,), positions of votes; array of shape (K, p), positions whose sums are agreements
        """
        k, start = self.n_classes, 1
        votes, pairs = list[NDArray[np.intp]](), list[NDArray[np.intp]]()
        seen: set[tuple[int, int]] = set()
        for sources, shape in zip(self.plan.pair_sets, self.shapes, strict=False):
            at = start + np.arange(math.prod(shape)).reshape(shape)[np.arange(k), np.arange(k)]
            start += math.prod(shape)
            for i, first in enumerate(sources):
                for j, second in enumerate(sources[i:], start=i):
                    if (first, second) not in seen:
                        seen.add((first, second))
                        (votes if i == j else pairs).append(at[:, i, j])
        agree = np.array(pairs, np.intp).reshape(-1, k).T
        return np.concatenate(votes).astype(np.intp), agree

    def rates_of(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the counts of :attr:`statistics`, shape (s, r + p), for vectors of shape (s, size)."""
        votes, agree = self.statistics
        agreements = vectors[:, agree].sum(axis=1)
        return np.concatenate([vectors[:, votes], agreements], axis=1)


# ---------------------------------------------------------------------- ring of rows


class RowRing:
    """The latest rows of a stream: row t is stored at t modulo the capacity.

    Attributes
    ----------
    codes : array of shape (n, m)
        The first n rows of the ring; n grows up to the capacity.
    """

    def __init__(self, capacity: int, layout: Layout, rows: int = 0) -> None:
        self.capacity = capacity
        rows = min(capacity, max(rows, _FIRST_ROWS))
        self.codes: NDArray[Any] = np.full((rows, layout.n_sources), -1, layout.dtype)

    def reserve(self, rows: int) -> None:
        """Allocate memory for rows up to this position, instead of for the whole capacity."""
        if rows > len(self.codes):
            more = min(self.capacity, max(rows, 2 * len(self.codes))) - len(self.codes)
            codes = np.full((more, self.codes.shape[1]), -1, self.codes.dtype)
            self.codes = np.concatenate([self.codes, codes])

    def write(self, position: int, codes: NDArray[Any]) -> None:
        """Store rows from a position on; at most as many as the capacity."""
        at = position % self.capacity
        first = min(len(codes), self.capacity - at)
        self.reserve(at + first)
        self.codes[at : at + first] = codes[:first]
        self.codes[: len(codes) - first] = codes[first:]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from one position up to another."""
        low, high = start % self.capacity, start % self.capacity + (stop - start)
        if high <= self.capacity:
            return self.codes[low:high]
        return self.codes[np.arange(start, stop) % self.capacity]

    def copy(self) -> RowRing:
        """Return a copy that shares no memory."""
        twin = copy.copy(self)
        twin.codes = self.codes.copy()
        return twin

    def widen(self, layout: Layout) -> None:
        """Add sources and classes; new sources have abstained so far."""
        old = self.codes
        self.__init__(self.capacity, layout, len(old))  # type: ignore[misc]  # the same ring, wider
        self.codes[:, : old.shape[1]] = old


# ---------------------------------------------------------------------- windows


# Size of the buffer of rows that are not counted yet.
_WAITING = 1024
# Maximum memory of a window of rows.
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
