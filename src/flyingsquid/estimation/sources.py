"""Rates and moments of the sources, copies, and pairs that may be compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from flyingsquid.moments import Moments, PairAgreement

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Separation:
    """Relations between the sources around one task.

    Attributes
    ----------
    groups : integer array of shape (m,)
        Sources with equal numbers may depend on each other given the truth; all others are independent.
    own : mask of shape (m,)
        Sources that vote on the task itself. The others vote on neighboring tasks.
    """

    groups: NDArray[np.intp]
    own: Mask

    @classmethod
    def independent(cls, n_sources: int) -> Separation:
        """Return the separation of one task whose sources are all independent given the truth."""
        return cls(np.arange(n_sources), np.ones(n_sources, np.bool_))

    @property
    def separated(self) -> Mask:
        """Pairs that are independent given the truth, shape (m, m)."""
        return np.asarray(self.groups[:, None] != self.groups)

    @property
    def is_simple(self) -> bool:
        """True if all sources are on the task and independent given its truth."""
        return bool(self.own.all() and len(np.unique(self.groups)) == len(self.groups))

    def n_groups(self, among: Mask) -> int:
        """Return the number of groups of the sources ``among``."""
        return len(np.unique(self.groups[among]))


@dataclass(frozen=True, slots=True)
class VoteRates:
    """Rates of the votes of each source.

    Attributes
    ----------
    n_items : float
    rates : array of shape (m, 2)
        P(λ = -1), P(λ = +1).
    """

    n_items: float
    rates: Array

    @property
    def coverage(self) -> Array:
        """P(source votes), shape (m,)."""
        return np.asarray(self.rates.sum(axis=1))

    @property
    def mean(self) -> Array:
        """E[λ], shape (m,)."""
        return np.asarray(self.rates[:, 1] - self.rates[:, 0])


@dataclass(frozen=True, slots=True)
class SignedMoments(VoteRates):
    """Observable moments of signed votes λ in {-1, 0, +1}.

    No vote counts as 0. The paper draws a random vote instead (its augmentation), which has the same
    expectation for distinct sources and only adds noise.

    Attributes
    ----------
    n_items, rates : as in :class:`VoteRates`
    second : array of shape (m, m)
        E[λᵢ λⱼ]; the diagonal is 0, because no estimator may use it.
    overlap : array of shape (m, m)
        P(both vote), diagonal 0.
    agreement : array of shape (m, m)
        P(both vote and agree), diagonal 0.
    """

    second: Array
    overlap: Array
    agreement: Array

    @classmethod
    def of(cls, moments: Moments) -> SignedMoments:
        n = float(moments.n_items)
        agreement = moments.pair_rates(0, 0) + moments.pair_rates(1, 1)
        conflict = moments.pair_rates(0, 1) + moments.pair_rates(1, 0)
        for table in (agreement, conflict):
            np.fill_diagonal(table, 0.0)
        rates = np.asarray(moments.vote_counts / n, np.float64)
        return cls(n, rates, agreement - conflict, agreement + conflict, agreement)

    @property
    def standard_error(self) -> Array:
        """Standard error of ``second``, shape (m, m)."""
        return np.asarray(np.sqrt(np.maximum(self.overlap - self.second**2, 0) / self.n_items))


@dataclass(frozen=True, slots=True)
class CenteredMoments(VoteRates):
    """Central moments of signed votes λ in {-1, 0, +1}.

    For any sources that are independent given Y, Cov(λᵢ, λⱼ) = bᵢbⱼ with bᵢ = Cov(λᵢ, Y)/√Var(Y):
    sources may err more on one class, vote for one class only, or abstain more on one class.

    Attributes
    ----------
    n_items, rates : as in :class:`~flyingsquid.estimation.sources.VoteRates`
    covariance : array of shape (m, m)
        Cov(λᵢ, λⱼ); the diagonal is 0, because no estimator may use it.
    noise : array of shape (m, m)
        n times the variance of ``covariance``.
    cross : array of shape (2, m, m)
        ``cross[v, i, j]`` = Cov(1{source i votes class v}, λⱼ).
    """

    covariance: Array
    noise: Array
    cross: Array

    @classmethod
    def of(cls, moments: Moments) -> CenteredMoments:
        n = float(moments.n_items)
        rates = np.asarray(moments.vote_counts / n, np.float64)
        coverage, mean = rates.sum(axis=1), rates[:, 1] - rates[:, 0]
        joint = [[moments.pair_rates(a, b) for b in (0, 1)] for a in (0, 1)]
        votes_and_sign = np.stack([joint[a][1] - joint[a][0] for a in (0, 1)])  # E[1{i votes a} λⱼ]
        overlap = joint[0][0] + joint[0][1] + joint[1][0] + joint[1][1]
        second = votes_and_sign[1] - votes_and_sign[0]
        cross = votes_and_sign - rates.T[:, :, None] * mean
        covariance = second - np.outer(mean, mean)
        # E[(λᵢ-μᵢ)²(λⱼ-μⱼ)²], multiplied out; λ² is whether the source votes.
        mixed = mean * votes_and_sign.sum(axis=0)
        square = np.outer(mean**2, coverage)
        fourth = overlap - 2 * (mixed + mixed.T) + square + square.T
        fourth += 4 * np.outer(mean, mean) * second - 3 * np.outer(mean**2, mean**2)
        noise = np.maximum(fourth - covariance**2, 0)
        for table in (covariance, noise, *cross):
            np.fill_diagonal(table, 0.0)
        return cls(n, rates, covariance, noise, cross)

    @property
    def variance(self) -> Array:
        """Var(λ), shape (m,)."""
        return np.asarray(np.maximum(self.coverage - self.mean**2, 0))


@dataclass(frozen=True, slots=True, eq=False)
class SourceFindings:
    """Findings of a closed form for two classes about its sources, besides their tables.

    Attributes
    ----------
    silent, one_sided, unidentified, clipped : masks of shape (m,)
        Sources that always abstain, that vote for one class only, that could not be estimated and got the
        average accuracy, and whose vote rates do not fit the class balance.
    copies : integer array of shape (m,)
        Sources with equal numbers vote alike, or opposite, on every item.
    slopes : array of shape (m,)
        βᵢ of E[λᵢ | Y] = αᵢ + βᵢY.
    is_symmetric : bool
        Whether errors were assumed to be equally frequent on both classes.
    """

    silent: NDArray[np.bool_]
    one_sided: NDArray[np.bool_]
    unidentified: NDArray[np.bool_]
    clipped: NDArray[np.bool_]
    copies: NDArray[np.intp]
    slopes: Array
    is_symmetric: bool


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Properties of sources that follow from counts.

    Attributes
    ----------
    silent : mask of shape (m,)
        Never votes.
    one_sided : mask of shape (m,)
        Votes, but for one class only.
    copies : integer array of shape (m,)
        Sources with equal numbers vote alike on every item, or opposite on every item; each source that
        always abstains has its own number.
    """

    silent: Mask
    one_sided: Mask
    copies: NDArray[np.intp]

    @property
    def identical(self) -> tuple[tuple[int, ...], ...]:
        """Groups of two or more sources whose columns are identical, or each other's negation."""
        sizes = np.bincount(self.copies)
        members = [np.flatnonzero(self.copies == g) for g in np.flatnonzero(sizes > 1)]
        return tuple(tuple(int(i) for i in group) for group in members)


def flag_sources(signed: SignedMoments) -> SourceFlags:
    """Find silent, one-sided and identical sources."""
    coverage = signed.coverage
    silent = coverage == 0
    one_sided = (signed.rates == 0).any(axis=1) & ~silent
    # Identical sources vote on the same items and agree on all of them, or on none. The tolerance is for
    # float counts; it is far below one vote.
    least = coverage[:, None] * (1 - 1e-12)
    always = (signed.agreement >= least) | (signed.overlap - signed.agreement >= least)
    same = always & always.T & ~silent[:, None]
    if same.any():
        _, copies = connected_components(same, directed=False)
    else:
        copies = np.arange(len(coverage))
    return SourceFlags(silent, one_sided, np.asarray(copies, np.intp))


def comparable_pairs(signed: SignedMoments, flags: SourceFlags) -> Mask:
    """Return pairs of sources whose agreement is informative about their accuracies, shape (m, m).

    Left out: a source with itself; pairs that never vote together; identical columns, which always agree
    regardless of their accuracy; pairs of one-sided sources, as long as three two-sided ones remain, because
    E[λᵢλⱼ] = aᵢaⱼ requires that one of the two has symmetric errors.
    """
    comparable: Mask = (signed.overlap > 0) & (flags.copies[:, None] != flags.copies[None, :])
    if flags.one_sided.any() and (~flags.silent & ~flags.one_sided).sum() >= 3:
        comparable &= ~np.outer(flags.one_sided, flags.one_sided)
    return comparable


# A pair is compared if it shares this many items, with this many votes outside its most frequent class.
_SHARED, _UNUSUAL = 30.0, 10.0
# Share of the agreement beyond the truth from which two sources are copies.
_UNEXPLAINED = 0.9
# One-sided sources always agree if both vote. They are copies if they vote on the same items.
_SAME_ITEMS, _ALWAYS = 0.95, 0.95
# Copies are not searched among more sources than this, because all pairs would not fit into memory.
MOST_SOURCES = 2_000
# Upper bound of the agreement of a source with the truth beyond chance.
_BEST = 0.97


def near_copies(moments: Moments, pairs: PairAgreement | None = None) -> NDArray[np.intp]:
    """Return the number of each source's group, shape (m,); sources of one group are near-copies.

    For more than 2,000 sources, each is a group of its own. ``pairs`` is ``moments.compare_pairs()``, if it
    has been computed already.

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
    pairs = moments.compare_pairs() if pairs is None else pairs
    cast = np.asarray(moments.vote_counts, np.float64)
    alike = _kappa_unexplained(pairs) >= _UNEXPLAINED
    alike |= _same_items(pairs.overlap, cast, moments.n_items)
    np.fill_diagonal(alike, False)
    if not alike.any():
        return np.arange(moments.n_sources)
    return np.asarray(connected_components(alike, directed=False)[1], np.intp)


def _kappa_unexplained(pairs: PairAgreement) -> Array:
    """Return the share of possible agreement beyond the truth that two sources reach, (m, m); 0 if unknown.

    Kappa, the agreement beyond chance, of independent sources is κᵢⱼ = cᵢcⱼ; c is the median over the others,
    which resists a few copies.
    """
    overlap, agreement, by_chance, unusual, _ = pairs
    compared = (overlap >= _SHARED) & (np.minimum(unusual, unusual.T) >= _UNUSUAL) & (by_chance < 1)
    np.fill_diagonal(compared, False)
    if not compared.any():
        return np.zeros_like(overlap)
    beyond = np.divide(agreement, overlap, out=np.zeros_like(overlap), where=compared) - by_chance
    kappa = np.divide(beyond, 1 - by_chance, out=np.full_like(overlap, np.inf), where=compared)
    middle, overall = row_quantiles(kappa, 0.5), float(np.median(kappa[compared]))
    strength = np.clip(middle / np.sqrt(max(overall, 0.01)), 0.0, _BEST)
    explained = np.outer(strength, strength)
    return np.where(compared, (np.where(compared, kappa, 0.0) - explained) / (1 - explained), 0.0)


def row_quantiles(values: Array, quantile: float) -> Array:
    """Return the quantile of the finite values of each row, 0 without any; ``np.nanquantile`` is slower."""
    ordered = np.sort(values, axis=1)
    last = np.isfinite(ordered).sum(axis=1) - 1
    at = quantile * np.maximum(last, 0)
    low = np.floor(at).astype(np.intp)
    rows = np.arange(len(values))
    below, above = ordered[rows, low], ordered[rows, np.minimum(low + 1, np.maximum(last, 0))]
    below, above = (np.where(last >= 0, each, 0.0) for each in (below, above))
    return np.asarray(below + (at - low) * (above - below))


def _same_items(overlap: Array, cast: Array, n_items: float) -> NDArray[np.bool_]:
    """Return pairs of sources that vote for the same single class on the same items, shape (m, m)."""
    voted, best = cast.sum(axis=1), cast.argmax(axis=1)
    one_sided = (cast.max(axis=1) == voted) & (voted >= _SHARED) & (voted < _ALWAYS * n_items)
    either = voted[:, None] + voted - overlap
    return np.asarray(
        np.outer(one_sided, one_sided)
        & (best[:, None] == best)
        & (overlap >= _SAME_ITEMS * np.maximum(either, 1.0))
    )
