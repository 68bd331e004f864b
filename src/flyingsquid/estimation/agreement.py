"""Any number of classes, from pair counts alone: a source is judged by what the others say on its items.

Where source i votes v, the other votes on the same items spread over the classes. That spread, smoothed,
stands in for the truth: P(Y = k | i votes v). The tables P(i votes v | Y = k) follow by Bayes' rule, for
all classes at once. The truth is blurred by the others' errors, so tables are less sure than they should
be; they do not collapse on sparse or one-class sources, and they need one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.gold import ManyGold
from flyingsquid.moments import Moments, SparseTables, VotesByClass

Array = NDArray[np.float64]
# What is believed before any vote is seen: so many votes, this share of them right.
PRIOR_VOTES, PRIOR_RIGHT = 4.0, 0.7
# What the others say where a source votes for one class is worth so many gold labels, at most.
OTHERS_WORTH = 50.0


def prior_table(n_classes: int, gold: ManyGold | None = None) -> Array:
    """P(vote = v | Y = k) before any vote is seen, shape (K, K) with axes truth, vote."""
    table = np.full((n_classes, n_classes), (1 - PRIOR_RIGHT) / (n_classes - 1))
    meaning = np.arange(n_classes) if gold is None else gold.meaning
    table[meaning, np.arange(n_classes)] = PRIOR_RIGHT
    return table


def agreement_tables(moments: Moments, gold: ManyGold | None = None) -> Array:
    """P(source i votes v | Y = k, it votes), shape (m, K, K) with axes source, truth, vote.

    Gold labels join: see :func:`parts_of_counts`.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 1], [2, 2, 0], [2, 2, 1]] * 50
    >>> tables = agreement_tables(Moments.of(votes))
    >>> tables[0].diagonal().round(1), tables[2].diagonal().round(1)  # the third never says 2
    (array([0.7, 0.7, 1. ]), array([1., 1., 0.]))
    """
    n_classes = moments.n_classes
    others, believed = moments.others_votes(), prior_table(n_classes, gold)
    cast = np.asarray(moments.vote_counts, np.float64)
    if gold is not None:
        others = others[:, :, np.argsort(gold.meaning)]
    known = None if gold is None else gold.votes.by_vote()
    by_others, by_known = parts_of_counts(cast, others.sum(axis=2), known)
    # Votes v on items of class k, (m, v, k); believed as P(Y = k | vote v) too, for an even balance.
    expected = by_others[:, :, None] * (others + PRIOR_VOTES * believed.T)
    if gold is not None:
        expected += by_known[:, :, None] * gold.votes.to_array()
    return smoothed_tables(expected.transpose(0, 2, 1), believed)


def sparse_agreement_tables(moments: Moments, gold: ManyGold | None = None) -> SparseTables:
    """The same without the cells that are alike, for any number of sources and classes."""
    n_classes = moments.n_classes
    others, cast = moments.sparse_others_votes(), np.asarray(moments.vote_counts, np.float64)
    meaning = np.arange(n_classes)
    if gold is not None:
        meaning = gold.meaning
        others = others.with_classes(meaning)
    known = None if gold is None else gold.votes.by_vote()
    by_others, by_known = parts_of_counts(cast, others.by_vote(), known)
    prior = PRIOR_VOTES * (1 + by_others)
    wrong = (1 - PRIOR_RIGHT) / (n_classes - 1)
    right = VotesByClass.on_one_class((PRIOR_RIGHT - wrong) * prior, meaning)
    beyond = others.scaled(by_others) + right
    if gold is not None:
        beyond = beyond + gold.votes.scaled(by_known)
    return SparseTables.from_counts(wrong * prior, beyond, np.minimum(moments.coverage, 1.0))


def parts_of_counts(cast: Array, met: Array, known: Array | None) -> tuple[Array, Array]:
    """What one other vote, and one known vote, adds to the expected counts; shape (m, K) each, by vote.

    Parameters
    ----------
    cast : array of shape (m, K)
        How often each source voted what.
    met : array of shape (m, K)
        Votes of others on those items.
    known : array of shape (m, K), or None
        How often each source voted what on items whose class is known.

    Notes
    -----
    Votes on known items count for their class. The others are spread over the classes as the votes that they
    met, which are worth :data:`OTHERS_WORTH` known votes at most: the others err, however many they are.
    """
    if known is None:
        return cast / (met + PRIOR_VOTES), np.ones_like(cast)
    worth = np.minimum(met + PRIOR_VOTES, OTHERS_WORTH)
    left = np.maximum(cast - known, 0.0) / (worth + known)
    return left * worth / (met + PRIOR_VOTES), left + 1.0


def smoothed_tables(expected: Array, believed: Array | None = None) -> Array:
    """Tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote.

    ``believed`` of shape (K, K), axes truth and vote, is the table before any vote is seen.
    """
    prior = prior_table(expected.shape[1]) if believed is None else believed
    full = expected + PRIOR_VOTES * prior
    return np.asarray(full / full.sum(axis=2, keepdims=True))
