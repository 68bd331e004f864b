"""``flyingsquid stream``: lines of votes in, lines of labels out, for as long as they come."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import Any, BinaryIO

import click

from flyingsquid._values import told
from flyingsquid.cli.files import FILE, read_list
from flyingsquid.cli.fitting import method_option
from flyingsquid.cli.stopping import StoppedBySignalError, leave_closed_pipe
from flyingsquid.cli.stream_checkpoint import Checkpoint, Position, read_checkpoint
from flyingsquid.cli.stream_lines import Known, Rules
from flyingsquid.cli.stream_loop import Signals, Stream, open_output, skip_input
from flyingsquid.exceptions import FlyingSquidError, OptionError
from flyingsquid.models import OnlineLabelModel
from flyingsquid.models.validation import read_classes
from flyingsquid.votes.codes import Label

_EVERY = 10_000
_CHOICE = click.Choice(["error", "add"])


def _read_window(_ctx: click.Context, _param: click.Parameter, value: str) -> int | str:
    if value == "auto":
        return value
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise click.BadParameter(f"{told(value)} is no number of items, 1 or more, and not auto")
    return int(value)


# fmt: off
@click.command()
@click.argument("votes", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("-o", "--output", type=FILE, help="Write labels to this file instead of standard output.")
@click.option("--window", callback=_read_window, default="10000", show_default=True, metavar="N|auto",
              help="How many of the latest items count.")
@click.option("--decay", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              help="Instead of a window: an item of age t weighs DECAY^t.")
@click.option("--classes", callback=read_list, metavar="A,B,...",
              help="All classes; one number K stands for 0 to K-1. Default: those in the first block.")
@click.option("--sources", callback=read_list, metavar="A,B,...",
              help="All named sources. Default: those in the first block.")
@click.option("--class-balance", callback=read_list, metavar="P,Q,...",
              help="Probabilities of the classes, in their order.")
@method_option
@click.option("--refresh", type=click.IntRange(1),
              help="Items between two estimates. Default: a quarter of the window, or 1,000.")
@click.option("--block", type=click.IntRange(1), default=100, show_default=True,
              help="Lines that are learned, then labelled, together. 1 answers every line at once.")
@click.option("--id", "id_field", default="id", show_default=True, metavar="FIELD",
              help="The field of a line that identifies its item.")
@click.option("--new-sources", type=_CHOICE, default="error", show_default=True,
              help="What to do with a source that was not there before.")
@click.option("--new-classes", type=_CHOICE, default="error", show_default=True,
              help="What to do with a class that was not there before.")
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
              help="What to do with a line that cannot be read.")
@click.option("--checkpoint", type=FILE, metavar="PATH",
              help="Go on from this file if it is there, and keep it up to date.")
@click.option("--every", type=click.IntRange(1), metavar="N",
              help="Lines between two checkpoints. Default: 10,000.")
@click.option("--continued", is_flag=True, help="The input begins where the checkpoint is, not at its start.")
@click.option("--position", is_flag=True, help="Show where the checkpoint is, and exit.")
@click.pass_context
def stream(
    ctx: click.Context,
    /,
    votes: str,
    output: str | None,
    block: int,
    id_field: str,
    on_error: str,
    checkpoint: str | None,
    every: int | None,
    continued: bool,
    position: bool,
    **options: Any,
) -> None:
    """Label a stream of votes, under drift, without gold labels.

    VOTES is a file of JSON lines, or - for standard input (the default). A line is an object of
    votes by source, {"links": "spam", "short": null}, with or without a field that identifies the
    item; or such an object or a list in a field "votes", {"id": 7, "votes": ["spam", null]}, whose
    other fields are passed over; or a list of votes. null and -1 abstain, and so does a source that
    is missing from an object. For every line, in order, one line is written:

    \b
      {"id": 7, "label": "spam", "probabilities": {"ham": 0.03, "spam": 0.97}}

    The id is that of the line, or else its number. Lines are learned, then labelled, in blocks of
    --block lines, so that labels depend on the lines and not on when they came; a block waits until
    it is full or the input ends.

    With --checkpoint and --output, a run that was killed and is started again with the same input and
    options writes what an uninterrupted run writes, nothing lost or doubled: labels after the last
    checkpoint are cut off and written again. Standard output cannot be cut, so there labels after the
    last checkpoint come twice. More lines may have been appended meanwhile.

    Exit codes: 0 done, 1 an error, said in one line, 2 wrong usage, 130 SIGINT and 143 SIGTERM (a
    checkpoint was written; lines of an unfinished block have no label yet), 141 standard output was closed.

    \b
    Examples:
      flyingsquid stream votes.jsonl -o labels.jsonl --checkpoint run.fsq
      tail -f votes.jsonl | flyingsquid stream --block 1 --sources links,short --classes ham,spam
    """
    if checkpoint is None and (position or continued or every is not None):
        raise click.UsageError("--every, --position and --continued need --checkpoint.")
    if position and checkpoint is not None:
        _show_position(checkpoint)
        return
    _require_different_files(votes, output, checkpoint)
    model = _new_model(options)
    start = _new_start(options, model, block=block, id_field=id_field, is_file=output is not None)
    is_resumed = False
    if checkpoint is not None and os.path.exists(checkpoint):
        start, is_resumed = _resume(checkpoint, start.options), True
    run = Stream(
        start.model or model,
        start.known,
        start.position,
        start.options,
        Rules(id_field, options["new_sources"] == "add", options["new_classes"] == "add"),
        block,
        on_error == "skip",
        checkpoint,
        every or _EVERY,
    )
    _run(ctx, run, votes, output, is_resumed=is_resumed, is_continued=continued)
# fmt: on


def _run(
    ctx: click.Context, run: Stream, votes: str, output: str | None, *, is_resumed: bool, is_continued: bool
) -> None:
    signals = Signals()
    with ExitStack() as stack:
        stack.enter_context(signals.caught())
        try:
            source = _open_input(votes, stack)
            if is_resumed and not is_continued:
                signals.wait_for(lambda: skip_input(source, run.position))
            target: BinaryIO = sys.stdout.buffer
            if output is not None:
                target = stack.enter_context(open_output(output, run.position.written, is_resumed))
            end = run.run(source, target, signals, is_file=output is not None)
        except StoppedBySignalError as stop:
            at = f"after line {run.position.lines:,}"
            kept = f"; {run.checkpoint} says so" if run.checkpoint else ""
            click.echo(f"stopped by {stop} {at}{kept}", err=True)
            ctx.exit(128 + stop.number)
        except BrokenPipeError:
            leave_closed_pipe(ctx)
    if end.skipped:
        click.echo(f"{end.skipped:,} of {end.lines:,} lines skipped", err=True)


def _new_model(options: dict[str, Any]) -> OnlineLabelModel:
    """A model by the options of the command; what it refuses is wrong usage."""
    try:
        balance = None if options["class_balance"] is None else [float(p) for p in options["class_balance"]]
    except ValueError as error:
        raise click.UsageError(f"--class-balance: {error}; numbers between commas are needed") from error
    model = OnlineLabelModel(
        options["window"],
        decay=options["decay"],
        method=options["method"],
        class_balance=balance,
        refresh=options["refresh"],
        classes=_read_classes(options["classes"]),
        new_sources=options["new_sources"],
        new_classes=options["new_classes"],
    )
    try:
        model.check_options()
        model.classes = read_classes(model.classes, None)
    except FlyingSquidError as error:
        raise click.UsageError(str(error)) from error
    return model


def _new_start(
    options: dict[str, Any], model: OnlineLabelModel, *, block: int, id_field: str, is_file: bool
) -> Checkpoint:
    """A stream that has not begun."""
    names = None if options["sources"] is None else tuple(options["sources"])
    if names is not None and len(set(names)) != len(names):
        raise click.UsageError("--sources names a source twice.")
    classes = None if model.classes is None else tuple(model.classes)
    known = Known(names, None if names is None else len(names), classes)
    return Checkpoint({**options, "block": block, "id": id_field, "output": is_file}, Position(), known, None)


def _read_classes(parts: list[str] | None) -> tuple[Label, ...] | None:
    """Classes as a user lists them: numbers where all are numbers, else texts."""
    if parts is None:
        return None
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        return tuple(parts)
    return tuple(range(numbers[0])) if len(numbers) == 1 else tuple(numbers)


def _resume(path: str, options: dict[str, Any]) -> Checkpoint:
    """The checkpoint at ``path``, refused where its options are not those of this call."""
    found = read_checkpoint(path)
    for name in sorted(found.options.keys() | options.keys()):
        before, now = found.options.get(name), options.get(name)
        if before != now:
            option = "--" + name.replace("_", "-")
            raise OptionError(
                f"{path} was written with {option} {_shown(before)}, and this call has {_shown(now)}; "
                "give the same options, or another checkpoint"
            )
    return found


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "set" if value else "not set"
    return ",".join(value) if isinstance(value, list) else str(value)


def _show_position(checkpoint: str) -> None:
    at = read_checkpoint(checkpoint).position
    click.echo(f'{{"lines": {at.lines}, "bytes": {at.bytes}, "written": {at.written}}}')


def _open_input(votes: str, stack: ExitStack) -> BinaryIO:
    return sys.stdin.buffer if votes == "-" else stack.enter_context(open(votes, "rb"))


def _require_different_files(*paths: str | None) -> None:
    """Refuse to write over what is read, and labels into a device that cannot be cut."""
    there = [path for path in paths if path is not None and path != "-"]
    seen = {os.path.realpath(path) for path in there}
    if len(seen) != len(there):
        raise click.UsageError("VOTES, --output and --checkpoint must be different files.")
    output = paths[1]
    if output is not None and os.path.exists(output) and not os.path.isfile(output):
        raise click.UsageError(f"--output {output} is no regular file; use standard output for that.")
