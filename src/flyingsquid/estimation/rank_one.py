"""Fit Cᵢⱼ = bᵢbⱼ to all pairs at once: every triplet pooled, each pair weighted by its precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_SWEEPS = 30
_NEWTON_STEPS = 12


def fit_rank_one(covariance: Array, weights: Array, start: Array) -> Array:
    """Minimise Σᵢ<ⱼ Wᵢⱼ(Cᵢⱼ - bᵢbⱼ)² over b, shape (m,).

    Parameters
    ----------
    covariance, weights : symmetric arrays of shape (m, m)
        A weight of 0 leaves a pair out; diagonals are not read.
    start : array of shape (m,)
        Where to begin; the signs of the answer are the signs of the start unless the data object.

    Notes
    -----
    Alternating least squares, damped by half because a simultaneous update overshoots, then
    Newton steps that are kept while they lower the loss. O(m²) a sweep, O(m³) a step.

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
        b = (b + update) / 2
    loss = _loss(covariance, weights, b)
    for _ in range(_NEWTON_STEPS):
        try:
            step = np.linalg.solve(curvature(covariance, weights, b), pull @ b - b * (weights @ b**2))
        except np.linalg.LinAlgError:  # flat in some direction: no better point to be found there
            break
        trial = _loss(covariance, weights, b + step)
        if not trial < loss:
            break
        b, loss = b + step, trial
    return b


def curvature(covariance: Array, weights: Array, b: Array) -> Array:
    """Minus the derivative of the equations Σⱼ Wᵢⱼbⱼ(Cᵢⱼ - bᵢbⱼ) = 0, shape (m, m)."""
    matrix = weights * (2 * np.outer(b, b) - covariance)
    strength = weights @ b**2
    # The ridge keeps a source that is linked to nothing from making the system singular.
    np.fill_diagonal(matrix, strength + 1e-12 * max(float(strength.max()), 1e-300))
    return matrix


def _loss(covariance: Array, weights: Array, b: Array) -> float:
    return float(np.sum(weights * (covariance - np.outer(b, b)) ** 2))
