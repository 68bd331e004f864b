"""One binary task with independent, symmetric sources that may abstain, enumerated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tests.oracle.many import ManyStar


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


@dataclass(frozen=True)
class AnyStar(ManyStar):
    """Two classes and independent sources of any kind: P(vote = v | Y = y) as (m, 2, 3), no vote last."""

    @classmethod
    def of(cls, confusion: np.ndarray, p: float) -> AnyStar:
        return cls(confusion, np.array([1 - p, p]))

    @classmethod
    def random(cls, rng: np.random.Generator, m: int, n_classes: int = 2) -> AnyStar:
        """Better than random each, unequal errors and unequal abstaining on the two classes."""
        confusion = rng.dirichlet([2, 2, 2], size=(m, 2))
        confusion[:, 0, 0] += 0.7
        confusion[:, 1, 1] += 0.7
        return cls.of(confusion / confusion.sum(axis=2, keepdims=True), rng.uniform(0.1, 0.9))

    @classmethod
    def ising(cls, rng: np.random.Generator, m: int, fields: np.ndarray) -> AnyStar:
        """The paper's model with singleton potentials: P(λ | Y) ∝ exp(2θλY + θ₀(1 - 2|λ|) + fλ) 2^[λ=0]."""
        theta, silence = rng.uniform(0.2, 0.8, m), rng.uniform(-0.5, 0.5, m)
        confusion = np.empty((m, 2, 3))
        for y, sign in ((0, -1), (1, 1)):
            for column, vote in enumerate((-1, 1, 0)):
                energy = 2 * theta * vote * sign + silence * (1 - 2 * abs(vote)) + fields * vote
                confusion[:, y, column] = np.exp(energy) * (2 if vote == 0 else 1)
        return cls.of(confusion / confusion.sum(axis=2, keepdims=True), rng.uniform(0.2, 0.8))

    @property
    def m(self) -> int:
        return len(self.confusion)

    @property
    def p(self) -> float:
        return float(self.balance[1])

    def truths(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(n) < self.p).astype(int)

    def accuracies(self) -> np.ndarray:
        """P(vote is right | source votes)."""
        votes = self.balance[:, None] * self.confusion[:, :, :2]
        return np.einsum("mkk->m", votes) / votes.sum(axis=(1, 2))


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
