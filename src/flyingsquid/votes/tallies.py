"""Sums and counts over the votes of an item or of a source, for dense and for sparse codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid._limits import LIMITS
from flyingsquid.kernels import blocks_of, run_in_threads, split_missing
from flyingsquid.votes.codes import (
    ABSTAIN,
    FEW_CLASSES,
    REASONS,
    Codes,
    Label,
    OneHot,
    rows_of_entries,
    sparse_votes,
    sparse_width,
)

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
# Cells that are looked at together: small enough to stay in the cache.
_CHUNK_CELLS = 1 << 18
# Cells of one-hot votes that are made together.
_ONE_HOT_CELLS = 1 << 22
# Half a megabyte of floats, which stays in the cache.
_SUM_CELLS = 1 << 16
# Up to this many sources, a loop over columns is faster than a reduction of each row.
_FEW_SOURCES = 16


# ---------------------------------------------------------------------- per item


def class_counts(codes: Codes, n_classes: int) -> Array:
    """Count the votes for each class on each item, shape (n, K).

    >>> class_counts(np.array([[0, 1, 1], [-1, -1, -1]]), 2).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    return class_sums(codes, np.ones((codes.shape[1], n_classes), np.float32))


def count_votes_per_item(codes: Codes) -> Counts:
    """Count the votes on each item, shape (n,).

    >>> count_votes_per_item(np.array([[0, 0, -1], [0, 1, 1], [-1, -1, -1]])).tolist()
    [2, 3, 0]
    """
    if isinstance(codes, csr_array):
        return np.bincount(rows_of_entries(codes)[codes.data > 0], minlength=codes.shape[0])
    if codes.shape[1] > _FEW_SOURCES:
        return np.count_nonzero(codes >= 0, axis=1)
    n_votes = np.zeros(len(codes), np.int64)
    for column in codes.T:
        n_votes += column >= 0
    return n_votes


class ItemVotes(NamedTuple):
    """Votes on each item, regardless of their sources.

    Attributes
    ----------
    n_votes : integer array of shape (n,)
        Number of votes on the item.
    split : mask of shape (n,)
        Whether two of them differ.
    """

    n_votes: Counts
    split: NDArray[np.bool_]


def item_votes(codes: Codes) -> ItemVotes:
    """Count the votes on each item, and check whether any two differ.

    >>> votes = item_votes(np.array([[0, 0, -1], [0, 1, 1], [-1, -1, -1]]))
    >>> votes.n_votes.tolist(), votes.split.tolist()
    ([2, 3, 0], [False, True, False])
    """
    n, n_votes = codes.shape[0], count_votes_per_item(codes)
    if isinstance(codes, csr_array):
        item, _, vote = sparse_votes(codes)
        highest, lowest = np.full(n, ABSTAIN), np.full(n, np.iinfo(np.intp).max)
        np.maximum.at(highest, item, vote)
        np.minimum.at(lowest, item, vote)
        return ItemVotes(n_votes, highest > lowest)
    split = np.empty(n, np.bool_)
    for rows, chunk in _chunks(codes):
        lowest = np.where(chunk >= 0, chunk, np.iinfo(chunk.dtype).max).min(axis=1)
        split[rows] = chunk.max(axis=1) > lowest
    # Without any vote the lowest is larger than the highest, so such an item is not split.
    return ItemVotes(n_votes, split & (n_votes > 1))


def has_votes(codes: Codes) -> NDArray[np.bool_]:
    """Return which items have at least one vote, shape (n,).

    >>> has_votes(np.array([[0, -1], [-1, -1]])).tolist()
    [True, False]
    """
    if isinstance(codes, csr_array):
        return np.bincount(rows_of_entries(codes)[codes.data > 0], minlength=codes.shape[0]) > 0
    if codes.shape[1] > _FEW_SOURCES:
        return np.asarray(codes.max(axis=1) >= 0)
    found = np.zeros(len(codes), np.bool_)
    for column in codes.T:
        found |= column >= 0
    return found


def sum_votes(codes: Codes, values: Array) -> Array:
    """Sum, for each item, a row of ``values`` per vote.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    values : array of shape (K, m, r)
        ``values[v, i]`` is added when source i votes for class v.

    Returns
    -------
    array of shape (n, r)

    Examples
    --------
    >>> sum_votes(np.array([[0, 1], [-1, 1]]), np.array([[[1.0], [2.0]], [[3.0], [4.0]]])).tolist()
    [[5.0], [4.0]]
    """
    (n_classes, m, r), n = values.shape, codes.shape[0]
    sums = np.zeros((n, r))
    if isinstance(codes, csr_array) or n_classes > FEW_CLASSES:
        width = sparse_width(codes) if isinstance(codes, csr_array) else m
        for block in blocks_of(n, max(1, _ONE_HOT_CELLS // max(width, n_classes))):
            sums[block] = OneHot.of(codes[block], n_classes) @ values.reshape(n_classes * m, r)
        return sums
    rows = min(n, max(1, _SUM_CELLS // m))

    def add(blocks: Sequence[slice]) -> None:
        buffer = np.empty((rows, m))  # no (n, m) array of floats
        for block in blocks:
            chunk: Any = codes[block]
            hot, part = buffer[: len(chunk)], sums[block]
            for vote, added in enumerate(values):
                hot[...] = chunk == vote
                part += hot @ added

    blocks = blocks_of(n, rows)
    if codes.size < LIMITS.get().compiled_cells:
        add(blocks)
    else:
        run_in_threads(add, blocks)
    return sums


def class_sums(codes: Codes, weights: NDArray[Any]) -> Array:
    """Sum the weights of the votes for each class on each item, shape (n, K).

    ``weights[i, k]`` is the weight of a vote of source i for class k, shape (m, K).

    >>> class_sums(np.array([[0, 1], [-1, -1]]), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 4.0], [0.0, 0.0]]
    """
    (m, n_classes), n = weights.shape, codes.shape[0]
    sums = np.empty((n, n_classes))
    if isinstance(codes, csr_array) or n_classes > FEW_CLASSES:
        width = sparse_width(codes) if isinstance(codes, csr_array) else m
        for block in blocks_of(n, max(1, _ONE_HOT_CELLS // max(width, n_classes))):
            sums[block] = OneHot.of(codes[block], n_classes).class_sums(weights.astype(np.float64))
        return sums
    rows = max(1, min(n, _CHUNK_CELLS // m))
    buffer = np.empty((rows, m), weights.dtype)
    for start in range(0, n, rows):
        block = slice(start, min(n, start + rows))
        chunk: Any = codes[block]
        hot = buffer[: len(chunk)]
        for k in range(n_classes):
            hot[...] = chunk == k
            # Zeros and ones cannot overflow; some BLAS kernels raise the flag from cells next to a row.
            with np.errstate(invalid="ignore"):
                sums[block, k] = hot @ weights[:, k]
    return sums


def sum_binary_votes(codes: Codes, weights: Array) -> Array:
    """Sum, for each item, the weight of every source's vote or of its missing vote.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of two classes
    weights : array of shape (m, 3), or (m, 3, r) for r sums at once
        Weights of a vote for class 0, of a vote for class 1, and of no vote.

    Returns
    -------
    array of shape (n,) or (n, r)
    """
    zero, one, constant = split_missing(weights)
    values = np.stack([zero, one]).reshape(2, len(zero), -1)
    sums = sum_votes(codes, values).reshape(codes.shape[0], *weights.shape[2:])
    sums += constant
    return sums


# ---------------------------------------------------------------------- per source


@dataclass(frozen=True, slots=True, eq=False)
class SourceTally:
    """Counts of single sources, without pairs.

    Attributes
    ----------
    n_items : int or float
        Number of items, or the sum of their weights.
    votes : array of shape (m, K)
        Number of votes of each source for each class.
    missing : array of shape (m, 4)
        Votes that were refused, unparseable, failed and not asked for.
    classes : tuple of K labels
    source_names : tuple of m str
    """

    n_items: int | float
    votes: NDArray[Any]
    missing: NDArray[Any]
    classes: tuple[Label, ...]
    source_names: tuple[str, ...]

    @classmethod
    def of_votes(cls, votes: Votes, weights: NDArray[Any] | None = None) -> SourceTally:
        """Count votes; ``weights`` of shape (n,) are the weights of the items.

        Time O(nm), memory O(mK): pairs are not counted.
        """
        counts = _state_counts(votes.codes, votes.n_classes, weights)
        if weights is None or weights.dtype.kind == "i":
            counts = np.rint(counts).astype(np.int64)
        n_items = votes.n_items if weights is None else weights.sum().item()
        # States count up from the last reason; the one before the classes is a plain abstain.
        missing = counts[:, len(REASONS) - 2 :: -1]
        return cls(n_items, counts[:, len(REASONS) :], missing, votes.classes, votes.source_names)

    def __add__(self, other: SourceTally) -> SourceTally:
        """Add counts of the same sources and classes in the same order."""
        return replace(
            self,
            n_items=self.n_items + other.n_items,
            votes=self.votes + other.votes,
            missing=self.missing + other.missing,
        )

    @property
    def n_votes(self) -> NDArray[Any]:
        """Number of votes of each source, shape (m,)."""
        return np.asarray(self.votes.sum(axis=1))

    @property
    def coverage(self) -> NDArray[np.float64]:
        """P(source votes), shape (m,)."""
        # Float weights may sum to one more rounding error than they were summed to.
        return np.minimum(self.n_votes / self.n_items, 1.0)


def _state_counts(codes: Codes, n_classes: int, weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Count the states of each source: the reasons of missing votes, last to first, then the classes.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes
    weights : array of shape (n,), optional
        How often each item counts.

    Returns
    -------
    array of shape (m, 4 + K)
        Column ``4 + code`` counts a code. The column of plain abstains is not counted in sparse codes.
    """
    m, states = codes.shape[1], n_classes + len(REASONS)
    if isinstance(codes, csr_array):
        values = codes.data.astype(np.intp)
        state = np.where(values > 0, values - 1, values) + len(REASONS)
        each = None if weights is None else weights[rows_of_entries(codes)]
        cells = codes.indices.astype(np.intp) * states + state
        return np.bincount(cells, each, minlength=m * states).reshape(m, states)
    first = np.arange(m) * states + len(REASONS)
    # A chunk has at least as many cells as there are counters, or clearing them would dominate.
    rows = max(1, max(_CHUNK_CELLS, m * states) // m)
    counts = np.zeros(m * states)
    for start in range(0, len(codes), rows):
        cells = (codes[start : start + rows] + first).ravel()
        each = None if weights is None else np.repeat(weights[start : start + rows], m)
        counts += np.bincount(cells, each, minlength=m * states)
    return counts.reshape(m, states)


def votes_on(codes: Codes, items: NDArray[np.bool_]) -> Counts:
    """Count the votes of each source on the items of a mask of shape (n,), shape (m,)."""
    some = codes[items]
    if isinstance(some, csr_array):
        return np.bincount(sparse_votes(some).source, minlength=codes.shape[1]).astype(np.int64)
    return np.count_nonzero(some >= 0, axis=0)


def _chunks(codes: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    n, m = codes.shape
    step = max(1, 4 * _CHUNK_CELLS // m)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        yield rows, codes[rows]
