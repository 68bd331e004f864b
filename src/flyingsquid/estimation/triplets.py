"""Accuracies of symmetric sources, whose error and abstention rates are equal on both classes.

For three sources independent given the truth, E[λᵢλⱼ] = aᵢaⱼ for each pair (Fu et al. 2020,
section 3.1), hence aᵢ² = E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]: the triplet method returns |aᵢ|, and
:mod:`flyingsquid.estimation.signs` resolves the signs. With an imbalanced class balance, E[λᵢ] = aᵢE[Y]
needs no triplets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.estimation.signs import SignKnowledge, orient, relative_signs, standard_error_of_sum
from flyingsquid.estimation.sources import (
    CenteredMoments,
    Separation,
    SignedMoments,
    SourceFlags,
    comparable_pairs,
)
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

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


# ---------------------------------------------------------------------- signed accuracies


# E[Y] must differ from 0 by at least this many standard errors of E[λ].
_NEEDED_ERRORS = 3.0


def accuracies_from_balance(
    signed: SignedMoments, balance: Array, names: tuple[str, ...], groups: NDArray[np.intp] | None = None
) -> tuple[Array, Array]:
    """Return E[λᵢY] and its standard error, shape (m,) each, for ``balance`` (P(Y=-1), P(Y=+1)).

    Sources with equal numbers in ``groups`` may depend on each other; they are not compared.

    Raises
    ------
    NotIdentifiableError
        If E[Y] is too close to 0 for the number of items, or the best source's accuracy is not
        known to be different from 0.
    """
    expected = float(balance[1] - balance[0])
    mean, coverage, n = signed.mean, signed.coverage, signed.n_items
    noise = np.sqrt(np.maximum(coverage - mean**2, 0) / n)
    reference = int(np.argmax(np.abs(mean) / np.maximum(noise, 1e-150)))
    if abs(expected) < _NEEDED_ERRORS * noise[reference] or expected == 0:
        raise NotIdentifiableError(
            f'method="marginal" divides by E[Y] = {expected:.3g}, too close to 0 for {n:,.0f} items. '
            'Pass the true `class_balance` if it is imbalanced, or use method="triplet", which needs three '
            "sources and no balance."
        )
    direct, error = mean / expected, noise / abs(expected)
    if abs(direct[reference]) <= error[reference]:
        raise NotIdentifiableError(
            "The mean vote of at least one source must differ significantly from 0; the most significant, of "
            f"{format_value(names[reference])}, is {mean[reference]:.3g} ± {noise[reference]:.2g}. Add "
            'items, or use method="triplet", which needs three sources.'
        )
    apart = np.ones(len(mean), np.bool_) if groups is None else groups != groups[reference]
    accuracies, error = _pool(direct, error, signed, reference, apart)
    # Sampling noise can push an estimate beyond the bound of |E[λY]|.
    return np.clip(accuracies, -coverage, coverage), error


def _pool(
    direct: Array, error: Array, signed: SignedMoments, reference: int, apart: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Add the evidence of products with the reference source; errors by the delta method."""
    base, base_error = direct[reference], error[reference]
    product = signed.second[reference]
    by_product = product / base
    product_error = np.hypot(signed.standard_error[reference] / base, by_product * base_error / base)
    usable = apart & (signed.overlap[reference] > 0) & (product_error > 0) & (error > 0)
    precision = np.where(usable, 1 / np.maximum(product_error, 1e-150) ** 2, 0.0)
    own = np.where(usable, 1 / np.maximum(error, 1e-150) ** 2, 1.0)
    pooled = (own * direct + precision * by_product) / (own + precision)
    return pooled, np.where(usable, np.sqrt(1 / (own + precision)), error)


SYMMETRIC = ("mean", "median", "best", "marginal")
"""Methods for sources with symmetric errors."""


@dataclass(frozen=True, slots=True)
class SymmetricFit:
    """Accuracies of symmetric sources.

    Attributes
    ----------
    accuracies : array of shape (m,)
        aᵢ = E[λᵢY], with sign; Y is the truth of the task, even for sources of its neighbors.
    unidentified : mask of shape (m,)
        Voting sources that could not be estimated; they have the average accuracy of the others.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
    """

    accuracies: Array
    unidentified: NDArray[np.bool_]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of closed forms for two classes.

    Attributes
    ----------
    method : one of ``binary.METHODS``
    anchors : mapping from a source's position to its known sign
    screen : float
        Denominators below this many standard errors are skipped.
    triplets : positions of given triplets, or None
        For ``method="best"``; None chooses the strongest for each source.
    cliques : "instrument" or "linear"
        The weight of a vote is limited to twice the odds of the accuracy of its source, except in the paper's
        linear system.
    """

    method: str
    anchors: Mapping[int, int] = field(default_factory=dict)
    screen: float = 1.0
    triplets: Sequence[tuple[int, int, int]] | None = None
    cliques: str = "instrument"


def fit_symmetric(
    moments: Moments,
    signed: SignedMoments,
    flags: SourceFlags,
    balance: Array,
    options: Options,
    separation: Separation,
    known: SignKnowledge,
) -> SymmetricFit:
    """Estimate E[λᵢY] with one of the methods in :data:`SYMMETRIC`."""
    names = moments.source_names
    none = np.zeros(len(names), np.int64)
    if options.method == "marginal":
        accuracies, _ = accuracies_from_balance(signed, balance, names, separation.groups)
        return SymmetricFit(accuracies, np.zeros(len(names), np.bool_), none, none)
    _require_three(flags, separation, names)
    alone = has_few_own_groups(separation, flags)
    pairs = triplet_pairs(moments, signed, flags, separation, options.screen)
    magnitudes = _solve_triplets(pairs, options.method, options.triplets)
    identified = np.isfinite(magnitudes.values)
    unidentified = ~identified & ~flags.silent
    _require_triplets(magnitudes, unidentified & separation.own, options.triplets, names)
    sizes = _complete(magnitudes.values, signed.coverage, separation.own)
    signs = _signs(sizes, identified, signed, pairs, flags, known)
    accuracies, is_open = signs * sizes, signs == 0
    if is_open.any():
        # A source with an undetermined sign counts as not identified.
        unidentified |= is_open & ~flags.silent
        average = _complete(np.where(is_open, np.nan, sizes), signed.coverage, separation.own)
        accuracies = np.where(is_open, average, accuracies)
    if alone:
        accuracies = _from_strength(accuracies, signed, balance, separation.own & ~flags.one_sided)
    return SymmetricFit(accuracies, unidentified, magnitudes.used, magnitudes.skipped)


def has_few_own_groups(separation: Separation, flags: SourceFlags) -> bool:
    """Return whether a task with helpers has fewer than two groups of symmetric sources of its own.

    Then both partners of a triplet are on other tasks, or one-sided, which has the same effect.
    """
    symmetric = separation.own & ~flags.silent & ~flags.one_sided
    return not separation.own.all() and separation.n_groups(symmetric) < 2


def triplet_pairs(
    moments: Moments, signed: SignedMoments, flags: SourceFlags, separation: Separation, screen: float
) -> Pairs:
    """Return the pairs that triplets around one task may use.

    E[λᵢλⱼ] = E[λᵢY] E[λⱼY] holds if one of the two votes on the task itself. So a triplet has at most one
    source of another task; if the task has a single group, both partners are on other tasks, and then only
    covariances factor: Cov(λᵢ, λⱼ) = bᵢbⱼ with bᵢ = Cov(λᵢ, Y)/√Var(Y).
    """
    comparable = comparable_pairs(signed, flags) & separation.separated
    if not has_few_own_groups(separation, flags):
        # On a task without helpers, comparable_pairs has decided which one-sided sources may be compared.
        helpers = ~separation.own if separation.own.all() else ~separation.own | flags.one_sided
        return Pairs.of(signed, comparable & ~np.outer(helpers, helpers), screen)
    centered = CenteredMoments.of(moments)
    covariance = np.where(comparable, centered.covariance, 0.0)
    error = np.sqrt(centered.noise / signed.n_items)
    strong = comparable & (covariance != 0) & (np.abs(covariance) >= screen * error)
    return Pairs(covariance, error, comparable, strong)


def _from_strength(
    strength: Array, signed: SignedMoments, balance: Array, symmetric: NDArray[np.bool_]
) -> Array:
    """Return E[λY] from Cov(λ, Y)/√Var(Y); a symmetric source of the task has E[λ | Y] = aY."""
    expected = float(balance[1] - balance[0])
    spread = np.sqrt(1 - expected**2)
    on_task = np.clip(strength / spread, -signed.coverage, signed.coverage)
    return np.where(symmetric, on_task, strength * spread + signed.mean * expected)


def _signs(
    sizes: Array,
    identified: NDArray[np.bool_],
    signed: SignedMoments,
    pairs: Pairs,
    flags: SourceFlags,
    known: SignKnowledge,
) -> Array:
    """Return the sign of each source, shape (m,); 0 if it is undetermined."""
    # The sign of one-sided sources is not compared with each other: a source that votes only for one class
    # and one that votes only for the other never agree, however accurate both are.
    informative = pairs.comparable & ~np.outer(flags.one_sided, flags.one_sided)
    # The mean square of raw moments is the overlap; that of covariances is their noise plus their square.
    mean_square = signed.n_items * pairs.standard_error**2 + pairs.second**2
    signs, group = relative_signs(pairs.second, mean_square, signed.n_items, informative)
    # The floor keeps pairs that always agree from taking all the weight.
    noise = np.maximum(signed.n_items * pairs.standard_error**2, 0.01)
    error = partial(
        standard_error_of_sum,
        weights=pairs.comparable / noise,
        variance=signed.coverage,
        n_items=signed.n_items,
        counted=known.own,
    )
    return orient(signs, group, sizes, identified, error, known)


def _solve_triplets(pairs: Pairs, method: str, triplets: Sequence[tuple[int, int, int]] | None) -> Magnitudes:
    if method == "mean":
        return all_triplets_mean(pairs)
    if method == "median":
        return all_triplets_median(pairs)
    if triplets is not None:
        return given_triplets(pairs, triplets)
    return strongest_triplet(pairs)


def _complete(values: Array, coverage: Array, own: NDArray[np.bool_]) -> Array:
    """Clip |aᵢ| to the vote rate, and use the average accuracy for sources without a triplet.

    A source that could not be compared gets the average accuracy of the others, and is reported as
    unidentified.
    """
    known = np.isfinite(values) & (coverage > 0)
    # Sampling noise can push an estimate beyond the bound of |E[λY]|.
    sizes = np.where(known, np.minimum(values, coverage), 0.0)
    peers = known & own
    peers = peers if peers.any() else known
    # If no source could be estimated, all get accuracy 0.
    average = sizes[peers].sum() / coverage[peers].sum() if peers.any() else 0.0
    return np.where(known, sizes, average * coverage)


def _require_three(flags: SourceFlags, separation: Separation, names: tuple[str, ...]) -> None:
    voting = np.flatnonzero(~flags.silent)
    different = len(set(flags.copies[voting].tolist()))
    if different < 3:
        shown = format_list([names[i] for i in voting], 5)
        alike = " (the others vote alike on every item)" if different < len(voting) else ""
        raise NotIdentifiableError(
            f"At least three different sources must vote; got {different} of {len(names)}: {shown}{alike}. "
            'Add sources, use MajorityVote, or use method="marginal" if the classes are imbalanced and their '
            "balance is known."
        )
    groups = separation.n_groups(~flags.silent)
    if groups < 3:
        raise NotIdentifiableError(
            "`graph` must leave at least three groups of voting sources that are independent given the "
            f"truth; got {groups}. Declare fewer source edges, or add sources."
        )


def _require_triplets(
    magnitudes: Magnitudes,
    unidentified: NDArray[np.bool_],
    triplets: Sequence[tuple[int, int, int]] | None,
    names: tuple[str, ...],
) -> None:
    if triplets is not None and unidentified.any():
        i = int(np.flatnonzero(unidentified)[0])
        raise NotIdentifiableError(
            f"`triplets` must contain a usable triplet for source {format_value(names[i])}: its pairs "
            "never vote on the same item, or agree by chance. Add another triplet, or lower `screen`."
        )
    identified = int(np.isfinite(magnitudes.values).sum())
    if identified < 3:
        raise NotIdentifiableError(
            f"At least three sources must be identifiable; got {identified} of {len(names)}: pairs agree no "
            f"more than by chance ({int(magnitudes.skipped.sum()) // 3:,} triplets skipped), or never vote "
            "on the same item. Add items or overlapping sources, or use MajorityVote."
        )
