"""csv and tsv, with Python's own csv module: one parser, the same with and without pyarrow."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.coding import MISSING_TEXTS
from flyingsquid.formats.streams import Input, one_line, text_blocks

_CELLS = 1 << 14
"""Cells of a block. Larger ones keep so many objects alive that collecting garbage takes over."""
_DELIMITERS = {"csv": ",", "tsv": "\t"}


class DelimitedTable:
    """Columns of texts, a block of rows at a time.

    Attributes
    ----------
    names : names of the columns
    notes : what was assumed
    """

    plain_text = True

    def __init__(self, source: Input, format: str, header: bool | None) -> None:  # as in open_votes
        self._source = source
        self.notes: list[str] = []
        self._delimiter = _DELIMITERS[format]
        first = next(iter(self._rows(self._first_text())), None)
        if first is None:
            raise VoteFileError("the file holds no lines")
        if header is None:
            header = not all(_is_number_or_blank(cell) for cell in first)
            if not header:
                self.notes.append(
                    "the first line holds numbers and was read as votes, not as names; "
                    "header=True (--header) says otherwise"
                )
        self._has_header = header
        self.names = list(first) if header else [f"source {j}" for j in range(len(first))]
        self.has_names = header

    def row_blocks(self) -> Iterator[dict[str, Sequence[str]]]:
        """Columns by name."""
        width = len(self.names)
        most = max(1, _CELLS // width)
        lines = itertools.chain.from_iterable(io.StringIO(t, newline="") for t in text_blocks(self._source))
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        try:
            skipped = not self._has_header
            while True:
                line = reader.line_num + 1
                rows = list(itertools.islice(reader, most))
                if not rows:
                    return
                if not skipped:
                    header = next((i for i, row in enumerate(rows) if row), None)
                    if header is None:
                        continue
                    line += _lines(rows[: header + 1])
                    rows, skipped = rows[header + 1 :], True
                if not all(map(width.__eq__, map(len, rows))):
                    rows = _require_rectangular(rows, width, line)
                if rows:
                    yield dict(zip(self.names, zip(*rows, strict=True), strict=True))
        except csv.Error as error:
            raise VoteFileError(
                f"line {reader.line_num}: {one_line(error)}; a quote is not closed, or this is no "
                f"{'tsv' if self._delimiter == chr(9) else 'csv'}"
            ) from error

    def _first_text(self) -> str:
        for text in text_blocks(self._source):
            if text.strip("\r\n"):
                line = text.lstrip("\r\n").split("\n", 1)[0]
                others = [d for d in (";", "\t", ",", "|") if d != self._delimiter and d in line]
                if self._delimiter not in line and others:
                    self._delimiter = others[0]
                    self.notes.append(f"columns are separated by {others[0]!r}, as the first line shows")
                return text
        return ""

    def _rows(self, text: str) -> Iterator[list[str]]:
        try:
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter):
                if row:
                    yield row
        except csv.Error as error:
            raise VoteFileError(f"the first line cannot be read: {one_line(error)}") from error


def _is_number_or_blank(cell: str) -> bool:
    if cell.strip().lower() in MISSING_TEXTS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lines(rows: list[list[str]]) -> int:
    """How many lines of the file these rows take."""
    return sum(1 + sum(cell.count("\n") for cell in row) for row in rows)


def _require_rectangular(rows: list[list[str]], width: int, line: int) -> list[list[str]]:
    """The rows without blank lines, all of one width."""
    for i, row in enumerate(rows):
        if row and len(row) != width:
            at = line + _lines(rows[:i])
            raise VoteFileError(
                f"line {at} has {len(row)} cells, and the first line {width}; it is cut off, or holds a "
                "separator that is not quoted"
            )
    return [row for row in rows if row]


def writer(file: TextIO, format: str) -> Any:  # as in open_votes
    """A csv writer of the given format."""
    return csv.writer(file, delimiter=_DELIMITERS[format], lineterminator="\n")
