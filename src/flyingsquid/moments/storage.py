"""How the pairs of a block are kept: one dense array, or a sparse matrix where that would be too large.

Dense is (K, K, b, b). Sparse is (K b, K b), class by class: row v b + i is "source i votes v". What is
missing is derived in both, so what never happened together takes no room in the sparse one.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Block: TypeAlias = NDArray[Any] | csr_array
# Above this, pairs of more than two classes are kept sparse.
_DENSE_BYTES = 1 << 28


def is_kept_sparse(n_sources: int, n_classes: int) -> bool:
    """Whether a block is sparse: by its shape alone, so that parts that are merged agree."""
    return n_classes > 2 and (n_sources * n_classes) ** 2 * 8 > _DENSE_BYTES


def as_integers(block: Block) -> Block:
    """Counts in float64 as int64."""
    if not isinstance(block, csr_array) and block.dtype == np.int64:
        return block
    return _map(block, lambda values: np.rint(values).astype(np.int64))


def not_below_zero(block: Block) -> Block:
    """What rounding left below 0 is 0."""
    return _map(block, lambda values: np.maximum(values, 0))


def _map(block: Block, change: Any) -> Block:
    if not isinstance(block, csr_array):
        return np.asarray(change(block))
    return tidy(csr_array((change(block.data), block.indices, block.indptr), shape=block.shape))


def tidy(block: csr_array) -> csr_array:
    """Without zeros and duplicates, columns ascending: equal counts are equal arrays."""
    block = block.copy()  # what is frozen cannot be tidied in place
    block.sum_duplicates()
    block.eliminate_zeros()
    block.sort_indices()
    return block


def added(a: Block, b: Block, sign: int = 1) -> Block:
    """a + b, or a - b."""
    total = a + b if sign > 0 else a - b
    return tidy(csr_array(total)) if isinstance(a, csr_array) else total


def equal(a: Block, b: Block) -> bool:
    """Whether all counts are equal."""
    if not isinstance(a, csr_array) or not isinstance(b, csr_array):
        return type(a) is type(b) and np.array_equal(a, b)
    parts = ((a.data, b.data), (a.indices, b.indices), (a.indptr, b.indptr))
    return a.shape == b.shape and all(np.array_equal(x, y) for x, y in parts)


def freeze(block: Block) -> None:
    """Make a block read-only."""
    arrays = (block.data, block.indices, block.indptr) if isinstance(block, csr_array) else (block,)
    for array in arrays:
        array.flags.writeable = False


def votes_cast(block: Block, n_classes: int) -> NDArray[Any]:
    """How often each source voted each class, shape (b, K): the diagonal."""
    if isinstance(block, csr_array):
        return np.asarray(block.diagonal().reshape(n_classes, -1).T)
    return np.stack([block[k, k].diagonal() for k in range(n_classes)], axis=1)


def reordered(
    block: Block, classes: NDArray[np.intp] | None, sources: NDArray[np.intp] | None, n_classes: int
) -> Block:
    """The counts with classes, or sources, in another order."""
    if isinstance(block, csr_array):
        b = block.shape[0] // n_classes
        k = np.arange(n_classes) if classes is None else classes
        i = np.arange(b) if sources is None else sources
        at = (k[:, None] * b + i).ravel()
        return tidy(block[at][:, at])
    if classes is not None:
        block = block[np.ix_(classes, classes)]
    if sources is not None:
        block = block[:, :, sources[:, None], sources]
    return np.ascontiguousarray(block)


def lowest(block: Block, n_items: float, n_classes: int) -> float:
    """The smallest count of any pair of states, missing ones included; of a sparse block, of votes."""
    if isinstance(block, csr_array):
        # A missing state beside a vote cannot be negative where no pair exceeds the votes of its sources.
        cast = block.diagonal()
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        left = cast[rows] - block.data
        least = [
            block.data.min(initial=0),
            left.min(initial=0),
            (cast[block.indices] - block.data).min(initial=0),
        ]
        return float(min(*least, n_items - cast.max(initial=0)))
    votes = votes_cast(block, n_classes)
    missing = n_items - votes.sum(axis=1)
    one_missing = votes.T[:, None, :] - block.sum(axis=0)  # i missing, j votes b
    both_missing = missing[:, None] - one_missing.sum(axis=0)
    np.fill_diagonal(both_missing, missing)
    for table in one_missing:
        np.fill_diagonal(table, 0)
    return float(min(part.min() for part in (block, one_missing, both_missing)))
