"""What is said on the way: messages, tables, progress. Results go to standard output unless labels do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flyingsquid.analysis import Table
    from flyingsquid.formats import VoteFile

# Tables of more sources are cut; --json and the report have all.
_MOST_ROWS = 60
# Shorter work needs no bar.
_LONG_WORK = 200_000
T = TypeVar("T")
# "item= (--item)": the library names the option of its function, and then that of the command.
_BOTH_WAYS = re.compile(r"\b\w+=(?:\([^()]*\)|\[[^\]]*\]|'[^']*'|[\w.]*) \((--[^()]*)\)")
# "(header=False, --no-header, if ...)"
_INSIDE = re.compile(r"\b\w+=\w+, (--[\w-]+)")


@dataclass(frozen=True, slots=True)
class Voice:
    """Where messages go.

    Attributes
    ----------
    quiet : whether nothing but errors is said
    to_stderr : whether standard output is taken by labels or JSON
    """

    quiet: bool = False
    to_stderr: bool = False

    def say(self, text: object = "") -> None:
        """One message, or a blank line."""
        if not self.quiet:
            click.echo(_encodable(str(text), self.to_stderr), err=self.to_stderr)

    def note(self, text: str) -> None:
        """Something that was assumed or noticed."""
        self.say(f"Note: {in_options(text)}")

    def introduce(self, file: VoteFile) -> None:
        """What a file of votes was understood to be, and what was assumed for that."""
        self.say(f"{file.path}: {file.describe()}")
        for note in file.notes:
            self.note(note)

    def table(self, table: Table) -> None:
        """A table, cut where it is long."""
        rest = len(table.rows) - _MOST_ROWS
        if rest > 0:
            left_out = f"... and {rest:,} more; --json gives all"
            table = replace(table, rows=table.rows[:_MOST_ROWS], footnotes=(left_out, *table.footnotes))
        self.say(table)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A sign of life on a terminal, for work of unknown length."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield

    def progress(self, parts: Iterable[T], what: str, total: int, size: Any) -> Iterator[T]:
        """The parts as they come, with a bar on a terminal; ``size(part)`` is how many items a part has."""
        if self.quiet or total < _LONG_WORK or not sys.stderr.isatty():
            yield from parts
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            for part in parts:
                yield part
                bar.advance(task, size(part))


def in_options(text: str) -> str:
    """A message of the library on one line, in words of the command line.

    >>> in_options("ignore=['text'] (--ignore) leaves it out, item= (--item) says otherwise")
    '--ignore leaves it out, --item says otherwise'
    """
    plain = " ".join(text.split()).removesuffix(". See diagnostics_")
    return _INSIDE.sub(r"\1", _BOTH_WAYS.sub(r"\1", plain))


def _encodable(text: str, to_stderr: bool) -> str:
    """The text as the terminal can show it: a name in Chinese must not stop the work."""
    encoding = getattr(sys.stderr if to_stderr else sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
