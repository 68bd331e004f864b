"""Sources that are near-copies of each other, found from pair counts.

Two sources of accuracy .7 that err independently agree on 58% of the items. A pair that agrees on 99%, while
each agrees with everybody else on 60%, is one opinion counted twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# A pair is judged by this many shared items, and by this many votes that are not for its usual class.
_SHARED, _UNUSUAL = 30.0, 10.0
# How much of the agreement that the truth does not explain makes a copy.
_UNEXPLAINED = 0.9
# One-sided sources always agree where both vote. They are copies when they vote on the same items.
_SAME_ITEMS, _ALWAYS = 0.95, 0.95
# Among more sources no copies are looked for: all pairs would not fit into memory.
MOST_SOURCES = 2_000
# No source is taken to agree with the truth more than this beyond chance.
_BEST = 0.97


def near_copies(moments: Moments) -> NDArray[np.intp]:
    """For each source the number of its group, shape (m,); sources of one group are near-copies.

    Of more than 2,000 sources each is a group of its own.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2_000)
    >>> right = rng.random((2_000, 5)) < [0.9, 0.8, 0.8, 0.7, 0.7]
    >>> votes = np.where(right, y[:, None], 1 - y[:, None])
    >>> near_copies(Moments.of(votes[:, [0, 1, 2, 3, 4, 4]])).tolist()
    [0, 1, 2, 3, 4, 4]
    """
    if moments.n_sources > MOST_SOURCES:
        return np.arange(moments.n_sources)
    overlap, agreement, chance = pair_agreement(moments)
    cast = np.asarray(moments.vote_counts, np.float64)
    alike = _kappa_unexplained(overlap, agreement, chance) >= _UNEXPLAINED
    alike |= _same_items(overlap, cast, moments.n_items)
    np.fill_diagonal(alike, False)
    if not alike.any():
        return np.arange(moments.n_sources)
    return np.asarray(connected_components(csr_array(alike), directed=False)[1], np.intp)


def _kappa_unexplained(overlap: Array, agreement: Array, chance: tuple[Array, Array]) -> Array:
    """How much of what two sources could agree beyond the truth they do agree, shape (m, m); 0 if unknown.

    Kappa, the agreement beyond chance, of independent sources is κᵢⱼ = cᵢcⱼ; c by the median over the others,
    which a few copies do not move.
    """
    by_chance, unusual = chance
    judged = (overlap >= _SHARED) & (np.minimum(unusual, unusual.T) >= _UNUSUAL) & (by_chance < 1)
    np.fill_diagonal(judged, False)
    if not judged.any():
        return np.zeros_like(overlap)
    kappa = np.full_like(overlap, np.nan)
    kappa[judged] = (agreement[judged] / overlap[judged] - by_chance[judged]) / (1 - by_chance[judged])
    some = judged.any(axis=1)
    middle = np.zeros(len(overlap))
    middle[some] = np.nanmedian(kappa[some], axis=1)
    strength = np.clip(middle / np.sqrt(max(float(np.nanmedian(kappa)), 0.01)), 0.0, _BEST)
    explained = np.outer(strength, strength)
    return np.nan_to_num((kappa - explained) / (1 - explained))


def _same_items(overlap: Array, cast: Array, n_items: float) -> NDArray[np.bool_]:
    """Pairs that vote for the same one class on the same items, shape (m, m)."""
    voted, best = cast.sum(axis=1), cast.argmax(axis=1)
    one_sided = (cast.max(axis=1) == voted) & (voted >= _SHARED) & (voted < _ALWAYS * n_items)
    either = voted[:, None] + voted - overlap
    return np.asarray(
        np.outer(one_sided, one_sided)
        & (best[:, None] == best)
        & (overlap >= _SAME_ITEMS * np.maximum(either, 1.0))
    )


def pair_agreement(moments: Moments) -> tuple[Array, Array, tuple[Array, Array]]:
    """Items that both voted on, items that both voted alike on, and what chance alone would do, (m, m) each.

    The last is the share that would agree by chance, and how many of the shared votes of the first source are
    not for the class that it votes for most there.
    """
    block, m, n_classes = moments.blocks[0], moments.n_sources, moments.n_classes
    if not isinstance(block, csr_array):
        first = np.empty((n_classes, m, m))  # votes of i by class; those of j are the same, turned over
        for k in range(n_classes):
            np.sum(block[k], axis=0, out=first[k])
        overlap, usual = first.sum(axis=0), first.max(axis=0)
        agreement = sum((block[k, k] for k in range(n_classes)), start=np.zeros((m, m)))
        products = sum((part * part.T for part in first), start=np.zeros((m, m)))
    else:
        pairs = block.tocoo()
        rows, columns = pairs.row, pairs.col
        place = (rows % m).astype(np.int64) * m + columns % m
        data = pairs.data.astype(np.float64)
        same = rows // m == columns // m
        overlap = np.bincount(place, data, minlength=m * m).reshape(m, m)
        agreement = np.bincount(place[same], data[same], minlength=m * m).reshape(m, m)
        shape = (n_classes, m * m)
        first = csr_array(coo_array((data, (rows // m, place)), shape=shape))
        second = csr_array(coo_array((data, (columns // m, place)), shape=shape))
        products = np.asarray(first.multiply(second).sum(axis=0), np.float64).reshape(m, m)
        usual = np.asarray(first.max(axis=0).todense(), np.float64).reshape(m, m)
    by_chance = np.divide(products, overlap**2, out=np.ones((m, m)), where=overlap > 0)
    return overlap, agreement, (by_chance, overlap - usual)
