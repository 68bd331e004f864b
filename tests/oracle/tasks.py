"""Tasks that depend on each other in pairs, enumerated; and junction trees of small graphs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from flyingsquid.graph.junction import JunctionTree


@dataclass(frozen=True)
class Tasks:
    """P(Y) ∝ the product of ``factors[a, b][Y_a, Y_b]`` and of ``nodes[d][Y_d]``."""

    d: int
    k: int
    factors: dict[tuple[int, int], np.ndarray]
    nodes: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator, d: int, k: int, edges, *, strength: float = 1.0) -> Tasks:
        factors = {edge: np.exp(rng.normal(0, strength, (k, k))) for edge in edges}
        return cls(d, k, factors, np.exp(rng.normal(0, 0.5, (d, k))))

    def states(self) -> list[tuple[int, ...]]:
        return list(itertools.product(range(self.k), repeat=self.d))

    def joint(self) -> np.ndarray:
        """P(Y), shape (k,) * d."""
        table = np.empty((self.k,) * self.d)
        for y in self.states():
            weight = 1.0
            for task in range(self.d):
                weight *= self.nodes[task][y[task]]
            for (a, b), factor in self.factors.items():
                weight *= factor[y[a], y[b]]
            table[y] = weight
        return table / table.sum()

    def margin(self, scope) -> np.ndarray:
        """P(Y of the tasks in scope), one state at a time."""
        joint = self.joint()
        table = np.zeros((self.k,) * len(scope))
        for y in self.states():
            table[tuple(y[task] for task in scope)] += joint[y]
        return table


def enumerate_posterior(joint: np.ndarray, evidence: np.ndarray):
    """P(Y_d | votes) of shape (n, D, K), log P(votes) of shape (n,), the largest log P(Y, votes)."""
    n, d, k = evidence.shape
    states = list(itertools.product(range(k), repeat=d))
    posterior, log_likelihood, best = np.zeros((n, d, k)), np.empty(n), np.empty(n)
    for i in range(n):
        logs = np.array([log_joint(joint, evidence[i], y) for y in states])
        best[i] = logs.max()
        weights = np.exp(logs - best[i])
        log_likelihood[i] = best[i] + np.log(weights.sum())
        for y, weight in zip(states, weights / weights.sum(), strict=True):
            for task in range(d):
                posterior[i, task, y[task]] += weight
    return posterior, log_likelihood, best


def log_joint(joint: np.ndarray, evidence: np.ndarray, y) -> float:
    """log P(Y = y, votes) of one item."""
    return float(np.log(joint[tuple(y)]) + sum(evidence[task, y[task]] for task in range(len(y))))


def small_tree(d: int, edges) -> JunctionTree:
    """Eliminate the tasks in their order; then join each clique to one that holds what it shares."""
    neighbors: list[set[int]] = [set() for _ in range(d)]
    for a, b in edges:
        neighbors[a].add(b)
        neighbors[b].add(a)
    found: list[set[int]] = []
    for task in range(d):
        later = {other for other in neighbors[task] if other > task}
        for a, b in itertools.permutations(later, 2):
            neighbors[a].add(b)
        found.append({task} | later)
    maximal = [clique for clique in found if not any(clique < other for other in found)]
    # Backwards, what a clique shares with all before it is within one of them.
    cliques: list[set[int]] = []
    parents, separators = [], []
    for clique in reversed(maximal):
        shared = clique & set().union(*cliques) if cliques else set()
        holders = [number for number, other in enumerate(cliques) if shared <= other] if shared else []
        parents.append(holders[0] if shared else -1)
        separators.append(tuple(sorted(shared)))
        cliques.append(clique)
    return JunctionTree(tuple(tuple(sorted(c)) for c in cliques), tuple(parents), tuple(separators))
