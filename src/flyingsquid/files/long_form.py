"""Votes in long form, one row per vote: kept in memory as three integers per vote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, told
from flyingsquid.exceptions import Hint, VoteFileError
from flyingsquid.files.coding import UNKNOWN, Coding, Numbering, Survey
from flyingsquid.votes import REASONS, Votes


class LongVotes:
    """Votes in long form; items and sources are numbered in order of appearance.

    About 16 bytes per vote and the identifiers stay in memory, because the votes on an item may be anywhere
    in the file.

    Attributes
    ----------
    source_names : tuple of str
    n_sources, n_items : int
    """

    has_ids = True
    source_names: tuple[str, ...] = ()
    n_sources = n_items = 0

    def __init__(self, *, plain_text: bool, has_gold: bool, duplicates: str) -> None:
        self._plain_text, self.has_gold, self._duplicates = plain_text, has_gold, duplicates
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
        if len(self._values) > 1 << 16:
            raise VoteFileError(
                f"The label column contains more than {1 << 16:,} different values.",
                hints=[Hint("long", "to name the item, source and label columns")],
            )
        self._parts.append((row.astype(np.int32), column.astype(np.int32), value.astype(np.int32)))
        for at, label in zip(row.tolist(), gold, strict=True) if gold is not None else ():
            if not is_null(label) and label != "" and self._gold.setdefault(at, label) != label:
                raise VoteFileError(
                    f"Item {told(list(self._items)[at])} must have one gold label; got "
                    f"{told(self._gold[at])} and {told(label)}."
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
        """Describe the first place of a value among the votes; None if it does not occur."""
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
            yield part.codes, part.items, gold[at : at + rows] if self.has_gold else None

    def _build(self, coding: Coding) -> Votes:
        rows, columns, values = self._parts[0]
        codes = coding.table(list(self._values))[values]
        if codes.size and codes.min() == UNKNOWN:
            bad = list(self._values)[int(values[codes == UNKNOWN][0])]
            raise VoteFileError(f"Unknown vote {told(bad)} ({self.find(bad)}).")
        if self._duplicates == "error":
            self._require_one_vote(rows, columns)
        n_classes = len(coding.classes)
        numbers = Votes.from_long(
            rows, columns, codes, self._duplicates,  # type: ignore[arg-type]  # checked by from_long
            classes=range(n_classes), names=range(self.n_sources),
            reasons={-1 - r: reason for r, reason in enumerate(REASONS) if r},
        )  # fmt: skip
        return Votes(numbers.codes, coding.classes, self.source_names, _as_array(list(self._items)))

    def _require_one_vote(self, rows: NDArray[Any], columns: NDArray[Any]) -> None:
        cells = rows.astype(np.int64) * self.n_sources + columns
        cells.sort()
        repeated = np.flatnonzero(cells[1:] == cells[:-1])
        if len(repeated):
            row, column = divmod(int(cells[repeated[0]]), self.n_sources)
            raise VoteFileError(
                f"A source must vote at most once per item; {told(self.source_names[column])} votes more "
                f"than once on item {told(list(self._items)[row])} ({len(repeated):,} repeated votes in "
                "all).",
                hints=[Hint("duplicates", "to keep the 'first', 'last' or 'majority' vote")],
            )


def _as_array(values: list[Any]) -> NDArray[Any]:
    """Return identifiers as an array of integers or objects."""
    if all(type(v) is int for v in values):
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    array = np.empty(len(values), object)
    array[:] = values
    return array
