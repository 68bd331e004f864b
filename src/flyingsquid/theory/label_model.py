"""Theorems 1, 2 and 4: bounds on the error of a label model, on a sample and in a window under drift."""

from __future__ import annotations

import math

from flyingsquid.theory.parameters import require

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


def accuracy_error_bound(n_items: float, n_sources: int, a_min: float) -> float:
    """Return an upper bound on E‖â - a‖₂ of the triplet method (a lemma of Theorem 1).

    The bound is C_a a_min⁻⁵ √(m / n).

    Parameters
    ----------
    n_items : float
        n, the number of items.
    n_sources : int
        m, the number of sources.
    a_min : float
        The smallest ``|aᵢ|`` of the estimates and the true parameters.

    Examples
    --------
    >>> round(accuracy_error_bound(1_000_000, 10, 0.5), 2)
    7.73
    """
    require("> 0", n_items=n_items, n_sources=n_sources)
    require("in (0, 1]", a_min=a_min)
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
    n_items : float
        n, the number of items.
    n_sources : int
        m, the number of sources.
    a_min : float
        The smallest ``|aᵢ|``.
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
    require("> 0", n_items=n_items)
    return _noise(n_sources, a_min, dependent, abstain_rate) / math.sqrt(n_items)


def lower_bound(n_items: float, n_sources: int, e_min: float) -> float:
    """Return a lower bound on E‖μ̂ - μ‖₂ of any method on its worst model (Theorem 2): e_min/8 · √(m/n).

    Parameters
    ----------
    n_items : float
        n, the number of items.
    n_sources : int
        m, the number of sources.
    e_min : float
        As returned by :func:`covariance_floor`.

    Examples
    --------
    >>> lower_bound(10_000, 4, 0.8)
    0.002
    """
    require("> 0", n_items=n_items, n_sources=n_sources)
    require("in [0, 1]", e_min=e_min)
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
    n_sources : int
        m, the number of sources.
    a_min : float
        The smallest ``|aᵢ|``.
    drift : float
        Δ, the largest total variation between consecutive items, as returned by :func:`drift_of`.
    rarest : float
        α, as returned by :func:`rarest_event`.
    n_tables : int or None, default=None
        ``|C| + |S|``, the number of cliques and separators of the graph; None for independent sources, m + 1.
    dependent : bool, default=False
        As in :func:`sampling_error_bound`.
    abstain_rate : float or None, default=None
        As in :func:`sampling_error_bound`.

    Examples
    --------
    >>> bounds = [window_error_bound(w, 5, 0.5, 1e-6, 0.001) for w in (100, 5_000, 100_000)]
    >>> bounds[0] > bounds[1] < bounds[2]
    True
    """
    require("> 0", window=window)
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
    require("> 0", n_sources=n_sources)
    require("in (0, 1]", a_min=a_min, abstain_rate=1.0 if abstain_rate is None else abstain_rate)
    independent_part = NORM_ONE * C_ONE * math.sqrt(n_sources)
    if not dependent:
        return a_min**-5 * independent_part
    pairs_part = NORM_TWO * C_TWO * n_sources / math.sqrt(1.0 if abstain_rate is None else abstain_rate)
    return a_min**-5 * (independent_part + pairs_part)


def _drift_constant(n_sources: int, drift: float, rarest: float, n_tables: int | None) -> float:
    """Return B of Theorem 4."""
    require(">= 0", drift=drift)
    require("in (0, 1]", rarest=rarest)
    tables = n_sources + 1 if n_tables is None else n_tables
    require("> 0", n_tables=tables)
    return 2 * TABLE_DIAMETER * tables * drift / math.sqrt(3 * rarest)
