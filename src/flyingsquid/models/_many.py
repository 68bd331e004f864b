"""The part of the label model that fits any number of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from flyingsquid._remarks import say
from flyingsquid.analysis import concern_of_silence
from flyingsquid.estimation import MANY_CLASSES, ManyFit, ManyGold, fit_many, resolve_balance
from flyingsquid.estimation.refine import Passes
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _options
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.gold import read_task_gold

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel


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
    kept: ManyGold | None = None,
) -> None:
    """Fit and keep K classes. ``gold`` is as a user gives it, ``kept`` counts of an earlier fit."""
    known = None
    if gold is not None and votes is not None:
        known, kept = _read_known(gold, votes, weights)
    multiclass = model.multiclass if moments.n_classes > 2 else "native"
    fit = fit_many(
        moments,
        resolve_balance(model.class_balance, moments.classes),
        method=model.method,
        multiclass=multiclass,
        screen=model.screen,
        votes=votes,
        sample_weight=weights,
        gold=kept,
        known=known,
    )
    keep_many(model, moments, fit)
    # Intervals pass over the votes once more, when they are asked for.
    model._passes, model._interval = Passes(votes, weights, known), None
    model._fitted_with = {"multiclass": multiclass, "screen": float(model.screen)}
    worth_a_look = concern_of_silence(moments.source_names, fit.silent)
    if worth_a_look:
        say(f"{worth_a_look}. See diagnostics_", stacklevel=4)


def _read_known(
    gold: Any, votes: Votes, weights: NDArray[Any] | None
) -> tuple[NDArray[Any] | None, ManyGold | None]:
    """Codes of known classes, shape (n,), and what the sources did there; None where none is known."""
    known = read_task_gold(gold, votes.classes, (votes.n_items, 1), "gold")[:, 0]
    if not (known >= 0).any():
        return None, None
    return known, ManyGold.of(votes, known, weights)


def keep_many(model: LabelModel, moments: Moments, fit: ManyFit) -> None:
    """Make the parameters of a fit, or of a file, those of the model."""
    m, n_classes = moments.n_sources, moments.n_classes
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_ = moments, DependencyGraph(m)
    model._tasks, model._pending, model._gold, model._many = None, None, None, fit
    model._many_graph = model._opinion = None
    model.coverage_ = np.minimum(moments.coverage, 1.0)
    model.accuracies_, model.class_balance_ = fit.accuracies, fit.balance
    # An array for all types; only where it would be too large, SparseTables, which are read source by source.
    model.confusion_ = cast(NDArray[np.float64], fit.tables)
    model.task_tables_ = np.empty((0, n_classes, n_classes))
    model.excess_correlation_, model.temper_ = np.full(m, np.nan), 1.0
    model._interval, model._passes = np.full((m, 2), np.nan), None
    model._diagnostics = None
