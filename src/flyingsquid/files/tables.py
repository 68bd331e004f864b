"""Tables of text, csv, tsv and JSON: blocks of columns, and their votes in wide or long form.

csv is parsed by Python's own csv module, so that the result does not depend on pyarrow.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_null
from flyingsquid.exceptions import Hint, Note, VoteFileError, VotesError
from flyingsquid.files.coding import Coding, Numbering, Survey, classify
from flyingsquid.files.columns import (
    CHOOSE_SOURCES,
    MOST_VALUES,
    ReadOptions,
    Roles,
    assign_roles,
    nested_roles,
    not_votes_error,
    require_distinct,
    require_ids,
)
from flyingsquid.files.inputs import DELIMITERS, Input, one_line, parse_json, text_blocks
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.conventions import (
    MOST_DISTINCT,
    format_distinct,
    is_free_text,
    is_gold_name,
    is_missing_text,
)
from flyingsquid.votes.frames import as_identifiers
from flyingsquid.votes.longform import build_codes
from flyingsquid.votes.structure import Structure, read_calls

Columns: TypeAlias = Mapping[str, Sequence[Any]]
# Cells of a block. Larger blocks keep so many objects alive that garbage collection dominates.
_CELLS = 1 << 14
_VOTES = "votes"
_PLAIN = (str, int, float, bool, type(None))


class Block(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    columns : mapping of str to sequence
        The columns that may hold votes.
    fields : mapping of str to sequence
        The columns that may hold identifiers and gold labels: the same mapping, unless votes are nested.
    n_rows : int
    """

    columns: Columns
    fields: Columns
    n_rows: int


class RowTable(ABC):
    """A file of rows, one per item or per vote, for :func:`read_table`.

    Attributes
    ----------
    plain_text : bool
        Whether all values are strings, so that numbers have to be recognized.
    names : list of str, or None for those of the first block
    has_names : bool
        Whether the file names its sources; otherwise names are positions.
    nested : bool
        Whether the votes of an item are in a field of their own, apart from its identifier.
    notes : tuple of Note
        Assumptions about the file.
    """

    plain_text: ClassVar[bool]
    names: list[str] | None = None
    has_names = True
    nested = False
    notes: tuple[Note, ...] = ()

    @abstractmethod
    def row_blocks(self) -> Iterator[Block]:
        """Yield the rows, some at a time. It is called more than once."""


class DelimitedTable(RowTable):
    """A csv or tsv file. Without names in the first line, they are positions."""

    plain_text = True
    names: list[str]

    def __init__(self, source: Input, format: str, header: bool | None) -> None:  # as in open_votes
        self._source, self._format = source, format
        first = self._first_row(DELIMITERS[format])
        if header is None:
            header = not all(
                is_missing_text(cell) or classify(cell, plain_text=True)[0] in ("integer", "fraction")
                for cell in first
            )
            if not header:
                message = "The first line contains only numbers and is read as votes, not as names."
                self.notes += (Note(message, (Hint("header", "if it contains names", True),)),)
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
                self.notes += (Note(f"Columns are separated by {delimiter!r}, as in the first line."),)
            self._delimiter = delimiter
            try:
                for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                    if row:
                        return row
            except csv.Error as error:
                raise VoteFileError(f"The first line cannot be parsed: {one_line(error)}.") from error
        raise VoteFileError("The file contains only blank lines.")

    def row_blocks(self) -> Iterator[Block]:
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
                    yield Block(columns, columns, len(rows))
        except csv.Error as error:
            raise VoteFileError(
                f"The text is not valid {self._format}, or a quote is not closed: {one_line(error)}.",
                line=reader.line_num,
            ) from error


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


class JsonTable(RowTable):
    """JSON lines or a JSON list, with one record per item or per vote. Columns may appear on any row.

    Parameters
    ----------
    records : sequence of values, or None to read JSON lines from ``source``
    source : Input
    """

    plain_text = False

    def __init__(self, records: Sequence[Any] | None, source: Input) -> None:
        self._records, self._source = records, source
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
        columns = columns_of(votes)
        return Block(columns, columns_of(fields) if self.nested else columns, len(votes))

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


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of rows, None where a row has no value."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return {name: [row.get(name) for row in rows] for name in names}


def _parse_line(line: str, number: int) -> Any:
    try:
        return parse_json(line)
    except VoteFileError as error:
        error.line = number
        raise


# ---------------------------------------------------------------------- votes of a table


def read_table(
    table: RowTable, options: ReadOptions, *, in_memory: int = 1 << 26
) -> tuple[Roles, WideVotes | LongVotes]:
    """Read all of a table once, in wide or long form.

    Votes in wide form that take more than ``in_memory`` bytes are kept in a temporary file.
    """
    blocks = table.row_blocks()
    first = next(blocks, None)
    if first is None:
        raise VoteFileError("The file contains a header, but no rows.")
    roles = _roles(table, first, options)
    votes: WideVotes | LongVotes
    if roles.form == "long":
        has_gold = roles.gold is not None
        votes = LongVotes(
            plain_text=table.plain_text,
            has_gold=has_gold,
            duplicates=options.duplicates,
            panel=tuple(roles.panel),
        )
        for block in itertools.chain([first], blocks):
            votes.add(*_triples(block, roles))
    else:
        votes = WideVotes(table, roles, options, in_memory)
        for block in itertools.chain([first], blocks):
            votes.add(block)
    votes.finish()
    return replace(roles, notes=(*table.notes, *roles.notes)), votes


def _roles(table: RowTable, block: Block, options: ReadOptions) -> Roles:
    if table.nested:
        return nested_roles(list(block.columns), list(block.fields), options)
    if not table.has_names and options.item is None:
        options = replace(options, item=False)
    return assign_roles(table.names or list(block.columns), options, list(block.columns.values()))


def _triples(block: Block, roles: Roles) -> tuple[Any, Any, Any, Sequence[Any] | None]:
    """Return the items, sources, labels and gold labels of a block."""
    items, sources, labels = (
        block.columns.get(str(name)) for name in (roles.item, roles.source, roles.label)
    )
    if items is None or sources is None or labels is None:
        raise VoteFileError("Every record must have an item, a source and a label.")
    if roles.panel:
        blank = [None] * block.n_rows
        sources = list(
            zip(*(block.columns.get(column, blank) for column in roles.panel.values()), strict=True)
        )
    return items, sources, labels, None if roles.gold is None else block.columns.get(roles.gold)


class WideVotes:
    """Votes of a text table in wide form, as small integers in a temporary file.

    Columns may first appear in any block; earlier rows abstain there.

    Parameters
    ----------
    table : RowTable
    roles : Roles
        The columns of the first block.
    options : ReadOptions
    in_memory : int
        Bytes that are kept in memory before the votes move to a temporary file.

    Attributes
    ----------
    source_names : tuple of str, or None if sources have only positions
    n_sources, n_items : int
    """

    source_names: tuple[str, ...] | None = None
    n_sources = n_items = 0

    def __init__(self, table: RowTable, roles: Roles, options: ReadOptions, in_memory: int) -> None:
        self._table, self._roles, self._options = table, roles, options
        self._has_gold = roles.gold is not None
        self._columns = list(roles.sources)
        self._numbers = Numbering()
        self._file = tempfile.SpooledTemporaryFile(in_memory, prefix="flyingsquid-")  # noqa: SIM115
        # Not __del__: in a reference cycle, such as that of a caught error, the file could go first.
        weakref.finalize(self, self._file.close)
        self._starts: list[int] = []

    def add(self, block: Block) -> None:
        """Append the rows of a block."""
        if self._table.names is None and self._options.sources is None:
            self._columns += self._new_sources(block)
        nothing = [None] * block.n_rows
        ids = None if self._roles.item is None else block.fields.get(self._roles.item, nothing)
        if ids is not None:
            require_ids(ids, self.n_items)
        columns = [block.columns.get(name, nothing) for name in self._columns]
        names = [*self._columns]
        if self._roles.gold is not None:
            columns.append(block.fields.get(self._roles.gold, nothing))
            names.append("gold labels")
        if not self._table.plain_text:
            _require_one_type(columns, names)
        matrix = self._number(columns, names)
        self._starts.append(self._file.seek(0, os.SEEK_END))
        np.save(self._file, matrix)
        self._file.write(json.dumps(None if ids is None else list(ids)).encode() + b"\n")
        self.n_items += len(matrix)

    def _new_sources(self, block: Block) -> list[str]:
        known = {*self._columns, *self._options.ignore}
        new = [name for name in block.columns if name not in known]
        if self._table.nested:  # inside nested votes, every name is a source
            return new
        taken = (self._roles.item, self._roles.gold)
        return [name for name in new if name not in taken and not is_gold_name(name)]

    def _number(self, columns: Sequence[Sequence[Any]], names: Sequence[str]) -> NDArray[Any]:
        """Return the number of each value, in order of appearance, as the smallest integers."""
        matrix = np.empty((len(columns[0]), len(columns)), np.uint16)
        for j, (name, column) in enumerate(zip(names, columns, strict=True)):
            matrix[:, j] = np.minimum(self._numbers.of(column), MOST_VALUES + 1)
            if len(self._numbers) > MOST_VALUES:
                raise VoteFileError(
                    f"The vote columns contain more than {MOST_VALUES:,} different values, up to column "
                    f"{format_value(name)}.",
                    hints=[CHOOSE_SOURCES],
                )
        return matrix.astype(np.uint8) if len(self._numbers) < 256 else matrix

    def finish(self) -> None:
        """Set the sources once all rows are added, and check identifiers and values.

        Raises
        ------
        VoteFileError
            If identifiers repeat, or if a column is free text and was not selected as a source.
        """
        self.n_sources = len(self._columns)
        self.source_names = tuple(self._columns) if self._table.has_names else None
        if self._roles.item is not None:
            require_distinct(lambda: (ids for _, ids in self._blocks()))
        if self._options.sources is None and len(self._numbers) > MOST_DISTINCT:
            self._require_few_values()

    def _require_few_values(self) -> None:
        seen: list[set[int]] = [set() for _ in self._columns]
        for matrix, _ in self._blocks():
            for j in range(matrix.shape[1] - self._has_gold):
                seen[j].update(np.unique(matrix[:, j]).tolist())
        for name, values in zip(self._columns, seen, strict=True):
            if is_free_text(len(values), self.n_items):
                raise not_votes_error({name: format_distinct(len(values), self.n_items)})

    def _blocks(self) -> Iterator[tuple[NDArray[Any], list[Any] | None]]:
        for start in self._starts:
            self._file.seek(start)
            yield np.load(self._file), json.loads(self._file.readline())

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """Return all values that occur."""
        return Survey(list(self._numbers), self._table.plain_text)

    def find(self, value: Any) -> str | None:
        """Describe the first position of a value among the votes; None if it does not occur."""
        row = 0
        number = self._numbers.get(value, -1)
        for matrix, ids in self._blocks():
            hits = np.argwhere(matrix == number)
            if len(hits):
                i, j = (int(x) for x in hits[0])
                is_gold = self._has_gold and j == matrix.shape[1] - 1
                column = "gold labels" if is_gold else f"source {self._columns[j]!r}"
                return f"item {ids[i]!r}, {column}" if ids is not None else f"row {row + i}, {column}"
            row += len(matrix)
        return None

    def chunks(
        self, coding: Coding, rows: int
    ) -> Iterator[tuple[NDArray[Any], list[Any] | None, NDArray[Any] | None]]:
        """Yield codes (n, m), identifiers and codes of gold labels, ``rows`` at a time."""
        table = coding.table(list(self._numbers))
        held: list[NDArray[Any]] = []
        ids: list[Any] = []
        n = 0
        for number, (matrix, names) in enumerate(self._blocks(), start=1):
            held.append(self._encode(table, matrix))
            ids += names or ()
            n += len(matrix)
            is_last = number == len(self._starts)
            if n < rows and not is_last:
                continue
            codes, end = np.concatenate(held), n if is_last else n - n % rows
            for at in range(0, end, rows):
                part = codes[at : at + rows]
                votes = np.ascontiguousarray(part[:, : self.n_sources])
                yield votes, ids[at : at + rows] or None, part[:, -1] if self._has_gold else None
            held, ids, n = [codes[end:]], ids[end:], n - end

    def _encode(self, table: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of a block, gold labels last; sources that appear later abstain."""
        codes = np.take(table, numbers)
        width = codes.shape[1] - self._has_gold
        every = np.full((len(codes), self.n_sources + self._has_gold), ABSTAIN, codes.dtype)
        every[:, :width] = codes[:, :width]
        every[:, self.n_sources :] = codes[:, width:]
        return every


def _require_one_type(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> None:
    """Require that booleans and numbers are not mixed: True and 1 are the same key to Python."""
    kinds: dict[type, int] = {}
    for j, column in enumerate(columns):
        for kind in set(map(type, column)):
            kinds.setdefault(kind, j)
    numbers = [kind for kind in (int, float) if kind in kinds]
    if bool in kinds and numbers:
        raise VoteFileError(
            f"Votes must have one type; got booleans (source {format_value(names[kinds[bool]])}) and numbers "
            f"(source {format_value(names[kinds[numbers[0]]])})."
        )


# ---------------------------------------------------------------------- long form


class LongVotes:
    """Votes in long form; items and sources are numbered in order of appearance.

    About 16 bytes per vote and the identifiers stay in memory, because the votes on an item may be anywhere
    in the file.

    Attributes
    ----------
    source_names : tuple of str
    structure : Structure or None
        The calls of a panel of judges.
    n_sources, n_items : int
    """

    source_names: tuple[str, ...] = ()
    structure: Structure | None = None
    n_sources = n_items = 0

    def __init__(
        self, *, plain_text: bool, has_gold: bool, duplicates: str, panel: tuple[str, ...] = ()
    ) -> None:
        self._plain_text, self._has_gold, self._duplicates = plain_text, has_gold, duplicates
        self._panel = panel
        self._items, self._sources, self._values = Numbering(), Numbering(), Numbering()
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._gold: dict[int, Any] = {}
        self._votes: tuple[Coding, Votes] | None = None

    def add(
        self, items: Sequence[Any], sources: Sequence[Any], labels: Sequence[Any], gold: Sequence[Any] | None
    ) -> None:
        """Append votes, one per entry; the source of a panel is a tuple with one value per field."""
        row, column, value = self._items.of(items), self._sources.of(sources), self._values.of(labels)
        for what, numbering in (("item", self._items), ("source", self._sources)):
            if "" in numbering or any(is_null(v) for v in (numbering if None in numbering else ())):
                raise VoteFileError(f"Every vote must have a {what}; one is blank.")
        if len(self._values) > MOST_VALUES:
            raise VoteFileError(
                f"The label column contains more than {MOST_VALUES:,} different values.",
                hints=[Hint("long", "to name the item, source and label columns")],
            )
        self._parts.append((row.astype(np.int32), column.astype(np.int32), value.astype(np.int32)))
        for at, label in zip(row.tolist(), gold, strict=True) if gold is not None else ():
            if not is_null(label) and label != "" and self._gold.setdefault(at, label) != label:
                raise VoteFileError(
                    f"Item {format_value(list(self._items)[at])} must have one gold label; got "
                    f"{format_value(self._gold[at])} and {format_value(label)}."
                )

    def finish(self) -> None:
        """Set the sources and items once all votes are added."""
        self.n_sources, self.n_items = len(self._sources), len(self._items)
        if self._panel:
            try:
                self.structure = Structure(read_calls(self._panel, list(self._sources)))
            except VotesError as error:  # a blank judge, or an order that is a list
                raise VoteFileError(f"The columns of the panel cannot be read. {error}") from error
            self.source_names = tuple(source.name for source in self.structure)
        else:
            self.source_names = tuple(str(name) for name in self._sources)
        if len(set(self.source_names)) < self.n_sources:
            repeated = next(name for name, n in Counter(self.source_names).items() if n > 1)
            raise VoteFileError(
                f"Source names must be unique; {format_value(repeated)} has two spellings, such as a number "
                "and a string."
            )
        rows, columns, values = (np.concatenate(p) for p in zip(*self._parts, strict=True))
        self._parts = [(rows, columns, values)]

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """Return all values that occur."""
        return Survey(list({**self._values, **dict.fromkeys(self._gold.values(), 0)}), self._plain_text)

    def find(self, value: Any) -> str | None:
        """Describe the first position of a value among the votes; None if it does not occur."""
        rows, columns, values = self._parts[0]
        hits = np.flatnonzero(values == self._values.get(value, -1))
        if not len(hits):
            return None
        at = int(hits[0])
        return f"item {list(self._items)[rows[at]]!r}, source {self.source_names[columns[at]]!r}"

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Any, Any, NDArray[Any] | None]]:
        """Yield sparse codes (n, m), identifiers and codes of gold labels, ``rows`` at a time."""
        if self._votes is None or self._votes[0] is not coding:
            self._votes = (coding, self._build(coding))
        votes = self._votes[1]
        gold = np.full(votes.n_items, -1, coding.dtype)
        for row, label in self._gold.items():
            gold[row] = coding.code_of(label)
        for at in range(0, votes.n_items, rows):
            part = votes[at : at + rows]
            yield part.codes, part.items, gold[at : at + rows] if self._has_gold else None

    def _build(self, coding: Coding) -> Votes:
        rows, columns, values = self._parts[0]
        codes = coding.table(list(self._values))[values]
        names, items = self.source_names, as_identifiers(list(self._items), None)
        try:
            matrix = build_codes(rows, columns, codes, len(coding.classes), items, names, self._duplicates)
        except VotesError as error:
            hint = Hint("panel", "to name the columns of orders or repeats of a judge")
            error.hints = (*error.hints, hint)
            raise
        return Votes(matrix, coding.classes, names, items)
