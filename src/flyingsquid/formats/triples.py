"""The long form: one row a vote. Kept as three numbers a vote, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.coding import UNKNOWN, Coding, Survey
from flyingsquid.formats.spool import Numbering
from flyingsquid.votes import REASONS, Votes


class Triples:
    """Votes in long form; items and sources in order of appearance.

    About 16 bytes a vote and the identifiers are kept, because the votes on an item may stand anywhere.
    """

    has_ids = True

    def __init__(self, *, plain_text: bool, has_gold: bool, duplicates: str) -> None:
        self._plain_text, self.has_gold, self._duplicates = plain_text, has_gold, duplicates
        self._items, self._sources, self._values = Numbering(), Numbering(), Numbering()
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._gold: dict[int, Any] = {}
        self._votes: tuple[Coding, Votes] | None = None

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self._sources]

    @property
    def n_items(self) -> int:
        return len(self._items)

    def add(
        self, items: Sequence[Any], sources: Sequence[Any], labels: Sequence[Any], gold: Sequence[Any] | None
    ) -> None:
        """Append votes, one an entry."""
        row, column, value = self._items.of(items), self._sources.of(sources), self._values.of(labels)
        for what, numbering in (("item", self._items), ("source", self._sources)):
            if "" in numbering or any(is_null(v) for v in (numbering if None in numbering else ())):
                raise VoteFileError(f"a vote has no {what}; every row needs one")
        if len(self._values) > 1 << 16:
            raise VoteFileError(
                "the column of votes has more than 65,536 different values; long= names the columns"
            )
        self._parts.append((row.astype(np.int32), column.astype(np.int32), value.astype(np.int32)))
        if gold is not None:
            self._add_gold(row, gold)

    def _add_gold(self, rows: NDArray[Any], gold: Sequence[Any]) -> None:
        for row, label in zip(rows.tolist(), gold, strict=True):
            if is_null(label) or label == "":
                continue
            if self._gold.setdefault(row, label) != label:
                item = list(self._items)[row]
                raise VoteFileError(
                    f"item {told(item)} has two known labels, {told(self._gold[row])} and {told(label)}; it "
                    "needs one"
                )

    def finish(self) -> None:
        """Put the parts together."""
        if len({str(name) for name in self._sources}) < len(self._sources):
            raise VoteFileError("two sources have the same name, once as a number and once as a text")
        rows, columns, values = (np.concatenate(p) for p in zip(*self._parts, strict=True))
        self._parts = [(rows, columns, values)]

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """All values that occur."""
        return Survey(list({**self._values, **dict.fromkeys(self._gold.values(), 0)}), self._plain_text)

    def find(self, value: Any) -> str | None:
        """The first place of a value among the votes, in words; None if it does not occur."""
        rows, columns, values = self._parts[0]
        hits = np.flatnonzero(values == self._values.get(value, -1))
        if not len(hits):
            return None
        at = int(hits[0])
        return f"item {list(self._items)[rows[at]]!r}, source {self.names[columns[at]]!r}"

    def votes(self, coding: Coding) -> Votes:
        """All votes, sparse."""
        if self._votes is None or self._votes[0] is not coding:
            self._votes = (coding, self._built(coding))
        return self._votes[1]

    def _built(self, coding: Coding) -> Votes:
        rows, columns, values = self._parts[0]
        codes = coding.table(list(self._values))[values]
        if codes.size and codes.min() == UNKNOWN:
            bad = list(self._values)[int(values[codes == UNKNOWN][0])]
            raise VoteFileError(f"{self.find(bad)}: the vote {told(bad)} has no meaning")
        if self._duplicates == "error":
            self._require_once(rows, columns)
        n_classes = len(coding.classes)
        numbers = Votes.from_long(
            rows, columns, codes, self._duplicates,  # type: ignore[arg-type]  # checked by from_long
            classes=range(n_classes), names=range(len(self._sources)),
            reasons={-1 - r: reason for r, reason in enumerate(REASONS) if r},
        )  # fmt: skip
        return Votes(numbers.codes, coding.classes, tuple(self.names), _as_array(list(self._items)))

    def _require_once(self, rows: NDArray[Any], columns: NDArray[Any]) -> None:
        cells = rows.astype(np.int64) * len(self._sources) + columns
        cells.sort()
        twice = np.flatnonzero(cells[1:] == cells[:-1])
        if len(twice):
            row, column = divmod(int(cells[twice[0]]), len(self._sources))
            raise VoteFileError(
                f"source {told(self.names[column])} votes more than once on item "
                f"{told(list(self._items)[row])} ({len(twice):,} such votes); duplicates= (--duplicates) "
                "first, last or majority decides"
            )

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Any, Any, NDArray[Any] | None]]:
        """Sparse codes (n, m), identifiers and codes of known labels, ``rows`` at a time."""
        votes = self.votes(coding)
        gold = np.full(votes.n_items, -1, coding.dtype)
        for row, label in self._gold.items():
            gold[row] = coding.code_of(label)
        for at in range(0, votes.n_items, rows):
            part = votes[at : at + rows]
            yield part.codes, part.items, gold[at : at + rows] if self.has_gold else None


def _as_array(values: list[Any]) -> NDArray[Any]:
    """Identifiers as an array: integers, or objects."""
    if all(type(v) is int for v in values):
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    array = np.empty(len(values), object)
    array[:] = values
    return array
