"""Fitted models as files: plain states, no pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import Diagnostics, FitTest, SourceTally, Verdict
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import State, decode_labels, encode_labels, read_state, write_state
from flyingsquid.models._base import VoteEstimator
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.moments import Moments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.files import fields_of, to_state

_NAMES = ("silent", "one_sided", "unidentified", "useless", "adversarial", "clipped")
# Arrays of a label model and their shapes, in sources m; a file in which one differs is refused.
_SHAPES: dict[str, tuple[int | str, ...]] = {
    "class_balance": (2,),
    "accuracies": ("m",),
    "interval": ("m", 2),
    "coverage": ("m",),
    "confusion": ("m", 2, 3),
    "weights": ("m", 3),
    "triplets_used": ("m",),
    "triplets_skipped": ("m",),
}


def save(model: VoteEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: whole or not at all."""
    write_state(path, _label_model_state(model) if isinstance(model, LabelModel) else _majority_state(model))


def load(path: str | os.PathLike[str]) -> LabelModel | MajorityVote | Moments:
    """Read what ``save`` wrote: a model, or counts.

    Nothing in the file is executed. A file that is damaged, foreign, or from a newer version is
    refused with :class:`~flyingsquid.exceptions.ModelFileError`.
    """
    state = read_state(path)
    try:
        if state.kind == MOMENTS:
            return Moments(**fields_of(state))
        if state.kind == "LabelModel":
            return _label_model(state)
        if state.kind == "MajorityVote":
            return _majority_vote(state)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the file holds no whole {state.kind}: {error}") from error
    raise ModelFileError(f"{path}: the file holds a {state.kind!r}, which this version does not know")


# ---------------------------------------------------------------------- LabelModel


def _label_model_state(model: LabelModel) -> State:
    model._require_fitted()
    counts, found = to_state(model.moments_), model.diagnostics_
    meta = {
        "options": _plain_options(model),
        "counts": counts.meta,
        "fitted_with": dict(model._fitted_with),
        "diagnostics": _diagnostics_meta(found),
    }
    arrays = {
        "class_balance": model.class_balance_,
        "accuracies": model.accuracies_,
        "interval": model.accuracies_interval_,
        "coverage": model.coverage_,
        "confusion": model.confusion_,
        "weights": model._weights,
        "triplets_used": found.triplets_used,
        "triplets_skipped": found.triplets_skipped,
        **counts.arrays,
    }
    return State("LabelModel", meta, arrays)


def _label_model(state: State) -> LabelModel:
    moments = Moments(**fields_of(State(MOMENTS, state.meta["counts"], state.arrays)))
    arrays = {name: _checked(state.arrays[name], name, moments.n_sources) for name in _SHAPES}
    model = LabelModel(**_read_options(state.meta["options"]))
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_ = moments
    model.class_balance_ = arrays["class_balance"]
    model.accuracies_ = arrays["accuracies"]
    model.coverage_ = arrays["coverage"]
    model.confusion_ = arrays["confusion"]
    model._weights = arrays["weights"]
    model._interval = arrays["interval"]
    model._fitted_with = dict(state.meta["fitted_with"])
    model._diagnostics = _read_diagnostics(state.meta["diagnostics"], arrays)
    return model


def _checked(array: NDArray[Any], name: str, n_sources: int) -> NDArray[Any]:
    wanted = tuple(n_sources if side == "m" else side for side in _SHAPES[name])
    kind = "i" if name.startswith("triplets") else "f"
    if array.shape != wanted or array.dtype.kind != kind:
        raise ModelFileError(
            f"the array {name!r} has shape {array.shape} and type {array.dtype}; not a model's"
        )
    if name != "interval" and not np.isfinite(array).all():
        raise ModelFileError(f"the array {name!r} holds values that are not finite")
    return array


def _plain_options(model: LabelModel) -> dict[str, Any]:
    balance, signs, triplets = model.class_balance, model.signs, model.triplets
    return {
        "method": model.method,
        "class_balance": balance
        if balance is None or isinstance(balance, str)
        else np.asarray(balance).tolist(),
        "signs": signs if isinstance(signs, str) else [[_source(s), int(v)] for s, v in signs.items()],
        "screen": float(model.screen),
        "triplets": None if triplets is None else [[_source(s) for s in triplet] for triplet in triplets],
    }


def _source(source: Any) -> str | int:
    return source if isinstance(source, str) else int(source)


def _read_options(options: dict[str, Any]) -> dict[str, Any]:
    signs, triplets = options["signs"], options["triplets"]
    return {
        "method": options["method"],
        "class_balance": options["class_balance"],
        "signs": signs if isinstance(signs, str) else dict(signs),
        "screen": options["screen"],
        "triplets": None if triplets is None else [tuple(triplet) for triplet in triplets],
    }


def _diagnostics_meta(found: Diagnostics) -> dict[str, Any]:
    test, verdict = found.fit_test, found.verdict
    return {
        "method": found.method,
        "reason": found.reason,
        "class_balance": found.class_balance,
        **{name: list(getattr(found, name)) for name in _NAMES},
        "identical": [list(group) for group in found.identical],
        "fit_test": None
        if test is None
        else [test.statistic, test.degrees, test.p_value, test.effective_sources],
        "verdict": [verdict.words, verdict.gain, verdict.use_model],
    }


def _read_diagnostics(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Diagnostics:
    return Diagnostics(
        method=meta["method"],
        reason=meta["reason"],
        class_balance=meta["class_balance"],
        **{name: tuple(meta[name]) for name in _NAMES},
        identical=tuple(tuple(group) for group in meta["identical"]),
        triplets_used=arrays["triplets_used"],
        triplets_skipped=arrays["triplets_skipped"],
        fit_test=None if meta["fit_test"] is None else FitTest(*meta["fit_test"]),
        verdict=Verdict(*meta["verdict"]),
    )


# ---------------------------------------------------------------------- MajorityVote


def _majority_state(model: Any) -> State:
    model._require_fitted()
    tally = model._tally
    meta = {
        "classes": encode_labels(tally.classes),
        "names": None if model._names is None else list(model._names),
        "source_names": list(tally.source_names),
        "n_items": tally.n_items,
    }
    return State(
        "MajorityVote", meta, {"votes": np.asarray(tally.votes), "missing": np.asarray(tally.missing)}
    )


def _majority_vote(state: State) -> MajorityVote:
    classes = decode_labels(state.meta["classes"])
    shown, names = tuple(state.meta["source_names"]), state.meta["names"]
    votes, missing = state.arrays["votes"], state.arrays["missing"]
    if votes.shape != (len(shown), len(classes)) or missing.shape != (len(shown), 3):
        raise ModelFileError("the counts in the file do not agree with its sources and classes")
    tally = SourceTally(state.meta["n_items"], votes, missing, classes, shown)
    return MajorityVote()._keep(tally, None if names is None else tuple(names))
