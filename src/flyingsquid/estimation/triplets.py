"""The triplet method: accuracies from the agreement of sources.

For three sources independent given the truth, E[λᵢλⱼ] = aᵢaⱼ for each pair (Fu et al. 2020,
section 3.1), hence aᵢ² = E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]. Everything here returns |aᵢ|; signs are
resolved in :mod:`flyingsquid.estimation.signs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.sources import SignedMoments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Estimates of |E[λᵢY]|.

    Attributes
    ----------
    values : array of shape (m,)
        NaN for a source without a usable triplet.
    used, skipped : integer arrays of shape (m,)
        Triplets that were used, and triplets left out because of a weak denominator.
    """

    values: Array
    used: NDArray[np.int64]
    skipped: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs that triplets may use.

    Attributes
    ----------
    second, standard_error : arrays of shape (m, m)
        E[λᵢλⱼ] and its standard error.
    comparable : mask of shape (m, m)
        Pairs that may appear in a triplet.
    denominator : mask of shape (m, m)
        Comparable pairs strong enough to divide by.
    """

    second: Array
    standard_error: Array
    comparable: Mask
    denominator: Mask

    @classmethod
    def of(cls, signed: SignedMoments, comparable: Mask, screen: float) -> Pairs:
        """Leave out denominators |E[λⱼλₖ]| below ``screen`` standard errors, which are mostly noise."""
        strength, error = np.abs(signed.second), signed.standard_error
        strong = comparable & (strength > 0) & (strength >= screen * error)
        return cls(signed.second, error, comparable, strong)


def all_triplets_mean(pairs: Pairs) -> Magnitudes:
    """Average over all triplets, as matrix products: O(m³) flops in BLAS, O(m²) memory.

    Every term √|MᵢⱼMᵢₖ/Mⱼₖ| is a product of a factor for (i, j), one for (j, k) and one for (i, k), so the
    sum over partners is a row of R Q Rᵀ, with zeros for pairs that may not be used.
    """
    root, inverse = roots(pairs)
    total = np.einsum("ij,ij->i", root @ inverse, root)
    used = _count_triplets(pairs.comparable, pairs.denominator)
    possible = _count_triplets(pairs.comparable, pairs.comparable)
    with np.errstate(invalid="ignore"):
        values = np.where(used > 0, total / 2 / used, np.nan)
    return Magnitudes(values, used, possible - used)


def all_triplets_median(pairs: Pairs) -> Magnitudes:
    """Return the median over all triplets: O(m³) time, O(m²) memory."""
    m = len(pairs.second)
    root, inverse = roots(pairs)
    values = np.full(m, np.nan)
    used = np.zeros(m, np.int64)
    upper = np.triu(pairs.denominator, 1)
    for i in range(m):
        partners = np.flatnonzero(pairs.comparable[i])
        block = np.ix_(partners, partners)
        chosen = upper[block]
        used[i] = chosen.sum()
        if used[i]:
            estimates = np.outer(root[i, partners], root[i, partners]) * inverse[block]
            values[i] = np.median(estimates[chosen])
    possible = _count_triplets(pairs.comparable, pairs.comparable)
    return Magnitudes(values, used, possible - used)


def strongest_triplet(pairs: Pairs) -> Magnitudes:
    """Use one triplet per source: the one whose estimate has the smallest predicted error.

    Equally good triplets are averaged, so that the order of the sources does not matter.
    """
    m = len(pairs.second)
    root, inverse = roots(pairs)
    values = np.full(m, np.nan)
    for i in range(m):
        cost = _predicted_error(pairs, i)
        if np.isfinite(least := cost.min()):
            j, k = np.nonzero(cost <= least * (1 + 1e-9))
            values[i] = np.mean(root[i, j] * root[i, k] * inverse[j, k])
    used = np.isfinite(values).astype(np.int64)
    possible = _count_triplets(pairs.comparable, pairs.comparable)
    return Magnitudes(values, used, np.where(used > 0, 0, possible))


def strongest_partners(pairs: Pairs) -> NDArray[np.intp]:
    """Return the two partners of each source's strongest triplet, shape (m, 2); -1 if it has no triplet."""
    partners = np.full((len(pairs.second), 2), -1, np.intp)
    for i in range(len(partners)):
        cost = _predicted_error(pairs, i)
        if np.isfinite(cost.min()):
            partners[i] = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return partners


def _predicted_error(pairs: Pairs, i: int) -> Array:
    """Return the relative variance of aᵢ² for each pair of partners, shape (m, m); infinite if unusable.

    To first order it is the sum of the relative variances of the three moments.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = (pairs.standard_error / pairs.second) ** 2
    noise = np.where(pairs.comparable & np.isfinite(noise), noise, np.inf)
    return np.asarray(np.where(pairs.denominator, noise, np.inf) + noise[i][:, None] + noise[i])


def given_triplets(pairs: Pairs, triplets: Sequence[tuple[int, int, int]]) -> Magnitudes:
    """Solve the given triplets for their three sources; average if a source is in several."""
    m = len(pairs.second)
    total, used, skipped = np.zeros(m), np.zeros(m, np.int64), np.zeros(m, np.int64)
    chosen = np.array(triplets, np.intp).reshape(-1, 3)
    for turn in range(3):
        i, j, k = np.roll(chosen, -turn, axis=1).T
        valid = pairs.comparable[i, j] & pairs.comparable[i, k] & pairs.denominator[j, k]
        a, b, c = i[valid], j[valid], k[valid]
        square = np.abs(pairs.second[a, b] * pairs.second[a, c] / pairs.second[b, c])
        np.add.at(total, a, np.sqrt(square))
        np.add.at(used, a, 1)
        np.add.at(skipped, i[~valid], 1)
    with np.errstate(invalid="ignore"):
        return Magnitudes(np.where(used > 0, total / used, np.nan), used, skipped)


def product_by_triplets(moments: Array, usable: Mask, pairs: Pairs) -> float:
    """Return |E[gY]| of a product g of dependent sources, by the mean over triplets of g and two others.

    ``moments`` are E[g λₚ], shape (m,), for the ``usable`` sources. NaN without a triplet.
    """
    _, inverse = roots(pairs)
    own = np.where(usable, np.sqrt(np.abs(moments)), 0.0)
    used = float(1.0 * usable @ pairs.denominator @ usable) / 2
    return float(own @ inverse @ own) / 2 / used if used else np.nan


def roots(pairs: Pairs) -> tuple[Array, Array]:
    """Return √|M| on comparable pairs and 1/√|M| on denominators, zero elsewhere; each (m, m)."""
    root = np.sqrt(np.abs(pairs.second))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=pairs.denominator)
    return np.where(pairs.comparable, root, 0.0), inverse


def _count_triplets(comparable: Mask, denominator: Mask) -> NDArray[np.int64]:
    """Count for each i the unordered pairs {j, k} with ij and ik comparable and jk a denominator."""
    m = len(comparable)
    if comparable.sum() == m * (m - 1):  # without a mask: all pairs except those of i
        in_all = np.count_nonzero(denominator)
        return np.asarray((in_all - 2 * np.count_nonzero(denominator, axis=1)) // 2, np.int64)
    # Counts stay far below 2**53, so the product is exact.
    rows = comparable.astype(np.float64)
    counts = np.einsum("ij,ij->i", rows @ denominator.astype(np.float64), rows)
    return np.rint(counts / 2).astype(np.int64)
