"""Whole models on a graph, enumerated: dependent truths, dependent sources, any abstaining.

Nothing of the library is used: P(Y) is an Ising model on the task edges, P(votes | Y) a random field on the
edges between sources, both normalized by brute force.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

VALUES = (-1, 0, 1)  # no vote, class 0, class 1, as the library codes them


@dataclass(frozen=True)
class Model:
    """P(Y) as an array of shape (2,)*D; each group of sources with its task and P(votes | Y)."""

    truths: np.ndarray
    groups: tuple[tuple[tuple[int, ...], int, np.ndarray], ...]

    @property
    def n_sources(self) -> int:
        return sum(len(sources) for sources, _, _ in self.groups)

    @property
    def n_tasks(self) -> int:
        return self.truths.ndim

    def patterns(self) -> np.ndarray:
        """Every row that can occur, or all 3^m of them."""
        silent = any((votes[(0,) * len(sources)] > 0).any() for sources, _, votes in self.groups)
        return np.array(list(itertools.product(VALUES[not silent :], repeat=self.n_sources)), np.int8)

    def joint(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(row, Y), shape (rows,) + (2,)*D."""
        rows = self.patterns() if rows is None else rows
        table = np.tile(self.truths, (len(rows),) + (1,) * self.n_tasks)
        for sources, task, votes in self.groups:
            given = votes[tuple((rows[:, i] + 1) for i in sources)]  # (rows, 2)
            shape = [1] * self.n_tasks
            shape[task] = 2
            table = table * given.reshape(len(rows), *shape)
        return table

    def balance(self) -> np.ndarray:
        """P(Y_d), shape (D, 2)."""
        return np.stack([margin(self.truths, (task,)) for task in range(self.n_tasks)])

    def posterior(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(Y_d | row), shape (rows, D, 2)."""
        joint = self.joint(rows)
        total = joint.reshape(len(joint), -1).sum(axis=1)
        parts = []
        for task in range(self.n_tasks):
            others = tuple(1 + other for other in range(self.n_tasks) if other != task)
            parts.append(joint.sum(axis=others) / total[:, None])
        return np.stack(parts, axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Votes (n, m) and truths (n, D)."""
        drawn = rng.choice(self.truths.size, n, p=self.truths.ravel())
        truths = np.array(np.unravel_index(drawn, self.truths.shape)).T
        votes = np.empty((n, self.n_sources), np.int8)
        for sources, task, table in self.groups:
            for k in (0, 1):
                rows = np.flatnonzero(truths[:, task] == k)
                flat = table[..., k].ravel()
                states = np.unravel_index(
                    rng.choice(flat.size, len(rows), p=flat / flat.sum()), table.shape[:-1]
                )
                votes[np.ix_(rows, np.array(sources))] = np.array(states).T - 1
        return votes, truths

    def confusion(self) -> np.ndarray:
        """P(vote | Y) of every source, shape (m, 2, 3), no vote last."""
        tables = np.empty((self.n_sources, 2, 3))
        for sources, _, votes in self.groups:
            for axis, source in enumerate(sources):
                others = tuple(a for a in range(len(sources)) if a != axis)
                tables[source] = votes.sum(axis=others)[[1, 2, 0]].T
        return tables


def margin(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return table.sum(axis=tuple(a for a in range(table.ndim) if a not in axes))


def random_truths(
    rng: np.random.Generator, n_tasks: int, edges: list[tuple[int, int]], *, biased: bool = True
) -> np.ndarray:
    """An Ising model of truths with positive and negative couplings."""
    fields = rng.uniform(-0.5, 0.5, n_tasks) if biased else np.zeros(n_tasks)
    pulls = rng.uniform(0.3, 0.8, len(edges)) * rng.choice([-1, 1], len(edges))
    table = np.empty((2,) * n_tasks)
    for state in itertools.product((0, 1), repeat=n_tasks):
        y = 2 * np.array(state) - 1
        energy = fields @ y + sum(w * y[a] * y[b] for w, (a, b) in zip(pulls, edges, strict=True))
        table[state] = np.exp(energy)
    return table / table.sum()


def random_group(
    rng: np.random.Generator,
    size: int,
    edges: list[tuple[int, int]],
    *,
    symmetric: bool = True,
    abstains: bool = True,
    joint_abstaining: bool = False,
) -> np.ndarray:
    """P(votes | Y), shape (3,)*size + (2,): a field with agreement along ``edges``, better than random.

    Symmetric: unchanged when all votes and Y flip. ``joint_abstaining`` makes neighbors silent together.
    """
    pull, silence = rng.uniform(0.4, 0.9, size), rng.uniform(-0.5, 0.8, size)
    tilt = np.zeros(size) if symmetric else rng.uniform(-0.3, 0.3, size)
    quiet_on = np.zeros(size) if symmetric else rng.uniform(-0.4, 0.4, size)
    agree = rng.uniform(0.3, 0.8, len(edges))
    table = np.zeros((3,) * size + (2,))
    for state in itertools.product(VALUES, repeat=size):
        votes = np.array([0 if v == -1 else 2 * v - 1 for v in state])
        silent = votes == 0
        if silent.any() and not abstains:
            continue
        for k in (0, 1):
            y = 2 * k - 1
            energy = pull @ votes * y + tilt @ votes + silence @ silent + (quiet_on * y) @ silent
            for w, (a, b) in zip(agree, edges, strict=True):
                energy += w * votes[a] * votes[b] + (joint_abstaining * 1.0) * silent[a] * silent[b]
            table[(*(v + 1 for v in state), k)] = np.exp(energy)
    return table / table.reshape(-1, 2).sum(axis=0)


def joined(
    source_task: tuple[int, ...], source_edges: list[tuple[int, int]]
) -> list[tuple[tuple[int, ...], int, list[tuple[int, int]]]]:
    """Groups of sources joined by edges: their sources, their task, and the edges by place in the group."""
    group = list(range(len(source_task)))
    for _ in group:
        for a, b in source_edges:
            group[a] = group[b] = min(group[a], group[b])
    found = []
    for g in sorted(set(group)):
        sources = tuple(i for i, h in enumerate(group) if h == g)
        inside = [(sources.index(a), sources.index(b)) for a, b in source_edges if a in sources]
        found.append((sources, source_task[sources[0]], inside))
    return found


def random_model(
    rng: np.random.Generator,
    n_tasks: int,
    source_task: tuple[int, ...],
    task_edges: list[tuple[int, int]],
    source_edges: list[tuple[int, int]],
    *,
    biased: bool = True,
    **kinds: bool,
) -> Model:
    """A random model on a graph; sources joined by edges form the groups."""
    groups = [
        (sources, task, random_group(rng, len(sources), inside, **kinds))
        for sources, task, inside in joined(source_task, source_edges)
    ]
    return Model(random_truths(rng, n_tasks, task_edges, biased=biased), tuple(groups))
