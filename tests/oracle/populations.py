"""Populations whose probabilities are ratios of small integers, so that each is a list of rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

SIGNED = np.array([0, -1, 1])  # no vote, against, for: in the order of the tables


@dataclass(frozen=True)
class Population:
    """Counts of Y, shape (2,)*D; each group of sources with its task and counts of votes given Y.

    ``groups`` holds (sources, task, counts of shape (3,)*s + (2,)), states in the order of ``SIGNED``.
    """

    truths: np.ndarray
    groups: tuple[tuple[tuple[int, ...], int, np.ndarray], ...]

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every row of signed votes that occurs (r, m), how often (r,), and P(Y | row), (r, 2^D)."""
        m = sum(len(sources) for sources, _, _ in self.groups)
        states = np.array(list(itertools.product(range(3), repeat=m)))
        n_tasks = self.truths.ndim
        joint = np.tile(self.truths.astype(np.int64), (len(states),) + (1,) * n_tasks)
        for sources, task, counts in self.groups:
            shape = [1] * n_tasks
            shape[task] = 2
            joint *= counts[tuple(states[:, i] for i in sources)].reshape(len(states), *shape)
        flat = joint.reshape(len(states), -1)
        often = flat.sum(axis=1)
        occurs = often > 0
        return SIGNED[states[occurs]], often[occurs], flat[occurs] / often[occurs, None]

    def votes(self) -> np.ndarray:
        """Return the whole population, one row per item."""
        rows, often, _ = self.rows()
        return np.repeat(rows.astype(np.int8), often // np.gcd.reduce(often), axis=0)

    def right(self) -> np.ndarray:
        """P(vote = truth) of every source, abstains included."""
        found = np.empty(sum(len(sources) for sources, _, _ in self.groups))
        for sources, task, counts in self.groups:
            others = tuple(axis for axis in range(self.truths.ndim) if axis != task)
            balance = self.truths.sum(axis=others) / self.truths.sum()
            for axis, source in enumerate(sources):
                rest = tuple(a for a in range(len(sources)) if a != axis)
                table = counts.sum(axis=rest) / counts[..., 0].sum()
                found[source] = balance[0] * table[1, 0] + balance[1] * table[2, 1]
        return found


def single(right: int, silent: int, wrong: int) -> np.ndarray:
    """Counts of one symmetric source."""
    return np.array([[silent, silent], [right, wrong], [wrong, right]])


def pair(rng: np.random.Generator, total: int = 32) -> np.ndarray:
    """Counts of two dependent sources, unchanged when votes and Y flip, better than random."""
    # Given Y = 1, with the states in the order no vote, against, for: for-for is the most frequent.
    weights = np.array([[2, 1, 2], [1, 3, 1], [2, 1, 6]]) + rng.uniform(0, 2, (3, 3))
    given = np.floor(weights / weights.sum() * (total - 9)).astype(np.int64) + 1
    given[2, 2] += total - given.sum()
    flipped = given[np.ix_([0, 2, 1], [0, 2, 1])]
    return np.stack([flipped, given], axis=-1)
