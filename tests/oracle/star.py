"""One binary task with independent, symmetric sources that may abstain, enumerated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Star:
    """P(vote right | votes), P(votes) of each source, and P(Y = 1)."""

    accuracies: np.ndarray
    coverage: np.ndarray
    p: float

    @classmethod
    def random(cls, rng: np.random.Generator, m: int, *, adversarial: int = 0) -> Star:
        accuracies = rng.uniform(0.6, 0.95, m)
        accuracies[:adversarial] = rng.uniform(0.05, 0.4, adversarial)
        return cls(accuracies, rng.uniform(0.3, 1.0, m), rng.uniform(0.05, 0.95))

    @property
    def m(self) -> int:
        return len(self.accuracies)

    @property
    def a(self) -> np.ndarray:
        """E[λY]."""
        return self.coverage * (2 * self.accuracies - 1)

    def patterns(self) -> np.ndarray:
        """Every row of votes, -1 for no vote, shape (3^m, m)."""
        return np.array(list(itertools.product([-1, 0, 1], repeat=self.m)))

    def joint(self) -> np.ndarray:
        """P(row, Y = y), shape (3^m, 2), one factor at a time."""
        rows = self.patterns()
        table = np.empty((len(rows), 2))
        for y, prior in ((0, 1 - self.p), (1, self.p)):
            for r, row in enumerate(rows):
                probability = prior
                for vote, right, votes in zip(row, self.accuracies, self.coverage, strict=True):
                    if vote == -1:
                        probability *= 1 - votes
                    else:
                        probability *= votes * (right if vote == y else 1 - right)
                table[r, y] = probability
        return table

    def posterior(self) -> np.ndarray:
        """P(Y = y | row), shape (3^m, 2); rows that cannot occur get the prior."""
        joint = self.joint()
        total = joint.sum(axis=1, keepdims=True)
        prior = np.array([1 - self.p, self.p])
        return np.where(total > 0, joint / np.where(total > 0, total, 1), prior)

    @property
    def balance(self) -> list[float]:
        return [1 - self.p, self.p]


def augmented_second_moments(votes: np.ndarray) -> np.ndarray:
    """The paper's augmentation, all coins enumerated: E[v₂ᵢ₋₁ v₂ⱼ₋₁] averaged over the coins.

    ``votes`` are signed rows (n, m). A vote λ becomes (v, v') = (λ, -λ); an abstain becomes
    (1, 1) or (-1, -1) with equal probability.
    """
    n, m = votes.shape
    total = np.zeros((m, m))
    for row in votes:
        silent = np.flatnonzero(row == 0)
        outcomes = list(itertools.product([-1, 1], repeat=len(silent)))
        for coins in outcomes:
            first = row.astype(float)
            first[silent] = coins
            total += np.outer(first, first) / len(outcomes)
    return total / n
