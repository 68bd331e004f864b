"""Checkpoints of streams: writing, reading, locking, and comparison with the input and the output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, BinaryIO
from zlib import crc32

import click

from flyingsquid._values import format_count
from flyingsquid.cli.stream_lines import LABEL_START, Known
from flyingsquid.exceptions import ModelFileError, OptionError, VoteFileError
from flyingsquid.files.fields import LABELS, OBJECT, TEXT, check_fields, integer, list_of, optional
from flyingsquid.files.inputs import located
from flyingsquid.files.outputs import try_lock
from flyingsquid.files.state import State, decode_labels, encode_labels, read_state, write_state
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.files import CHECKPOINT, stream_from_checkpoint, stream_to_state

_CHUNK = 1 << 20
_FIELDS = {
    "options": OBJECT,
    "position": OBJECT,
    "names": optional(list_of(TEXT)),
    "width": optional(integer()),
    "classes": optional(LABELS),
    "model": optional(OBJECT),
}


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a stream, always between two blocks."""

    # Numbers of lines and bytes that were read.
    lines: int = 0
    bytes: int = 0
    checksum: int = 0  # CRC-32 of these bytes
    skipped: int = 0  # lines that could not be read
    written: int = 0  # bytes of labels
    written_checksum: int = 0  # CRC-32 of these bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything that is needed to resume."""

    options: dict[str, Any]  # the options of the command that determine the labels
    position: Position
    known: Known
    model: OnlineLabelModel | None  # None before the first votes


def write_checkpoint(path: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
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
    with located(path):
        write_state(path, State(CHECKPOINT, meta, {} if state is None else state.arrays))


def read_checkpoint(path: str) -> Checkpoint:
    """Read a file that :func:`write_checkpoint` wrote."""
    state = read_state(path)
    if state.kind != CHECKPOINT:
        raise ModelFileError(
            f"The file must contain a checkpoint of a stream; it contains a {state.kind}.", path=path
        )
    meta = state.meta
    try:
        check_fields(meta, _FIELDS)
        position = _read_position(meta["position"])
        names = None if meta["names"] is None else tuple(meta["names"])
        classes = None if meta["classes"] is None else decode_labels(meta["classes"])
        if names is not None and len(names) != meta["width"]:
            raise ModelFileError("`width` in the file must be the number of names")
        known = Known(names, meta["width"], classes)
        return Checkpoint(meta["options"], position, known, stream_from_checkpoint(state))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ModelFileError(f"The checkpoint is damaged: {error}.", path=path) from error


def _read_position(values: dict[str, Any]) -> Position:
    names = [field.name for field in fields(Position)]
    check_fields(values, dict.fromkeys(names, integer()), "position.")
    return Position(**{name: values[name] for name in names})


# ---------------------------------------------------------------------- resuming


def resume(path: str, options: dict[str, Any]) -> Checkpoint:
    """Read the checkpoint at ``path``, which must have been written with the same options."""
    found = read_checkpoint(path)
    for name in sorted(found.options.keys() | options.keys()):
        before, now = found.options.get(name), options.get(name)
        if before != now:
            option = "--" + name.replace("_", "-")
            raise OptionError(
                f"The checkpoint was written with {option} {_shown(before)}; got {_shown(now)}. Use the same "
                "options, or another checkpoint.",
                path=path,
            )
    return found


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "set" if value else "not set"
    return ",".join(value) if isinstance(value, list) else str(value)


def relative_to_checkpoint(output: str | None, checkpoint: str | None) -> str | None:
    """Return the path of the output relative to the checkpoint, so that both may be moved together."""
    if output is None or checkpoint is None:
        return output
    path, home = os.path.realpath(output), os.path.dirname(os.path.realpath(checkpoint))
    try:
        return os.path.relpath(path, home)
    except ValueError:  # another drive on Windows
        return path


def skip_input(source: BinaryIO, position: Position) -> None:
    """Skip the lines before a checkpoint, and require that they are the same."""
    n, checksum = _read_checksum(source, position.bytes)
    if n < position.bytes or checksum != position.checksum:
        how = "is shorter than" if n < position.bytes else "differs from"
        raise click.ClickException(
            f"The input {how} the {format_count(position.lines, 'line')} before the checkpoint. Pass the "
            "same input from its start, or only the lines after the checkpoint with --continued, or remove "
            "the checkpoint."
        )


def _read_checksum(source: BinaryIO, n: int) -> tuple[int, int]:
    """Read up to ``n`` bytes; return how many there were, and their CRC-32."""
    left, checksum = n, 0
    while left and (chunk := source.read(min(left, _CHUNK))):
        left -= len(chunk)
        checksum = crc32(chunk, checksum)
    return n - left, checksum


# ---------------------------------------------------------------------- the output


def open_output(path: str, position: Position, *, resumed: bool, overwrite: bool) -> BinaryIO:
    """Open the file of labels, locked, and truncated to the labels before the checkpoint.

    A resumed file is compared with the checkpoint before anything in it is removed.
    """
    if position.written and not os.path.exists(path):
        raise _not_the_output(path, "does not exist", position)
    with located(path), ExitStack() as stack:
        file = stack.enter_context(open(path, "a+b" if resumed or overwrite else "x+b"))
        if not try_lock(file):
            raise VoteFileError("Another stream writes this file.")
        if resumed:
            _require_output(file, path, position)
        file.truncate(position.written)
        file.seek(0, os.SEEK_END)
        stack.pop_all()
    return file


def _require_output(file: BinaryIO, path: str, position: Position) -> None:
    """Require that a file starts with the labels before the checkpoint, and contains only labels."""
    file.seek(0)
    n, checksum = _read_checksum(file, position.written)
    if n < position.written:
        raise _not_the_output(path, f"has {n:,} bytes", position)
    tail_is_labels = all(
        line.startswith(LABEL_START) or LABEL_START.startswith(line) for line in iter_lines(file, 1 << 16)
    )
    if checksum != position.written_checksum or not tail_is_labels:
        raise _not_the_output(path, "has different content", position)


def iter_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the start of every line, at most ``longest`` bytes of it."""
    is_start = True
    while line := file.readline(longest):
        if is_start:
            yield line
        is_start = line.endswith(b"\n")


def _not_the_output(path: str, how: str, position: Position) -> VoteFileError:
    return VoteFileError(
        f"The file {how}, but {position.written:,} bytes of labels were written before the checkpoint; it is "
        "not the output of this stream. Remove the checkpoint to start over.",
        path=path,
    )


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a checkpoint: a file next to it, which is removed at the end."""
    # The checkpoint itself is replaced again and again, so it cannot hold a lock.
    lock = f"{path}.lock"
    with ExitStack() as stack:
        with located(lock):
            file = stack.enter_context(open(lock, "ab"))
            # If the stream that held the lock has just removed the file, this lock is not the current one.
            if not try_lock(file) or not _is_at(file, lock):
                raise ModelFileError("Another stream uses this checkpoint.", path=path)
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove an open file
                os.unlink(lock)


def _is_at(file: BinaryIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
