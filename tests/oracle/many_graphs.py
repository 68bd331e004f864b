"""Models of K classes on a graph, enumerated: dependent truths, dependent sources, any abstaining.

Nothing of the library is used. P(votes | Y) of a group of dependent sources is a random field; truths are a
product of random factors on the task edges.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tests.oracle.graphs import joined, margin
from tests.oracle.tasks import Tasks


@dataclass(frozen=True)
class ManyModel:
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

    def joint(self, rows: np.ndarray) -> np.ndarray:
        """P(row, Y), shape (rows,) + (K,)*D."""
        table = np.tile(self.truths, (len(rows),) + (1,) * self.n_tasks)
        for sources, task, votes in self.groups:
            shape = [1] * self.n_tasks
            shape[task] = self.n_classes
            given = votes[tuple(rows[:, i] + 1 for i in sources)]
            table = table * given.reshape(len(rows), *shape)
        return table

    def evidence(self, rows: np.ndarray) -> np.ndarray:
        """P(row), shape (rows,)."""
        return self.joint(rows).reshape(len(rows), -1).sum(axis=1)

    def posterior(self, rows: np.ndarray) -> np.ndarray:
        """P(Y_d | row), shape (rows, D, K)."""
        joint = self.joint(rows)
        parts = [margin(joint, (0, 1 + task)) for task in range(self.n_tasks)]
        return np.stack(parts, axis=1) / self.evidence(rows)[:, None, None]

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
) -> ManyModel:
    """A random model on a graph; sources joined by edges form the groups."""
    groups = [
        (sources, task, random_field(rng, len(sources), n_classes, inside, abstains=abstains))
        for sources, task, inside in joined(source_task, source_edges)
    ]
    n_tasks = max(source_task) + 1
    return ManyModel(Tasks.random(rng, n_tasks, n_classes, task_edges).joint(), tuple(groups))
