"""Votes of tables: wide form, one row per item, as small integers; long form, one row per vote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, is_null
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.coding import Coding, Numbering, Survey
from flyingsquid.files.columns import (
    CHOOSE_SOURCES,
    MOST_VALUES,
    ReadOptions,
    Roles,
    assign_roles,
    free_text_error,
    require_distinct,
    require_ids,
)
from flyingsquid.files.inputs import temporary_file
from flyingsquid.files.text_tables import Block, DelimitedTable, JsonTable
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.conventions import MOST_DISTINCT, is_free_text, is_gold_name, is_item_name
from flyingsquid.votes.frames import as_identifiers
from flyingsquid.votes.longform import build_codes


def read_table(
    table: DelimitedTable | JsonTable, options: ReadOptions, *, in_memory: int = 1 << 26
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
        votes = LongVotes(plain_text=table.plain_text, has_gold=has_gold, duplicates=options.duplicates)
        for block in chain([first], blocks):
            votes.add(*_triples(block, roles))
    else:
        votes = WideVotes(table, roles, options, in_memory)
        for block in chain([first], blocks):
            votes.add(block)
    votes.finish()
    return replace(roles, notes=(*table.notes, *roles.notes)), votes


def _roles(table: DelimitedTable | JsonTable, block: Block, options: ReadOptions) -> Roles:
    if table.nested:
        return _nested_roles(block, options)
    if not table.has_names and options.item is None:
        options = replace(options, item=False)
    return assign_roles(table.names or list(block.columns), options, list(block.columns.values()))


def _nested_roles(block: Block, options: ReadOptions) -> Roles:
    if options.is_long:
        raise VoteFileError("The long form is not supported for records with a field 'votes'.")
    item = options.item
    if item is None:
        item = next((name for name in block.fields if is_item_name(name)), None)
    item = item if isinstance(item, str) else None
    for name in (item, options.gold):
        if name is not None and name not in block.fields:
            raise VoteFileError(
                f"No field is named {format_value(name)}; the fields are {format_list(list(block.fields))}."
            )
    notes = tuple(
        Note(
            f"Field {format_value(name)} looks like gold labels and is not read.",
            (Hint("gold", "to use it as gold labels", name),),
        )
        for name in block.fields
        if is_gold_name(name) and name not in (options.gold, item)
    )
    sources = options.sources or tuple(name for name in block.columns if name not in options.ignore)
    if not sources:
        raise VoteFileError("The field 'votes' contains no votes.")
    return Roles("wide", item, sources, gold=options.gold, notes=notes)


def _triples(block: Block, roles: Roles) -> tuple[Any, Any, Any, Sequence[Any] | None]:
    """Return the items, sources, labels and gold labels of a block."""
    items, sources, labels = (
        block.columns.get(str(name)) for name in (roles.item, roles.source, roles.label)
    )
    if items is None or sources is None or labels is None:
        raise VoteFileError("Every record must have an item, a source and a label.")
    return items, sources, labels, None if roles.gold is None else block.columns.get(roles.gold)


class WideVotes:
    """Votes of a text table in wide form, as small integers in a temporary file.

    Columns may first appear in any block; earlier rows abstain there.

    Parameters
    ----------
    table : DelimitedTable or JsonTable
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

    def __init__(
        self, table: DelimitedTable | JsonTable, roles: Roles, options: ReadOptions, in_memory: int
    ) -> None:
        self._table, self._roles, self._options = table, roles, options
        self._has_gold = roles.gold is not None
        self._columns = list(roles.sources)
        self._numbers = Numbering()
        self._file = temporary_file(self, in_memory)
        self._starts: list[int] = []

    def add(self, block: Block) -> None:
        """Append the rows of a block."""
        if self._options.sources is None:
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
                raise free_text_error(name, len(values), self.n_items)

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
            held.append(self._encode(table, matrix, coding.dtype))
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

    def _encode(self, table: NDArray[np.int16], numbers: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Return the codes of a block, gold labels last; sources that appear later abstain."""
        codes = np.take(table, numbers)
        width = codes.shape[1] - self._has_gold
        every = np.full((len(codes), self.n_sources + self._has_gold), ABSTAIN, dtype)
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
    n_sources, n_items : int
    """

    source_names: tuple[str, ...] = ()
    n_sources = n_items = 0

    def __init__(self, *, plain_text: bool, has_gold: bool, duplicates: str) -> None:
        self._plain_text, self._has_gold, self._duplicates = plain_text, has_gold, duplicates
        self._items, self._sources, self._values = Numbering(), Numbering(), Numbering()
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._gold: dict[int, Any] = {}
        self._votes: tuple[Coding, Votes] | None = None

    def add(
        self, items: Sequence[Any], sources: Sequence[Any], labels: Sequence[Any], gold: Sequence[Any] | None
    ) -> None:
        """Append votes, one per entry."""
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
        self.source_names = tuple(str(name) for name in self._sources)
        self.n_sources, self.n_items = len(self._sources), len(self._items)
        if len(set(self.source_names)) < self.n_sources:
            raise VoteFileError("Source names must be unique; one occurs both as a number and as a string.")
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
        matrix = build_codes(rows, columns, codes, len(coding.classes), items, names, self._duplicates)
        return Votes(matrix, coding.classes, names, items)
