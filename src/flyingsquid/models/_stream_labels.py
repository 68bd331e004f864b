"""Labels of a stream: by its last fit and the class balance of now, or by vote shares before a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation import resolve_task_balance
from flyingsquid.graph import DependencyGraph
from flyingsquid.infer import smoothed_shares
from flyingsquid.models.label_model import LabelModel
from flyingsquid.votes import Votes
from flyingsquid.votes.states import Label

Array = NDArray[np.float64]


def fitted_posterior(model: LabelModel, votes: Votes, balance_now: Array | None) -> Array:
    """P(Y = k | votes), shape (n, D, K), by a fit and, for one task, the balance that came with the votes."""
    posterior = model._posterior(votes)
    if balance_now is None or posterior.shape[1] > 1:
        return posterior
    # The votes were weighed beside the mean balance of the window; they are due that of now.
    posterior = posterior * (balance_now / model.class_balance_)
    return np.asarray(posterior / posterior.sum(axis=2, keepdims=True))


def shares_before_a_fit(codes: Any, graph: DependencyGraph | None, priors: list[Array]) -> Array:
    """Vote shares smoothed by P(Y = k) of each task, shape (n, D, K): what is said without parameters."""
    if graph is None or graph.n_tasks == 1:
        return smoothed_shares(codes, priors[0])
    parts = [
        smoothed_shares(codes[:, list(graph.sources_of(task))], prior) for task, prior in enumerate(priors)
    ]
    return np.concatenate(parts, axis=1)


def priors_of_tasks(
    class_balance: Any, balance_now: Array | None, classes: tuple[Label, ...], n_tasks: int
) -> list[Array]:
    """P(Y = k) of each task: as it came with the votes, or as the model was told, or even."""
    n_classes = len(classes)
    if balance_now is not None:
        return list(balance_now.reshape(-1, n_classes))
    given = resolve_task_balance(class_balance, classes, n_tasks).tasks
    return [each if isinstance(each, np.ndarray) else np.full(n_classes, 1 / n_classes) for each in given]
