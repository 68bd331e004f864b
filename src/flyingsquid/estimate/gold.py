"""A few known labels: they settle signs, help the class balance, and correct tables by their weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes import Votes

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GoldCounts:
    """What the sources said on items whose class is known.

    Attributes
    ----------
    votes : array of shape (m, 2, 3)
        ``votes[i, y, v]`` known items of class y had source i vote v; no vote last.
    """

    votes: Array

    @classmethod
    def of(cls, votes: Votes, gold: NDArray[Any]) -> GoldCounts:
        """Count ``votes`` on the items whose code in ``gold``, shape (n,), is not negative."""
        known = np.flatnonzero(gold >= 0)
        codes = np.maximum(votes[known].to_dense().codes, -1)
        counts = np.zeros((votes.n_sources, 2, 3))
        for y in (0, 1):
            rows = codes[gold[known] == y]
            for column, vote in enumerate((0, 1, -1)):
                counts[:, y, column] = (rows == vote).sum(axis=0)
        return cls(counts)

    @property
    def classes(self) -> Array:
        """How many known items each class has, shape (2,)."""
        return np.asarray(self.votes[0].sum(axis=1))

    @property
    def right(self) -> Array:
        """Right votes of each source, shape (m,)."""
        return np.asarray(np.einsum("mkk->m", self.votes[:, :, :2]))

    @property
    def cast(self) -> Array:
        """Votes of each source, shape (m,)."""
        return np.asarray(self.votes[:, :, :2].sum(axis=(1, 2)))

    def preference(self, accuracies: Array, coverage: Array) -> float:
        """Log likelihood of the known labels with these signs of accuracies, less that with all flipped."""
        share = np.divide(accuracies, coverage, out=np.zeros_like(coverage), where=coverage > 0)
        # No source is taken to be surer than 19 to 1: a few labels must be able to object.
        odds = 2 * np.arctanh(np.clip(share, -0.9, 0.9))
        return float(odds @ (2 * self.right - self.cast))

    def balance(self, expected: float, error: float) -> tuple[float, float]:
        """E[Y] and its error, pooled from ``expected`` ± ``error`` and the known items."""
        n, ones = float(self.classes.sum()), float(self.classes[1])
        p = (ones + 1) / (n + 2)
        own = 4 * p * (1 - p) / (n + 3)  # variance of E[Y] from the known items alone
        if not np.isfinite(error):
            return 2 * p - 1, float(np.sqrt(own))
        weight = own / (own + error**2)
        pooled = weight * expected + (1 - weight) * (2 * p - 1)
        return pooled, float(np.sqrt(own * error**2 / (own + error**2)))
