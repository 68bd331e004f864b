"""Counts of votes by the class of the item, stored sparsely."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.exceptions import ModelFileError
from flyingsquid.votes.codes import OneHot, rows_of_entries

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


class ClassEntries(NamedTuple):
    """Entries of :class:`VotesByClass`: source, class voted for, class of the item, and how often."""

    source: NDArray[np.intp]
    vote: NDArray[np.intp]
    label: NDArray[np.intp]
    number: Array


class VotesByClass:
    """Sparse counts of the votes v of each source on items of class k; shape (m, K, K).

    The class of an item may be known, or the items may be spread over the classes by other means; counts need
    not be integers.

    Attributes
    ----------
    matrix : scipy sparse array of shape (K m, K)
        The storage; row ``v * m + i`` is "source i votes v", columns are classes of items. Only ``votes/``
        and ``moments/`` read it; other packages use the methods.

    Examples
    --------
    >>> votes = OneHot.of(np.array([[0, 0], [1, -1], [1, 1]]), n_classes=2)
    >>> counts = VotesByClass.of(votes, np.array([0, 0, 1]), np.ones(3))
    >>> counts.to_array()[0].tolist()  # rows: vote of source 0, columns: class
    [[1.0, 0.0], [1.0, 1.0]]
    """

    __slots__ = ("matrix",)

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix

    @classmethod
    def of(cls, votes: OneHot, labels: NDArray[Any], weights: Array) -> VotesByClass:
        """Count votes on items of known class.

        Parameters
        ----------
        votes : OneHot of n items
        labels : integer array of shape (n,)
            Class of each item.
        weights : array of shape (n,)
            How often each item counts.
        """
        n = len(labels)
        truth = csr_array((weights, labels, np.arange(n + 1)), shape=(n, votes.n_classes))
        return cls(csr_array(votes.matrix.T @ truth))

    @classmethod
    def on_one_class(cls, counts: Array, labels: NDArray[np.intp]) -> VotesByClass:
        """Return counts of votes that all fall on one class: ``counts[i, v]`` on the class ``labels[v]``."""
        m, n_classes = counts.shape
        return cls(
            csr_array(
                (counts.T.ravel(), np.repeat(labels, m), np.arange(n_classes * m + 1)),
                shape=(n_classes * m, n_classes),
            )
        )

    @property
    def n_classes(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def n_sources(self) -> int:
        return int(self.matrix.shape[0]) // self.n_classes

    @property
    def n_entries(self) -> int:
        """Number of cells that are stored."""
        return int(self.matrix.nnz)

    def entries(self) -> ClassEntries:
        """Return all stored cells."""
        vote, source = np.divmod(rows_of_entries(self.matrix), self.n_sources)
        return ClassEntries(source, vote, self.matrix.indices, self.matrix.data)

    def to_array(self) -> Array:
        """Return one array of shape (m, K, K), axes source, vote, class."""
        counts = self.matrix.toarray().reshape(self.n_classes, self.n_sources, self.n_classes)
        return np.asarray(counts.transpose(1, 0, 2))

    def of_source(self, source: int) -> Array:
        """Return the counts of one source, shape (K, K), axes vote, class."""
        return np.asarray(self.matrix[source :: self.n_sources].toarray())

    def of_sources(self, sources: Sequence[int]) -> VotesByClass:
        """Return the counts of some sources."""
        rows = np.arange(self.n_classes)[:, None] * self.n_sources + np.asarray(sources, np.intp)
        return VotesByClass(csr_array(self.matrix[rows.ravel()]))

    def by_vote(self) -> Array:
        """Sum over the classes of items, shape (m, K)."""
        return np.asarray(self.matrix.sum(axis=1), np.float64).reshape(-1, self.n_sources).T

    def by_class(self) -> Array:
        """Sum over the classes voted for, shape (m, K)."""
        m, k = self.n_sources, self.n_classes
        source = rows_of_entries(self.matrix) % m
        sums = np.bincount(source * k + self.matrix.indices, self.matrix.data, minlength=m * k)
        return np.asarray(sums.reshape(m, k))

    def over_sources(self) -> Array:
        """Sum over the sources, shape (K, K), axes vote, class."""
        sums = np.zeros((self.n_classes, self.n_classes))
        _, vote, label, count = self.entries()
        np.add.at(sums, (vote, label), count)
        return sums

    def right(self) -> Array:
        """Return the votes for the class of the item, shape (m, K)."""
        counts = np.zeros((self.n_sources, self.n_classes))
        source, vote, label, count = self.entries()
        on = vote == label
        np.add.at(counts, (source[on], label[on]), count[on])
        return counts

    def scaled(self, factors: Array) -> VotesByClass:
        """Multiply the counts of every vote by its factor, shape (m, K)."""
        by_row = np.repeat(factors.T.ravel(), np.diff(self.matrix.indptr))
        return self._with(self.matrix.data * by_row)

    def mapped(self, function: Callable[[Array], Array]) -> VotesByClass:
        """Apply a function to the counts; cells that are not stored stay 0."""
        return self._with(function(self.matrix.data))

    def with_classes(self, labels: NDArray[np.intp]) -> VotesByClass:
        """Return the counts with class k of the items renamed to ``labels[k]``."""
        matrix = self.matrix
        return VotesByClass(
            csr_array((matrix.data, labels[matrix.indices], matrix.indptr), shape=matrix.shape)
        )

    def __add__(self, other: VotesByClass) -> VotesByClass:
        return VotesByClass(csr_array(self.matrix + other.matrix))

    def sums_over(self, votes: OneHot) -> Array:
        """Sum the rows of an item's votes, shape (n, K)."""
        return np.asarray(csr_array(votes.matrix @ self.matrix).toarray())

    def _with(self, data: NDArray[Any]) -> VotesByClass:
        matrix = self.matrix
        return VotesByClass(csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a file; :meth:`from_arrays` reads them."""
        return {
            f"{name}_data": self.matrix.data.astype(np.float64),
            f"{name}_indices": self.matrix.indices.astype(np.int64),
            f"{name}_indptr": self.matrix.indptr.astype(np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, name: str, n_sources: int, n_classes: int) -> VotesByClass:
        """Build from the result of :meth:`to_arrays`.

        Raises
        ------
        ModelFileError
            If the arrays are not counts of that shape.
        """
        matrix = read_csr(arrays, name, (n_classes * n_sources, n_classes))
        data = matrix.data
        if data.dtype.kind != "f" or not bool(np.isfinite(data).all() and (data >= 0).all()):
            raise ModelFileError(f"The sparse counts '{name}' in the file must be finite and >= 0.")
        return cls(matrix)


def read_csr(arrays: Arrays, name: str, shape: tuple[int, int]) -> csr_array:
    """Return the sparse matrix in the arrays ``{name}_data``, ``{name}_indices`` and ``{name}_indptr``.

    Raises
    ------
    ModelFileError
        If they do not describe a matrix of that shape; no index is used before it is checked.
    """
    data, indices, starts = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    fits = (
        data.ndim == indices.ndim == starts.ndim == 1
        and indices.dtype.kind == starts.dtype.kind == "i"
        and len(starts) == shape[0] + 1
        and len(data) == len(indices) == starts[-1]
        and starts[0] == 0
        and bool((np.diff(starts) >= 0).all())
        and bool(((indices >= 0) & (indices < shape[1])).all())
    )
    if not fits:
        raise ModelFileError(f"The sparse counts '{name}' in the file do not match its other counts.")
    return csr_array((data, indices, starts), shape=shape)
