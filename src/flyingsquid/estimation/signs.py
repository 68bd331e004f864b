"""Signs of the accuracies: which sources are better than chance, and which are worse.

Triplets give |aᵢ|. The sign of E[λᵢλⱼ] is the sign of aᵢaⱼ, so it shows whether two sources are on the
same side of chance. One global sign remains for each group of connected sources; it is determined by an
anchor or by "better than random on average" (Fu et al. 2020, appendix C.1.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import NotIdentifiableError

Array = NDArray[np.float64]
# The thresholds are explained in docs/design/0002-triplet-estimates.md, those of gold labels in
# docs/design/0004-class-conditional.md.
# Evidence below this many standard errors does not connect two groups, nor determine the sign of one.
_NEEDED_ERRORS = 2.0
# A single pair needs more, because many pairs are tested.
_ERRORS_FOR_LINK = 3.0
# Anchors raise an error if more than this share of them (by strength of the source) contradicts the rest.
_CONTRADICTION = 0.4
# Gold labels decide a sign when they make it e² times likelier than its opposite.
_CLEAR_PREFERENCE = 2.0
# The threshold for groups of one or two sources, of which there are many, most of them better than random.
_OVERWHELMING = 8.0
# Groups with an undetermined sign may have at most this share of all accuracy.
_MOST_OPEN = 0.1


@dataclass(frozen=True, slots=True)
class SignKnowledge:
    """Knowledge about signs besides the agreement of sources.

    Attributes
    ----------
    names : tuple of m str
    own : mask of shape (m,)
        Sources that are assumed to be better than random on average: those of the task itself.
    anchors : mapping from the position of a source to its known sign
    preference : callable or None
        Returns by how much gold labels favor given accuracies over their opposite, as a log likelihood ratio.
    """

    names: tuple[str, ...]
    own: NDArray[np.bool_]
    anchors: Mapping[int, int]
    preference: Callable[[Array], float] | None = None


def relative_signs(
    agreement: Array, overlap: Array, n_items: float, comparable: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.intp]]:
    """Return signs up to one flip for each group of connected sources.

    Parameters
    ----------
    agreement : array of shape (m, m)
        E[λᵢλⱼ], or another moment whose sign is that of aᵢaⱼ.
    overlap : array of shape (m, m)
        Its mean square, so that √n times the ratio of agreement to √overlap is a z-score.
    comparable : mask of shape (m, m)
        Pairs whose evidence counts.

    Returns
    -------
    signs : array of shape (m,), entries ±1
    group : integer array of shape (m,)
        Sources with equal numbers are connected by evidence that is not noise.

    Notes
    -----
    Every source gets its sign along the tree of strongest links, as long as they are significant.
    Groups are then joined while their pooled agreement is significant, counting an item that all of
    them vote on once. Finally, sources whose links contradict their sign are flipped, worst first.
    """
    agreement, overlap = np.where(comparable, agreement, 0.0), np.where(comparable, overlap, 0.0)
    links = _z_score(agreement, overlap, overlap, n_items)
    signs, group = _grow_trees(links)
    signs, group = _join_groups(signs, group, agreement, overlap, n_items)
    return _flip_outvoted(signs, np.where(group[:, None] == group, links, 0.0)), group


def _z_score(agreement: Array, overlap: Array, items: Array, n_items: float) -> Array:
    """Return the mean agreement of the votes on shared items, in standard errors for that many items."""
    mean = np.divide(agreement, overlap, out=np.zeros_like(agreement), where=overlap > 0)
    return np.asarray(mean * np.sqrt(n_items * items))


def _grow_trees(links: Array) -> tuple[Array, NDArray[np.intp]]:
    """Grow trees of significant links by Prim's algorithm, strongest first."""
    strength = np.abs(links)
    strength[strength < _ERRORS_FOR_LINK] = 0.0
    m = len(links)
    signs, group = np.ones(m), np.zeros(m, np.intp)
    reach, parent = np.zeros(m), np.zeros(m, np.intp)
    n_groups = 0
    for _ in range(m):
        i = int(reach.argmax())
        if reach[i] > 0:
            signs[i] = signs[parent[i]] * np.sign(links[i, parent[i]])
        else:  # no other source is linked to this group
            n_groups += 1
        group[i], reach[i] = n_groups, -1.0
        strength[:, i] = -1.0  # no longer reached from others
        nearer = strength[i] > reach
        parent[nearer], reach[nearer] = i, strength[i][nearer]
    return signs, group - 1


def _join_groups(
    signs: Array, group: NDArray[np.intp], agreement: Array, overlap: Array, n_items: float
) -> tuple[Array, NDArray[np.intp]]:
    """Join groups, strongest evidence first, while the evidence between them is significant."""
    n_groups = int(group.max()) + 1
    if n_groups == 1:
        return signs, group
    signs, group = signs.copy(), group.copy()
    member = (group[:, None] == np.arange(n_groups)).astype(np.float64)
    signed = member * signs[:, None]
    agree, meet = signed.T @ agreement @ signed, member.T @ overlap @ member
    shared = np.zeros((n_groups, n_groups))
    np.maximum.at(shared, (group[:, None], group[None, :]), overlap)
    z = np.triu(_z_score(agree, meet, shared, n_items), 1)
    size = np.abs(z)
    for _ in range(n_groups - 1):
        a, b = (int(at) for at in np.unravel_index(int(np.argmax(size)), z.shape))
        if size[a, b] < _NEEDED_ERRORS:
            break
        turn = np.sign(z[a, b])
        signs[group == b] *= turn
        group[group == b] = a
        for table, merged in (
            (agree, agree[a] + turn * agree[b]),
            (meet, meet[a] + meet[b]),
            (shared, np.maximum(shared[a], shared[b])),
        ):
            table[a], table[:, a] = merged, merged
            table[b], table[:, b] = 0.0, 0.0
        # Only what was joined has changed, above the diagonal.
        row = _z_score(agree[a], meet[a], shared[a], n_items)
        z[:a, a], z[a, a + 1 :] = row[:a], row[a + 1 :]
        z[b], z[:, b] = 0.0, 0.0
        for k in (a, b):
            size[k], size[:, k] = np.abs(z[k]), np.abs(z[:, k])
    return signs, np.unique(group, return_inverse=True)[1]


def _flip_outvoted(signs: Array, links: Array) -> Array:
    """Flip sources whose links outvote their sign; each flip raises Σ sᵢsⱼzᵢⱼ, so this ends."""
    signs = signs.copy()
    support = signs * (links @ signs)
    for _ in range(10 * len(signs)):
        worst = int(np.argmin(support))
        if support[worst] >= 0:
            break
        signs[worst] *= -1
        support += 2 * signs * links[:, worst] * signs[worst]
        support[worst] *= -1
    return signs


def orient(
    signs: Array,
    group: NDArray[np.intp],
    magnitudes: Array,
    identified: NDArray[np.bool_],
    standard_error: Callable[[Array], float],
    known: SignKnowledge,
) -> Array:
    """Determine the remaining sign of each group; shape (m,), entries ±1, or 0 if undetermined.

    ``standard_error`` gives the error of the sum of accuracies, zero for sources not in the sum.
    The sign of a small group may stay undetermined without stopping the fit.

    Raises
    ------
    NotIdentifiableError
        If the accuracies of groups that hold more than a tenth of all accuracy sum to 0 within two
        standard errors and have no anchor, or if anchors contradict each other.
    """
    result, counted, anchors = signs.copy(), known.own, known.anchors
    for g in np.unique(group):
        members = np.flatnonzero(group == g)
        anchored = [i for i in members.tolist() if i in anchors]
        accuracies = np.zeros_like(magnitudes)
        accuracies[members] = signs[members] * magnitudes[members]
        wish = 0.0 if known.preference is None else known.preference(accuracies)
        if anchored:
            result[members] *= _orient_by_anchors(signs, magnitudes, anchored, known)
        elif identified[members].sum() < 3:
            # Without a triplet inside the group, only "better than random" is assumed.
            result[members] = signs[members] * np.sign(wish) if abs(wish) >= _OVERWHELMING else 1.0
        else:
            total = float(accuracies[counted].sum())
            is_clear = abs(total) > _NEEDED_ERRORS * standard_error(accuracies)
            # A few gold labels do not overrule a clear average.
            if abs(wish) >= (_OVERWHELMING if is_clear else _CLEAR_PREFERENCE):
                result[members] *= np.sign(wish)
            else:
                result[members] *= np.sign(total) if is_clear else 0.0
        for i in anchored:
            result[i] = anchors[i]
    open_ = (result == 0) & counted
    if magnitudes[open_].sum() > _MOST_OPEN * magnitudes[counted].sum():
        members = np.flatnonzero(open_ & (magnitudes > 0))
        accuracies = signs * magnitudes * open_
        raise NotIdentifiableError(
            f"The votes do not determine which of {format_count(len(members), 'source')} are better than "
            f"random: their accuracies sum to {accuracies.sum():.3g} ± {standard_error(accuracies):.2g}. "
            f"Pass signs={{{format_value(known.names[members[0]])}: +1}} for a source that you trust, or add "
            "items."
        )
    return result


def _orient_by_anchors(signs: Array, magnitudes: Array, anchored: list[int], known: SignKnowledge) -> float:
    anchors = known.anchors
    # Anchors are weighted by the strength of the source, because the relative sign of a weak source may be
    # due to chance. A single anchor on a source without any accuracy still decides.
    strength = magnitudes[anchored] + 1e-12
    agree = np.array([anchors[i] * signs[i] > 0 for i in anchored])
    share = float(strength[agree].sum() / strength.sum())
    if _CONTRADICTION < share < 1 - _CONTRADICTION:
        shown = ", ".join(f"{known.names[i]!r}: {anchors[i]:+d}" for i in anchored)
        raise NotIdentifiableError(
            f"`signs` must be consistent with the votes; got {{{shown}}}, but the agreement of these "
            "sources contradicts them. Pass only the signs that are certain."
        )
    return 1.0 if share > 0.5 else -1.0


def standard_error_of_sum(
    accuracies: Array,
    weights: Array,
    variance: Array,
    n_items: float,
    counted: NDArray[np.bool_] | None = None,
) -> float:
    """Return the standard error of Σᵢ aᵢ over the ``counted`` sources with aᵢ ≠ 0.

    That is the error of the best-weighted fit of Mᵢⱼ = aᵢaⱼ to all pairs at once, for every method: a mean
    over triplets may be noisier, but the sign is based on all pairs.

    Parameters
    ----------
    accuracies : array of shape (m,)
    weights : array of shape (m, m)
        Precision of Mᵢⱼ for one item; 0 for pairs that are not compared.
    variance : array of shape (m,)
        Mean square of the scores whose products are Mᵢⱼ.

    Notes
    -----
    Minimizing Σ Wᵢⱼ(Mᵢⱼ - aᵢaⱼ)² moves Σaᵢ by Σᵢ<ⱼ Gᵢⱼ dMᵢⱼ with Gᵢⱼ = Wᵢⱼ(gᵢaⱼ + gⱼaᵢ), where g
    solves A g = 1 (0 where not counted), Aᵢᵢ = Σⱼ Wᵢⱼaⱼ², Aᵢⱼ = Wᵢⱼaᵢaⱼ. With scores aᵢ + Uᵢ and U
    independent, Mᵢⱼ varies as aᵢUⱼ + aⱼUᵢ + UᵢUⱼ, so the variance is Σᵢ vᵢ(Σⱼ Gᵢⱼaⱼ)² + Σᵢ<ⱼ Gᵢⱼ²vᵢvⱼ, over
    n, with vᵢ = Var(Uᵢ). Infinite if the pairs do not determine the sum.
    """
    inside = np.flatnonzero(accuracies)
    a, pairs = accuracies[inside], weights[np.ix_(inside, inside)]
    system = pairs * np.outer(a, a)
    # The ridge is far below any real evidence. Sources that form no triangle make the system nearly singular
    # and the error large, as it should be.
    evidence = pairs @ a**2
    np.fill_diagonal(system, evidence + 1e-10 * evidence.max(initial=0.0))
    try:
        pull = np.linalg.solve(system, np.ones(len(a)) if counted is None else 1.0 * counted[inside])
    except np.linalg.LinAlgError:
        return np.inf
    gradient = pairs * (np.outer(pull, a) + np.outer(a, pull))
    spread = np.maximum(variance[inside] - a**2, 0)
    linear = spread @ (gradient @ a) ** 2
    quadratic = spread @ np.triu(gradient, 1) ** 2 @ spread
    return float(np.sqrt((linear + quadratic) / n_items))
