"""Weighted votes, and EM passes that are anchored to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import agreement_tables, sparse_agreement_tables
from flyingsquid.estimation.confusion import with_coverage
from flyingsquid.estimation.sources import near_copies
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.inference.weighted import (
    Opinion,
    hot_posterior,
    row_sums,
    row_tops,
    table_posterior,
    weighted_shares,
)
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot, n_votes_in
from flyingsquid.votes.patterns import compressed

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


PASSES = 10
# Share of the weighted votes in the labels that tables are made of.
_HELD = 0.1
# A row of a table is tied by this many votes to its source's accuracy, and that by so many to everybody's.
_ROW_VOTES, _SOURCE_VOTES = 20.0, 40.0
# Before any vote is seen.
_RIGHT = 0.7
_WORST, _BEST = 0.05, 0.98
# Share of the answer that comes from the tables.
TRUST = 0.5
# An even class balance is worth this many items.
_EVEN_ITEMS = 20.0
# Passes read no more votes than this; beyond, evenly spaced items stand for all.
_MOST_VOTES = 1 << 23


@dataclass(frozen=True, slots=True)
class Rows:
    """The votes that passes read.

    Attributes
    ----------
    cast : OneHot of u rows
    counts : array of shape (u,)
        How many items have each row.
    known : array of shape (g, K)
        What is known of the last g rows: 1 for the true class.
    """

    cast: OneHot
    counts: Array
    known: Array


def rows_of(votes: Votes, weights: NDArray[Any] | None, gold: NDArray[Any] | None = None) -> Rows:
    """Distinct rows where they are few, otherwise all items; evenly spaced ones where votes are very many.

    ``gold`` of shape (n,) holds true classes, negative where unknown; what is known comes last.
    """
    if gold is None or not (gold >= 0).any():
        return _unknown_rows(votes, weights)
    counts = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    at = np.flatnonzero(gold >= 0)
    others = _unknown_rows(votes, np.where(gold < 0, counts, 0.0))
    known = np.zeros((len(at), votes.n_classes))
    known[np.arange(len(at)), gold[at]] = 1.0
    return Rows(
        others.cast.stacked_on(OneHot.of(votes.codes[at], votes.n_classes)),
        np.append(others.counts, counts[at]),
        known,
    )


def _unknown_rows(votes: Votes, weights: NDArray[Any] | None) -> Rows:
    codes, n_classes = votes.codes, votes.n_classes
    nothing = np.empty((0, n_classes))
    few = compressed(codes, n_classes, weights)
    if few is not None:
        return Rows(OneHot.of(few[0], n_classes), few[1].astype(np.float64), nothing)
    counts = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    step = max(1, -(-n_votes_in(codes) // _MOST_VOTES))
    at = np.flatnonzero(counts > 0)[::step] if step > 1 else slice(None)
    return Rows(OneHot.of(codes[at], n_classes), counts[at], nothing)


def anchored_opinion(rows: Rows, weighed: VoteWeights, balance: Array | None) -> Opinion:
    """Pass over the votes, from weighted votes to tables of the sources that use several classes.

    ``balance`` of shape (K,) is P(Y = k) as given; None learns it from the labels.
    """
    n_classes = weighed.weights.shape[1]
    anchor = weighted_shares(rows.cast, weighed.weights)
    several, counts = ~weighed.one_sided[:, None, None], rows.counts[:, None]
    with_votes = rows.counts * (rows.cast.n_votes > 0)
    labels = _with_known(anchor, rows.known)
    opinion = Opinion(weighed.weights, weighed.one_sided, np.full(n_classes, 1 / n_classes))
    for _ in range(PASSES):
        expected = rows.cast.vote_sums(labels * counts).transpose(1, 2, 0)
        tables = _tied_tables(np.where(several, expected, 0.0))
        logs = np.where(several, np.log(tables) / weighed.copies[:, None, None], 0.0)
        settled = _learned_balance(labels, with_votes) if balance is None else balance
        opinion = replace(opinion, balance=settled, given=balance is not None, logs=logs, trust=TRUST)
        labels = _with_known((1 - _HELD) * table_posterior(rows.cast, opinion) + _HELD * anchor, rows.known)
    return opinion


def _with_known(labels: Array, known: Array) -> Array:
    """Labels (u, K) whose last rows are what is known of them."""
    return np.concatenate([labels[: len(labels) - len(known)], known]) if len(known) else labels


def _learned_balance(labels: Array, counts: Array) -> Array:
    """Mean of labels (n, K) of items that count (n,) times, beside an even balance, shape (K,)."""
    mass = counts @ labels + _EVEN_ITEMS / labels.shape[1]
    return np.asarray(mass / mass.sum())


def _tied_tables(expected: Array) -> Array:
    """Tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote."""
    n_classes = expected.shape[1]
    right, cast = np.einsum("mkk->m", expected), expected.sum(axis=(1, 2))
    everybody = (right.sum() + _SOURCE_VOTES * _RIGHT) / (cast.sum() + _SOURCE_VOTES)
    own = np.clip((right + _SOURCE_VOTES * everybody) / (cast + _SOURCE_VOTES), _WORST, _BEST)
    same = np.eye(n_classes)
    tied = own[:, None, None] * same + ((1 - own) / (n_classes - 1))[:, None, None] * (1 - same)
    return np.asarray(
        (expected + _ROW_VOTES * tied) / (expected.sum(axis=2, keepdims=True) + _ROW_VOTES), np.float64
    )


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
