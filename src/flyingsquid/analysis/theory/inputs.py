"""What the bounds are fed with: accuracies, eigenvalues, rare events and drift of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.analysis.theory.checks import require


def mean_parameters(accuracies: ArrayLike, coverage: ArrayLike = 1.0) -> NDArray[np.float64]:
    """aᵢ = E[λᵢ Y] of sources, in the shape of ``accuracies``.

    Parameters
    ----------
    accuracies : shape (m,), or (n, m) over time
        P(right | votes), as ``accuracies_`` of a model has it.
    coverage : shape (m,)

    Examples
    --------
    >>> mean_parameters([0.9, 0.75, 0.5], [1, 0.5, 1]).tolist()
    [0.8, 0.25, 0.0]
    """
    accuracies, coverage = np.asarray(accuracies, np.float64), np.asarray(coverage, np.float64)
    for name, values in (("accuracies", accuracies), ("coverage", coverage)):
        require(bool(((values >= 0) & (values <= 1)).all()), f"{name} must be probabilities")
    return np.asarray(coverage * (2 * accuracies - 1))


def covariance_floor(parameters: ArrayLike, class_balance: ArrayLike = (0.5, 0.5)) -> float:
    """e_min of Theorems 2, 3 and 5 for independent sources that never abstain.

    The smallest eigenvalue of the covariance of the statistics (Y, λ₁Y, ..., λₘY). Errors are symmetric, so
    these are independent of each other, and it is the smallest variance: min(1 - E[Y]², 1 - aᵢ²). (The paper
    writes the covariance of the variables; its proof differentiates the log partition function, which gives
    that of the statistics.)

    Parameters
    ----------
    parameters : shape (m,), or (k, m)
        aᵢ = E[λᵢ Y]; the floor over k models, such as an estimate and the truth. Between two of them it is
        no lower, because each aᵢ = tanh θᵢ stays between its ends.
    class_balance : shape (2,)

    Examples
    --------
    >>> round(covariance_floor([0.8, 0.6, 0.2]), 6)
    0.36
    """
    parameters, balance = np.asarray(parameters, np.float64), np.asarray(class_balance, np.float64)
    require(bool((np.abs(parameters) <= 1).all()), "mean parameters lie in [-1, 1]")
    require(balance.shape == (2,) and abs(balance.sum() - 1) < 1e-9, "the class balance is two shares of 1")
    variances = np.append((1 - parameters**2).ravel(), 1 - (balance[1] - balance[0]) ** 2)
    return float(variances.min())


def smallest_eigenvalue(statistics: ArrayLike, probabilities: ArrayLike) -> float:
    """e_min of any model that can be listed: of the covariance of k statistics over S outcomes.

    Parameters
    ----------
    statistics : shape (S, k)
        One row an outcome: the potentials of the model, such as Y, λᵢY and λᵢλⱼ.
    probabilities : shape (S,), summing to 1

    Examples
    --------
    >>> smallest_eigenvalue([[1, 1], [1, -1], [-1, 1], [-1, -1]], [0.25, 0.25, 0.25, 0.25])
    1.0
    """
    values, weights = np.asarray(statistics, np.float64), np.asarray(probabilities, np.float64)
    require(values.ndim == 2 and weights.shape == values.shape[:1], "one probability an outcome is needed")
    centered = values - weights @ values
    # Rounding could carry an eigenvalue of 0 below it.
    return max(0.0, float(np.linalg.eigvalsh((centered.T * weights) @ centered)[0]))


def rarest_event(
    accuracies: ArrayLike, coverage: ArrayLike = 1.0, class_balance: ArrayLike = (0.5, 0.5)
) -> float:
    """α of Theorem 4, independent sources: the smallest probability above 0 of votes and truth together.

    Parameters
    ----------
    accuracies, coverage : shape (m,)
        P(right | votes), P(votes).
    class_balance : shape (2,)

    Examples
    --------
    >>> round(rarest_event([0.9, 0.8], class_balance=[0.3, 0.7]), 6)
    0.006
    """
    right, votes = np.broadcast_arrays(np.asarray(accuracies, np.float64), np.asarray(coverage, np.float64))
    events = np.array([votes * right, votes * (1 - right), 1 - votes]).reshape(3, -1)
    balance = np.asarray(class_balance, np.float64)
    rarest = np.where(events > 0, events, 1.0).min(axis=0)
    return float(balance[balance > 0].min() * rarest.prod())


def drift_of(accuracies: ArrayLike, coverage: ArrayLike = 1.0) -> float:
    """Δ of Theorem 4: at least the total variation between the distributions of two successive items.

    The sum over sources of ``cᵢ |pᵢ(t + 1) - pᵢ(t)|``, at its largest: distances of independent parts at most
    add up.
    (The paper states its drift as a divergence; its proof needs total variation.)

    Parameters
    ----------
    accuracies : shape (n, m)
        P(right | votes) at every item, as ``fs.datasets.simulate_drift`` has it.
    coverage : shape (m,)

    Examples
    --------
    >>> round(drift_of([[0.9, 0.8], [0.89, 0.8], [0.88, 0.82]]), 6)
    0.03
    """
    steps = np.abs(np.diff(np.atleast_2d(np.asarray(accuracies, np.float64)), axis=0)) * np.asarray(coverage)
    return float(steps.sum(axis=1).max()) if len(steps) else 0.0
