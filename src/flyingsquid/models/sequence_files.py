"""Fitted models of sequences as plain states: the state of their rows, and how rows follow each other."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from flyingsquid.analysis import Diagnostics, SequenceDiagnostics, Verdict
from flyingsquid.estimation import Transition
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import State
from flyingsquid.models import files
from flyingsquid.models.sequence_model import SequenceLabelModel
from flyingsquid.moments import SequenceMoments
from flyingsquid.moments.lagged import KIND as MOMENTS

KIND = "SequenceLabelModel"


def to_state(model: SequenceLabelModel) -> State:
    """Arrays and JSON that hold everything."""
    model._require_fitted()
    found, transition = model.diagnostics_, model._transition
    shell = model._row_model()
    shell._remember(model._classes, model._names, model.source_names_)
    rows, moments = files._label_model_state(model._rows), model.moments_
    temper = model.temper
    meta = {
        "rows": rows.meta,
        "rows_kind": rows.kind,
        "options": {
            **files._plain_options(shell),
            "temper": temper if temper is None or isinstance(temper, str) else float(temper),
        },
        "n_pairs": moments.n_pairs,
        "temper": model.temper_,
        "pairs": transition.pairs,
        "verdict": [found.verdict.words, found.verdict.gain, found.verdict.use_model],
        "transition": found.transition,
        "persistent": list(found.persistent),
    }
    arrays = {
        "joint": transition.joint,
        # As an array, because JSON has no infinity.
        "correlation": np.array([transition.correlation, transition.error]),
        "excess": transition.excess_correlation,
        "lagged": moments.lagged,
        "first": moments.first,
        "second": moments.second,
    }
    return State(KIND, meta, {**rows.arrays, **arrays})


def from_state(state: State) -> SequenceLabelModel:
    """A fitted model; refused where its parts do not agree."""
    rows = files.label_model(State(state.meta["rows_kind"], state.meta["rows"], state.arrays))
    moments = SequenceMoments.from_state(
        State(MOMENTS, {"rows": state.meta["rows"]["counts"], "n_pairs": state.meta["n_pairs"]}, state.arrays)
    )
    options = files._read_options(state.meta["options"])
    for of_rows_only in ("triplets", "cliques", "multiclass", "n_classes"):
        del options[of_rows_only]
    model = SequenceLabelModel(**options)
    temper, pairs = state.meta["temper"], state.meta["pairs"]
    joint, excess, correlation = (state.arrays[name] for name in ("joint", "excess", "correlation"))
    fits = (
        joint.shape == (len(rows.class_balance_),) * 2
        and bool((joint > 0).all())
        and np.abs(joint.sum(axis=0) - rows.class_balance_).max() < 1e-9
        and np.abs(joint.sum(axis=1) - rows.class_balance_).max() < 1e-9
        and excess.shape == (moments.rows.n_sources,)
        and bool((np.abs(excess) <= 1).all())
        and correlation.shape == (2,)
        and (not np.isnan(correlation).any() or rows._many is not None)
        and {str(a.dtype) for a in (joint, excess, correlation)} == {"float64"}
        and type(temper) is float
        and 0 < temper <= 1
        and type(pairs) is int
    )
    if not fits:
        raise ModelFileError("the transition in the file does not fit its rows")
    transition = Transition(joint, float(correlation[0]), float(correlation[1]), pairs, excess)
    model._keep_fitted(rows, moments, transition)
    model.temper_ = temper
    model._interval = rows._interval
    model._diagnostics = _read_diagnostics(state.meta, rows.diagnostics_, transition, model)
    return model


def _read_diagnostics(
    meta: dict[str, Any], rows: Diagnostics, transition: Transition, model: SequenceLabelModel
) -> SequenceDiagnostics:
    words, gain, use_model = meta["verdict"]
    if not set(meta["persistent"]) <= set(model.source_names_):
        raise ModelFileError("the diagnostics in the file name sources that it does not have")
    plain = {field.name: getattr(rows, field.name) for field in fields(rows)}
    return SequenceDiagnostics(
        **{**plain, "verdict": Verdict(str(words), float(gain), bool(use_model))},
        transition=str(meta["transition"]),
        correlation=transition.correlation,
        correlation_error=transition.error,
        persistent=tuple(meta["persistent"]),
        temper=model.temper_,
    )
