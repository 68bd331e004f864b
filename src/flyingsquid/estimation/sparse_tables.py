"""Tables of very many sources and classes: a shape that all share, and what the counts say beyond it.

The expected counts behind a table are 0 beyond the prior wherever no two votes ever met. So a table is
``shared[i, v]``, the same for every truth, plus a sparse rest, over ``totals[i, k]``:

    P(source i votes v | Y = k, it votes) = (shared[i, v] + beyond[v m + i, k]) / totals[i, k].

3,000 sources and 1,500 classes have 6.75e9 cells; the votes of 20,000 items leave 1e7 of them to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from flyingsquid.exceptions import OptionError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# More cells than this are not put into one array.
MOST_CELLS = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class SparseTables:
    """P(vote = v | Y = k) of m sources, shape (m, K, K + 1), no vote last, without the cells that are alike.

    ``tables[i]`` is the table of source i, an array of shape (K, K + 1); ``len`` and iteration go by source.
    ``np.asarray(tables)`` is refused where it would not fit into memory.

    Attributes
    ----------
    shared : array of shape (m, K)
        What a vote has for every truth alike.
    beyond : sparse matrix of shape (K m, K)
        What it has beyond; row v m + i is "source i votes v", columns are truths.
    totals : array of shape (m, K)
        What the votes of a source sum to, for each truth.
    coverage : array of shape (m,)
        P(source votes).
    """

    shared: Array
    beyond: csr_array
    totals: Array
    coverage: Array

    @classmethod
    def of(cls, shared: Array, beyond: csr_array, coverage: Array) -> SparseTables:
        """Tables whose rows sum to 1."""
        return cls(
            shared, beyond, shared.sum(axis=1)[:, None] + sum_over_votes(beyond, len(shared)), coverage
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        m, n_classes = self.shared.shape
        return m, n_classes, n_classes + 1

    def __len__(self) -> int:
        return len(self.shared)

    def __getitem__(self, source: int) -> Array:
        m, n_classes = self.shared.shape
        if not hasattr(source, "__index__"):
            raise OptionError(f"tables of {m:,} sources are read one at a time, as in confusion_[0]")
        at = range(m)[source.__index__()]
        counts = self.shared[at] + self.beyond[at::m].toarray().T  # truth, vote
        votes = self.coverage[at] * counts / self.totals[at][:, None]
        return np.column_stack([votes, np.full(n_classes, 1 - self.coverage[at])])

    def __iter__(self) -> Iterator[Array]:
        return (self[source] for source in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        m, n_classes, width = self.shape
        if m * n_classes * width > MOST_CELLS:
            raise OptionError(
                f"tables of {m:,} sources and {n_classes:,} classes would take "
                f"{8e-9 * m * n_classes * width:,.0f} GB as one array; read them source by source, as in "
                "confusion_[0]"
            )
        return np.array(list(self), np.float64 if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"SparseTables(shape={self.shape}, {self.beyond.nnz:,} cells kept)"

    def right(self) -> Array:
        """P(source i votes k | Y = k, it votes), shape (m, K)."""
        m, n_classes = self.shared.shape
        own = np.zeros((m, n_classes))
        entries = self.beyond.tocoo()
        said, source = np.divmod(entries.row, m)
        on = said == entries.col
        np.add.at(own, (source[on], entries.col[on]), entries.data[on])
        return np.asarray((self.shared + own) / self.totals)

    def draw(self, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
        """Votes on items of classes ``y``, shape (n, m), codes with -1 for no vote."""
        m, n_classes = self.shared.shape
        by_truth = csr_array(self.beyond.T)
        codes = np.full((len(y), m), -1, np.int16)
        for item, truth in enumerate(y):
            votes = np.flatnonzero(rng.random(m) < self.coverage)
            part = slice(by_truth.indptr[truth], by_truth.indptr[truth + 1])
            said, source = np.divmod(by_truth.indices[part], m)
            place = np.full(m, -1)
            place[votes] = np.arange(len(votes))
            weights, on = self.shared[votes].copy(), place[source] >= 0
            np.add.at(weights, (place[source[on]], said[on]), by_truth.data[part][on])
            steps = weights.cumsum(axis=1)
            drawn = (rng.random((len(votes), 1)) * steps[:, -1:] > steps).sum(axis=1)
            codes[item, votes] = np.minimum(drawn, n_classes - 1)
        return codes


def sum_over_votes(beyond: csr_array, m: int) -> Array:
    """Sums over what was voted, shape (m, K), of a matrix whose row v m + i is "source i votes v"."""
    n_classes = beyond.shape[1]
    source = np.repeat(np.arange(beyond.shape[0]) % m, np.diff(beyond.indptr))
    flat = np.bincount(source * n_classes + beyond.indices, beyond.data, minlength=m * n_classes)
    return np.asarray(flat.reshape(m, n_classes))


def sparse_others_votes(moments: Moments) -> csr_array:
    """How the other votes spread where a source votes, shape (K m, K).

    Row v m + i, column k counts votes of other sources for class k on items that source i votes v on.
    """
    m, n_classes = moments.n_sources, moments.n_classes
    block = moments.blocks[0]
    if not isinstance(block, csr_array):
        block = csr_array(block.transpose(0, 2, 1, 3).reshape(n_classes * m, n_classes * m))
    spread = csr_array(
        (block.data.astype(np.float64), block.indices // m, block.indptr.copy()),
        shape=(n_classes * m, n_classes),
    )
    spread.sum_duplicates()
    cast = np.asarray(moments.vote_counts, np.float64).T.ravel()
    at = np.flatnonzero(cast)
    itself = coo_array((cast[at], (at, at // m)), shape=spread.shape)
    others = csr_array(spread - itself.tocsr())
    others.data = np.maximum(others.data, 0.0)  # rounding of float counts
    others.eliminate_zeros()
    return others


def scaled_rows(matrix: csr_array, factors: Array) -> csr_array:
    """Every row times its factor; ``factors`` of shape (m, K) belong to the rows v m + i."""
    by_row = np.repeat(factors.T.ravel(), np.diff(matrix.indptr))
    return csr_array((matrix.data * by_row, matrix.indices, matrix.indptr), shape=matrix.shape)
