"""The paper's linear system A_s μ_C = r_C for a unit of s sources (Fu et al. 2020, section 4.2).

Entries of r are P(∏_Z z = 1, λ_U = 0) for disjoint sets U of silent sources and Z of sources, with or without
Y in Z. Those without Y are counts. Those with Y come from triplets, from instruments, or from parity: a
product of two sources is independent of Y, and Y times a product of three is. docs/design/0005-graphs.md says
which entry is which, and where the appendix is misprinted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.votes.packing import all_patterns

Array = NDArray[np.float64]
Pair: TypeAlias = tuple[int, int]
LARGEST_SYSTEM = 3
"""Sources in a unit, at most."""
# E[λᵢλⱼλₖY] must be known this well.
_MOST_NOISE = 0.1
# How each source takes part in an entry of r.
_ABSENT, _IN_Z, _IN_U = range(3)


def system_matrix(s: int) -> Array:
    """A_s, shape (2·3^s, 2·3^s).

    Rows are entries of r: the last source slowest in the order absent, in Z, in U; Y fastest, absent then in
    Z. Columns are cells of μ: the last source slowest in the order 1, 0, -1; Y fastest, 1 then -1.

    >>> system_matrix(0).tolist(), system_matrix(2).shape
    ([[1.0, 1.0], [1.0, 0.0]], (18, 18))
    """
    same, other = np.array([[1.0, 1], [1, 0]]), np.array([[0.0, 0], [0, 1]])
    plain = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 0]])
    flipped = np.array([[0.0, 0, 0], [0, 0, 1], [0, 0, 0]])
    for _ in range(s):
        same, other = (
            np.kron(plain, same) + np.kron(flipped, other),
            np.kron(flipped, same) + np.kron(plain, other),
        )
    return same


def latent_of_system(
    states: Array,
    instrument: Array,
    accuracies: Array,
    expected: float,
    products: Mapping[Pair, float],
    n_items: float,
) -> Array:
    """E[1{λ_C = l} Y] by the linear system, shape (3^s,).

    Parameters
    ----------
    states : array of shape (3^s,)
        P(λ_C = l), in the order of ``all_patterns(s, 2)``.
    instrument : array of shape (3^s,)
        E[1{λ_C = l} z], where E[z | Y] = Y for a score z of separated sources.
    accuracies : array of shape (s,)
        E[λᵢY].
    expected : float
        E[Y].
    products : mapping from pairs (i, j), i < j, to E[λᵢλⱼY]
    """
    s = len(accuracies)
    votes = 2.0 * all_patterns(s, 2) - 1
    votes[votes < -1] = 0.0
    roles = itertools.product(range(3), repeat=s)  # the first of a tuple is the slowest: the last source
    entries = []
    for slow_first in roles:
        role = np.array(slow_first[::-1], np.intp)
        silent = (votes[:, role == _IN_U] == 0).all(axis=1)
        product = votes[:, role == _IN_Z].prod(axis=1)
        entries.append(float(states[silent & (product == 1)].sum()))
        entries.append(
            _entry_with_truth(
                role, silent, product, states, instrument, accuracies, expected, products, n_items
            )
        )
    # Without Y and with nothing in Z, the empty product is 1: P(λ_U = 0), as it should be.
    cells = np.linalg.solve(system_matrix(s), np.array(entries)).reshape([3] * s + [2])
    latent = cells[..., 0] - cells[..., 1]
    # From last source slowest, values 1, 0, -1 to the order of patterns: no vote, class 0, class 1.
    for axis in range(s):
        latent = np.take(latent, [1, 2, 0], axis=axis)
    return np.asarray(latent.ravel())


def _entry_with_truth(
    role: NDArray[np.intp],
    silent: NDArray[np.bool_],
    product: Array,
    states: Array,
    instrument: Array,
    accuracies: Array,
    expected: float,
    products: Mapping[Pair, float],
    n_items: float,
) -> float:
    """P(Y ∏_Z λ = 1, λ_U = 0)."""
    in_product, given = np.flatnonzero(role == _IN_Z), bool((role == _IN_U).any())
    observed = float((states * product)[silent].sum())
    if len(in_product) == 2 and not given:
        moment = products[int(in_product[0]), int(in_product[1])]
    elif len(in_product) % 2 == 0:  # no source, or two: independent of Y
        moment = expected * observed
    elif len(in_product) == 1 and not given:
        moment = float(accuracies[in_product[0]])
    elif len(in_product) == 1:
        moment = float((instrument * product)[silent].sum())
    else:
        noise = np.sqrt(float((states * product**2)[silent].sum()) / n_items)
        if noise > _MOST_NOISE * abs(expected):
            raise NotIdentifiableError(
                f"cliques='linear' divides by E[Y] = {expected:.3g} for three dependent sources, which is "
                f"too close to 0 at {n_items:,.0f} items. Use cliques='instrument', which does not"
            )
        moment = observed / expected
    return (float(states[silent].sum()) + moment - float(states[silent & (product == 0)].sum())) / 2
