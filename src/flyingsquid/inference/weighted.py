"""Posteriors by weighted votes, optionally mixed with confusion tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.codes import FEW_CLASSES, Codes, OneHot
from flyingsquid.votes.patterns import by_pattern
from flyingsquid.votes.tallies import class_sums

Array = NDArray[np.float64]
_CHUNK_CELLS = 1 << 21
_DOUBLE = np.dtype(np.float64)
EVEN_VOTE = 1.0
"""One vote, spread evenly over the classes, joins the votes of every item."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """Weights of votes, and tables to mix them with.

    Attributes
    ----------
    weights : array of shape (m, K)
        Weight of a vote of source i for class k.
    one_sided : mask of shape (m,)
        Sources whose tables are not used, only their weights.
    balance : array of shape (K,)
        P(Y = k): the prior of the tables.
    given : bool
        Whether the balance was given. Then weighted votes are multiplied by it, and an item without votes
        gets it; otherwise such an item gets a uniform posterior.
    logs : array of shape (m, K, K), or None
        log P(vote v | Y = k), axes source, truth, vote, divided by the number of near-copies; 0 for one-sided
        sources.
    trust : float
        Share of the posterior that comes from the tables; 0 without them.
    """

    weights: Array
    one_sided: NDArray[np.bool_]
    balance: Array
    given: bool = False
    logs: Array | None = None
    trust: float = 0.0

    @property
    def without_votes(self) -> Array:
        """P(Y = k) of an item without votes, shape (K,)."""
        return self.balance if self.given else np.full_like(self.balance, 1 / len(self.balance))


def opinion_posterior(codes: Codes, opinion: Opinion, dtype: np.dtype[Any] = _DOUBLE) -> NDArray[Any]:
    """Return P(Y = k | votes), shape (n, 1, K) with the task in the middle; in ``dtype`` if it is faster."""
    m, n_classes = opinion.weights.shape

    def labels(rows: Codes) -> Array:
        if opinion.logs is None:
            sums, has_votes = class_sums(rows, opinion.weights)
            answer = _leaning(_shares(sums), opinion)
            if not has_votes.all():
                answer[~has_votes] = opinion.without_votes
            return answer[:, None]
        answer = np.empty((rows.shape[0], 1, n_classes))
        step = max(1, _CHUNK_CELLS // max(m, n_classes))
        for start in range(0, rows.shape[0], step):
            cast = OneHot.of(rows[start : start + step], n_classes)
            answer[start : start + step, 0] = hot_posterior(cast, opinion)
        return answer

    return by_pattern(codes, labels, n_classes, dtype)


def hot_posterior(cast: OneHot, opinion: Opinion) -> Array:
    """Return P(Y = k | votes) for one-hot votes, shape (n, K)."""
    answer = _leaning(weighted_shares(cast, opinion.weights), opinion)
    n_votes = cast.totals[:, None]
    if opinion.logs is not None:
        of_tables = table_posterior(cast, opinion)
        of_tables = (n_votes * of_tables + EVEN_VOTE * opinion.without_votes) / (n_votes + EVEN_VOTE)
        answer = (1 - opinion.trust) * answer + opinion.trust * of_tables
    return np.where(n_votes > 0, answer, opinion.without_votes)


def _leaning(shares: Array, opinion: Opinion) -> Array:
    """Return shares of weights, multiplied by the balance if it was given, shape (n, K)."""
    if not opinion.given:
        return shares
    shares = shares * opinion.balance
    return np.asarray(shares / row_sums(shares))


def _shares(sums: Array) -> Array:
    """Return the share of each class in sums of weights and one even vote, shape (n, K)."""
    sums = sums + EVEN_VOTE / sums.shape[1]
    return np.asarray(sums / row_sums(sums))


def weighted_shares(cast: OneHot, weights: Array) -> Array:
    """Return the share of each class in the weights of an item's votes and one even vote, shape (n, K)."""
    return _shares(cast.class_sums(weights))


def table_posterior(cast: OneHot, opinion: Opinion) -> Array:
    """Return P(Y = k | votes) by tables, and by shares of one-sided votes, shape (n, K)."""
    m, n_classes = opinion.weights.shape
    scores = np.tile(np.log(opinion.balance), (cast.n_items, 1))
    if opinion.logs is not None:
        scores += cast @ opinion.logs.transpose(2, 0, 1).reshape(n_classes * m, n_classes)
    if opinion.one_sided.any():
        only = np.where(opinion.one_sided[:, None], opinion.weights, 0.0)
        scores += np.log(weighted_shares(cast, only))
    scores -= row_tops(scores)
    np.exp(scores, out=scores)
    scores /= row_sums(scores)
    return scores


def row_sums(values: Array) -> Array:
    """Sum over the classes, shape (n, 1). For few columns a product is faster than ``sum``."""
    return np.asarray(values @ np.ones((values.shape[1], 1)))


def row_tops(values: Array) -> Array:
    """Return the maximum over the classes, shape (n, 1)."""
    if values.shape[1] > FEW_CLASSES:
        return np.asarray(values.max(axis=1, keepdims=True))
    top = values[:, 0].copy()
    for column in values.T[1:]:
        np.maximum(top, column, out=top)
    return top[:, None]
