"""Whole models on a graph, enumerated: dependent truths, dependent sources, any abstaining.

Nothing of the library is used: P(Y) is a product of factors on the task edges, P(votes | Y) a random field on
the edges between sources, both normalized by brute force.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tests.oracle.tasks import Tasks

VALUES = (-1, 0, 1)  # no vote, class 0, class 1, as the library codes them


@dataclass(frozen=True)
class Model:
    """P(Y) of shape (K,)*D; each group of sources with its task and P(votes | Y), shape (K+1,)*s + (K,).

    State 0 of a source is no vote.
    """

    truths: np.ndarray
    groups: tuple[tuple[tuple[int, ...], int, np.ndarray], ...]

    @property
    def n_sources(self) -> int:
        return sum(len(sources) for sources, _, _ in self.groups)

    @property
    def n_tasks(self) -> int:
        return self.truths.ndim

    @property
    def n_classes(self) -> int:
        return self.truths.shape[0]

    def patterns(self) -> np.ndarray:
        """Every row of votes, those with a missing one only where sources abstain at all."""
        abstains = any((table[0] > 0).any() for _, _, table in self.groups)
        states = range(-1 if abstains else 0, self.n_classes)
        return np.array(list(itertools.product(states, repeat=self.n_sources)), np.int8)

    def joint(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(row, Y), shape (rows,) + (K,)*D; of all patterns by default."""
        rows = self.patterns() if rows is None else rows
        table = np.tile(self.truths, (len(rows),) + (1,) * self.n_tasks)
        for sources, task, votes in self.groups:
            shape = [1] * self.n_tasks
            shape[task] = self.n_classes
            given = votes[tuple(rows[:, i] + 1 for i in sources)]
            table = table * given.reshape(len(rows), *shape)
        return table

    def evidence(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(row), shape (rows,)."""
        return margin(self.joint(rows), (0,))

    def posterior(self, rows: np.ndarray | None = None) -> np.ndarray:
        """P(Y_d | row), shape (rows, D, K)."""
        joint = self.joint(rows)
        parts = [margin(joint, (0, 1 + task)) for task in range(self.n_tasks)]
        return np.stack(parts, axis=1) / margin(joint, (0,))[:, None, None]

    def balance(self) -> np.ndarray:
        """P(Y_d), shape (D, K)."""
        return np.stack([margin(self.truths, (task,)) for task in range(self.n_tasks)])

    def confusion(self) -> np.ndarray:
        """P(vote | Y) of every source, shape (m, K, K + 1), no vote last."""
        tables = np.empty((self.n_sources, self.n_classes, self.n_classes + 1))
        for sources, _, votes in self.groups:
            for axis, source in enumerate(sources):
                states = margin(votes, (axis, votes.ndim - 1))
                tables[source] = np.concatenate([states[1:], states[:1]]).T
        return tables

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Votes (n, m) and truths (n, D)."""
        drawn = rng.choice(self.truths.size, n, p=self.truths.ravel())
        truths = np.array(np.unravel_index(drawn, self.truths.shape)).T
        votes = np.empty((n, self.n_sources), np.int8)
        for sources, task, table in self.groups:
            for k in range(self.n_classes):
                rows = np.flatnonzero(truths[:, task] == k)
                flat = table[..., k].ravel()
                states = np.unravel_index(rng.choice(flat.size, len(rows), p=flat), table.shape[:-1])
                votes[np.ix_(rows, np.array(sources))] = np.array(states).T - 1
        return votes, truths


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


# ---------------------------------------------------------------------- any number of classes


def random_field(
    rng: np.random.Generator, size: int, n_classes: int, edges: list[tuple[int, int]], *, abstains: bool
) -> np.ndarray:
    """P(votes | Y), shape (K+1,)*s + (K,): any confusions, better than random; neighbors often agree."""
    single = rng.dirichlet(np.ones(n_classes + 1), size=(size, n_classes))
    for k in range(n_classes):
        single[:, k, k + 1] += 1.5
    pulls = np.exp(rng.normal(0, 0.6, (len(edges), n_classes + 1, n_classes + 1)))
    for pull in pulls:
        pull[np.diag_indices(n_classes + 1)] *= 2.5
    table = np.zeros((n_classes + 1,) * size + (n_classes,))
    for state in itertools.product(range(n_classes + 1), repeat=size):
        if 0 in state and not abstains:
            continue
        weight = np.prod([single[i, :, v] for i, v in enumerate(state)], axis=0)
        for pull, (a, b) in zip(pulls, edges, strict=True):
            weight = weight * pull[state[a], state[b]]
        table[state] = weight
    return table / table.reshape(-1, n_classes).sum(axis=0)


def random_many(
    rng: np.random.Generator,
    n_classes: int,
    source_task: tuple[int, ...],
    task_edges: list[tuple[int, int]],
    source_edges: list[tuple[int, int]],
    *,
    abstains: bool = True,
) -> Model:
    """A random model on a graph; sources joined by edges form the groups."""
    groups = [
        (sources, task, random_field(rng, len(sources), n_classes, inside, abstains=abstains))
        for sources, task, inside in joined(source_task, source_edges)
    ]
    n_tasks = max(source_task) + 1
    return Model(Tasks.random(rng, n_tasks, n_classes, task_edges).joint(), tuple(groups))
