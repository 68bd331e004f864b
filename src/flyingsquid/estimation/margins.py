"""Tables with given margins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_SWEEPS = 500
_CONVERGED = 1e-14


def fit_margins(table: Array, rows: Array, columns: Array) -> Array:
    """Rescale rows and columns of a positive table until their sums are those given, shape (A, B).

    The odds ratios stay: what the table says beyond its margins. A table with these margins stays as it is.

    >>> fit_margins(np.array([[4.0, 1.0], [1.0, 4.0]]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(_SWEEPS):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
        if np.abs(table.sum(axis=1) - rows).max() < _CONVERGED:
            break
    return table
