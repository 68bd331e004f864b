"""Theorems 1 and 2: how far estimates are off, at most and at least."""

from __future__ import annotations

import math

from flyingsquid.analysis.theory.checks import require, require_sizes

NORM_ONE = 2.2030
"""‖A₁⁻¹‖₂, from the moments of one source to its table. (The paper prints ‖A₁‖₂ = 3.19.)"""
NORM_TWO = 3.1126
"""‖A₂⁻¹‖₂, the same for two dependent sources. (The paper prints ‖A₂‖₂ = 6.35.)"""
C_ACCURACY = 54 * math.sqrt(2)
"""C_a of the lemma on accuracies: √(3 · 1944). (The paper prints 18√6.)"""
C_PAIRS = 1.0
"""C_m of the lemma on pairs: an average of n values in [-1, 1] has variance at most 1/n. (Open there.)"""
C_ONE = 1.5 + math.sqrt(2) + C_ACCURACY / 2
"""C₁ of Theorem 1, summed up from its proof."""
C_TWO = (7 + 1 / math.sqrt(2)) * C_PAIRS + 4.5 * math.sqrt(2) + 1 + math.sqrt(2) * C_ACCURACY
"""C₂ of Theorem 1, summed up from its proof."""


def accuracy_error_bound(n_items: float, n_sources: int, a_min: float) -> float:
    """Upper bound on E‖â - a‖₂ of the triplet method: C_a a_min⁻⁵ √(m / n), a lemma of Theorem 1.

    Parameters
    ----------
    n_items, n_sources : n, m
    a_min : the smallest ``|aᵢ|``, of estimates and truth

    Examples
    --------
    >>> round(accuracy_error_bound(1_000_000, 10, 0.5), 2)
    7.73
    """
    require_sizes(n_items, n_sources, a_min)
    return C_ACCURACY * a_min**-5 * math.sqrt(n_sources / n_items)


def sampling_error_bound(
    n_items: float,
    n_sources: int,
    a_min: float,
    *,
    dependent: bool = False,
    abstain_rate: float | None = None,
) -> float:
    """Upper bound on E‖μ̂ - μ‖₂ (Theorem 1): a_min⁻⁵ (2.20 C₁ √(m/n) + 3.11 C₂ m / √(r n)).

    Parameters
    ----------
    n_items, n_sources : n, m
    a_min : the smallest ``|aᵢ|``
    dependent : whether sources depend on each other, two at a time; without, the second term is absent
    abstain_rate : r, the smallest share of items on which a source abstains that does; None if none does

    Examples
    --------
    It falls as 1 / √n, and rises as √m, or as m where sources depend on each other:

    >>> few, many = sampling_error_bound(1_000, 5, 0.5), sampling_error_bound(100_000, 5, 0.5)
    >>> round(few / many, 6)
    10.0
    """
    require_sizes(n_items, n_sources, a_min)
    return noise_of(n_sources, a_min, dependent, abstain_rate) / math.sqrt(n_items)


def lower_bound(n_items: float, n_sources: int, e_min: float) -> float:
    """Lower bound on E‖μ̂ - μ‖₂ of any method on its worst model (Theorem 2): e_min/8 · √(m/n).

    Parameters
    ----------
    n_items, n_sources : n, m
    e_min : as :func:`covariance_floor` gives it, over the models in question

    Examples
    --------
    >>> lower_bound(10_000, 4, 0.8)
    0.002
    """
    require_sizes(n_items, n_sources, 1.0)
    require(0 <= e_min <= 1, "e_min lies in [0, 1]")
    return e_min / 8 * math.sqrt(n_sources / n_items)


def noise_of(n_sources: int, a_min: float, dependent: bool, abstain_rate: float | None) -> float:
    """What stands over √n in Theorem 1; arguments as in :func:`sampling_error_bound`."""
    require(abstain_rate is None or 0 < abstain_rate <= 1, "abstain_rate is a share above 0, or None")
    one = NORM_ONE * C_ONE * math.sqrt(n_sources)
    two = NORM_TWO * C_TWO * n_sources / math.sqrt(1.0 if abstain_rate is None else abstain_rate)
    return a_min**-5 * (one + (two if dependent else 0.0))
