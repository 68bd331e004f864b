"""``flyingsquid stream``: lines of votes in, lines of labels out, with checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, fields
from types import FrameType
from typing import Any, BinaryIO, TypeVar
from zlib import crc32

import click

from flyingsquid._values import format_count, format_value
from flyingsquid.cli.console import StoppedBySignalError, describe, handling_signals, leave_closed_pipe
from flyingsquid.cli.options import FILE, check_outputs, method_option, read_list
from flyingsquid.cli.stream_lines import (
    LABEL_START,
    Block,
    Known,
    Lines,
    Rules,
    next_lines,
    read_block,
    write_block,
)
from flyingsquid.exceptions import FlyingSquidError, ModelFileError, Note, OptionError, VoteFileError
from flyingsquid.files.inputs import add_path_to_errors, standard_stream
from flyingsquid.files.outputs import locked, try_lock
from flyingsquid.files.state import (
    LABELS,
    OBJECT,
    TEXT,
    Field,
    State,
    check_fields,
    decode_labels,
    encode_labels,
    integer,
    list_of,
    optional,
    read_state,
    write_state,
)
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.files import CHECKPOINT, stream_from_checkpoint, stream_to_state
from flyingsquid.models.validation import read_classes
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.conventions import find_misreadings

_LINES_PER_CHECKPOINT = 10_000
_MOST_LINES = 1_000_000_000
_CHOICE = click.Choice(["error", "add"])
T = TypeVar("T")


def _read_window(value: str) -> int | str:
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
@click.option("-o", "--output", type=FILE, help="File of labels to write; - is standard output, the default.")
@click.option("--force", is_flag=True, help="Replace the output if it exists and there is no checkpoint.")
@click.option("--window", type=_read_window, default="10000", show_default=True, metavar="N|auto",
              help="How many of the latest items are used.")
@click.option("--decay", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              help="Instead of a window: an item of age t weighs DECAY^t.")
@click.option("--classes", type=read_list, metavar="A,B,...",
              help="All classes; one number K stands for 0 to K-1. Default: those in the first block.")
@click.option("--sources", type=read_list, metavar="A,B,...",
              help="All named sources. Default: those in the first block.")
@click.option("--ignore", type=read_list, metavar="A,B,...", help="Fields to leave out.")
@click.option("--abstain", multiple=True, metavar="VALUE",
              help="A value that means 'no vote', in addition to blank, NA and null. May be repeated.")
@click.option("--class-balance", type=read_list, metavar="P,Q,...",
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

    VOTES is a file of JSON lines, or - for standard input (the default). A line has one of these forms:

    \b
      {"id": 7, "links": "spam", "short": null}
      {"id": 7, "votes": {"links": "spam", "short": null}, "text": "other fields are ignored"}
      {"id": 7, "votes": ["spam", null]}
      ["spam", null]

    null, -1, and sources that are missing from an object abstain. The identifier is optional; an item without
    one gets the number of its line. One line is written for each line that is read, in the same order:

    \b
      {"id": 7, "label": "spam", "probabilities": {"ham": 0.03, "spam": 0.97}}

    Lines are processed in blocks of --block lines, so labels do not depend on when lines arrive. A block is
    labeled when it is full or the input ends.

    With --checkpoint and --output, a run that was killed can be started again with the same input and
    options. Labels after the last checkpoint are removed and written again, so the output is the same as that
    of an uninterrupted run. Standard output cannot be truncated, so there these labels are printed twice. You
    may append lines to the input in the meantime.

    \b
    Exit codes:
      0    success
      1    an error, described in one line
      2    invalid usage
      129  SIGHUP
      130  SIGINT, as by Ctrl-C
      141  standard output was closed
      143  SIGTERM

    With --checkpoint, a run that is stopped by a signal writes a checkpoint. Lines of its incomplete block
    have no label yet.

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
    output = None if output == "-" else output
    _check_files(votes, output, checkpoint)
    model = _new_model(options)
    options["abstain"] = list(options["abstain"])  # as in the file of a checkpoint
    options |= {"block": block, "id": id_field, "output": relative_to_checkpoint(output, checkpoint)}
    start = _new_start(options, model)
    signals = Signals()
    with ExitStack() as stack:
        stack.enter_context(signals.handle())
        if checkpoint is not None:
            stack.enter_context(locked(checkpoint, "Another stream uses this checkpoint."))
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
            Rules(
                id_field,
                options["new_sources"] == "add",
                options["new_classes"] == "add",
                tuple(options["ignore"] or ()),
                tuple(options["abstain"]),
            ),
            block,
            on_error == "skip",
            output,
            checkpoint,
            every or _LINES_PER_CHECKPOINT,
        )
        try:
            source = standard_stream("stdin") if votes == "-" else stack.enter_context(open(votes, "rb"))
            if is_resumed and not continued:
                signals.wait_for(lambda: skip_input(source, run.position))
            if output is None:
                target = standard_stream("stdout")
            else:
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
    return Checkpoint(options, Position(), Known(names, classes), None)


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
    _noted: set[str] = field(default_factory=set, init=False)

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
            if block.known.classes != self.known.classes:
                self._report_misreadings(block.votes)
        self.known = block.known
        with add_path_to_errors(self._output_name):
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

    def _report_misreadings(self, votes: Votes) -> None:
        """Print evidence that votes were misread, once."""
        command = click.get_current_context().command
        for found in find_misreadings(votes.codes, votes.classes):
            note = describe(Note(found.summary, () if found.hint is None else (found.hint,)), command)
            if note not in self._noted:
                click.echo(f"Note: {note}", err=True)
                self._noted.add(note)

    def _save(self, target: BinaryIO) -> None:
        """Write a checkpoint unless the last one is at the same position."""
        if self.checkpoint is None or self.position.lines == self._saved:
            return
        if self.output is not None:
            # Labels first: a power failure must not lose labels before the checkpoint.
            with add_path_to_errors(self.output):
                os.fsync(target.fileno())
        model = self.model if self.known.classes is not None and self.model.n_seen_ else None
        write_checkpoint(self.checkpoint, Checkpoint(self.options, self.position, self.known, model))
        self._saved = self.position.lines


def _write_all(target: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:  # without buffering, a signal may interrupt a write
        left = left[target.write(left) :]
    target.flush()


# ---------------------------------------------------------------------- checkpoints

_CHUNK = 1 << 20
_SOURCES = Field(
    "a list of names, or of positions",
    lambda value: list_of(TEXT).test(value) or (type(value) is list and value == [*range(len(value))]),
)
_FIELDS = {
    "options": OBJECT,
    "position": OBJECT,
    "sources": optional(_SOURCES),
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
        "sources": None if known.sources is None else list(known.sources),
        "classes": None if known.classes is None else encode_labels(known.classes),
        "model": None if state is None else state.meta,
    }
    with add_path_to_errors(path):
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
        sources = None if meta["sources"] is None else tuple(meta["sources"])
        classes = None if meta["classes"] is None else decode_labels(meta["classes"])
        known = Known(sources, classes)
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
        raise _wrong_output_error(path, "does not exist", position)
    with add_path_to_errors(path), ExitStack() as stack:
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
        raise _wrong_output_error(path, f"has {n:,} bytes", position)
    tail_is_labels = all(
        line.startswith(LABEL_START) or LABEL_START.startswith(line) for line in iter_lines(file, 1 << 16)
    )
    if checksum != position.written_checksum or not tail_is_labels:
        raise _wrong_output_error(path, "has different content", position)


def iter_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the start of every line, at most ``longest`` bytes of it."""
    is_start = True
    while line := file.readline(longest):
        if is_start:
            yield line
        is_start = line.endswith(b"\n")


def _wrong_output_error(path: str, how: str, position: Position) -> VoteFileError:
    return VoteFileError(
        f"The file {how}, but {position.written:,} bytes of labels were written before the checkpoint; it is "
        "not the output of this stream. Remove the checkpoint to start over.",
        path=path,
    )
