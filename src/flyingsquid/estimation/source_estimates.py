"""Accuracies, confusion tables and the class balance, as labels imply them, with their uncertainty.

Labels are posteriors of rows of votes. If only counts of pairs are available, the label of an item is
replaced by the typical label of the items on which a source votes for one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from flyingsquid.estimation.agreement import sparse_agreement_tables
from flyingsquid.estimation.confusion import with_coverage
from flyingsquid.estimation.dependence import MOST_SOURCES, Dependence
from flyingsquid.estimation.intervals import (
    FEWEST_SOURCES,
    AccuracyEvidence,
    accuracy_reach,
    balance_intervals,
    suspicion,
    usable_trust,
)
from flyingsquid.estimation.table_em import (
    MOST_CELLS,
    ROW_VOTES,
    SOURCE_VOTES,
    UNIFORM_ITEMS,
    Expected,
    Rows,
    Tables,
)
from flyingsquid.estimation.trust import MOST_FROM_PAIRS, Trust
from flyingsquid.inference.weighted import (
    EVEN_VOTE,
    Mixture,
    best_class,
    fallback_posterior,
    row_tops,
    shares_of,
    table_posterior,
)
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]
# Reach of intervals after a correction by gold labels: a constant, and a share of the doubt.
_CORRECTED_REACH, _CORRECTED_DOUBT = 0.05, 0.75
# Standard errors use at most this many cells of votes, and at most this many parameters.
_MOST_SCORE_CELLS, _MOST_PARAMETERS = 1 << 18, 600
# Shares below this change no digit.
_ROUNDING = 1e-15
# Votes on one item are correlated by about this much beyond the class, and of the votes against a class this
# share goes to the strongest competitor, if there are more than two classes. Accuracies from counts then
# differ from those of rows by .03 on average (design half; correlation .1 to .2: same).
_CORRELATION, _COMPETITOR = 0.1, 0.6


@dataclass(frozen=True, slots=True, eq=False)
class SourceEstimates:
    """Estimates of the sources implied by labels.

    Attributes
    ----------
    balance : array of shape (K,)
    confusion : ConfusionTables
        P(vote = v | Y = k), no vote last.
    accuracies : array of shape (m,)
        P(vote is right | source votes); one half if it never votes.
    """

    balance: Array
    confusion: ConfusionTables
    accuracies: Array


@dataclass(frozen=True, slots=True, eq=False)
class SourceErrors:
    """Uncertainty of the estimates of the sources.

    Attributes
    ----------
    accuracies : array of shape (m,)
        Standard errors of the accuracies from sampling.
    reach : array of shape (m, 2)
        Largest distance of the true accuracies below and above the estimates if the model is wrong.
    balance : array of shape (K, 2) or None
        95% intervals of the class balance; None if it was given.
    evidence : AccuracyEvidence or None
        The statistics behind the reach; None after a correction by gold labels.
    """

    accuracies: Array
    reach: Array
    balance: Array | None
    evidence: AccuracyEvidence | None = None


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Labels of rows by the parts of a mixture.

    Attributes
    ----------
    rows : Rows
    mixture : Mixture
    by_tables : array of shape (u, K) or None
        Posterior by tables, if there are any.
    by_votes : array of shape (u, K) or None
        Labels by the weighted votes of the mixture, if they have been computed already.
    """

    rows: Rows
    mixture: Mixture
    by_tables: Array | None
    by_votes: Array | None = None

    @classmethod
    def of(cls, rows: Rows, mixture: Mixture) -> RowLabels:
        """Label rows by a mixture."""
        term = mixture.tables
        return cls(
            rows,
            mixture,
            None if term is None else table_posterior(rows.one_hot, term, mixture.one_sided),
        )

    @cached_property
    def fallback(self) -> Array:
        """The part of the posterior that does not rest on tables, shape (u, K)."""
        return fallback_posterior(self.rows.one_hot, self.mixture, self.by_votes)


# Standard errors of the accuracies and of the class balance from sampling, (m,) and (K,); accuracies by
# other plausible labels, (s, m); and the doubt: the mean probability that the label of an item is wrong, over
# the items that a source votes on, (m,).
_Spread: TypeAlias = tuple[Array, Array, Array, Array]


def estimate_sources(
    moments: Moments,
    labels: RowLabels | None,
    mixture: Mixture,
    tables: Tables | None,
    trust: Trust,
    balance: Array | None,
) -> SourceEstimates:
    """Estimate sources by the labels of a mixture, from rows or, without ``labels``, from counts of pairs.

    ``balance`` of shape (K,) is the class balance, if it is known.
    """
    if labels is None:
        found = _estimate_from_counts(moments, mixture, tables, trust)
    else:
        found = _estimate_from_rows(moments, labels, mixture, trust)
    n_votes = moments.vote_counts.sum(axis=1)
    accuracies = np.where(n_votes > 0, found.accuracies, 0.5)
    return SourceEstimates(found.balance if balance is None else balance, found.confusion, accuracies)


def assess_sources(
    moments: Moments,
    labels: RowLabels | None,
    mixture: Mixture,
    tables: Tables | None,
    trust: Trust,
    dependence: Dependence,
    sources: SourceEstimates,
    *,
    with_balance: bool,
) -> SourceErrors:
    """Return the uncertainty of what :func:`estimate_sources` found.

    ``with_balance`` is True if the class balance was estimated, too.
    """
    if labels is None:
        errors, balance_errors, plausible, doubt = _spread_of_counts(moments, mixture, sources)
    else:
        errors, balance_errors, plausible, doubt = _spread_of_rows(moments, labels, mixture, tables, sources)
    n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    groups, one_sided = dependence.groups, mixture.one_sided
    n_groups = int(np.count_nonzero(n_votes)) if groups is None else len(np.unique(groups[n_votes > 0]))
    usable = usable_trust(trust.share, trust.n_tested, dependence.n_pairs, n_groups)
    evidence = AccuracyEvidence(
        sources.accuracies,
        np.minimum(sources.accuracies, plausible.min(axis=0)),
        np.maximum(sources.accuracies, plausible.max(axis=0)),
        doubt,
        np.where(one_sided, 0.0, usable),
        suspicion(one_sided, dependence.n_pairs, int(np.count_nonzero(~one_sided & (n_votes > 0)))),
        moments.n_classes,
        mixture.majority,
        n_groups,
    )
    interval = None
    if with_balance:
        total = max(n_votes.sum(), 1.0)
        interval = balance_intervals(
            sources.balance,
            balance_errors,
            doubt=float(n_votes @ doubt / total),
            trust=usable,
            one_sided=float(n_votes[one_sided].sum() / total),
        )
        n_voted = np.count_nonzero(np.asarray(moments.vote_counts).any(axis=0))
        if n_groups < FEWEST_SOURCES or n_voted < 2:  # any class balance explains such votes
            interval = np.broadcast_to([0.0, 1.0], interval.shape)
    return SourceErrors(np.where(n_votes > 1, errors, np.nan), accuracy_reach(evidence), interval, evidence)


def estimate_by_gold(
    moments: Moments, rows: Rows, labels: Array, balance: Array | None
) -> tuple[SourceEstimates, SourceErrors]:
    """Estimate sources by labels of the rows, shape (u, K), which gold labels have corrected."""
    n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    found = _estimate_by(moments, rows, labels)
    doubt = _mean_doubt(labels, rows, n_votes)
    reach = _CORRECTED_REACH + _CORRECTED_DOUBT * doubt
    interval = None
    if balance is None:
        mean_doubt = float(n_votes @ doubt / max(n_votes.sum(), 1.0))
        errors = _share_errors(found.balance, rows.n_voted)
        interval = balance_intervals(found.balance, errors, doubt=mean_doubt, trust=0.0, one_sided=0.0)
    else:
        found = replace(found, balance=balance)
    sampling = np.where(n_votes > 1, _sampling_errors(found.accuracies, n_votes), np.nan)
    return replace(found, accuracies=np.where(n_votes > 0, found.accuracies, 0.5)), SourceErrors(
        sampling, np.stack([reach, reach], axis=1), interval
    )


# ---------------------------------------------------------------------- rows


def _estimate_from_rows(
    moments: Moments, labels: RowLabels, mixture: Mixture, trust: Trust
) -> SourceEstimates:
    rows, by_tables = labels.rows, labels.by_tables
    if by_tables is not None and trust.share > 1 - _ROUNDING and not mixture.one_sided.any():
        return _estimate_by(moments, rows, by_tables)
    # Fallback labels are less certain than they should be, and sources would look worse than they are;
    # rounded to the best class, sources would look better. The mean of both was closest on real and simulated
    # votes.
    believed = (labels.fallback + best_class(labels.fallback)) / 2
    if by_tables is None or trust.share < _ROUNDING:
        return _estimate_by(moments, rows, believed)
    counted = [rows.count(each) for each in (by_tables, believed)]
    # Numbers are linear in the labels, so they are mixed instead of the labels.
    mixed = Expected(*(trust.share * a + (1 - trust.share) * b for a, b in zip(*counted, strict=True)))
    by_each = [_share_right(np.einsum("mkk->m", each.votes), rows) for each in counted]
    share = np.where(mixture.one_sided, 0.0, trust.share)
    return _estimate_from(mixed, share * by_each[0] + (1 - share) * by_each[1])


def _spread_of_rows(
    moments: Moments, labels: RowLabels, mixture: Mixture, tables: Tables | None, sources: SourceEstimates
) -> _Spread:
    m, rows, by_tables = moments.n_sources, labels.rows, labels.by_tables
    n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    own, balance_errors = np.zeros(m), np.zeros(moments.n_classes)
    if by_tables is not None and tables is not None and not mixture.one_sided.all():
        own, balance_errors = _table_errors(rows, by_tables, tables)
        own[mixture.one_sided] = 0.0
    plain = shares_of(rows.one_hot.class_sums(np.ones_like(mixture.weights)))
    return (
        np.maximum(_sampling_errors(sources.accuracies, n_votes), own),
        np.maximum(_share_errors(sources.balance, rows.n_voted), balance_errors),
        np.stack([_agreement_with(best_class(each), rows, m) for each in (labels.fallback, plain)]),
        _mean_doubt(labels.fallback, rows, n_votes),
    )


def _estimate_by(moments: Moments, rows: Rows, labels: Array) -> SourceEstimates:
    """Estimate sources by one set of labels of the rows, shape (u, K)."""
    m = moments.n_sources
    if m * moments.n_classes**2 <= MOST_CELLS:
        counted = rows.count(labels)
        return _estimate_from(counted, _share_right(np.einsum("mkk->m", counted.votes), rows))
    mass = rows.voted @ labels + 1
    tables, right = sparse_agreement_tables(moments), _agreement_with(labels, rows, m)
    return SourceEstimates(mass / mass.sum(), tables, right)


def _estimate_from(counted: Expected, accuracies: Array) -> SourceEstimates:
    """Estimate tables and the class balance by expected numbers of items and votes."""
    items = np.maximum(counted.items, 1e-12)  # a class may have no items
    confusion = _with_missing(counted.votes / items[:, None])
    mass = counted.voted + 1  # one added item of each class
    return SourceEstimates(mass / mass.sum(), confusion, accuracies)


def _with_missing(tables: Array) -> ConfusionTables:
    """Return tables of P(vote | Y), shape (m, K, K), with the probability of no vote."""
    silent = np.maximum(1 - tables.sum(axis=2, keepdims=True), 0.0)
    tables = np.concatenate([tables, silent], axis=2)
    return ConfusionTables.of(tables / tables.sum(axis=2, keepdims=True))


def _agreement_with(labels: Array, rows: Rows, m: int) -> Array:
    """Return the mean probability of a source's votes under the labels, shape (m,)."""
    if m * labels.shape[1] ** 2 > MOST_CELLS and isinstance(rows.one_hot, OneHot):
        item, source, vote = rows.one_hot.entries()
        weights = rows.counts[item] * labels[item, vote]
        return _share_right(np.bincount(source, weights, minlength=m).astype(np.float64), rows)
    return _share_right(np.einsum("mkk->m", rows.count(labels).votes), rows)


def _share_right(right: Array, rows: Rows) -> Array:
    """Return the share of right votes of each source, shape (m,); that of all for a source without votes."""
    n_votes = rows.votes.sum(axis=1)
    everybody = right.sum() / max(n_votes.sum(), 1e-12)
    return np.divide(right, n_votes, out=np.full(len(n_votes), everybody), where=n_votes > 0)


def _mean_doubt(labels: Array, rows: Rows, n_votes: Array) -> Array:
    """Return the mean probability that the most probable class is wrong on a source's items, shape (m,)."""
    doubt = (1 - row_tops(labels)[:, 0]) * rows.counts
    return np.asarray(rows.one_hot.vote_sums(doubt).sum(axis=0) / np.maximum(n_votes, 1.0))


def _sampling_errors(right: Array, n_votes: Array) -> Array:
    """Return standard errors of the share of right votes, shape (m,)."""
    share = (right * n_votes + 1) / (n_votes + 2)  # one vote each way, so two equal votes are not certainty
    return np.asarray(np.sqrt(share * (1 - share) / np.maximum(n_votes, 1.0)))


def _share_errors(share: Array, n: float) -> Array:
    """Return standard errors of shares of n items, any shape."""
    return np.asarray(np.sqrt(share * (1 - share) / max(n, 1.0)))


def _table_errors(rows: Rows, labels: Array, tables: Tables) -> tuple[Array, Array]:
    """Return standard errors under the tables: of P(vote is right), shape (m,), and of the balance, (K,).

    Uses the outer product of the scores of P(right | Y = k) of each source and of the class balance, and the
    pseudo-votes.
    """
    m, n_classes = tables.tables.shape[:2]
    one_hot, labels, counts = _sampled(rows, labels, m)
    right = np.clip(np.einsum("mkk->mk", tables.tables), 0.02, 0.98)
    hot = [one_hot.dense_votes(k) for k in range(n_classes)]
    voted = sum(hot, start=np.zeros_like(hot[0]))
    scores = [
        (hot[y] / right[:, y] - (voted - hot[y]) / (1 - right[:, y])) * labels[:, [y]]
        for y in range(n_classes)
    ]
    share = (voted.T * counts) @ labels
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-9)
    accuracy = (share * right).sum(axis=1)
    variance = np.maximum(accuracy * (1 - accuracy), 0.02)
    if m * n_classes > _MOST_PARAMETERS:  # each source by itself
        own = counts @ sum(scores, start=np.zeros_like(hot[0])) ** 2
        return np.sqrt(1 / (own + SOURCE_VOTES / variance)), np.zeros(n_classes)
    balance = tables.balance
    balance_scores = labels[:, :-1] / balance[:-1] - labels[:, -1:] / balance[-1]
    every = np.hstack([*scores, balance_scores])
    information = every.T @ (every * counts[:, None])
    size, tie = m * n_classes, ROW_VOTES * (np.eye(n_classes) - 1 / n_classes) + SOURCE_VOTES / n_classes**2
    information[:size, :size] += np.kron(tie, np.diag(1 / variance)) + 1e-3 * np.eye(size)
    information[size:, size:] += np.diag(UNIFORM_ITEMS / n_classes / balance[:-1] ** 2)
    inverse = np.linalg.pinv(information, hermitian=True)
    slopes = np.hstack([*(np.diag(each) for each in share.T), right[:, :-1] - right[:, -1:]])
    of_balance = np.vstack([np.eye(n_classes - 1), -np.ones(n_classes - 1)])  # the last is what is left
    errors, of_shares = (
        np.sqrt(np.maximum(((each @ within) * each).sum(axis=1), 0.0))
        for each, within in ((slopes, inverse), (of_balance, inverse[size:, size:]))
    )
    return errors, of_shares


def _sampled(rows: Rows, labels: Array, m: int) -> tuple[OneHot, Array, Array]:
    """Return votes, labels and counts of rows; if there are very many, of a scaled sample."""
    at = np.flatnonzero(rows.counts)
    kept = max(2_000, _MOST_SCORE_CELLS // (m * labels.shape[1]))
    if kept < len(at):
        at = at[np.linspace(0, len(at) - 1, kept).astype(np.intp)]
    counts = rows.counts[at]
    return rows.one_hot[at], labels[at], counts * (rows.counts.sum() / max(counts.sum(), 1e-12))


# ---------------------------------------------------------------------- counts of pairs


def _estimate_from_counts(
    moments: Moments, mixture: Mixture, tables: Tables | None, trust: Trust
) -> SourceEstimates:
    """Estimate sources by weighted votes on typical items, and by tables in proportion to their trust."""
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    agreement, wins, _ = _typical_items(moments, mixture)
    right = (_per_vote(agreement, vote_counts) + _per_vote(wins, vote_counts)) / 2
    balance, confusion = _by_typical_items(moments, agreement)
    if tables is not None:
        # Tables that pass every test of pairs are used alone, as are those of rows.
        share = min(trust.share / MOST_FROM_PAIRS, 1.0)
        by_tables = with_coverage(tables.tables, moments)
        alone = np.where(mixture.one_sided, 0.0, share)
        own = ConfusionTables.of(by_tables).accuracies(tables.balance)
        right = alone * own + (1 - alone) * right
        balance = share * tables.balance + (1 - share) * balance
        mixed = alone[:, None, None] * by_tables + (1 - alone[:, None, None]) * np.asarray(confusion)
        confusion = ConfusionTables.of(mixed)
    return SourceEstimates(balance, confusion, right)


def _spread_of_counts(moments: Moments, mixture: Mixture, sources: SourceEstimates) -> _Spread:
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    (_, wins, doubt), votes = _typical_items(moments, mixture), vote_counts.sum(axis=1)
    return (
        _sampling_errors(sources.accuracies, votes),
        _share_errors(sources.balance, float(min(votes.sum(), moments.n_items))),
        _per_vote(wins, vote_counts)[None, :],
        _per_vote(doubt, vote_counts),
    )


def _typical_items(moments: Moments, mixture: Mixture) -> tuple[Array, Array, Array]:
    """Describe the items that a source votes on for one class, by three arrays of shape (m, K).

    Weighted votes are described by their means and a normal distribution of the margin. Returns the share of
    the class in the weights of all votes on the item, the probability that it is the largest share, and the
    expected share of all classes except for the one with the largest share.
    """
    weights, n_classes = mixture.weights, moments.n_classes
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    by_source = _per_vote(weights, vote_counts)
    mean = float(by_source @ vote_counts.sum(axis=1) / max(vote_counts.sum(), 1e-12))
    if moments.n_sources > MOST_SOURCES:
        agreeing, other_votes = (mean * each for each in moments.votes_of_others())
    else:
        agreeing, other_votes = moments.votes_of_others(by_source)
    n = np.maximum(vote_counts, 1e-12)
    agreeing, against = agreeing / n, np.maximum(other_votes - agreeing, 0.0) / n
    total = weights + agreeing + against + EVEN_VOTE
    competitor = against if n_classes == 2 else _COMPETITOR * against
    margin = weights + agreeing - competitor
    n_votes = (agreeing + competitor) / max(mean, 1e-12)
    spread = mean * np.sqrt(n_votes * (1 + _CORRELATION * n_votes)) + 1e-9
    z = margin / spread
    distance = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + margin * (1 - 2 * ndtr(-z))  # E |margin|
    top = (weights + agreeing + competitor + 2 * EVEN_VOTE / n_classes + distance) / 2
    return (weights + agreeing + EVEN_VOTE / n_classes) / total, ndtr(z), np.clip(1 - top / total, 0.0, 1.0)


def _per_vote(values: Array, vote_counts: Array) -> Array:
    """Return the mean over the votes of a source, shape (m,), of values for each class (m, K)."""
    return np.asarray((values * vote_counts).sum(axis=1) / np.maximum(vote_counts.sum(axis=1), 1e-12))


def _by_typical_items(moments: Moments, agreement: Array) -> tuple[Array, ConfusionTables]:
    """Return the class balance and tables, if a vote is right as often as the votes on its items agree."""
    m, n_classes = agreement.shape
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    if m * n_classes**2 > MOST_CELLS:
        wrong = vote_counts * (1 - agreement)
        mass = (vote_counts * agreement).sum(axis=0) + (wrong.sum() - wrong.sum(axis=0)) / (n_classes - 1) + 1
        return np.asarray(mass / mass.sum()), sparse_agreement_tables(moments)
    spread = moments.others_votes() + 1 / n_classes  # axes source, vote, class
    at = np.arange(n_classes)
    spread[:, at, at] = 0.0
    spread *= ((1 - agreement) / spread.sum(axis=2))[:, :, None]
    spread[:, at, at] = agreement
    expected = vote_counts[:, :, None] * spread
    mass = expected.sum(axis=(0, 1)) + 1
    balance = mass / mass.sum()
    tables = expected.transpose(0, 2, 1) / (moments.n_items * balance)[:, None]
    return np.asarray(balance), _with_missing(tables)
