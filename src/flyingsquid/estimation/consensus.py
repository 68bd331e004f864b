"""What a vote weighs, from pair counts alone: a vote that others side with more often weighs more.

Built so that it cannot go far wrong. A source with few votes weighs what its class weighs on average; no vote
weighs nothing, none weighs everything; near-copies share one weight. Where sources vote for one class only,
the class that is voted for less is believed more, because a rare vote says more than a frequent one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.copies import near_copies
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# A source is taken for the average of its class until it has shown more than this many votes.
_AVERAGE_VOTES = 20.0
_LEAST_WEIGHT, _MOST_WEIGHT = 0.2, 3.0
# Agreement is kept off 0 and 1, where odds have no end.
_OFF_THE_END = 0.01
# Votes of one-sided sources weigh share^-power of their class; power 1 would even the classes out.
_BALANCING = 1 / 3
_RAREST = 0.01
# A source that was this unlikely to vote for one class only by chance is one-sided.
_BY_CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class VoteWeights:
    """What every vote weighs.

    Attributes
    ----------
    weights : array of shape (m, K)
        Of source i's vote for class k.
    one_sided : mask of shape (m,)
        Sources that vote for one class only, and not for want of votes.
    copies : array of shape (m,)
        How many near-copies of each source there are, itself included.
    groups : integer array of shape (m,)
        Near-copies have equal numbers.
    """

    weights: Array
    one_sided: NDArray[np.bool_]
    copies: Array
    groups: NDArray[np.intp]


def vote_weights(moments: Moments) -> VoteWeights:
    """Weigh every vote of every source.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1_000)
    >>> right = rng.random((1_000, 4)) < [0.9, 0.8, 0.8, 0.5]
    >>> weights = vote_weights(Moments.of(np.where(right, y[:, None], 1 - y[:, None]))).weights
    >>> weights.mean(axis=1).argsort().tolist()[::3]  # the worst and the best
    [3, 0]
    """
    cast = np.asarray(moments.vote_counts, np.float64)
    one_sided, groups = is_one_sided(cast), near_copies(moments)
    copies = np.bincount(groups)[groups].astype(np.float64)
    sides, met = moments.votes_met(groups)
    weights = _by_agreement(cast, sides, met, one_sided)
    # A source that votes on everything says as much by voting as by silence: nothing.
    telling = np.where(one_sided, 1 - np.minimum(moments.coverage, 1.0), 1.0) / copies
    weights *= telling[:, None]
    weights *= _against_frequent_classes(cast * telling[:, None], one_sided)
    return VoteWeights(weights, one_sided, copies, groups)


def is_one_sided(cast: Array) -> NDArray[np.bool_]:
    """Sources that vote for one class only, and not for want of votes, shape (m,); ``cast`` is (m, K)."""
    share = (cast.sum(axis=0) + 0.5) / (cast.sum() + 0.5 * cast.shape[1])
    voted, only = cast.sum(axis=1), cast.argmax(axis=1)
    return np.asarray((cast.max(axis=1) == voted) & (voted * np.log(share[only]) < np.log(_BY_CHANCE)))


def _by_agreement(cast: Array, sides: Array, met: Array, one_sided: NDArray[np.bool_]) -> Array:
    """Weights by how often others side with a vote, as odds beside those of its class on average, (m, K)."""
    # Many others on one item are one piece of evidence about that item, not many.
    others = np.maximum(np.divide(met, cast, out=np.ones_like(met), where=cast > 0), 1.0)
    sides, met = sides / others, met / others
    overall = sides.sum() / met.sum() if met.sum() > 0 else 0.5
    by_class = np.divide(
        sides.sum(axis=0), met.sum(axis=0), out=np.full(cast.shape[1], overall), where=met.sum(axis=0) > 0
    )
    of_vote = (sides + _AVERAGE_VOTES * by_class) / (met + _AVERAGE_VOTES)
    of_source = (sides.sum(axis=1) + _AVERAGE_VOTES * overall) / (met.sum(axis=1) + _AVERAGE_VOTES)
    weights = _odds(of_vote) / _odds(by_class)
    by_source = (_odds(of_source) / _odds(np.asarray(overall)))[:, None]
    # Of a source that uses several classes its votes for the others tell too.
    weights = np.where(one_sided[:, None], weights, (weights + by_source) / 2)
    return np.clip(weights, _LEAST_WEIGHT, _MOST_WEIGHT)


def _against_frequent_classes(cast: Array, one_sided: NDArray[np.bool_]) -> Array:
    """Factor for each class, shape (K,), as far as votes come from one-sided sources."""
    total = cast.sum()
    if not total > 0:
        return np.ones(cast.shape[1])
    relative = cast.sum(axis=0) / total * cast.shape[1]
    return np.maximum(relative, _RAREST) ** (-_BALANCING * cast[one_sided].sum() / total)


def _odds(share: Array) -> Array:
    share = np.clip(share, _OFF_THE_END, 1 - _OFF_THE_END)
    return np.asarray(share / (1 - share))
