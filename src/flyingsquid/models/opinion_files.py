"""Fitted models of weighted votes as plain states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation import OPINIONS, OpinionFit
from flyingsquid.exceptions import ModelFileError
from flyingsquid.infer import Opinion
from flyingsquid.io import State
from flyingsquid.models._auto import keep_opinion
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.many_files import Arrays, counts_in, read_tables, silent_and_one_sided, table_arrays
from flyingsquid.moments import Moments
from flyingsquid.moments.files import to_state as counts_to_state

KIND = "LabelModel.opinion"
# Beyond what any fit gives.
_HEAVIEST, _LEAST_LOG = 1e3, -1e3


def to_state(model: LabelModel, options: dict[str, Any]) -> State:
    """Arrays and JSON that hold everything."""
    fit, counts = model._opinion, counts_to_state(model.moments_)
    if fit is None:  # the caller knows; the type does not
        raise ModelFileError("the model does not weigh votes")
    meta = {
        "options": options,
        "counts": counts.meta,
        "method": fit.method,
        "reason": fit.reason,
        "balance_note": fit.balance_note,
        "trust": float(fit.opinion.trust),
        "given": bool(fit.opinion.given),
        "gain": None if np.isnan(fit.gain) else float(fit.gain),
    }
    arrays: Arrays = {
        **counts.arrays,
        "class_balance": fit.opinion.balance,
        "vote_weights": fit.opinion.weights,
        "one_sided": fit.opinion.one_sided.astype(np.int8),
        "groups": fit.groups.astype(np.int64),
        "accuracies": fit.accuracies,
        "errors": fit.errors,
    }
    if fit.opinion.logs is not None:
        arrays["logs"] = np.ascontiguousarray(fit.opinion.logs)
    return State(KIND, meta, {**arrays, **table_arrays(fit.tables)})


def from_state(state: State, options: dict[str, Any]) -> LabelModel:
    """A fitted model; refused where its parts do not agree."""
    moments = counts_in(state)
    arrays, meta = state.arrays, state.meta
    logs, trust, gain = arrays.get("logs"), float(meta["trust"]), meta["gain"]
    _check(arrays, logs, moments)
    if (
        type(meta["given"]) is not bool
        or meta["method"] not in OPINIONS
        or not 0 <= trust <= 1
        or (logs is None) != (trust == 0)
    ):
        raise ModelFileError("the file does not say how votes become labels")
    if gain is not None and not (isinstance(gain, float) and -1 <= gain <= 1):
        raise ModelFileError("the gain in the file is none")
    model = LabelModel(**options)
    model._check_options()
    fit = OpinionFit(
        Opinion(
            arrays["vote_weights"],
            arrays["one_sided"].astype(np.bool_),
            arrays["class_balance"],
            meta["given"],
            logs,
            trust,
        ),
        str(meta["balance_note"]),
        read_tables(arrays, moments),
        arrays["accuracies"],
        arrays["errors"],
        *silent_and_one_sided(moments),
        arrays["groups"].astype(np.intp),
        float("nan") if gain is None else gain,
        str(meta["method"]),
        str(meta["reason"]),
    )
    keep_opinion(model, moments, fit)
    return model


def _check(arrays: Arrays, logs: NDArray[Any] | None, moments: Moments) -> None:
    """Refuse arrays that are not what they should be."""
    m, k = moments.n_sources, moments.n_classes
    balance, weights, accuracies = arrays["class_balance"], arrays["vote_weights"], arrays["accuracies"]
    errors, groups, one_sided = arrays["errors"], arrays["groups"], arrays["one_sided"]
    floats = [balance, weights, accuracies, *([] if logs is None else [logs])]
    fits = (
        all(each.dtype == np.float64 and bool(np.isfinite(each).all()) for each in floats)
        and (balance.shape, weights.shape) == ((k,), (m, k))
        and {accuracies.shape, errors.shape, groups.shape, one_sided.shape} == {(m,)}
        and (str(groups.dtype), str(one_sided.dtype)) == ("int64", "int8")
        and (logs is None or (logs.shape == (m, k, k) and bool((logs <= 0).all())))
    )
    if not fits:
        raise ModelFileError("the numbers in the file do not fit its counts")
    in_range = (
        bool((balance > 0).all() and abs(balance.sum() - 1) < 1e-9)
        and bool((weights >= 0).all() and (weights <= _HEAVIEST).all())
        and bool(((errors >= 0) | np.isnan(errors)).all() and (logs is None or (logs >= _LEAST_LOG).all()))
        and bool((accuracies >= 0).all() and (accuracies <= 1).all())
        and bool((groups >= 0).all() and (groups < m).all() and np.isin(one_sided, (0, 1)).all())
    )
    if not in_range:
        raise ModelFileError("the numbers in the file are no probabilities, or do not fit its counts")
