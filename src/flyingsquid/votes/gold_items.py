"""Items with gold labels: the votes and classes that a fit keeps.

Chunks, clusters and streams do not keep votes. Gold labels are few, so the votes on these items are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.arguments import item_ids, join_by_item, read_gold, read_keys
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.encode import as_column
from flyingsquid.votes.reading import VoteChunks
from flyingsquid.votes.votes import Votes

MOST_GOLD_ITEMS = 10_000
"""Of more items with gold labels, models that are fitted part by part keep the newest."""
# With very many sources fewer items are kept, so that their votes take a quarter of a gigabyte.
_MOST_CELLS = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class GoldItems:
    """Votes on g items with gold labels.

    Attributes
    ----------
    votes : Votes
    labels : integer array of shape (g, D)
        Codes of the gold labels of D tasks, negative if unknown.
    weights : array of shape (g,)
        How often each item counts.

    Examples
    --------
    >>> votes = Votes.from_classes([[0, 1], [1, 1], [0, 0]])
    >>> first, second = GoldItems.of(votes[:2], [[0], [-1]]), GoldItems.of(votes[2:], [[0]])
    >>> (first + second).votes.codes.tolist()
    [[0, 1], [0, 0]]
    """

    votes: Votes
    labels: NDArray[np.intp]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, votes: Votes, gold: Any, weights: Any = None) -> GoldItems:
        """Select the items with a code >= 0 in ``gold``, shape (n, D), and a positive weight."""
        codes = np.asarray(gold, np.intp)
        known = (codes >= 0).any(axis=1)
        if weights is not None:
            known &= np.asarray(weights) > 0
        at = np.flatnonzero(known)
        share = np.ones(len(at)) if weights is None else np.asarray(weights, np.float64)[at]
        return cls(votes[at], codes[at], share)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_labels(self) -> int:
        """Number of gold labels of all tasks."""
        return int(np.count_nonzero(self.labels >= 0))

    def __add__(self, later: GoldItems) -> GoldItems:
        """Return the items of both."""
        return GoldItems(
            self.votes.followed_by(later.votes),
            np.concatenate([self.labels, later.labels]),
            np.concatenate([self.weights, later.weights]),
        )

    def __getitem__(self, at: Any) -> GoldItems:
        return GoldItems(self.votes[at], self.labels[at], self.weights[at])

    def newest(self) -> GoldItems:
        """Return the newest items that are kept for later fits, at most 10,000, with dense votes."""
        most = max(1, min(MOST_GOLD_ITEMS, _MOST_CELLS // self.votes.n_sources))
        kept = self[-most:]
        return GoldItems(kept.votes.to_dense(), kept.labels, kept.weights)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the items as plain arrays for a file."""
        codes = np.ascontiguousarray(np.maximum(self.votes.codes, ABSTAIN))
        return {
            "gold.codes": codes,
            "gold.labels": self.labels.astype(np.int64),
            "gold.weights": self.weights,
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        classes: tuple[Label, ...],
        names: tuple[str, ...] | None,
        shape: tuple[int, int],
    ) -> GoldItems | None:
        """Return the items that :meth:`to_arrays` described, None if there are none.

        ``shape`` is the number of sources and of tasks.

        Raises
        ------
        ValueError
            If the arrays do not fit the sources and classes.
        """
        if "gold.codes" not in arrays:
            return None
        codes, labels, weights = (arrays[f"gold.{name}"] for name in ("codes", "labels", "weights"))
        n, (n_sources, n_tasks) = len(codes), shape
        fits = (
            codes.shape == (n, n_sources)
            and labels.shape == (n, n_tasks)
            and weights.shape == (n,)
            and codes.dtype.kind == labels.dtype.kind == "i"
            and weights.dtype == np.float64
            and all(
                each.size == 0 or (each.min() >= ABSTAIN and each.max() < len(classes))
                for each in (codes, labels)
            )
            and bool(np.isfinite(weights).all() and (weights > 0).all())
        )
        if not fits:
            raise ValueError("the gold labels do not match the sources and classes")
        return cls(
            Votes(np.ascontiguousarray(codes), classes, names),
            labels.astype(np.intp),
            np.ascontiguousarray(weights),
        )


class GoldCollector:
    """Collect the items with gold labels while chunks of votes are read.

    Parameters
    ----------
    gold : sequence of labels in the order of all items, or mapping or pandas Series by item identifier

    Examples
    --------
    >>> chunks = VoteChunks([[[0, 1], [1, 1]], [[0, 0]]], classes=[0, 1])
    >>> gold = GoldCollector([None, 1, 0])
    >>> len(list(gold.collect(chunks))), gold.items().labels.tolist()
    (2, [[1], [0]])
    """

    def __init__(self, gold: Any) -> None:
        self._by_id = read_keys(gold, "gold")
        self._column = as_column(gold if self._by_id is None else [], "gold")
        self._n_items, self._found, self._seen = 0, list[GoldItems](), set[Any]()

    def collect(self, chunks: VoteChunks) -> Iterator[Votes]:
        """Yield the chunks, and keep the votes on items with gold labels."""
        for raw, votes in chunks._pairs():
            ids = item_ids(raw, votes)
            self._add(votes, ids)
            yield votes if ids is None else replace(votes, items=np.array(ids, object))

    def _add(self, votes: Votes, ids: Sequence[Any] | None) -> None:
        n = votes.n_items
        if self._by_id is not None:
            found = labeled_rows(votes, ids, self._by_id)
            twice = next((each for each in found.ids if each in self._seen), None)
            if twice is not None:
                raise VotesError(
                    f"`votes` must have unique item identifiers to be joined with `gold`; got "
                    f"{format_value(twice)} more than once."
                )
            self._seen.update(found.ids)
            items = found.items
        else:
            column = self._column
            part = column[self._n_items : self._n_items + n]
            if len(part) < n:
                raise VotesError(
                    f"`gold` must have one label for each item of all chunks; got {len(column)}.",
                    parameter="gold",
                )
            items = GoldItems.of(votes, read_gold(part, votes.classes, n, "gold")[:, None])
        self._n_items += n
        if len(items):
            self._found.append(items)

    def items(self) -> GoldItems | None:
        """Return the items with gold labels, None if there are none.

        Raises
        ------
        VotesError
            If there are labels of items that do not occur.
        """
        if self._by_id is None and len(self._column) != self._n_items:
            raise VotesError(
                f"`gold` must have one label for each of {format_count(self._n_items, 'item')}; got "
                f"{len(self._column):,}.",
                parameter="gold",
            )
        if self._by_id is not None:
            require_all_found(self._by_id, self._seen)
        return sum_items(self._found)


@dataclass(frozen=True, slots=True)
class LabeledRows:
    """Items of one chunk with gold labels, and their identifiers; mergeable with ``+``."""

    ids: tuple[Any, ...]
    items: GoldItems

    def __add__(self, other: LabeledRows) -> LabeledRows:
        return LabeledRows((*self.ids, *other.ids), self.items + other.items)


def labeled_rows(votes: Votes, ids: Sequence[Any] | None, by_id: Mapping[Any, Any]) -> LabeledRows:
    """Select the items of a chunk whose identifiers have gold labels."""
    if ids is None:
        join_by_item(by_id, None, votes.n_items, "gold")  # raises
    at = [i for i, key in enumerate(ids or ()) if key in by_id]
    keys = tuple((ids or ())[i] for i in at)
    cells = [by_id[key] for key in keys]
    codes = read_gold(cells, votes.classes, len(at), "gold") if at else np.zeros(0, np.intp)
    known = codes >= 0
    return LabeledRows(keys, GoldItems.of(votes[np.array(at, np.intp)[known]], codes[known][:, None]))


def require_all_found(by_id: Mapping[Any, Any], seen: set[Any]) -> None:
    """Raise an error for gold labels of items that do not occur in the votes."""
    unknown = [key for key in by_id if key not in seen]
    if unknown:
        raise VotesError(
            f"`gold` must have identifiers of items in `votes`; got {len(unknown):,} others: "
            f"{format_list(unknown, 3)}.",
            parameter="gold",
        )


def sum_items(parts: Sequence[GoldItems]) -> GoldItems | None:
    """Return the items of all parts, None if there are none."""
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
