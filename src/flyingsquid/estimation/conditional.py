"""Class-conditional sources, whose errors or abstentions depend on the class.

Two methods estimate the same parameters γᵢᵥ = Cov(1{i votes v}, Y)/√Var(Y):

- *covariance*: bᵢ from all pairs at once, then each vote of each source by its covariance with the others,
  which serve as instruments. Exact for any confusion table and for abstentions that depend on the truth.
- *quadratic*: triplets of the indicators of one vote, the paper's appendix C.2 with corrections. The two
  roots of its quadratic equation are P(v) ± √((1-p)/p · CᵢⱼCᵢₖ/Cⱼₖ), so none has to be solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.estimation.signs import SignKnowledge, orient, relative_signs, standard_error_of_sum
from flyingsquid.estimation.sources import CenteredMoments, Separation, SourceFlags
from flyingsquid.estimation.triplets import Pairs, all_triplets_mean
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# Maximum number of iterations of alternating least squares, and of Newton's method afterwards.
_SWEEPS = 30
# A simultaneous update overshoots the scale of b, by its whole error. So this share of it reduces that error
# to a third, and those of single sources, which hardly depend on each other, too.
_DAMPING = 2 / 3
_NEWTON_STEPS = 12


def fit_rank_one(covariance: Array, weights: Array, start: Array, tolerance: float = 0.0) -> Array:
    """Minimize Σᵢ<ⱼ Wᵢⱼ(Cᵢⱼ - bᵢbⱼ)² over b, shape (m,).

    Parameters
    ----------
    covariance, weights : symmetric arrays of shape (m, m)
        A weight of 0 leaves a pair out; diagonals are not read.
    start : array of shape (m,)
        Starting point. The signs of the result are those of the start unless the data contradict them.
    tolerance : float, default=0.0
        Largest error, as a share of the largest bᵢ, at which the result is returned without Newton steps.

    Notes
    -----
    Alternating least squares, damped because a simultaneous update overshoots, then
    Newton steps that are kept while they lower the loss. O(m²) per sweep, O(m³) per step.

    Examples
    --------
    >>> b = np.array([0.5, -0.4, 0.3, 0.6])
    >>> fit_rank_one(np.outer(b, b), np.ones((4, 4)) - np.eye(4), np.sign(b)).round(12)
    array([ 0.5, -0.4,  0.3,  0.6])
    """
    pull = weights * covariance
    b = start.astype(np.float64)
    for _ in range(_SWEEPS):
        strength = weights @ b**2
        update = np.divide(pull @ b, strength, out=np.zeros_like(b), where=strength > 0)
        b = b + _DAMPING * (update - b)
        if tolerance and np.abs(update - b).max() <= tolerance * np.abs(b).max():
            return b
    loss = _loss(covariance, weights, b)
    for _ in range(_NEWTON_STEPS):
        try:
            step = np.linalg.solve(curvature(covariance, weights, b), pull @ b - b * (weights @ b**2))
        except np.linalg.LinAlgError:  # the loss is flat in some direction, so there is no better point
            break
        trial = _loss(covariance, weights, b + step)
        if not trial < loss:
            break
        b, loss = b + step, trial
    return b


def curvature(covariance: Array, weights: Array, b: Array) -> Array:
    """Return minus the derivative of the equations Σⱼ Wᵢⱼbⱼ(Cᵢⱼ - bᵢbⱼ) = 0, shape (m, m)."""
    matrix = weights * (2 * np.outer(b, b) - covariance)
    strength = weights @ b**2
    # The ridge keeps a source without any pair from making the system singular.
    np.fill_diagonal(matrix, strength + 1e-12 * max(float(strength.max()), 1e-300))
    return matrix


def _loss(covariance: Array, weights: Array, b: Array) -> float:
    return float(np.sum(weights * (covariance - np.outer(b, b)) ** 2))


CONDITIONAL = ("covariance", "quadratic")
# Lower bound of the noise of a pair, as a share of its variances: without it, pairs that always agree in a
# small sample would take all the weight.
_NOISE_FLOOR = 1e-3
# Starting point of the fit: the correlation of every source with the truth.
_START = 0.6


@dataclass(frozen=True, slots=True)
class ConditionalFit:
    """Parameters that do not depend on the class balance.

    Attributes
    ----------
    strength : array of shape (m,)
        bᵢ = Cov(λᵢ, Y)/√Var(Y), with sign.
    cells : array of shape (m, 2)
        γᵢᵥ = Cov(1{i votes v}, Y)/√Var(Y).
    signs : array of shape (m,)
        +1 or -1 for each source, even if the strength is 0.
    centered : CenteredMoments
    weights : array of shape (m, m)
        Precision of each pair; 0 for pairs that were left out.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
        For the quadratic method.
    groups : integer array of shape (m,)
        Sources with equal numbers may depend on each other given the truth.
    """

    strength: Array
    cells: Array
    signs: Array
    centered: CenteredMoments
    weights: Array
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]
    groups: NDArray[np.intp]

    def latent(self, expected: float) -> Array:
        """Return E[1{i votes v} Y] for E[Y] = ``expected``, shape (m, 3); no vote last."""
        rates = self.centered.rates
        scale = np.sqrt(1 - expected**2)
        votes = expected * rates + scale * self.cells
        return np.column_stack([votes, expected - votes.sum(axis=1)])


def fit_conditional(
    moments: Moments, flags: SourceFlags, *, method: str, screen: float, separation: Separation
) -> ConditionalFit:
    """Estimate γ by ``method`` ``"covariance"`` or ``"quadratic"``, up to one common sign.

    The votes fit a solution and its mirror image equally well; :func:`orient_conditional` chooses.
    """
    centered = CenteredMoments.of(moments)
    comparable = _comparable(centered, flags) & separation.separated
    _require_three_groups(separation, centered.variance > 0)
    if (comparable.sum(axis=1) >= 2).sum() < 3:
        raise NotIdentifiableError(
            "At least three different sources must vote for more than one class. Add sources, or use "
            "MajorityVote."
        )
    product = np.outer(centered.variance, centered.variance)
    noise = np.maximum(centered.noise, _NOISE_FLOOR * product)
    weights = np.divide(1.0, noise, out=np.zeros_like(noise), where=comparable)
    signs, group = relative_signs(centered.covariance, product, centered.n_items, comparable)
    if np.bincount(group).max() < 3:
        raise NotIdentifiableError(
            "No three sources are correlated beyond chance on "
            f"{format_count(centered.n_items, 'item')}. Add items or sources, or use MajorityVote."
        )
    spread = np.sqrt(centered.variance)
    used = skipped = np.zeros(len(spread), np.int64)
    by_triplets = np.full((len(spread), 2), np.nan)
    if method == "covariance":
        strength = fit_rank_one(centered.covariance, weights, _START * signs * spread)
    else:
        by_triplets, used, skipped = _indicator_triplets(moments, comparable, screen)
        strength = _complete(signs * by_triplets.sum(axis=1), centered.covariance, weights)
    signs = np.where(strength == 0, signs, np.sign(strength))
    # No source can covary with the truth more than with itself.
    strength = signs * np.minimum(np.abs(strength), spread)
    cells = np.stack([_regress(centered.cross[v], weights, strength) for v in (0, 1)], axis=1)
    known = np.isfinite(by_triplets)
    cells[known] = (np.outer(signs, [-1.0, 1.0]) * by_triplets)[known]
    return ConditionalFit(strength, cells, signs, centered, weights, used, skipped, separation.groups)


def orient_conditional(fit: ConditionalFit, known: SignKnowledge) -> ConditionalFit:
    """Choose between a solution and its mirror image."""
    centered, size = fit.centered, np.abs(fit.strength)
    error = partial(
        standard_error_of_sum,
        weights=fit.weights,
        variance=centered.variance,
        n_items=centered.n_items,
        counted=known.own,
    )
    # One fit of all pairs determines all relative signs, so only one sign is left.
    one_group = np.zeros(len(size), np.intp)
    signs = orient(fit.signs, one_group, size, size > 0, error, known)
    turned = np.where(fit.signs == signs, 1.0, -1.0)
    return replace(fit, strength=turned * fit.strength, cells=turned[:, None] * fit.cells, signs=signs)


def _require_three_groups(separation: Separation, varies: NDArray[np.bool_]) -> None:
    groups = separation.n_groups(varies)
    if groups < 3 <= varies.sum():
        raise NotIdentifiableError(
            f"`graph` must leave at least three groups of sources that are independent given the truth; got "
            f"{groups}. Declare fewer source edges, or add sources."
        )


def _comparable(centered: CenteredMoments, flags: SourceFlags) -> NDArray[np.bool_]:
    """Return the pairs whose covariance is informative: both vary, and neither is a copy of the other."""
    varies = centered.variance > 0
    return np.outer(varies, varies) & (flags.copies[:, None] != flags.copies[None, :])


def _regress(covariance: Array, weights: Array, strength: Array) -> Array:
    """Estimate the covariance of a score with Y from its covariances with the other sources, shape (m,).

    ``covariance[i, p]`` is between the score of source i and the vote of source p.
    """
    evidence = weights @ strength**2
    total = (weights * covariance) @ strength
    return np.divide(total, evidence, out=np.zeros_like(total), where=evidence > 0)


def _complete(strength: Array, covariance: Array, weights: Array) -> Array:
    """Estimate the sources without a triplet from their covariance with the others."""
    known = np.isfinite(strength)
    if not known.any():
        raise NotIdentifiableError(
            'No source has a usable triplet. Add items, lower `screen`, or use method="covariance", which '
            "pools all pairs."
        )
    return np.where(known, strength, _regress(covariance, weights, np.where(known, strength, 0.0)))


def _indicator_triplets(
    moments: Moments, comparable: NDArray[np.bool_], screen: float
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Estimate |γᵢᵥ| by the mean over triplets of the indicators of vote v, shape (m, 2); NaN if unknown."""
    n, rates = float(moments.n_items), np.minimum(moments.vote_counts / moments.n_items, 1.0)
    values = np.empty((moments.n_sources, 2))
    used = np.zeros(moments.n_sources, np.int64)
    skipped = used.copy()
    for v in (0, 1):
        q, both = rates[:, v], moments.pair_rates(v, v)
        occurs = (q > 1e-12) & (q < 1 - 1e-12)  # float counts reach 0 and 1 up to rounding
        pairs = _indicator_pairs(q, both, comparable & np.outer(occurs, occurs), n, screen)
        solved = all_triplets_mean(pairs)
        values[:, v] = np.where(occurs, np.minimum(solved.values, np.sqrt(q * (1 - q))), 0.0)
        used, skipped = used + solved.used, skipped + solved.skipped
    return values, used, skipped


def _indicator_pairs(q: Array, both: Array, comparable: NDArray[np.bool_], n: float, screen: float) -> Pairs:
    covariance = both - np.outer(q, q)
    tilt, square = 1 - 2 * q, q**2  # (1 - q)² = tilt + q², so a centered square is tilt·1 + q²
    fourth = np.outer(tilt, tilt) * both + np.outer(tilt * q, square) + np.outer(square, tilt * q)
    noise = np.maximum(fourth + np.outer(square, square) - covariance**2, 0)
    covariance, error = np.where(comparable, covariance, 0.0), np.sqrt(noise / n)
    strong = comparable & (covariance != 0) & (np.abs(covariance) >= screen * error)
    return Pairs(covariance, error, comparable, strong)
