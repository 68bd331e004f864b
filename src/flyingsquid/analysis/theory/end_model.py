"""Theorems 3 and 5: what the label model costs the end model, at rest and under drift."""

from __future__ import annotations

import math

from flyingsquid.analysis.theory.checks import require

_EXCESS = 341.0  # at least 120 √(ln 8 + 2 ln 2 + ln 41), for every VC dimension from 1 on


def generalization_bound(
    error: float, e_min: float, *, n_labels: int = 2, divergence: float = 0.0, training_error: float = 0.0
) -> float:
    """Upper bound on the loss in [0, 1] that an end model has beyond the best one (Theorem 3).

    ``γ(n) + 8 |𝒴| / e_min · ‖μ̂ - μ‖₂ + 2 √(2 KL)``.

    Parameters
    ----------
    error : ‖μ̂ - μ‖₂, or a bound on it
    e_min : as :func:`covariance_floor` gives it
    n_labels : ``|𝒴|``, how many answers there are: 2 for one binary task, 2^D for D of them
    divergence : KL(D(Y|X) ‖ P_μ(Y|X)) in nats, by which the label model cannot be right
    training_error : γ(n), what training on n labels, rather than on all there could be, costs the end model

    Examples
    --------
    >>> round(generalization_bound(0.001, 0.5, divergence=0.005), 3)
    0.232
    """
    require(error >= 0 and 0 < e_min <= 1 and divergence >= 0, "error, e_min and divergence are positive")
    return training_error + 8 * n_labels / e_min * error + 2 * math.sqrt(2 * divergence)


def model_distance(error: float, e_min: float, n_statistics: int, *, divergence: float = 0.0) -> float:
    """Upper bound on D^μ of Theorem 5, the total variation between the data and the label model of them.

    √(KL / 2) + k^¼ √(‖μ̂ - μ‖₂ / e_min). (The paper prints m for k.)

    Parameters
    ----------
    error, e_min, divergence : as in :func:`generalization_bound`
    n_statistics : k, the potentials of the model: m + 1 for m independent sources

    Examples
    --------
    >>> round(model_distance(0.0001, 0.25, 16), 6)
    0.04
    """
    require(error >= 0 and 0 < e_min <= 1 and divergence >= 0, "error, e_min and divergence are positive")
    return math.sqrt(divergence / 2) + n_statistics**0.25 * math.sqrt(error / e_min)


def end_model_drift_bound(n_items: float, drift: float, distance: float, vc_dimension: int) -> float:
    """Upper bound on the error rate beyond the best of an end model of the last s items (Theorem 5).

    6 Δ^μ s + 8 D^μ + 341 √(d / s).

    Parameters
    ----------
    n_items : s
    drift : Δ^μ, total variation between what is learned from successive items; at most Δ + 2 D^μ
    distance : D^μ, as :func:`model_distance` gives it
    vc_dimension : d of the end model

    Examples
    --------
    >>> round(end_model_drift_bound(100_000_000, 1e-11, 0.01, 10), 3)
    0.194
    """
    require(n_items > 0 and drift >= 0 and distance >= 0 and vc_dimension > 0, "sizes are positive")
    return 6 * drift * n_items + 8 * distance + _EXCESS * math.sqrt(vc_dimension / n_items)


def tolerated_drift(epsilon: float, distance: float, vc_dimension: int) -> float:
    """The drift up to which Theorem 5 promises an excess error ``epsilon``: (ε - 8 D^μ)³ / (5·10⁶ d), or 0.

    Parameters
    ----------
    epsilon : the excess error to be promised, above 8 D^μ and up to 1
    distance, vc_dimension : as in :func:`end_model_drift_bound`

    Examples
    --------
    >>> round(tolerated_drift(0.5, 0.05, 10) * 1e12, 6)
    20.0
    """
    require(0 < epsilon <= 1, "epsilon lies in (0, 1]")
    return max(0.0, epsilon - 8 * distance) ** 3 / (5e6 * vc_dimension)


def end_model_window(epsilon: float, drift: float, distance: float) -> int:
    """How many of the latest items an end model should train on (Theorem 5): ⌊(ε - 8 D^μ) / (16 Δ^μ)⌋; or 0.

    Parameters
    ----------
    epsilon, drift, distance : as in :func:`tolerated_drift` and :func:`end_model_drift_bound`

    Examples
    --------
    >>> end_model_window(0.5, 2e-6, 1 / 32)
    7812
    """
    require(0 < epsilon <= 1 and drift > 0, "epsilon lies in (0, 1], and there is a drift")
    return math.floor(max(0.0, epsilon - 8 * distance) / (16 * drift))
