"""Parameters of the bounds: mean parameters, eigenvalues, rare events and drift of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import format_value, is_number
from flyingsquid.exceptions import OptionError

_RANGES = {
    "> 0": lambda value: value > 0,
    ">= 0": lambda value: value >= 0,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
}


def require(constraint: str, **values: float) -> None:
    """Raise an OptionError for the first value that is not a number in the given range."""
    for name, value in values.items():
        if not (is_number(value) and _RANGES[constraint](value)):
            raise OptionError(
                f"`{name}` must be a number {constraint}; got {format_value(value)}.", parameter=name
            )


def mean_parameters(accuracies: ArrayLike, coverage: ArrayLike = 1.0) -> NDArray[np.float64]:
    """Return aᵢ = E[λᵢ Y] of sources, in the shape of ``accuracies``.

    Parameters
    ----------
    accuracies : array-like of shape (m,), or (n, m) over time
        P(right | votes), such as ``accuracies_`` of a model.
    coverage : array-like of shape (m,), default=1.0
        P(votes).

    Examples
    --------
    >>> mean_parameters([0.9, 0.75, 0.5], [1, 0.5, 1]).tolist()
    [0.8, 0.25, 0.0]
    """
    right, votes = _probabilities("accuracies", accuracies), _probabilities("coverage", coverage)
    return np.asarray(votes * (2 * right - 1))


def covariance_floor(parameters: ArrayLike, class_balance: ArrayLike = (0.5, 0.5)) -> float:
    """Return e_min of Theorems 2, 3 and 5 for independent sources that never abstain.

    This is the smallest eigenvalue of the covariance of the statistics (Y, λ₁Y, ..., λₘY). Errors are
    symmetric, so the statistics are independent and the eigenvalue is their smallest variance,
    min(1 - E[Y]², 1 - aᵢ²). (The paper writes the covariance of the variables. Its proof differentiates the
    log partition function, which gives the covariance of the statistics.)

    Parameters
    ----------
    parameters : array-like of shape (m,) or (k, m)
        aᵢ = E[λᵢ Y]. For k models, such as an estimate and the truth, the result holds for all of them and
        for every model between them, because each aᵢ = tanh θᵢ stays between its ends.
    class_balance : array-like of shape (2,), default=(0.5, 0.5)

    Examples
    --------
    >>> round(covariance_floor([0.8, 0.6, 0.2]), 6)
    0.36
    """
    values, balance = np.asarray(parameters, np.float64), _balance(class_balance)
    if not (np.abs(values) <= 1).all():
        raise OptionError(
            f"`parameters` must be in [-1, 1]; got {format_value(parameters)}.", parameter="parameters"
        )
    variances = np.append((1 - values**2).ravel(), 1 - (balance[1] - balance[0]) ** 2)
    return float(variances.min())


def smallest_eigenvalue(statistics: ArrayLike, probabilities: ArrayLike) -> float:
    """Return e_min of any model with a finite list of outcomes.

    Parameters
    ----------
    statistics : array-like of shape (S, k)
        The k potentials of the model, such as Y, λᵢY and λᵢλⱼ, with one row per outcome.
    probabilities : array-like of shape (S,)
        Probabilities of the outcomes; their sum is 1.

    Examples
    --------
    >>> smallest_eigenvalue([[1, 1], [1, -1], [-1, 1], [-1, -1]], [0.25, 0.25, 0.25, 0.25])
    1.0
    """
    values, weights = np.asarray(statistics, np.float64), _probabilities("probabilities", probabilities)
    if values.ndim != 2 or weights.shape != values.shape[:1]:
        raise OptionError(
            "`probabilities` must have one value per row of `statistics`; "
            f"got shapes {weights.shape} and {values.shape}.",
            parameter="probabilities",
        )
    centered = values - weights @ values
    # Rounding can make an eigenvalue of 0 negative.
    return max(0.0, float(np.linalg.eigvalsh((centered.T * weights) @ centered)[0]))


def rarest_event(
    accuracies: ArrayLike, coverage: ArrayLike = 1.0, class_balance: ArrayLike = (0.5, 0.5)
) -> float:
    """Return α of Theorem 4 for independent sources: the smallest positive probability of votes and class.

    Parameters
    ----------
    accuracies : array-like of shape (m,)
        P(right | votes).
    coverage : array-like of shape (m,), default=1.0
        P(votes).
    class_balance : array-like of shape (2,), default=(0.5, 0.5)

    Examples
    --------
    >>> round(rarest_event([0.9, 0.8], class_balance=[0.3, 0.7]), 6)
    0.006
    """
    right, votes = np.broadcast_arrays(
        _probabilities("accuracies", accuracies), _probabilities("coverage", coverage)
    )
    events = np.array([votes * right, votes * (1 - right), 1 - votes]).reshape(3, -1)
    balance = _balance(class_balance)
    rarest = np.where(events > 0, events, 1.0).min(axis=0)
    return float(balance[balance > 0].min() * rarest.prod())


def drift_of(accuracies: ArrayLike, coverage: ArrayLike = 1.0) -> float:
    """Return Δ of Theorem 4, an upper bound on the total variation between two consecutive items.

    This is the largest sum over sources of ``cᵢ |pᵢ(t + 1) - pᵢ(t)|``: the total variation of independent
    parts is at most the sum of theirs. (The paper states its drift as a divergence; its proof needs total
    variation.)

    Parameters
    ----------
    accuracies : array-like of shape (n, m)
        P(right | votes) at every item, such as ``accuracies`` of ``fs.datasets.simulate_drift``.
    coverage : array-like of shape (m,), default=1.0
        P(votes).

    Examples
    --------
    >>> round(drift_of([[0.9, 0.8], [0.89, 0.8], [0.88, 0.82]]), 6)
    0.03
    """
    right, votes = _probabilities("accuracies", accuracies), _probabilities("coverage", coverage)
    steps = np.abs(np.diff(np.atleast_2d(right), axis=0)) * votes
    return float(steps.sum(axis=1).max()) if len(steps) else 0.0


def _probabilities(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if not ((array >= 0) & (array <= 1)).all():
        raise OptionError(
            f"`{name}` must be probabilities in [0, 1]; got {format_value(values)}.", parameter=name
        )
    return array


def _balance(values: ArrayLike) -> NDArray[np.float64]:
    balance = _probabilities("class_balance", values)
    if balance.shape != (2,) or abs(balance.sum() - 1) > 1e-9:
        raise OptionError(
            f"`class_balance` must be two probabilities with sum 1; got {format_value(values)}.",
            parameter="class_balance",
        )
    return balance
