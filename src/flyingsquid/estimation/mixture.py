"""Weighted votes mixed with confusion tables: the estimator behind ``method="auto"``.

The steps: find dependent sources; weight the votes; estimate tables by EM with shrinkage; measure how well
the tables explain the agreement of pairs; mix tables and weighted votes accordingly. No step uses a hard
threshold, so a small change of the votes changes the labels little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import agreement_tables, sparse_agreement_tables
from flyingsquid.estimation.confusion import with_coverage
from flyingsquid.estimation.dependence import Dependence, find_copies, find_dependence
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.estimation.tied_em import (
    MOST_CELLS,
    ROW_VOTES,
    SOURCE_VOTES,
    UNIFORM_ITEMS,
    Rows,
    Tables,
    anchored_tables,
    can_use_pairs,
    tables_from_pairs,
    tables_from_rows,
    with_abstention,
)
from flyingsquid.estimation.trust import (
    Trust,
    evidence_against_abstention,
    probability_adequate,
    trust_from_pairs,
    trust_from_rows,
)
from flyingsquid.estimation.weighted import VoteWeights, vote_weights, votes_per_item
from flyingsquid.inference.weighted import (
    Mixture,
    TableTerm,
    fallback_posterior,
    hot_posterior,
    row_sums,
    row_tops,
    table_posterior,
    weighted_shares,
)
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]
# Share of anchored tables in the part that tables do not get; half of it at this many votes per item. They
# are more accurate with more votes per item, and less accurate for one-sided rules with few (design
# datasets).
_ANCHORED_SHARE, _VOTES_PER_ITEM, _STEEPNESS = 0.5, 3.0, 8
# Items without votes get the estimated balance only if it is trusted more than this. Trust in it grows with
# the pairs of votes on the same items; it is one half at this many (100 to 300: same).
_TRUSTED_BALANCE, _BALANCE_PAIRS = 0.1, 100.0
# Otherwise they get the shares of the votes plus this many uniform pseudo-votes, if more than this share of
# the votes is by sources of several classes and one class exceeds a uniform share by this much. Smaller
# differences often come from errors or coverage that depend on the class (docs/quality/regret.md).
_UNIFORM_VOTES, _SEVERAL, _IMBALANCE = 20.0, 0.5, 0.12
# Half-width of an interval for tables that are not trusted: a constant, and a share of the doubt about the
# items that the source votes on.
_MISFIT_WIDTH, _DOUBT_WIDTH = 0.05, 0.75
# Parts of the mixture with a smaller share than this are left out.
_NEGLIGIBLE = 0.01
# The gain must hold under tables of at least this share, and under weighted votes unless the tables have more
# than this share: of 180 random panels of LLMBar none is recommended with a loss (at .79: one).
_PLAUSIBLE, _PASSED = 0.05, 0.9
# Standard errors use at most this many cells of votes, and this many parameters jointly.
_MOST_SCORE_CELLS, _MOST_PARAMETERS = 1 << 18, 600


@dataclass(frozen=True, slots=True, eq=False)
class MixtureFit:
    """Estimated parameters.

    Attributes
    ----------
    mixture : Mixture
    balance : array of shape (K,)
    confusion : ConfusionTables
        P(vote = v | Y = k), no vote last.
    accuracies, errors : arrays of shape (m,)
        P(vote is right | source votes), and standard errors that include misfit.
    gain : float
        Expected accuracy less that of majority vote, as the labels imply; NaN from counts alone.
    only_class : int or None
        The class that all items with votes get, if it is one.
    gain_interval : pair of floats or None
        95% interval of the gain, over tables and weighted votes as far as each is plausible.
    trust : Trust
    dependence : Dependence
    """

    mixture: Mixture
    balance: Array
    confusion: ConfusionTables
    accuracies: Array
    errors: Array
    gain: float
    gain_interval: tuple[float, float] | None
    trust: Trust
    dependence: Dependence
    only_class: int | None = None


def fit_mixture(moments: Moments, rows: Rows | None, balance: Array | None) -> MixtureFit:
    """Fit votes from distinct rows, or from counts of pairs alone.

    Parameters
    ----------
    moments : Moments
        Counts of all pairs.
    rows : Rows or None
        None if only counts are available.
    balance : array of shape (K,) or None
        The class balance, if it is known.
    """
    m, n_classes = moments.n_sources, moments.n_classes
    dependence = find_dependence(moments)
    weights = vote_weights(moments, dependence.shared)
    shared, abstention = dependence.shared, 0.0
    if shared is None or m * n_classes**2 > MOST_CELLS or (rows is None and not can_use_pairs(m, n_classes)):
        tables, trust = None, Trust(0.0)
    elif rows is None:
        estimate = partial(tables_from_pairs, moments, weights, shared, balance)
        tables, abstention, against = _with_abstention(moments, estimate(), weights, estimate)
        trust = trust_from_pairs(moments, tables, weights, dependence, against)
    else:
        tables = tables_from_rows(rows, weights, balance)
        refit = partial(with_abstention, rows, weights, balance)
        tables, abstention, against = _with_abstention(moments, tables, weights, refit)
        term = tables.term(weights, abstention)
        labels = table_posterior(rows.cast, term, weights.one_sided)
        trust = trust_from_rows(moments, rows, labels, tables, weights, dependence, against)
    mixture = _mix(moments, rows, balance, tables, trust, dependence, weights, abstention)
    if rows is None:
        return _from_counts(moments, mixture, tables, trust, dependence, balance)
    return _from_rows(moments, rows, mixture, tables, trust, dependence, balance)


def _with_abstention(
    moments: Moments, tables: Tables, weights: VoteWeights, refit: Callable[[Tables, float], Tables]
) -> tuple[Tables, float, float | None]:
    """Use abstentions as evidence to the extent that they depend on the class only.

    Returns the tables, the weight of abstentions, and the evidence against it, None if it is untested.
    """
    if (moments.n_sources * moments.n_classes) ** 2 > MOST_CELLS or moments.coverage.min() >= 1:
        return tables, 0.0, None
    found = refit(tables, 1.0)
    against = evidence_against_abstention(moments, found, weights)
    share = _without_negligible(0.0 if against is None else probability_adequate(against))
    if share == 0:
        return tables, 0.0, against
    return (found if share == 1 else refit(found, share)), share, against


def _without_negligible(share: float) -> float:
    """Return 0 or 1 for shares close to them, so that a tie of plain majority vote stays a tie."""
    return float(np.round(share)) if abs(share - np.round(share)) < _NEGLIGIBLE else share


def fit_weights(moments: Moments, rows: Rows | None, balance: Array | None) -> MixtureFit:
    """Fit weighted votes alone, discounting only near-copies."""
    dependence, trust = find_copies(moments), Trust(0.0)
    weights = vote_weights(moments, dependence.shared)
    mixture = Mixture(
        weights=weights.weights,
        one_sided=weights.one_sided,
        without_votes=_without_votes(moments, balance, None, trust, weights),
        prior=_prior(moments, balance, weights),
    )
    if rows is None:
        return _from_counts(moments, mixture, None, trust, dependence, balance)
    return _from_rows(moments, rows, mixture, None, trust, dependence, balance)


def _mix(
    moments: Moments,
    rows: Rows | None,
    balance: Array | None,
    tables: Tables | None,
    trust: Trust,
    dependence: Dependence,
    firm: VoteWeights,
    abstention: float,
) -> Mixture:
    """Mix the tables with weighted votes, which discount dependent pairs by the trust in the tables."""
    weights = vote_weights(moments, dependence.scaled(trust.share))
    term = None if tables is None else tables.term(firm, abstention)
    anchored, anchored_share = None, 0.0
    if rows is not None and moments.n_sources * moments.n_classes**2 <= MOST_CELLS:
        power = (votes_per_item(moments, weights) / _VOTES_PER_ITEM) ** _STEEPNESS
        anchored_share = _ANCHORED_SHARE * power / (1 + power)
        is_trusted = trust.share > 1 - _NEGLIGIBLE and not weights.one_sided.any()
        if anchored_share < _NEGLIGIBLE or is_trusted:
            anchored_share = 0.0
        else:
            anchored = anchored_tables(rows, weights, balance).term(weights)
    return Mixture(
        weights=weights.weights,
        one_sided=weights.one_sided,
        without_votes=_without_votes(moments, balance, term, trust, weights),
        prior=_prior(moments, balance, weights),
        tables=term,
        trust=trust.share,
        anchored=anchored,
        anchored_share=float(anchored_share),
        majority=_without_negligible(dependence.contradiction),
    )


def _prior(moments: Moments, balance: Array | None, weights: VoteWeights) -> Array | None:
    """Return the distribution of the pseudo-vote that is added to every item if the class balance was given.

    The votes of one-sided sources already reflect the balance, so the given one counts only by the share of
    votes from other sources (census and spouse lose F1 otherwise).
    """
    if balance is None:
        return None
    share = _share_of_several(moments, weights)
    return np.asarray(share * balance + (1 - share) / len(balance))


def _share_of_several(moments: Moments, weights: VoteWeights) -> float:
    """Return the share of votes from sources of several classes."""
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    return float(cast[~weights.one_sided].sum() / max(cast.sum(), 1.0))


def _without_votes(
    moments: Moments, balance: Array | None, term: TableTerm | None, trust: Trust, weights: VoteWeights
) -> Array:
    """Return P(Y = k) for items without votes: the class balance as far as it is known."""
    several = _share_of_several(moments, weights)
    otherwise = _shares_of_votes(moments, weights, several) if balance is None else balance
    if term is None or np.count_nonzero(np.asarray(moments.vote_counts).sum(axis=0)) < 2:
        return otherwise  # votes for one class do not show how frequent it is
    overlap = np.asarray(moments.overlap(), np.float64) * np.outer(~weights.one_sided, ~weights.one_sided)
    pairs = (overlap.sum() - np.trace(overlap)) / 2
    known = pairs / (pairs + _BALANCE_PAIRS)
    trusted = trust.share * several * known
    return trusted * term.balance + (1 - trusted) * otherwise if trusted > _TRUSTED_BALANCE else otherwise


def _shares_of_votes(moments: Moments, weights: VoteWeights, several: float) -> Array:
    """Return the share of each class in the votes, or uniform shares if they show no clear imbalance."""
    uniform = np.full(moments.n_classes, 1 / moments.n_classes)
    cast = np.asarray(moments.vote_counts, np.float64)[~weights.one_sided].sum(axis=0)
    shares = (cast + _UNIFORM_VOTES * uniform) / (cast.sum() + _UNIFORM_VOTES)
    is_clear = several > _SEVERAL and np.count_nonzero(cast) > 1 and shares.max() - uniform[0] > _IMBALANCE
    return np.asarray(shares) if is_clear else uniform


# ---------------------------------------------------------------------- estimates of sources from labels


def _from_rows(
    moments: Moments,
    rows: Rows,
    mixture: Mixture,
    tables: Tables | None,
    trust: Trust,
    dependence: Dependence,
    balance: Array | None,
) -> MixtureFit:
    m = moments.n_sources
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    labels = hot_posterior(rows.cast, mixture)
    fallback = fallback_posterior(rows.cast, mixture)
    plausible = [] if trust.share > _PASSED else [fallback]
    # Fallback labels are less certain than they should be, and sources would look worse than they are;
    # rounded to the best class, sources would look better. The mean of both was closest on real and simulated
    # votes.
    believed = (fallback + _rounded(fallback)) / 2
    share = np.where(mixture.one_sided, 0.0, trust.share)
    right = _agreement_with(believed, rows, m)
    errors = _sampling_errors(right, cast)
    if mixture.tables is not None and tables is not None:
        by_tables = table_posterior(rows.cast, mixture.tables, mixture.one_sided)
        if trust.share > _PLAUSIBLE:
            plausible.append(by_tables)
        right = share * _agreement_with(by_tables, rows, m) + (1 - share) * right
        errors = _sampling_errors(right, cast)
        if not mixture.one_sided.all():
            own = _table_errors(rows, by_tables, tables)
            errors = np.where(mixture.one_sided, errors, np.maximum(errors, own))
        believed = trust.share * by_tables + (1 - trust.share) * believed
    doubt = _mean_doubt(fallback, rows, cast)
    widened = np.hypot(NORMAL_95 * errors, (1 - share) * (_MISFIT_WIDTH + _DOUBT_WIDTH * doubt)) / NORMAL_95
    return MixtureFit(
        mixture,
        _mean_label(believed, rows) if balance is None else balance,
        _confusion_of(moments, rows, believed),
        np.where(cast > 0, right, 0.5),
        np.where(cast > 1, widened, np.nan),
        *_gain_over_majority(labels, plausible, rows, m),
        trust,
        dependence,
        _only_class(labels[rows.voted > 0]),
    )


class SourceEstimates(NamedTuple):
    """Estimates of the sources implied by labels; the fields are those of :class:`MixtureFit`."""

    balance: Array
    confusion: ConfusionTables
    accuracies: Array
    errors: Array
    gain: float
    gain_interval: tuple[float, float]


def estimate_sources(
    moments: Moments, rows: Rows, labels: Array, plain: Array, balance: Array | None
) -> SourceEstimates:
    """Estimate sources by labels of the rows, shape (u, K), which replace the ``plain`` ones.

    ``balance`` of shape (K,) is the class balance, if it is known.
    """
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    right = _agreement_with(labels, rows, moments.n_sources)
    doubt = _mean_doubt(labels, rows, cast)
    widened = np.hypot(NORMAL_95 * _sampling_errors(right, cast), _MISFIT_WIDTH + _DOUBT_WIDTH * doubt)
    return SourceEstimates(
        _mean_label(labels, rows) if balance is None else balance,
        _confusion_of(moments, rows, labels),
        np.where(cast > 0, right, 0.5),
        np.where(cast > 1, widened / NORMAL_95, np.nan),
        *_gain_over_majority(labels, [plain], rows, moments.n_sources),
    )


def _from_counts(
    moments: Moments,
    mixture: Mixture,
    tables: Tables | None,
    trust: Trust,
    dependence: Dependence,
    balance: Array | None,
) -> MixtureFit:
    m, n_classes = mixture.weights.shape
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    uniform = np.full(n_classes, 1 / n_classes)
    confusion: ConfusionTables
    if tables is None:
        huge = m * n_classes**2 > MOST_CELLS
        settled = uniform if balance is None else balance
        confusion = (
            sparse_agreement_tables(moments)
            if huge
            else ConfusionTables.of(with_coverage(agreement_tables(moments), moments))
        )
    else:
        settled = tables.balance
        confusion = ConfusionTables.of(with_coverage(tables.tables, moments))
    right = np.where(cast > 0, confusion.accuracies(settled), 0.5)
    errors = _sampling_errors(right, cast)
    doubt = 1 - float(np.average(right, weights=np.maximum(cast, 1e-12)))
    widened = np.hypot(NORMAL_95 * errors, (1 - trust.share) * (_MISFIT_WIDTH + _DOUBT_WIDTH * doubt))
    return MixtureFit(
        mixture,
        settled,
        confusion,
        right,
        np.where(cast > 1, widened / NORMAL_95, np.nan),
        float("nan"),
        None,
        trust,
        dependence,
    )


def _confusion_of(moments: Moments, rows: Rows, labels: Array) -> ConfusionTables:
    m, n_classes = moments.n_sources, moments.n_classes
    if m * n_classes**2 > MOST_CELLS:
        return sparse_agreement_tables(moments)
    weighted = labels * rows.counts[:, None]
    seen = rows.cast.vote_sums(weighted).transpose(1, 2, 0)
    tables = np.zeros((m, n_classes, n_classes + 1))
    tables[:, :, :-1] = seen / np.maximum(weighted.sum(axis=0), 1e-12)[:, None]  # a class may have no items
    tables[:, :, -1] = np.maximum(1 - tables.sum(axis=2), 0.0)
    tables /= tables.sum(axis=2, keepdims=True)
    return ConfusionTables.of(tables)


def _mean_label(labels: Array, rows: Rows) -> Array:
    """Return the mean of labels (u, K) of items with votes, next to one item of each class."""
    mass = rows.voted @ labels + 1
    return np.asarray(mass / mass.sum())


def _rounded(labels: Array) -> Array:
    """Return labels with everything on the most probable class, shared if several are; shape (u, K)."""
    best = (labels >= row_tops(labels) - 1e-9).astype(np.float64)
    return np.asarray(best / row_sums(best))


def _agreement_with(labels: Array, rows: Rows, m: int) -> Array:
    """Return the mean probability of a source's votes under the labels, shape (m,)."""
    if m * labels.shape[1] ** 2 > MOST_CELLS and isinstance(rows.cast, OneHot):
        item, source, vote = rows.cast.entries()
        right = np.bincount(source, rows.counts[item] * labels[item, vote], minlength=m)
        met = rows.votes.sum(axis=1)
    else:
        expected = rows.cast.vote_sums(labels * rows.counts[:, None])  # axes vote, source, label
        right, met = np.einsum("kmk->m", expected), expected.sum(axis=(0, 2))
    everybody = right.sum() / max(met.sum(), 1e-12)
    return np.divide(right, met, out=np.full(m, everybody), where=met > 0)


def _mean_doubt(labels: Array, rows: Rows, cast: Array) -> Array:
    """Return the mean probability that the most probable class is wrong on a source's items, shape (m,)."""
    doubt = (1 - row_tops(labels)[:, 0]) * rows.counts
    return np.asarray(rows.cast.vote_sums(doubt).sum(axis=0) / np.maximum(cast, 1.0))


def _sampling_errors(right: Array, cast: Array) -> Array:
    """Return standard errors of the share of right votes, shape (m,)."""
    share = (right * cast + 1) / (
        cast + 2
    )  # one pseudo-vote each way, so that two equal votes are not certainty
    return np.asarray(np.sqrt(share * (1 - share) / np.maximum(cast, 1.0)))


def _only_class(labels: Array) -> int | None:
    """Return the class that all labels (u, K) are for, None if there are several."""
    best = np.unique(labels.argmax(axis=1))
    return int(best[0]) if len(best) == 1 else None


def _gain_over_majority(
    labels: Array, plausible: list[Array], rows: Rows, m: int
) -> tuple[float, tuple[float, float]]:
    """Return the expected accuracy of the labels less that of majority vote, and its 95% interval.

    The labels imply the gain. The interval spans what each plausible model, posteriors of shape (u, K),
    implies, and the sampling error of the items on which the two differ.
    """
    total = rows.counts.sum()
    if not total > 0:
        return 0.0, (0.0, 0.0)
    best = _rounded(labels)
    change = best - _rounded(weighted_shares(rows.cast, np.ones((m, labels.shape[1]))))
    gain, *gains = (float(rows.counts @ row_sums(p * change)[:, 0] / total) for p in (labels, *plausible))
    differ = float(rows.counts @ row_sums(np.maximum(change, 0.0))[:, 0] / total)
    reach = float(NORMAL_95 * np.sqrt(differ / total))
    return gain, (min(gain, *gains) - reach, max(gain, *gains) + reach)


def _table_errors(rows: Rows, labels: Array, tables: Tables) -> Array:
    """Return standard errors of P(vote is right) under the tables, shape (m,).

    Uses the outer product of the scores of P(right | Y = k) of each source and of the class balance, plus the
    pseudo-votes of the prior.
    """
    m, n_classes = tables.tables.shape[:2]
    cast, labels, counts = _sampled(rows, labels, m)
    right = np.clip(np.einsum("mkk->mk", tables.tables), 0.02, 0.98)
    hot = [cast.dense_votes(k) for k in range(n_classes)]
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
        return np.asarray(np.sqrt(1 / (own + SOURCE_VOTES / variance)))
    balance = tables.balance
    of_balance = labels[:, :-1] / balance[:-1] - labels[:, -1:] / balance[-1]
    every = np.hstack([*scores, of_balance])
    information = every.T @ (every * counts[:, None])
    at = np.arange(m)
    for y in range(n_classes):
        for z in range(n_classes):
            tie = ROW_VOTES * ((y == z) - 1 / n_classes) + SOURCE_VOTES / n_classes**2
            information[y * m + at, z * m + at] += tie / variance
    size = m * n_classes
    information[np.diag_indices(size)] += 1e-3
    information[size:, size:] += np.diag(UNIFORM_ITEMS / n_classes / balance[:-1] ** 2)
    slopes = np.zeros((m, len(information)))
    for y in range(n_classes):
        slopes[at, y * m + at] = share[:, y]
    slopes[:, size:] = right[:, :-1] - right[:, -1:]
    inverse = np.linalg.pinv(information, hermitian=True)
    return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, inverse, slopes), 0.0))


def _sampled(rows: Rows, labels: Array, m: int) -> tuple[OneHot, Array, Array]:
    """Return votes, labels and counts of rows; of evenly spaced ones, scaled up, if there are very many."""
    at = np.flatnonzero(rows.counts)
    kept = max(2_000, _MOST_SCORE_CELLS // (m * labels.shape[1]))
    if kept < len(at):
        at = at[np.linspace(0, len(at) - 1, kept).astype(np.intp)]
    counts = rows.counts[at]
    return rows.cast[at], labels[at], counts * (rows.counts.sum() / max(counts.sum(), 1e-12))
