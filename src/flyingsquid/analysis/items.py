"""Votes, posteriors and gold labels of one task, read together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import read_integer
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.inference import vote_shares
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import in_item_order, join_labels, read_task_gold
from flyingsquid.votes.decisions import winners

Array = NDArray[np.float64]
Tasks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The n items of one task.

    Attributes
    ----------
    votes : Votes of the m sources of the task
    sources : tuple of m int
        Positions of these among all sources of the model.
    posterior : array of shape (n, K)
        P(Y = k | votes) by the model; ``shares`` if there is no model.
    shares : array of shape (n, K)
        Share of the votes for each class, uniform for items without votes.
    gold : integer array of shape (n,), or None
        Codes of the gold labels, negative if unknown.
    """

    votes: Votes
    sources: tuple[int, ...]
    posterior: Array
    shares: Array
    gold: NDArray[Any] | None

    @property
    def labels(self) -> NDArray[np.intp]:
        """Codes of the model's labels, shape (n,); the first class on a tie."""
        return winners(self.posterior)

    @property
    def majority(self) -> NDArray[np.intp]:
        """Codes of the labels by majority vote, shape (n,); the first class on a tie."""
        return winners(self.shares)


def read_items(
    model: Any,
    votes: Any,
    y: Any = None,
    *,
    task: int | None = None,
    name: str = "y",
    features: Any = None,
) -> Items:
    """Read votes, posteriors and gold labels of one task.

    ``model`` may be None. ``y`` has n labels, or shape (n, D) for D tasks; ``task`` selects one of these.
    ``name`` is the name of ``y`` in messages. ``features`` are those of the items, for a model with features.
    """
    read, tasks = read_votes(model, votes)
    if task is None and len(tasks) > 1:
        raise OptionError(
            f"`task` must be an integer from 0 to {len(tasks) - 1} for {len(tasks)} tasks; got None."
        )
    chosen = 0 if task is None else read_integer("task", task, 0, len(tasks) - 1)
    gold = None
    if y is not None:
        y = join_labels(y, votes, read, name)
        gold = read_task_gold(y, read.classes, (read.n_items, len(tasks)), name)[:, chosen]
    part = read if len(tasks) == 1 else read.of_sources(tasks[chosen])
    shares = vote_shares(part.codes, part.n_classes)[:, 0]
    if model is None:
        return Items(part, tasks[chosen], shares, shares, gold)
    options = {} if features is None else {"features": in_item_order(features, votes, read, "features")}
    posterior = np.asarray(model.predict_proba(read, **options), np.float64)
    if posterior.ndim == 3:
        posterior = posterior[:, chosen]
    return Items(part, tasks[chosen], posterior, shares, gold)


def read_votes(model: Any, votes: Any) -> tuple[Votes, Tasks]:
    """Return the votes as the model reads them, and the positions of the sources of each task."""
    if model is None:
        read = as_votes(votes)
        return read, (tuple(range(read.n_sources)),)
    if isinstance(model, type) or not (hasattr(model, "read_votes") and hasattr(model, "source_names_")):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise OptionError(f"`model` must be a fitted label model, such as fs.LabelModel; got {kind}.")
    read = model.read_votes(votes)
    graph = getattr(model, "graph_", None)
    if graph is None or graph.n_tasks == 1:
        return read, (tuple(range(read.n_sources)),)
    return read, tuple(tuple(graph.sources_of(task)) for task in range(graph.n_tasks))


def require_gold(gold: NDArray[Any]) -> None:
    """Raise an error if there are no gold labels."""
    if not (gold >= 0).any():
        raise VotesError(
            "`y` must have at least one gold label; got none. Leave it out if no label is known."
        )
