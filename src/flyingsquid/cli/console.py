"""The terminal: messages, tables, progress, errors in terms of options, and signals."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import numpy as np

from flyingsquid._table import progress_bar
from flyingsquid.exceptions import FlyingSquidError, Note

if TYPE_CHECKING:
    from flyingsquid.analysis import Comparison, PanelReport, Table
    from flyingsquid.files import VoteFile
    from flyingsquid.fits.diagnostics import Verdict

# Longer tables are cut; --json and the report show everything.
_MOST_ROWS = 60
# Work on fewer items than this shows no progress bar.
_LONG_WORK = 200_000
# Options whose name differs from that of the Python parameter, or that correspond to one of its values.
_OPTION_NAMES = {
    ("format", None): "format_",
    ("overwrite", True): "force",
    ("form", "wide"): "wide",
    ("item", False): "no_item",
}
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]  # Windows has no SIGHUP
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Console:
    """Destination of messages."""

    quiet: bool = False  # whether only errors are shown
    to_stderr: bool = False  # whether standard output is used for labels or JSON

    def echo(self, text: object = "") -> None:
        """Print one message, or a blank line."""
        if self.quiet:
            return
        # A terminal may not support every character of a name.
        encoding = getattr(sys.stderr if self.to_stderr else sys.stdout, "encoding", None) or "utf-8"
        shown = str(text).encode(encoding, "backslashreplace").decode(encoding)
        # Names and classes of a file may contain codes that a terminal would interpret.
        shown = "".join(c if c.isprintable() or c == "\n" else " " for c in shown)
        click.echo(shown, err=self.to_stderr)

    def note(self, note: Note | str) -> None:
        """Print an assumption or a warning."""
        text = describe(note, click.get_current_context().command) if isinstance(note, Note) else note
        self.echo(f"Note: {' '.join(text.split())}")

    def print_description(self, file: VoteFile) -> None:
        """Print a description of a file of votes, and the assumptions about it."""
        self.echo(f"{file.path}: {file.describe()}")
        for note in file.notes:
            self.note(note)

    def table(self, table: Table) -> None:
        """Print a table, cut if it is long."""
        rest = len(table.rows) - _MOST_ROWS
        if rest > 0:
            left_out = f"... and {rest:,} more rows; --json shows all of them"
            table = replace(table, rows=table.rows[:_MOST_ROWS], footnotes=(left_out, *table.footnotes))
        self.echo(table)

    def describe_fit(self, model: Any, verdict: Verdict | None = None) -> None:
        """Print method and verdict of a fitted model; by default its own verdict."""
        diagnostics: Any = getattr(model, "diagnostics_", None)
        if hasattr(diagnostics, "method"):
            reason = getattr(diagnostics, "reason", "")
            self.echo(f"Method: {diagnostics.method}" + (f" ({reason})" if reason else ""))
        verdict = verdict or getattr(diagnostics, "verdict", None)
        if verdict is not None:
            self.echo(f"Verdict: {verdict}")

    def describe_panel(self, panel: PanelReport) -> None:
        """Print the judges of a panel."""
        self.echo("\nJudges:")
        self.table(panel.table())

    @contextmanager
    def show_spinner(self, what: str) -> Iterator[None]:
        """Show a spinner on a terminal, for work of unknown length."""
        if self.quiet or not _is_terminal():
            yield
            return
        from rich.console import Console as RichConsole

        with RichConsole(stderr=True).status(what):
            yield

    def progress(self, parts: Iterable[T], what: str, total: int, size: Any) -> Iterator[T]:
        """Yield the parts with a progress bar on a terminal; ``size(part)`` is its number of items."""
        if self.quiet or total < _LONG_WORK or not _is_terminal():
            yield from parts
            return
        with progress_bar(what, total) as advance:
            for part in parts:
                yield part
                advance(size(part))


def _is_terminal() -> bool:
    """Return whether messages are shown on a terminal; a process may be started without standard error."""
    stream: Any = sys.stderr
    return stream is not None and bool(stream.isatty())


def describe(problem: FlyingSquidError | Note, command: click.Command | None) -> str:
    """Describe an error or a note on one line, in terms of the options of a command.

    Hints about parameters for which the command has no option are left out.
    """
    text = problem.summary
    at_fault = getattr(problem, "parameter", None)
    if at_fault is not None and (flag := _flag(at_fault, None, command)):
        text = f"Invalid value for {flag}: {text}"
    for hint in problem.hints:
        if flag := _flag(hint.parameter, hint.value, command):
            text += f" Use {flag} {hint.purpose}."
    return " ".join(text.split())


def _flag(parameter: str, value: Any, command: click.Command | None) -> str:
    """Return the option for a parameter, with its value; empty if the command has none."""
    name = _OPTION_NAMES.get((parameter, value if isinstance(value, (bool, str)) else None))
    name = name or _OPTION_NAMES.get((parameter, None), parameter)
    option = next((p for p in command.params if p.name == name), None) if command is not None else None
    if not isinstance(option, click.Option):
        return ""
    flag = option.opts[-1]
    if option.is_flag:
        return option.secondary_opts[-1] if value is False and option.secondary_opts else flag
    if value is None:
        return flag
    return f"{flag} {shlex.quote(','.join(map(str, value)) if isinstance(value, list) else str(value))}"


def describe_votes(file: VoteFile) -> dict[str, Any]:
    """Return the description of a file of votes as JSON values."""
    from flyingsquid.files.state import encode_labels

    command = click.get_current_context().command
    return {
        "path": file.path,
        "format": file.format,
        "form": file.form,
        "items": file.n_items,
        "sources": list(file.source_names),
        "classes": encode_labels(file.classes),
        "item": file.item_name,
        "gold": file.gold_name,
        "description": file.describe(),
        "notes": [describe(note, command) for note in file.notes],
    }


def balance_facts(model: Any) -> dict[str, Any]:
    """Return the class balance of a model and its 95% interval as JSON values; None if there are none."""
    facts = {}
    for name in ("class_balance", "class_balance_interval"):
        values = np.asarray(getattr(model, f"{name}_", np.nan), np.float64)
        facts[name] = values.tolist() if np.isfinite(values).all() else None
    return facts


def describe_features(model: Any) -> dict[str, Any] | None:
    """Return what features contributed to a model as JSON values; None without features."""
    effect = getattr(getattr(model, "diagnostics_", None), "features", None)
    return None if effect is None else asdict(effect)


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    values = {
        name: getattr(comparison, name)
        for name in ("n_items", "coverage", "ties", "differ", "n_gold", "gain", "gain_interval")
    }
    for side in ("model", "majority"):
        scores = getattr(comparison, side)
        values[side] = scores and {name: getattr(scores, name) for name in ("accuracy", "f1", "log_loss")}
    return values | {"sentence": comparison.sentence()}


# ---------------------------------------------------------------------- signals and pipes


class StoppedBySignalError(BaseException):
    """Request to stop by a signal. Not an Exception, so that no code handles it as a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP with ``handler`` inside the block, unless nohup ignores them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def raise_stopped(number: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising :class:`StoppedBySignalError`, so that temporary files are removed."""
    # A second signal during the cleanup must not interrupt it.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise StoppedBySignalError(number)


def leave_closed_pipe(ctx: click.Context) -> NoReturn:
    """Exit without a message after the reader of a pipe has closed it."""
    # Python would complain when it flushes standard output at exit, so that is redirected.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(128 + 13)  # SIGPIPE, by its number: Windows has no such signal
