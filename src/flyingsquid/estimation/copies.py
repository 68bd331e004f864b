"""Sources that are near-copies of each other, found from pair counts.

Two sources of accuracy .7 that err independently agree on 58% of the items. A pair that agrees on 99%, while
each agrees with everybody else on 60%, is one opinion counted twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from flyingsquid.moments import Moments, PairAgreement

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
    pairs, cast = moments.compare_pairs(), np.asarray(moments.vote_counts, np.float64)
    alike = _kappa_unexplained(pairs) >= _UNEXPLAINED
    alike |= _same_items(pairs.overlap, cast, moments.n_items)
    np.fill_diagonal(alike, False)
    if not alike.any():
        return np.arange(moments.n_sources)
    return np.asarray(connected_components(alike, directed=False)[1], np.intp)


def _kappa_unexplained(pairs: PairAgreement) -> Array:
    """How much of what two sources could agree beyond the truth they do agree, shape (m, m); 0 if unknown.

    Kappa, the agreement beyond chance, of independent sources is κᵢⱼ = cᵢcⱼ; c by the median over the others,
    which a few copies do not move.
    """
    overlap, agreement, by_chance, unusual = pairs
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
