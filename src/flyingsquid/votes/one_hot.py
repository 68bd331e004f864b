"""Votes as zeros and ones, whatever the storage of the codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from flyingsquid.votes.states import Codes, rows_of_entries

Array = NDArray[np.float64]
# Up to this many classes, a dense product beats a sparse one.
FEW_CLASSES = 8


class Entries(NamedTuple):
    """One entry per vote: ``source[t]`` votes for class ``vote[t]`` on ``item[t]``."""

    item: NDArray[np.intp]
    source: NDArray[np.intp]
    vote: NDArray[np.intp]


class OneHot:
    """Votes as zeros and ones: one row per item, one column per class and source.

    Column ``v * m + i`` is 1 where source i votes for class v. Most cells are 0, so only the others are kept.

    Attributes
    ----------
    matrix : scipy sparse array of shape (n, K m)
        The storage. Only ``votes/`` and ``moments/`` read it; other packages use the methods.
    n_classes : int

    Examples
    --------
    >>> votes = OneHot.of(np.array([[0, 1], [-1, 1]]), n_classes=2)
    >>> votes.n_votes.tolist(), (votes @ np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    ([2, 1], [5.0, 4.0])
    """

    __slots__ = ("matrix", "n_classes")

    def __init__(self, matrix: csr_array, n_classes: int) -> None:
        self.matrix, self.n_classes = matrix, n_classes

    @classmethod
    def of(cls, codes: Codes, n_classes: int) -> OneHot:
        """Convert dense (n, m) or sparse codes."""
        n, m = codes.shape
        if isinstance(codes, csr_array):
            voted = codes.data > 0
            row, source = rows_of_entries(codes)[voted], codes.indices[voted]
            vote = codes.data[voted].astype(np.int64) - 1
            column = vote * m + source
            return cls(csr_array((np.ones(len(row)), (row, column)), shape=(n, n_classes * m)), n_classes)
        # Cells are visited row by row, as they are stored, so that nothing has to be sorted by row.
        voted = codes >= 0
        at = np.flatnonzero(voted)
        index = np.int32 if max(len(at), n_classes * m) < 1 << 31 else np.int64
        column = np.take(codes, at).astype(index) * m + (at % m).astype(index)
        ends = np.concatenate([[0], np.cumsum(voted.sum(axis=1))]).astype(index)
        matrix = csr_array((np.ones(len(at)), column, ends), shape=(n, n_classes * m))
        matrix.sort_indices()
        return cls(matrix, n_classes)

    @classmethod
    def of_strengths(cls, strengths: Array, n_classes: int) -> OneHot:
        """Convert votes that count by a strength instead of 0 or 1, shape (n, K m)."""
        return cls(csr_array(strengths), n_classes)

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_sources(self) -> int:
        return int(self.matrix.shape[1]) // self.n_classes

    @property
    def n_votes(self) -> NDArray[Any]:
        """Number of votes on each item, shape (n,)."""
        return np.diff(self.matrix.indptr)

    @property
    def totals(self) -> Array:
        """Sum of the strengths of the votes on each item, shape (n,)."""
        return np.asarray(self.matrix @ np.ones(self.matrix.shape[1]))

    def entries(self) -> Entries:
        """Return item, source and class of every vote, item by item."""
        vote, source = np.divmod(self.matrix.indices, self.n_sources)
        return Entries(rows_of_entries(self.matrix), source, vote)

    def __getitem__(self, items: Any) -> OneHot:
        return OneHot(self.matrix[items], self.n_classes)

    def stacked_on(self, below: OneHot) -> OneHot:
        """Return these items followed by those of ``below``."""
        return OneHot(csr_array(vstack([self.matrix, below.matrix], format="csr")), self.n_classes)

    def evenly_shared(self) -> OneHot:
        """Return the votes with strengths that sum to 1 for each item that has votes."""
        voted, matrix = self.n_votes, self.matrix
        shares = matrix.data / np.repeat(voted, voted)
        return OneHot(csr_array((shares, matrix.indices, matrix.indptr), shape=matrix.shape), self.n_classes)

    # ------------------------------------------------------------------ sums over the votes on an item

    def __matmul__(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (K m,) or (K m, r) over the votes on each item, shape (n,) or (n, r)."""
        return np.asarray(self.matrix @ weights)

    def class_sums(self, weights: Array) -> Array:
        """Sum ``weights`` of shape (m, K) over the votes for each class on each item, shape (n, K)."""
        m, n_classes = weights.shape
        if n_classes <= FEW_CLASSES:
            spread = np.eye(n_classes)[:, None] * weights.T[:, :, None]
            return np.asarray(self.matrix @ spread.reshape(n_classes * m, n_classes))
        by_class = csr_array(
            (weights.T.ravel(), np.repeat(np.arange(n_classes), m), np.arange(n_classes * m + 1)),
            shape=(n_classes * m, n_classes),
        )
        return np.asarray((self.matrix @ by_class).todense(), np.float64)

    def source_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (m, r) over the sources that vote on each item, shape (n, r)."""
        matrix, m = self.matrix, self.n_sources
        voters = csr_array((matrix.data, matrix.indices % m, matrix.indptr), shape=(matrix.shape[0], m))
        return np.asarray(voters @ values)

    def other_votes(self, values: Array) -> tuple[Array, Array]:
        """Sum, for every vote, over the other votes on its item; in the order of :meth:`entries`.

        Parameters
        ----------
        values : array of shape (m, K)

        Returns
        -------
        sums : array with one entry per vote
            For a vote of source i: the sum of ``values[i, k]`` over the other votes, k being their classes.
        same : array with one entry per vote
            Number of other votes for the same class.
        """
        item, source, vote = self.entries()
        shape = (self.n_items, values.shape[1])
        tally = csr_array((self.matrix.data, vote, self.matrix.indptr), shape=shape, copy=True)
        tally.sum_duplicates()
        sums = np.asarray(tally @ values.T)[item, source] - values[source, vote]
        return np.asarray(sums), np.asarray(tally[item, vote]).ravel() - 1

    # ------------------------------------------------------------------ sums over items

    def vote_sums(self, values: Array) -> Array:
        """Sum ``values`` of shape (n,) or (n, r) over the items with each vote, shape (K, m) or (K, m, r)."""
        sums = np.asarray(self.matrix.T @ values)
        return sums.reshape(self.n_classes, self.n_sources, *values.shape[1:])

    def features(self, sources: NDArray[np.intp]) -> VoteFeatures:
        """Return the votes of some sources as features."""
        columns = (np.arange(self.n_classes)[:, None] * self.n_sources + sources).ravel()
        return VoteFeatures(OneHot(self.matrix[:, columns], self.n_classes))


class VoteFeatures:
    """A constant 1 and the votes of s sources as 0 and 1: one row per item, 1 + K s columns."""

    __slots__ = ("_matrix", "votes")

    def __init__(self, votes: OneHot) -> None:
        self.votes = votes
        self._matrix = csr_array(hstack([np.ones((votes.n_items, 1)), votes.matrix], format="csr"))

    def sums(self, weights: Array) -> Any:
        """Sum the features over items with ``weights`` of shape (n,), shape (1 + K s,)."""
        return np.asarray(self._matrix.T @ weights)

    def products(self, other: VoteFeatures, weights: Array) -> Array:
        """Sum products with the features of ``other`` over items, shape (1 + K s, 1 + K t)."""
        weighted = self._matrix.multiply(weights[:, None]).tocsr()
        return np.asarray((weighted.T @ other._matrix).todense())
