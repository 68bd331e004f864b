"""Vote counts: the one statistic shared by batch, stream, window and cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.exceptions import IncompatibleError, ModelFileError, VotesError
from flyingsquid.io import State, read_state, write_state
from flyingsquid.moments import files
from flyingsquid.moments.counting import count_pairs
from flyingsquid.votes import REASONS, Votes, as_votes
from flyingsquid.votes.states import Label, listed, require_same, rows_of_entries, shown_names
from flyingsquid.votes.weights import LARGEST_COUNT, read_weights

# Float counts may fall below zero by this share of all items when parts are subtracted.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments:
    """How often each pair of votes occurred in one item. Immutable and mergeable.

    Build with :meth:`of`; add the counts of two parts with ``+``, take a part away with
    ``-``, compare with ``==``. Unweighted counts are integers, so that all three are exact.

    Attributes
    ----------
    n_items : int or float
        Number of items, or the sum of their weights.
    pair_counts : array of shape (K, K, m, m), read-only
        ``pair_counts[a, b, i, j]`` items had source i vote a and source j vote b. On the
        diagonal, ``pair_counts[a, a, i, i]`` items had source i vote a.
    missing : array of shape (m, 3), read-only
        Votes that were refused, unparseable and failed; the rest of what is missing abstained.
    classes : tuple of K labels
    names : tuple of m texts, or None

    Examples
    --------
    >>> morning = Moments.of([[0, 1], [1, 1]])
    >>> evening = Moments.of([[0, -1]])
    >>> day = morning + evening
    >>> day
    Moments(3 items x 2 sources, classes 0, 1, integer counts)
    >>> day == Moments.of([[0, 1], [1, 1], [0, -1]]), day - evening == morning
    (True, True)
    """

    n_items: int | float
    pair_counts: NDArray[Any]
    missing: NDArray[Any]
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self.pair_counts.flags.writeable = False
        self.missing.flags.writeable = False

    @classmethod
    def of(cls, votes: Any, *, sample_weight: ArrayLike | None = None) -> Moments:
        """Count votes.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take
        sample_weight : array of shape (n,), or a number, optional
            How often each item counts: a weight of 3 is the item three times. Integer
            weights give integer counts, float weights give float counts.
        """
        votes = as_votes(votes)
        weights = None if sample_weight is None else read_weights(sample_weight, votes.n_items)
        if weights is not None:
            _check_frequencies(weights)
        counts: NDArray[Any] = count_pairs(votes.codes, votes.n_classes, weights)
        missing: NDArray[Any] = _count_missing(votes, weights)
        total: int | float = votes.n_items if weights is None else weights.sum().item()
        if weights is None or weights.dtype.kind == "i":
            counts, missing = (np.rint(x).astype(np.int64) for x in (counts, missing))
        else:
            counts = np.ascontiguousarray(counts)
        return cls(total, counts, missing, votes.classes, votes.names)

    @property
    def n_sources(self) -> int:
        return int(self.pair_counts.shape[-1])

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def is_exact(self) -> bool:
        """Whether the counts are integers."""
        return bool(self.pair_counts.dtype.kind == "i")

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... where there are none."""
        return shown_names(self.names, self.n_sources)

    def pair_rates(self, a: int, b: int) -> NDArray[np.float64]:
        """P(source i votes a and source j votes b), shape (m, m). Estimators read pairs through this."""
        return np.asarray(self.pair_counts[a, b] / self.n_items, np.float64)

    @property
    def vote_counts(self) -> NDArray[Any]:
        """How often each source voted each class, shape (m, K)."""
        k = np.arange(self.n_classes)
        return np.diagonal(self.pair_counts[k, k], axis1=1, axis2=2).T

    @property
    def coverage(self) -> NDArray[np.float64]:
        """P(source votes), shape (m,)."""
        return np.asarray(self.vote_counts.sum(axis=1) / self.n_items, np.float64)

    def missing_counts(self) -> dict[str, NDArray[Any]]:
        """For each reason, how many votes are missing of each source, shape (m,)."""
        stated = dict(zip(REASONS[1:], self.missing.T, strict=True))
        abstained = self.n_items - self.vote_counts.sum(axis=1) - self.missing.sum(axis=1)
        return {REASONS[0]: abstained, **stated}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file, whole or not at all; :meth:`load` and ``fs.load`` read it."""
        write_state(path, files.to_state(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read counts that :meth:`save` wrote.

        Raises
        ------
        ModelFileError
            If the file is damaged, from a newer version, or holds something else.
        """
        state = read_state(path)
        if state.kind != files.KIND:
            raise ModelFileError(f"{path}: the file holds a {state.kind}, not counts; fs.load reads it")
        return cls.from_state(state)

    @classmethod
    def from_state(cls, state: State) -> Moments:
        """Counts from a plain state; refused if they cannot be counts of anything."""
        moments = cls(**files.fields_of(state))
        if moments._lowest_count() < (0 if moments.is_exact else -_ROUNDING * moments.n_items):
            raise ModelFileError("the counts in the file are not counts of any votes")
        return moments

    # ------------------------------------------------------------------ algebra

    def __add__(self, other: object) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other.aligned_to(self)
        if self.n_items + other.n_items >= LARGEST_COUNT:
            raise IncompatibleError("cannot add: more than 2**53 items cannot be counted exactly")
        return replace(
            self,
            n_items=self.n_items + other.n_items,
            pair_counts=self.pair_counts + other.pair_counts,
            missing=self.missing + other.missing,
            names=self.names or other.names,
        )

    def __radd__(self, other: object) -> Moments:
        # sum(parts) starts from 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, other: object) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other.aligned_to(self)
        rest = replace(
            self,
            n_items=self.n_items - other.n_items,
            pair_counts=self.pair_counts - other.pair_counts,
            missing=self.missing - other.missing,
        )
        lowest = rest._lowest_count()
        if lowest < (0 if rest.is_exact else -_ROUNDING * self.n_items):
            raise IncompatibleError(
                f"cannot subtract: a count would be {lowest:g}; the right side is no part of the left"
            )
        return replace(
            rest,
            n_items=max(rest.n_items, 0),
            pair_counts=np.maximum(rest.pair_counts, 0),
            missing=np.maximum(rest.missing, 0),
        )

    def _lowest_count(self) -> float:
        """The smallest count of any pair of states, missing ones included."""
        votes = self.vote_counts
        missing = self.n_items - votes.sum(axis=1)
        one_missing = votes.T[:, None, :] - self.pair_counts.sum(axis=0)  # i missing, j votes b
        both_missing = missing[:, None] - one_missing.sum(axis=0)
        np.fill_diagonal(both_missing, missing)
        for table in one_missing:
            np.fill_diagonal(table, 0)
        reasons = missing - self.missing.sum(axis=1)
        parts = (self.pair_counts, self.missing, one_missing, both_missing, reasons)
        return float(min(self.n_items, *(part.min() for part in parts)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return (
            self.names == other.names
            and self.classes == other.classes
            and self.n_items == other.n_items
            and np.array_equal(self.pair_counts, other.pair_counts)
            and np.array_equal(self.missing, other.missing)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy is read-only too.
        return Moments, (self.n_items, self.pair_counts, self.missing, self.classes, self.names)

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        kind = "integer" if self.is_exact else "float"
        return (
            f"Moments({self.n_items:,} items x {self.n_sources:,} sources, "
            f"classes {listed(self.classes)}, {kind} counts)"
        )

    def aligned_to(self, other: Moments) -> Moments:
        """These counts with sources and classes in the order of ``other``.

        Raises
        ------
        IncompatibleError
            If they are not the same sources or classes.
        """
        if self.n_sources != other.n_sources:
            raise IncompatibleError(
                f"cannot combine counts of {other.n_sources} sources with counts of "
                f"{self.n_sources}; count both with the same sources"
            )
        require_same("classes", set(self.classes), set(other.classes))
        result = self
        if self.classes != other.classes:
            k = np.array([self.classes.index(c) for c in other.classes])
            counts = np.ascontiguousarray(self.pair_counts[np.ix_(k, k)])
            result = replace(result, pair_counts=counts, classes=other.classes)
        if self.names is not None and other.names is not None and self.names != other.names:
            require_same("sources", set(self.names), set(other.names))
            j = np.array([self.names.index(name) for name in other.names])
            counts = np.ascontiguousarray(result.pair_counts[:, :, j[:, None], j])
            result = replace(result, pair_counts=counts, missing=self.missing[j], names=other.names)
        return result


def _check_frequencies(weights: NDArray[Any]) -> None:
    total = float(weights.sum())
    if weights.dtype.kind == "f" and len(weights) > 1 and total < 1 + 1e-6:
        raise VotesError(
            f"sample_weight sums to {total:g} over {len(weights)} items; the sum is the number of items "
            "that every standard error divides by. Multiply probabilities by the number of items first"
        )


def _count_missing(votes: Votes, weights: NDArray[Any] | None) -> NDArray[np.float64]:
    """Refused, unparseable and failed votes of each source, shape (m, 3)."""
    codes: Any = votes.codes
    missing = np.zeros((votes.n_sources, len(REASONS) - 1))
    if votes.is_sparse:
        row = rows_of_entries(codes)
        column, values = codes.indices, codes.data
    elif codes.min() >= -1:
        return missing
    else:
        row, column = np.nonzero(codes < -1)
        values = codes[row, column]
    stated = values < -1
    share = np.ones(stated.sum()) if weights is None else weights[row[stated]]
    np.add.at(missing, (column[stated], -2 - values[stated].astype(np.intp)), share)
    return missing
