"""Pairs of tasks on a graph, and tables of all sources given labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import PRIOR_VOTES, prior_table
from flyingsquid.estimation.proportional import fit_margins
from flyingsquid.estimation.sources import CenteredMoments
from flyingsquid.estimation.units import Instruments, UnitTable, ignore_abstention, reconcile_units
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes.codes import Codes, dense_codes
from flyingsquid.votes.patterns import all_patterns, packed_chunks

Array = NDArray[np.float64]
# Correlations with a larger standard error are not used: two standard errors reach from -1 to 1.
LARGEST_ERROR = 0.5
# Lower bound of the noise of a pair, as a share of its variances.
_NOISE_FLOOR = 1e-3


@dataclass(frozen=True, slots=True)
class TaskPair:
    """Joint distribution of two neighboring truths.

    Attributes
    ----------
    table : array of shape (K, K)
        P(Y_a, Y_b), every cell above 0; independent if the votes do not determine it.
    excess : array of shape (pairs,), or empty
        For each pair of sources that is one detector on both tasks: the correlation of its errors that the
        truths do not explain.
    covariance, error : float
        Cov(Y_a, Y_b) of two classes as estimated, 0 without evidence, and its standard error given the
        estimated sources, infinite without evidence. NaN for more classes.
    """

    table: Array
    excess: Array
    covariance: float = np.nan
    error: float = np.nan


def pair_of_tasks(
    moments: Moments, strengths: tuple[Array, Array], balance: tuple[Array, Array], *, same_detectors: bool
) -> TaskPair:
    """Pool all pairs of sources across an edge, for two classes.

    Signed votes cancel coverage that persists from task to task; :func:`pair_of_many`, which does not, has 2
    points less accuracy on clips of three frames of tennis (docs/quality/video.md).

    Parameters
    ----------
    moments : counts of the sources of task a, then those of task b
    strengths : two arrays
        βᵢ of the sources of each task; 0 for sources that are not used.
    balance : two arrays of shape (2,)
    same_detectors : bool
        Whether source i of task a and source i of task b are one detector. Its errors persist from one frame
        to the next, so it is not used for the truths if other sources are available; its excess is reported.
    """
    first, second = strengths
    n_first = len(first)
    centered = CenteredMoments.of(moments)
    across = np.ix_(np.arange(n_first), np.arange(n_first, moments.n_sources))
    covariance, noise = centered.covariance[across], centered.noise[across]
    product = np.outer(first, second)
    scale = np.outer(centered.variance[:n_first], centered.variance[n_first:])
    weights = np.divide(
        1.0, np.maximum(noise, _NOISE_FLOOR * scale), out=np.zeros_like(noise), where=scale > 0
    )
    if same_detectors and (weights * ~np.eye(len(weights), dtype=bool) * product**2).any():
        np.fill_diagonal(weights, 0.0)
    evidence = float(np.sum(weights * product**2))
    spread = [float(4 * table.prod()) for table in balance]  # Var(Y)
    left = np.maximum(centered.variance[:n_first] - first**2 * spread[0], 0)
    right = np.maximum(centered.variance[n_first:] - second**2 * spread[1], 0)
    estimate, error, known = 0.0, np.inf, 0.0
    if evidence > 0:
        pull = weights * product / evidence
        estimate = float(np.sum(pull * covariance))
        moved = _variance_of_product(estimate, balance)
        moved += spread[0] * float((first @ pull) ** 2 @ right) + spread[1] * float(
            (pull @ second) ** 2 @ left
        )
        error = float(np.sqrt((moved + left @ pull**2 @ right) / moments.n_items))
        # A correlation with a larger error is undetermined.
        known = estimate if error <= LARGEST_ERROR * np.sqrt(spread[0] * spread[1]) else 0.0
    table = joint_table(known, *balance, float(moments.n_items))
    excess = np.zeros(0)
    if same_detectors:
        size = np.sqrt(left * right)
        beyond = np.diagonal(covariance) - first * second * known
        enough = size > _NOISE_FLOOR * np.sqrt(np.diagonal(scale))
        excess = np.clip(np.divide(beyond, size, out=np.full(n_first, np.nan), where=enough), -1.0, 1.0)
    return TaskPair(table, excess, estimate, error)


def _variance_of_product(covariance: float, balance: tuple[Array, Array]) -> float:
    """Return the variance of (Y_a - E[Y_a])(Y_b - E[Y_b]) for one item."""
    table = joint_table(covariance, *balance, np.inf)
    away = [np.array([-1.0, 1.0]) - (one[1] - one[0]) for one in balance]
    squares = np.outer(away[0] ** 2, away[1] ** 2)
    mean = float(np.sum(table * np.outer(*away)))
    return float(np.sum(table * squares)) - mean**2


def joint_table(covariance: float, first: Array, second: Array, n_items: float) -> Array:
    """Return P(Y_a, Y_b), shape (2, 2), for two margins and the covariance of truths in {-1, +1}.

    No cell is below half an item, because smaller probabilities cannot be observed. The covariance is reduced
    if necessary; the margins are kept.

    >>> joint_table(0.5, np.array([0.5, 0.5]), np.array([0.5, 0.5]), 1e9).round(3)
    array([[0.375, 0.125],
           [0.125, 0.375]])
    >>> joint_table(5.0, np.array([0.2, 0.8]), np.array([0.2, 0.8]), 50).round(3)
    array([[0.19, 0.01],
           [0.01, 0.79]])
    """
    apart = np.outer(first, second)
    rarest = min(0.5 / n_items, float(apart.min()) / 2)
    # In signs ±1, a covariance c moves c/4 onto the diagonal.
    least = rarest - min(apart[0, 0], apart[1, 1])
    most = min(apart[0, 1], apart[1, 0]) - rarest
    moved = float(np.clip(covariance / 4, least, most))
    return np.asarray(apart + moved * np.array([[1.0, -1.0], [-1.0, 1.0]]))


_TINY = 1e-300


def expected_tables(
    codes: Codes, posterior: Array, graph: DependencyGraph, abstention_counts: NDArray[np.bool_]
) -> Array:
    """Return P(vote = v | Y = k) of every source, shape (m, K, K + 1), no vote last.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    posterior : array of shape (n, D, K)
        P(Y_d = k | votes), times how often the item counts.
    abstention_counts : mask of shape (D,)
        Tasks whose truth may affect the coverage of a source.
    """
    n_classes = posterior.shape[2]
    tables = np.empty((graph.n_sources, n_classes, n_classes + 1))
    total = posterior.sum(axis=0)
    prior = prior_table(n_classes)
    for task in range(graph.n_tasks):
        own = list(graph.sources_of(task))
        columns = dense_codes(codes[:, own])
        votes = np.stack([(columns == vote).T @ posterior[:, task] for vote in range(n_classes)], axis=2)
        coverage = np.minimum(votes.sum(axis=(1, 2)) / total[task].sum(), 1.0)
        silent = np.maximum(total[task] - votes.sum(axis=2), 0.0)
        silent += PRIOR_VOTES * (1 - coverage[:, None])
        votes = votes + PRIOR_VOTES * coverage[:, None, None] * prior
        if not abstention_counts[task]:
            votes /= np.maximum(votes.sum(axis=2, keepdims=True), _TINY)
            votes *= coverage[:, None, None]
            silent = np.broadcast_to(1 - coverage[:, None], silent.shape)
        tables[own] = np.concatenate([votes, silent[:, :, None]], axis=2)
    return np.asarray(tables / tables.sum(axis=2, keepdims=True))


def expected_units(
    codes: Codes,
    posterior: Array,
    graph: DependencyGraph,
    tables: Array,
    abstention_counts: NDArray[np.bool_],
) -> tuple[UnitTable, ...]:
    """Return P(joint votes | Y = k) of every unit; ``tables`` (m, K, K + 1) are those of single sources.

    Other parameters are those of :func:`expected_tables`.
    """
    n_classes = posterior.shape[2]
    balance = posterior.sum(axis=0) / posterior[:, 0].sum()
    found = []
    for tree in graph._units:
        for sources, separator in zip(tree.cliques, tree.separators, strict=True):
            task = graph.source_task[sources[0]]
            given = posterior[:, task]
            alone = np.ones((n_classes, (n_classes + 1) ** len(sources)))
            for column, source in enumerate(sources):
                alone *= tables[source][:, all_patterns(len(sources), n_classes)[:, column]]
            counts = PRIOR_VOTES * alone
            for rows, numbers in packed_chunks(dense_codes(codes[:, list(sources)]), n_classes):
                for k in range(n_classes):
                    counts[k] += np.bincount(numbers, given[rows, k], minlength=counts.shape[1])
            unit = UnitTable(sources, separator, counts / counts.sum(axis=1, keepdims=True))
            found.append(unit if abstention_counts[task] else ignore_abstention(unit, balance[task]))
    return reconcile_units(found)


# For a detector with fewer errors than this, persistence is not estimated.
_LEAST_NOISE = 1e-6


def pair_of_many(
    moments: Moments,
    instruments: tuple[Instruments, Instruments],
    balance: tuple[Array, Array],
    margins: tuple[Array, Array],
    *,
    same_detectors: bool,
) -> TaskPair:
    """Estimate the table of one task edge.

    Parameters
    ----------
    moments : counts of the sources of task a, then those of task b
    instruments : the sources of both tasks
    balance : two arrays of shape (K,)
        P(Y = k) as estimated from the votes.
    margins : two arrays of shape (K,)
        P(Y = k) that the table must have.
    same_detectors : bool
        Whether source i of task a and source i of task b are one detector. Its errors persist from one frame
        to the next, so it is not used for the truths if other sources are available; its excess is reported.
    """
    first, second = instruments
    covariance = _cross_covariance(moments, len(first.tables))
    scaled = covariance * first.scale[:, :, None, None] * second.scale
    correlation = _correlation(scaled, first.design, second.design, moments.n_items, same_detectors)
    moved = first.basis @ correlation @ second.basis.T
    apart = np.outer(*balance)
    floor = np.minimum(0.5 / moments.n_items, apart / 2)
    table = fit_margins(np.maximum(apart + moved, floor), *margins)
    excess = _excess(covariance, moved, first, second) if same_detectors else np.zeros(0)
    return TaskPair(table, excess)


def _cross_covariance(moments: Moments, n_first: int) -> Array:
    """Return Cov(1{i votes v}, 1{j votes w}) of the first sources with the others, axes i, v, j, w."""
    pairs = moments.joint_counts(range(n_first), range(n_first, moments.n_sources))
    rates = np.asarray(moments.vote_counts) / moments.n_items
    return np.asarray(pairs / moments.n_items - rates[:n_first, :, None, None] * rates[n_first:])


def _correlation(scaled: Array, first: Array, second: Array, n_items: float, same_detectors: bool) -> Array:
    """Return the correlations of the contrasts of two truths, shape (K - 1, K - 1)."""
    size = first.shape[2]
    pull = np.einsum("ivc,ivjw,jwd->cd", first, scaled, second, optimize=True)
    left, right = (np.einsum("ivc,ivd->icd", design, design) for design in (first, second))
    system = np.kron(left.sum(axis=0), right.sum(axis=0))
    found, known = _solve(system, pull, n_items)
    if same_detectors:
        own = np.einsum("ivc,iviw,iwd->cd", first, scaled, second, optimize=True)
        same = np.einsum("icp,idq->cdpq", left, right).reshape(size**2, size**2)
        others, known_to_others = _solve(system - same, pull - own, n_items)
        if known_to_others == known:
            return others
    return found


def _solve(system: Array, pull: Array, n_items: float) -> tuple[Array, int]:
    """Solve least squares in the directions that the votes determine; also return their number."""
    sizes, directions = np.linalg.eigh(system)
    # Votes are scaled to noise of variance 1, so a correlation has variance 1/(n size). With a larger
    # standard error it is undetermined.
    known = n_items * sizes * LARGEST_ERROR**2 > 1
    weights = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=known)
    found = directions @ (weights * (directions.T @ pull.ravel()))
    return found.reshape(pull.shape), int(known.sum())


def _excess(covariance: Array, moved: Array, first: Instruments, second: Instruments) -> Array:
    explained = np.einsum("ikv,kl,ilv->iv", first.tables, moved, second.tables)
    beyond = np.einsum("iviv->iv", covariance) - explained
    size = np.sqrt(first.noise.sum(axis=1) * second.noise.sum(axis=1))
    share = np.divide(beyond.sum(axis=1), size, out=np.full(len(size), np.nan), where=size > _LEAST_NOISE)
    return np.clip(share, -1.0, 1.0)
