"""Bounds of the paper (Fu et al. 2020, Theorems 1 to 5) as functions.

The bounds are orders of magnitude for comparing designs, often loose by a factor of a hundred. They are not
error bars: for confidence intervals use ``accuracies_interval_`` of a fitted model, and for the window of a
stream ``window="auto"``. Some printed constants do not follow from the proofs; docs/concepts/theory.md lists
those that are used instead.

Notation: n items, m sources, and the mean parameter aᵢ = E[λᵢ Y] in [-1, 1] of each source
(:func:`mean_parameters`). Errors are ‖μ̂ - μ‖₂ of the label model's tables μ = P(λ, Y).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import is_number, option_error
from flyingsquid.exceptions import OptionError

__all__ = [
    "accuracy_error_bound",
    "covariance_floor",
    "drift_of",
    "end_model_drift_bound",
    "end_model_window",
    "generalization_bound",
    "lower_bound",
    "mean_parameters",
    "model_distance",
    "optimal_window",
    "rarest_event",
    "sampling_error_bound",
    "smallest_eigenvalue",
    "tolerated_drift",
    "window_error_bound",
]
NORM_ONE = 2.2030
"""‖A₁⁻¹‖₂, from the moments of one source to its table. (The paper prints ‖A₁‖₂ = 3.19.)"""
NORM_TWO = 3.1126
"""‖A₂⁻¹‖₂, the same for two dependent sources. (The paper prints ‖A₂‖₂ = 6.35.)"""
C_ACCURACY = 54 * math.sqrt(2)
"""C_a of the lemma on accuracies: √(3 · 1944). (The paper prints 18√6.)"""
C_PAIRS = 1.0
"""C_m of the lemma on pairs: a mean of n values in [-1, 1] has variance at most 1/n. (Not in the paper.)"""
C_ONE = 1.5 + math.sqrt(2) + C_ACCURACY / 2
"""C₁ of Theorem 1, the sum of the constants in its proof."""
C_TWO = (7 + 1 / math.sqrt(2)) * C_PAIRS + 4.5 * math.sqrt(2) + 1 + math.sqrt(2) * C_ACCURACY
"""C₂ of Theorem 1, the sum of the constants in its proof."""
TABLE_DIAMETER = math.sqrt(2)
"""Largest distance of two probability tables."""
_EXCESS = 341.0  # >= 120 √(ln 8 + 2 ln 2 + ln 41), for every VC dimension >= 1
_RANGES = {
    "> 0": lambda value: value > 0,
    ">= 0": lambda value: value >= 0,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
}


# ---------------------------------------------------------------------- parameters of the bounds


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
        raise option_error("parameters", "in [-1, 1]", parameters)
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
    accuracies, coverage : array-like of shape (m,)
        As in :func:`mean_parameters`.
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


# ---------------------------------------------------------------------- label model: Theorems 1, 2 and 4


def accuracy_error_bound(n_items: float, n_sources: int, a_min: float) -> float:
    """Return an upper bound on E‖â - a‖₂ of the triplet method (a lemma of Theorem 1).

    The bound is C_a a_min⁻⁵ √(m / n).

    Parameters
    ----------
    n_items, n_sources : float and int
        n and m.
    a_min : float
        The smallest ``|aᵢ|`` of the estimates and the true parameters.

    Examples
    --------
    >>> round(accuracy_error_bound(1_000_000, 10, 0.5), 2)
    7.73
    """
    _require("> 0", n_items=n_items, n_sources=n_sources)
    _require("in (0, 1]", a_min=a_min)
    return C_ACCURACY * a_min**-5 * math.sqrt(n_sources / n_items)


def sampling_error_bound(
    n_items: float,
    n_sources: int,
    a_min: float,
    *,
    dependent: bool = False,
    abstain_rate: float | None = None,
) -> float:
    """Return an upper bound on E‖μ̂ - μ‖₂ (Theorem 1): a_min⁻⁵ (2.20 C₁ √(m/n) + 3.11 C₂ m / √(r n)).

    Parameters
    ----------
    n_items, n_sources, a_min : float
        As in :func:`accuracy_error_bound`.
    dependent : bool, default=False
        Whether there are pairs of dependent sources. The second term is for these pairs only.
    abstain_rate : float or None, default=None
        r, the smallest share of missing votes among the sources that abstain; None if no source abstains.

    Examples
    --------
    The bound falls as 1 / √n, and grows as √m for independent sources and as m for dependent ones:

    >>> few, many = sampling_error_bound(1_000, 5, 0.5), sampling_error_bound(100_000, 5, 0.5)
    >>> round(few / many, 6)
    10.0
    """
    _require("> 0", n_items=n_items)
    return _noise(n_sources, a_min, dependent, abstain_rate) / math.sqrt(n_items)


def lower_bound(n_items: float, n_sources: int, e_min: float) -> float:
    """Return a lower bound on E‖μ̂ - μ‖₂ of any method on its worst model (Theorem 2): e_min/8 · √(m/n).

    Parameters
    ----------
    n_items, n_sources : float
        As in :func:`accuracy_error_bound`.
    e_min : float
        As returned by :func:`covariance_floor`.

    Examples
    --------
    >>> lower_bound(10_000, 4, 0.8)
    0.002
    """
    _require("> 0", n_items=n_items, n_sources=n_sources)
    _require("in [0, 1]", e_min=e_min)
    return e_min / 8 * math.sqrt(n_sources / n_items)


def window_error_bound(
    window: float,
    n_sources: int,
    a_min: float,
    drift: float,
    rarest: float,
    *,
    n_tables: int | None = None,
    dependent: bool = False,
    abstain_rate: float | None = None,
) -> float:
    """Return an upper bound on E‖μ̂ₜ - μₜ‖₂ of a window of W items under drift (Theorem 4): A / √W + B W^1.5.

    A is :func:`sampling_error_bound` of one item, and ``B = 2 √2 (|C| + |S|) Δ / √(3 α)``. (The paper prints
    √(6 α), but the sum of squares up to W - 1 is bounded by W³/3 and not by W³/6.)

    Parameters
    ----------
    window : float
        W, the number of items in the window.
    n_sources, a_min, dependent, abstain_rate
        As in :func:`sampling_error_bound`.
    drift : float
        Δ, the largest total variation between consecutive items, as returned by :func:`drift_of`.
    rarest : float
        α, as returned by :func:`rarest_event`.
    n_tables : int or None, default=None
        ``|C| + |S|``, the number of cliques and separators of the graph; None for independent sources, m + 1.

    Examples
    --------
    >>> bounds = [window_error_bound(w, 5, 0.5, 1e-6, 0.001) for w in (100, 5_000, 100_000)]
    >>> bounds[0] > bounds[1] < bounds[2]
    True
    """
    _require("> 0", window=window)
    noise = _noise(n_sources, a_min, dependent, abstain_rate)
    return noise / math.sqrt(window) + _drift_constant(n_sources, drift, rarest, n_tables) * window**1.5


def optimal_window(
    n_sources: int,
    a_min: float,
    drift: float,
    rarest: float,
    *,
    n_tables: int | None = None,
    dependent: bool = False,
    abstain_rate: float | None = None,
) -> float:
    """Return the window that minimizes :func:`window_error_bound` (Theorem 4): W* = √(A / (3 B)).

    The window is infinite without drift. Only its rate is reliable: with ten times the drift, the window is
    √10 times shorter. Parameters are as in :func:`window_error_bound`.

    Examples
    --------
    >>> round(optimal_window(5, 0.5, 1e-6, 0.001))
    2640
    """
    noise = _noise(n_sources, a_min, dependent, abstain_rate)
    drag = _drift_constant(n_sources, drift, rarest, n_tables)
    return math.sqrt(noise / (3 * drag)) if drag else math.inf


def _noise(n_sources: int, a_min: float, dependent: bool, abstain_rate: float | None) -> float:
    """Return √n times the bound of Theorem 1, which is A of Theorem 4."""
    _require("> 0", n_sources=n_sources)
    _require("in (0, 1]", a_min=a_min, abstain_rate=1.0 if abstain_rate is None else abstain_rate)
    independent_part = NORM_ONE * C_ONE * math.sqrt(n_sources)
    if not dependent:
        return a_min**-5 * independent_part
    pairs_part = NORM_TWO * C_TWO * n_sources / math.sqrt(1.0 if abstain_rate is None else abstain_rate)
    return a_min**-5 * (independent_part + pairs_part)


def _drift_constant(n_sources: int, drift: float, rarest: float, n_tables: int | None) -> float:
    """Return B of Theorem 4."""
    _require(">= 0", drift=drift)
    _require("in (0, 1]", rarest=rarest)
    tables = n_sources + 1 if n_tables is None else n_tables
    _require("> 0", n_tables=tables)
    return 2 * TABLE_DIAMETER * tables * drift / math.sqrt(3 * rarest)


# ---------------------------------------------------------------------- end model: Theorems 3 and 5


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
    _require(">= 0", error=error, divergence=divergence, training_error=training_error)
    _require("in (0, 1]", e_min=e_min)
    _require("> 0", n_labels=n_labels)
    return training_error + 8 * n_labels / e_min * error + 2 * math.sqrt(2 * divergence)


def model_distance(error: float, e_min: float, n_statistics: int, *, divergence: float = 0.0) -> float:
    """Return an upper bound on D^μ of Theorem 5, the total variation between the data and their label model.

    The bound is √(KL / 2) + k^¼ √(‖μ̂ - μ‖₂ / e_min). (The paper prints m for k.)

    Parameters
    ----------
    error, e_min, divergence : float
        As in :func:`generalization_bound`.
    n_statistics : int
        k, the number of potentials of the model: m + 1 for m independent sources.

    Examples
    --------
    >>> round(model_distance(0.0001, 0.25, 16), 6)
    0.04
    """
    _require(">= 0", error=error, divergence=divergence)
    _require("in (0, 1]", e_min=e_min)
    _require("> 0", n_statistics=n_statistics)
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
    _require("> 0", n_items=n_items, vc_dimension=vc_dimension)
    _require(">= 0", drift=drift, distance=distance)
    return 6 * drift * n_items + 8 * distance + _EXCESS * math.sqrt(vc_dimension / n_items)


def tolerated_drift(epsilon: float, distance: float, vc_dimension: int) -> float:
    """Return the largest drift for which Theorem 5 guarantees an excess error rate of ``epsilon``.

    The drift is (ε - 8 D^μ)³ / (5·10⁶ d), or 0 if ``epsilon`` is below 8 D^μ.

    Parameters
    ----------
    epsilon : float
        The excess error rate, in (0, 1].
    distance, vc_dimension
        As in :func:`end_model_drift_bound`.

    Examples
    --------
    >>> round(tolerated_drift(0.5, 0.05, 10) * 1e12, 6)
    20.0
    """
    _require("in (0, 1]", epsilon=epsilon)
    _require(">= 0", distance=distance)
    _require("> 0", vc_dimension=vc_dimension)
    return max(0.0, epsilon - 8 * distance) ** 3 / (5e6 * vc_dimension)


def end_model_window(epsilon: float, drift: float, distance: float) -> int:
    """Return the number of latest items to train an end model on (Theorem 5): ⌊(ε - 8 D^μ) / (16 Δ^μ)⌋, or 0.

    Parameters
    ----------
    epsilon : float
        The excess error rate, in (0, 1].
    drift, distance : float
        As in :func:`end_model_drift_bound`; the drift is above 0.

    Examples
    --------
    >>> end_model_window(0.5, 2e-6, 1 / 32)
    7812
    """
    _require("in (0, 1]", epsilon=epsilon)
    _require("> 0", drift=drift)
    _require(">= 0", distance=distance)
    return math.floor(max(0.0, epsilon - 8 * distance) / (16 * drift))


# ---------------------------------------------------------------------- checks


def _require(constraint: str, **values: float) -> None:
    """Raise an OptionError for the first value that is not a number in the given range."""
    for name, value in values.items():
        if not (is_number(value) and _RANGES[constraint](value)):
            raise option_error(name, f"a number {constraint}", value)


def _probabilities(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if not ((array >= 0) & (array <= 1)).all():
        raise option_error(name, "probabilities in [0, 1]", values)
    return array


def _balance(values: ArrayLike) -> NDArray[np.float64]:
    balance = _probabilities("class_balance", values)
    if balance.shape != (2,) or abs(balance.sum() - 1) > 1e-9:
        raise option_error("class_balance", "two probabilities with sum 1", values)
    return balance
