"""Weighted votes, and EM passes that are anchored to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import agreement_tables, sparse_agreement_tables
from flyingsquid.estimation.anchored import Rows, anchored_opinion, rows_of
from flyingsquid.estimation.consensus import VoteWeights, vote_weights
from flyingsquid.estimation.many import with_coverage
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.infer.weighted import Opinion, hot_posterior, row_sums, row_tops, weighted_shares
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes import Votes

Array = NDArray[np.float64]
# With more cells in all tables together only weights are learned, and tables are kept sparse.
MOST_DENSE = 1 << 24


@dataclass(frozen=True, slots=True)
class OpinionFit:
    """Parameters of labels by weighted votes.

    Attributes
    ----------
    opinion : Opinion
        How votes become labels, and the class balance behind them.
    balance_note : where the balance comes from, in words
    tables : ConfusionTables
        P(vote = v | Y = k) by the labels, no vote last.
    accuracies, errors : arrays of shape (m,)
        How often a vote agrees with the labels, and the standard error of that.
    silent, one_sided : masks of shape (m,)
    groups : integer array of shape (m,)
        Near-copies have equal numbers.
    gain : float
        Expected accuracy less that of majority vote, by its own account; NaN where only counts were at hand.
    method : what was used
    """

    opinion: Opinion
    balance_note: str
    tables: ConfusionTables
    accuracies: Array
    errors: Array
    silent: NDArray[np.bool_]
    one_sided: NDArray[np.bool_]
    groups: NDArray[np.intp]
    gain: float
    method: str


class _Told(NamedTuple):
    """Tables, accuracies, their standard errors, and the gain over majority vote."""

    tables: ConfusionTables
    accuracies: Array
    errors: Array
    gain: float


def votes_of_several_classes(moments: Moments, weighed: VoteWeights) -> float:
    """Votes an item that come from sources using several classes, near-copies counted once."""
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    return float((cast / weighed.copies)[~weighed.one_sided].sum() / moments.n_items)


def fit_opinion(
    moments: Moments,
    balance: Array | None,
    *,
    method: str,
    votes: Votes | None = None,
    sample_weight: NDArray[Any] | None = None,
    gold: NDArray[Any] | None = None,
    weighed: VoteWeights | None = None,
) -> OpinionFit:
    """Weigh the votes; where it pays and the votes are at hand, pass over them.

    Parameters
    ----------
    moments : Moments of K classes, all pairs counted
    balance : P(Y = k) as given, or None: even for "weighted", learned for "anchored_em"
    method : "weighted" or "anchored_em"
    votes, sample_weight : what was counted, where it is at hand
    gold : array of shape (n,), true classes of items, negative where unknown; passes hold on to them
    weighed : the weights of the votes, if they have been computed already
    """
    cast = np.asarray(moments.vote_counts)
    silent = cast.sum(axis=1) == 0
    if silent.all():
        raise NotIdentifiableError(
            f"no source votes on any of the {moments.n_items:,.0f} items; there is nothing to learn from"
        )
    cells = moments.n_sources * moments.n_classes**2
    if method == "anchored_em" and cells > MOST_DENSE:
        raise OptionError(
            f'method="anchored_em" needs confusion tables of {moments.n_sources:,} sources and '
            f"{moments.n_classes:,} classes, and their {cells:,} cells are too many; use "
            'method="weighted".'
        )
    weighed = vote_weights(moments) if weighed is None else weighed
    rows = None if votes is None else rows_of(votes, sample_weight, gold)
    note = "as given"
    if method == "anchored_em" and rows is not None:
        opinion = anchored_opinion(rows, weighed, balance)
        note = "by the labels of ten passes over the votes" if balance is None else note
    else:
        even = np.full(moments.n_classes, 1 / moments.n_classes)
        settled = even if balance is None else balance
        opinion = Opinion(weighed.weights, weighed.one_sided, settled, given=balance is not None)
        note = "even, the default of the method" if balance is None else note
    told = _by_labels(moments, opinion, rows)
    return OpinionFit(
        opinion,
        note,
        told.tables,
        told.accuracies,
        told.errors,
        silent,
        (cast > 0).sum(axis=1) == 1,
        weighed.groups,
        told.gain,
        method,
    )


def _by_labels(moments: Moments, opinion: Opinion, rows: Rows | None) -> _Told:
    """What the labels say of the sources; what the others say, where only counts are at hand."""
    m, n_classes = opinion.weights.shape
    voted = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    huge = m * n_classes**2 > MOST_DENSE
    if rows is None:
        told: ConfusionTables = (
            sparse_agreement_tables(moments)
            if huge
            else ConfusionTables.of(with_coverage(agreement_tables(moments), moments))
        )
        right = np.where(voted > 0, told.accuracies(np.full(n_classes, 1 / n_classes)), 0.5)
        return _Told(told, right, _errors(right, voted), np.nan)
    labels = hot_posterior(rows.cast, opinion)
    gain = _gain_over_majority(labels, rows, m)
    # Labels are more doubtful than they need be, and sources would look worse than they are; without any
    # doubt they would look better. Half-way was closest to the truth on real votes, and on simulated ones.
    labels = (labels + _without_doubt(labels)) / 2
    right = _agreement_with(labels, rows, m)
    errors = _errors(right, voted)
    if huge:
        return _Told(sparse_agreement_tables(moments), np.where(voted > 0, right, 0.5), errors, gain)
    weighted = labels * rows.counts[:, None]
    seen = rows.cast.vote_sums(weighted).transpose(1, 2, 0)
    tables = np.zeros((m, n_classes, n_classes + 1))
    tables[:, :, :-1] = seen / weighted.sum(axis=0)[:, None]
    tables[:, :, -1] = np.maximum(1 - tables.sum(axis=2), 0.0)
    tables /= tables.sum(axis=2, keepdims=True)
    return _Told(ConfusionTables.of(tables), np.where(voted > 0, right, 0.5), errors, gain)


def _without_doubt(labels: Array) -> Array:
    """All to the most probable class, shared where several are, shape (n, K)."""
    best = (labels >= row_tops(labels) - 1e-9).astype(np.float64)
    return np.asarray(best / row_sums(best))


def _agreement_with(labels: Array, rows: Rows, m: int) -> Array:
    """Mean probability of a source's votes under the labels, shape (m,); that of all where it was not met."""
    item, source, vote = rows.cast.entries()
    times = rows.counts[item]
    right = np.bincount(source, times * labels[item, vote], minlength=m)
    met = np.bincount(source, times, minlength=m)
    everybody = right.sum() / max(met.sum(), 1e-12)
    return np.divide(right, met, out=np.full(m, everybody), where=met > 0)


def _errors(right: Array, voted: Array) -> Array:
    """Standard errors of accuracies of so many votes, shape (m,); NaN for a single vote."""
    # One vote each way keeps two votes of one kind from being taken for certainty.
    share = (right * voted + 1) / (voted + 2)
    return np.where(voted > 1, np.sqrt(share * (1 - share) / np.maximum(voted, 1.0)), np.nan)


def _gain_over_majority(labels: Array, rows: Rows, m: int) -> float:
    """Expected accuracy of the labels less that of majority vote, by the labels' own account."""
    n_classes = labels.shape[1]
    votes = weighted_shares(rows.cast, np.ones((m, n_classes)))
    of_majority = row_sums(labels * _without_doubt(votes))[:, 0]
    total = rows.counts.sum()
    return float(rows.counts @ (row_tops(labels)[:, 0] - of_majority) / total) if total > 0 else 0.0
