"""Evidence of very many sources and classes, whose tables differ from a shared shape in few cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.votes.one_hot import one_hot
from flyingsquid.votes.states import Codes

Array = NDArray[np.float64]
_CHUNK_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class SparseLogs:
    """log P(vote | Y = k) in three parts that are added; no vote is 0.

    Attributes
    ----------
    by_vote : array of shape (K m,)
        What the vote v of source i has for every class, at v m + i.
    by_source : array of shape (m, K)
        What any vote of a source has for each class.
    beyond : sparse matrix of shape (K m, K)
        What a vote has beyond, row v m + i.
    """

    by_vote: Array
    by_source: Array
    beyond: csr_array

    def evidence(self, codes: Codes) -> Array:
        """log P(votes | Y = k), shape (n, K), for dense (n, m) or sparse codes."""
        m, n_classes = self.by_source.shape
        result = np.empty((codes.shape[0], n_classes))
        rows = max(1, _CHUNK_CELLS // max(m, n_classes))
        for start in range(0, codes.shape[0], rows):
            cast = one_hot(codes[start : start + rows], n_classes)
            voters = csr_array((cast.data, cast.indices % m, cast.indptr), shape=(cast.shape[0], m))
            part = result[start : start + rows]
            part[:] = voters @ self.by_source
            part += (cast @ self.by_vote)[:, None]
            part += csr_array(cast @ self.beyond).toarray()
        return result

    def of_votes(self, codes_row: NDArray[Any]) -> Array:
        """What each vote on one item says, shape (m, K), for dense codes of shape (m,)."""
        m, n_classes = self.by_source.shape
        said = np.zeros((m, n_classes))
        voters = np.flatnonzero(codes_row >= 0)
        at = codes_row[voters].astype(np.int64) * m + voters
        said[voters] = self.by_vote[at][:, None] + self.by_source[voters] + self.beyond[at].toarray()
        return said
