"""One task of K classes with independent sources of any kind, enumerated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ManyStar:
    """P(vote = v | Y = k) as (m, K, K + 1), no vote last; and P(Y = k)."""

    confusion: np.ndarray
    balance: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator, m: int, n_classes: int) -> ManyStar:
        confusion = rng.dirichlet(np.ones(n_classes + 1), size=(m, n_classes))
        for k in range(n_classes):
            confusion[:, k, k] += 1.5
        confusion /= confusion.sum(axis=2, keepdims=True)
        return cls(confusion, rng.dirichlet(np.full(n_classes, 5.0)))

    @property
    def n_classes(self) -> int:
        return len(self.balance)

    def patterns(self) -> np.ndarray:
        m = len(self.confusion)
        return np.array(list(itertools.product(range(-1, self.n_classes), repeat=m)), np.int8)

    def joint(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(row, Y = k), shape (rows, K); code -1 reads the last column."""
        rows = self.patterns() if rows is None else rows
        table = np.tile(self.balance, (len(rows), 1))
        for i in range(len(self.confusion)):
            table *= self.confusion[i][:, rows[:, i]].T
        return table

    def posterior(self, rows: np.ndarray | None = None) -> np.ndarray:
        joint = self.joint(rows)
        return joint / joint.sum(axis=1, keepdims=True)

    def truths(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(self.n_classes, n, p=self.balance)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = self.truths(n, rng)
        steps = self.confusion[:, y].transpose(1, 0, 2).cumsum(axis=2)
        drawn = (rng.random((n, len(self.confusion), 1)) > steps).sum(axis=2)
        return np.where(drawn >= self.n_classes, -1, drawn).astype(np.int8), y


def crowd(rng: np.random.Generator, m: int, n_classes: int, *, right: float, coverage: float) -> ManyStar:
    """Workers with Dirichlet confusions around a mean diagonal, who all vote equally often on all classes."""
    confusion = np.empty((m, n_classes, n_classes + 1))
    for k in range(n_classes):
        mean = np.full(n_classes, (1 - right) / (n_classes - 1))
        mean[k] = right
        confusion[:, k, :-1] = coverage * rng.dirichlet(5 * mean, size=m)
    confusion[:, :, -1] = 1 - coverage
    return ManyStar(confusion, np.full(n_classes, 1 / n_classes))
