"""Weighted votes mixed with confusion tables: the estimator behind ``method="auto"``.

The steps: find dependent sources; weight the votes; estimate tables by EM with shrinkage; measure how well
the tables explain the agreement of pairs; mix tables and weighted votes accordingly. No step uses a hard
threshold, so a small change of the votes changes the labels little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.dependence import MOST_SOURCES, Dependence, find_copies, find_dependence
from flyingsquid.estimation.independence import CLEARLY_DEPENDENT, independence_of_votes
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.estimation.source_estimates import (
    RowLabels,
    SourceErrors,
    SourceEstimates,
    assess_sources,
    estimate_sources,
)
from flyingsquid.estimation.table_em import (
    MOST_CELLS,
    MOST_PAIR_CELLS,
    PairEM,
    RowEM,
    Rows,
    Tables,
    converge,
)
from flyingsquid.estimation.trust import (
    MOST_FROM_PAIRS,
    SumsOfPairs,
    Trust,
    evidence_against_abstention,
    p_value_of_chance,
    probability_adequate,
    shares_of_pairs,
    trust_in_tables,
)
from flyingsquid.estimation.weighted import VoteWeights, vote_weights, votes_per_item
from flyingsquid.graph.junction import components
from flyingsquid.inference.weighted import (
    EVEN_VOTE,
    Mixture,
    TableTerm,
    best_class,
    one_hot_posterior,
    row_sums,
    shares_of,
)
from flyingsquid.moments import Moments, PairAgreement

Array = NDArray[np.float64]
# Anchored tables are kept close to the weighted votes by EM. Their share in the part that tables do not get;
# half of it at this many votes per item. They are more accurate with more votes per item, and less accurate
# for one-sided rules with few (design datasets).
_ANCHORED_SHARE, _VOTES_PER_ITEM, _STEEPNESS = 0.5, 3.0, 8
# Sources are a crowd if they vote on less than this share of the items on average (.1 to .3: same verdicts).
_CROWD_COVERAGE = 0.3
# Anchored tables are used less if they move this share of the items to another class (plateau: .05 to .06)
# without a gain in log-likelihood of this much per moved item (.1 to .4), more if this share of the pairs is
# dependent. Derived datasets with anchored tables gain .5 points, and 15% instead of 22% are more than a
# point below majority vote; the design half: same. Without the likelihood, simulated crowds whose errors
# depend on the class lose 3 points (docs/design/0009-default.md).
_UNSUPPORTED, _NATS_PER_ITEM, _DEPENDENT_PAIRS = 0.055, 0.2, 0.1
# Items without votes get the estimated balance only if it is trusted more than this: otherwise, it is mostly
# noise. As far as it is not trusted, they get the shares of the votes plus this many uniform pseudo-votes, if
# more than this share of the votes is by sources of several classes and one class exceeds a uniform share by
# this much. Smaller differences often come from errors or coverage that depend on the class
# (docs/quality/regret.md).
_TRUSTED_BALANCE = 0.1
_UNIFORM_VOTES, _SEVERAL, _IMBALANCE = 20.0, 0.5, 0.12
# If votes were asked for depending on earlier ones, agreement is estimated on complete items; half of it if a
# source has this many votes there (with 100 instead, llm_civilcomments loses .4 points; crowd_rte: same).
_COMPLETE_VOTES = 10.0
# A given class balance relative to that of the votes is kept below this and above its inverse, because votes
# for a class may be missing altogether (3 to 5: same).
_MOST_RELATIVE = 3.0
# Of more rows than this, some are labeled first.
_MANY_ROWS = 4_096
# Parts of the mixture with a smaller share than this are left out, and anchored tables if the tables are
# trusted more than this, because their share would be at most .025.
_NEGLIGIBLE, _TRUSTED = 0.01, 0.95
# Log Bayes factor against abstentions from which tables are not made more exact. Their share is 0 from 6 on.
# On the design half, it changes by less than 5% afterwards.
_BEYOND_DOUBT = 500.0
PLAUSIBLE = 0.05
"""Tables are plausible from this trust on.

The gain must hold under plausible tables, and under weighted votes unless the tables passed a test. Labels
that differ from weighted votes lose under them by construction, so their gain shows little.
"""
# Sources may be independent if the trust exceeds the first number, and have passed the test with the second
# (with .75, 1 of 4,000 random panels of LLMBar is recommended with a loss; with .5, 2). Guesses pass, too, so
# the agreement must also have this p-value. In a crowd, chance decides who votes on an item, so pairs that
# share errors have few items in common; a gain may then rest on rejected tables, if this many pairs
# beyond the number of sources were compared. With this exception for all sources, 11 of 31 recommended panels
# of weak classifiers lose; with it for crowds alone, none is recommended.
_LIKELY, _VERY_LIKELY, _CLEAR_SIGNAL, _FEWEST_TESTED = 0.5, 0.8, 0.005, 3
# If more than this share of the pairs is dependent, independence does not count as tested, even if the tables
# fit after the dependence is discounted: at twice this share, 22 of 2,500 random panels of LLMBar are
# recommended with a loss.
_FEW_DEPENDENT = 0.05
# Standard errors between the number of items without votes and that of independent abstentions. On tokens of
# which 90% are outside of all spans, rules that mark spans were recommended with a loss of 23 to 29 points.
_CHANCE_ERRORS = 4.0


class Gain(NamedTuple):
    """Expected accuracy minus that of majority vote, with a 95% interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """Estimated parameters, and on demand how uncertain they are.

    Attributes
    ----------
    moments, balance : as in :func:`fit_mixture`
    labels : RowLabels or None
        Labels of the rows; None if only counts are available.
    mixture : Mixture
    tables : Tables or None
    trust : Trust
    dependence : Dependence
    sources : SourceEstimates
        Accuracies, confusion tables and the class balance.
    only_class : int or None
        The label of all items with votes, if it is the same for all.
    """

    moments: Moments
    labels: RowLabels | None
    balance: Array | None
    mixture: Mixture
    tables: Tables | None
    trust: Trust
    dependence: Dependence
    sources: SourceEstimates
    only_class: int | None = None

    @cached_property
    def errors(self) -> SourceErrors:
        """Uncertainty of the sources."""
        return assess_sources(
            self.moments,
            self.labels,
            self.mixture,
            self.tables,
            self.trust,
            self.dependence,
            self.sources,
            with_balance=self.balance is None,
        )

    @property
    def is_tested(self) -> bool:
        """True if a test did not reject the independence of the sources, or if they are a crowd."""
        m = self.moments.n_sources
        if self.dependence.n_pairs > _FEW_DEPENDENT * m * (m - 1) / 2:
            return False
        coverage = self.moments.coverage
        mean_coverage = float(coverage.sum()) / max(int(np.count_nonzero(coverage)), 1)
        is_crowd = mean_coverage < _CROWD_COVERAGE
        return self.trust.share > _LIKELY or (is_crowd and self.trust.n_tested >= _FEWEST_TESTED)

    @property
    def _has_passed(self) -> bool:
        """True if the tables passed the test of independence, and no other test rejects them."""
        if self.trust.share <= _VERY_LIKELY or p_value_of_chance(self.moments) > _CLEAR_SIGNAL:
            return False
        shared = self.dependence.shared
        groups = None if shared is None else components(np.argwhere(shared > 0), len(shared))
        test = independence_of_votes(self.moments, groups)
        return test is None or test.p_value >= CLEARLY_DEPENDENT

    @cached_property
    def gain(self) -> Gain | None:
        """Gain over majority vote, over tables and weighted votes as far as each is plausible.

        None from counts alone.
        """
        labels = self.labels
        if labels is None:
            return None
        rows, plausible = labels.rows, []
        if not self._has_passed:  # items without votes have the same label by any weights
            plausible.append(np.where(rows.voted[:, None] > 0, labels.fallback, self.mixture.without_votes))
        if labels.by_tables is not None and self.trust.share > PLAUSIBLE:
            plausible.append(labels.by_tables)
        mixed = one_hot_posterior(rows.one_hot, self.mixture, labels.fallback, labels.by_tables)
        return gain_over_majority(mixed, plausible, rows, is_tested=self.is_tested)


class Complete(NamedTuple):
    """Items on which no vote is missing because it was not asked for."""

    moments: Moments
    rows: Rows


def fit_mixture(
    moments: Moments, rows: Rows | None, balance: Array | None, complete: Complete | None = None
) -> MixtureFit:
    """Fit the mixture to distinct rows, or to counts of pairs if rows are not available.

    Parameters
    ----------
    moments : Moments
        Counts of all pairs.
    rows : Rows or None
        None if only counts are available.
    balance : array of shape (K,) or None
        The class balance, if it is known.
    complete : Complete or None
        If votes on the other items were asked for depending on earlier ones: that changes how often two
        sources agree on the items that both vote on, but not the likelihood of the tables.
    """
    m, n_classes = moments.n_sources, moments.n_classes
    tested = moments if complete is None else complete.moments
    pairs = tested.compare_pairs() if m <= MOST_SOURCES else None
    dependence = find_dependence(tested, pairs)
    shared = dependence.shared
    weights = vote_weights(moments, shared, pairs if complete is None else None)
    if complete is not None:
        weights = _with_complete(weights, complete, shared)
    em = None if rows is None else RowEM(rows, weights, balance)
    tables, term, by_tables, trust = None, None, None, Trust(0.0)
    if shared is None or pairs is None or m * n_classes**2 > MOST_CELLS:
        pass  # too many sources or classes for tables
    elif em is not None:
        tables, abstention, against = _fit_tables(moments, weights, em)
        by_tables = em.posterior(tables, abstention)
        compared = em.rows if complete is None else complete.rows
        labels = by_tables if complete is None else replace(em, rows=compared).posterior(tables, abstention)
        sums_of_pairs: SumsOfPairs = partial(compared.one_hot.co_votes, compared.counts[:, None] * labels)
    elif m**2 * n_classes**3 <= MOST_PAIR_CELLS:
        tables, abstention, against = _fit_tables(moments, weights, PairEM(moments, weights, shared, balance))
        sums_of_pairs = partial(shares_of_pairs, tables)
    if tables is not None and pairs is not None:
        # As files store them, so that a loaded model gives the same labels to the last bit.
        tables = tables._replace(tables=np.ascontiguousarray(tables.tables))
        term = tables.term(weights, abstention)
        most = MOST_FROM_PAIRS if em is None else 1.0
        trust = trust_in_tables(tested, pairs, tables, sums_of_pairs, weights, dependence, against, most=most)
    mixture = _mix(moments, pairs, complete, balance, em, term, trust, dependence, weights)
    labeled = None
    if em is not None:
        is_known = mixture.prior is None and mixture.weights is em.weights.weights
        labeled = RowLabels(em.rows, mixture, by_tables, em.by_votes if is_known else None)
    return assess_mixture(moments, labeled, balance, mixture, tables, trust, dependence)


def _fit_tables(
    moments: Moments, weights: VoteWeights, em: RowEM | PairEM
) -> tuple[Tables, float, float | None]:
    """Estimate tables; abstentions are evidence to the extent that they depend on the class only.

    Returns the tables, the weight of abstentions, and the evidence against it, None if it is untested.
    """
    tables = converge(em.passes(), em.start())
    if (moments.n_sources * moments.n_classes) ** 2 > MOST_CELLS or moments.coverage.min() >= 1:
        return tables, 0.0, None
    if moments.missing[:, -1].any():  # votes that were not asked for are no evidence
        return tables, 0.0, None
    evidence = evidence_against_abstention(moments, weights)
    if evidence is None:
        return tables, 0.0, None
    one_pass = em.passes(abstention=1.0)
    # Such evidence hardly depends on the last digits of tables that are not used then. With two classes, a
    # second test takes longer than the passes that it saves.
    early: list[float] = []

    def is_enough(almost: Tables) -> bool:
        early.append(evidence(almost))
        return early[0] > _BEYOND_DOUBT

    found = converge(one_pass, one_pass(tables), None if moments.n_classes == 2 else is_enough)
    if early and early[0] > _BEYOND_DOUBT:
        return tables, 0.0, early[0]
    against = evidence(found)
    share = _without_negligible(probability_adequate(against))
    if share == 0:
        return tables, 0.0, against
    if share < 1:
        one_pass = em.passes(share)
        found = converge(one_pass, one_pass(found))
    return found, share, against


def _with_complete(weights: VoteWeights, complete: Complete, shared: Array | None) -> VoteWeights:
    """Weight votes by agreement, as far as possible by that on items whose votes are complete."""
    n_votes = np.asarray(complete.moments.vote_counts, np.float64).sum(axis=1, keepdims=True)
    share = n_votes / (n_votes + _COMPLETE_VOTES)
    on_complete = vote_weights(complete.moments, shared).weights
    return replace(weights, weights=share * on_complete + (1 - share) * weights.weights)


def _without_negligible(share: float) -> float:
    """Return 0 or 1 for shares close to them, so that a tie of plain majority vote stays a tie."""
    return float(np.round(share)) if abs(share - np.round(share)) < _NEGLIGIBLE else share


def fit_weights(moments: Moments, rows: Rows | None, balance: Array | None) -> MixtureFit:
    """Fit weighted votes without confusion tables, discounting only near-copies."""
    dependence, trust = find_copies(moments), Trust(0.0)
    weights = vote_weights(moments, dependence.shared)
    mixture = Mixture(
        weights=weights.weights,
        one_sided=weights.one_sided,
        without_votes=_without_votes(moments, balance, None, trust, weights),
        prior=None if balance is None else _prior(moments, balance, weights),
    )
    labels = None if rows is None else RowLabels.of(rows, mixture)
    return assess_mixture(moments, labels, balance, mixture, None, trust, dependence)


def _mix(
    moments: Moments,
    pairs: PairAgreement | None,
    complete: Complete | None,
    balance: Array | None,
    em: RowEM | None,
    term: TableTerm | None,
    trust: Trust,
    dependence: Dependence,
    firm: VoteWeights,
) -> Mixture:
    """Mix the tables with weighted votes, which discount dependent pairs by the trust in the tables."""
    shared, scaled = dependence.shared, dependence.scaled(trust.share)
    is_firm = shared is None or scaled is None or np.array_equal(scaled, shared)
    weights = firm if is_firm else vote_weights(moments, scaled, pairs if complete is None else None)
    if complete is not None and not is_firm:
        weights = _with_complete(weights, complete, scaled)
    anchored, anchored_share = None, 0.0
    if em is not None and moments.n_sources * moments.n_classes**2 <= MOST_CELLS:
        power = (votes_per_item(moments, weights) / _VOTES_PER_ITEM) ** _STEEPNESS
        anchored_share = _ANCHORED_SHARE * power / (1 + power)
        is_trusted = trust.share > _TRUSTED and not weights.one_sided.any()
        if anchored_share < _NEGLIGIBLE or is_trusted:
            anchored_share = 0.0
        else:
            em = em if is_firm else replace(em, weights=weights)
            tables = em.anchored()
            anchored = tables._replace(tables=np.ascontiguousarray(tables.tables)).term(weights)
            if balance is None:
                anchored_share *= _supported(em, tables, dependence)
    return Mixture(
        weights=weights.weights,
        one_sided=weights.one_sided,
        without_votes=_without_votes(moments, balance, term, trust, weights),
        prior=None if balance is None else _prior(moments, balance, weights),
        tables=term,
        trust=_without_negligible(trust.share),
        anchored=anchored,
        anchored_share=float(anchored_share),
        majority=_without_negligible(dependence.contradiction),
    )


def _supported(em: RowEM, tables: Tables, dependence: Dependence) -> float:
    """Return a factor in [0, 1] for anchored tables, less than 1 if they move items without support.

    Sources that share errors do not determine how frequent the classes are. So anchored tables may move items
    to another class only as far as this makes the votes more likely. If many pairs are dependent, it must
    make them much more likely, because the likelihood counts shared errors repeatedly.
    """
    moved = em.moved_share(tables)
    if moved < _UNSUPPORTED / 4:  # the factor would be above .9999
        return 1.0
    voting = np.count_nonzero(em.rows.votes.sum(axis=1))
    dependent = dependence.n_pairs / max(voting * (voting - 1) / 2, 1)
    needed = _NATS_PER_ITEM * (1 + (dependent / _DEPENDENT_PAIRS) ** 4)
    support = max(em.likelihood_gain(tables), 0.0) / needed
    return 1 / (1 + (max(moved - support, 0.0) / _UNSUPPORTED) ** _STEEPNESS)


def _prior(moments: Moments, balance: Array, weights: VoteWeights) -> Array:
    """Return the distribution of the pseudo-vote that is added to every item if the class balance was given.

    It is the given balance relative to that of the labels by weighted votes, so it changes nothing if they
    agree. An item with n votes counts once, and its label has a probability of about n / (n + 1). The votes
    of one-sided sources already reflect the balance, so the given balance is weighted by the share of votes
    from other sources (otherwise, F1 decreases on census and spouse).
    """
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    n_votes = 1 + moments.votes_of_others()[1] / np.maximum(vote_counts, 1e-300)  # on the items of each vote
    items = vote_counts * weights.weights / n_votes
    certain = items * n_votes / (n_votes + EVEN_VOTE)
    mass = certain.sum(axis=0) + (items - certain).sum() / len(balance)
    relative = balance / np.maximum(mass / max(mass.sum(), 1e-300), 1e-12)
    relative = np.clip(relative, 1 / _MOST_RELATIVE, _MOST_RELATIVE)
    share = _share_of_several(moments, weights)
    return np.asarray(share * relative / relative.sum() + (1 - share) / len(balance))


def _share_of_several(moments: Moments, weights: VoteWeights) -> float:
    """Return the share of votes from sources that vote for several classes."""
    n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    return float(n_votes[~weights.one_sided].sum() / max(n_votes.sum(), 1.0))


def _without_votes(
    moments: Moments,
    balance: Array | None,
    term: TableTerm | None,
    trust: Trust,
    weights: VoteWeights,
) -> Array:
    """Return P(Y = k) for items without votes: the balance of the tables as far as it is trusted.

    Apart from that, it is the given class balance, or the share of each class in the votes, or uniform if
    they show no clear imbalance.
    """
    several = _share_of_several(moments, weights)
    uniform = np.full(moments.n_classes, 1 / moments.n_classes)
    otherwise = uniform if balance is None else balance
    n_votes = np.asarray(moments.vote_counts, np.float64)[~weights.one_sided].sum(axis=0)
    shares = (n_votes + _UNIFORM_VOTES * uniform) / (n_votes.sum() + _UNIFORM_VOTES)
    is_clear = several > _SEVERAL and np.count_nonzero(n_votes) > 1 and shares.max() - uniform[0] > _IMBALANCE
    if balance is None and is_clear:
        otherwise = np.asarray(shares)
    if term is None or np.count_nonzero(moments.vote_counts.sum(axis=0)) < 2:
        return otherwise  # votes for one class do not show how frequent it is
    trusted = trust.share * several
    return trusted * term.balance + (1 - trusted) * otherwise if trusted > _TRUSTED_BALANCE else otherwise


# ---------------------------------------------------------------------- what the labels imply


def assess_mixture(
    moments: Moments,
    labels: RowLabels | None,
    balance: Array | None,
    mixture: Mixture,
    tables: Tables | None,
    trust: Trust,
    dependence: Dependence,
) -> MixtureFit:
    """Return the mixture with the estimates of the sources that its labels imply."""
    sources = estimate_sources(moments, labels, mixture, tables, trust, balance)
    only_class = None if labels is None else _only_class(labels)
    return MixtureFit(moments, labels, balance, mixture, tables, trust, dependence, sources, only_class)


def _only_class(labels: RowLabels) -> int | None:
    """Return the label of all items with votes, if it is the same for all."""
    rows, mixture = labels.rows, labels.mixture
    if len(rows.counts) > _MANY_ROWS:  # mostly, some of them show that labels differ
        some = np.arange(0, len(rows.counts), _MANY_ROWS // 16)
        some = some[rows.voted[some] > 0]
        best = one_hot_posterior(rows.one_hot[some], mixture).argmax(axis=1)
        if (best != best[:1]).any():
            return None
    mixed = one_hot_posterior(rows.one_hot, mixture, labels.fallback, labels.by_tables)
    best = mixed[rows.voted > 0].argmax(axis=1)
    return int(best[0]) if len(best) and (best == best[0]).all() else None


def gain_over_majority(labels: Array, plausible: list[Array], rows: Rows, *, is_tested: bool) -> Gain:
    """Return the expected accuracy of the labels minus that of majority vote, and its 95% interval.

    The gain is computed from the labels. The interval covers the gains that each plausible model, posteriors
    of shape (u, K), implies, and the sampling error of the items on which the two differ. If the independence
    of the sources could not be tested, every label of an item with votes that differs from majority vote may
    be wrong. So may that of an item without votes if the number of these items is not due to chance.
    """
    total = rows.counts.sum()
    if not total > 0:
        return Gain(0.0, (0.0, 0.0))
    best = best_class(labels)
    change = best - best_class(shares_of(rows.one_hot.class_sums(np.ones(rows.votes.shape))))
    differ = row_sums(np.maximum(change, 0.0))[:, 0]
    expected = [row_sums(p * change)[:, 0] for p in (labels, *plausible)]
    gains = [float(rows.counts @ each / total) for each in expected]
    may_be_wrong = np.where(rows.voted > 0, not is_tested, not _is_missing_by_chance(rows))
    worst = [np.where(may_be_wrong, -differ, each) for each in expected]
    lowest = min(float(rows.counts @ each / total) for each in worst)
    reach = float(NORMAL_95 * np.sqrt(rows.counts @ differ) / total)
    return Gain(gains[0], (lowest - reach, max(gains) + reach))


def _is_missing_by_chance(rows: Rows) -> bool:
    """Return whether about as many items have no votes as if sources abstained independently of each other.

    Otherwise, sources abstain on the same items, and items without votes may be of another class than others.
    """
    share = float(np.prod(1 - rows.votes.sum(axis=1) / rows.n_items))
    difference = abs(rows.n_items - rows.n_voted - rows.n_items * share)
    return difference <= _CHANCE_ERRORS * np.sqrt(rows.n_items * share * (1 - share))
