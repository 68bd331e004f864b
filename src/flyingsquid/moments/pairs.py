"""Counts of pairs of votes, stored as one array or sparsely, with one interface.

Dense counts have the shape (K, K, m, m). Sparse ones have the shape (K m, K m), where row ``v * m + i`` is
"source i votes v". Missing votes are derived in both, so pairs of votes that never occurred take no room in
the sparse one: most workers of a crowd share no item. Only this package knows which storage is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from flyingsquid._limits import LIMITS
from flyingsquid.moments.class_counts import VotesByClass
from flyingsquid.votes.codes import rows_of_entries

Array = NDArray[np.float64]


# Sparse counts are faster if there are this many cells, of which at most one in this many is not 0.
_MANY_CELLS, _CELLS_PER_COUNT = 1 << 18, 16


def are_pairs_sparse(n_sources: int, n_classes: int) -> bool:
    """Return whether counts of pairs of this shape are always stored sparsely."""
    return n_classes > 2 and (n_sources * n_classes) ** 2 * 8 > LIMITS.get().dense_pair_bytes


def is_sparse_enough(matrix: csr_array, n_classes: int) -> bool:
    """Return whether counts of shape (K m, K m) are stored sparsely, because of their shape or many zeros."""
    cells = matrix.shape[0] ** 2
    is_empty = cells >= _MANY_CELLS and _CELLS_PER_COUNT * matrix.nnz <= cells
    return is_empty or are_pairs_sparse(matrix.shape[0] // n_classes, n_classes)


class PairAgreement(NamedTuple):
    """Agreement of the p pairs of sources that share items; most workers of a crowd share none.

    Attributes
    ----------
    first, second : integer arrays of shape (p,)
        The sources, ``first < second``, in ascending order.
    overlap : array of shape (p,)
        Items that both vote on.
    agreement : array of shape (p,)
        Items on which both cast the same vote.
    chance : array of shape (p,)
        Share of ``overlap`` on which they would agree by chance.
    unusual : array of shape (2, p)
        Votes of the first and of the second source on shared items that are not for the class it votes for
        most there.
    spread : array of shape (2, p)
        Probability that two votes of the first, or of the second source on shared items differ.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    overlap: Array
    agreement: Array
    chance: Array
    unusual: Array
    spread: Array

    @classmethod
    def of(
        cls, first: NDArray[np.intp], second: NDArray[np.intp], votes: Iterable[Array], agreement: Array
    ) -> PairAgreement:
        """Compare pairs by the votes of both sources on shared items, shape (2, p) for each class."""
        overlap, products = np.zeros((2, len(first)))
        usual, squares = np.zeros((2, 2, len(first)))
        for of_class in votes:  # one at a time, because there may be many
            overlap += of_class[0]
            products += of_class[0] * of_class[1]
            np.maximum(usual, of_class, out=usual)
            squares += of_class * of_class
        total = overlap**2
        return cls(first, second, overlap, agreement, products / total, overlap - usual, 1 - squares / total)


class DensePairs:
    """Counts of the votes a of source i and b of source j on the same item, for all pairs of m sources.

    Counts are int64, or float64 if items have fractional weights. They are read-only.

    Attributes
    ----------
    array : array of shape (K, K, m, m)
    votes : array of shape (m, K)
        Number of votes of each source for each class.
    """

    __slots__ = ("array", "votes")

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.votes = array, np.einsum("kkii->ik", array).copy()
        for each in (array, self.votes):
            each.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return DensePairs, (self.array,)  # through the constructor, so that a copy is read-only too

    @property
    def n_classes(self) -> int:
        return len(self.array)

    @property
    def n_sources(self) -> int:
        return int(self.array.shape[2])

    def counts(self, a: int, b: int) -> NDArray[Any]:
        """Return the items on which source i votes a and source j votes b, shape (m, m)."""
        return self.array[a, b]

    def table(self, i: int, j: int) -> NDArray[Any]:
        """Return the counts of two sources, shape (K, K)."""
        return self.array[:, :, i, j]

    def between(self, first: Sequence[int], second: Sequence[int]) -> NDArray[Any]:
        """Return the counts of two groups of s and t sources, shape (s, K, t, K)."""
        rows, columns = np.asarray(first, np.intp), np.asarray(second, np.intp)
        return self.array[:, :, rows[:, None], columns].transpose(2, 0, 3, 1)

    def by_own_vote(self, k: int) -> NDArray[Any]:
        """Return the items on which source i votes k and source j votes, shape (m, m)."""
        return np.asarray(self.array[k].sum(axis=0))

    def by_vote(self, sources: NDArray[np.intp]) -> Array:
        """Return the items on which one of s sources votes and source j votes v, shape (K, s, m)."""
        return self.array[:, :, sources].sum(axis=0, dtype=np.float64)

    def overlap(self) -> NDArray[Any]:
        """Return the items on which both sources vote, shape (m, m)."""
        return np.asarray(self.array.sum(axis=(0, 1)))

    def agreement(self) -> NDArray[Any]:
        """Return the number of items on which both sources cast the same vote, shape (m, m)."""
        return np.einsum("kkij->ij", self.array)

    def compare(self) -> PairAgreement:
        """Compare the votes of all pairs of sources that share items."""
        array = self.array
        own = np.empty((len(array), *array.shape[2:]))  # votes of i by class; those of j are the transpose
        for k, counts in enumerate(array):
            np.sum(counts, axis=0, out=own[k])
        first, second = np.nonzero(np.triu(own.sum(axis=0) > 0, 1))
        votes = (np.stack([each[first, second], each[second, first]]) for each in own)
        agreement = sum((array[k, k, first, second] for k in range(len(array))), start=np.zeros(len(first)))
        return PairAgreement.of(first, second, votes, agreement)

    def others_votes(self) -> Array:
        """Count the votes of other sources on the items of each vote, shape (m, K, K).

        ``[i, v, k]`` counts votes of other sources for class k on items that source i votes v on.
        """
        total = self.array.sum(axis=3).transpose(2, 0, 1).astype(np.float64)
        return _without_own(total, self.votes)

    def sparse_others_votes(self) -> VotesByClass:
        """Return the same without the cells that are 0."""
        return self.to_sparse().sparse_others_votes()

    def votes_of_others(
        self, factors: Array | None = None, shared: Array | None = None
    ) -> tuple[Array, Array]:
        """Count other votes on the items of each vote: those that agree, and all; shape (m, K) each.

        ``[i, k]`` counts votes on items that source i votes k on. A vote of source j counts as
        ``factors[j]``, shape (m,), by default 1, times ``1 - shared[i, j]``, shape (m, m).
        """
        array, classes = self.array, range(len(self.array))
        if factors is None:
            # All votes on these items, minus the votes of the source itself.
            cast = np.asarray(self.votes, np.float64)
            other_votes = np.stack([array[k].sum(axis=2).sum(axis=0) for k in classes], axis=1) - cast
            agreeing = np.stack([array[k, k].sum(axis=1) for k in classes], axis=1) - cast
            return np.maximum(agreeing, 0.0), np.maximum(other_votes, 0.0)
        counted = np.tile(factors, (len(factors), 1)) if shared is None else (1 - shared) * factors
        np.fill_diagonal(counted, 0.0)
        # Class by class: for many sources, a second copy of the counts would dominate the time.
        other_votes = np.stack([np.einsum("ij,ij->i", votes.sum(axis=0), counted) for votes in array], axis=1)
        agreeing = np.stack([np.einsum("ij,ij->i", array[k, k], counted) for k in classes], axis=1)
        return agreeing, other_votes

    def smallest_count(self, n_items: float) -> float:
        """Return the smallest count of any pair of votes or missing votes."""
        votes = self.votes
        missing = n_items - votes.sum(axis=1)
        one_missing = votes.T[:, None, :] - self.array.sum(axis=0)  # i missing, j votes b
        both_missing = missing[:, None] - one_missing.sum(axis=0)
        np.fill_diagonal(both_missing, missing)
        for table in one_missing:
            np.fill_diagonal(table, 0)
        return float(min(part.min() for part in (self.array, one_missing, both_missing)))

    def combine(self, other: PairCounts, sign: int = 1) -> DensePairs:
        """Return the sum, or the difference for ``sign=-1``."""
        theirs = other.to_dense().array
        return DensePairs(self.array + theirs if sign > 0 else self.array - theirs)

    def equals(self, other: PairCounts) -> bool:
        """Return whether all counts are equal, regardless of storage."""
        return np.array_equal(self.array, other.to_dense().array)

    def clipped(self) -> DensePairs:
        """Return the counts with 0 instead of negative rounding errors."""
        return DensePairs(np.maximum(self.array, 0))

    def reordered(self, classes: NDArray[np.intp] | None, sources: NDArray[np.intp] | None) -> DensePairs:
        """Return the counts of some sources, or with sources or classes in another order."""
        array = self.array
        if classes is not None:
            array = array[np.ix_(classes, classes)]
        if sources is not None:
            array = array[:, :, sources[:, None], sources]
        return DensePairs(np.ascontiguousarray(array))

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a file."""
        return {name: self.array}

    def to_dense(self) -> DensePairs:
        return self

    def to_sparse(self) -> SparsePairs:
        width = self.n_classes * self.n_sources
        return SparsePairs(csr_array(self.array.transpose(0, 2, 1, 3).reshape(width, width)), self.n_classes)


class _Entries(NamedTuple):
    """Counts of pairs that are not 0: the two sources, the vote of the other one, and the count."""

    source: NDArray[np.intp]
    other: NDArray[np.intp]
    vote: NDArray[np.intp]
    times: NDArray[Any]

    def where(self, mask: NDArray[np.bool_]) -> _Entries:
        """Return some of the counts."""
        return _Entries(*(each[mask] for each in self))


class SparsePairs:
    """Counts of pairs as a sparse matrix of shape (K m, K m), with the methods of the dense counts."""

    __slots__ = ("matrix", "n_classes", "votes")

    def __init__(self, matrix: csr_array, n_classes: int) -> None:
        """Take over a matrix; equal counts become equal arrays."""
        matrix = matrix.copy()  # it may be read-only
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
        self.matrix, self.n_classes = matrix, n_classes
        self.votes = np.ascontiguousarray(matrix.diagonal().reshape(n_classes, -1).T)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparsePairs, (self.matrix, self.n_classes)

    @property
    def n_sources(self) -> int:
        return int(self.matrix.shape[0]) // self.n_classes

    def counts(self, a: int, b: int) -> NDArray[Any]:
        m = self.n_sources
        return np.asarray(self.matrix[a * m : (a + 1) * m, b * m : (b + 1) * m].toarray())

    def table(self, i: int, j: int) -> NDArray[Any]:
        m = self.n_sources
        return np.asarray(self.matrix[i::m][:, j::m].toarray())

    def between(self, first: Sequence[int], second: Sequence[int]) -> NDArray[Any]:
        rows, columns = self._at(np.asarray(first, np.intp)), self._at(np.asarray(second, np.intp))
        pairs = self.matrix[rows][:, columns].toarray()
        k = self.n_classes
        return np.asarray(pairs.reshape(k, len(first), k, len(second)).transpose(1, 0, 3, 2))

    def _at(self, sources: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of some sources, class by class."""
        return (np.arange(self.n_classes)[:, None] * self.n_sources + sources).ravel()

    def by_own_vote(self, k: int) -> NDArray[Any]:
        return self._sums(self._entries(k))

    def by_vote(self, sources: NDArray[np.intp]) -> Array:
        part, width = self.matrix[self._at(sources)], self.matrix.shape[1]  # counts are symmetric
        cells = rows_of_entries(part) % len(sources) * width + part.indices
        counts = np.asarray(np.bincount(cells, part.data, len(sources) * width), np.float64)
        return counts.reshape(len(sources), self.n_classes, self.n_sources).swapaxes(0, 1)

    def overlap(self) -> NDArray[Any]:
        return self._sums(*self._classes())

    def agreement(self) -> NDArray[Any]:
        return self._sums(*(each.where(each.vote == k) for k, each in enumerate(self._classes())))

    def _entries(self, k: int) -> _Entries:
        """Return the counts of pairs in which the first source votes k."""
        m, matrix = self.n_sources, self.matrix
        ends = matrix.indptr[k * m : (k + 1) * m + 1]
        source, indices = np.repeat(np.arange(m), np.diff(ends)), matrix.indices[ends[0] : ends[-1]]
        vote = indices // m
        return _Entries(source, indices - vote * m, vote, matrix.data[ends[0] : ends[-1]])

    def _classes(self) -> Iterator[_Entries]:
        """Yield the counts of pairs for each vote of the first source."""
        return map(self._entries, range(self.n_classes))

    def _sums(self, *parts: _Entries) -> NDArray[Any]:
        """Sum counts by pair of sources, shape (m, m)."""
        m = self.n_sources
        sums = np.zeros(m * m, self.matrix.dtype)
        for part in parts:
            np.add.at(sums, part.source * m + part.other, part.times)
        return sums.reshape(m, m)

    def compare(self) -> PairAgreement:
        m, k, matrix = self.n_sources, self.n_classes, self.matrix
        # Each pair once: counts are symmetric. NumPy divides small integers by a constant quickly, but has no
        # fast remainder.
        of_other = matrix.indices // m
        other = matrix.indices - of_other * m
        source = np.repeat(np.tile(np.arange(m, dtype=other.dtype), k), np.diff(matrix.indptr))
        kept = np.flatnonzero((source < other) & (matrix.data > 0))
        of_other, times = of_other[kept], matrix.data[kept].astype(np.float64)
        # The rows are ordered by the vote of the first source.
        by_first = np.searchsorted(kept, matrix.indptr[::m])
        vote = np.repeat(np.arange(k, dtype=other.dtype), np.diff(by_first))
        pair = source[kept].astype(np.intp) * m + other[kept]
        is_shared = np.zeros(m * m, np.bool_)
        is_shared[pair] = True
        shared = np.flatnonzero(is_shared)
        number = np.empty(m * m, np.intp)
        number[shared] = np.arange(len(shared))
        pair, same = number[pair], np.flatnonzero(vote == of_other)
        agreement = np.asarray(np.bincount(pair[same], times[same], len(shared)), np.float64)
        # Integers of two bytes are sorted in linear time.
        order = np.argsort(of_other.astype(np.uint16) if k < 1 << 16 else of_other, kind="stable")
        by_second = np.concatenate([[0], np.cumsum(np.bincount(of_other, minlength=k))])
        pair_by_second, times_by_second = pair[order], times[order]

        def votes_on(k: int) -> Array:
            first, second = slice(*by_first[k : k + 2]), slice(*by_second[k : k + 2])
            return np.stack(
                [
                    np.bincount(pair[first], times[first], len(shared)),
                    np.bincount(pair_by_second[second], times_by_second[second], len(shared)),
                ]
            )

        return PairAgreement.of(shared // m, shared % m, map(votes_on, range(self.n_classes)), agreement)

    def others_votes(self) -> Array:
        m, k, matrix = self.n_sources, self.n_classes, self.matrix
        by_class = csr_array((matrix.data, matrix.indices // m, matrix.indptr), (k * m, k))
        sums = by_class.toarray().astype(np.float64)  # over all sources j
        return _without_own(sums.reshape(k, m, k).transpose(1, 0, 2).copy(), self.votes)

    def sparse_others_votes(self) -> VotesByClass:
        m, k, matrix = self.n_sources, self.n_classes, self.matrix
        spread = csr_array(
            (matrix.data.astype(np.float64), matrix.indices // m, matrix.indptr.copy()), shape=(k * m, k)
        )
        spread.sum_duplicates()
        cast = np.asarray(self.votes, np.float64).T.ravel()
        at = np.flatnonzero(cast)
        own = coo_array((cast[at], (at, at // m)), shape=spread.shape)
        others = csr_array(spread - own.tocsr())
        others.data = np.maximum(others.data, 0.0)  # rounding of float counts
        others.eliminate_zeros()
        return VotesByClass(others)

    def votes_of_others(
        self, factors: Array | None = None, shared: Array | None = None
    ) -> tuple[Array, Array]:
        m, k, matrix = self.n_sources, self.n_classes, self.matrix
        row, vote = rows_of_entries(matrix), matrix.indices // m
        other, counts = matrix.indices - vote * m, np.where(row == matrix.indices, 0.0, matrix.data)
        if shared is not None:  # few sources of a crowd depend on another
            is_shared = np.asarray(shared.any(axis=1))
            at = np.flatnonzero(np.repeat(np.tile(is_shared, k), np.diff(matrix.indptr)))
            at = at[is_shared[other[at]]]
            counts[at] *= 1 - shared[row[at] % m, other[at]]
        factors = np.ones(m) if factors is None else factors
        same_class = np.where(row // m == vote, counts, 0.0)
        agreeing, other_votes = (
            (csr_array((each, other, matrix.indptr), shape=(k * m, m)) @ factors).reshape(k, m).T
            for each in (same_class, counts)
        )
        return agreeing, other_votes

    def smallest_count(self, n_items: float) -> float:
        # A missing vote next to a vote cannot be negative if no pair exceeds the votes of its sources.
        matrix, cast = self.matrix, self.matrix.diagonal()
        least = [
            matrix.data.min(initial=0),
            (cast[rows_of_entries(matrix)] - matrix.data).min(initial=0),
            (cast[matrix.indices] - matrix.data).min(initial=0),
        ]
        return float(min(*least, n_items - cast.max(initial=0)))

    def combine(self, other: PairCounts, sign: int = 1) -> PairCounts:
        theirs = other.to_sparse().matrix
        total = self.matrix + theirs if sign > 0 else self.matrix - theirs
        return pair_counts_of(csr_array(total), self.n_classes)

    def equals(self, other: PairCounts) -> bool:
        a, b = self.matrix, other.to_sparse().matrix
        parts = ((a.data, b.data), (a.indices, b.indices), (a.indptr, b.indptr))
        return a.shape == b.shape and all(np.array_equal(x, y) for x, y in parts)

    def _with(self, data: NDArray[Any]) -> SparsePairs:
        matrix = self.matrix
        return SparsePairs(
            csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape), self.n_classes
        )

    def clipped(self) -> SparsePairs:
        return self._with(np.maximum(self.matrix.data, 0))

    def reordered(self, classes: NDArray[np.intp] | None, sources: NDArray[np.intp] | None) -> SparsePairs:
        k = np.arange(self.n_classes) if classes is None else classes
        i = np.arange(self.n_sources) if sources is None else sources
        at = (k[:, None] * self.n_sources + i).ravel()
        return SparsePairs(self.matrix[at][:, at], self.n_classes)

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        return {f"{name}_{part}": getattr(self.matrix, part) for part in ("data", "indices", "indptr")}

    def to_dense(self) -> DensePairs:
        k, m = self.n_classes, self.n_sources
        return DensePairs(
            np.ascontiguousarray(self.matrix.toarray().reshape(k, m, k, m).transpose(0, 2, 1, 3))
        )

    def to_sparse(self) -> SparsePairs:
        return self


PairCounts: TypeAlias = DensePairs | SparsePairs


def pair_counts_of(counts: Any, n_classes: int) -> PairCounts:
    """Wrap an array of shape (K, K, m, m) or a sparse matrix of shape (K m, K m), in the storage for it."""
    if isinstance(counts, csr_array):
        pairs = SparsePairs(counts, n_classes)
        return pairs if is_sparse_enough(pairs.matrix, n_classes) else pairs.to_dense()
    dense = DensePairs(counts)
    return dense.to_sparse() if are_pairs_sparse(dense.n_sources, n_classes) else dense


def _without_own(total: Array, votes: NDArray[Any]) -> Array:
    """Subtract the own votes of a source from the votes on its items."""
    at = np.arange(votes.shape[1])
    total[:, at, at] -= votes
    return np.maximum(total, 0.0)
