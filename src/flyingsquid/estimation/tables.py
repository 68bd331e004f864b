"""Tables P(vote | truth) of single sources, from accuracies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ROUNDS = 3
# The weight of a vote is at most this many times the odds of its source's accuracy.
_MOST_TIMES_ODDS = 2.0
# A shift below this share of the source's votes is sampling noise.
_WORTH_SAYING = 0.1


def vote_tables(
    accuracies: Array, rates: Array, balance: Array, n_items: float, *, capped: bool = True
) -> tuple[Array, NDArray[np.bool_]]:
    """Return P(vote = v | Y = k), shape (m, 2, 3); columns class 0, class 1, no vote.

    Parameters
    ----------
    accuracies : array of shape (m,)
        aᵢ = E[λᵢY].
    rates : array of shape (m, 2)
        Observed P(λ = -1), P(λ = +1).
    balance : array of shape (2,)
        P(Y = -1), P(Y = +1).
    capped : bool
        Whether the weight of a vote is limited to twice the odds of the accuracy of its source.

    Returns
    -------
    tables : array of shape (m, 2, 3)
    clipped : mask of shape (m,)
        Sources whose rates and accuracy contradict the balance, so that a cell was clipped.

    Notes
    -----
    The solution of the paper's A₁μ = r (equation 2): P(Y=y, λ=l) = (P(λ=l) + y hₗ)/2 with
    h₊ + h₋ = e c, h₊ - h₋ = a, h₀ = e q₀, where e = E[Y], c the coverage and q₀ = 1 - c. Both
    observed margins, the vote rates and the class balance, are kept.
    """
    e = float(balance[1] - balance[0])
    coverage = rates.sum(axis=1)
    silence = np.maximum(1 - coverage, 0)
    observed = np.column_stack([rates, silence])
    latent = np.column_stack([(e * coverage - accuracies) / 2, (e * coverage + accuracies) / 2, e * silence])
    low, high = _bounds(accuracies, observed, balance, n_items, _MOST_TIMES_ODDS if capped else np.inf)
    return _tables(latent, low, high, observed, balance)


def conditional_tables(
    latent: Array, rates: Array, balance: Array, n_items: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the tables of class-conditional sources, from ``latent`` E[1{vote} Y] of shape (m, 3)."""
    observed = np.column_stack([rates, np.maximum(1 - rates.sum(axis=1), 0)])
    uninformative = np.abs(balance[1] - balance[0]) * observed
    bound = np.maximum(observed - 1 / n_items, uninformative)  # half a vote, as in _bounds
    return _tables(latent, -bound, bound, observed, balance)


def _tables(
    latent: Array, low: Array, high: Array, observed: Array, balance: Array
) -> tuple[Array, NDArray[np.bool_]]:
    cells = clip_and_restore(latent, low, high, float(balance[1] - balance[0]))
    joint = np.stack([observed - cells, observed + cells], axis=1) / 2
    votes = observed[:, :2].sum(axis=1, keepdims=True)
    clipped = (np.abs(cells - latent) > _WORTH_SAYING * votes).any(axis=1)
    return np.clip(joint / balance[None, :, None], 0, 1), clipped


def _bounds(
    accuracies: Array, observed: Array, balance: Array, n_items: float, most_times_odds: float
) -> tuple[Array, Array]:
    """Return limits of E[1{vote} Y] for each cell, (m, 3) each; they always allow "no information".

    A cell cannot be negative, nor below half a vote, because smaller error rates cannot be observed. The
    likelihood ratio of a vote stays within twice the odds of its source's accuracy: under
    the model both votes have exactly those odds, and a clipped cell would otherwise let one rare vote
    decide every item.
    """
    e, coverage = float(balance[1] - balance[0]), observed[:, :2].sum(axis=1)
    uninformative = e * observed
    half_a_vote = np.maximum(observed - np.array([1, 1, 0]) / n_items, np.abs(uninformative))
    size = np.minimum(np.abs(accuracies), coverage)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(size < coverage, (coverage + size) / (coverage - size), np.inf)
        limits = []
        for ratio in (1 / (most_times_odds * odds), most_times_odds * odds):
            # P(l | Y=1)/P(l | Y=0) = ratio, solved for h with P(l) fixed.
            posterior = 1 / (1 + balance[0] / (balance[1] * ratio))
            limits.append(observed * (2 * posterior - 1)[:, None])
    low, high = limits
    # Abstaining carries no information under the model; restoring the sum may move it within its bounds.
    low[:, 2], high[:, 2] = -observed[:, 2], observed[:, 2]
    return np.maximum(low, -half_a_vote), np.minimum(high, half_a_vote)


def clip_and_restore(latent: Array, low: Array, high: Array, total: float) -> Array:
    """Clip to ``low <= latent <= high`` while the cells of each row still sum to ``total``.

    Clipping alone would change the class balance that a table implies; rescaling would change
    the observed vote rates. The difference is moved to cells that are not at a bound, at most once per cell.
    """
    cells = np.clip(latent, low, high)
    for _ in range(_ROUNDS):
        excess = total - cells.sum(axis=1)
        room = np.where(excess[:, None] > 0, cells < high, cells > low)
        free = room.sum(axis=1)
        step = np.divide(excess, free, out=np.zeros_like(excess), where=free > 0)
        cells = np.clip(cells + step[:, None] * room, low, high)
    return np.asarray(cells)


def vote_weights(tables: Array, *, absence_counts: bool) -> Array:
    """Return log P(v | Y=1) - log P(v | Y=0) for both votes and for no vote, shape (m, 3).

    Votes that never occurred have weight 0, and so do missing votes unless ``absence_counts``.
    """
    seen = (tables > 0).all(axis=1)
    ratio = np.divide(tables[:, 1], tables[:, 0], out=np.ones_like(tables[:, 0]), where=seen)
    weights = np.log(ratio)
    if not absence_counts:
        weights[:, 2] = 0.0
    return np.asarray(weights)
