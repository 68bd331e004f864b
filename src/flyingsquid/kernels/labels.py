"""Labels of two classes by one compiled loop: votes in, probabilities out, nothing between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.kernels.switch import Kernels, as_bytes, rows_of, share_out


def parabola(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """``weights`` (m, 3) of both votes and of none as slope (m,), bend (m,) and a constant.

    A code c of 0, 1, or -1 for no vote, has the weight ``slope c + bend |c|``, and a constant. Weights of
    shape (m, 3, r) give slopes and bends of shape (m, r), and r constants.

    >>> slope, bend, constant = parabola(np.array([[-1.0, 2.0, 0.5]]))
    >>> [float(slope[0] * c + bend[0] * abs(c) + constant) for c in (0, 1, -1)]
    [-1.0, 2.0, 0.5]
    """
    zero, one, none = weights[:, 0], weights[:, 1], weights[:, 2]
    return (one - none) / 2, (one + none) / 2 - zero, zero.sum(axis=0)


def binary_labels(
    kernels: Kernels, codes: NDArray[Any], weights: NDArray[np.float64], offset: float, answer: NDArray[Any]
) -> None:
    """Write P(Y = k | votes) to ``answer`` (n, 2); log odds are ``offset`` and the ``weights`` (m, 3)."""
    slope, bend, constant = parabola(weights)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.binary_labels(as_bytes(codes[rows]), slope, bend, constant + offset, answer[rows])

    share_out(write, rows_of(codes))
