"""Any number of classes, from pair counts alone: a source is judged by what the others say on its items.

Where source i votes v, the other votes on the same items spread over the classes. That spread, smoothed,
stands in for the truth: P(Y = k | i votes v). The tables P(i votes v | Y = k) follow by Bayes' rule, for
all classes at once. The truth is blurred by the others' errors, so tables are less sure than they should
be; they do not collapse on sparse or one-class sources, and they need one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.estimation.gold_many import ManyGold
from flyingsquid.estimation.sparse_tables import SparseTables, scaled_rows, sparse_others_votes
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# What is believed before any vote is seen: so many votes, this share of them right.
PRIOR_VOTES, PRIOR_RIGHT = 4.0, 0.7
# What the others say where a source votes for one class is worth so many known labels, at most.
OTHERS_WORTH = 50.0


def others_votes(moments: Moments) -> Array:
    """How the other votes spread where a source votes, shape (m, K, K).

    ``[i, v, k]`` counts votes of other sources for class k on items that source i votes v on.
    """
    block, n_classes, m = moments.blocks[0], moments.n_classes, moments.n_sources
    if isinstance(block, csr_array):
        by_class = csr_array((block.data, block.indices // m, block.indptr), (n_classes * m, n_classes))
        sums = by_class.toarray().astype(np.float64)  # over all sources j
        total = sums.reshape(n_classes, m, n_classes).transpose(1, 0, 2).copy()
    else:
        total = moments.pair_counts.sum(axis=3).transpose(2, 0, 1).astype(np.float64)
    at = np.arange(n_classes)
    total[:, at, at] -= moments.vote_counts  # less the source itself
    return np.maximum(total, 0.0)


def prior_table(n_classes: int, gold: ManyGold | None = None) -> Array:
    """P(vote = v | Y = k) before any vote is seen, shape (K, K) with axes truth, vote."""
    table = np.full((n_classes, n_classes), (1 - PRIOR_RIGHT) / (n_classes - 1))
    meaning = np.arange(n_classes) if gold is None else gold.meaning
    table[meaning, np.arange(n_classes)] = PRIOR_RIGHT
    return table


def agreement_tables(moments: Moments, gold: ManyGold | None = None) -> Array:
    """P(source i votes v | Y = k, it votes), shape (m, K, K) with axes source, truth, vote.

    Known labels join: see :func:`parts_of_counts`.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 1], [2, 2, 0], [2, 2, 1]] * 50
    >>> tables = agreement_tables(Moments.of(votes))
    >>> tables[0].diagonal().round(1), tables[2].diagonal().round(1)  # the third never says 2
    (array([0.7, 0.7, 1. ]), array([1., 1., 0.]))
    """
    m, n_classes = moments.n_sources, moments.n_classes
    others, believed = others_votes(moments), prior_table(n_classes, gold)
    cast = np.asarray(moments.vote_counts, np.float64)
    if gold is not None:
        others = others[:, :, np.argsort(gold.meaning)]
    known = None if gold is None else cast_on(gold.votes, m)
    by_others, by_known = parts_of_counts(cast, others.sum(axis=2), known)
    # Votes v on items of class k, (m, v, k); believed as P(Y = k | vote v) too, for an even balance.
    expected = by_others[:, :, None] * (others + PRIOR_VOTES * believed.T)
    if gold is not None:
        expected += by_known[:, :, None] * gold.votes.toarray().reshape(n_classes, m, -1).transpose(1, 0, 2)
    return smoothed_tables(expected.transpose(0, 2, 1), believed)


def sparse_agreement_tables(moments: Moments, gold: ManyGold | None = None) -> SparseTables:
    """The same without the cells that are alike, for any number of sources and classes."""
    m, n_classes = moments.n_sources, moments.n_classes
    others, cast = sparse_others_votes(moments), np.asarray(moments.vote_counts, np.float64)
    meaning = np.arange(n_classes)
    if gold is not None:
        meaning = gold.meaning
        others = csr_array((others.data, meaning[others.indices], others.indptr), shape=others.shape)
    known = None if gold is None else cast_on(gold.votes, m)
    by_others, by_known = parts_of_counts(cast, cast_on(others, m), known)
    prior = PRIOR_VOTES * (1 + by_others)
    wrong = (1 - PRIOR_RIGHT) / (n_classes - 1)
    right = csr_array(
        ((PRIOR_RIGHT - wrong) * prior.T.ravel(), np.repeat(meaning, m), np.arange(n_classes * m + 1)),
        shape=others.shape,
    )
    beyond = scaled_rows(others, by_others) + right
    if gold is not None:
        beyond = beyond + scaled_rows(gold.votes, by_known)
    return SparseTables.of(wrong * prior, csr_array(beyond), np.minimum(moments.coverage, 1.0))


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


def cast_on(votes: csr_array, m: int) -> Array:
    """Row sums of a matrix whose row v m + i is "source i votes v", shape (m, K)."""
    return np.asarray(votes.sum(axis=1), np.float64).reshape(-1, m).T


def smoothed_tables(expected: Array, believed: Array | None = None) -> Array:
    """Tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote.

    ``believed`` of shape (K, K), axes truth and vote, is the table before any vote is seen.
    """
    prior = prior_table(expected.shape[1]) if believed is None else believed
    full = expected + PRIOR_VOTES * prior
    return np.asarray(full / full.sum(axis=2, keepdims=True))
