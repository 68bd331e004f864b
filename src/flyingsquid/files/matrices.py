"""Encode matrices of raw votes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.files.coding import UNKNOWN, Coding, Survey
from flyingsquid.files.ids import DistinctIds
from flyingsquid.votes.codes import ABSTAIN, REASONS, Label

Rows: TypeAlias = Callable[[int], Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]]
"""Given how many rows to read at a time: votes (n, m), and n identifiers and n gold labels or None."""
_LOOKUP_RANGE = 1 << 16
_MOST_VALUES = 1 << 16


class MatrixVotes:
    """Votes of a file that contains a matrix.

    Parameters
    ----------
    rows : callable
        Reads the file from the start, some rows at a time.
    shape : (n, m)
    names : sequence of m str
        Empty where sources have only positions.
    labels : tuple of labels, optional
        The class of each code, if the matrix contains codes.
    keeps_reasons : bool
        Whether -2, -3 and -4 are reasons for missing votes.
    """

    def __init__(
        self, rows: Rows, shape: tuple[int, int], names: Sequence[str] = (), *, has_ids: bool = False,
        has_gold: bool = False, labels: tuple[Label, ...] | None = None, keeps_reasons: bool = False,
    ) -> None:  # fmt: skip
        self._rows, self._labels, self._keeps_reasons = rows, labels, keeps_reasons
        self.source_names = tuple(names) or None
        self.n_items, self.n_sources = shape
        self.has_ids, self.has_gold = has_ids, has_gold
        if has_ids:
            distinct = DistinctIds()
            for _, ids, _ in rows(1 << 16):
                distinct.add(ids)
            distinct.require_distinct(lambda: (ids for _, ids, _ in rows(1 << 16)))

    def survey(self, exact: bool = False) -> Survey:
        """Return the values that occur; of integers the smallest and the largest, unless ``exact``."""
        if self._labels is not None:
            return Survey(self._labels, classes=self._labels)
        found: dict[Any, None] = {}
        extremes = False
        for votes, _, gold in self._rows(1 << 16):
            for array in (votes, gold):
                if array is None or not array.size:
                    continue
                if array.dtype.kind in "iu" and not exact:
                    extremes = True
                    found |= dict.fromkeys([int(array.min()), int(array.max())])
                else:
                    found |= dict.fromkeys(np.unique(array).tolist())
                if len(found) > _MOST_VALUES:
                    raise VoteFileError(
                        f"The matrix contains more than {_MOST_VALUES:,} different values, too many for "
                        "votes."
                    )
        values = list(found)
        return Survey([min(values), max(values)] if extremes and values else values, extremes_only=extremes)

    def find(self, value: Any) -> str | None:
        """Describe the first place of a value among the votes; None if it does not occur."""
        row = 0
        for votes, _, _ in self._rows(1 << 16):
            hits = np.argwhere(votes == value)
            if len(hits):
                return f"row {row + int(hits[0][0])}, {self._name(int(hits[0][1]))}"
            row += len(votes)
        return None

    def _name(self, j: int) -> str:
        return f"source {self.source_names[j]!r}" if self.source_names else f"source {j}"

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Yield codes (n, m), identifiers and codes of gold labels, ``rows`` at a time."""
        row = 0
        for votes, ids, gold in self._rows(rows):
            codes = self._coded(votes, coding)
            if codes.size and codes.min() == UNKNOWN:
                i, j = (int(x) for x in np.argwhere(codes == UNKNOWN)[0])
                bad = votes[i, j].item()
                raise VoteFileError(f"Unknown vote {told(bad)} (row {row + i}, {self._name(j)}).")
            known = None if gold is None else self._coded(gold[:, None], coding)[:, 0]
            if known is not None and known.size and known.min() == UNKNOWN:
                raise VoteFileError(f"A gold label at or after row {row} is not one of the classes.")
            yield codes.astype(coding.dtype, copy=False), ids, known
            row += len(votes)

    def _coded(self, votes: NDArray[Any], coding: Coding) -> NDArray[Any]:
        if self._labels is not None:
            return self._recoded(votes, self._labels, coding)
        return encoded(votes, coding)

    def _recoded(self, votes: NDArray[Any], labels: tuple[Label, ...], coding: Coding) -> NDArray[Any]:
        lowest = -len(REASONS) if self._keeps_reasons else ABSTAIN
        if votes.dtype.kind not in "iu":
            raise VoteFileError(f"Codes must be integers; their type is {votes.dtype}.")
        outside = (votes < lowest) | (votes >= len(labels))
        missing = list(range(lowest, 0))
        table = np.array([coding.code_of(label) for label in labels] + missing, np.int16)
        return np.where(outside, UNKNOWN, table[np.where(outside, 0, votes).astype(np.intp)])


def encoded(votes: NDArray[Any], coding: Coding) -> NDArray[Any]:
    """Encode raw votes of any shape; :data:`UNKNOWN` where a value has no code."""
    if not votes.size:
        return np.zeros(votes.shape, np.int16)
    if votes.dtype.kind in "iu":
        lowest, highest = int(votes.min()), int(votes.max())
        if is_plain(coding) and lowest >= ABSTAIN and highest < len(coding.classes):
            return votes.astype(coding.dtype)
        if highest - lowest < _LOOKUP_RANGE:
            table = coding.table(range(lowest, highest + 1))
            offset = votes - votes.dtype.type(lowest) if lowest >= 0 else votes.astype(np.int64) - lowest
            return np.take(table, offset)
    values, index = np.unique(votes, return_inverse=True)
    return coding.table(values.tolist())[index.reshape(votes.shape)]


def is_plain(coding: Coding) -> bool:
    """Return whether integers are their own codes."""
    numbers = coding.classes == tuple(range(len(coding.classes))) and type(coding.classes[0]) is int
    return numbers and coding.minus_one and not coding.texts
