"""Weights of votes, by how often other sources agree with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments import Moments, PairAgreement

Array = NDArray[np.float64]
# Pseudo-votes that shrink the weight of a vote to the average of its class, and limits of weights. With 40
# pseudo-votes, or without limits, results are the same (docs/design/0009-default.md).
_AVERAGE_VOTES = 20.0
_LEAST_WEIGHT, _MOST_WEIGHT = 0.2, 3.0
# Agreement is kept away from 0 and 1, where the odds are infinite.
_LEAST_SHARE = 0.01
# Votes of one-sided sources are weighted by share**-power of their class; power 1 would balance the classes.
_BALANCING = 1 / 3
_RAREST = 0.01
# Votes count equally if fewer sources than this cast nearly all votes, and by their weights from this many on
# (docs/design/0009-default.md).
_TWO_SOURCES, _THREE_SOURCES = 2.25, 2.75
# A source is one-sided if voting for one class only had at most this probability by chance.
_BY_CHANCE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class VoteWeights:
    """Weights of votes.

    Attributes
    ----------
    weights : array of shape (m, K)
        Weight of a vote of source i for class k.
    one_sided : mask of shape (m,)
        Sources that vote for one class only although they vote often.
    discounts : array of shape (m,)
        Factor for the tables of a source, because of the sources that it depends on: 1 if it is independent,
        0 if it is one-sided, because then it has no tables.
    """

    weights: Array
    one_sided: NDArray[np.bool_]
    discounts: Array


def vote_weights(moments: Moments, shared: Array | None, pairs: PairAgreement | None = None) -> VoteWeights:
    """Weight every vote of every source.

    Parameters
    ----------
    moments : Moments
    shared : array of shape (m, m) or None
        Share of the evidence of two sources that they have in common; see
        :class:`~flyingsquid.estimation.dependence.Dependence`. None if all are independent.
    pairs : PairAgreement, optional
        ``moments.compare_pairs()``, if it has been computed already.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1_000)
    >>> right = rng.random((1_000, 4)) < [0.9, 0.8, 0.8, 0.5]
    >>> moments = Moments.of(np.where(right, y[:, None], 1 - y[:, None]))
    >>> weights = vote_weights(moments, None).weights
    >>> weights.mean(axis=1).argsort().tolist()[::3]  # the worst and the best
    [3, 0]
    """
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    one_sided = is_one_sided(vote_counts)
    if shared is not None and shared.any():
        # Together, g sources that share r count as g / (1 + (g - 1) r) votes, on items that all vote on. Less
        # evidence for a source alone on its items would make EM underestimate its accuracy.
        first, second, overlap, *_ = moments.compare_pairs() if pairs is None else pairs
        twice = shared[first, second] * overlap
        both = sum(np.bincount(each, twice, len(vote_counts)) for each in (first, second))
        counts = 1 / (1 + both / np.maximum(vote_counts.sum(axis=1), 1e-300))
        agreeing, other_votes = moments.votes_of_others(counts, shared)
    else:
        counts = np.ones(len(vote_counts))
        agreeing, other_votes = moments.votes_of_others()
    weights = _by_agreement(vote_counts, agreeing, other_votes, one_sided)
    # The votes of a one-sided source that votes on every item carry no information.
    informative = np.where(one_sided, 1 - np.minimum(moments.coverage, 1.0), 1.0) * counts
    weights *= informative[:, None]
    if one_sided.any():
        weights *= _against_frequent_classes(vote_counts * informative[:, None], one_sided)
    # The number of sources is the inverse of the sum of their squared shares of the votes. If two sources
    # differ, their votes do not determine which of them is right.
    voted = vote_counts.sum(axis=1)
    number = voted.sum() ** 2 / max(voted @ voted, 1e-300)
    determined = max((number - _TWO_SOURCES) / (_THREE_SOURCES - _TWO_SOURCES), 0.0)
    if determined < 1:
        weights = (1 - determined) * counts[:, None] + determined * weights
    return VoteWeights(weights, one_sided, np.where(one_sided, 0.0, counts))


def is_one_sided(vote_counts: Array) -> NDArray[np.bool_]:
    """Return a mask of sources that vote often, but for one class only; ``vote_counts`` is (m, K)."""
    share = (vote_counts.sum(axis=0) + 0.5) / (vote_counts.sum() + 0.5 * vote_counts.shape[1])
    voted, only = vote_counts.sum(axis=1), vote_counts.argmax(axis=1)
    return np.asarray((vote_counts.max(axis=1) == voted) & (voted * np.log(share[only]) < np.log(_BY_CHANCE)))


def votes_per_item(moments: Moments, weights: VoteWeights) -> float:
    """Return the votes per item from sources of several classes, dependent sources counted once.

    Votes that were not asked for count as well: adaptive asking leaves out those that would hardly change a
    label, so the model of the votes so far is that of all votes.
    """
    n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1) + moments.missing[:, -1]
    return float((n_votes * weights.discounts).sum() / moments.n_items)


def _by_agreement(
    vote_counts: Array, agreeing: Array, other_votes: Array, one_sided: NDArray[np.bool_]
) -> Array:
    """Return weights (m, K): odds that others agree with a vote, relative to the average of its class."""
    # Many other votes on an item are one piece of evidence about that item.
    per_vote = np.divide(other_votes, vote_counts, out=np.ones_like(other_votes), where=vote_counts > 0)
    per_vote = np.maximum(per_vote, 1.0)
    agreeing, other_votes = agreeing / per_vote, other_votes / per_vote
    overall = agreeing.sum() / other_votes.sum() if other_votes.sum() > 0 else 0.5
    by_class = np.divide(
        agreeing.sum(axis=0),
        other_votes.sum(axis=0),
        out=np.full(vote_counts.shape[1], overall),
        where=other_votes.sum(axis=0) > 0,
    )
    of_vote = (agreeing + _AVERAGE_VOTES * by_class) / (other_votes + _AVERAGE_VOTES)
    of_source = (agreeing.sum(axis=1) + _AVERAGE_VOTES * overall) / (other_votes.sum(axis=1) + _AVERAGE_VOTES)
    weights = _odds(of_vote) / _odds(by_class)
    by_source = (_odds(of_source) / _odds(np.asarray(overall)))[:, None]
    # The votes of a source for the other classes are informative too.
    weights = np.where(one_sided[:, None], weights, (weights + by_source) / 2)
    return np.clip(weights, _LEAST_WEIGHT, _MOST_WEIGHT)


def _against_frequent_classes(vote_counts: Array, one_sided: NDArray[np.bool_]) -> Array:
    """Return a factor for each class, shape (K,), to the extent that votes come from one-sided sources."""
    total = max(float(vote_counts.sum()), 1e-300)
    relative = vote_counts.sum(axis=0) / total * vote_counts.shape[1]
    return np.maximum(relative, _RAREST) ** (-_BALANCING * vote_counts[one_sided].sum() / total)


def _odds(share: Array) -> Array:
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    return np.asarray(share / (1 - share))
