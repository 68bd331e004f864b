"""A ring of rows, with or without a class balance each."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments.vectors import Layout, Vector


class RowRing:
    """The latest rows of a stream: row number t lies at t modulo the capacity.

    Attributes
    ----------
    codes : array of shape (capacity, m), the smallest type that holds the classes
    balances : array of shape (capacity, n_balance), NaN where a row has none; or None
    """

    def __init__(self, capacity: int, layout: Layout) -> None:
        self.capacity = capacity
        self.codes: NDArray[Any] = np.full((capacity, layout.n_sources), -1, layout.dtype)
        self.balances: Vector | None = None
        if layout.n_balance:
            self.balances = np.full((capacity, layout.n_balance), np.nan)

    def write(self, position: int, codes: NDArray[Any], balance: Vector | None) -> None:
        """Put rows from a position on; at most as many as there is room for."""
        at = position % self.capacity
        first = min(len(codes), self.capacity - at)
        self.codes[at : at + first] = codes[:first]
        self.codes[: len(codes) - first] = codes[first:]
        if self.balances is not None:
            value = np.nan if balance is None else balance
            self.balances[at : at + first] = value
            self.balances[: len(codes) - first] = value

    def read(self, start: int, stop: int) -> tuple[NDArray[Any], Vector | None]:
        """The rows from one position up to another."""
        low, high = start % self.capacity, start % self.capacity + (stop - start)
        if high <= self.capacity:
            return self.codes[low:high], None if self.balances is None else self.balances[low:high]
        at = np.arange(start, stop) % self.capacity
        return self.codes[at], None if self.balances is None else self.balances[at]

    def copy(self) -> RowRing:
        """The same rows in another place."""
        twin = copy.copy(self)
        twin.codes = self.codes.copy()
        twin.balances = None if self.balances is None else self.balances.copy()
        return twin

    def widen(self, layout: Layout) -> None:
        """Make room for more sources and classes; new sources abstained so far."""
        old, balances = self.codes, self.balances
        self.__init__(self.capacity, layout)  # type: ignore[misc]  # the same ring, wider
        self.codes[:, : old.shape[1]] = old
        if balances is not None and self.balances is not None and balances.shape == self.balances.shape:
            self.balances[...] = balances
