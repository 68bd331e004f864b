"""Standard errors of accuracies, and correction of tables by gold labels, weighted by these errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from flyingsquid.estimation.balance import rank_one_influence, skewness_influence
from flyingsquid.estimation.binary import BinaryFit, Evidence
from flyingsquid.estimation.conditional import ConditionalFit
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.estimation.sources import SignedMoments
from flyingsquid.estimation.triplets import (
    Pairs,
    accuracies_from_balance,
    all_triplets_mean,
    has_few_own_groups,
    roots,
    strongest_partners,
    triplet_pairs,
)
from flyingsquid.estimation.units import draw_votes
from flyingsquid.moments import Moments

Array = NDArray[np.float64]


def accuracy_errors(
    moments: Moments,
    fit: BinaryFit,
    *,
    method: str,
    screen: float,
    by_hand: bool,
    rows: Array | None = None,
) -> Array:
    """Return standard errors of P(vote is right | source votes), shape (m,).

    NaN for a source that never votes or could not be estimated, and for methods without a formula: a
    median, triplets chosen ``by_hand``, and the quadratic method. ``rows`` are signed votes drawn from the
    model, for sources that depend on each other; otherwise they are drawn from the tables.
    """
    if fit.errors is not None:
        return fit.errors
    if method == "covariance" and fit.conditional is not None:
        estimated = fit.balance_estimate is not None and fit.balance_estimate.is_usable
        rows = draw_votes(fit.tables, fit.balance)[0] if rows is None else rows
        errors = conditional_errors(fit.conditional, rows, fit.balance, fit.mean_parameters, estimated)
        return np.where(fit.flags.silent, np.nan, errors)
    signed = SignedMoments.of(moments)
    if method == "marginal":
        groups = fit.separation.groups
        _, error = accuracies_from_balance(signed, fit.balance, moments.source_names, groups)
        return np.divide(error, 2 * signed.coverage, out=np.full_like(error, np.nan), where=~fit.flags.silent)
    errors = np.full(moments.n_sources, np.nan)
    if has_few_own_groups(fit.separation, fit.flags):  # these formulas are for raw moments
        return errors
    pairs = triplet_pairs(moments, signed, fit.flags, fit.separation, screen)
    sizes = np.abs(fit.mean_parameters)
    if method == "mean":
        shared = shared_errors(signed, fit)
        errors = triplet_mean_errors(signed, pairs, fit.triplets_used, sizes, shared)
    elif method == "best" and not by_hand:
        errors = single_triplet_errors(signed, pairs, strongest_partners(pairs), sizes)
    # The accuracy of a one-sided source follows from its clipped table, for which there is no formula.
    return np.where(fit.unidentified | fit.flags.one_sided | fit.flags.silent, np.nan, errors)


def shared_errors(signed: SignedMoments, fit: BinaryFit) -> Array | None:
    """Return Cov(Uₚ, Uᵩ) of dependent sources, shape (m, m); None if all are independent."""
    if fit.separation.is_simple:
        return None
    a = fit.mean_parameters
    signs = np.where(a < 0, -1.0, 1.0)
    shared = np.where(
        fit.separation.separated, 0.0, np.outer(signs, signs) * (signed.second - np.outer(a, a))
    )
    np.fill_diagonal(shared, 0.0)
    return shared


def triplet_mean_errors(
    signed: SignedMoments, pairs: Pairs, used: NDArray[np.int64], a: Array, shared: Array | None = None
) -> Array:
    """Return standard errors of accuracies by the mean over all triplets, shape (m,); NaN if unknown.

    ``used`` are the triplets behind each estimate, ``a`` the estimates of |E[λᵢY]|, ``shared`` as in
    :func:`shared_errors`. Dependent sources are never in the same triplet, but may be part of the same mean.
    """
    root, inverse = roots(pairs)
    # The derivatives of roots grow without bound near 0, and values below one standard error are not
    # distinguishable from it.
    size = np.maximum(np.abs(pairs.second), np.maximum(pairs.standard_error, 1e-100))
    count = np.where(used > 0, used, np.nan)[:, None]
    by_own = (root @ inverse) * root / (2 * size * count)  # ∂aᵢ/∂Mᵢⱼ
    by_denominator = inverse / (2 * size)  # ∂aᵢ/∂Mⱼₖ is -RᵢⱼRᵢₖ times this, over the count
    spread = np.maximum(signed.coverage - a**2, 0)
    pull = by_own * a[:, None] - root / count * ((root * a) @ by_denominator)
    linear = pull**2 @ spread
    if shared is not None:
        linear += np.einsum("ij,ij->i", pull @ shared, pull)
    weighted = root**2 * spread
    quadratic = spread * (by_own**2 @ spread)
    quadratic += np.einsum("ij,ij->i", weighted @ by_denominator**2, weighted) / 2 / count[:, 0] ** 2
    return _accuracy_error(by_own @ a, linear + quadratic, signed, a)


def single_triplet_errors(signed: SignedMoments, pairs: Pairs, chosen: NDArray[np.intp], a: Array) -> Array:
    """Return standard errors for one triplet (i, j, k) per source; ``chosen`` is (m, 2), -1 for none."""
    i, (j, k) = np.arange(len(a)), chosen.T
    size = np.maximum(np.abs(pairs.second), np.maximum(pairs.standard_error, 1e-100))
    g_ij, g_ik, g_jk = a / (2 * size[i, j]), a / (2 * size[i, k]), -a / (2 * size[j, k])
    spread = np.maximum(signed.coverage - a**2, 0)
    linear = spread[j] * (g_ij * a + g_jk * a[k]) ** 2 + spread[k] * (g_ik * a + g_jk * a[j]) ** 2
    quadratic = spread * (spread[j] * g_ij**2 + spread[k] * g_ik**2) + spread[j] * spread[k] * g_jk**2
    errors = _accuracy_error(g_ij * a[j] + g_ik * a[k], linear + quadratic, signed, a)
    return np.where(chosen[:, 0] >= 0, errors, np.nan)


def _accuracy_error(own: Array, others: Array, signed: SignedMoments, a: Array) -> Array:
    """Return the standard error of (1 + aᵢ/cᵢ)/2 if Uᵢ enters aᵢ with the factor ``own``."""
    coverage = signed.coverage
    with np.errstate(divide="ignore", invalid="ignore"):
        share = a / coverage
        variance = own**2 * np.maximum(coverage - a**2, 0) + others
        variance += share**2 * coverage * (1 - coverage) - 2 * own * share * a * (1 - coverage)
        return np.sqrt(np.maximum(variance, 0) / signed.n_items) / (2 * coverage)


def conditional_errors(
    fit: ConditionalFit, drawn: Array, balance: Array, mean_parameters: Array, balance_estimated: bool
) -> Array:
    """Return standard errors of the accuracies of class-conditional sources, shape (m,).

    ``drawn`` are signed votes drawn from the fitted model, shape (rows, m).
    """
    centered, e = fit.centered, float(balance[1] - balance[0])
    rows = drawn - centered.mean
    scale = np.sqrt(1 - e**2)
    moves = scale * rank_one_influence(rows, fit) + e * rows
    if balance_estimated:
        by_balance = centered.mean - fit.strength * e / scale
        moves += np.outer(skewness_influence(rows, fit, -2 * e / scale), by_balance)
    coverage = centered.coverage
    with np.errstate(divide="ignore", invalid="ignore"):
        moves -= mean_parameters / coverage * (np.abs(rows + centered.mean) - coverage)
        return np.sqrt(np.var(moves, axis=0) / centered.n_items) / (2 * coverage)


def strength_errors(fit: ConditionalFit, drawn: Array) -> Array:
    """Return standard errors of bᵢ = Cov(λᵢ, Y)/√Var(Y), shape (m,), from votes drawn from the model."""
    rows = drawn - fit.centered.mean
    return np.asarray(np.std(rank_one_influence(rows, fit), axis=0) / np.sqrt(fit.centered.n_items))


GROUPS = 10


def group_errors(refit: Callable[[NDArray[np.intp]], Array], n_items: int) -> Array:
    """Return standard errors of the result of ``refit(rows)`` by leaving out one group of items at a time.

    They are scaled such that ± 1.96 standard errors match the interval of Student's t distribution for this
    number of groups. Rows are assigned to groups with a fixed seed, because items may be sorted.
    """
    groups = min(GROUPS, n_items)
    dealt = np.random.default_rng(0).permutation(n_items) % groups
    found = np.stack([refit(np.flatnonzero(dealt != group)) for group in range(groups)])
    spread = np.sqrt((groups - 1) / groups * ((found - found.mean(axis=0)) ** 2).sum(axis=0))
    return np.asarray(spread * stdtrit(groups - 1, 0.975) / NORMAL_95)


# ---------------------------------------------------------------------- gold labels


# An estimate without a standard error counts as this many votes.
_VOTES_IF_UNKNOWN = 5.0


def with_gold(fit: BinaryFit, evidence: Evidence, *, method: str, screen: float) -> BinaryFit:
    """Return the fit with every table moved toward the votes of the source on gold labels.

    An accuracy with standard error s counts as A(1-A)/s² votes. The result is the mean of its table, with
    that many votes, and of the votes on gold labels.
    """
    if evidence.gold is None:
        return fit
    gold, coverage = evidence.gold, np.maximum(evidence.moments.coverage, 1e-12)
    accuracy = np.clip((1 + fit.mean_parameters / coverage) / 2, 0.0, 1.0)
    # The estimate already contains the items with gold labels; their votes count once. At least one vote of
    # the estimate remains, so that votes that do not occur on gold labels are rare, not impossible.
    unseen = max(1 - float(gold.classes.sum() / evidence.moments.n_items), 0.0)
    worth = np.maximum(unseen * _effective_votes(fit, evidence, accuracy, method, screen), 1.0)
    # The number of items of each class that a table counts as.
    items = (worth / coverage)[:, None] * fit.balance
    tables = pool_tables(fit.tables, items, gold.tables)
    accuracy = (accuracy * worth + gold.right) / (worth + gold.n_votes)
    # Both sides contain the items with gold labels, so the smaller one adds less information than it has.
    informed = np.maximum(worth, gold.n_votes) + unseen**2 * np.minimum(worth, gold.n_votes)
    return replace(
        fit,
        tables=tables,
        mean_parameters=(2 * accuracy - 1) * coverage,
        errors=np.where(fit.flags.silent, np.nan, np.sqrt(accuracy * (1 - accuracy) / (informed + 1))),
        worth=items,
    )


def pool_tables(tables: Array, worth: Array, known: Array) -> Array:
    """Return tables of S states, shape (..., K, S), moved toward the votes on gold labels.

    ``worth`` of shape (..., K) is the number of items of each class that a table counts as; ``known`` of
    shape (..., K, S) counts items with gold labels.
    """
    return np.asarray((tables * worth[..., None] + known) / (worth + known.sum(axis=-1))[..., None])


def _effective_votes(
    fit: BinaryFit, evidence: Evidence, accuracy: Array, method: str, screen: float
) -> Array:
    """Return the number of votes that each estimate counts as, shape (m,).

    Methods without a standard error use that of the most similar method, and sources without one use that of
    the other sources.
    """
    route = {"quadratic": "covariance", "median": "mean", "best": "mean"}
    moments = evidence.moments
    if method == "best":
        pairs = triplet_pairs(moments, SignedMoments.of(moments), fit.flags, fit.separation, screen)
        fit = replace(fit, triplets_used=all_triplets_mean(pairs).used)
    errors = accuracy_errors(moments, fit, method=route.get(method, method), screen=screen, by_hand=False)
    spread = np.maximum(accuracy * (1 - accuracy), 0.25 / moments.n_items)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = spread / errors**2
    known = np.isfinite(worth)
    typical = float(np.median(worth[known])) if known.any() else _VOTES_IF_UNKNOWN
    return np.clip(np.where(known, worth, typical), _VOTES_IF_UNKNOWN, moments.n_items)
