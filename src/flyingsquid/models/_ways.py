"""What a fitted label model says, whichever way it was fitted; ``_solve.py`` chooses the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import (
    Diagnostics,
    Explanation,
    diagnose,
    diagnose_many,
    diagnose_many_graph,
    diagnose_opinion,
    emissions_of,
    explain_classes,
    explain_item,
    explain_on_graph,
    explain_opinion,
    log_likelihood_of,
    logs_of,
)
from flyingsquid.infer import (
    binary_posterior,
    class_posterior,
    opinion_posterior,
    sum_product,
    with_own_evidence,
)
from flyingsquid.infer.lookup import by_pattern
from flyingsquid.models._base import DOUBLE
from flyingsquid.models._binary import errors_of_accuracies
from flyingsquid.models._many_errors import errors_of_many
from flyingsquid.votes import Votes
from flyingsquid.votes.states import Codes

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel

Array = NDArray[np.float64]


def posterior_of(model: LabelModel, votes: Votes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
    """P(Y = k | votes), shape (n, D, K), in the type asked for where that saves work; else in float64."""
    if model._opinion is not None:
        return opinion_posterior(votes.codes, model._opinion.opinion, dtype)
    if model._many is not None:
        return class_posterior(votes.codes, model.class_balance_, logs_of(model._many))
    if model.graph_.is_trivial:
        return binary_posterior(votes.codes, model.class_balance_, model._weights, dtype)

    def on_graph(codes: Codes) -> Array:
        evidence = model._emissions.evidence(codes)
        tempered = model.temper_ * evidence
        posterior, _ = sum_product(tempered, model.graph_._task_tree, model._clique_tables)
        return with_own_evidence(posterior, evidence, model.temper_)

    return by_pattern(votes.codes, on_graph, votes.n_classes, dtype)


def vote_scores_of(model: LabelModel) -> Array | None:
    """What each vote adds to the log score of each class, shape (m, K, K + 1), no vote last.

    With log P(Y = k) the sums give the posterior by a softmax; None where they do not suffice.
    """
    if model._opinion is not None or not model.graph_.is_trivial:
        return None
    if model._many is not None:
        return model._many.log_tables
    return np.stack([np.zeros_like(model._weights), model._weights], axis=1)


def likelihood_of(model: LabelModel, votes: Votes) -> Array:
    """log P(votes of an item), shape (n,)."""
    if model._many is not None or model._opinion is not None:
        return log_likelihood_of(model.confusion_, model.class_balance_, votes)
    # By the tables themselves, which sum to 1 also where the class balance does not fit the votes.
    balance = np.atleast_2d(model.class_balance_)
    plain = emissions_of(model._emissions.tasks, model.confusion_, None, balance, model._units)
    return sum_product(plain.evidence(votes.codes), model.graph_._task_tree, model._clique_tables)[1]


def explanation_of(model: LabelModel, codes: NDArray[Any], task: int) -> Explanation:
    """Why one item, dense codes of shape (m,), got its label of a task."""
    classes, names = model._classes, model.source_names_
    if model._opinion is not None:
        return explain_opinion(codes, classes, names, model._opinion)
    if model._many is not None:
        return explain_classes(codes, classes, names, model._many)
    if model.graph_.is_trivial:
        return explain_item(codes, classes, names, model.class_balance_, model._weights)
    posterior = posterior_of(model, Votes(codes[None, :], classes))[0, task]
    prior = np.atleast_2d(model.class_balance_)[task]
    return explain_on_graph(codes, classes, names, prior, posterior, model._emissions, task)


def errors_of(model: LabelModel) -> Array:
    """Standard errors of ``accuracies_``, shape (m,)."""
    if model._opinion is not None:
        return model._opinion.errors
    return errors_of_accuracies(model) if model._many is None else errors_of_many(model)


def diagnostics_of(model: LabelModel) -> Diagnostics:
    """What the fit noticed, and how it read the votes where these came in chunks."""
    noticed = _diagnosed(model)
    if not model._note:
        return noticed
    return replace(noticed, reason=f"{noticed.reason}; {model._note}" if noticed.reason else model._note)


def _diagnosed(model: LabelModel) -> Diagnostics:
    if model._opinion is not None:
        return diagnose_opinion(model.moments_, model._opinion)
    if model._many is not None:
        return diagnose_many(model.moments_, model._many)
    if model._many_graph is not None:
        return diagnose_many_graph(model.moments_, model._many_graph)
    used = model._fitted_with
    return diagnose(
        model.moments_,
        model._fit,
        model.accuracies_,
        model.accuracies_interval_,
        method=used["method"],
        reason=used["reason"],
    )
