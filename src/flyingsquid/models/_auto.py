"""What ``method="auto"`` stands for, decided by what the votes look like.

Two questions, in this order. Do the votes look independent given the truth, and are there enough of them to
tell? Then the closed form is right, and used. Otherwise votes are weighed, and no more is believed than that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid._remarks import say
from flyingsquid._values import is_number, is_one_of
from flyingsquid.analysis import concern_of_silence
from flyingsquid.analysis.fit_test import independence_p_value
from flyingsquid.estimation import OPINIONS, OpinionFit, fit_many, fit_opinion, resolve_balance
from flyingsquid.estimation.copies import near_copies
from flyingsquid.estimation.flags import flag_sources
from flyingsquid.estimation.independence import agreement_misfit
from flyingsquid.estimation.opinion_fit import MOST_DENSE
from flyingsquid.estimation.refine import Passes, refine
from flyingsquid.estimation.signed import SignedMoments
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _options
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.distinct import compressed

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel

# Independence is believed of votes that could have shown the contrary: so many items, sources, and votes.
_ITEMS, _LEAST_SOURCES, _MOST_SOURCES, _DENSE = 1_000, 4, 100, 0.4
_P_VALUE = 0.01
# A closed form needs the class balance: given, or estimated with a standard error of P below this.
_BALANCE_ERROR = 0.03
# Mean squared standardised residual of the agreement of pairs; 1 where the sources are independent.
_MISFIT = 2.0
# How far ten more passes may move the balance, and how much better than chance sources must be.
_AT_REST, _BEYOND_CHANCE = 0.01, 0.15


def is_plain(model: LabelModel, *, with_gold: bool) -> bool:
    """Whether the method is left open, and nothing is asked for that only one way of fitting has."""
    return (
        is_one_of(model.method, ("auto",))
        and model.graph is None
        and is_one_of(model.multiclass, ("native",))
        and not with_gold
        and not (isinstance(model.class_balance, str) and model.class_balance == "estimate")
        and not _options.has_anchors(model.signs)
        and is_number(model.screen)
        and model.screen == 1.0
        and model.triplets is None
    )


def settled(model: LabelModel) -> LabelModel:
    """The model for counts that change all the time, with ``"auto"`` made up its mind.

    Whether votes look independent is not asked at every chunk or batch: it costs, and labels would jump.
    """
    return model.set_params(method="consensus") if is_plain(model, with_gold=False) else model


def goes_by_opinion(
    model: LabelModel,
    moments: Moments,
    votes: Votes | None,
    weights: NDArray[Any] | None = None,
    *,
    with_gold: bool,
) -> bool:
    """Whether votes are weighed; refuse options that have no part in that where it was asked for by name."""
    if model.method in OPINIONS:
        _options.check_opinion(model, with_gold=with_gold)
        return True
    if not is_plain(model, with_gold=with_gold):
        return False
    # Counts of pairs say nothing about the balance, and an even one would be a guess.
    by_guess = votes is None and not has_balance(model)
    return by_guess or not looks_independent(moments, votes, weights)


def has_balance(model: LabelModel) -> bool:
    """Whether the class balance was given, as numbers or as even."""
    return model.class_balance is not None


def knows_balance(model: LabelModel) -> bool:
    """Whether a fit of two classes was given the balance, or found it with a small error."""
    estimate = model._fit.tasks[0].fit.balance_estimate
    return has_balance(model) or (estimate is not None and estimate.error / 2 <= _BALANCE_ERROR)


def looks_independent(moments: Moments, votes: Votes | None, weights: NDArray[Any] | None = None) -> bool:
    """Whether the sources look independent given the truth, and there are votes enough to tell."""
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    voting = int((cast > 0).sum())
    dense = cast.sum() >= _DENSE * moments.n_items * moments.n_sources
    if moments.n_items < _ITEMS or not _LEAST_SOURCES <= voting <= _MOST_SOURCES or not dense:
        return False
    if moments.n_classes > 2 and (votes is None or not _is_small(moments)):
        return False
    if len(np.unique(near_copies(moments))) < moments.n_sources:
        return False
    if moments.n_classes > 2 and votes is not None:
        return _fits_many(moments, votes, weights)
    flags = flag_sources(SignedMoments.of(moments))
    p_value = independence_p_value(moments, flags)
    return p_value is not None and p_value >= _P_VALUE


def _is_small(moments: Moments) -> bool:
    """Whether tables of all classes are held without effort."""
    cells = moments.n_sources * moments.n_classes**2
    return cells <= MOST_DENSE and not isinstance(moments.blocks[0], csr_array)


def _fits_many(moments: Moments, votes: Votes, weights: NDArray[Any] | None) -> bool:
    """Whether tables of all classes predict how often pairs agree, and further passes would not move them."""
    few = compressed(votes.codes, votes.n_classes, weights)
    over = Passes(votes, weights) if few is None else Passes(Votes(few[0], votes.classes), few[1])
    options: dict[str, Any] = {"method": "refined", "multiclass": "native", "screen": 1.0}
    first = fit_many(moments, None, votes=over.votes, sample_weight=over.weights, **options)
    tables = np.asarray(first.tables)[:, :, :-1]
    # A source that never votes has a table of zeros, which have no logarithm.
    told = np.maximum(tables / np.maximum(tables.sum(axis=2, keepdims=True), 1e-12), 1e-12)
    if float(np.mean(first.accuracies)) < 1 / moments.n_classes + _BEYOND_CHANCE:
        return False
    if agreement_misfit(moments, tables, first.balance) > _MISFIT:
        return False
    # Agreement of pairs does not see a wrong balance; passes that have not come to rest do.
    later = refine(over, told, first.balance, learn_balance=True)
    return bool(np.abs(later.balance - first.balance).sum() / 2 <= _AT_REST)


def solve_opinion(
    model: LabelModel,
    moments: Moments,
    votes: Votes | None = None,
    weights: NDArray[Any] | None = None,
    known: NDArray[Any] | None = None,
) -> None:
    """Weigh the votes, and keep what was found. ``known`` (n,) holds true classes, negative where unknown."""
    balance = resolve_balance(model.class_balance, moments.classes)
    given = balance if isinstance(balance, np.ndarray) else None
    fit = fit_opinion(moments, given, method=model.method, votes=votes, sample_weight=weights, gold=known)
    if known is not None:
        held = f"{np.count_nonzero(known >= 0):,} known labels were held"
        fit = replace(fit, reason=f"{fit.reason}; {held}" if fit.method == "anchored" else fit.reason)
    keep_opinion(model, moments, fit)
    worth_a_look = concern_of_silence(moments.source_names, fit.silent)
    if worth_a_look:
        say(f"{worth_a_look}. See diagnostics_", stacklevel=4)


def keep_opinion(model: LabelModel, moments: Moments, fit: OpinionFit) -> None:
    """Make the parameters of a fit, or of a file, those of the model."""
    m, n_classes = moments.n_sources, moments.n_classes
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_ = moments, DependencyGraph(m)
    model._tasks, model._pending, model._gold = None, None, None
    model._many = model._many_graph = model._passes = None
    model._opinion = fit
    model.coverage_ = np.minimum(moments.coverage, 1.0)
    model.accuracies_, model.class_balance_ = fit.accuracies, fit.opinion.balance
    model.confusion_ = fit.tables  # type: ignore[assignment]  # SparseTables where an array would be too large
    model.task_tables_ = np.empty((0, n_classes, n_classes))
    model.excess_correlation_, model.temper_ = np.full(m, np.nan), 1.0
    model._interval = model._diagnostics = None
