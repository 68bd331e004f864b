"""Vote shares: what majority vote knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.states import Codes
from flyingsquid.votes.tallies import class_counts


def vote_shares(codes: Codes, n_classes: int) -> NDArray[np.float64]:
    """Each class's share of an item's votes, shape (n, 1, K); uniform where nobody votes."""
    counts = class_counts(codes, n_classes)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.full_like(counts, 1 / n_classes), where=total > 0)
    return shares[:, None, :]


def smoothed_shares(codes: Codes, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vote shares with K votes added that fall as the prior says, shape (n, 1, K).

    An item without votes gets the prior; no class is ever impossible.

    >>> smoothed_shares(np.array([[1, 1], [-1, -1]]), np.array([0.5, 0.5]))[:, 0]
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    k = len(prior)
    counts = class_counts(codes, k)
    shares = (counts + k * prior) / (counts.sum(axis=1, keepdims=True) + k)
    return shares[:, None, :]
