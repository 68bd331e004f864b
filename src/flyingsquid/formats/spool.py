"""Cells that were read once, kept small: numbers of distinct values, in a temporary file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.coding import UNKNOWN, Coding, Survey
from flyingsquid.formats.streams import temporary
from flyingsquid.formats.unique import DistinctIds
from flyingsquid.votes.states import ABSTAIN

_IN_MEMORY = 1 << 26
MOST_VALUES = 1 << 16
NOTHING = MOST_VALUES - 1
"""The number of an empty cell; 65,535 others can be told apart."""


class Numbering(dict[Any, int]):
    """Numbers of values in order of appearance; asking for a new value adds it."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number

    def of(self, column: Any) -> NDArray[np.int64]:
        """The numbers of the values of a column, which may be one of pyarrow."""
        if hasattr(column, "dictionary_encode"):
            coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
            numbers = self.of(
                [*coded.dictionary.to_pylist(), None] if column.null_count else coded.dictionary.to_pylist()
            )
            return numbers[np.asarray(coded.indices.fill_null(-1))]
        return np.fromiter(map(self.__getitem__, column), np.int64, len(column))


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a block lies in the file: its rows, columns (known labels last), type, and where it begins."""

    rows: int
    columns: int
    dtype: str
    at: int
    ids_at: int
    ids_size: int


class Spool:
    """Votes of files of text, parsed once. Up to 64 MB are kept in memory, more on disk.

    Columns may be added while it grows; a row that is older lacks them. ``positional`` says that the
    names are only positions.
    """

    def __init__(self, *, plain_text: bool, has_ids: bool, has_gold: bool) -> None:
        self.names: list[str] = []
        self.positional = False
        self.n_items = 0
        self.has_ids, self.has_gold = has_ids, has_gold
        self.plain_text = plain_text
        self._numbers = Numbering()
        self._held = temporary(_IN_MEMORY)
        self._file = self._held.file
        self._parts: list[_Part] = []
        self._ids = DistinctIds()
        self._ends = 0

    def add(
        self, columns: Sequence[Sequence[Any]], ids: Sequence[Any] | None, gold: Sequence[Any] | None
    ) -> None:
        """Append rows: one sequence of raw values for each of ``names``, in order."""
        every = [*columns, gold] if gold is not None else list(columns)
        rows = len(every[0])
        matrix = np.empty((rows, len(every)), np.uint16)
        for j, column in enumerate(every):
            matrix[:, j] = np.minimum(self._numbers.of(column), NOTHING)
            if len(self._numbers) >= NOTHING:
                name = self.names[j] if j < len(self.names) else "of known labels"
                raise VoteFileError(
                    f"there are more than {NOTHING - 1:,} different values, by the column {told(name)}, "
                    "which is perhaps none of votes; sources= (--sources) picks the columns of votes"
                )
        small = len(self._numbers) < 256
        data = (matrix.astype(np.uint8) if small else matrix).tobytes()
        text = b"" if ids is None else json.dumps(list(ids)).encode()
        self._file.seek(self._ends)
        self._file.write(data)
        self._file.write(text)
        at = self._ends
        dtype = "u1" if small else "u2"
        self._parts.append(_Part(rows, len(every), dtype, at, at + len(data), len(text)))
        self._ends += len(data) + len(text)
        self.n_items += rows
        if ids is not None:
            self._ids.add(ids)

    def finish(self) -> None:
        """Check that identifiers differ."""
        if self.has_ids:
            self._ids.require_distinct(lambda: (ids for _, ids in self._blocks() if ids is not None))

    def _blocks(self) -> Iterator[tuple[NDArray[Any], list[Any] | None]]:
        for part in self._parts:
            self._file.seek(part.at)
            data = self._file.read(part.ids_at - part.at)
            ids = json.loads(self._file.read(part.ids_size)) if self.has_ids else None
            yield np.frombuffer(data, part.dtype).reshape(part.rows, part.columns), ids

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """All values that occur."""
        return Survey(list(self._numbers), self.plain_text)

    def find(self, value: Any) -> str | None:
        """The first place of a value among the votes, in words; None if it does not occur."""
        row = 0
        number = self._numbers[value]
        for matrix, ids in self._blocks():
            hits = np.argwhere(matrix == number)
            if len(hits):
                i, j = (int(x) for x in hits[0])
                is_gold = self.has_gold and j == matrix.shape[1] - 1
                column = "known labels" if is_gold else f"source {self.names[j]!r}"
                return f"item {ids[i]!r}, {column}" if ids is not None else f"row {row + i}, {column}"
            row += len(matrix)
        return None

    def distinct_counts(self) -> list[tuple[int, int]]:
        """For each source, how many different values it has, and on how many rows."""
        seen: list[set[int]] = [set() for _ in self.names]
        for matrix, _ in self._blocks():
            for j in range(matrix.shape[1] - self.has_gold):
                seen[j].update(np.unique(matrix[:, j]).tolist())
        return [(len(values), self.n_items) for values in seen]

    def chunks(
        self, coding: Coding, rows: int
    ) -> Iterator[tuple[NDArray[Any], list[Any] | None, NDArray[Any] | None]]:
        """Codes (n, m), identifiers and codes of known labels, ``rows`` at a time."""
        table = coding.table(list(self._numbers))
        waiting: list[tuple[NDArray[Any], list[Any] | None]] = []
        have = 0
        for matrix, ids in self._blocks():
            start = 0
            while start < len(matrix):
                take = min(rows - have, len(matrix) - start)
                waiting.append(
                    (matrix[start : start + take], None if ids is None else ids[start : start + take])
                )
                have, start = have + take, start + take
                if have == rows:
                    yield self._merged(waiting, table, coding)
                    waiting, have = [], 0
        if waiting:
            yield self._merged(waiting, table, coding)

    def _merged(
        self, parts: list[tuple[NDArray[Any], list[Any] | None]], table: NDArray[np.int16], coding: Coding
    ) -> tuple[NDArray[Any], list[Any] | None, NDArray[Any] | None]:
        width = len(self.names)
        n = sum(len(matrix) for matrix, _ in parts)
        codes = np.full((n, width), ABSTAIN, coding.dtype)
        gold = np.full(n, ABSTAIN, coding.dtype) if self.has_gold else None
        ids: list[Any] | None = [] if self.has_ids else None
        at = 0
        for matrix, names in parts:
            votes = matrix[:, :-1] if gold is not None else matrix
            codes[at : at + len(matrix), : votes.shape[1]] = self._looked_up(table, votes)
            if gold is not None:
                gold[at : at + len(matrix)] = self._looked_up(table, matrix[:, -1])
            if ids is not None and names is not None:
                ids += names
            at += len(matrix)
        return codes, ids, gold

    def _looked_up(self, table: NDArray[np.int16], numbers: NDArray[Any]) -> NDArray[np.int16]:
        codes = np.take(table, numbers)
        if codes.size and codes.min() == UNKNOWN:
            value = list(self._numbers)[int(numbers[codes == UNKNOWN].flat[0])]
            raise VoteFileError(f"{self.find(value)}: the vote {told(value)} has no meaning")
        return codes
