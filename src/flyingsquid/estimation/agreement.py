"""Confusion tables for any number of classes: agreement of each source with the others, and EM from there.

On items where source i votes v, the votes of other sources have a distribution over the classes. The smoothed
distribution replaces the unknown truth: P(Y = k | i votes v). The tables P(i votes v | Y = k) follow by
Bayes' rule, for all classes at once. Because of the errors of the other sources, the tables are less certain
than they should be. They work for sparse and one-sided sources, and need one pass.

From this starting point, a few passes of EM suffice: labels from tables, tables from labels (Dawid and Skene
1979). Tables have a weak prior, so that a source with few votes does not look more accurate than its votes
support.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.inference.weighted import to_probabilities
from flyingsquid.moments import Moments, SparseTables, VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]
# The prior of a table: this many votes, and this share of them correct (docs/design/0007-many-classes.md, a).
PRIOR_VOTES, PRIOR_RIGHT = 4.0, 0.7
# The votes of other sources on the items where a source votes for a class count as at most this many gold
# labels. This number harms neither the log loss nor the accuracy (docs/design/0007-many-classes.md, j).
OTHER_VOTES_AS_GOLD = 50.0
PASSES = 10


def prior_table(n_classes: int, gold: GoldCounts | None = None) -> Array:
    """Return the prior of P(vote = v | Y = k), shape (K, K) with axes truth, vote."""
    table = np.full((n_classes, n_classes), (1 - PRIOR_RIGHT) / (n_classes - 1))
    meaning = np.arange(n_classes) if gold is None else gold.meaning
    table[meaning, np.arange(n_classes)] = PRIOR_RIGHT
    return table


def agreement_tables(moments: Moments, gold: GoldCounts | None = None) -> Array:
    """Estimate P(source i votes v | Y = k, it votes), shape (m, K, K) with axes source, truth, vote.

    :func:`parts_of_counts` describes how gold labels are used.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 1], [2, 2, 0], [2, 2, 1]] * 50
    >>> tables = agreement_tables(Moments.of(votes))
    >>> tables[0].diagonal().round(1), tables[2].diagonal().round(1)  # the third never votes 2
    (array([0.7, 0.7, 1. ]), array([1., 1., 0.]))
    """
    n_classes = moments.n_classes
    others, prior = moments.others_votes(), prior_table(n_classes, gold)
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    if gold is not None:
        others = others[:, :, np.argsort(gold.meaning)]
    known = None if gold is None else gold.votes.by_vote()
    by_others, by_known = parts_of_counts(vote_counts, others.sum(axis=2), known)
    # Votes v on items of class k, (m, v, k). With a uniform balance the prior also holds for P(Y = k | vote
    # v).
    expected = by_others[:, :, None] * (others + PRIOR_VOTES * prior.T)
    if gold is not None:
        expected += by_known[:, :, None] * gold.votes.to_array()
    return smoothed_tables(expected.transpose(0, 2, 1), prior)


def sparse_agreement_tables(moments: Moments, gold: GoldCounts | None = None) -> SparseTables:
    """Estimate the same tables without storing equal cells, for any number of sources and classes."""
    n_classes = moments.n_classes
    others, vote_counts = moments.sparse_others_votes(), np.asarray(moments.vote_counts, np.float64)
    meaning = np.arange(n_classes)
    if gold is not None:
        meaning = gold.meaning
        others = others.with_classes(meaning)
    known = None if gold is None else gold.votes.by_vote()
    by_others, by_known = parts_of_counts(vote_counts, others.by_vote(), known)
    prior = PRIOR_VOTES * (1 + by_others)
    wrong = (1 - PRIOR_RIGHT) / (n_classes - 1)
    right = VotesByClass.on_one_class((PRIOR_RIGHT - wrong) * prior, meaning)
    beyond = others.scaled(by_others) + right
    if gold is not None:
        beyond = beyond + gold.votes.scaled(by_known)
    return SparseTables.from_counts(wrong * prior, beyond, np.minimum(moments.coverage, 1.0))


def parts_of_counts(vote_counts: Array, other_votes: Array, known: Array | None) -> tuple[Array, Array]:
    """Return the contributions of other votes and of gold labels to the expected counts, (m, K) each.

    Parameters
    ----------
    vote_counts : array of shape (m, K)
        Number of votes of each source for each class.
    other_votes : array of shape (m, K)
        Votes of others on those items.
    known : array of shape (m, K), or None
        The same on items with gold labels.

    Notes
    -----
    Votes on items with gold labels count for their class. The others are spread over the classes like the
    votes of other sources on the same items, which count as at most :data:`OTHER_VOTES_AS_GOLD` gold labels,
    because other sources err, regardless of their number.
    """
    if known is None:
        return vote_counts / (other_votes + PRIOR_VOTES), np.ones_like(vote_counts)
    worth = np.minimum(other_votes + PRIOR_VOTES, OTHER_VOTES_AS_GOLD)
    left = np.maximum(vote_counts - known, 0.0) / (worth + known)
    return left * worth / (other_votes + PRIOR_VOTES), left + 1.0


def smoothed_tables(expected: Array, prior: Array) -> Array:
    """Return tables from expected counts of votes, both of shape (m, K, K) with axes source, truth, vote.

    ``prior`` of shape (K, K), axes truth and vote, is the prior.
    """
    full = expected + PRIOR_VOTES * prior
    return np.asarray(full / full.sum(axis=2, keepdims=True))


# ---------------------------------------------------------------------- EM


class Refined(NamedTuple):
    """Result of the EM passes: tables of shape (m, K, K), axes source, truth, vote; balance of shape (K,)."""

    tables: Array
    balance: Array


@dataclass(frozen=True, slots=True)
class EMVotes:
    """Votes that the EM passes read, with weights and gold labels.

    Attributes
    ----------
    votes : Votes of shape (n, m)
    weights : array of shape (n,), or None
        How often each item counts.
    known : array of shape (n,), or None
        Codes of gold labels, negative if unknown.
    """

    votes: Votes
    weights: NDArray[Any] | None = None
    known: NDArray[Any] | None = None

    @property
    def gold(self) -> GoldCounts | None:
        """The votes on items with gold labels; None without gold labels."""
        if self.known is None or not (self.known >= 0).any():
            return None
        return GoldCounts.of(self.votes, self.known, self.weights)

    def select(self, rows: NDArray[np.intp]) -> EMVotes:
        """Return some of the items."""
        return EMVotes(
            self.votes[rows],
            None if self.weights is None else self.weights[rows],
            None if self.known is None else self.known[rows],
        )


def refine(
    over: EMVotes,
    tables: Array,
    balance: Array,
    *,
    learn_balance: bool,
    passes: int = PASSES,
    gold: GoldCounts | None = None,
) -> Refined:
    """Refine ``tables`` and ``balance`` by passes over the votes. Items with gold labels keep their class."""
    votes, n_classes = over.votes, tables.shape[1]
    one_hot, prior = OneHot.of(votes.codes, n_classes), prior_table(n_classes, gold)
    share = None if over.weights is None else np.asarray(over.weights, np.float64)[:, None]
    for _ in range(passes):
        posterior = _posterior(one_hot, tables, balance)
        if over.known is not None:
            set_gold(posterior, over.known)
        counted = posterior if share is None else posterior * share
        expected = one_hot.vote_sums(counted)  # vote, source, truth
        tables = smoothed_tables(expected.transpose(1, 2, 0), prior)
        if learn_balance:
            balance = (counted.sum(axis=0) + 1) / (counted.sum() + n_classes)
    return Refined(tables, balance)


def set_gold(posterior: Array, known: NDArray[Any]) -> None:
    """Set the posterior of items with gold labels to their class, in place."""
    at = np.flatnonzero(known >= 0)
    posterior[at] = 0.0
    posterior[at, known[at]] = 1.0


def _posterior(one_hot: OneHot, tables: Array, balance: Array) -> Array:
    """Return P(Y = k | votes), shape (n, K), for one-hot votes."""
    logs = np.log(tables).transpose(2, 0, 1).reshape(-1, tables.shape[1])  # (K m, K): vote and source, truth
    return to_probabilities(one_hot @ logs + np.log(balance))
