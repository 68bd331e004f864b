"""Standard errors of accuracies for many classes, around what the method finds on endless items.

*Agreement.* An accuracy is a smooth function of the votes cast and of the other votes that they met. What one
item moves is a product of few numbers, so all items are gone through once (the infinitesimal jackknife).

*Any other route.* Items are dealt into groups, and the fit is repeated without each of them (the
delete-a-group jackknife).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from flyingsquid.estimation.agreement import PRIOR_RIGHT, PRIOR_VOTES, sparse_agreement_tables
from flyingsquid.estimation.gold_many import ManyGold
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.estimation.refine import Passes
from flyingsquid.moments import Moments
from flyingsquid.votes.one_hot import OneHot

Array = NDArray[np.float64]
GROUPS = 10

_CHUNK_CELLS = 1 << 22


def agreement_errors(moments: Moments, over: Passes, balance: Array) -> Array:
    """Standard errors of the accuracies by agreement, shape (m,), for a balance that was not estimated.

    NaN for a source with fewer than two votes.
    """
    m = moments.n_sources
    if over.votes is None:
        return np.full(m, np.nan)
    effect = _Effect.of(moments, balance)
    n_classes, votes = moments.n_classes, over.votes
    share = np.ones(votes.n_items) if over.weights is None else np.asarray(over.weights, np.float64)
    total, squares = np.zeros(m), np.zeros(m)
    rows = max(1, _CHUNK_CELLS // max(m, n_classes))
    for start in range(0, votes.n_items, rows):
        cast = OneHot.of(votes.codes[start : start + rows], n_classes)
        moves = effect.of_votes(cast)
        item, source, _ = cast.entries()
        counts = share[start : start + rows][item]
        total += np.bincount(source, counts * moves, minlength=m)
        squares += np.bincount(source, counts * moves**2, minlength=m)
    times = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    variance = np.maximum(squares - total**2 / share.sum(), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(times > 1, np.sqrt(variance * times / (times - 1)), np.nan)


class _Effect:
    """How much one vote moves the accuracy of its source: directly, and by the other votes that it meets.

    With F[v, k] the expected votes v on items of class k, and R[k] their sum over v, the accuracy is
    Σ π_k F[k, k]/R[k]. A vote v that meets t_k others for class k moves F[v, k] by
    s_k + (c/(T + 4))(t_k - τ s_k), where s is its spread over the classes, c the votes v of the source, T the
    others that all these met, and τ = Σ t_k.
    """

    def __init__(self, direct: Array, by_met: Array, right: Array, slope: Array) -> None:
        self.direct, self.by_met, self.right, self.slope = direct, by_met, right, slope

    @classmethod
    def of(cls, moments: Moments, balance: Array) -> _Effect:
        tables, others = sparse_agreement_tables(moments), moments.sparse_others_votes()
        m, n_classes = moments.n_sources, moments.n_classes
        met = others.by_vote() + PRIOR_VOTES
        by_met = np.asarray(moments.vote_counts, np.float64) / met
        right = balance / tables.totals  # of F[v, v]
        slope = right * tables.right()  # of R[k], its sign turned
        wrong = (1 - PRIOR_RIGHT) / (n_classes - 1)
        source, vote, label, count = others.entries()
        spread = np.bincount(vote * m + source, count * slope[source, label], minlength=n_classes * m)
        lost = spread.reshape(n_classes, m).T + PRIOR_VOTES * (
            wrong * slope.sum(axis=1, keepdims=True) + (PRIOR_RIGHT - wrong) * slope
        )
        won = right * (others.right() + PRIOR_VOTES * PRIOR_RIGHT)
        return cls((won - lost) / met, by_met, right, slope)

    def of_votes(self, cast: OneHot) -> Array:
        """The same for each vote, in the order of ``cast.entries()``."""
        item, source, vote = cast.entries()
        lost, said = cast.other_votes(self.slope)
        others = cast.n_votes[item] - 1
        direct = self.direct[source, vote]
        met = self.right[source, vote] * said - lost - others * direct
        return np.asarray(direct + self.by_met[source, vote] * met)


def group_errors(refit: Callable[[NDArray[np.intp]], Array], n_items: int) -> Array:
    """Standard errors of what ``refit(rows)`` gives, by leaving out one group of items after the other.

    They are scaled so that 1.96 of them reach as far as Student's t with as few groups would. Rows are dealt
    to groups with a fixed seed, because items may come in an order.
    """
    groups = min(GROUPS, n_items)
    dealt = np.random.default_rng(0).permutation(n_items) % groups
    found = np.stack([refit(np.flatnonzero(dealt != group)) for group in range(groups)])
    spread = np.sqrt((groups - 1) / groups * ((found - found.mean(axis=0)) ** 2).sum(axis=0))
    return np.asarray(spread * stdtrit(groups - 1, 0.975) / NORMAL_95)


def part_of(over: Passes, rows: NDArray[np.intp]) -> Passes:
    """The same on some items."""
    return Passes(
        None if over.votes is None else over.votes[rows],
        None if over.weights is None else over.weights[rows],
        None if over.known is None else over.known[rows],
    )


def gold_of(over: Passes) -> ManyGold | None:
    """What the sources did on the items whose class is known; None where none is."""
    if over.votes is None or over.known is None or not (over.known >= 0).any():
        return None
    return ManyGold.of(over.votes, over.known, over.weights)
