"""Parse csv, tsv and JSON into blocks of columns.

csv is parsed by Python's own csv module, so that the result does not depend on pyarrow.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.decoded_size import MOST_BYTES, too_large_error
from flyingsquid.files.inputs import DELIMITERS, Input, one_line, text_blocks
from flyingsquid.votes.conventions import MISSING_TEXTS

Columns: TypeAlias = Mapping[str, Sequence[Any]]
# Cells of a block. Larger blocks keep so many objects alive that garbage collection dominates.
_CELLS = 1 << 14
_VOTES = "votes"
# An escape in JSON: a complete pair of surrogates, half of one, or any other.
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
_PLAIN = (str, int, float, bool, type(None))


class Block(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    columns : mapping of str to sequence
        The columns that may hold votes.
    fields : mapping of str to sequence
        The columns that may hold identifiers and gold labels: the same mapping, unless votes are nested.
    """

    columns: Columns
    fields: Columns

    @property
    def n_rows(self) -> int:
        return len(next(itertools.chain(self.columns.values(), self.fields.values())))


class DelimitedTable:
    """A csv or tsv file.

    Attributes
    ----------
    names : list of str
    has_names : bool
        Whether the first line holds the names; otherwise they are positions.
    notes : list of Note
        Assumptions about the file.
    """

    plain_text = True
    nested = False

    def __init__(self, source: Input, format: str, header: bool | None) -> None:  # as in open_votes
        self._source, self._format = source, format
        self.notes: list[Note] = []
        first = self._first_row(DELIMITERS[format])
        if header is None:
            header = not all(_is_number_or_blank(cell) for cell in first)
            if not header:
                message = "The first line contains only numbers and is read as votes, not as names."
                self.notes.append(Note(message, (Hint("header", "if it contains names", True),)))
        self.has_names = header
        self.names = first if header else [f"source {j}" for j in range(len(first))]

    def _first_row(self, delimiter: str) -> list[str]:
        """Read the first row that is not blank, and detect the delimiter."""
        for text in text_blocks(self._source):
            line = text.lstrip("\r\n").split("\n", 1)[0]
            if not line:
                continue
            others = [d for d in (";", "\t", ",", "|") if d != delimiter and d in line]
            if delimiter not in line and others:
                delimiter = others[0]
                self.notes.append(Note(f"Columns are separated by {delimiter!r}, as in the first line."))
            self._delimiter = delimiter
            try:
                for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                    if row:
                        return row
            except csv.Error as error:
                raise VoteFileError(f"The first line cannot be parsed: {one_line(error)}.") from error
        raise VoteFileError("The file contains only blank lines.")

    def row_blocks(self) -> Iterator[Block]:
        """Yield the rows below the header, some at a time."""
        width = len(self.names)
        most = max(1, _CELLS // width)
        lines = itertools.chain.from_iterable(io.StringIO(t, newline="") for t in text_blocks(self._source))
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        try:
            if self.has_names:
                next((row for row in reader if row), None)
            while True:
                line = reader.line_num + 1
                rows = list(itertools.islice(reader, most))
                if not rows:
                    return
                if not all(map(width.__eq__, map(len, rows))):
                    rows = _without_blank_rows(rows, width, line)
                if rows:
                    columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))
                    yield Block(columns, columns)
        except csv.Error as error:
            raise VoteFileError(
                f"The text is not valid {self._format}, or a quote is not closed: {one_line(error)}.",
                line=reader.line_num,
            ) from error


def _is_number_or_blank(cell: str) -> bool:
    if cell.strip().lower() in MISSING_TEXTS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _count_lines(rows: list[list[str]]) -> int:
    """Count the lines of the file that rows span; a quoted cell may contain line breaks."""
    return sum(1 + sum(cell.count("\n") for cell in row) for row in rows)


def _without_blank_rows(rows: list[list[str]], width: int, line: int) -> list[list[str]]:
    """Drop blank rows and require that all others have ``width`` cells."""
    for i, row in enumerate(rows):
        if row and len(row) != width:
            raise VoteFileError(
                f"The row has {format_count(len(row), 'cell')}, but the first row has {width}; it is "
                "truncated, or a delimiter is not quoted.",
                line=line + _count_lines(rows[:i]),
            )
    return [row for row in rows if row]


# ---------------------------------------------------------------------- JSON


class JsonTable:
    """JSON lines or a JSON list, with one record per item or per vote. Columns may appear on any row.

    Parameters
    ----------
    records : sequence of values, or None to read JSON lines from ``source``

    Attributes
    ----------
    nested : bool
        Whether the votes of a record are in its field ``"votes"``.
    has_names : bool
        Whether sources have names; otherwise they are positions in a list.
    """

    plain_text = False
    names = None  # those of the first block

    def __init__(self, records: Sequence[Any] | None, source: Input) -> None:
        self._records, self._source = records, source
        self.notes: list[Note] = []
        first = next((found for _, found in self.records()), None)
        if first is None:
            raise VoteFileError("The file contains no records.")
        votes = first.get(_VOTES) if isinstance(first, dict) else None
        self.nested = isinstance(votes, (dict, list))
        votes = votes if self.nested else first
        self.has_names = not isinstance(votes, list) and isinstance(first, dict)
        self._width = len(votes) if isinstance(votes, list) else 0

    def records(self) -> Iterator[tuple[int, Any]]:
        """Yield every record with the number of its line, or in a list its position, from 1."""
        if self._records is not None:
            yield from enumerate(self._records, 1)
            return
        number = 0
        for text in text_blocks(self._source):
            for line in io.StringIO(text, newline="\n"):
                number += 1
                if not line.isspace():
                    yield number, _parse_line(line, number)

    def row_blocks(self) -> Iterator[Block]:
        """Yield the records as columns, some at a time."""
        votes: list[dict[str, Any]] = []
        fields: list[dict[str, Any]] = []
        cells = 0
        for number, found in self.records():
            try:
                inner, outer = self._row(found)
            except VoteFileError as error:
                raise self._at(number, error) from error.__cause__
            votes.append(inner)
            fields.append(outer)
            cells += len(inner) + (len(outer) if self.nested else 0)
            if cells >= _CELLS:
                yield self._block(votes, fields)
                votes, fields, cells = [], [], 0
        if votes:
            yield self._block(votes, fields)

    def _at(self, number: int, error: VoteFileError) -> VoteFileError:
        if self._records is None:
            error.line = number
            return error
        return VoteFileError(f"Record {number}: {error.message}", hints=error.hints)

    def _block(self, votes: list[dict[str, Any]], fields: list[dict[str, Any]]) -> Block:
        columns = _columns(votes)
        return Block(columns, _columns(fields) if self.nested else columns)

    def _row(self, found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the votes of a record, and the fields that may identify it."""
        if not isinstance(found, (dict, list)):
            raise VoteFileError(f"A record must be an object or a list of votes; got {format_value(found)}.")
        votes = found.get(_VOTES) if self.nested and isinstance(found, dict) else found
        if not isinstance(votes, dict if self.has_names else list):
            wanted = "an object with names" if self.has_names else "a list"
            where = f" in {_VOTES!r}" if self.nested else ""
            raise VoteFileError(
                f"The votes{where} must be {wanted}, as in the first record; got {format_value(votes)}."
            )
        if isinstance(votes, list):
            if len(votes) != self._width:
                raise VoteFileError(
                    f"The record has {format_count(len(votes), 'vote')}, but the first has {self._width}; "
                    "write null for no vote."
                )
            votes = {f"source {j}": vote for j, vote in enumerate(votes)}
        for name, value in votes.items():
            if not isinstance(value, _PLAIN):
                raise VoteFileError(
                    f"Votes must be strings, integers, booleans or null; got {format_value(value)} in "
                    f"{format_value(name)}."
                )
        if not self.nested:
            return votes, votes
        fields = found.items() if isinstance(found, dict) else ()
        return votes, {name: value for name, value in fields if name != _VOTES and isinstance(value, _PLAIN)}


def _columns(rows: list[dict[str, Any]]) -> Columns:
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return {name: [row.get(name) for row in rows] for name in names}


class _ContentError(ValueError):
    """JSON that can be parsed and still has no usable value; the message is the reason."""


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build the object of these pairs of JSON, in which no key may occur twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _ContentError(f"The key {format_value(repeated)} occurs twice in one object.")
    return found


def _parse_constant(name: str) -> None:
    if name != "NaN":
        raise _ContentError(f"{name} is not a valid number in JSON.")


def _parse_float(digits: str) -> float:
    found = float(digits)
    if math.isinf(found):
        raise _ContentError(f"The number {digits[:20]} is too large for a float.")
    return found


_decode: Callable[[str], Any] = json.JSONDecoder(
    parse_constant=_parse_constant, parse_float=_parse_float, object_pairs_hook=_require_unique_keys
).decode


def parse_json(text: str) -> Any:
    """Parse JSON strictly.

    NaN is null. Repeated keys, infinite numbers and lone surrogates raise an error, because they have no
    meaning or cannot be written again.

    Raises
    ------
    VoteFileError
    """
    try:
        found = _decode(text)
    except RecursionError as error:
        raise VoteFileError("The JSON is nested too deeply.") from error
    except _ContentError as error:
        raise VoteFileError(str(error)) from error
    except ValueError as error:
        raise VoteFileError(f"The text is not valid JSON or is truncated: {one_line(error)}.") from error
    if "\\ud" in text or "\\uD" in text:
        _require_no_lone_surrogate(text)
    return found


def _require_no_lone_surrogate(text: str) -> None:
    """Raise an error for half of a pair of escapes such as ``\\ud83d\\ude00``; no encoding can store it."""
    for escape in _ESCAPE.finditer(text):
        if escape["half"]:
            column = escape.start() - text.rfind("\n", 0, escape.start())
            raise VoteFileError(
                f"Column {column:,}: {escape[0]} is half of a surrogate pair, which is not a character."
            )


def _parse_line(line: str, number: int) -> Any:
    try:
        return parse_json(line)
    except VoteFileError as error:
        error.line = number
        raise


def read_json(source: Input, limit: int = MOST_BYTES) -> Any:
    """Parse a whole JSON document of at most ``limit`` bytes."""
    parts, size = [], 0
    for part in text_blocks(source):
        size += len(part)
        if size > limit:
            raise too_large_error("The JSON document takes more than", limit, limit)
        parts.append(part)
    return parse_json("".join(parts))
