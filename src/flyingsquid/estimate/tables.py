"""Accuracies to tables P(vote | truth), the label model parameters of one source."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ROUNDS = 3


def vote_tables(accuracies: Array, rates: Array, balance: Array, n_items: float) -> Array:
    """P(vote = v | Y = k), shape (m, 2, 3); columns class 0, class 1, no vote.

    Parameters
    ----------
    accuracies : array of shape (m,)
        aᵢ = E[λᵢY].
    rates : array of shape (m, 2)
        Observed P(λ = -1), P(λ = +1).
    balance : array of shape (2,)
        P(Y = -1), P(Y = +1).

    Notes
    -----
    The solution of the paper's A₁μ = r (equation 2): P(Y=y, λ=l) = (P(λ=l) + y hₗ)/2 with
    h₊ + h₋ = e c, h₊ - h₋ = a, h₀ = e q₀, where e = E[Y], c the coverage and q₀ = 1 - c. Both
    observed margins, the vote rates and the class balance, are kept.
    """
    e = balance[1] - balance[0]
    coverage = rates.sum(axis=1)
    observed = np.column_stack([rates, 1 - coverage])
    latent = np.column_stack(
        [(e * coverage - accuracies) / 2, (e * coverage + accuracies) / 2, e * (1 - coverage)]
    )
    # No error rate can be seen to be below half a vote, so no cell of a vote is smaller.
    bound = np.maximum(observed - np.array([1, 1, 0]) / n_items, 0)
    latent = clip_and_restore(latent, bound, e)
    joint = np.stack([observed - latent, observed + latent], axis=1) / 2
    return np.asarray(joint / balance[None, :, None])


def clip_and_restore(latent: Array, bound: Array, total: float) -> Array:
    """Bring ``|latent| <= bound`` about while the cells of each row still sum to ``total``.

    Clipping alone would change the class balance that a table implies; rescaling would change
    the observed vote rates. The shift goes to the cells that are not at their bound.
    """
    cells = np.clip(latent, -bound, bound)
    for _ in range(_ROUNDS):
        excess = total - cells.sum(axis=1)
        room = np.where(excess[:, None] > 0, cells < bound, cells > -bound)
        free = room.sum(axis=1)
        step = np.divide(excess, free, out=np.zeros_like(excess), where=free > 0)
        cells = np.clip(cells + step[:, None] * room, -bound, bound)
    return np.asarray(cells)


def vote_weights(tables: Array, accuracies: Array, coverage: Array) -> Array:
    """log P(v | Y=1) - log P(v | Y=0) for the two votes, shape (m, 2).

    A vote that never occurred weighs 0. No vote counts more than twice the odds that the
    source's accuracy gives: under the model both votes have exactly those odds, and a table
    whose cell was clipped would otherwise let one rare vote decide every item.
    """
    cells = tables[:, :, :2]
    seen = (cells > 0).all(axis=1)
    ratio = np.divide(cells[:, 1], cells[:, 0], out=np.ones_like(cells[:, 0]), where=seen)
    size = np.minimum(np.abs(accuracies), coverage)
    with np.errstate(divide="ignore"):
        odds = np.divide(
            coverage + size, coverage - size, out=np.full_like(size, np.inf), where=size < coverage
        )
        limit = np.log(2 * odds)[:, None]
    return np.clip(np.log(ratio), -limit, limit)
