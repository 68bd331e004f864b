"""Sources of two classes: rates and moments, pairs that may be compared, and tables P(vote | truth)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.graph.junction import components
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Rounds of moving what was clipped to other cells, and the largest sum that is rounding.
_ROUNDS, _ROUNDING = 3, 1e-15
# The weight of a vote is at most this many times the odds of its source's accuracy.
_MOST_TIMES_ODDS = 2.0
# A shift below this share of the source's votes is sampling noise.
_LEAST_REPORTED_SHIFT = 0.1


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
        return len(set(self.groups[among].tolist()))


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


def central_moments(joint: Array, first: VoteRates, second: VoteRates) -> tuple[Array, Array]:
    """Return the covariance of signed votes, and n times its variance, shape (m, m) each.

    ``joint`` of shape (2, 2, m, m) are the rates of pairs of votes of one source i and another j.
    """
    overlap, product = joint.sum(axis=(0, 1)), joint[0, 0] + joint[1, 1] - joint[0, 1] - joint[1, 0]
    by_first, by_second = first.mean[:, None], second.mean
    covariance = product - by_first * by_second
    # E[(λᵢ-μᵢ)²(λⱼ-μⱼ)²], multiplied out; λ² is whether the source votes.
    sign_and_vote = joint[1].sum(axis=0) - joint[0].sum(axis=0)  # E[λᵢ λⱼ²]
    vote_and_sign = joint[:, 1].sum(axis=0) - joint[:, 0].sum(axis=0)  # E[λᵢ² λⱼ]
    fourth = overlap - 2 * by_first * sign_and_vote - 2 * vote_and_sign * by_second
    fourth += by_first**2 * second.coverage + first.coverage[:, None] * by_second**2
    fourth += 4 * by_first * by_second * product - 3 * by_first**2 * by_second**2
    return covariance, np.maximum(fourth - covariance**2, 0)


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
    squares : array of shape (m, m)
        Cov(λᵢ², λⱼ), the sum of ``cross`` over the classes.
    """

    covariance: Array
    noise: Array
    cross: Array
    squares: Array

    @classmethod
    def of(cls, moments: Moments) -> CenteredMoments:
        n = float(moments.n_items)
        votes = VoteRates(n, np.asarray(moments.vote_counts / n, np.float64))
        joint = np.array([[moments.pair_rates(a, b) for b in (0, 1)] for a in (0, 1)])
        covariance, noise = central_moments(joint, votes, votes)
        cross = joint[:, 1] - joint[:, 0] - votes.rates.T[:, :, None] * votes.mean
        for table in (covariance, noise, *cross):
            np.fill_diagonal(table, 0.0)
        return cls(n, votes.rates, covariance, noise, cross, cross[0] + cross[1])

    @property
    def variance(self) -> Array:
        """Var(λ), shape (m,)."""
        return np.asarray(np.maximum(self.coverage - self.mean**2, 0))


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Properties of sources, computed from counts.

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
    np.fill_diagonal(same, False)
    return SourceFlags(silent, one_sided, components(np.argwhere(same), len(coverage)))


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


# ---------------------------------------------------------------------- tables from accuracies


def vote_tables(
    accuracies: Array, rates: Array, balance: Array, n_items: float, *, capped: bool = True
) -> tuple[Array, Mask]:
    """Return P(vote = v | Y = k), shape (m, 2, 3); columns class 0, class 1, no vote.

    Parameters
    ----------
    accuracies : array of shape (m,)
        aᵢ = E[λᵢY].
    rates : array of shape (m, 2)
        Observed P(λ = -1), P(λ = +1).
    balance : array of shape (2,)
        P(Y = -1), P(Y = +1).
    capped : bool
        Whether the weight of a vote is limited to twice the odds of the accuracy of its source.

    Returns
    -------
    tables : array of shape (m, 2, 3)
    clipped : mask of shape (m,)
        Sources whose rates and accuracy contradict the balance, so that a cell was clipped.

    Notes
    -----
    The solution of the paper's A₁μ = r (equation 2): P(Y=y, λ=l) = (P(λ=l) + y hₗ)/2 with
    h₊ + h₋ = e c, h₊ - h₋ = a, h₀ = e q₀, where e = E[Y], c the coverage and q₀ = 1 - c. Both
    observed margins, the vote rates and the class balance, are kept.
    """
    e = float(balance[1] - balance[0])
    coverage = rates.sum(axis=1)
    silence = np.maximum(1 - coverage, 0)
    observed = np.column_stack([rates, silence])
    latent = np.column_stack([(e * coverage - accuracies) / 2, (e * coverage + accuracies) / 2, e * silence])
    low, high = _bounds(accuracies, observed, balance, n_items, _MOST_TIMES_ODDS if capped else np.inf)
    return _tables(latent, low, high, observed, balance)


def conditional_tables(latent: Array, rates: Array, balance: Array, n_items: float) -> tuple[Array, Mask]:
    """Return the tables of class-conditional sources, from ``latent`` E[1{vote} Y] of shape (m, 3)."""
    observed = np.column_stack([rates, np.maximum(1 - rates.sum(axis=1), 0)])
    uninformative = np.abs(balance[1] - balance[0]) * observed
    bound = np.maximum(observed - 1 / n_items, uninformative)  # half a vote, as in _bounds
    return _tables(latent, -bound, bound, observed, balance)


def _tables(latent: Array, low: Array, high: Array, observed: Array, balance: Array) -> tuple[Array, Mask]:
    cells = clip_and_restore(latent, low, high, float(balance[1] - balance[0]))
    joint = np.stack([observed - cells, observed + cells], axis=1) / 2
    votes = observed[:, :2].sum(axis=1, keepdims=True)
    clipped = (np.abs(cells - latent) > _LEAST_REPORTED_SHIFT * votes).any(axis=1)
    return np.clip(joint / balance[None, :, None], 0, 1), clipped


def _bounds(
    accuracies: Array, observed: Array, balance: Array, n_items: float, most_times_odds: float
) -> tuple[Array, Array]:
    """Return limits of E[1{vote} Y] for each cell, (m, 3) each; they always allow "no information".

    A cell cannot be negative, nor below half a vote, because smaller error rates cannot be observed. The
    likelihood ratio of a vote stays within twice the odds of its source's accuracy: under
    the model both votes have exactly those odds, and a clipped cell would otherwise let one rare vote
    decide every item.
    """
    e, coverage = float(balance[1] - balance[0]), observed[:, :2].sum(axis=1)
    uninformative = e * observed
    half_a_vote = np.maximum(observed - np.array([1, 1, 0]) / n_items, np.abs(uninformative))
    size = np.minimum(np.abs(accuracies), coverage)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(size < coverage, (coverage + size) / (coverage - size), np.inf)
        limits = []
        for ratio in (1 / (most_times_odds * odds), most_times_odds * odds):
            # P(l | Y=1)/P(l | Y=0) = ratio, solved for h with P(l) fixed.
            posterior = 1 / (1 + balance[0] / (balance[1] * ratio))
            limits.append(observed * (2 * posterior - 1)[:, None])
    low, high = limits
    # Abstaining carries no information under the model; restoring the sum may move it within its bounds.
    low[:, 2], high[:, 2] = -observed[:, 2], observed[:, 2]
    return np.maximum(low, -half_a_vote), np.minimum(high, half_a_vote)


def clip_and_restore(latent: Array, low: Array, high: Array, total: float) -> Array:
    """Clip to ``low <= latent <= high`` while the cells of each row still sum to ``total``.

    Clipping alone would change the class balance that a table implies; rescaling would change
    the observed vote rates. The difference is moved to cells that are not at a bound, at most once per cell.
    """
    cells = np.clip(latent, low, high)
    for _ in range(_ROUNDS):
        excess = total - cells.sum(axis=1)
        if np.abs(excess).max(initial=0.0) < _ROUNDING:  # usual, unless something was clipped
            break
        room = np.where(excess[:, None] > 0, cells < high, cells > low)
        free = room.sum(axis=1)
        step = np.divide(excess, free, out=np.zeros_like(excess), where=free > 0)
        cells = np.clip(cells + step[:, None] * room, low, high)
    return np.asarray(cells)


def vote_weights(tables: Array, *, absence_counts: bool) -> Array:
    """Return log P(v | Y=1) - log P(v | Y=0) for both votes and for no vote, shape (m, 3).

    Votes that never occurred have weight 0, and so do missing votes unless ``absence_counts``.
    """
    seen = (tables > 0).all(axis=1)
    ratio = np.divide(tables[:, 1], tables[:, 0], out=np.ones_like(tables[:, 0]), where=seen)
    weights = np.log(ratio)
    if not absence_counts:
        weights[:, 2] = 0.0
    return np.asarray(weights)
