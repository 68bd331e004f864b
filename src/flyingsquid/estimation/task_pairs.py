"""Dependence between the truths of two tasks, estimated from votes.

For i on task a and j on task b, Cov(λᵢ, λⱼ) = βᵢβⱼ Cov(Y_a, Y_b) with βᵢ = Cov(λᵢ, Y)/Var(Y): every pair of
sources across an edge is an estimate of the covariance of the truths, and all are pooled by their precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.sources import CenteredMoments
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
_SWEEPS = 500
_CONVERGED = 1e-14


def fit_margins(table: Array, rows: Array, columns: Array) -> Array:
    """Rescale rows and columns of a positive table until their sums are those given, shape (A, B).

    The odds ratios are kept. A table that already has these margins is unchanged.

    >>> fit_margins(np.array([[4.0, 1.0], [1.0, 4.0]]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(_SWEEPS):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
        if np.abs(table.sum(axis=1) - rows).max() < _CONVERGED:
            break
    return table


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
    """Pool all pairs of sources across an edge.

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
