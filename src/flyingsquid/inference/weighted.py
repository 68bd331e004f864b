"""Posteriors by weighted votes, mixed with confusion tables by the trust in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes.codes import FEW_CLASSES, Codes, OneHot
from flyingsquid.votes.grid import PatternGrid
from flyingsquid.votes.tallies import class_sums, has_votes

Array = NDArray[np.float64]
LEAST_PRIOR = 1e-300
"""Probabilities before any vote are kept above this, where their logarithm is finite."""
# Arrays (n, K) of few classes are stored class by class, because NumPy is several times as fast on a few long
# columns as on many short rows.
_BY_CLASS: Literal["F"] = "F"
EVEN_VOTE = 1.0
"""One vote, spread over the classes evenly or by a given class balance, joins the votes on every item."""


@dataclass(frozen=True, slots=True, eq=False)
class TableTerm:
    """Confusion tables as one part of a mixture.

    Attributes
    ----------
    logs : array of shape (m, K, K)
        log P(vote v | Y = k), axes source, truth, vote, times the factor of the source; 0 for one-sided
        sources. If abstentions count, it is relative to an abstention.
    weights : array of shape (m, K)
        Weight of a vote, used for one-sided sources.
    balance : array of shape (K,)
        P(Y = k) of an item without votes: the class balance, unless abstentions count.
    """

    logs: Array
    weights: Array
    balance: Array

    def of_sources(self, sources: NDArray[np.intp]) -> TableTerm:
        """Return the term for some sources."""
        return replace(self, logs=self.logs[sources], weights=self.weights[sources])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mixture:
    """Mixture of weighted votes, tables and plain majority vote, each with its share.

    Attributes
    ----------
    weights : array of shape (m, K)
        Weight of a vote of source i for class k.
    one_sided : mask of shape (m,)
        Sources that vote for one class only; they have weights but no tables.
    without_votes : array of shape (K,)
        P(Y = k) of an item without votes.
    prior : array of shape (K,) or None
        Distribution of the pseudo-vote that is added to every item: the class balance if it was given,
        otherwise uniform.
    tables : TableTerm or None
    trust : float
        Share of the tables in the posterior, for items that only sources of several classes vote on.
    anchored : TableTerm or None
        Tables that were kept close to the weighted votes.
    anchored_share : float
        Share of the anchored tables in the remaining part of the posterior; the rest is weighted votes.
    majority : float
        Share of plain majority vote.
    """

    weights: Array
    one_sided: NDArray[np.bool_]
    without_votes: Array
    prior: Array | None = None
    tables: TableTerm | None = None
    trust: float = 0.0
    anchored: TableTerm | None = None
    anchored_share: float = 0.0
    majority: float = 0.0

    def of_sources(self, sources: NDArray[np.intp]) -> Mixture:
        """Return the mixture for some sources; a posterior depends only on those that vote on the item."""
        return replace(
            self,
            weights=self.weights[sources],
            one_sided=self.one_sided[sources],
            tables=None if self.tables is None else self.tables.of_sources(sources),
            anchored=None if self.anchored is None else self.anchored.of_sources(sources),
        )


def mixture_posterior(codes: Codes, mixture: Mixture) -> Array:
    """Return P(Y = k | votes), shape (n, K), for dense (n, m) or sparse codes."""
    if mixture.tables is None and mixture.anchored is None and not mixture.majority:
        # Only weighted votes: sums over codes are faster than those over one-hot votes.
        labels, voted = shares_of(class_sums(codes, mixture.weights), mixture.prior), has_votes(codes)
        if not voted.all():
            labels[~voted] = mixture.without_votes
        return labels
    labels = np.empty((codes.shape[0], mixture.weights.shape[1]))
    for items, one_hot in OneHot.chunks(codes, labels.shape[1]):
        labels[items] = one_hot_posterior(one_hot, mixture)
    return labels


def one_hot_posterior(
    one_hot: OneHot | PatternGrid,
    mixture: Mixture,
    fallback: Array | None = None,
    by_tables: Array | None = None,
) -> Array:
    """Return P(Y = k | votes) for one-hot votes, shape (n, K).

    ``fallback`` and ``by_tables`` are its parts, :func:`fallback_posterior` and :func:`table_posterior`, if
    they have been computed already.
    """
    n_votes = one_hot.totals[:, None]
    if mixture.tables is None or not mixture.trust:
        by_tables = None
    elif by_tables is None:
        by_tables = table_posterior(one_hot, mixture.tables, mixture.one_sided)
    if by_tables is not None and mixture.trust == 1 and not (mixture.majority or mixture.one_sided.any()):
        return np.where(n_votes > 0, by_tables, mixture.without_votes)
    answer = fallback_posterior(one_hot, mixture) if fallback is None else fallback
    if by_tables is not None:
        several = one_hot @ np.tile(np.where(mixture.one_sided, 0.0, 1.0), one_hot.n_classes)
        trust = mixture.trust * several[:, None] / np.maximum(n_votes, 1e-12)
        answer = trust * by_tables + (1 - trust) * answer
    if mixture.majority:
        equal = shares_of(one_hot.class_sums(np.ones_like(mixture.weights)), mixture.prior)
        answer = (1 - mixture.majority) * answer + mixture.majority * equal
    return np.where(n_votes > 0, answer, mixture.without_votes)


def fallback_posterior(
    one_hot: OneHot | PatternGrid, mixture: Mixture, by_votes: Array | None = None
) -> Array:
    """Return the part of the posterior that does not depend on ``tables``, shape (n, K).

    ``by_votes`` are the labels by weighted votes, if they have been computed already.
    """
    if by_votes is None:
        by_votes = shares_of(one_hot.class_sums(mixture.weights), mixture.prior)
    answer = by_votes
    if mixture.anchored is not None:
        n_votes = one_hot.totals[:, None]
        anchored = table_posterior(one_hot, mixture.anchored, mixture.one_sided)
        added = 1 / one_hot.n_classes if mixture.prior is None else mixture.prior
        anchored = (n_votes * anchored + EVEN_VOTE * added) / (n_votes + EVEN_VOTE)
        answer = (1 - mixture.anchored_share) * answer + mixture.anchored_share * anchored
    return answer


def table_posterior(
    one_hot: OneHot | PatternGrid,
    term: TableTerm,
    one_sided: NDArray[np.bool_],
    of_one_sided: Array | None = None,
) -> Array:
    """Return P(Y = k | votes) by tables, and by shares of one-sided votes, shape (n, K).

    ``of_one_sided`` is the logarithm of these shares, if it has been computed already.
    """
    if of_one_sided is None and one_sided.any():
        of_one_sided = np.log(shares_of(one_hot.class_sums(np.where(one_sided[:, None], term.weights, 0.0))))
    if len(term.balance) == 2:  # one product and one exponential
        weights = (term.logs[:, 1] - term.logs[:, 0]).T.ravel()
        offset: Any = float(np.log(term.balance[1]) - np.log(term.balance[0]))
        if of_one_sided is not None:
            offset += of_one_sided[:, 1] - of_one_sided[:, 0]
        return one_hot.binary_posterior(weights, offset)
    return to_probabilities(table_scores(one_hot, term, of_one_sided))


def table_scores(one_hot: OneHot | PatternGrid, term: TableTerm, of_one_sided: Array | None) -> Array:
    """Return log P(Y = k, votes) by tables, plus ``of_one_sided`` if it is not None, shape (n, K)."""
    m, n_classes = term.weights.shape
    sums = one_hot @ term.logs.transpose(2, 0, 1).reshape(n_classes * m, n_classes)
    scores = np.add(sums, np.log(term.balance), order=_BY_CLASS if n_classes <= FEW_CLASSES else "C")
    return scores if of_one_sided is None else scores + of_one_sided


def shares_of(sums: Array, prior: Array | None = None) -> Array:
    """Return the share of each class in weighted votes and one vote that the prior splits, shape (n, K).

    ``sums`` of shape (n, K) are the sums of the weights for each class.
    """
    n_classes = sums.shape[1]
    added = EVEN_VOTE * (1 / n_classes if prior is None else prior)
    shares = np.add(sums, added, order=_BY_CLASS if n_classes <= FEW_CLASSES else "C")
    shares /= row_sums(shares)
    return shares


def best_class(labels: Array) -> Array:
    """Return hard labels, divided equally between tied classes, shape (n, K)."""
    best = (labels >= row_tops(labels) - 1e-9).astype(np.float64)
    return np.asarray(best / row_sums(best))


def to_probabilities(scores: Array) -> Array:
    """Turn log probabilities, up to a constant for each item, into probabilities, in place, (n, K)."""
    scores -= row_tops(scores)
    np.exp(scores, out=scores)
    scores /= row_sums(scores)
    return scores


def row_sums(values: Array) -> Array:
    """Sum over the classes, shape (n, 1)."""
    if values.shape[1] > FEW_CLASSES:
        return np.asarray(values.sum(axis=1, keepdims=True))
    total = values[:, 0].copy()
    for column in values.T[1:]:
        total += column
    return total[:, None]


def row_tops(values: Array) -> Array:
    """Return the maximum over the classes, shape (n, 1)."""
    if values.shape[1] > FEW_CLASSES:
        return np.asarray(values.max(axis=1, keepdims=True))
    top = values[:, 0].copy()
    for column in values.T[1:]:
        np.maximum(top, column, out=top)
    return top[:, None]
