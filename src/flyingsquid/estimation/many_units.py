"""Joint votes of dependent sources given a truth of K classes.

For a unit C with joint votes l, P(λ_C = l, Y = k) = P(l) π_k + hₗₖ, and hₗ sums to 0. A source p that the
truth separates from the unit has Cov(1{λ_C = l}, 1{λ_p = v}) = Σ_k hₗₖ P(λ_p = v | Y = k): linear in hₗ, and
least squares over all such sources and votes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.contrasts import Instruments
from flyingsquid.estimation.margins import fit_margins
from flyingsquid.estimation.units import UnitTable
from flyingsquid.votes.packing import all_patterns

Array = NDArray[np.float64]
# Cells with fewer items than this lean on the sources one by one.
_ENOUGH_ITEMS = 30.0
_NEXT_TO_NOTHING = 1e-6


def many_unit_table(
    sources: tuple[int, ...],
    separator: tuple[int, ...],
    counts: NDArray[Any],
    n_items: float,
    single: Array,
    balance: Array,
    outside: NDArray[np.intp],
    instruments: Instruments,
) -> UnitTable:
    """Solve for one unit of s sources.

    Parameters
    ----------
    counts : array of shape ((K + 1)^s, 1 + K b)
        Joint votes, alone and with the votes of the b sources of a block, class by class.
    single : array of shape (s, K, K + 1)
        P(vote = v | Y = k) of the sources of the unit one by one.
    balance : array of shape (K,)
    outside : positions in the block of the sources that are ``instruments``
    """
    n_classes = len(balance)
    states = np.asarray(counts[:, 0] / n_items, np.float64)
    votes = counts[:, 1:].reshape(len(counts), n_classes, -1)[:, :, outside] / n_items
    moved = votes - states[:, None, None] * votes.sum(axis=0)
    pull = np.einsum("lvs,sv,svc->lc", moved, instruments.scale, instruments.design, optimize=True)
    system = np.einsum("svc,svd->cd", instruments.design, instruments.design)
    latent = np.linalg.lstsq(system, pull.T, rcond=1e-12)[0]
    joint = states[:, None] * balance + latent.T @ instruments.basis.T
    alone = _one_by_one(single, balance)
    # Cells with few items are pulled towards what the sources say one by one.
    weight = np.minimum(n_items * states / _ENOUGH_ITEMS, 1.0)[:, None]
    joint = weight * joint + (1 - weight) * alone * states[:, None]
    # No cell below half a vote, because no rate can be seen to be smaller; "says nothing" stays possible.
    floor = np.minimum(0.5 / n_items, states[:, None] * balance)
    seen = states > 0
    found = alone * (_NEXT_TO_NOTHING / n_items)
    found[seen] = fit_margins(np.maximum(joint, floor)[seen], states[seen], balance)
    table = (found / found.sum(axis=0)).T
    return UnitTable(sources, separator, table)


def silence_says_nothing(unit: UnitTable, balance: Array) -> UnitTable:
    """The same unit if who votes does not depend on the truth, only what they say.

    ``balance`` of shape (K,) is P(Y = k).
    """
    n_classes = len(balance)
    silent = all_patterns(len(unit.sources), n_classes) < 0
    voting = silent @ 2 ** np.arange(len(unit.sources))  # who votes in each state, as a number
    size = 2 ** len(unit.sources)
    given = np.stack([np.bincount(voting, row, minlength=size) for row in unit.table])
    share = np.divide(unit.table, given[:, voting], out=np.zeros_like(unit.table), where=given[:, voting] > 0)
    return replace(unit, table=share * (balance @ given)[voting])


def _one_by_one(single: Array, balance: Array) -> Array:
    """P(Y = k | λ_C = l) if the sources were independent, shape ((K + 1)^s, K)."""
    n_classes = len(balance)
    patterns = all_patterns(len(single), n_classes)
    scores = np.tile(np.log(balance), (len(patterns), 1))
    for column, table in enumerate(single):
        # No vote, -1, reads the last column. What is impossible on its own is next to it.
        scores += np.log(np.maximum(table, _NEXT_TO_NOTHING)).T[patterns[:, column]]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
