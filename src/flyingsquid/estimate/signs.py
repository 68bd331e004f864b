"""ResolveSigns: which sources are better than chance, and which worse.

Triplets give |aᵢ|. The sign of the covariance of two sources says whether both are on the same
side of chance. For symmetric sources it is the sign of aᵢaⱼ, as the sign of E[λᵢλⱼ] is; it stays
right for one-sided sources, where the latter does not (a source that only says yes and one
that only says no always disagree). What is left is one global sign for each group of connected
sources, decided by an anchor or by "better than random on average" (Fu et al. 2020, appendix
C.1.5).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.estimate.triplets import Pairs
from flyingsquid.exceptions import NotIdentifiableError

Array = NDArray[np.float64]
# The sum of accuracies must stand this many standard errors away from 0.
_NEEDED_ERRORS = 2.0


def relative_signs(z: Array, comparable: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
    """Signs up to one flip for each group of connected sources.

    Parameters
    ----------
    z : array of shape (m, m)
        Symmetric evidence that two sources are on the same side of chance.
    comparable : mask of shape (m, m)
        Pairs whose evidence counts.

    Returns
    -------
    signs : array of shape (m,), entries ±1
    group : integer array of shape (m,)
        Sources with equal numbers are connected by evidence.

    Notes
    -----
    Every source first takes its sign along the tree of strongest links, then sources whose
    links outvote their sign are flipped, worst first. Each flip raises Σ sᵢsⱼzᵢⱼ, so this ends.
    """
    links = np.where(comparable, z, 0.0)
    strength = np.abs(links)
    m = len(links)
    signs, group = np.ones(m), np.zeros(m, np.intp)
    waiting, reach, parent = np.ones(m, np.bool_), np.zeros(m), np.zeros(m, np.intp)
    n_groups = 0
    for _ in range(m):  # Prim's algorithm for the strongest tree, one source at a time
        i = int(np.argmax(np.where(waiting, reach, -1.0)))
        if reach[i] > 0:
            signs[i] = signs[parent[i]] * np.sign(links[i, parent[i]])
        else:  # nothing left is linked to this group
            n_groups += 1
        group[i], waiting[i] = n_groups, False
        nearer = strength[i] > reach
        parent[nearer], reach[nearer] = i, strength[i][nearer]
    support = signs * (links @ signs)
    for _ in range(10 * m):
        worst = int(np.argmin(support))
        if support[worst] >= 0:
            break
        signs[worst] *= -1
        support += 2 * signs * links[:, worst] * signs[worst]
        support[worst] *= -1
    return signs, group


def orient(
    signs: Array,
    group: NDArray[np.intp],
    magnitudes: Array,
    identified: NDArray[np.bool_],
    anchors: Mapping[int, int],
    signed: SignedMoments,
    pairs: Pairs,
    names: tuple[str, ...],
) -> Array:
    """Settle the one sign that is left for each group; shape (m,), entries ±1.

    Raises
    ------
    NotIdentifiableError
        If a group has no anchor and its accuracies sum to 0 within two standard errors, or if
        its anchors contradict each other.
    """
    result = signs.copy()
    for g in np.unique(group):
        members = np.flatnonzero(group == g)
        anchored = [i for i in members.tolist() if i in anchors]
        if anchored:
            result[members] *= _turn_by_anchors(signs, magnitudes, anchors, anchored, names)
        elif identified[members].sum() < 3:
            # No triplet inside: nothing but "better than random" is known of them.
            result[members] = 1.0
        else:
            result[members] *= _turn_by_average(signs, members, magnitudes, signed, pairs, names)
        for i in anchored:
            result[i] = anchors[i]
    return result


def _turn_by_anchors(
    signs: Array,
    magnitudes: Array,
    anchors: Mapping[int, int],
    anchored: list[int],
    names: tuple[str, ...],
) -> float:
    # A strong source carries its group; a weak one may have its sign by chance.
    votes = np.array([anchors[i] * signs[i] * (magnitudes[i] + 1e-12) for i in anchored])
    if abs(votes.sum()) < 0.2 * np.abs(votes).sum():
        listed = ", ".join(f"{names[i]!r}: {anchors[i]:+d}" for i in anchored)
        raise NotIdentifiableError(
            f"the anchors {{{listed}}} contradict each other: the votes of these sources do not "
            "agree and disagree as the anchors say. Keep only the signs that you are sure of"
        )
    return float(np.sign(votes.sum()))


def _turn_by_average(
    signs: Array,
    members: NDArray[np.intp],
    magnitudes: Array,
    signed: SignedMoments,
    pairs: Pairs,
    names: tuple[str, ...],
) -> float:
    accuracies = np.zeros_like(magnitudes)
    accuracies[members] = signs[members] * magnitudes[members]
    total = float(accuracies.sum())
    error = standard_error_of_sum(accuracies, signed, pairs)
    if abs(total) <= _NEEDED_ERRORS * error:
        some = names[members[0]]
        raise NotIdentifiableError(
            f"the signs of {len(members)} sources are not determined: their accuracies sum to "
            f"{total:.3g} ± {error:.2g}, so 'better than random on average' does not say which "
            f"are right. Name one source that you trust, as in signs={{{some!r}: +1}}, or add items"
        )
    return 1.0 if total > 0 else -1.0


def standard_error_of_sum(accuracies: Array, signed: SignedMoments, pairs: Pairs) -> float:
    """Standard error of Σᵢ aᵢ over the sources with aᵢ ≠ 0, as far as the data can tell.

    That is the error of the best-weighted fit of E[λᵢλⱼ] = aᵢaⱼ to all pairs at once, whatever the
    method: a mean over triplets may be noisier, but the sign may rest on all the evidence.

    Notes
    -----
    Minimising Σ Wᵢⱼ(Mᵢⱼ - aᵢaⱼ)² moves Σaᵢ by Σᵢ<ⱼ Gᵢⱼ dMᵢⱼ with Gᵢⱼ = Wᵢⱼ(gᵢaⱼ + gⱼaᵢ), where g
    solves A g = 1, Aᵢᵢ = Σⱼ Wᵢⱼaⱼ², Aᵢⱼ = Wᵢⱼaᵢaⱼ. With λᵢY = aᵢ + Uᵢ and U independent, Mᵢⱼ varies as
    aᵢUⱼ + aⱼUᵢ + UᵢUⱼ, so the variance is Σᵢ vᵢ(Σⱼ Gᵢⱼaⱼ)² + Σᵢ<ⱼ Gᵢⱼ²vᵢvⱼ, over n, vᵢ = cᵢ - aᵢ².
    """
    inside = np.flatnonzero(accuracies)
    block = np.ix_(inside, inside)
    a = accuracies[inside]
    # The floor of a hundredth keeps pairs that always agree from taking all the weight.
    weights = pairs.comparable[block] / (np.maximum(signed.n_items * pairs.standard_error[block] ** 2, 0.01))
    system = weights * np.outer(a, a)
    # The ridge is far below any real evidence; without it sources that form no triangle would
    # make the system singular, with it they make the error large, as it is.
    evidence = weights @ a**2
    np.fill_diagonal(system, evidence + 1e-10 * evidence.mean())
    pull = np.linalg.solve(system, np.ones(len(a)))
    gradient = weights * (np.outer(pull, a) + np.outer(a, pull))
    spread = np.maximum(signed.coverage[inside] - a**2, 0)
    linear = spread @ (gradient @ a) ** 2
    quadratic = spread @ np.triu(gradient, 1) ** 2 @ spread
    return float(np.sqrt((linear + quadratic) / signed.n_items))
