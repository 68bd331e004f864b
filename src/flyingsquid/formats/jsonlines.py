"""JSON lines, and a JSON list of records: one object an item, or one a vote."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.columns import GOLD_NAMES, ITEM_NAMES
from flyingsquid.formats.streams import Input, one_line, text_blocks
from flyingsquid.formats.wrench_json import RepeatedKeyError, without_repetition

_VOTES = "votes"
OUTER = "\0"
"""Stands before the names of fields outside nested votes, where a source may have the same name."""
_CELLS = 1 << 14
_PLAIN = (str, int, float, bool, type(None))


class JsonTable:
    """Columns of values of JSON, a block of rows at a time. Columns may appear on the way.

    Attributes
    ----------
    nested : whether votes stand under ``"votes"``
    has_names : whether sources have names, and not only positions
    """

    plain_text = False

    def __init__(self, records: Iterable[Any] | None, source: Input) -> None:
        self._records, self._source = records, source
        self.notes: list[str] = []
        self.has_names = True
        self.nested = False
        self._place = "line" if records is None else "record"
        first = next((found for _, found in self.objects()), None)
        if first is None:
            raise VoteFileError("the file holds no records")
        self.has_names = isinstance(first, dict) and not isinstance(first.get(_VOTES), list)
        self.nested = isinstance(first, dict) and isinstance(first.get(_VOTES), (dict, list))
        votes = first[_VOTES] if self.nested else first
        self._width = len(votes) if isinstance(votes, list) else 0

    def row_blocks(self) -> Iterator[dict[str, Sequence[Any]]]:
        """Columns by name; of nested votes, fields outside have :data:`OUTER` before their name."""
        rows: list[dict[str, Any]] = []
        cells = 0
        for number, found in self.objects():
            rows.append(self._row(found, f"{self._place} {number}"))
            cells += len(rows[-1])
            if cells >= _CELLS:
                yield _columns(rows)
                rows, cells = [], 0
        if rows:
            yield _columns(rows)

    def _row(self, found: Any, where: str) -> dict[str, Any]:
        if isinstance(found, list):
            if self.has_names:
                raise VoteFileError(f"{where} is a list, and the first an object with names")
            return self._positions(found, where)
        if not isinstance(found, dict):
            raise VoteFileError(f"{where} is {told(found)}; an object or a list of votes is needed")
        if not self.nested:
            if not self.has_names:
                raise VoteFileError(f"{where} is an object, and the first a list of votes")
            return _checked(found, where)
        votes = found.get(_VOTES)
        if not isinstance(votes, dict if self.has_names else list):
            raise VoteFileError(f"{where} has no votes of the kind that the first has")
        inner = _checked(votes, where) if isinstance(votes, dict) else self._positions(votes, where)
        outer = {OUTER + k: v for k, v in found.items() if k != _VOTES and isinstance(v, _PLAIN)}
        return outer | inner if not outer.keys() & inner.keys() else _clash(where)

    def _positions(self, votes: list[Any], where: str) -> dict[str, Any]:
        if len(votes) != self._width:
            raise VoteFileError(
                f"{where} has {len(votes)} votes, and the first {self._width}; write null where a source "
                "does not vote"
            )
        return _checked({f"source {j}": vote for j, vote in enumerate(votes)}, where)

    def objects(self) -> Iterator[tuple[int, Any]]:
        """What the file holds, each with the number of its line, or in a list its place from 1 on."""
        return enumerate(self._records, 1) if self._records is not None else _lines_of(self._source)


def _clash(where: str) -> NoReturn:
    raise VoteFileError(f"{where}: a source has the name of another field")


def _checked(found: dict[str, Any], where: str) -> dict[str, Any]:
    for name, value in found.items():
        if not isinstance(value, _PLAIN):
            raise VoteFileError(
                f"{where}: {told(name)} holds {told(value)}, which is no vote; votes are texts, whole "
                "numbers, true, false or null, beside the other fields or under 'votes'"
            )
    return found


def _columns(rows: list[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return {name: [row.get(name) for row in rows] for name in names}


def _lines_of(source: Input) -> Iterator[tuple[int, Any]]:
    number = 0
    for text in text_blocks(source):
        lines = io.StringIO(text, newline="\n")
        for line in lines:
            number += 1
            if not line.isspace():
                yield number, _parsed(line, number)


def _constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is no vote")


_decode = json.JSONDecoder(parse_constant=_constant, object_pairs_hook=without_repetition).decode


def _parsed(line: str, number: int) -> Any:
    try:
        return _decode(line)
    except RecursionError as error:
        raise VoteFileError(f"line {number} is nested too deeply") from error
    except RepeatedKeyError as error:
        raise VoteFileError(f"line {number}: {error}") from error
    except ValueError as error:
        if not line.endswith("\n"):
            raise VoteFileError(
                f"line {number} is cut off; the file is truncated: {one_line(error)}"
            ) from error
        raise VoteFileError(f"line {number} is no JSON: {one_line(error)}") from error


def read_json(source: Input) -> Any:
    """A whole JSON document."""
    text = "".join(text_blocks(source))
    try:
        return _decode(text)
    except RecursionError as error:
        raise VoteFileError("the JSON is nested too deeply") from error
    except RepeatedKeyError as error:
        raise VoteFileError(str(error)) from error
    except ValueError as error:
        raise VoteFileError(f"no JSON, or truncated: {one_line(error)}") from error


def outer_names(block: Iterable[str]) -> tuple[str | None, list[str]]:
    """Of nested votes: the field that identifies items, and fields that may hold known labels."""
    fields = [name for name in block if name.startswith(OUTER)]
    item = next((f for f in fields if f[1:].lower() in ITEM_NAMES), None)
    return item, [f for f in fields if f[1:].lower() in GOLD_NAMES]
