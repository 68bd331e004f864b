"""Dependence between sources beyond the truth, estimated from counts of pairs.

On items that two sources both vote on, let rho be their agreement beyond chance, scaled to [-1, 1]. For
sources that are independent given the truth, ``rho[i, j] = b[i] b[j]``, exactly so for two classes. A robust
fit of b leaves dependent pairs as outliers. The agreement of a pair beyond the fit is the share of its
evidence that would be counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.graph.junction import components
from flyingsquid.moments import Moments, PairAgreement

Array = NDArray[np.float64]
# A pair is compared if it shares this many items, with this many votes outside the most frequent class.
_SHARED_ITEMS, _UNUSUAL_VOTES = 30.0, 10.0
# Copies are not searched among more sources than this, because all pairs would not fit into memory.
MOST_SOURCES = 2_000
# Share of the agreement beyond the truth from which two sources are copies, and the upper bound of the
# agreement of a source with the truth beyond chance.
_UNEXPLAINED, _BEST_KAPPA = 0.9, 0.97
# Copies also have this share of their votes outside of their most frequent class on the same items (.65 to
# .9: same; with .5, rules of two of 24 token datasets are copies). Rules that leave most items blank always
# agree if a blank is read as a vote for one class.
_COMMON_VOTES = 0.65
# One-sided sources always agree if both vote. They are copies if they vote on the same items.
_SAME_ITEMS, _ALWAYS = 0.95, 0.95
# The fit has one parameter per source, so fewer sources or pairs cannot be compared.
_FEWEST_SOURCES, _FEWEST_PAIRS = 4, 6
# A pair is dependent if it exceeds the fit by this many standard errors and by this share. Plateaus on
# simulated copies: 3.5 to 5 standard errors, and .05 to .15.
_STANDARD_ERRORS, _LEAST_EXCESS = 4.0, 0.1
# The loss of a residual levels off at this many standard errors (Geman and McClure). The mean is that of a
# pair that fits.
_SCALE, _MEAN_LOSS = 3.0, 0.086
# Starts of the fit: a quantile of the correlations of a source with the others, and the first scale of the
# loss. The low quantile resists many dependent partners, and the wide scale does not discard pairs too early.
# Least squares finds a truth if most pairs share none, as rules that each find a part of a rare class. On 580
# simulations with copies or more than two classes, none of eight other starts has a loss that is smaller by
# 1; without the first start, the loss is larger on 20% of those with copies.
_STARTS = ((0.15, _SCALE), (0.5, 12.0), (1.0, np.inf))
# With a tolerance of 1e-6, probabilities differ by at most .001 on 102 simulated datasets, in more time.
_MOST_ITERATIONS, _TOLERANCE, _LONGEST_STEP = 80, 1e-4, 8.0
# With more pairs than this, starts are fitted one after the other, because their arrays leave the cache.
_FEW_PAIRS = 1 << 14
# The lower bound must be small, or sources without any strength would deviate from the fit.
_LOWEST, _HIGHEST, _LEAST_SPREAD = 0.001, 0.985, 0.1
# Several explanations: one factor of the agreement more than the classes need (K - 1), of this size relative
# to the first; dependent pairs among this share of the sources; and this share of votes outside the most
# frequent class, because rules that each find a few items of a rare class agree on little without
# contradiction. All turn on smoothly, by the sixteenth power. Chosen on panels of judges that share a bias;
# copies among a minority of the sources, and the design datasets, stay below.
SECOND_FACTOR, _DEPENDENT_SOURCES, _UNUSUAL_SHARE, _STEEPNESS = 0.2, 0.5, 0.15, 16


@dataclass(frozen=True, slots=True)
class Dependence:
    """Dependence between sources.

    Attributes
    ----------
    shared : array of shape (m, m) or None
        Share of the evidence of two sources that they have in common: 1 for copies, 0 if independent. None
        for more sources than are compared.
    groups : integer array of shape (m,) or None
        Number of each source's group of copies; None if sources were not compared.
    n_pairs : int
        Number of dependent pairs.
    second_factor : float
        Size of the first factor of the agreement beyond those of the classes, relative to the largest.
    contradiction : float in [0, 1]
        How clearly a second factor explains the agreement of most sources about as well as the first, so that
        votes do not determine which of the two is the truth.
    """

    shared: Array | None
    groups: NDArray[np.intp] | None = None
    n_pairs: int = 0
    second_factor: float = 0.0
    contradiction: float = 0.0

    def scaled(self, factor: float) -> Array | None:
        """Return ``shared`` times ``factor``; near-copies, which need no model, count in full."""
        if self.shared is None or self.groups is None:
            return None
        return np.where(self.groups[:, None] == self.groups, self.shared, factor * self.shared)


def find_dependence(moments: Moments, pairs: PairAgreement | None = None) -> Dependence:
    """Find dependent pairs of sources.

    More than 2,000 sources are not compared. ``pairs`` is ``moments.compare_pairs()``, if it has been
    computed already.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 3_000)
    >>> votes = np.where(rng.random((3_000, 6)) < 0.75, y[:, None], 1 - y[:, None])
    >>> copied = rng.random(3_000) < 0.7
    >>> votes[copied, 1] = votes[copied, 0]
    >>> found = find_dependence(Moments.of(votes))
    >>> found.n_pairs, float(found.shared[0, 1].round(1))
    (1, 0.7)
    """
    m = moments.n_sources
    if m > MOST_SOURCES:
        return Dependence(None)
    shared = np.zeros((m, m))
    pairs = moments.compare_pairs() if pairs is None else pairs
    n_pairs, second_factor, contradiction = 0, 0.0, 0.0
    compared = _compare(pairs, m)
    if compared.is_enough:
        at, _, correlation, _, precision = compared
        excess, is_dependent = _outliers(correlation, precision)
        shared[np.ix_(at, at)] = np.where(is_dependent, excess, 0.0)
        n_pairs = int(is_dependent.sum()) // 2
        second_factor = _second_factor(correlation, precision, moments.n_classes)
        contradiction = _contradiction(second_factor, is_dependent, moments) if n_pairs else 0.0
    groups = _group_copies(moments, pairs, compared)
    shared[groups[:, None] == groups] = 1.0
    np.fill_diagonal(shared, 0.0)
    return Dependence(shared, groups, n_pairs, second_factor, contradiction)


class _Compared(NamedTuple):
    """Agreement beyond chance of the s sources that share enough items with another source.

    Attributes
    ----------
    at : integer array of shape (s,)
    pairs : mask of shape (p,)
        Pairs that share enough items.
    correlation : array of shape (s, s)
        Agreement beyond chance, scaled to [-1, 1]; 0 for pairs that share too few items.
    kappa : array of shape (s, s)
        Agreement beyond chance relative to the largest possible; infinite for pairs that share too few items.
    precision : array of shape (s, s)
        Number of items behind each; 0 for pairs that share too few.
    """

    at: NDArray[np.intp]
    pairs: NDArray[np.bool_]
    correlation: Array
    kappa: Array
    precision: Array

    @property
    def is_enough(self) -> bool:
        """True if the strengths of the sources can be estimated."""
        n_pairs = int(np.count_nonzero(self.precision)) // 2
        return len(self.at) >= _FEWEST_SOURCES and n_pairs >= _FEWEST_PAIRS


def _compare(pairs: PairAgreement, m: int) -> _Compared:
    kept = (pairs.overlap >= _SHARED_ITEMS) & (pairs.unusual >= _UNUSUAL_VOTES).all(axis=0)
    first, second = pairs.first[kept], pairs.second[kept]
    overlap, chance = pairs.overlap[kept], pairs.chance[kept]
    # Workers of a crowd mostly share few items; the cost is quadratic in the remaining ones.
    is_compared = np.zeros(m, np.bool_)
    is_compared[first] = is_compared[second] = True
    at = np.flatnonzero(is_compared)
    place = np.cumsum(is_compared) - 1
    beyond = pairs.agreement[kept] / overlap - chance
    scale = np.sqrt(pairs.spread[0, kept] * pairs.spread[1, kept])
    i, j = place[first], place[second]
    correlation, kappa, precision = filled = np.zeros((3, len(at), len(at)))
    kappa[:] = np.inf
    filled[:, i, j] = filled[:, j, i] = beyond / scale, beyond / (1 - chance), overlap
    return _Compared(at, kept, correlation, kappa, precision)


def pair_correlations(moments: Moments) -> tuple[NDArray[np.intp], Array, Array] | None:
    """Return the sources that can be compared, their correlations and the number of items behind each.

    Arrays of shape (s,), (s, s) and (s, s), 0 for pairs that cannot be compared. None if there are too many
    sources, or too few pairs.
    """
    if moments.n_sources > MOST_SOURCES:
        return None
    found = _compare(moments.compare_pairs(), moments.n_sources)
    return (found.at, found.correlation, found.precision) if found.is_enough else None


def find_copies(moments: Moments) -> Dependence:
    """Find near-copies only."""
    if moments.n_sources > MOST_SOURCES:
        return Dependence(None)
    groups = near_copies(moments)
    shared = (groups[:, None] == groups).astype(np.float64)
    np.fill_diagonal(shared, 0.0)
    return Dependence(shared, groups)


def _outliers(correlation: Array, precision: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Fit ``b b'`` robustly; return the excess of each pair over it, and which pairs are dependent."""
    pairs = np.nonzero(precision)  # workers of a crowd mostly share no items
    seen, known = correlation[pairs], precision[pairs]
    quantiles, scales = np.array(_STARTS).T[:, :, None]
    typical = row_quantiles(np.where(precision > 0, correlation, np.inf), quantiles)
    middle = np.maximum(row_quantiles(typical, 0.5), 0.01)
    starts = np.minimum(np.maximum(typical / np.sqrt(middle)[:, None], 0.02), 0.97)
    least, excess, is_dependent = np.inf, np.zeros_like(correlation), np.zeros(correlation.shape, np.bool_)
    together = len(starts) if len(seen) <= _FEW_PAIRS else 1
    for at in range(0, len(starts), together):
        strengths = starts[at : at + together]
        for scale in (scales[at : at + together], _SCALE):
            strengths = _fit_robustly(pairs, seen, known, strengths, scale)
        fitted = strengths[:, pairs[0]] * strengths[:, pairs[1]]
        z = (seen - fitted) * np.sqrt(known) / np.maximum(1 - fitted, _LEAST_SPREAD)
        beyond = np.minimum(np.maximum((seen - fitted) / (1 - fitted), 0.0), 1.0)
        outlying = (z > _STANDARD_ERRORS) & (beyond > _LEAST_EXCESS)
        for each in zip(z, outlying, beyond, strict=True):
            loss = _loss(each[0], each[1], pairs, len(correlation))
            if loss < least:
                least, is_dependent[pairs], excess[pairs] = loss, *each[1:]
    return excess, is_dependent


def _loss(
    z: Array, is_dependent: NDArray[np.bool_], pairs: tuple[NDArray[np.intp], ...], n_sources: int
) -> float:
    """Return the loss of all pairs, in which a group of g dependent sources counts as g - 1 outliers.

    Each of them repeats one other, and the remaining pairs of the group follow from that. If all pairs were
    counted, a group of copies would be taken for good sources: then its pairs fit, and all others deviate a
    little.
    """
    dependent = np.column_stack([each[is_dependent] for each in pairs])
    # The highest number of a group is that of the last; pairs are in both orders.
    outliers = 2 * (n_sources - 1 - int(components(dependent, n_sources).max()))
    others = z[~is_dependent] ** 2
    noise = _MEAN_LOSS * (np.count_nonzero(is_dependent) - outliers)
    return float((others / (_SCALE**2 + others)).sum() + outliers + noise)


def _fit_robustly(
    pairs: tuple[NDArray[np.intp], ...],
    correlation: Array,
    precision: Array,
    strengths: Array,
    scale: Array | float,
) -> Array:
    """Return strengths b by iteratively weighted least squares from several starts, shape (starts, m).

    The loss of a residual levels off at ``scale`` standard errors; never, if it is infinite. It is a number,
    or one per start, shape (starts, 1). ``correlation`` and ``precision`` are those of the ``pairs``: in both
    orders, ordered by the first source, with at least one for each source. Steps of SQUAREM (Varadhan and
    Roland 2008) halve the number of iterations.
    """
    first, second = pairs
    of_source = np.searchsorted(first, np.arange(strengths.shape[1]))
    scaled, last = precision / np.square(scale), None
    for _ in range(_MOST_ITERATIONS):
        partners = strengths.take(second, axis=1)
        fitted = strengths.take(first, axis=1)
        fitted *= partners
        # The weight is w / (1 + w (r / scale)^2)^2 for a residual r and w = precision / spread^2.
        weights = np.maximum(1 - fitted, _LEAST_SPREAD)
        weights *= weights
        np.subtract(correlation, fitted, out=fitted)
        fitted *= fitted
        fitted *= scaled
        fitted += weights
        fitted *= fitted
        weights *= precision
        weights /= fitted
        weights *= partners
        target = np.add.reduceat(weights * correlation, of_source, axis=1)
        weights *= partners
        target /= np.add.reduceat(weights, of_source, axis=1)
        target += strengths
        target /= 2
        target = np.minimum(np.maximum(target, _LOWEST), _HIGHEST)
        change = target - strengths
        if np.maximum.reduce(np.abs(change), axis=None) < _TOLERANCE:
            return target
        if last is None:
            strengths, last = target, change
            continue
        curve = change - last
        size, bend = np.add.reduce(last * last, axis=1), np.add.reduce(curve * curve, axis=1)
        length = np.sqrt(size / np.maximum(bend, 1e-24))[:, None]
        length = np.minimum(np.maximum(length, 1.0), _LONGEST_STEP)
        target += (length - 1) * (2 * last + (length + 1) * curve)
        strengths, last = np.minimum(np.maximum(target, _LOWEST), _HIGHEST), None
    return strengths


def _second_factor(correlation: Array, precision: Array, n_classes: int) -> float:
    """Return the size of the K-th factor beyond noise, relative to the first."""
    if len(correlation) < n_classes:
        return 0.0
    first, other = np.linalg.eigvalsh(correlation)[[-1, -n_classes]]
    # Noise alone has eigenvalues up to about twice the root of the largest row sum of variances.
    variance = np.divide(1.0, precision, out=np.zeros_like(precision), where=precision > 0)
    noise = 2 * np.sqrt(variance.sum(axis=1).max())
    return float(max(other - noise, 0.0) / first) if first > noise else 0.0


def _contradiction(second_factor: float, is_dependent: NDArray[np.bool_], moments: Moments) -> float:
    """Return a score in [0, 1] for how clearly another factor competes with those of the classes."""
    breadth = is_dependent.any(axis=1).mean() / _DEPENDENT_SOURCES
    votes = np.asarray(moments.vote_counts, np.float64).sum(axis=0)
    unusual = 1 - votes.max() / votes.sum()
    return (
        _smooth_step(second_factor / SECOND_FACTOR)
        * _smooth_step(breadth)
        * _smooth_step(unusual / _UNUSUAL_SHARE)
    )


def _smooth_step(ratio: float) -> float:
    """Return a smooth step from 0 to 1 at 1."""
    power = float(ratio) ** _STEEPNESS
    return power / (1 + power)


# ---------------------------------------------------------------------- copies


def near_copies(moments: Moments) -> NDArray[np.intp]:
    """Return the number of each source's group, shape (m,); sources of one group are near-copies.

    For more than 2,000 sources, each is a group of its own.

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
    pairs = moments.compare_pairs()
    return _group_copies(moments, pairs, _compare(pairs, moments.n_sources))


def _group_copies(moments: Moments, pairs: PairAgreement, compared: _Compared) -> NDArray[np.intp]:
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    both = np.stack([pairs.first, pairs.second])
    alike = _same_items(pairs, vote_counts, moments.n_items)
    if len(compared.at):
        kept, kappa = compared.pairs, compared.kappa
        # Kappa of independent sources is κᵢⱼ = cᵢcⱼ; c is the median over the others, which resists a few
        # copies. Copies reach most of the possible agreement that this leaves unexplained.
        i, j = np.searchsorted(compared.at, both[:, kept])
        overall = float(row_quantiles(kappa[i, j], 0.5))
        strength = np.clip(row_quantiles(kappa, 0.5) / np.sqrt(max(overall, 0.01)), 0.0, _BEST_KAPPA)
        explained = strength[i] * strength[j]
        unexplained = (kappa[i, j] - explained) / (1 - explained)
        unusual = vote_counts.sum(axis=1) - vote_counts.max(axis=1)
        shares_votes = (pairs.unusual[:, kept] >= _COMMON_VOTES * unusual[both[:, kept]]).all(axis=0)
        alike[kept] |= (unexplained >= _UNEXPLAINED) & shares_votes
    return components(both[:, alike].T, moments.n_sources)


def row_quantiles(values: Array, quantile: Array | float) -> Array:
    """Return a quantile of the finite values along the last axis, 0 without any; shape of the other axes.

    Quantiles of shape (q, 1) give q results for each row of a matrix. ``np.nanquantile`` is slower.
    """
    ordered = np.sort(values, axis=-1)
    is_finite = np.isfinite(ordered)
    last = np.maximum(is_finite.sum(axis=-1) - 1, 0)
    at = quantile * last
    low = at.astype(np.intp)
    first = np.arange(last.size).reshape(last.shape) * ordered.shape[-1]
    flat = np.where(is_finite, ordered, 0.0).ravel()
    below = flat[first + low]
    return np.asarray(below + (at - low) * (flat[first + np.minimum(low + 1, last)] - below))


def _same_items(pairs: PairAgreement, vote_counts: Array, n_items: float) -> NDArray[np.bool_]:
    """Return which pairs of sources vote for the same single class on the same items."""
    voted, best = vote_counts.sum(axis=1), vote_counts.argmax(axis=1)
    one_sided = (vote_counts.max(axis=1) == voted) & (voted >= _SHARED_ITEMS) & (voted < _ALWAYS * n_items)
    first, second = pairs.first, pairs.second
    either = voted[first] + voted[second] - pairs.overlap
    same = one_sided[first] & one_sided[second] & (best[first] == best[second])
    return np.asarray(same & (pairs.overlap >= _SAME_ITEMS * np.maximum(either, 1.0)))
