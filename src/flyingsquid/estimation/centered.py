"""Covariances of signed votes, which need no symmetry of the sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.signed import VoteRates
from flyingsquid.moments import Moments

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CenteredMoments(VoteRates):
    """Central moments of signed votes λ in {-1, 0, +1}.

    For any sources that are independent given Y, Cov(λᵢ, λⱼ) = bᵢbⱼ with bᵢ = Cov(λᵢ, Y)/√Var(Y):
    sources may err more on one class, vote for one class only, or abstain more on one class.

    Attributes
    ----------
    n_items, rates : as in :class:`~flyingsquid.estimation.signed.VoteRates`
    covariance : array of shape (m, m)
        Cov(λᵢ, λⱼ); the diagonal is set to 0, because no estimator may read it.
    noise : array of shape (m, m)
        n times the variance of ``covariance``.
    cross : array of shape (2, m, m)
        ``cross[v, i, j]`` = Cov(1{source i votes class v}, λⱼ).
    """

    covariance: Array
    noise: Array
    cross: Array

    @classmethod
    def of(cls, moments: Moments) -> CenteredMoments:
        n = float(moments.n_items)
        rates = np.asarray(moments.vote_counts / n, np.float64)
        coverage, mean = rates.sum(axis=1), rates[:, 1] - rates[:, 0]
        joint = [[moments.pair_rates(a, b) for b in (0, 1)] for a in (0, 1)]
        votes_and_sign = np.stack([joint[a][1] - joint[a][0] for a in (0, 1)])  # E[1{i votes a} λⱼ]
        overlap = joint[0][0] + joint[0][1] + joint[1][0] + joint[1][1]
        second = votes_and_sign[1] - votes_and_sign[0]
        cross = votes_and_sign - rates.T[:, :, None] * mean
        covariance = second - np.outer(mean, mean)
        # E[(λᵢ-μᵢ)²(λⱼ-μⱼ)²], multiplied out; λ² is whether the source votes.
        mixed = mean * votes_and_sign.sum(axis=0)
        square = np.outer(mean**2, coverage)
        fourth = overlap - 2 * (mixed + mixed.T) + square + square.T
        fourth += 4 * np.outer(mean, mean) * second - 3 * np.outer(mean**2, mean**2)
        noise = np.maximum(fourth - covariance**2, 0)
        for table in (covariance, noise, *cross):
            np.fill_diagonal(table, 0.0)
        return cls(n, rates, covariance, noise, cross)

    @property
    def variance(self) -> Array:
        """Var(λ), shape (m,)."""
        return np.asarray(np.maximum(self.coverage - self.mean**2, 0))
