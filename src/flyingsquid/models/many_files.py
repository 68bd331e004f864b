"""Fitted models of many classes as plain states."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid.estimate import ManyFit
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import State
from flyingsquid.models._many import keep_many
from flyingsquid.models.label_model import LabelModel
from flyingsquid.moments import Moments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.files import to_state as counts_to_state

KIND = "LabelModel.many"


def to_state(model: LabelModel, options: dict[str, Any]) -> State:
    """Arrays and JSON that hold everything."""
    fit, counts = model._many, counts_to_state(model.moments_)
    if fit is None:  # the caller knows; the type does not
        raise ModelFileError("the model has two classes")
    meta = {
        "options": options,
        "counts": counts.meta,
        "method": fit.method,
        "reason": fit.reason,
        "balance_note": fit.balance_note,
        "silence_counts": bool(fit.silence_counts),
    }
    return State(KIND, meta, {**counts.arrays, "class_balance": fit.balance, "confusion": fit.tables})


def from_state(state: State, options: dict[str, Any]) -> LabelModel:
    """A fitted model; refused where its parts do not agree."""
    moments = Moments.from_state(State(MOMENTS, state.meta["counts"], state.arrays))
    balance, tables = state.arrays["class_balance"], state.arrays["confusion"]
    m, k = moments.n_sources, moments.n_classes
    fits = (
        balance.shape == (k,)
        and tables.shape == (m, k, k + 1)
        and {str(balance.dtype), str(tables.dtype)} == {"float64"}
        and bool((balance > 0).all() and abs(balance.sum() - 1) < 1e-9)
        and bool((tables >= 0).all() and np.abs(tables.sum(axis=2) - 1).max() < 1e-6)
        and type(state.meta["silence_counts"]) is bool
    )
    if not fits:
        raise ModelFileError("the tables in the file are no probabilities, or do not fit its counts")
    model = LabelModel(**options)
    model._check_options()
    cast = np.asarray(moments.vote_counts)
    keep_many(
        model,
        moments,
        ManyFit(
            balance,
            str(state.meta["balance_note"]),
            tables,
            state.meta["silence_counts"],
            str(state.meta["method"]),
            str(state.meta["reason"]),
            cast.sum(axis=1) == 0,
            (cast > 0).sum(axis=1) == 1,
        ),
    )
    return model
