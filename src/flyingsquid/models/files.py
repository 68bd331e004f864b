"""Fitted models as files: arrays and JSON, no pickle.

An estimator describes itself by ``_to_state`` and is rebuilt by ``_from_state``. The functions here turn
options, counts and fits into states, and map the kind of a file to the class of the estimator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, option_error
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import (
    LABELS,
    OBJECT,
    TEXT,
    Field,
    State,
    check_fields,
    decode_labels,
    encode_labels,
    finite,
    integer,
    list_of,
    one_of,
    optional,
    read_state,
    sequence_of,
)
from flyingsquid.fits import CorrectedFit, Fit, GraphFit, IndependentFit, WeightedFit
from flyingsquid.models._estimator import Estimator
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.files import to_state as moments_to_state
from flyingsquid.moments.sequences import KIND as SEQUENCE_MOMENTS
from flyingsquid.solvers import get_solver, solver_from_options

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel
    from flyingsquid.models.majority_vote import MajorityVote
    from flyingsquid.models.multi_label import MultiLabelModel
    from flyingsquid.models.online_model import OnlineLabelModel
    from flyingsquid.models.score_model import ScoreModel
    from flyingsquid.models.sequence_model import SequenceLabelModel

    Saved: TypeAlias = (
        LabelModel
        | MajorityVote
        | MultiLabelModel
        | OnlineLabelModel
        | ScoreModel
        | SequenceLabelModel
        | Moments
        | SequenceMoments
    )
CHECKPOINT = "StreamCheckpoint"
"""Kind of a file with a model and the position of a stream, as the command line writes it."""
_SOURCE = Field("a name or a position", lambda value: TEXT.test(value) or integer().test(value))
_SIGNS = list_of(sequence_of(_SOURCE, integer(-1, 1)))
_FITS: dict[str, type[Fit]] = {fit.TAG: fit for fit in (IndependentFit, WeightedFit, CorrectedFit, GraphFit)}


# ---------------------------------------------------------------------- states


def options_to_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of an estimator as JSON values."""
    return {name: _option_to_meta(name, value) for name, value in params.items()}


def _option_to_meta(name: str, value: Any) -> Any:
    if name == "method":
        solver = get_solver(value)
        return {"solver": solver.name, "options": solver.options()}
    if name == "signs" and not isinstance(value, (str, Mapping)):
        raise option_error("signs", '"average" or a mapping from sources to signs', value)
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str(value)
    if name == "class_balance":
        return _balance_to_meta(value)
    if name == "signs":
        return [[str(s) if isinstance(s, str) else int(s), int(sign)] for s, sign in value.items()]
    if name == "classes":
        return encode_labels(tuple(v.item() if isinstance(v, np.generic) else v for v in value))
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def _balance_to_meta(balance: Any) -> Any:
    if not isinstance(balance, Mapping):
        return np.asarray(balance).tolist()
    labels = tuple(k.item() if isinstance(k, np.generic) else k for k in balance)
    return {"classes": encode_labels(labels), "shares": [float(share) for share in balance.values()]}


def options_from_meta(meta: Mapping[str, Any], estimator: type[Estimator]) -> dict[str, Any]:
    """Return the parameters that :func:`options_to_meta` described. Graphs are stored separately."""
    expected = set(estimator._get_param_names()) - {"graph"}
    if set(meta) != expected:
        raise ModelFileError(f"The options in the file must be {format_list(sorted(expected))}.")
    return {name: _option_from_meta(name, value) for name, value in meta.items()}


def _option_from_meta(name: str, value: Any) -> Any:
    if name == "method":
        check_fields(value, {"solver": TEXT, "options": OBJECT}, "options.method.")
        solver = solver_from_options(value["solver"], value["options"])
        return solver.name if solver == get_solver(solver.name) else solver
    if name == "signs" and not isinstance(value, str):
        check_fields({name: value}, {name: _SIGNS}, "options.")
        return dict(value)
    if name == "class_balance" and isinstance(value, dict):
        check_fields(value, {"classes": LABELS, "shares": list_of(finite())}, "options.class_balance.")
        if len(value["classes"]) != len(value["shares"]):
            raise ModelFileError("options.class_balance must have one share per class.")
        return dict(zip(decode_labels(value["classes"]), value["shares"], strict=True))
    if name == "classes":
        check_fields({name: value}, {name: optional(LABELS)}, "options.")
    if name == "classes" and value is not None:
        return list(decode_labels(value))
    return value


def fit_to_state(fit: Fit, moments: Moments, **meta: Any) -> State:
    """Return the state of a fit and its counts; further values of ``meta`` are added."""
    fitted, counts = fit.to_state(moments), moments_to_state(moments)
    return State(
        "Fit",
        {"fit": {"tag": fitted.kind, **fitted.meta}, "counts": counts.meta, **meta},
        {**_prefixed(fitted.arrays, "fit"), **_prefixed(counts.arrays, "counts")},
    )


def fit_from_state(state: State) -> tuple[Fit, Moments]:
    """Return the fit and the counts that :func:`fit_to_state` described."""
    if "fit" not in state.meta:
        raise ModelFileError(
            "The file was written by an earlier development version. Fit the model again and save it."
        )
    check_fields(state.meta, {"fit": OBJECT, "counts": OBJECT})
    check_fields(state.meta["fit"], {"tag": one_of(*_FITS)}, "fit.")
    moments = Moments.from_state(State(MOMENTS, state.meta["counts"], part_of(state.arrays, "counts")))
    tag = state.meta["fit"]["tag"]
    fitted = State(tag, state.meta["fit"], part_of(state.arrays, "fit"))
    return _FITS[tag].from_state(fitted, moments), moments


def _prefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def nest_state(state: State, prefix: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a state as part of another: its kind and meta, and its arrays under a prefix."""
    return {"kind": state.kind, "meta": state.meta}, _prefixed(state.arrays, prefix)


def unnest_state(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str) -> State:
    """Return the state that :func:`nest_state` described."""
    check_fields(meta, {"kind": TEXT, "meta": OBJECT}, f"{prefix}.")
    return State(meta["kind"], meta["meta"], part_of(arrays, prefix))


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays under a prefix."""
    return {
        name.removeprefix(f"{prefix}."): array
        for name, array in arrays.items()
        if name.startswith(f"{prefix}.")
    }


# ---------------------------------------------------------------------- files


def load(path: str | os.PathLike[str]) -> Saved:
    """Load a model or counts that ``save`` wrote, or the model in a checkpoint of ``flyingsquid stream``.

    Nothing in the file is executed.

    Parameters
    ----------
    path : str or os.PathLike
        File that was written by ``save`` of a model or of counts, or by ``flyingsquid label --model``.

    Returns
    -------
    model or counts
        An object of the class that was saved, such as :class:`~flyingsquid.LabelModel`.

    Raises
    ------
    ModelFileError
        If the file is damaged, was written by another program, or has an unknown version.

    Examples
    --------
    >>> import tempfile
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> path = os.path.join(tempfile.mkdtemp(), "biopsies.fsq")
    >>> fs.LabelModel().fit(votes).save(path)
    >>> fs.load(path).predict(votes[:3]).tolist()
    ['malignant', 'malignant', 'malignant']
    """
    state = read_state(path)
    try:
        return model_from_state(state)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, ModelFileError):
            raise ModelFileError(f"{path}: {error}") from error
        raise ModelFileError(f"{path}: The file does not contain a complete {state.kind}: {error}") from error


def model_from_state(state: State) -> Saved:
    """Return the model or the counts that a state describes."""
    # The estimators save themselves with this module.
    from flyingsquid.models.label_model import LabelModel
    from flyingsquid.models.majority_vote import MajorityVote
    from flyingsquid.models.multi_label import MultiLabelModel
    from flyingsquid.models.online_model import OnlineLabelModel
    from flyingsquid.models.score_model import ScoreModel
    from flyingsquid.models.sequence_model import SequenceLabelModel

    estimators = (
        LabelModel,
        MajorityVote,
        MultiLabelModel,
        OnlineLabelModel,
        ScoreModel,
        SequenceLabelModel,
    )
    readers: dict[str, Callable[[State], Saved]] = {
        **{estimator.__name__: estimator._from_state for estimator in estimators},
        CHECKPOINT: _checkpoint,
        MOMENTS: Moments.from_state,
        SEQUENCE_MOMENTS: SequenceMoments.from_state,
    }
    if state.kind not in readers:
        raise ModelFileError(
            f"The file contains a {format_value(state.kind)}, which this version does not support."
        )
    return readers[state.kind](state)


def _checkpoint(state: State) -> OnlineLabelModel:
    model = stream_from_checkpoint(state)
    if model is None:
        raise ModelFileError(
            "The checkpoint was written before the first votes and does not contain a model yet."
        )
    return model


def stream_to_state(model: OnlineLabelModel) -> State:
    """Return the state of an online model, for a checkpoint."""
    return model._to_state()


def stream_from_checkpoint(state: State) -> OnlineLabelModel | None:
    """Return the model of a checkpoint; None before the first votes."""
    check_fields(state.meta, {"model": optional(OBJECT)})
    if state.meta["model"] is None:
        return None
    from flyingsquid.models.online_model import OnlineLabelModel  # it saves itself with this module

    return OnlineLabelModel._from_state(State(OnlineLabelModel.__name__, state.meta["model"], state.arrays))
