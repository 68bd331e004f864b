"""Accuracies from the class balance: aᵢ = E[λᵢ] / E[Y] (Fu et al. 2020, appendix C.2).

Holds when a source's errors are symmetric, and needs neither triplets nor a third source. It
divides by E[Y], so it is only as good as the class balance is lopsided and known. One source is
solved that way, the one whose mean stands farthest from 0; the others also follow from it by
aᵢ = E[λᵢλᵣ]/aᵣ, and the two estimates are pooled by their precision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.estimation.signed import SignedMoments
from flyingsquid.exceptions import NotIdentifiableError

Array = NDArray[np.float64]
# E[Y] must stand this many standard errors of E[λ] away from 0.
_NEEDED_ERRORS = 3.0


def accuracies_from_balance(
    signed: SignedMoments, balance: Array, names: tuple[str, ...], groups: NDArray[np.intp] | None = None
) -> tuple[Array, Array]:
    """E[λᵢY] with its sign and its standard error, shape (m,) each, for ``balance`` (P(Y=-1), P(Y=+1)).

    Sources with equal numbers in ``groups`` may depend on each other; they are not compared.

    Raises
    ------
    NotIdentifiableError
        If E[Y] is too close to 0 for the number of items, or the best source's accuracy is not
        known to be different from 0.
    """
    expected = float(balance[1] - balance[0])
    mean, coverage, n = signed.mean, signed.coverage, signed.n_items
    noise = np.sqrt(np.maximum(coverage - mean**2, 0) / n)
    reference = int(np.argmax(np.abs(mean) / np.maximum(noise, 1e-150)))
    if abs(expected) < _NEEDED_ERRORS * noise[reference] or expected == 0:
        raise NotIdentifiableError(
            f'method="marginal" divides by E[Y] = {expected:.3g}, which is too close to 0 at {n:,.0f} items. '
            'Pass the true `class_balance` if it is imbalanced, or use method="triplet", which needs three '
            "sources and no balance."
        )
    direct, error = mean / expected, noise / abs(expected)
    if abs(direct[reference]) <= error[reference]:
        raise NotIdentifiableError(
            "no source's mean vote differs from 0 by more than its noise; the best, "
            f"{told(names[reference])}, has {mean[reference]:.3g} ± {noise[reference]:.2g}. Add items, or "
            "sources for a triplet method"
        )
    apart = np.ones(len(mean), np.bool_) if groups is None else groups != groups[reference]
    accuracies, error = _pool(direct, error, signed, reference, apart)
    # Sampling noise can carry an estimate past the bound that every |E[λY]| obeys.
    return np.clip(accuracies, -coverage, coverage), error


def _pool(
    direct: Array, error: Array, signed: SignedMoments, reference: int, apart: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Add what the products with the reference source say; delta-method errors."""
    base, base_error = direct[reference], error[reference]
    product = signed.second[reference]
    by_product = product / base
    product_error = np.hypot(signed.standard_error[reference] / base, by_product * base_error / base)
    usable = apart & (signed.overlap[reference] > 0) & (product_error > 0) & (error > 0)
    precision = np.where(usable, 1 / np.maximum(product_error, 1e-150) ** 2, 0.0)
    own = np.where(usable, 1 / np.maximum(error, 1e-150) ** 2, 1.0)
    pooled = (own * direct + precision * by_product) / (own + precision)
    return pooled, np.where(usable, np.sqrt(1 / (own + precision)), error)
