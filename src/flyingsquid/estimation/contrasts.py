"""How votes move with a truth of K classes: sources as instruments.

P(source votes v | Y = k) less its mean over the classes is what a vote says of the truth. In a basis of K - 1
contrasts of the truth, each of variance 1 and uncorrelated, all that is known of it through such sources is
linear, and what is found is a correlation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

Array = NDArray[np.float64]
# Variance given the truth below this share of the whole is not believed.
_RESIDUAL_FLOOR = 0.05


@dataclass(frozen=True, slots=True)
class Instruments:
    """Sources around a task, as instruments for its truth.

    Attributes
    ----------
    tables : array of shape (s, K, K), axes source, truth, vote
        P(vote = v | Y = k).
    basis : array of shape (K, K - 1)
        Cov(1{Y = k}, contrast c) for uncorrelated contrasts of variance 1; its columns sum to 0.
    noise : array of shape (s, K)
        Variance of 1{source votes v} given the truth.
    scale : array of shape (s, K)
        One over the standard deviation that a vote counts with; 0 for votes that never occur.
    design : array of shape (s, K, K - 1)
        Cov(1{source votes v}, contrast c) times ``scale``.
    """

    tables: Array
    basis: Array
    noise: Array
    scale: Array
    design: Array

    @classmethod
    def of(cls, tables: Array, balance: Array) -> Instruments:
        """From P(vote = v | Y = k) of shape (s, K, K + 1), no vote last, and P(Y = k) of shape (K,)."""
        votes = tables[:, :, :-1]
        rate = np.einsum("k,skv->sv", balance, votes)
        noise = np.einsum("k,skv->sv", balance, votes * (1 - votes))
        spread = np.maximum(noise, _RESIDUAL_FLOOR * rate * (1 - rate))
        scale = np.divide(1.0, np.sqrt(spread), out=np.zeros_like(spread), where=spread > 0)
        basis = contrasts(balance)
        design = np.einsum("skv,kc,sv->svc", votes, basis, scale)
        return cls(votes, basis, noise, scale, design)


def contrasts(balance: Array) -> Array:
    """Cov(1{Y = k}, contrast c) for K - 1 uncorrelated contrasts of variance 1, shape (K, K - 1).

    With B this matrix, Cov(1{Y = k}, 1{Y = l}) = B Bᵀ.

    >>> B = contrasts(np.array([0.2, 0.3, 0.5]))
    >>> (B @ B.T).round(2)
    array([[ 0.16, -0.06, -0.1 ],
           [-0.06,  0.21, -0.15],
           [-0.1 , -0.15,  0.25]])
    """
    across = helmert(len(balance)).T
    variance = np.diag(balance) - np.outer(balance, balance)
    return np.asarray(across @ np.linalg.cholesky(across.T @ variance @ across))
