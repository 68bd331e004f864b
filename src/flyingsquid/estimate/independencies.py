"""Accuracies from the class balance: aᵢ = E[λᵢ] / E[Y] (Fu et al. 2020, appendix C.2).

Holds when a source's errors are symmetric, and needs neither triplets nor other sources. It
divides by E[Y], so it is only as good as the class balance is lopsided and known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.exceptions import NotIdentifiableError

# E[Y] must stand this many standard errors of E[λᵢ] away from 0.
_NEEDED_ERRORS = 3.0


def accuracies_from_balance(
    signed: SignedMoments, balance: NDArray[np.float64], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """E[λᵢY] with its sign, shape (m,), for ``balance`` = (P(Y=-1), P(Y=+1)).

    Raises
    ------
    NotIdentifiableError
        If E[Y] is too close to 0 for the number of items.
    """
    expected = float(balance[1] - balance[0])
    mean, coverage = signed.mean, signed.coverage
    errors = np.sqrt(np.maximum(coverage - mean**2, 0) / signed.n_items)
    weak = np.flatnonzero(abs(expected) < _NEEDED_ERRORS * errors)
    if expected == 0 or len(weak):
        source = names[weak[0]] if len(weak) else names[0]
        raise NotIdentifiableError(
            f"method='independencies' divides by E[Y] = {expected:.3g}, which is too close to 0 for "
            f"{source!r} at {signed.n_items:,.0f} items. Pass the true class_balance if it is "
            "lopsided, or use a triplet method, which needs three sources and no balance"
        )
    # Sampling noise can carry an estimate past the bound that every |E[λY]| obeys.
    return np.clip(mean / expected, -coverage, coverage)
