"""Standard errors of accuracies of many classes, by passing over the votes once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation import fit_many
from flyingsquid.estimation.errors_many import agreement_errors, gold_of, group_errors, part_of
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel


def errors_of_many(model: LabelModel) -> NDArray[np.float64]:
    """Standard errors of ``accuracies_``, shape (m,); NaN where the votes are not at hand."""
    fit, over, moments = model._many, model._passes, model.moments_
    unknown = np.full(moments.n_sources, np.nan)
    if fit is None or over is None or over.votes is None:
        return unknown
    if fit.method == "agreement" and fit.gold is None:
        return agreement_errors(moments, over, fit.balance)
    used = model._fitted_with
    # A learned balance is learned anew; one that was given, estimated or of the method's choice stays.
    balance = None if fit.learned_balance else fit.balance

    def refit(rows: NDArray[np.intp]) -> NDArray[np.float64]:
        part = part_of(over, rows)
        gold = gold_of(part)
        return fit_many(
            Moments.of(part.votes, sample_weight=part.weights),
            balance,
            method=fit.method,
            multiclass=used["multiclass"],
            screen=used["screen"],
            votes=part.votes,
            sample_weight=part.weights,
            gold=gold,
            known=None if gold is None else part.known,
        ).accuracies

    try:
        errors = group_errors(refit, over.votes.n_items)
    except NotIdentifiableError:  # what all items barely determine, fewer do not
        return unknown
    cast = np.asarray(moments.vote_counts).sum(axis=1)
    return np.where(cast > 1, errors, np.nan)
