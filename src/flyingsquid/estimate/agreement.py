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

from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# What is believed before any vote is seen: so many votes, this share of them right.
PRIOR_VOTES, PRIOR_RIGHT = 4.0, 0.7


def others_votes(moments: Moments) -> Array:
    """How the other votes spread where a source votes, shape (m, K, K).

    ``[i, v, k]`` counts votes of other sources for class k on items that source i votes v on.
    """
    block, n_classes, m = moments.blocks[0], moments.n_classes, moments.n_sources
    if isinstance(block, csr_array):
        of_class = csr_array(np.repeat(np.eye(n_classes), m, axis=0))
        sums = np.asarray((block @ of_class).todense(), np.float64)  # over all sources j
        total = sums.reshape(n_classes, m, n_classes).transpose(1, 0, 2).copy()
    else:
        total = moments.pair_counts.sum(axis=3).transpose(2, 0, 1).astype(np.float64)
    at = np.arange(n_classes)
    total[:, at, at] -= moments.vote_counts  # less the source itself
    return np.maximum(total, 0.0)


def prior_table(n_classes: int) -> Array:
    """P(vote = v | Y = k) before any vote is seen, shape (K, K)."""
    table = np.full((n_classes, n_classes), (1 - PRIOR_RIGHT) / (n_classes - 1))
    np.fill_diagonal(table, PRIOR_RIGHT)
    return table


def agreement_tables(moments: Moments) -> Array:
    """P(source i votes v | Y = k, it votes), shape (m, K, K) with axes source, truth, vote.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 1], [2, 2, 0], [2, 2, 1]] * 50
    >>> tables = agreement_tables(Moments.of(votes))
    >>> tables[0].diagonal().round(1), tables[2].diagonal().round(1)  # the third never says 2
    (array([0.7, 0.7, 1. ]), array([1., 1., 0.]))
    """
    others, believed = others_votes(moments), prior_table(moments.n_classes)
    total = others.sum(axis=2, keepdims=True)
    # believed[k, v] is symmetric, so it serves as P(Y = k | vote v) too, for an even balance.
    truth = (others + PRIOR_VOTES * believed) / (total + PRIOR_VOTES)
    cast = np.asarray(moments.vote_counts, np.float64)
    expected = cast[:, :, None] * truth  # votes v on items of class k, (m, v, k)
    return smoothed_tables(expected.transpose(0, 2, 1))


def smoothed_tables(expected: Array) -> Array:
    """Tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote."""
    n_classes = expected.shape[1]
    full = expected + PRIOR_VOTES * prior_table(n_classes)
    return np.asarray(full / full.sum(axis=2, keepdims=True))
