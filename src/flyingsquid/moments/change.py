"""Did the votes change? A test on counts of consecutive parts of a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# How often a window of votes that never change may be cut, by a bound that is never exceeded.
FALSE_ALARMS = 0.05


def agreeing_parts(
    sizes: NDArray[np.float64], hits: NDArray[np.float64], *, dispersion: float = 1.0, tests: float = 1.0
) -> int:
    """How many of the newest parts look like one population.

    The largest number k such that however the newest k parts are split in two, no statistic differs between
    the newer and the older side by more than chance allows. Chance by Bernstein's inequality for a share of
    rows, as in ADWIN (Bifet and Gavaldà 2007), shared out over all statistics, all splits, and ``tests``.

    Parameters
    ----------
    sizes : array of shape (s,)
        Rows of each part, newest first.
    hits : array of shape (s, p)
        In how many of them each of p things happened.
    dispersion : float, at least 1
        By how much the variance of parts exceeds that of independent rows.
    tests : float
        How often the same rows will be tested.

    Examples
    --------
    >>> rows = np.full(4, 500.0)
    >>> agreeing_parts(rows, np.array([[400.0], [390.0], [410.0], [395.0]]))
    4
    >>> agreeing_parts(rows, np.array([[250.0], [240.0], [410.0], [395.0]]))
    2
    """
    newer, older = np.cumsum(sizes), np.cumsum(hits, axis=0)
    keep = len(sizes)
    while keep > 1 and not _is_one(newer[:keep], older[:keep], dispersion, tests):
        keep -= 1
    return keep


def _is_one(sizes: NDArray[np.float64], hits: NDArray[np.float64], dispersion: float, tests: float) -> bool:
    """Whether no split shows a difference, for sums from the newest part on."""
    total, splits = sizes[-1], len(sizes) - 1
    share = hits[-1] / total
    inverse = (1 / sizes[:-1] + 1 / (total - sizes[:-1]))[:, None]
    difference = np.abs(hits[:-1] / sizes[:-1, None] - (hits[-1] - hits[:-1]) / (total - sizes[:-1])[:, None])
    nats = np.log(2 * hits.shape[1] * splits * max(tests, 1.0) / FALSE_ALARMS) * dispersion
    allowed = np.sqrt(2 * nats * inverse * share * (1 - share)) + 2 / 3 * nats * inverse
    return not bool((difference > allowed).any())


def dispersion_of(newer: NDArray[np.float64], older: NDArray[np.float64], size: float, other: float) -> float:
    """How far two neighbouring parts are apart: 1 on average for independent rows.

    Parameters
    ----------
    newer, older : arrays of shape (p,)
        In how many of ``size`` and ``other`` rows each thing happened.
    """
    share = (newer + older) / (size + other)
    variance = share * (1 - share) * (1 / size + 1 / other)
    varies = variance > 0
    if not varies.any():
        return 1.0
    return float(np.mean((newer / size - older / other)[varies] ** 2 / variance[varies]))
