"""Binary counts in the paper's signs: class 0 reads -1, class 1 reads +1, no vote reads 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments import Moments

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VoteRates:
    """How often each source votes for what.

    Attributes
    ----------
    n_items : float
    rates : array of shape (m, 2)
        P(λ = -1), P(λ = +1).
    """

    n_items: float
    rates: Array

    @property
    def coverage(self) -> Array:
        """P(source votes), shape (m,)."""
        return np.asarray(self.rates.sum(axis=1))

    @property
    def mean(self) -> Array:
        """E[λ], shape (m,)."""
        return np.asarray(self.rates[:, 1] - self.rates[:, 0])


@dataclass(frozen=True, slots=True)
class SignedMoments(VoteRates):
    """Observable moments of signed votes λ in {-1, 0, +1}.

    No vote counts as 0. The paper draws a coin there instead (its augmentation), which has
    the same expectation for distinct sources and only adds noise: the coin is never drawn.

    Attributes
    ----------
    n_items, rates : as in :class:`VoteRates`
    second : array of shape (m, m)
        E[λᵢ λⱼ]; the diagonal is set to 0, because no estimator may read it.
    overlap : array of shape (m, m)
        P(both vote), diagonal 0.
    agreement : array of shape (m, m)
        P(both vote and agree), diagonal 0.
    """

    second: Array
    overlap: Array
    agreement: Array

    @classmethod
    def of(cls, moments: Moments) -> SignedMoments:
        n = float(moments.n_items)
        agreement = moments.pair_rates(0, 0) + moments.pair_rates(1, 1)
        conflict = moments.pair_rates(0, 1) + moments.pair_rates(1, 0)
        for table in (agreement, conflict):
            np.fill_diagonal(table, 0.0)
        rates = np.asarray(moments.vote_counts / n, np.float64)
        return cls(n, rates, agreement - conflict, agreement + conflict, agreement)

    @property
    def standard_error(self) -> Array:
        """Standard error of ``second``, shape (m, m)."""
        return np.asarray(np.sqrt(np.maximum(self.overlap - self.second**2, 0) / self.n_items))
