"""Distinct rows with counts: 65 million rows of 3 binary sources have at most 27."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.packing import all_patterns, n_patterns, packed_chunks, packed_words

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes

_TABLE_PATTERNS = 1 << 17


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """The different rows of a vote matrix.

    Attributes
    ----------
    votes : Votes
        u distinct rows. Missing votes are equal whatever their reason.
    counts : int64 array of shape (u,)
        How many items have each row.
    inverse : integer array of shape (n,)
        ``votes[inverse]`` is the matrix again.
    """

    votes: Votes
    counts: NDArray[np.int64]
    inverse: NDArray[np.intp]


def distinct_codes(
    codes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp]]:
    """Distinct rows of dense ``codes`` (n, m), their counts, and for each row its index."""
    m = codes.shape[1]
    if n_patterns(m, n_classes) <= _TABLE_PATTERNS:
        return _by_table(codes, n_classes)
    words = packed_words(codes, n_classes)
    order = np.lexsort(words.T)
    ordered = words[order]
    is_first = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    inverse = np.empty(len(codes), np.intp)
    inverse[order] = np.cumsum(is_first) - 1
    counts = np.diff(np.r_[np.flatnonzero(is_first), len(codes)])
    return np.maximum(codes[order[is_first]], -1), counts, inverse


def _by_table(
    codes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp]]:
    m = codes.shape[1]
    size = n_patterns(m, n_classes)
    histogram = np.zeros(size, np.int64)
    numbers = np.empty(len(codes), np.intp)
    for rows, chunk in packed_chunks(codes, n_classes):
        numbers[rows] = chunk
        histogram += np.bincount(chunk, minlength=size)
    present = np.flatnonzero(histogram)
    rank = np.empty(size, np.intp)
    rank[present] = np.arange(len(present))
    return all_patterns(m, n_classes)[present], histogram[present], rank[numbers]
