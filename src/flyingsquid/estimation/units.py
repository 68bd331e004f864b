"""Units of dependent sources: P(joint votes | truth) of sources that depend on each other.

For a unit C with joint votes l, P(Y = y, λ_C = l) = (P(λ_C = l) + y hₗ)/2, and only hₗ = E[1{λ_C = l} Y] is
not observed. Any source p that the truth separates from the unit is an *instrument* for it:

- symmetric p on the same task: hₗ = E[1ₗ λₚ]/aₚ (not one-sided ones, which are not symmetric);
- any other p: hₗ = e P(l) + √V Cov(1ₗ, λₚ)/bₚ, with e = E[Y], V = Var(Y), bₚ = Cov(λₚ, Y)/√V.

Both hold for any number of sources, any symmetry inside the unit and any abstentions, and never divide by e.
All instruments are pooled into one score with the same weights for every l, so that the tables of cliques
that share sources agree on them, up to clipping; :func:`reconcile_units` removes the remaining differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.estimation.binary import BinaryFit
from flyingsquid.estimation.triplets import Pairs, product_by_triplets
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.votes.patterns import all_patterns

Array = NDArray[np.float64]
Pair: TypeAlias = tuple[int, int]
LARGEST_SYSTEM = 3
"""Largest number of sources in a unit."""
# Largest standard error of E[λᵢλⱼλₖY].
_MOST_NOISE = 0.1
# Roles of a source in an entry of r.
_ABSENT, _IN_Z, _IN_U = range(3)


def system_matrix(s: int) -> Array:
    """Return A_s, shape (2·3^s, 2·3^s).

    Rows are entries of r: the last source slowest in the order absent, in Z, in U; Y fastest, absent then in
    Z. Columns are cells of μ: the last source slowest in the order 1, 0, -1; Y fastest, 1 then -1.

    >>> system_matrix(0).tolist(), system_matrix(2).shape
    ([[1.0, 1.0], [1.0, 0.0]], (18, 18))
    """
    same, other = np.array([[1.0, 1], [1, 0]]), np.array([[0.0, 0], [0, 1]])
    plain = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 0]])
    flipped = np.array([[0.0, 0, 0], [0, 0, 1], [0, 0, 0]])
    for _ in range(s):
        same, other = (
            np.kron(plain, same) + np.kron(flipped, other),
            np.kron(flipped, same) + np.kron(plain, other),
        )
    return same


def latent_of_system(
    states: Array,
    instrument: Array,
    accuracies: Array,
    expected: float,
    products: Mapping[Pair, float],
    n_items: float,
) -> Array:
    """Return E[1{λ_C = l} Y] by the linear system, shape (3^s,).

    Parameters
    ----------
    states : array of shape (3^s,)
        P(λ_C = l), in the order of ``all_patterns(s, 2)``.
    instrument : array of shape (3^s,)
        E[1{λ_C = l} z], where E[z | Y] = Y for a score z of separated sources.
    accuracies : array of shape (s,)
        E[λᵢY].
    expected : float
        E[Y].
    products : mapping from pairs (i, j), i < j, to E[λᵢλⱼY]
    """
    s = len(accuracies)
    votes = 2.0 * all_patterns(s, 2) - 1
    votes[votes < -1] = 0.0

    def moment_with_truth(role: NDArray[np.intp], silent: NDArray[np.bool_], product: Array) -> float:
        """Return E[Y ∏_Z λ 1{λ_U = 0}]."""
        in_product, given = np.flatnonzero(role == _IN_Z), bool((role == _IN_U).any())
        observed = float((states * product)[silent].sum())
        if len(in_product) == 2 and not given:
            return products[int(in_product[0]), int(in_product[1])]
        if len(in_product) % 2 == 0:  # no source, or two: independent of Y
            return expected * observed
        if len(in_product) == 1 and not given:
            return float(accuracies[in_product[0]])
        if len(in_product) == 1:
            return float((instrument * product)[silent].sum())
        noise = np.sqrt(float((states * product**2)[silent].sum()) / n_items)
        if noise > _MOST_NOISE * abs(expected):
            raise NotIdentifiableError(
                f"`cliques` must be 'instrument' for three dependent sources if E[Y] is close to 0; it is "
                f"{expected:.3g} for {format_count(n_items, 'item')}."
            )
        return observed / expected

    entries = []
    for slow_first in itertools.product(range(3), repeat=s):  # the slowest of a tuple is the last source
        role = np.array(slow_first[::-1], np.intp)
        silent = (votes[:, role == _IN_U] == 0).all(axis=1)
        product = votes[:, role == _IN_Z].prod(axis=1)
        # Without Y and with nothing in Z, the empty product is 1: P(λ_U = 0), as it should be.
        entries.append(float(states[silent & (product == 1)].sum()))
        varying = float(states[silent & (product != 0)].sum())
        entries.append((varying + moment_with_truth(role, silent, product)) / 2)
    cells = np.linalg.solve(system_matrix(s), np.array(entries)).reshape([3] * s + [2])
    latent = cells[..., 0] - cells[..., 1]
    # From last source slowest, values 1, 0, -1 to the order of patterns: no vote, class 0, class 1.
    for axis in range(s):
        latent = np.take(latent, [1, 2, 0], axis=axis)
    return np.asarray(latent.ravel())


# Cells with fewer items than this are shrunk toward the estimates for single sources.
_ENOUGH_ITEMS = 30.0
# Lower bound of the residual variance of an instrument, as a share of its variance.
_RESIDUAL_FLOOR = 0.05
_STEPS = 80
_ROUNDING = 1e-15
_NEXT_TO_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class UnitTable:
    """Joint votes of dependent sources.

    Attributes
    ----------
    sources : tuple of s int, ascending
    separator : tuple of int
        Sources that are also in an earlier unit.
    table : array of shape (K, (K + 1)^s)
        P(λ_C = l | Y = k); states in the order of ``all_patterns(s, K)``.
    """

    sources: tuple[int, ...]
    separator: tuple[int, ...]
    table: Array

    @property
    def conditional(self) -> Array:
        """P(λ_C = l | λ_S, Y = k) for the separator S, shape (K, (K + 1)^s): one factor of the posterior.

        Divided by the unit's own marginal of S, so that the product over units is a distribution.
        """
        shared, at = self.margin(self.separator), self.states_of(self.separator)
        return np.divide(self.table, shared[:, at], out=np.ones_like(self.table), where=shared[:, at] > 0)

    def margin(self, sources: tuple[int, ...]) -> Array:
        """Return P(votes of some of the sources | Y = k), shape (K, (K + 1)^t)."""
        at, size = self.states_of(sources), (len(self.table) + 1) ** len(sources)
        return np.stack([np.bincount(at, row, minlength=size) for row in self.table])

    def states_of(self, sources: tuple[int, ...]) -> NDArray[np.intp]:
        """Return the joint state of some of the sources in each state of the unit, shape ((K + 1)^s,)."""
        n_classes = len(self.table)
        return state_numbers(all_patterns(len(self.sources), n_classes), self.sources, sources, n_classes)


def state_numbers(
    codes: NDArray[Any], columns: tuple[int, ...], chosen: tuple[int, ...], n_classes: int = 2
) -> NDArray[np.intp]:
    """Return the joint state of ``chosen`` sources in each row of ``codes`` with these ``columns``; (n,)."""
    at = [columns.index(source) for source in chosen]
    digits = np.maximum(codes[:, at], -1).astype(np.intp) + 1
    return np.asarray(digits @ (n_classes + 1) ** np.arange(len(chosen)), np.intp)


def reconcile_units(units: Sequence[UnitTable]) -> tuple[UnitTable, ...]:
    """Return the units with tables that agree on the sources they share: each follows the one before it.

    Shrinkage and clipping are applied to each unit separately. The factor that a unit contributes to the
    posterior does not change.
    """
    found: list[UnitTable] = []
    for unit in units:
        if not unit.separator:
            found.append(unit)
            continue
        parent = next(other for other in found if set(unit.separator) <= set(other.sources))
        at = unit.states_of(unit.separator)
        found.append(replace(unit, table=unit.conditional * parent.margin(unit.separator)[:, at]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Observed rates of one unit.

    Attributes
    ----------
    n_items : float
    states : array of shape (3^s,)
        P(λ_C = l).
    signed : array of shape (3^s, b)
        E[1{λ_C = l} λₚ] for the b sources around the task.
    coverage : array of shape (b,)
        P(source p votes).
    """

    n_items: float
    states: Array
    signed: Array
    coverage: Array

    @classmethod
    def of(cls, counts: NDArray[Any], n_items: float, columns: NDArray[np.intp]) -> UnitCounts:
        """Build from counts of a unit of two classes, for the sources in ``columns`` of its block."""
        votes = counts[:, 1:].reshape(len(counts), 2, -1)[:, :, columns] / n_items
        return cls(
            float(n_items),
            np.asarray(counts[:, 0] / n_items, np.float64),
            np.asarray(votes[:, 1] - votes[:, 0], np.float64),
            np.asarray(votes.sum(axis=(0, 1)), np.float64),
        )

    @property
    def mean(self) -> Array:
        """E[λₚ], shape (b,)."""
        return np.asarray(self.signed.sum(axis=0))


def unit_table(
    sources: tuple[int, ...],
    separator: tuple[int, ...],
    counts: UnitCounts,
    at: NDArray[np.intp],
    fit: BinaryFit,
    pairs: Pairs | None,
) -> UnitTable:
    """Estimate the table of one unit.

    Parameters
    ----------
    counts : UnitCounts
        Counts of the unit with the sources of ``fit`` around it.
    at : integer array of shape (s,)
        Positions of the unit's sources in ``fit``.
    fit : BinaryFit of the task
    pairs : Pairs or None
        Pairs for triplets in the paper's linear system; None for instruments.
    """
    alone = _one_by_one(at, fit)
    if pairs is not None:
        latent = _by_linear_system(counts, at, fit, pairs)
    else:
        latent = _by_instruments(counts, int(fit.separation.groups[at[0]]), fit)
        # Cells with few items are shrunk toward the estimates for single sources.
        weight = np.minimum(counts.n_items * counts.states / _ENOUGH_ITEMS, 1.0)
        latent = weight * latent + (1 - weight) * alone * counts.states
    abstention_counts = fit.conditional is not None
    table = _table(latent, counts, fit.balance, alone, abstention_counts=abstention_counts)
    return UnitTable(sources, separator, table)


def _expected(fit: BinaryFit) -> float:
    return float(fit.balance[1] - fit.balance[0])


def _by_instruments(counts: UnitCounts, group: int, fit: BinaryFit) -> Array:
    """Estimate E[1{λ_C = l} Y], shape (3^s,), from sources outside the unit."""
    usable = _instruments(fit, group)
    if not usable.any():
        return _by_symmetry(counts.states, _expected(fit))
    if fit.conditional is None and not (usable & (~fit.separation.own | fit.flags.one_sided)).any():
        score, scale = _raw_instrument(counts, group, fit)
        return np.asarray(counts.signed @ score / scale)
    e, mean = _expected(fit), counts.mean
    spread = np.sqrt(1 - e**2)
    strength = (fit.mean_parameters - mean * e) / spread
    if fit.conditional is not None:
        strength = fit.conditional.strength
    score, scale = _pooled(strength, counts.coverage - mean**2, usable)
    covariance = counts.signed - np.outer(counts.states, mean)
    return np.asarray(e * counts.states + spread * (covariance @ score) / scale)


def _instruments(fit: BinaryFit, group: int) -> NDArray[np.bool_]:
    """Return the sources that the truth separates from a group, of the best available kind, shape (b,)."""
    usable = (fit.separation.groups != group) & ~fit.flags.silent
    two_sided = ~fit.flags.one_sided | (fit.conditional is not None)
    for better in (two_sided, ~fit.unidentified, fit.separation.own):
        if (usable & better).any():
            usable &= better
    return np.asarray(usable)


def _raw_instrument(counts: UnitCounts, group: int, fit: BinaryFit) -> tuple[Array, float]:
    """Return weights of symmetric sources on the task, and the factor that they multiply hₗ by."""
    usable = _instruments(fit, group) & fit.separation.own
    return _pooled(fit.mean_parameters, counts.coverage, usable)


def _pooled(strength: Array, variance: Array, usable: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return weights by the share of each source that the truth explains, as in a linear discriminant."""
    residual = np.maximum(variance - strength**2, _RESIDUAL_FLOOR * variance)
    score = np.divide(strength, residual, out=np.zeros_like(strength), where=usable & (residual > 0))
    scale = float(score @ strength)
    if not scale > 0:
        raise NotIdentifiableError(
            "A group of dependent sources needs a source outside of it that is better than random. Add a "
            "source, or remove one of the edges."
        )
    return score, scale


def _by_linear_system(counts: UnitCounts, at: NDArray[np.intp], fit: BinaryFit, pairs: Pairs) -> Array:
    group = int(fit.separation.groups[at[0]])
    usable = _instruments(fit, group) & fit.separation.own
    if not usable.any():
        raise NotIdentifiableError(
            "`cliques` must be 'instrument' if all sources of a task depend on each other, because "
            "'linear' does not use sources of neighboring tasks."
        )
    score, scale = _raw_instrument(counts, group, fit)
    votes = 2.0 * all_patterns(len(at), 2) - 1
    votes[votes < -1] = 0.0
    products = {}
    for i, j in itertools.combinations(range(len(at)), 2):
        product = votes[:, i] * votes[:, j]
        moments = np.where(usable, product @ counts.signed, 0.0)  # E[λᵢλⱼλₚ]
        size = product_by_triplets(moments, usable, pairs)
        if np.isnan(size):  # fewer than two groups outside
            products[i, j] = _expected(fit) * float(product @ counts.states)
        else:
            products[i, j] = float(np.sign(moments @ score)) * size
    return latent_of_system(
        counts.states,
        counts.signed @ score / scale,
        fit.mean_parameters[at],
        _expected(fit),
        products,
        counts.n_items,
    )


def _by_symmetry(states: Array, e: float) -> Array:
    """Estimate without an instrument: λ_C Y is independent of Y, so P(l) and P(-l) suffice unless e = 0."""
    if e == 0:
        raise NotIdentifiableError(
            "If all sources depend on each other, the class balance must not be uniform. Add a source "
            "that is independent of them given the truth, or remove edges."
        )
    s = round(np.log(len(states)) / np.log(3))
    patterns = all_patterns(s, 2).astype(np.intp)
    opposite = np.where(patterns < 0, -1, 1 - patterns) + 1
    mirrored = states[opposite @ 3 ** np.arange(s)]
    p = (1 + e) / 2
    right = (p * states - (1 - p) * mirrored) / e  # P(λ_C Y = l)
    return np.asarray(2 * p * right - states)


def _one_by_one(at: NDArray[np.intp], fit: BinaryFit) -> Array:
    """Return E[Y | λ_C = l] if the sources were independent, shape (3^s,)."""
    patterns = all_patterns(len(at), 2)
    log_odds = np.log(fit.balance[1] / fit.balance[0]) + np.zeros(len(patterns))
    for column, source in enumerate(at):
        log_odds += fit.weights[source][patterns[:, column]]  # no vote, -1, reads the last weight
    return np.asarray(np.tanh(log_odds / 2))


def _table(
    latent: Array, counts: UnitCounts, balance: Array, alone: Array, *, abstention_counts: bool
) -> Array:
    """Return P(λ_C = l | Y = k), shape (2, 3^s), with the observed P(λ_C = l) and the class balance kept.

    States that never occurred get a very small probability, with the odds of single sources.
    """
    e, states = float(balance[1] - balance[0]), counts.states
    # No cell is below half a vote, because smaller rates cannot be observed; "no information" stays possible.
    bound = np.maximum(states - 1 / counts.n_items, np.abs(e) * states)
    low, high = -bound, bound.copy()
    if not abstention_counts:  # in a symmetric unit, abstention of all sources carries no information
        low[0] = high[0] = e * states[0]
    cells = restore_total(latent, states, low, high, e)
    joint = np.stack([states - cells, states + cells]) / 2
    unseen = np.where(states > 0, 0.0, _NEXT_TO_NOTHING / counts.n_items)
    joint += np.stack([unseen * (1 - alone), unseen * (1 + alone)]) / 2
    return np.clip(joint / balance[:, None], 0, 1)


def restore_total(latent: Array, states: Array, low: Array, high: Array, total: float) -> Array:
    """Clip so that the cells still sum to ``total``, by the same shift of E[Y | λ_C = l] for all l.

    Clipping alone would change the class balance; rescaling would change the observed rates. The sum
    increases with the shift and is linear between clips, so Newton's method is used, with bisection outside
    the bracket.
    """
    least, most, shift = -2.0, 2.0, 0.0
    for _ in range(_STEPS):
        cells = latent + shift * states
        inside = (cells > low) & (cells < high)
        excess = float(np.minimum(np.maximum(cells, low), high).sum()) - total
        if abs(excess) < _ROUNDING:
            break
        least, most = (least, shift) if excess > 0 else (shift, most)
        slope = float(states[inside].sum())
        step = shift - excess / slope if slope > 0 else np.inf
        shift = step if least < step < most else (least + most) / 2
    return np.asarray(np.clip(latent + shift * states, low, high))
