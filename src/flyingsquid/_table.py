"""Printed output: small tables for summaries and explanations, and progress bars."""

from __future__ import annotations

import html
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from flyingsquid._values import plain_value
from flyingsquid.votes.codes import Label

Scalar: TypeAlias = str | int | float | bool | None

# Longer strings are cut when they are printed, but not in the data.
_WIDEST = 48
# A notebook or a prompt shows this many rows; print shows all.
_MOST_ROWS = 60


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Named columns of plain Python values.

    In the printed table, numbers are rounded, None and NaN are blank, and blank columns are left out.
    :meth:`to_dict` and :meth:`to_pandas` return all columns, unrounded.

    Attributes
    ----------
    columns : tuple of str
    rows : tuple of tuples
        One value per column.
    title : str
        Title above the printed table; may be empty.
    footnotes : tuple of str, printed below
    formats : tuple of str, or empty
        Format of the numbers of each column, such as ``".0%"``; ``""`` for four digits.
    headings : tuple of str, or empty
        Printed headings, if they are not ``columns``.

    Examples
    --------
    >>> table = Table(("source", "coverage"), (("links", 0.25), ("short", None)), formats=("", ".0%"))
    >>> table
    source  coverage
    links        25%
    short
    >>> table.to_dict()
    {'source': ['links', 'short'], 'coverage': [0.25, None]}
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    title: str = ""
    footnotes: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()

    @classmethod
    def of_columns(
        cls,
        columns: Mapping[str, tuple[Sequence[Scalar], str]],
        title: str = "",
        footnotes: tuple[str, ...] = (),
    ) -> Table:
        """Return a table from the values and the format of each column."""
        rows = tuple(zip(*(values for values, _ in columns.values()), strict=True))
        return cls(tuple(columns), rows, title, footnotes, tuple(spec for _, spec in columns.values()))

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self._text(len(self.rows))

    def __repr__(self) -> str:
        return self._text(_MOST_ROWS)

    def _repr_html_(self) -> str:
        head, body, right = self._cells(_MOST_ROWS)
        sides = ["right" if numeric else "left" for numeric in right]
        title = f"<caption>{html.escape(_printable(self.title))}</caption>" if self.title else ""
        lines = [_html_row("th", head, sides), *(_html_row("td", row, sides) for row in body)]
        notes = "".join(f"<p>{html.escape(_printable(note))}</p>" for note in self._notes(_MOST_ROWS))
        return f"<table>{title}{''.join(lines)}</table>{notes}"

    def to_dict(self) -> dict[str, list[Scalar]]:
        """Return the values of each column by its name, as JSON values; NaN becomes None."""
        return {
            column: [None if row[at] != row[at] else row[at] for row in self.rows]  # NaN
            for at, column in enumerate(self.columns)
        }

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with the same rows."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ImportError("to_pandas needs pandas. Run: pip install pandas") from error
        return pandas.DataFrame(self.to_dict(), columns=list(self.columns))

    def _text(self, most: int) -> str:
        head, body, right = self._cells(most)
        widths = [max(map(text_width, column)) for column in zip(head, *body, strict=True)]
        lines = [
            "  ".join(map(_padded, cells, widths, right)).rstrip()  # no spaces at the end of a line
            for cells in (head, *body)
        ]
        above = [_printable(self.title)] if self.title else []
        return "\n".join([*above, *lines, *map(_printable, self._notes(most))])

    def _cells(self, most: int) -> tuple[list[str], list[list[str]], list[bool]]:
        """Return headings, cells as strings, and which columns hold numbers, without blank columns."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        kept = [at for at, c in enumerate(columns) if not c or not all(map(_is_blank, c))] or [0]
        formats = self.formats or ("",) * len(self.columns)
        headings = self.headings or self.columns
        head = [_printable(headings[at]) for at in kept]
        body = [[_shown(row[at], formats[at]) for at in kept] for row in self.rows[:most]]
        right = [not any(isinstance(value, str) for value in columns[at]) for at in kept]
        return head, body, right

    def _notes(self, most: int) -> tuple[str, ...]:
        rest = len(self.rows) - most
        return ((f"... {rest:,} more rows; print() shows them",) if rest > 0 else ()) + self.footnotes


def facts_table(title: str, facts: Mapping[str, Scalar]) -> Table:
    """Return facts that are not blank as a table of two columns, for notebooks."""
    rows = tuple((name, _shown(value, "")) for name, value in facts.items() if not _is_blank(value))
    return Table(("fact", "value"), rows, title)


class Tabular(ABC):
    """Base class of results that are printed as a table."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> Table:
        """Return the result as a table."""

    def to_pandas(self) -> Any:
        """Return the rows of the table as a ``pandas.DataFrame``."""
        return self.table().to_pandas()

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def as_scalar(label: Label) -> Scalar:
    """Return a class label as a table cell: plain values and None unchanged, others as strings."""
    plain = plain_value(label)
    return plain if plain is None or isinstance(plain, (str, int, float)) else str(plain)


def _is_blank(value: Scalar) -> bool:
    return value is None or value == "" or value != value  # noqa: PLR0124  # NaN


def _shown(value: Scalar, spec: str) -> str:
    if value is None or _is_blank(value):
        return ""
    if isinstance(value, (str, bool)):
        text = _printable(str(value))
        return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
    return format(value, spec or ",.4g")


def _printable(text: str) -> str:
    """Return a string on one line, without control codes that a terminal would interpret."""
    return "".join(c if c.isprintable() else " " for c in text)


def text_width(text: str) -> int:
    """Return the number of columns that a string takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def _html_row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    inner = "".join(
        f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{inner}</tr>"


# ---------------------------------------------------------------------- progress


@contextmanager
def progress_bar(
    description: str, total: int | None, *, enabled: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error; call the context with the number of items that are finished."""
    if not enabled:
        yield lambda _: None
        return
    # Imported here because rich takes a third of a second.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n_done: bar.advance(task, n_done)
