"""Counts of pairs and distinct rows from one pass over votes, for chunks and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.moments import Moments
from flyingsquid.votes import RowCounts, VoteChunks, Votes
from flyingsquid.votes.row_counts import RowTotal


@dataclass(frozen=True, slots=True)
class Gathered:
    """Counts of some items, mergeable with ``+``: all that a fit needs.

    Attributes
    ----------
    moments : Moments
    rows : RowCounts, or None if they were not requested
        If complete, they replace the votes, so that methods that need the votes can be used.

    Examples
    --------
    >>> whole = Votes.from_classes([[0, 1, 1], [1, 1, -1], [0, 1, 1]])
    >>> total = Gathered.of(whole[:2]) + Gathered.of(whole[2:])
    >>> total.moments == Moments.of(whole), total.rows.counts.tolist()
    (True, [1, 2])
    """

    moments: Moments
    rows: RowCounts | None = None

    @classmethod
    def of(cls, votes: Votes, graph: DependencyGraph | None = None, *, rows: bool = True) -> Gathered:
        """Count votes, and their distinct rows."""
        return cls(Moments.of(votes, graph), RowCounts.of(votes) if rows else None)

    def __add__(self, other: object) -> Gathered:
        if not isinstance(other, Gathered):
            return NotImplemented
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return Gathered(self.moments + other.moments, rows)

    def __radd__(self, other: object) -> Gathered:
        # sum(parts) starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented


def gather(chunks: VoteChunks, graph: DependencyGraph | None = None, *, rows: bool = True) -> Gathered:
    """Read chunks once. Memory is that of one chunk and of the counts, regardless of the number of items."""
    total = RowTotal(is_wanted=rows)
    moments = Moments.of(VoteChunks(lambda: _with_rows_counted(chunks, total)), graph)
    return Gathered(moments, total.result)


def _with_rows_counted(chunks: VoteChunks, total: RowTotal) -> Iterator[Votes]:
    """Yield the chunks and add their rows to ``total``."""
    for votes in chunks:
        total.push(votes)
        yield votes
