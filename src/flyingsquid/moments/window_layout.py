"""Storage of windows: all counts as one vector, and a ring of the latest rows."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
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
                f"Windows support at most {_MOST_NUMBERS:,} counts of pairs; {largest:,} sources and "
                f"{self.n_classes:,} classes have more. Declare fewer classes, or drop rare sources."
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
