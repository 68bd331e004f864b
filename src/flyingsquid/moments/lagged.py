"""Counts of sequences: the votes of all rows, and what follows what."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from flyingsquid._values import listed
from flyingsquid.exceptions import IncompatibleError, ModelFileError, VotesError
from flyingsquid.io import State, read_state, write_state
from flyingsquid.moments import files
from flyingsquid.moments.lagged_counting import count_lagged, count_votes
from flyingsquid.moments.limits import check_sequence_size
from flyingsquid.moments.moments import Moments
from flyingsquid.votes import Votes, as_votes, one_row
from flyingsquid.votes.lengths import read_lengths, starts_of

KIND = "SequenceMoments"
# Float counts may fall below zero by this share of all pairs when parts are subtracted.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SequenceMoments:
    """Counts of rows that follow each other. Immutable and mergeable, as :class:`Moments` is.

    Build with :meth:`of`. A pair of neighbours is counted by the part that holds its second row, so the
    parts of a sequence that was cut add up to the whole, to the integer.

    Attributes
    ----------
    rows : Moments
        Counts of all rows, whatever their order.
    n_pairs : int or float
        Number of neighbouring rows within a sequence.
    lagged : array of shape (K, K, m, m), read-only
        ``lagged[a, b, i, j]`` times source i voted a and source j voted b in the next row.
    first, second : arrays of shape (m, K), read-only
        How often each source voted each class in the first, and in the second row of a pair. They differ
        from the counts of all rows because the ends of a sequence take part in one pair only.

    Examples
    --------
    >>> video = Votes.from_classes([[0, 0], [0, 1], [1, 1], [1, -1], [1, 1]])
    >>> whole = SequenceMoments.of(video, lengths=[3, 2])
    >>> whole
    SequenceMoments(5 rows, 3 pairs x 2 sources, classes 0, 1, integer counts)
    >>> morning, evening = video[:2], video[2:]
    >>> later = SequenceMoments.of(evening, lengths=[1, 2], previous=morning[[-1]])
    >>> whole == SequenceMoments.of(morning) + later
    True
    """

    rows: Moments
    n_pairs: int | float
    lagged: NDArray[Any]
    first: NDArray[Any]
    second: NDArray[Any]

    def __post_init__(self) -> None:
        for array in (self.lagged, self.first, self.second):
            array.flags.writeable = False

    @classmethod
    def of(cls, votes: Any, lengths: Any = None, *, previous: Any = None) -> SequenceMoments:
        """Count the rows of sequences, and their neighbours.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (T, m)
            The rows of all sequences, one sequence after the other.
        lengths : list of integers that add up to T, optional
            Rows of each sequence; None is one sequence.
        previous : the votes on one row, optional
            The last row of the part before, when ``votes`` begins in the middle of a sequence.
        """
        read = as_votes(votes)
        return cls.of_rows(Moments.of(read), read, lengths, previous=previous)

    @classmethod
    def of_rows(
        cls, rows: Moments, votes: Votes, lengths: Any = None, *, previous: Any = None
    ) -> SequenceMoments:
        """The same where the counts of all rows are known already."""
        starts = starts_of(read_lengths(lengths, votes.n_items))
        n, k, codes = votes.n_items, votes.n_classes, votes.codes
        check_sequence_size(votes.n_sources, k)
        ends = np.append(starts[1:], n) - 1
        totals = np.asarray(rows.vote_counts)
        first, second = totals - count_votes(codes, k, ends), totals - count_votes(codes, k, starts)
        breaks = starts[1:]
        if previous is not None:
            before = _read_previous(previous, votes)
            codes = _stacked(before, codes)
            breaks = breaks + 1
            first = first + count_votes(codes, k, np.array([0]))
            second = second + count_votes(codes, k, np.array([1]))
        lagged = np.rint(count_lagged(codes, k, breaks)).astype(np.int64)
        return cls(rows, n - len(starts) + (previous is not None), lagged, first, second)

    @property
    def is_exact(self) -> bool:
        """Whether the counts are integers."""
        return self.rows.is_exact and self.lagged.dtype.kind == "i"

    def lagged_rates(self, a: int, b: int) -> NDArray[np.float64]:
        """P(source i votes a, and source j votes b in the next row), shape (m, m)."""
        return np.asarray(self.lagged[a, b] / self.n_pairs, np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file, whole or not at all; :meth:`load` and ``fs.load`` read it."""
        write_state(path, self.to_state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SequenceMoments:
        """Read counts that :meth:`save` wrote.

        Raises
        ------
        ModelFileError
            If the file is damaged, from a newer version, or holds something else.
        """
        state = read_state(path)
        if state.kind != KIND:
            raise ModelFileError(
                f"{path}: the file holds a {state.kind}, not counts of sequences; fs.load reads it"
            )
        return cls.from_state(state)

    def to_state(self) -> State:
        """Arrays and JSON that hold everything."""
        rows = files.to_state(self.rows)
        arrays = {"lagged": self.lagged, "first": self.first, "second": self.second}
        return State(KIND, {"rows": rows.meta, "n_pairs": self.n_pairs}, {**rows.arrays, **arrays})

    @classmethod
    def from_state(cls, state: State) -> SequenceMoments:
        """Counts from a plain state; refused if they cannot be counts of anything."""
        try:
            rows = Moments.from_state(State(files.KIND, state.meta["rows"], state.arrays))
            n_pairs = state.meta["n_pairs"]
            lagged, first, second = (state.arrays[name] for name in ("lagged", "first", "second"))
        except KeyError as error:
            raise ModelFileError(f"counts of sequences lack {error}") from error
        k, m = rows.n_classes, rows.n_sources
        fits = (
            type(n_pairs) in (int, float)
            and [a.shape for a in (lagged, first, second)] == [(k, k, m, m), (m, k), (m, k)]
            and {str(a.dtype) for a in (lagged, first, second)} <= {"int64", "float64"}
            and all(bool((a >= 0).all() and np.isfinite(a).all()) for a in (lagged, first, second))
            and 0 <= n_pairs <= rows.n_items
        )
        if not fits:
            raise ModelFileError("the counts of neighbours in the file do not agree with its rows")
        moments = cls(rows, n_pairs, lagged, first, second)
        if not moments._lowest_count() >= moments._tolerance():
            raise ModelFileError("the counts in the file are not counts of any sequences")
        return moments

    # ------------------------------------------------------------------ algebra

    def __add__(self, other: object) -> SequenceMoments:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        other = other.aligned_to(self)
        return SequenceMoments(
            self.rows + other.rows,
            self.n_pairs + other.n_pairs,
            self.lagged + other.lagged,
            self.first + other.first,
            self.second + other.second,
        )

    def __radd__(self, other: object) -> SequenceMoments:
        # sum(parts) starts from 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, other: object) -> SequenceMoments:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        other = other.aligned_to(self)
        rest = SequenceMoments(
            self.rows - other.rows,
            self.n_pairs - other.n_pairs,
            self.lagged - other.lagged,
            self.first - other.first,
            self.second - other.second,
        )
        lowest = rest._lowest_count()
        if lowest < self._tolerance():
            raise IncompatibleError(
                f"cannot subtract: a count of neighbours would be {lowest:g}; the right side is no part of "
                "the left"
            )
        return SequenceMoments(
            rest.rows,
            max(rest.n_pairs, 0),
            *(np.maximum(a, 0) for a in (rest.lagged, rest.first, rest.second)),
        )

    def _lowest_count(self) -> float:
        """The smallest count of any pair of neighbouring states, missing ones included."""
        second_missing = self.first.T[:, :, None] - self.lagged.sum(axis=1)  # i votes a, j missing
        first_missing = self.second.T[:, None, :] - self.lagged.sum(axis=0)  # i missing, j votes b
        both_missing = self.n_pairs - self.first.sum(axis=1)[:, None] - first_missing.sum(axis=0)
        parts = (self.lagged, second_missing, first_missing, both_missing)
        return float(min(self.n_pairs, *(part.min() for part in parts)))

    def _tolerance(self) -> float:
        """How far below zero a count may fall by rounding."""
        return 0.0 if self.is_exact else -_ROUNDING * self.n_pairs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceMoments):
            return NotImplemented
        return (
            self.rows == other.rows
            and self.n_pairs == other.n_pairs
            and np.array_equal(self.lagged, other.lagged)
            and np.array_equal(self.first, other.first)
            and np.array_equal(self.second, other.second)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy is read-only too.
        return SequenceMoments, (self.rows, self.n_pairs, self.lagged, self.first, self.second)

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        kind = "integer" if self.is_exact else "float"
        return (
            f"SequenceMoments({self.rows.n_items:,} rows, {self.n_pairs:,} pairs x "
            f"{self.rows.n_sources:,} sources, classes {listed(self.rows.classes)}, {kind} counts)"
        )

    def aligned_to(self, other: SequenceMoments) -> SequenceMoments:
        """These counts with sources and classes in the order of ``other``; refused if they differ."""
        rows = self.rows.aligned_to(other.rows)
        lagged, first, second = self.lagged, self.first, self.second
        if rows.classes != self.rows.classes:
            k = np.array([self.rows.classes.index(c) for c in rows.classes])
            lagged, first, second = lagged[np.ix_(k, k)], first[:, k], second[:, k]
        if rows.names is not None and self.rows.names is not None and rows.names != self.rows.names:
            j = np.array([self.rows.names.index(name) for name in rows.names])
            lagged, first, second = lagged[:, :, j[:, None], j], first[j], second[j]
        if lagged is self.lagged:
            return replace(self, rows=rows)
        return SequenceMoments(rows, self.n_pairs, *map(np.ascontiguousarray, (lagged, first, second)))


def _read_previous(previous: Any, votes: Votes) -> Votes:
    row = as_votes(one_row(previous, votes.names), votes.classes)
    if row.shape != (1, votes.n_sources):
        raise VotesError(
            f"previous has {row.n_items} rows of {row.n_sources} sources; it is the last row of the part "
            f"before, one vote of each of {votes.n_sources} sources"
        )
    return row.matched_to(votes.classes, votes.names)


def _stacked(before: Votes, codes: Any) -> Any:
    """The row before on top of the codes, in the form of the codes."""
    dense: Any = before.to_dense().codes
    if not isinstance(codes, csr_array):
        return np.concatenate([dense, codes])
    # Sparse codes hold class + 1 for a vote, and nothing for an abstain.
    top = csr_array(np.where(dense >= -1, dense + 1, dense).astype(codes.dtype))
    return csr_array(vstack([top, codes]))
