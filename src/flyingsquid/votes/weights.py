"""Weights of items: how often each one counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VotesError

LARGEST_COUNT = 2**53
"""Counts stay below: beyond it float64 skips integers."""


def read_weights(sample_weight: ArrayLike, n_items: int) -> NDArray[Any]:
    """Weights of shape (n,): int64 for whole numbers, float64 for floats.

    Raises
    ------
    VotesError
        If they are not one finite number, 0 or more, for each item, or sum to nothing.
    """
    try:
        given = np.asanyarray(sample_weight)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"sample_weight is no sequence of numbers: {error}") from error
    if given.dtype.kind not in "iufb" or np.ma.is_masked(given):
        raise VotesError(f"sample_weight has type {given.dtype}, or masked cells; numbers are needed")
    weights = np.asarray(given).astype(np.float64 if given.dtype.kind == "f" else np.int64)
    if weights.ndim == 0:
        weights = np.full(n_items, weights)
    if weights.shape != (n_items,):
        raise VotesError(
            f"sample_weight has shape {weights.shape}; one weight for each of {n_items} items is needed"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise VotesError(
            f"sample_weight[{at}] is {told(weights[at].item())}; a weight says how often an item counts, "
            "so it is finite and not negative"
        )
    with np.errstate(over="ignore"):  # infinity is refused below
        total = float(weights.sum(dtype=np.float64))
    if not 0 < total < LARGEST_COUNT:
        raise VotesError(
            f"sample_weight sums to {total:g}; the sum is the number of items, so it must be above 0 "
            "and below 2**53"
        )
    return weights
