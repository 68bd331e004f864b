"""The work of ``flyingsquid stream``: blocks of lines in, labels out, checkpoints on the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType
from typing import Any, BinaryIO, TypeVar
from zlib import crc32

import click

from flyingsquid.cli.stopping import StoppedBySignalError, handling_signals
from flyingsquid.cli.stream_checkpoint import Checkpoint, Position, write_checkpoint
from flyingsquid.cli.stream_lines import Block, Known, Rules, read_block, write_block
from flyingsquid.models import OnlineLabelModel

_CHUNK = 1 << 20
T = TypeVar("T")


class Signals:
    """SIGINT and SIGTERM, taken between blocks or while waiting for lines, and never within a block."""

    def __init__(self) -> None:
        self._number, self._waiting = 0, False

    def caught(self) -> AbstractContextManager[None]:
        """Take both signals for as long as this lasts."""
        return handling_signals(self._on)

    def wait_for(self, call: Callable[[], T]) -> T:
        """The result of a call that may block; :class:`StoppedBySignalError` if a signal comes first."""
        self._waiting = True
        try:
            if self._number:
                raise StoppedBySignalError(self._number)
            return call()
        finally:
            self._waiting = False

    def _on(self, number: int, _frame: FrameType | None) -> None:
        self._number = number
        if self._waiting:
            raise StoppedBySignalError(number)


@dataclass(slots=True)
class Stream:
    """A stream on its way. Only ``run`` changes it.

    Attributes
    ----------
    model, known, position : as in :class:`Checkpoint`
    options : those that a checkpoint keeps
    rules : how lines are read
    block : lines that are learned, then labelled, together
    skip_bad : whether lines that cannot be read are passed over
    checkpoint, every : where the checkpoint goes, and after how many lines
    """

    model: OnlineLabelModel
    known: Known
    position: Position
    options: dict[str, Any]
    rules: Rules
    block: int
    skip_bad: bool
    checkpoint: str | None
    every: int

    def run(self, source: BinaryIO, target: BinaryIO, signals: Signals, *, is_file: bool) -> Position:
        """Label every line of ``source``; the position at the end of it."""
        saved = self.position.lines
        while True:
            try:
                lines = signals.wait_for(lambda: list(islice(source, self.block)))
            except StoppedBySignalError:
                self._save(target, is_file, saved)
                raise
            # A block that the end cut short would be longer in a longer input, so the position stays
            # before it: whoever goes on with more lines gets what one run over all of them writes.
            is_whole = len(lines) == self.block and lines[-1].endswith(b"\n")
            if not is_whole:
                saved = self._save(target, is_file, saved)
                return self._label(lines, target, saved, is_file) if lines else self.position
            self.position = self._label(lines, target, saved, is_file)
            if self.position.lines - saved >= self.every:
                saved = self._save(target, is_file, saved)

    def _label(self, lines: list[bytes], target: BinaryIO, saved: int, is_file: bool) -> Position:
        """Learn a block and write its labels; the position after it."""
        before = self.position
        block = read_block(lines, before.lines + 1, self.known, self.rules)
        self._report(block, lambda: self._save(target, is_file, saved))
        labels = b""
        if block.votes is not None:
            posterior = self.model.update(block.votes)
            labels = write_block(block.ids, posterior, block.votes.classes)
        self.known = block.known
        data = b"".join(lines)
        _write(target, labels)
        return replace(
            before,
            lines=before.lines + len(lines),
            bytes=before.bytes + len(data),
            checksum=crc32(data, before.checksum),
            skipped=before.skipped + len(block.bad),
            written=before.written + len(labels),
        )

    def _report(self, block: Block, save: Callable[[], Any]) -> None:
        """Say which lines are bad; stop at the first of them unless they are to be skipped."""
        if block.bad and not self.skip_bad:
            save()
            number, reason = block.bad[0]
            raise click.ClickException(f"line {number:,}: {reason} (--on-error skip passes over such lines)")
        for number, reason in block.bad:
            click.echo(f"line {number:,} skipped: {reason}", err=True)

    def _save(self, target: BinaryIO, is_file: bool, saved: int) -> int:
        """Write a checkpoint unless the one that is there says the same; the line it is at."""
        if self.checkpoint is None or self.position.lines == saved:
            return saved
        if is_file:  # labels first: a checkpoint must not promise what a power cut could take back
            os.fsync(target.fileno())
        model = self.model if self.known.classes is not None and self.model.n_seen_ else None
        write_checkpoint(self.checkpoint, Checkpoint(self.options, self.position, self.known, model))
        return self.position.lines


def _write(target: BinaryIO, data: bytes) -> None:
    """Write all of it, now."""
    left = memoryview(data)
    while left:  # where Python does not buffer, a signal may cut a write short
        left = left[target.write(left) :]
    target.flush()


def skip_input(source: BinaryIO, position: Position) -> None:
    """Pass over what was read before the checkpoint, and make sure that it is the same."""
    left, checksum = position.bytes, 0
    while left:
        chunk = source.read(min(left, _CHUNK))
        if not chunk:
            break
        left -= len(chunk)
        checksum = crc32(chunk, checksum)
    if left or checksum != position.checksum:
        how = "is shorter than" if left else "differs within"
        raise click.ClickException(
            f"the input {how} the {position.lines:,} lines that the checkpoint has seen; give the same input "
            "from its start, or --continued and only what follows, or remove the checkpoint to start again"
        )


def open_output(path: str, written: int, is_resumed: bool) -> BinaryIO:
    """The file of labels, cut to what the checkpoint vouches for."""
    if not is_resumed:
        return open(path, "wb")
    size = os.path.getsize(path) if os.path.exists(path) else -1
    if size < written:
        has = f"has {size:,} bytes" if size >= 0 else "is not there"
        raise click.ClickException(
            f"{path} {has}, and {written:,} were written before the checkpoint; it is not the "
            "output of this stream"
        )
    os.truncate(path, written)
    return open(path, "ab")
