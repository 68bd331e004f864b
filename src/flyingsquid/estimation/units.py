"""Units of dependent sources: P(joint votes | truth), and items drawn from the parameters of a graph.

Sources that the truth separates from a unit C are *instruments* for it: their votes and the joint votes l of
the unit covary only through the truth, Cov(1{λ_C = l}, 1{p votes v}) = Σ Cov(1{λ_C = l}, contrast c) Cov(1{p
votes v}, contrast c) over K - 1 uncorrelated contrasts of the truth. This is linear in P(λ_C = l, Y = k), for
any number of classes, any symmetry inside the unit and any abstentions, and never divides by E[Y]. All
instruments have the same weights for every l, so that the tables of cliques that share sources agree on them,
up to clipping; :func:`reconcile_units` removes the remaining differences. For two classes there are two more
estimates of hₗ = E[1{λ_C = l} Y], where P(Y = y, λ_C = l) = (P(λ_C = l) + y hₗ)/2: the paper's linear system,
and the symmetry of errors if no source is outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy  # imports scipy.linalg on first use, which takes long
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.estimation.binary import BinaryFit, BinaryTasks
from flyingsquid.estimation.proportional import fit_margins
from flyingsquid.estimation.triplets import Pairs, product_by_triplets
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.graph import DependencyGraph, JunctionTree
from flyingsquid.inference.weighted import to_probabilities
from flyingsquid.votes.codes import smallest_dtype
from flyingsquid.votes.patterns import all_patterns

Array = NDArray[np.float64]
Pair: TypeAlias = tuple[int, int]
# Lower bound of the variance given the truth, as a share of the variance.
_RESIDUAL_FLOOR = 0.05
# Cells with fewer items than this are shrunk toward the estimates for single sources.
_ENOUGH_ITEMS = 30.0
_TINY_PROBABILITY = 1e-6


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
    codes: NDArray[Any], columns: tuple[int, ...], chosen: tuple[int, ...], n_classes: int
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


def with_units(tables: Array, units: tuple[UnitTable, ...]) -> Array:
    """Replace the tables of dependent sources, among tables (m, K, K + 1), by those of their units."""
    tables = tables.copy()
    for unit in units:
        for source in unit.sources:
            # No vote comes first among the states of a unit, and last here.
            tables[source] = np.roll(unit.margin((source,)), -1, axis=1)
    return tables


@dataclass(frozen=True, slots=True)
class Instruments:
    """Sources around a task, as instruments for its truth.

    Attributes
    ----------
    tables : array of shape (s, K, K), axes source, truth, vote
        P(vote = v | Y = k).
    basis : array of shape (K, K - 1)
        Cov(1{Y = k}, contrast c) for uncorrelated contrasts of variance 1; its columns sum to 0.
    noise : array of shape (s, K)
        Variance of 1{source votes v} given the truth.
    scale : array of shape (s, K)
        Reciprocal of the standard deviation of a vote; 0 for votes that never occur.
    design : array of shape (s, K, K - 1)
        Cov(1{source votes v}, contrast c) times ``scale``.
    """

    tables: Array
    basis: Array
    noise: Array
    scale: Array
    design: Array

    @classmethod
    def of(cls, tables: Array, balance: Array) -> Instruments:
        """Build from P(vote = v | Y = k) of shape (s, K, K + 1), no vote last, and P(Y = k) of shape (K,)."""
        votes = tables[:, :, :-1]
        rate = np.einsum("k,skv->sv", balance, votes)
        noise = np.einsum("k,skv->sv", balance, votes * (1 - votes))
        spread = np.maximum(noise, _RESIDUAL_FLOOR * rate * (1 - rate))
        scale = np.divide(1.0, np.sqrt(spread), out=np.zeros_like(spread), where=spread > 0)
        basis = contrasts(balance)
        design = np.einsum("skv,kc,sv->svc", votes, basis, scale)
        return cls(votes, basis, noise, scale, design)


def contrasts(balance: Array) -> Array:
    """Return Cov(1{Y = k}, contrast c) for K - 1 uncorrelated contrasts of variance 1, shape (K, K - 1).

    With B this matrix, Cov(1{Y = k}, 1{Y = l}) = B Bᵀ.

    >>> B = contrasts(np.array([0.2, 0.3, 0.5]))
    >>> (B @ B.T).round(2)
    array([[ 0.16, -0.06, -0.1 ],
           [-0.06,  0.21, -0.15],
           [-0.1 , -0.15,  0.25]])
    """
    across = scipy.linalg.helmert(len(balance)).T
    variance = np.diag(balance) - np.outer(balance, balance)
    return np.asarray(across @ np.linalg.cholesky(across.T @ variance @ across))


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Observed rates of one unit.

    Attributes
    ----------
    n_items : float
    states : array of shape ((K + 1)^s,)
        P(λ_C = l).
    votes : array of shape ((K + 1)^s, K, b)
        P(λ_C = l, source p votes v) for b sources around the task.
    """

    n_items: float
    states: Array
    votes: Array

    @classmethod
    def of(
        cls, counts: NDArray[Any], n_items: float, columns: NDArray[np.intp], n_classes: int
    ) -> UnitCounts:
        """Build from ``UnitVotes.counts``, for the sources in ``columns`` of its block."""
        votes = counts[:, 1:].reshape(len(counts), n_classes, -1)[:, :, columns]
        return cls(float(n_items), np.asarray(counts[:, 0] / n_items), np.asarray(votes / n_items))


def by_instruments(counts: UnitCounts, balance: Array, instruments: Instruments) -> Array:
    """Estimate P(λ_C = l, Y = k), shape ((K + 1)^s, K); the sources of ``counts`` are the instruments."""
    moved = counts.votes - counts.states[:, None, None] * counts.votes.sum(axis=0)
    pull = np.einsum("lvs,sv,svc->lc", moved, instruments.scale, instruments.design, optimize=True)
    system = np.einsum("svc,svd->cd", instruments.design, instruments.design)
    latent = np.linalg.lstsq(system, pull.T, rcond=1e-12)[0]
    return np.asarray(counts.states[:, None] * balance + latent.T @ instruments.basis.T)


def unit_table(
    sources: tuple[int, ...],
    separator: tuple[int, ...],
    joint: Array,
    counts: UnitCounts,
    single: Array,
    balance: Array,
    *,
    abstention_counts: bool,
    shrunk: bool = True,
) -> UnitTable:
    """Return the table of a unit that is close to an estimate, with the observed P(λ_C = l) and the balance.

    Parameters
    ----------
    joint : array of shape ((K + 1)^s, K)
        Estimate of P(λ_C = l, Y = k), which may be negative.
    single : array of shape (s, K, K + 1)
        P(vote = v | Y = k) of the sources one by one. States that never occurred get a very small
        probability, with the odds of these tables.
    balance : array of shape (K,)
    abstention_counts : bool
        Whether the truth may affect which sources of the unit vote.
    shrunk : bool
        Whether cells with few items are shrunk toward the estimates for single sources.
    """
    n_items, states = counts.n_items, counts.states
    alone = _combine_independent(single, balance)
    if shrunk:
        weight = np.minimum(n_items * states / _ENOUGH_ITEMS, 1.0)[:, None]
        joint = weight * joint + (1 - weight) * alone * states[:, None]
    # No cell is below half a vote, because smaller rates cannot be observed; "no information" stays possible.
    floor = np.minimum(0.5 / n_items, states[:, None] * balance)
    joint, found = np.maximum(joint, floor), alone * (_TINY_PROBABILITY / n_items)
    who = np.zeros(len(states), np.intp) if abstention_counts else _voting_sources(len(sources), len(balance))
    for number in np.unique(who[states > 0]):
        part = (states > 0) & (who == number)
        found[part] = fit_margins(joint[part], states[part], balance * states[part].sum())
    return UnitTable(sources, separator, (found / found.sum(axis=0)).T)


def ignore_abstention(unit: UnitTable, balance: Array) -> UnitTable:
    """Return the unit under the assumption that abstaining does not depend on the truth.

    ``balance`` of shape (K,) is P(Y = k).
    """
    voting = _voting_sources(len(unit.sources), len(balance))
    size = 2 ** len(unit.sources)
    given = np.stack([np.bincount(voting, row, minlength=size) for row in unit.table])
    share = np.divide(unit.table, given[:, voting], out=np.zeros_like(unit.table), where=given[:, voting] > 0)
    return replace(unit, table=share * (balance @ given)[voting])


def _voting_sources(n_sources: int, n_classes: int) -> NDArray[np.intp]:
    """Return the set of sources that vote in each state, as a number, shape ((K + 1)^s,)."""
    return np.asarray((all_patterns(n_sources, n_classes) < 0) @ 2 ** np.arange(n_sources), np.intp)


def _combine_independent(single: Array, balance: Array) -> Array:
    """Return P(Y = k | λ_C = l) if the sources were independent, shape ((K + 1)^s, K)."""
    n_classes = len(balance)
    patterns = all_patterns(len(single), n_classes)
    scores = np.tile(np.log(balance), (len(patterns), 1))
    for column, table in enumerate(single):
        # No vote, -1, reads the last column. Impossible votes get a small probability.
        scores += np.log(np.maximum(table, _TINY_PROBABILITY)).T[patterns[:, column]]
    return to_probabilities(scores)


# ---------------------------------------------------------------------- two classes


LARGEST_SYSTEM = 3
"""Largest number of sources in a unit."""
# Largest standard error of E[λᵢλⱼλₖY].
_MOST_NOISE = 0.1
# Roles of a source in an entry of r.
_ABSENT, _IN_Z, _IN_U = range(3)
# Indicators of no vote, class 0 and class 1 (rows) from 1, λ and 1{λ = 0} (columns).
_BY_ROLE = np.array([[0, 0, 1], [0.5, -0.5, -0.5], [0.5, 0.5, -0.5]])


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

    moments = []
    for roles in itertools.product(range(3), repeat=s):
        role = np.array(roles)
        silent = (votes[:, role == _IN_U] == 0).all(axis=1)
        moments.append(moment_with_truth(role, silent, votes[:, role == _IN_Z].prod(axis=1)))
    return latent_of_moments(np.array(moments).reshape((3,) * s))


def latent_of_moments(moments: Array) -> Array:
    """Return E[1{λ_C = l} Y], shape (3^s,), from E[Y ∏_Z λ 1{λ_U = 0}] for all Z and U, shape (3,) * s.

    This is the solution of the paper's A_s μ = r. Each axis is a source: absent, in Z, or in U.
    """
    for axis in range(moments.ndim):
        moments = np.moveaxis(np.tensordot(_BY_ROLE, moments, (1, axis)), 0, axis)
    return np.asarray(moments.ravel(order="F"))  # the last source is the slowest, as in patterns


def by_outside_sources(counts: UnitCounts, group: int, fit: BinaryFit) -> Array:
    """Estimate P(λ_C = l, Y = k), shape (3^s, 2), from the sources of ``fit`` separated from a group.

    Without any, by symmetry: λ_C Y is independent of Y, so P(l) and P(-l) suffice unless E[Y] = 0.
    """
    usable = _separated_sources(fit, group)
    if not usable.any():
        return _joint(counts.states, _by_symmetry(counts.states, _expected(fit)))
    instruments = Instruments.of(fit.tables[usable], fit.balance)
    if not instruments.design.any():
        raise _needs_instrument()
    return by_instruments(replace(counts, votes=counts.votes[:, :, usable]), fit.balance, instruments)


def _joint(states: Array, latent: Array) -> Array:
    """Return P(λ_C = l, Y = k), shape (3^s, 2), from hₗ."""
    return np.column_stack([states - latent, states + latent]) / 2


def _expected(fit: BinaryFit) -> float:
    return float(fit.balance[1] - fit.balance[0])


def _separated_sources(fit: BinaryFit, group: int) -> NDArray[np.bool_]:
    """Return the sources that the truth separates from a group, of the best available kind, shape (b,)."""
    usable = (fit.separation.groups != group) & ~fit.flags.silent
    two_sided = ~fit.flags.one_sided | (fit.conditional is not None)
    for better in (two_sided, ~fit.unidentified, fit.separation.own):
        if (usable & better).any():
            usable &= better
    return np.asarray(usable)


def _needs_instrument() -> NotIdentifiableError:
    return NotIdentifiableError(
        "A group of dependent sources needs a source outside of it that is better than random. Add a "
        "source, or remove one of the edges."
    )


def by_linear_system(counts: UnitCounts, at: NDArray[np.intp], fit: BinaryFit, pairs: Pairs) -> Array:
    """Estimate P(λ_C = l, Y = k), shape (3^s, 2), by the paper's linear system.

    ``at`` are the positions of the unit in ``fit``; ``pairs`` are those that triplets may use.
    """
    usable = _separated_sources(fit, int(fit.separation.groups[at[0]])) & fit.separation.own
    if not usable.any():
        raise NotIdentifiableError(
            "`cliques` must be 'instrument' if all sources of a task depend on each other, because "
            "'linear' does not use sources of neighboring tasks."
        )
    # One score of all instruments, weighted by the share that the truth explains, as in a discriminant.
    strength, variance = fit.mean_parameters, counts.votes.sum(axis=(0, 1))
    residual = np.maximum(variance - strength**2, _RESIDUAL_FLOOR * variance)
    score = np.divide(strength, residual, out=np.zeros_like(strength), where=usable & (residual > 0))
    scale = float(score @ strength)
    if not scale > 0:
        raise _needs_instrument()
    signed = counts.votes[:, 1] - counts.votes[:, 0]
    votes = 2.0 * all_patterns(len(at), 2) - 1
    votes[votes < -1] = 0.0
    products = {}
    for i, j in itertools.combinations(range(len(at)), 2):
        product = votes[:, i] * votes[:, j]
        moments = np.where(usable, product @ signed, 0.0)  # E[λᵢλⱼλₚ]
        size = product_by_triplets(moments, usable, pairs)
        if np.isnan(size):  # fewer than two groups outside
            products[i, j] = _expected(fit) * float(product @ counts.states)
        else:
            products[i, j] = float(np.sign(moments @ score)) * size
    latent = latent_of_system(
        counts.states,
        signed @ score / scale,
        fit.mean_parameters[at],
        _expected(fit),
        products,
        counts.n_items,
    )
    return _joint(counts.states, latent)


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


# ---------------------------------------------------------------------- drawing


_DRAWN_ROWS = 20_000
_DRAWN_CELLS = 1 << 22


def draw_votes(tables: Array, balance: Array) -> tuple[Array, NDArray[np.intp]]:
    """Draw signed votes from the tables, shape (rows, m), and their classes, shape (rows,)."""
    # A fixed seed, so that the same fit has the same intervals.
    rng = np.random.default_rng(0)
    n = int(np.clip(_DRAWN_CELLS // len(tables), 2_000, _DRAWN_ROWS))
    y = (rng.random(n) < balance[1]).astype(np.intp)
    first = tables[:, y, 0].T
    # Drawn in the order of the tables themselves, so that the order of the sources does not matter.
    drawn = np.empty(first.shape)
    drawn[:, np.lexsort(tables.reshape(len(tables), -1).T)] = rng.random(first.shape)
    votes = np.where(drawn < first, -1.0, np.where(drawn < first + tables[:, y, 1].T, 1.0, 0.0))
    return votes, y


Codes = NDArray[Any]


def draw_items(
    n_items: int,
    graph: DependencyGraph,
    task_tables: tuple[Array, ...],
    tables: Array,
    units: tuple[UnitTable, ...],
    rng: np.random.Generator,
) -> tuple[Codes, Codes]:
    """Draw votes, shape (n, m), and truths, shape (n, D), from the parameters of a graph.

    Parameters
    ----------
    task_tables : one per clique of ``graph._task_tree``, shape (K,) * c
        P(Y_C).
    tables : array of shape (m, K, K + 1)
        P(vote | Y = k) of each source; not read for those in ``units``.
    """
    truths = draw_truths(n_items, graph._task_tree, task_tables, graph.n_tasks, rng)
    n_classes = tables.shape[1]
    votes = np.empty((n_items, graph.n_sources), smallest_dtype(n_classes))
    for source, task in enumerate(graph.source_task):
        steps = np.cumsum(tables[source], axis=1)[truths[:, task]]
        drawn = (rng.random((n_items, 1)) * steps[:, -1:] > steps).sum(axis=1)
        votes[:, source] = np.where(drawn >= n_classes, -1, drawn)
    for unit in units:
        given = truths[:, graph.source_task[unit.sources[0]]]
        votes[:, list(unit.sources)] = _draw_unit(unit, votes[:, list(unit.separator)], given, rng)
    return votes, truths


def draw_around_task(fit: BinaryTasks, task: int) -> Array | None:
    """Draw signed votes of the sources around a task, shape (rows, columns); None if all are independent.

    Helpers on neighboring tasks are drawn as independent given the truth of this one.
    """
    place = fit.tasks[task]
    units = [unit for unit in fit.units if unit.sources[0] in place.own]
    if not units:
        return None
    signed, y = draw_votes(place.fit.tables, place.fit.balance)
    codes = np.where(signed == 0, -1, signed > 0).astype(np.int8)
    rng = np.random.default_rng(1)  # differs from the seed of the single votes
    for unit in units:
        columns = [place.columns.index(source) for source in unit.sources]
        shared = [place.columns.index(source) for source in unit.separator]
        codes[:, columns] = _draw_unit(unit, codes[:, shared], y.astype(np.int8), rng)
    return np.asarray(np.where(codes < 0, 0.0, 2.0 * codes - 1))


def draw_truths(
    n_items: int, tree: JunctionTree, tables: tuple[Array, ...], n_tasks: int, rng: np.random.Generator
) -> Codes:
    """Draw truths of tasks that depend on each other, shape (n, D)."""
    n_classes = tables[0].shape[0]
    truths = np.zeros((n_items, n_tasks), smallest_dtype(n_classes))
    for clique, separator, table in zip(tree.cliques, tree.separators, tables, strict=True):
        flat = table.ravel()
        states = np.array(np.unravel_index(np.arange(len(flat)), table.shape)).T
        shared = [clique.index(task) for task in separator]
        truths[:, list(clique)] = _draw_states(
            flat[None], states, shared, truths[:, list(separator)], None, rng, n_classes
        )
    return truths


def _draw_unit(unit: UnitTable, shared_votes: Codes, truth: Codes, rng: np.random.Generator) -> Codes:
    """Draw votes of a unit, shape (n, s), given those of its separator."""
    n_classes = len(unit.table)
    states = all_patterns(len(unit.sources), n_classes)
    shared = [unit.sources.index(source) for source in unit.separator]
    return _draw_states(unit.table, states, shared, shared_votes, truth, rng, n_classes)


def _draw_states(
    table: Array,
    states: NDArray[Any],
    shared: list[int],
    fixed: Codes,
    truth: Codes | None,
    rng: np.random.Generator,
    n_classes: int,
) -> Codes:
    """Draw a state for every row, among those that agree with the fixed variables, shape (n, variables)."""
    result = np.empty((len(fixed), states.shape[1]), smallest_dtype(n_classes))
    columns = tuple(shared)
    row_class = np.zeros(len(fixed), np.intp) if truth is None else truth.astype(np.intp)
    key = state_numbers(fixed, columns, columns, n_classes)
    known = state_numbers(states[:, shared], columns, columns, n_classes)
    for number in np.unique(key):
        allowed = np.flatnonzero(known == number)
        for k in range(len(table)):
            rows = np.flatnonzero((key == number) & (row_class == k))
            steps = np.cumsum(table[k, allowed])
            drawn = np.searchsorted(steps, rng.random(len(rows)) * steps[-1], side="right")
            result[rows] = states[allowed[np.minimum(drawn, len(allowed) - 1)]]
    return result
