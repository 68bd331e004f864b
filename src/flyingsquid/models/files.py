"""Fitted models as files: arrays and JSON, no pickle.

An estimator describes itself by ``_to_state`` and is rebuilt by ``_from_state``; this module maps the
kind of a file to the class of the estimator.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from flyingsquid._values import format_value
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.fields import OBJECT, check_fields, optional
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.models._base import VoteReader
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.models.score_model import ScoreModel
from flyingsquid.models.sequence_model import SequenceLabelModel
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.sequences import KIND as SEQUENCE_MOMENTS

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


def _checkpoint(state: State) -> OnlineLabelModel:
    model = stream_from_checkpoint(state)
    if model is None:
        raise ModelFileError(
            "The checkpoint was written before the first votes and does not contain a model yet."
        )
    return model


_READERS: dict[str, Callable[[State], Saved]] = {
    **{
        model.__name__: model._from_state
        for model in (
            LabelModel,
            MajorityVote,
            MultiLabelModel,
            OnlineLabelModel,
            ScoreModel,
            SequenceLabelModel,
        )
    },
    CHECKPOINT: _checkpoint,
    MOMENTS: Moments.from_state,
    SEQUENCE_MOMENTS: SequenceMoments.from_state,
}


def save(model: VoteReader | MultiLabelModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file atomically."""
    write_state(path, model._to_state())


def load(path: str | os.PathLike[str]) -> Saved:
    """Load a model or counts that ``save`` wrote, or the model in a checkpoint of ``flyingsquid stream``.

    Nothing in the file is executed. A file that is damaged, of another program or of an unknown version
    raises :class:`~flyingsquid.exceptions.ModelFileError`.

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
    if state.kind not in _READERS:
        raise ModelFileError(
            f"The file contains a {format_value(state.kind)}, which this version does not support."
        )
    return _READERS[state.kind](state)


def stream_to_state(model: OnlineLabelModel) -> State:
    """Return the state of an online model, for a checkpoint."""
    return model._to_state()


def stream_from_checkpoint(state: State) -> OnlineLabelModel | None:
    """Return the model of a checkpoint; None before the first votes."""
    check_fields(state.meta, {"model": optional(OBJECT)})
    if state.meta["model"] is None:
        return None
    return OnlineLabelModel._from_state(State(OnlineLabelModel.__name__, state.meta["model"], state.arrays))
