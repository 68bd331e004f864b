"""Confidence intervals based on the normal distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# So many standard errors to either side hold 95%.
NORMAL_95 = 1.959963984540054


def wilson(share: Array, n: NDArray[np.int64] | Array) -> tuple[Array, Array]:
    """Return the ends of the 95% interval of shares of n items (Wilson 1927), any shape; NaN if n is 0."""
    z = NORMAL_95
    with np.errstate(invalid="ignore", divide="ignore"):
        center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4.0 * n * n)) / (1 + z**2 / n)
    return np.clip(center - reach, 0.0, 1.0), np.clip(center + reach, 0.0, 1.0)
