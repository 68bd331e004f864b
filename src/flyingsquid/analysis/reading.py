"""Votes, posteriors and known labels of one task, read together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_whole, told
from flyingsquid.exceptions import OptionError
from flyingsquid.inference import decide, vote_shares
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import read_task_gold

Array = NDArray[np.float64]
Codes = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """What is known of n items of one task.

    Attributes
    ----------
    votes : Votes of the m sources of the task
    sources : tuple of m numbers
        Where these stand among all sources of the model.
    posterior : array of shape (n, K)
        P(Y = k | votes) by the model; the shares where there is none.
    shares : array of shape (n, K)
        Shares of the votes, uniform where nobody votes.
    gold : integer array of shape (n,), or None
        Codes of the true classes, negative where unknown.
    """

    votes: Votes
    sources: tuple[int, ...]
    posterior: Array
    shares: Array
    gold: Codes | None

    @property
    def labels(self) -> NDArray[np.intp]:
        """Codes of the model's labels, shape (n,); the first on a tie."""
        return winners(self.posterior)

    @property
    def majority(self) -> NDArray[np.intp]:
        """Codes of the majority's labels, shape (n,); the first on a tie."""
        return winners(self.shares)


def read_items(model: Any, votes: Any, y: Any = None, *, task: int | None = None) -> Items:
    """Votes, posteriors and known labels of one task of a fitted model, or without one.

    ``y`` holds n labels, some of which may be unknown, or (n, D) for D tasks; ``task`` picks one of these.
    """
    read, tasks = read_votes(model, votes)
    if task is None and len(tasks) > 1:
        raise OptionError(f"the model has {len(tasks)} tasks; say which one is meant by task=")
    chosen = 0 if task is None else task
    if not is_whole(chosen) or not 0 <= chosen < len(tasks):
        raise OptionError(f"task={told(task)}; the model has the tasks 0 to {len(tasks) - 1}")
    gold = None
    if y is not None:
        gold = read_task_gold(y, read.classes, (read.n_items, len(tasks)), "y")[:, chosen]
    part = read if len(tasks) == 1 else read.of_sources(tasks[chosen])
    shares = vote_shares(part.codes, part.n_classes)[:, 0]
    if model is None:
        return Items(part, tasks[chosen], shares, shares, gold)
    posterior = np.asarray(model.predict_proba(read), np.float64)
    if posterior.ndim == 3:
        posterior = posterior[:, chosen]
    return Items(part, tasks[chosen], posterior, shares, gold)


def read_votes(model: Any, votes: Any) -> tuple[Votes, tuple[tuple[int, ...], ...]]:
    """Votes as the model reads them, or as they are without one; and the sources of each task."""
    if model is None:
        read = as_votes(votes)
        return read, (tuple(range(read.n_sources)),)
    if isinstance(model, type) or not (hasattr(model, "read_votes") and hasattr(model, "source_names_")):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise OptionError(f"model= is a fitted label model of items, such as fs.LabelModel, not {kind}")
    read = model.read_votes(votes)
    graph = getattr(model, "graph_", None)
    if graph is None or graph.n_tasks == 1:
        return read, (tuple(range(read.n_sources)),)
    return read, tuple(tuple(graph.sources_of(task)) for task in range(graph.n_tasks))


def winners(scores: Array) -> NDArray[np.intp]:
    """The class that scores highest, shape (n,), for scores of shape (n, K); the first on a tie."""
    return np.asarray(decide(scores, tuple(range(scores.shape[1])), "first", None), np.intp)


def tie_credit(scores: Array, gold: NDArray[Any]) -> Array:
    """1 for a right label, 0 for a wrong one, a share of 1 where classes tie; shape (n,), 0 where unknown."""
    best = scores >= scores.max(axis=1, keepdims=True) - 1e-9
    at = np.arange(len(gold))
    return np.asarray(np.where(gold >= 0, best[at, np.maximum(gold, 0)] / best.sum(axis=1), 0.0))
