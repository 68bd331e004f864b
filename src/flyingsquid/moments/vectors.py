"""All counts of a window as one vector, so that adding and forgetting rows are each one operation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
from flyingsquid.moments.moments import Moments, moments_from_tables
from flyingsquid.moments.plan import CountPlan
from flyingsquid.moments.tables import count_missing, count_tables
from flyingsquid.votes import REASONS
from flyingsquid.votes.states import Label, smallest_dtype

Vector = NDArray[np.float64]

# A window keeps its counts whole, a few times over, and every refresh reads all of them.
_MOST_NUMBERS = 1 << 25


@dataclass(frozen=True)
class Layout:
    """What stands where in a vector of counts.

    First the number of rows, then every block, every unit, what is missing for a reason; last, where class
    balances come with the rows, the number of rows that have one and the sums of their entries.

    Attributes
    ----------
    plan : CountPlan
    classes : tuple of K labels
    names : tuple of m texts, or None
    n_balance : int
        Entries of a class balance; 0 where none comes with the rows.
    """

    plan: CountPlan
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None = None
    n_balance: int = 0
    shapes: list[tuple[int, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        largest = self.plan.largest_set
        if (largest * self.n_classes) ** 2 > _MOST_NUMBERS:
            raise OptionError(
                f"pairs of {largest:,} sources and {self.n_classes:,} classes are too many for a window; "
                "name fewer classes, or drop sources that rarely vote"
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
        """The smallest type of a row of codes."""
        return np.dtype(smallest_dtype(self.n_classes))

    @cached_property
    def ends(self) -> list[int]:
        """Where each table ends; the number of rows stands before the first."""
        return (1 + np.cumsum([math.prod(shape) for shape in self.shapes])).tolist()

    @property
    def size(self) -> int:
        """Entries of a vector."""
        return self.ends[-1] + (1 + self.n_balance if self.n_balance else 0)

    def zeros(self) -> Vector:
        """The counts of nothing."""
        return np.zeros(self.size)

    def count(
        self, codes: NDArray[Any], balances: Vector | None = None, weights: Vector | None = None
    ) -> Vector:
        """Counts of rows.

        Parameters
        ----------
        codes : array of shape (n, m)
        balances : array of shape (n, n_balance), NaN where a row has none
        weights : array of shape (n,), optional
            How much each row counts.

        Returns
        -------
        array of shape (size,), integers unless there are weights; balances apart
        """
        if not len(codes):
            return self.zeros()
        pairs, units = count_tables(codes, self.n_classes, self.plan, weights)
        total = len(codes) if weights is None else weights.sum()
        tables = [*(part.to_dense().array for part in pairs), *units]
        parts = [np.array([total]), *(table.ravel() for table in tables)]
        parts.append(count_missing(codes, weights).ravel())
        if self.n_balance and balances is not None:
            known = ~np.isnan(balances[:, :1])
            share = known if weights is None else known * weights[:, None]
            both = np.concatenate([share, np.nan_to_num(balances) * share], axis=1)
            parts.append(both.sum(axis=0))
        return np.concatenate(parts)

    def tables(self, vector: Vector) -> list[NDArray[np.float64]]:
        """Blocks, units, and what is missing, as views."""
        starts = [1, *self.ends[:-1]]
        return [
            vector[low:high].reshape(shape)
            for low, high, shape in zip(starts, self.ends, self.shapes, strict=True)
        ]

    def moments(self, vector: Vector, *, exact: bool) -> Moments:
        """The counts as a value; ``exact`` where they are integers."""
        tables = [np.rint(table).astype(np.int64) if exact else table.copy() for table in self.tables(vector)]
        total: int | float = round(vector[0]) if exact else float(vector[0])
        return moments_from_tables(self.plan, total, tables[:-1], tables[-1], self.classes, self.names)

    def balance(self, vector: Vector) -> Vector | None:
        """The mean class balance of the rows that have one, shape (n_balance,); None where none has."""
        if not self.n_balance or vector[self.ends[-1]] <= 0:
            return None
        return np.asarray(vector[self.ends[-1] + 1 :] / vector[self.ends[-1]])

    def widened(
        self, classes: tuple[Label, ...], names: tuple[str, ...] | None, n_sources: int, n_balance: int
    ) -> Layout:
        """A layout of more sources, more classes, or with a class balance; what was known keeps its place."""
        plan = self.plan if n_sources == self.n_sources else CountPlan.all_pairs(n_sources)
        return replace(self, plan=plan, classes=classes, names=names, n_balance=n_balance)

    def moved(self, vector: Vector, to: Layout) -> Vector:
        """The same counts in a wider layout; new sources never voted, nobody voted a new class."""
        result = to.zeros()
        result[0] = vector[0]
        for old, new in zip(self.tables(vector), to.tables(result), strict=True):
            new[tuple(slice(0, side) for side in old.shape)] = old
        if self.n_balance == to.n_balance and self.n_balance and len(vector) == self.size:
            result[to.ends[-1] :] = vector[self.ends[-1] :]
        return result

    @cached_property
    def statistics(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where to find what a change would move: votes of a source for a class, agreements of two sources.

        Returns
        -------
        array of shape (r,), positions of votes; array of shape (K, p), positions whose sum are agreements
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
        """How often each of :attr:`statistics` occurred, shape (s, r + p), for vectors (s, size)."""
        votes, agree = self.statistics
        agreements = vectors[:, agree].sum(axis=1)
        return np.concatenate([vectors[:, votes], agreements], axis=1)
