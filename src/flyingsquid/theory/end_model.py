"""Theorems 3 and 5: bounds on the loss of an end model that is trained on labels of a label model."""

from __future__ import annotations

import math

from flyingsquid.theory.parameters import require

_EXCESS = 341.0  # >= 120 √(ln 8 + 2 ln 2 + ln 41), for every VC dimension >= 1


def generalization_bound(
    error: float, e_min: float, *, n_labels: int = 2, divergence: float = 0.0, training_error: float = 0.0
) -> float:
    """Return an upper bound on the excess loss of an end model, for a loss in [0, 1] (Theorem 3).

    The bound is ``γ(n) + 8 |𝒴| / e_min · ‖μ̂ - μ‖₂ + 2 √(2 KL)``.

    Parameters
    ----------
    error : float
        ‖μ̂ - μ‖₂, or a bound on it.
    e_min : float
        As returned by :func:`covariance_floor`.
    n_labels : int, default=2
        ``|𝒴|``, the number of possible labels: 2 for one binary task, 2^D for D tasks.
    divergence : float, default=0.0
        KL(D(Y|X) ‖ P_μ(Y|X)) in nats, the misspecification of the label model.
    training_error : float, default=0.0
        γ(n), the excess loss due to training the end model on n items.

    Examples
    --------
    >>> round(generalization_bound(0.001, 0.5, divergence=0.005), 3)
    0.232
    """
    require(">= 0", error=error, divergence=divergence, training_error=training_error)
    require("in (0, 1]", e_min=e_min)
    require("> 0", n_labels=n_labels)
    return training_error + 8 * n_labels / e_min * error + 2 * math.sqrt(2 * divergence)


def model_distance(error: float, e_min: float, n_statistics: int, *, divergence: float = 0.0) -> float:
    """Return an upper bound on D^μ of Theorem 5, the total variation between the data and their label model.

    The bound is √(KL / 2) + k^¼ √(‖μ̂ - μ‖₂ / e_min). (The paper prints m for k.)

    Parameters
    ----------
    error : float
        ‖μ̂ - μ‖₂, or a bound on it.
    e_min : float
        As returned by :func:`covariance_floor`.
    n_statistics : int
        k, the number of potentials of the model: m + 1 for m independent sources.
    divergence : float, default=0.0
        As in :func:`generalization_bound`.

    Examples
    --------
    >>> round(model_distance(0.0001, 0.25, 16), 6)
    0.04
    """
    require(">= 0", error=error, divergence=divergence)
    require("in (0, 1]", e_min=e_min)
    require("> 0", n_statistics=n_statistics)
    return math.sqrt(divergence / 2) + n_statistics**0.25 * math.sqrt(error / e_min)


def end_model_drift_bound(n_items: float, drift: float, distance: float, vc_dimension: int) -> float:
    """Return an upper bound on the excess error rate of an end model trained on the last s items (Theorem 5).

    The bound is 6 Δ^μ s + 8 D^μ + 341 √(d / s).

    Parameters
    ----------
    n_items : float
        s, the number of items that the end model is trained on.
    drift : float
        Δ^μ, the total variation between the label models of consecutive items; at most Δ + 2 D^μ.
    distance : float
        D^μ, as returned by :func:`model_distance`.
    vc_dimension : int
        d of the end model.

    Examples
    --------
    >>> round(end_model_drift_bound(100_000_000, 1e-11, 0.01, 10), 3)
    0.194
    """
    require("> 0", n_items=n_items, vc_dimension=vc_dimension)
    require(">= 0", drift=drift, distance=distance)
    return 6 * drift * n_items + 8 * distance + _EXCESS * math.sqrt(vc_dimension / n_items)


def tolerated_drift(epsilon: float, distance: float, vc_dimension: int) -> float:
    """Return the largest drift for which Theorem 5 guarantees an excess error rate of ``epsilon``.

    The drift is (ε - 8 D^μ)³ / (5·10⁶ d), or 0 if ``epsilon`` is below 8 D^μ.

    Parameters
    ----------
    epsilon : float
        The excess error rate, in (0, 1].
    distance : float
        D^μ, as returned by :func:`model_distance`.
    vc_dimension : int
        d of the end model.

    Examples
    --------
    >>> round(tolerated_drift(0.5, 0.05, 10) * 1e12, 6)
    20.0
    """
    require("in (0, 1]", epsilon=epsilon)
    require(">= 0", distance=distance)
    require("> 0", vc_dimension=vc_dimension)
    return max(0.0, epsilon - 8 * distance) ** 3 / (5e6 * vc_dimension)


def end_model_window(epsilon: float, drift: float, distance: float) -> int:
    """Return the number of latest items to train an end model on (Theorem 5): ⌊(ε - 8 D^μ) / (16 Δ^μ)⌋, or 0.

    Parameters
    ----------
    epsilon : float
        The excess error rate, in (0, 1].
    drift : float
        Δ^μ, as in :func:`end_model_drift_bound`; above 0.
    distance : float
        D^μ, as returned by :func:`model_distance`.

    Examples
    --------
    >>> end_model_window(0.5, 2e-6, 1 / 32)
    7812
    """
    require("in (0, 1]", epsilon=epsilon)
    require("> 0", drift=drift)
    require(">= 0", distance=distance)
    return math.floor(max(0.0, epsilon - 8 * distance) / (16 * drift))
