"""``flyingsquid stream``: lines of votes in, lines of labels out, with checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, BinaryIO, TypeVar
from zlib import crc32

import click

from flyingsquid._values import format_count, format_value
from flyingsquid.cli.checkpoints import (
    Checkpoint,
    Position,
    locked,
    open_output,
    read_checkpoint,
    relative_to_checkpoint,
    resume,
    skip_input,
    write_checkpoint,
)
from flyingsquid.cli.console import StoppedBySignalError, describe, handling_signals, leave_closed_pipe
from flyingsquid.cli.options import FILE, check_outputs, method_option, read_list
from flyingsquid.cli.stream_lines import Block, Known, Lines, Rules, next_lines, read_block, write_block
from flyingsquid.exceptions import FlyingSquidError, ModelFileError
from flyingsquid.files.inputs import located
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.validation import read_classes
from flyingsquid.votes.codes import Label

_LINES_PER_CHECKPOINT = 10_000
_MOST_LINES = 1_000_000_000
_CHOICE = click.Choice(["error", "add"])
T = TypeVar("T")


def _read_window(_ctx: click.Context, _param: click.Parameter, value: str) -> int | str:
    if value == "auto":
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 11 and 1 <= int(value) <= _MOST_LINES):
        raise click.BadParameter(
            f"must be an integer from 1 to {_MOST_LINES:,} or auto; got {format_value(value)}."
        )
    return int(value)


# fmt: off
@click.command()
@click.argument("votes", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("-o", "--output", type=FILE, help="Write labels to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace the output if it exists and there is no checkpoint.")
@click.option("--window", callback=_read_window, default="10000", show_default=True, metavar="N|auto",
              help="How many of the latest items are used.")
@click.option("--decay", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              help="Instead of a window: an item of age t weighs DECAY^t.")
@click.option("--classes", callback=read_list, metavar="A,B,...",
              help="All classes; one number K stands for 0 to K-1. Default: those in the first block.")
@click.option("--sources", callback=read_list, metavar="A,B,...",
              help="All named sources. Default: those in the first block.")
@click.option("--class-balance", callback=read_list, metavar="P,Q,...",
              help="Probabilities of the classes, in their order.")
@method_option
@click.option("--refresh", type=click.IntRange(1, _MOST_LINES),
              help="Items between two estimates. Default: a quarter of the window, or 1,000.")
@click.option("--block", type=click.IntRange(1, _MOST_LINES), default=100, show_default=True,
              help="Lines that are learned, then labeled, together. 1 answers every line at once.")
@click.option("--id", "id_field", default="id", show_default=True, metavar="FIELD",
              help="The field of a line that identifies its item.")
@click.option("--new-sources", type=_CHOICE, default="error", show_default=True,
              help="What to do with a source that did not occur before.")
@click.option("--new-classes", type=_CHOICE, default="error", show_default=True,
              help="What to do with a class that did not occur before.")
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
              help="What to do with a line that cannot be read.")
@click.option("--checkpoint", type=FILE, metavar="PATH",
              help="Resume from this file if it exists, and keep it up to date.")
@click.option("--every", type=click.IntRange(1, _MOST_LINES), metavar="N",
              help="Lines between two checkpoints. Default: 10,000.")
@click.option("--continued", is_flag=True, help="The input begins after the lines of the checkpoint.")
@click.option("--position", is_flag=True, help="Print the position of the checkpoint, and exit.")
@click.pass_context
def stream(
    ctx: click.Context,
    /,
    votes: str,
    output: str | None,
    force: bool,
    block: int,
    id_field: str,
    on_error: str,
    checkpoint: str | None,
    every: int | None,
    continued: bool,
    position: bool,
    **options: Any,
) -> None:
    """Label a stream of votes whose sources may drift, without gold labels.

    VOTES is a file of JSON lines, or - for standard input (the default). A line is an object with one
    vote per source, {"links": "spam", "short": null}, and perhaps a field that identifies the item; or an
    object with a field "votes" that contains such an object or a list, {"id": 7, "votes": ["spam", null]},
    whose other fields are ignored; or a list of votes. null and -1 abstain, and so does a source that is
    missing from an object. For every line, in order, one line is written:

    \b
      {"id": 7, "label": "spam", "probabilities": {"ham": 0.03, "spam": 0.97}}

    The id is that of the line, or its number. Lines are processed in blocks of --block lines, so labels do
    not depend on when lines arrive. A block is labeled when it is full or the input ends.

    With --checkpoint and --output, a run that was killed and is started again with the same input and options
    writes the same as an uninterrupted run: labels after the last checkpoint are removed and written again.
    Standard output cannot be truncated, so labels after the last checkpoint are printed twice. You may
    append lines to the input in the meantime.

    Exit codes: 0 success, 1 an error, described in one line, 2 invalid usage, 129 SIGHUP, 130 SIGINT and
    143 SIGTERM (a checkpoint was written; lines of an incomplete block have no label yet), 141 standard
    output was closed.

    \b
    Examples:
      flyingsquid stream votes.jsonl -o labels.jsonl --checkpoint run.fsq
      tail -f votes.jsonl | flyingsquid stream --block 1 --sources links,short --classes ham,spam
    """
    if checkpoint is None and (position or continued or every is not None):
        raise click.UsageError("--every, --position and --continued require --checkpoint.")
    if position and checkpoint is not None:
        at = read_checkpoint(checkpoint).position
        click.echo(f'{{"lines": {at.lines}, "bytes": {at.bytes}, "written": {at.written}}}')
        return
    _check_files(votes, output, checkpoint)
    model = _new_model(options)
    options |= {"block": block, "id": id_field, "output": relative_to_checkpoint(output, checkpoint)}
    start = _new_start(options, model)
    signals = Signals()
    with ExitStack() as stack:
        stack.enter_context(signals.handle())
        if checkpoint is not None:
            stack.enter_context(locked(checkpoint))
        is_resumed = checkpoint is not None and os.path.exists(checkpoint)
        if continued and not is_resumed:
            raise ModelFileError("--continued requires a checkpoint; there is no such file.", path=checkpoint)
        check_outputs([], {"--output": output}, overwrite=force or is_resumed)
        if checkpoint is not None and is_resumed:
            start = resume(checkpoint, options)
        elif checkpoint is not None and output is not None:
            # Before the output is created, so that a run that is killed at any time can be resumed.
            write_checkpoint(checkpoint, start)
        run = Stream(
            start.model or model,
            start.known,
            start.position,
            options,
            Rules(id_field, options["new_sources"] == "add", options["new_classes"] == "add"),
            block,
            on_error == "skip",
            output,
            checkpoint,
            every or _LINES_PER_CHECKPOINT,
        )
        try:
            source = sys.stdin.buffer if votes == "-" else stack.enter_context(open(votes, "rb"))
            if is_resumed and not continued:
                signals.wait_for(lambda: skip_input(source, run.position))
            target: BinaryIO = sys.stdout.buffer
            if output is not None:
                opened = open_output(output, run.position, resumed=is_resumed, overwrite=force)
                target = stack.enter_context(opened)
            end = run.run(source, target, signals)
        except StoppedBySignalError as stop:
            kept = f"; the checkpoint is {checkpoint}" if checkpoint else ""
            click.echo(f"Stopped by {stop} after line {run.position.lines:,}{kept}.", err=True)
            ctx.exit(128 + stop.number)
        except BrokenPipeError:
            leave_closed_pipe(ctx)
    if end.skipped:
        click.echo(f"{end.skipped:,} of {format_count(end.lines, 'line')} skipped", err=True)
# fmt: on


def _check_files(votes: str, output: str | None, checkpoint: str | None) -> None:
    check_outputs([votes], {"--checkpoint": checkpoint, "--output": output}, overwrite=True)
    if votes.lower().endswith((".csv", ".tsv", ".parquet", ".arrow")):
        raise click.UsageError(f"VOTES must be a file of JSON lines; got {votes}. Use flyingsquid label.")
    if output is not None and os.path.exists(output) and not os.path.isfile(output):
        raise click.UsageError(f"--output must be a regular file; got {output}. Use standard output instead.")


def _new_model(options: dict[str, Any]) -> OnlineLabelModel:
    """Create a model from the options. Options that it rejects are usage errors."""
    try:
        balance = None if options["class_balance"] is None else [float(p) for p in options["class_balance"]]
    except ValueError as error:
        raise click.UsageError("--class-balance must be numbers separated by commas.") from error
    model = OnlineLabelModel(
        options["window"],
        decay=options["decay"],
        method=options["method"],
        class_balance=balance,
        refresh=options["refresh"],
        classes=_parse_classes(options["classes"]),
        new_sources=options["new_sources"],
        new_classes=options["new_classes"],
    )
    try:
        model.check_options()
        model.classes = read_classes(model.classes, None)
    except FlyingSquidError as error:
        raise click.UsageError(describe(error, click.get_current_context().command)) from error
    return model


def _parse_classes(parts: list[str] | None) -> tuple[Label, ...] | None:
    """Return classes as a user lists them: integers if all of them are, otherwise strings."""
    if parts is None:
        return None
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        return tuple(parts)
    return tuple(range(numbers[0])) if len(numbers) == 1 else tuple(numbers)


def _new_start(options: dict[str, Any], model: OnlineLabelModel) -> Checkpoint:
    """Return the start of a new stream."""
    names = None if options["sources"] is None else tuple(options["sources"])
    if names is not None and len(set(names)) != len(names):
        raise click.UsageError("--sources must not contain duplicates.")
    classes = None if model.classes is None else tuple(model.classes)
    known = Known(names, None if names is None else len(names), classes)
    return Checkpoint(options, Position(), known, None)


# ---------------------------------------------------------------------- the loop


class Signals:
    """Signals that stop a stream, between blocks or while it waits for lines, and never within a block."""

    def __init__(self) -> None:
        self._number, self._waiting = 0, False

    def handle(self) -> AbstractContextManager[None]:
        """Handle these signals inside a ``with`` block."""
        return handling_signals(self._handle_signal)

    def wait_for(self, call: Callable[[], T]) -> T:
        """Return the result of a call that may block; raise StoppedBySignalError if a signal comes first."""
        self._waiting = True
        try:
            if self._number:
                raise StoppedBySignalError(self._number)
            return call()
        finally:
            self._waiting = False

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._number = number
        if self._waiting:
            raise StoppedBySignalError(number)


@dataclass(slots=True)
class Stream:
    """A running stream. Only :meth:`run` changes it."""

    model: OnlineLabelModel
    known: Known
    position: Position
    options: dict[str, Any]
    rules: Rules
    block: int  # number of lines that are processed together
    skip_bad: bool  # whether lines that cannot be read are skipped
    # Paths; labels go to standard output if there is no output file.
    output: str | None
    checkpoint: str | None
    every: int  # number of lines between two checkpoints
    _saved: int = field(init=False)

    def run(self, source: BinaryIO, target: BinaryIO, signals: Signals) -> Position:
        """Label every line of ``source``; return the position at its end."""
        self._saved = self.position.lines
        while True:
            try:
                lines = signals.wait_for(lambda: self._read(source))
            except StoppedBySignalError:
                self._save(target)
                raise
            # The last block would be longer if more lines are appended later, so the position of the
            # checkpoint stays before it: a run that resumes writes the same as one run over all lines.
            if not lines.is_complete:
                self._save(target)
                return self._label(lines, target) if lines.lines else self.position
            self.position = self._label(lines, target)
            if self.position.lines - self._saved >= self.every:
                self._save(target)

    def _read(self, source: BinaryIO) -> Lines:
        return next_lines(source, self.block, self.position.checksum, skip_long=self.skip_bad)

    def _label(self, lines: Lines, target: BinaryIO) -> Position:
        """Learn a block and write its labels; return the position after it."""
        before = self.position
        block = read_block(lines.lines, before.lines + 1, self.known, self.rules)
        self._report_bad_lines(block, target)
        labels = b""
        if block.votes is not None:
            posterior = self.model.update(block.votes)
            labels = write_block(block.ids, posterior, block.votes.classes)
        self.known = block.known
        with located(self._output_name):
            _write_all(target, labels)
        return Position(
            lines=before.lines + len(lines.lines),
            bytes=before.bytes + lines.n_bytes,
            checksum=lines.checksum,
            skipped=before.skipped + len(block.bad),
            written=before.written + len(labels),
            written_checksum=crc32(labels, before.written_checksum),
        )

    @property
    def _output_name(self) -> str:
        return "standard output" if self.output is None else self.output

    def _report_bad_lines(self, block: Block, target: BinaryIO) -> None:
        """Print the lines that cannot be read; stop at the first one unless they are skipped."""
        if block.bad and not self.skip_bad:
            self._save(target)
            number, reason = block.bad[0]
            raise click.ClickException(f"line {number:,}: {reason} Use --on-error skip to skip such lines.")
        for number, reason in block.bad:
            click.echo(f"line {number:,} skipped: {reason}", err=True)

    def _save(self, target: BinaryIO) -> None:
        """Write a checkpoint unless the last one is at the same position."""
        if self.checkpoint is None or self.position.lines == self._saved:
            return
        if (
            self.output is not None
        ):  # labels first: a power failure must not lose labels before the checkpoint
            with located(self.output):
                os.fsync(target.fileno())
        model = self.model if self.known.classes is not None and self.model.n_seen_ else None
        write_checkpoint(self.checkpoint, Checkpoint(self.options, self.position, self.known, model))
        self._saved = self.position.lines


def _write_all(target: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:  # without buffering, a signal may interrupt a write
        left = left[target.write(left) :]
    target.flush()
