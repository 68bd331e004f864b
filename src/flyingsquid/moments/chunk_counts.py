"""Counts of chunks of votes, which can be added: distinct rows while they are few, and pairs of votes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count
from flyingsquid.exceptions import IncompatibleError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.counting import count_missing
from flyingsquid.moments.moments import Moments
from flyingsquid.votes import VoteChunks, Votes
from flyingsquid.votes.codes import Label, dense_codes
from flyingsquid.votes.grid import CountedRows
from flyingsquid.votes.patterns import all_patterns, counted_codes

# At most 32 MB of codes.
_MOST_CELLS = 1 << 25
# Cells of sparse votes that are made dense at a time.
_CHUNK_CELLS = 1 << 22


def most_rows(n_sources: int) -> int:
    """Return the largest number of distinct rows to keep. It depends only on the number of sources.

    >>> most_rows(10), most_rows(1_000)
    (262144, 33554)
    """
    return max(1, min(LIMITS.get().distinct_rows, _MOST_CELLS // n_sources))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowCounts:
    """Counts of each distinct row of votes, dropped if there are too many different ones.

    Immutable and mergeable with ``+``. The result does not depend on the order of the parts or on where they
    were cut: a total is complete exactly if it has at most ``most`` distinct rows, and its rows have a fixed
    order. Missing votes are equal regardless of their reason.

    Attributes
    ----------
    codes : array of shape (u, m), or None if there are more than ``most`` distinct rows
    counts : int64 array of shape (u,), or None
        How many items have each row.
    n_items : int
    most : int
        Largest number of distinct rows that is kept.
    classes : tuple of K labels
    names : tuple of m str, or None

    Examples
    --------
    >>> morning = RowCounts.of(Votes.from_classes([[0, 1], [1, 1], [0, 1]]))
    >>> evening = RowCounts.of(Votes.from_classes([[1, 1], [0, 0]]))
    >>> day = morning + evening
    >>> day.votes.codes.tolist(), day.counts.tolist()
    ([[0, 0], [0, 1], [1, 1]], [1, 2, 2])
    """

    codes: NDArray[Any] | None
    counts: NDArray[np.int64] | None
    n_items: int
    most: int
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, votes: Votes, *, most: int | None = None) -> RowCounts:
        """Count the distinct rows of votes; ``most`` defaults to :func:`most_rows`."""
        most = most_rows(votes.n_sources) if most is None else most
        if not isinstance(votes.codes, csr_array):
            codes, counts = counted_codes(votes.codes, votes.n_classes)
            return _bounded(codes, counts, votes.n_items, most, votes.classes, votes.names)
        step = max(1, _CHUNK_CELLS // votes.n_sources)
        parts = (votes[start : start + step] for start in range(0, votes.n_items, step))
        dense = (Votes(dense_codes(part.codes), part.classes, part.names) for part in parts)
        total = RowTotal()
        for part in dense:
            total.add(cls.of(part, most=most))
        return total.result or cls(
            votes.codes.toarray(), np.zeros(0, np.int64), 0, most, votes.classes, votes.names
        )

    @property
    def is_complete(self) -> bool:
        """True if the rows were kept."""
        return self.codes is not None

    @property
    def votes(self) -> Votes:
        """The distinct rows as votes; with ``counts`` as weights they replace all items."""
        if self.codes is None:
            raise IncompatibleError(
                f"There are more than {self.most:,} distinct rows among "
                f"{format_count(self.n_items, 'item')}, so the rows were not kept."
            )
        return Votes(self.codes, self.classes, self.names)

    def __add__(self, other: object) -> RowCounts:
        if not isinstance(other, RowCounts):
            return NotImplemented
        if other.most != self.most:
            raise IncompatibleError(
                f"Cannot add row counts with different limits: {other.most:,} and "
                f"{format_count(self.most, 'row')}."
            )
        n_items = self.n_items + other.n_items
        if self.counts is None or other.counts is None:
            return RowCounts(None, None, n_items, self.most, self.classes, self.names or other.names)
        theirs = other.votes.matched_to(self.classes, self.names)
        if theirs.n_sources != self.votes.n_sources:
            raise IncompatibleError(
                f"Cannot add rows of {format_count(theirs.n_sources, 'source')} to rows of "
                f"{format_count(self.votes.n_sources, 'source')}."
            )
        both = np.concatenate([dense_codes(self.votes.codes), dense_codes(theirs.codes)])
        weights = np.concatenate([self.counts, other.counts])
        codes, counts = counted_codes(both, len(self.classes), weights)
        return _bounded(
            codes, counts.astype(np.int64), n_items, self.most, self.classes, self.names or other.names
        )

    def __radd__(self, other: object) -> RowCounts:
        # sum(parts) starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowCounts):
            return NotImplemented
        same = (self.n_items, self.most, self.classes, self.names) == (
            other.n_items, other.most, other.classes, other.names,
        )  # fmt: skip
        if self.codes is None or other.codes is None:
            return same and self.codes is other.codes
        return same and np.array_equal(self.codes, other.codes) and np.array_equal(self.counts, other.counts)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        rows = f"more than {self.most:,}" if self.codes is None else f"{len(self.codes):,}"
        return f"RowCounts({format_count(self.n_items, 'item')}, {rows} distinct rows)"


class RowTotal:
    """Sum of parts that come one after the other, in which each row is merged only a few times.

    Parameters
    ----------
    is_wanted : bool
        Whether rows are kept.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._stack: list[RowCounts] = []
        self._is_open = is_wanted

    def push(self, votes: Votes) -> None:
        """Add the rows of votes, unless there are too many already."""
        if self._is_open:
            self.add(RowCounts.of(votes))

    def add(self, part: RowCounts) -> None:
        """Add counted rows."""
        stack = self._stack
        stack.append(part)
        # Parts of similar size are merged, so that a large sum is not copied for each small part.
        while len(stack) > 1 and (not self._is_open or _size(stack[-1]) >= _size(stack[-2])):
            last = stack.pop()
            stack[-1] = stack[-1] + last
        if not stack[-1].is_complete:
            self._is_open = False

    @property
    def result(self) -> RowCounts | None:
        """The sum so far; None without parts."""
        return sum(reversed(self._stack[:-1]), self._stack[-1]) if self._stack else None


def _size(part: RowCounts) -> float:
    return np.inf if part.codes is None else len(part.codes)


def _bounded(
    codes: NDArray[Any],
    counts: NDArray[np.int64],
    n_items: int,
    most: int,
    classes: tuple[Label, ...],
    names: tuple[str, ...] | None,
) -> RowCounts:
    if len(codes) > most:
        return RowCounts(None, None, n_items, most, classes, names)
    return RowCounts(codes, counts, n_items, most, classes, names)


# ---------------------------------------------------------------------- rows and pairs


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """Counts of some items, mergeable with ``+``: all that a fit needs.

    Attributes
    ----------
    moments : Moments
    rows : RowCounts, or None if they were not requested
        If complete, they replace the votes, so that methods that need the votes can be used.

    Examples
    --------
    >>> whole = Votes.from_classes([[0, 1, 1], [1, 1, -1], [0, 1, 1]])
    >>> total = ChunkCounts.of(whole[:2]) + ChunkCounts.of(whole[2:])
    >>> total.moments == Moments.of(whole), total.rows.counts.tolist()
    (True, [1, 2])
    """

    moments: Moments
    rows: RowCounts | None = None

    @classmethod
    def of(cls, votes: Votes, graph: DependencyGraph | None = None, *, rows: bool = True) -> ChunkCounts:
        """Count votes, and their distinct rows."""
        return cls(Moments.of(votes, graph), RowCounts.of(votes) if rows else None)

    def __add__(self, other: object) -> ChunkCounts:
        if not isinstance(other, ChunkCounts):
            return NotImplemented
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return ChunkCounts(self.moments + other.moments, rows)

    def __radd__(self, other: object) -> ChunkCounts:
        # sum(parts) starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented


def count_chunks(
    chunks: VoteChunks, graph: DependencyGraph | None = None, *, rows: bool = True
) -> ChunkCounts:
    """Read chunks once. Memory is that of one chunk and of the counts, regardless of the number of items."""
    total, pooled = RowTotal(is_wanted=rows), _PooledRows()
    moments: Moments | None = None
    for votes in chunks:
        if graph is None and pooled.add(votes):
            continue
        total.push(votes)
        part = Moments.of(votes, graph)
        moments = part if moments is None else moments + part
    found = pooled.result()
    if found is not None:
        moments = found.moments if moments is None else moments + found.moments
        if rows and found.rows is not None:
            total.add(found.rows)
    return ChunkCounts(Moments.of(VoteChunks([])) if moments is None else moments, total.result)


class _PooledRows:
    """Total counts of all possible rows, for chunks of many items of few sources.

    Pairs of votes are counted once for all chunks.
    """

    def __init__(self) -> None:
        self._pooled: tuple[Votes, CountedRows, NDArray[np.int64]] | None = None

    def add(self, votes: Votes) -> bool:
        """Count votes; return False if they have too many possible rows."""
        counted = CountedRows.of(votes.codes, votes.n_classes, None)
        if counted is None:
            return False
        missing = count_missing(votes.codes)
        if self._pooled is not None:
            votes, before, missed = self._pooled  # names and classes are those of the first chunk
            counted = counted._replace(counts=before.counts + counted.counts)
            missing = missed + missing
        self._pooled = votes, counted, missing
        return True

    def result(self) -> ChunkCounts | None:
        """Return the counts; None without chunks of few sources."""
        if self._pooled is None:
            return None
        votes, counted, missing = self._pooled
        present = np.flatnonzero(counted.counts)
        codes = all_patterns(votes.n_sources, votes.n_classes)[present]
        times = counted.counts[present].astype(np.int64)
        moments = Moments._count(Votes(codes, votes.classes, votes.names), None, times, counted)
        most = most_rows(votes.n_sources)
        rows = _bounded(codes, times, int(times.sum()), most, votes.classes, votes.names)
        return ChunkCounts(replace(moments, missing=missing), rows)
