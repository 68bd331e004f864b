"""Labels of two classes by one compiled loop: votes in, probabilities out, nothing between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels.switch import Kernels, as_bytes, rows_of, share_out


def beyond_silence(
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """``weights`` (m, 3) of both votes and of none as what each vote adds to none, (m,) each, and a constant.

    So an item without votes gets the constant to the last bit, and votes that cancel out do. Weights of shape
    (m, 3, r) give (m, r) each, and r constants.

    >>> zero, one, constant = beyond_silence(np.array([[-1.0, 2.0, 0.5]]))
    >>> float(zero[0] + constant), float(one[0] + constant), float(constant)
    (-1.0, 2.0, 0.5)
    """
    none = weights[:, 2]
    return weights[:, 0] - none, weights[:, 1] - none, none.sum(axis=0)


def binary_labels(
    kernels: Kernels, codes: NDArray[Any], weights: NDArray[np.float64], offset: float, answer: NDArray[Any]
) -> None:
    """Write P(Y = k | votes) to ``answer`` (n, 2); log odds are ``offset`` and the ``weights`` (m, 3)."""
    zero, one, constant = beyond_silence(weights)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.binary_labels(as_bytes(codes[rows]), zero, one, constant + offset, answer[rows])

    share_out(write, rows_of(codes))
