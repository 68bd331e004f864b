"""Votes and graphs for several tests."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flyingsquid as fs


def examples(number: int) -> settings:
    """Return settings that draw a part of ``number`` examples, as the profile says: 70% or 10%."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))


def vote_matrices(n_sources: int = 4, most_items: int = 40, n_classes: int = 2, least: int = -1):
    """Return a strategy for matrices of codes with at most ``most_items`` rows."""
    return st.integers(1, most_items).flatmap(
        lambda n: arrays(np.int8, (n, n_sources), elements=st.integers(least, n_classes - 1))
    )


def fittable_votes(seed: int, n_items: int = 400, n_sources: int = 5) -> np.ndarray:
    """Draw votes of better-than-random sources with different accuracies and coverages."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_items)
    right = rng.random((n_items, n_sources)) < rng.uniform(0.65, 0.9, n_sources)
    votes = np.where(right, y[:, None], 1 - y[:, None])
    silent = rng.random((n_items, n_sources)) < rng.uniform(0, 0.5, n_sources)
    return np.where(silent, -1, votes).astype(np.int8)


def votes_of(codes: np.ndarray, n_classes: int) -> fs.Votes:
    """Return votes with these codes and ``n_classes`` classes, even if not all classes occur."""
    return fs.Votes(codes, tuple(range(n_classes)))


def draw(accuracies, n=4_000, seed=0, **options):
    """Simulate independent sources with the given accuracies."""
    return fs.datasets.simulate(n, accuracies, random_state=seed, **options)


def graph_of(source_task, task_edges=(), source_edges=()) -> fs.DependencyGraph:
    """Return a graph of the sources and tasks in ``source_task``."""
    return fs.DependencyGraph(
        len(source_task),
        max(source_task) + 1,
        source_task=source_task,
        task_edges=task_edges,
        source_edges=source_edges,
    )


def votes_of_four(seed, n, n_classes=2, *, one_sided=False):
    """Draw votes of four sources with abstentions; the first five items have no votes.

    With ``one_sided``, the last source votes for class 1 only.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    wrong = (y[:, None] + rng.integers(1, n_classes, (n, 4))) % n_classes
    votes = np.where(rng.random((n, 4)) < [0.9, 0.8, 0.7, 0.6], y[:, None], wrong)
    votes[rng.random(votes.shape) < 0.3] = -1
    if one_sided:
        votes[votes[:, 3] != 1, 3] = -1
    votes[:5] = -1
    return votes.astype(np.int8)


def one_sided_rules(n_items: int, n_sources: int, *, share: float, recall: float) -> np.ndarray:
    """Draw votes of two-class rules that each vote for one class only, in turns.

    ``share`` is P(Y = 1), and ``recall`` the probability of a vote on items of the rule's class.
    """
    rng = np.random.default_rng(0)
    y = (rng.random(n_items) < share).astype(int)
    votes = np.full((n_items, n_sources), -1)
    for source in range(n_sources):
        label = source % 2
        votes[rng.random(n_items) < np.where(y == label, recall, 0.1), source] = label
    return votes
