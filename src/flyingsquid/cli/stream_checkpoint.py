"""Where a stream stands: the model, what was read and what was written, in one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flyingsquid._values import told
from flyingsquid.cli.stream_lines import Known
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State, decode_labels, encode_labels, read_state, write_state
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.files import CHECKPOINT, stream_from_checkpoint, stream_to_state


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has come, always between two blocks.

    Attributes
    ----------
    lines, bytes : what was read
    checksum : CRC-32 of these bytes
    skipped : lines that could not be read
    written : bytes of labels
    """

    lines: int = 0
    bytes: int = 0
    checksum: int = 0
    skipped: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that is needed to go on.

    Attributes
    ----------
    options : the options of the command that decide what is written, as plain values
    model : None before the first votes
    """

    options: dict[str, Any]
    position: Position
    known: Known
    model: OnlineLabelModel | None


def write_checkpoint(path: str, checkpoint: Checkpoint) -> None:
    """Write it whole or not at all."""
    state = None if checkpoint.model is None else stream_to_state(checkpoint.model)
    known = checkpoint.known
    meta = {
        "options": checkpoint.options,
        "position": asdict(checkpoint.position),
        "names": None if known.names is None else list(known.names),
        "width": known.width,
        "classes": None if known.classes is None else encode_labels(known.classes),
        "model": None if state is None else state.meta,
    }
    write_state(path, State(CHECKPOINT, meta, {} if state is None else state.arrays))


def read_checkpoint(path: str) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote; refused where it is damaged or something else."""
    state = read_state(path)
    if state.kind != CHECKPOINT:
        raise ModelFileError(f"{path}: the file holds a {told(state.kind)}, no checkpoint of a stream")
    meta = state.meta
    try:
        position = Position(**meta["position"])
        if any(type(value) is not int or value < 0 for value in asdict(position).values()):
            raise ModelFileError("its position is not made of whole numbers")
        names = None if meta["names"] is None else tuple(meta["names"])
        classes = None if meta["classes"] is None else decode_labels(meta["classes"])
        known = Known(names, meta["width"], classes)
        return Checkpoint(dict(meta["options"]), position, known, stream_from_checkpoint(state))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ModelFileError(f"{path}: the file holds no whole checkpoint: {error}") from error
