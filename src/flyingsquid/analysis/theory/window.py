"""Theorem 4: how long a window should be."""

from __future__ import annotations

import math

from flyingsquid.analysis.theory.checks import require, require_sizes
from flyingsquid.analysis.theory.sampling import noise_of

_TABLE = math.sqrt(2)  # two probability tables are at most this far apart


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
    """Upper bound on E‖μ̂ₜ - μₜ‖₂ of a window of W items under drift (Theorem 4): A / √W + B W^1.5.

    A is :func:`sampling_error_bound` of one item, ``B = 2 √2 (|C| + |S|) Δ / √(3 α)``. (The paper prints
    √(6 α); the sum of squares up to W - 1 is at most W³/3, not W³/6.)

    Parameters
    ----------
    window : W
    n_sources : m
    a_min, dependent, abstain_rate : as in :func:`sampling_error_bound`
    drift : Δ, the most that the distribution moves from one item to the next, in total variation
    rarest : α, as :func:`rarest_event` gives it
    n_tables : ``|C| + |S|``, cliques and separators of the graph; default those of independent
        sources, m + 1

    Examples
    --------
    >>> bounds = [window_error_bound(w, 5, 0.5, 1e-6, 0.001) for w in (100, 5_000, 100_000)]
    >>> bounds[0] > bounds[1] < bounds[2]
    True
    """
    require(window > 0, "a window has at least one item")
    noise, drag = _window_terms(n_sources, a_min, drift, rarest, n_tables, dependent, abstain_rate)
    return noise / math.sqrt(window) + drag * window**1.5


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
    """W* = √(A / (3 B)), which makes :func:`window_error_bound` smallest (Theorem 4); infinite without drift.

    Its rate is what it is good for: ten times the drift, and the window is √10 times shorter.

    Parameters
    ----------
    As in :func:`window_error_bound`.

    Examples
    --------
    >>> round(optimal_window(5, 0.5, 1e-6, 0.001))
    2640
    """
    noise, drag = _window_terms(n_sources, a_min, drift, rarest, n_tables, dependent, abstain_rate)
    return math.sqrt(noise / (3 * drag)) if drag else math.inf


def _window_terms(
    n_sources: int,
    a_min: float,
    drift: float,
    rarest: float,
    n_tables: int | None,
    dependent: bool,
    abstain_rate: float | None,
) -> tuple[float, float]:
    """A and B of Theorem 4."""
    require_sizes(1, n_sources, a_min)
    require(drift >= 0 and 0 < rarest <= 1, "drift is 0 or more, and the rarest event has a probability")
    tables = n_sources + 1 if n_tables is None else n_tables
    drag = 2 * _TABLE * tables * drift / math.sqrt(3 * rarest)
    return noise_of(n_sources, a_min, dependent, abstain_rate), drag
