"""The part of the label model that fits any number of classes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flyingsquid.estimate import MANY_CLASSES, ManyFit, fit_many, resolve_balance
from flyingsquid.exceptions import OptionError, SourceWarning
from flyingsquid.graph import DependencyGraph
from flyingsquid.infer import class_evidence
from flyingsquid.models import _options
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel

# No vote is taken to be rarer than this given a class, or an item could be impossible.
_RAREST = 1e-9


def is_many(model: LabelModel, moments: Moments) -> bool:
    """Whether the votes go the way of many classes; refuse what that way cannot honour."""
    if moments.n_classes == 2 and model.method not in MANY_CLASSES:
        return False
    _options.check_many(model, moments)
    return True


def solve_many(
    model: LabelModel,
    moments: Moments,
    votes: Votes | None = None,
    weights: NDArray[Any] | None = None,
    gold: Any = None,
) -> None:
    """Fit and keep K classes."""
    if gold is not None:
        raise OptionError("gold= helps with two classes and their methods only; leave it out")
    fit = fit_many(
        moments,
        resolve_balance(model.class_balance, moments.classes),
        method=model.method,
        multiclass=model.multiclass if moments.n_classes > 2 else "native",
        screen=model.screen,
        votes=votes,
        sample_weight=weights,
    )
    keep_many(model, moments, fit)
    if fit.silent.any():
        names = ", ".join(moments.source_names[i] for i in np.flatnonzero(fit.silent)[:5])
        warnings.warn(
            f"Sources that never vote, so weigh nothing: {names}. See diagnostics_",
            SourceWarning,
            stacklevel=3,
        )


def keep_many(model: LabelModel, moments: Moments, fit: ManyFit) -> None:
    """Make the parameters of a fit, or of a file, those of the model."""
    m, n_classes = moments.n_sources, moments.n_classes
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_ = moments, DependencyGraph(m)
    model._tasks, model._pending, model._gold, model._many = None, None, None, fit
    model._many_graph = None
    model.coverage_ = np.minimum(moments.coverage, 1.0)
    model.accuracies_, model.class_balance_, model.confusion_ = fit.accuracies, fit.balance, fit.tables
    model.task_tables_ = np.empty((0, n_classes, n_classes))
    model.excess_correlation_, model.temper_ = np.full(m, np.nan), 1.0
    model._interval = np.full((m, 2), np.nan)
    model._diagnostics = None


def log_likelihood_of_many(model: LabelModel, votes: Votes) -> NDArray[np.float64]:
    """log P(votes of an item), shape (n,)."""
    tables = model.confusion_
    evidence = class_evidence(votes.codes, np.log(np.maximum(tables, _RAREST)))
    return np.asarray(logsumexp(evidence + np.log(model.class_balance_), axis=1))
