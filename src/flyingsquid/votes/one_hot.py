"""Votes as zeros and ones."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from flyingsquid.votes.states import Codes, rows_of_entries


def one_hot(codes: Codes, n_classes: int) -> csr_array:
    """Votes as 0 and 1, shape (n, K m), class by class: column v m + i is "source i votes v".

    >>> one_hot(np.array([[0, 1], [-1, 1]]), 2).toarray().astype(int).tolist()
    [[1, 0, 0, 1], [0, 0, 0, 1]]
    """
    n, m = codes.shape
    if isinstance(codes, csr_array):
        voted = codes.data > 0
        row, source = rows_of_entries(codes)[voted], codes.indices[voted]
        vote = codes.data[voted].astype(np.int64) - 1
        return csr_array((np.ones(len(row)), (row, vote * m + source)), shape=(n, n_classes * m))
    # Row by row as they lie: nothing has to be brought together.
    voted = codes >= 0
    at = np.flatnonzero(voted)
    index = np.int32 if max(len(at), n_classes * m) < 1 << 31 else np.int64
    column = np.take(codes, at).astype(index) * m + (at % m).astype(index)
    ends = np.concatenate([[0], np.cumsum(voted.sum(axis=1))]).astype(index)
    hot = csr_array((np.ones(len(at)), column, ends), shape=(n, n_classes * m))
    hot.sort_indices()
    return hot
