"""What one pass over votes leaves behind: counts of pairs and, as long as they are few, the distinct rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.moments import Moments
from flyingsquid.votes import RowCounts, VoteChunks, Votes
from flyingsquid.votes.row_counts import RowTotal


@dataclass(frozen=True, slots=True)
class Gathered:
    """Counts of a part of the items, mergeable with ``+``: all that a fit needs of them.

    Attributes
    ----------
    moments : Moments
    rows : RowCounts, or None where they were not asked for
        Complete rows stand for the votes themselves, so that methods that pass over the votes can be used.

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
    """Read chunks once. Memory is that of one chunk and of the counts, however many items there are."""
    total = RowTotal(is_wanted=rows)
    moments = Moments.of(VoteChunks(lambda: _noting(chunks, total)), graph)
    return Gathered(moments, total.result)


def _noting(chunks: VoteChunks, total: RowTotal) -> Iterator[Votes]:
    """The chunks, whose rows are noted as they pass."""
    for votes in chunks:
        total.push(votes)
        yield votes
