"""Which sources may be compared with which, once the truth of a task is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Separation:
    """How the sources around one task are related.

    Attributes
    ----------
    groups : integer array of shape (m,)
        Sources with equal numbers may depend on each other given the truth; all others are independent.
    own : mask of shape (m,)
        Sources that vote on the task itself. The others vote on neighbouring tasks and only help.
    """

    groups: NDArray[np.intp]
    own: Mask

    @classmethod
    def independent(cls, n_sources: int) -> Separation:
        """One task whose sources are all independent given the truth."""
        return cls(np.arange(n_sources), np.ones(n_sources, np.bool_))

    @property
    def separated(self) -> Mask:
        """Pairs that are independent given the truth, shape (m, m)."""
        return np.asarray(self.groups[:, None] != self.groups)

    @property
    def is_simple(self) -> bool:
        """Whether all sources are on the task and independent given its truth."""
        return bool(self.own.all() and len(np.unique(self.groups)) == len(self.groups))

    def n_groups(self, among: Mask) -> int:
        """How many groups the sources ``among`` them form."""
        return len(np.unique(self.groups[among]))
