"""Trust in confusion tables, from the agreement that they leave unexplained; and a test for any signal.

Tables assume that sources are independent given the truth. If so, they predict how often each pair of sources
agrees. Two deviations are tested: on average pairs agree more than predicted, because sources share errors;
or single pairs differ from the prediction in both directions. A Bayes factor compares them with a negligible
misfit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, log_ndtr, ndtr

from flyingsquid.estimation.dependence import MOST_SOURCES, Dependence
from flyingsquid.estimation.table_em import Tables
from flyingsquid.estimation.weighted import VoteWeights
from flyingsquid.moments import Moments, PairAgreement

Array = NDArray[np.float64]
# Prior probability that the tables are adequate: a trade-off between simulated votes (higher) and real ones
# (lower).
_PRIOR = 0.25
# A residual correlation of pairs of this size means that tables are wrong (plateau: .12 to .2); of this size,
# that the misfit is negligible (.001 to .005).
_WRONG, _NEGLIGIBLE = 0.15, 0.003
# Both apply if sources agree this much beyond chance (plateau: .1 to .3), and are smaller in proportion if
# they agree less: the agreement of weak sources is so small that a small misfit may explain all of it.
# Without this, the log loss on weak classifiers is .05 higher (docs/design/0009-default.md).
_CLEAR_AGREEMENT, _LEAST_AGREEMENT = 0.15, 0.001
MOST_FROM_PAIRS = 0.8
"""Highest trust from counts of pairs, which do not show a dependence that all sources share."""
# If this share of all pairs is dependent, they are not exceptions, and the tables do not apply. Only from
# counts alone it matters: without it, intervals of llm_civilcomments cover 17% of the accuracies.
_MANY_DEPENDENT = 0.25
# Votes on the same items determine accuracies and the class balance; half of it at this many pairs (100 to
# 300: same).
_PAIRS = 100.0
# Abstention is tested for sources with a coverage in this range, for classes with at least this many votes,
# and if there are at least this many sources.
_LEAST_COVERAGE, _MOST_COVERAGE, _UNUSUAL_VOTES, _FEWEST_SOURCES = 0.02, 0.98, 10.0, 3
# Pairs are compared one by one if they share this many items.
_SHARED_ITEMS = 10.0


@dataclass(frozen=True, slots=True)
class Trust:
    """Trust in confusion tables.

    Attributes
    ----------
    share : float
        Share of the tables in the posterior.
    shared_errors : float
        Mean residual correlation of pairs: how much more they agree than the tables predict.
    n_tested : int
        Degrees of freedom: pairs beyond the number of sources; 0 if nothing could be tested.
    """

    share: float
    shared_errors: float = 0.0
    n_tested: int = 0


SumsOfPairs: TypeAlias = Callable[[NDArray[np.intp], NDArray[np.intp]], Iterable[Array]]
"""Function of the first and the second source of p pairs that returns one array of shape (p,) per class."""


def shares_of_pairs(tables: Tables, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    """Return P(Y = y | two sources vote) by tables, up to a factor for each of p pairs, shape (K, p)."""
    if tables.coverage is None:
        return np.repeat(tables.balance[:, None], len(first), axis=1)
    return np.asarray(tables.balance[:, None] * (tables.coverage[first] * tables.coverage[second]).T)


def trust_in_tables(
    moments: Moments,
    pairs: PairAgreement,
    tables: Tables,
    sums_of_pairs: SumsOfPairs,
    weights: VoteWeights,
    dependence: Dependence,
    abstained: float | None,
    *,
    most: float,
) -> Trust:
    """Return the trust in confusion tables.

    Parameters
    ----------
    moments : Moments
    pairs : PairAgreement
        ``moments.compare_pairs()``.
    tables : Tables
    sums_of_pairs : SumsOfPairs
        Number of items of each class that both sources of a pair vote on, up to a factor for each pair.
    weights : VoteWeights
    dependence : Dependence
    abstained : float or None
        Evidence that abstentions do not depend only on the class. It is used if there are too few pairs to
        compare their agreement.
    most : float
        Highest trust.
    """
    several, n_votes = ~weights.one_sided, np.asarray(moments.vote_counts).sum(axis=1)
    shares_items = pairs.overlap >= 1
    tested = shares_items & several[pairs.first] & several[pairs.second]
    if dependence.shared is not None:
        tested &= dependence.shared[pairs.first, pairs.second] == 0
    first, second = pairs.first[tested], pairs.second[tested]
    n_tested = max(len(first) - int(np.count_nonzero(np.bincount(np.concatenate([first, second])))), 0)
    voting = several & (n_votes > 0)
    n_voting = int(voting.sum())
    n_pairs = n_voting * (n_voting - 1) / 2
    found, against = Trust(0.0), None
    # Sources that never vote together were given different items, which is not evidence about the classes:
    # with trust from such abstentions, four workers of crowd_rte were 11 points below majority vote.
    n_voting_pairs = np.count_nonzero(shares_items & voting[pairs.first] & voting[pairs.second])
    if n_voting_pairs == n_pairs and (n_votes[voting] >= 1).all():
        against = abstained
    if n_tested:
        residuals = _residuals(pairs, tested, tables, sums_of_pairs, n_tested)
        against = _evidence_against(residuals)
        found = Trust(0.0, residuals.mean, n_tested)
    if against is None:  # nothing could be tested, as with three sources that always vote
        return found
    if not n_tested:  # abstentions fit the tables, but are weak evidence about the accuracies
        most *= share_determined(pairs, weights)
    dependent = dependence.n_pairs / max(n_pairs, 1)
    share = min(most, probability_adequate(against)) / (1 + (dependent / _MANY_DEPENDENT) ** 8)
    return replace(found, share=float(share))


def share_determined(pairs: PairAgreement, weights: VoteWeights) -> float:
    """Return how far pairs of votes on the same items determine the parameters, in [0, 1]."""
    several = ~weights.one_sided
    n_pairs = pairs.overlap[several[pairs.first] & several[pairs.second]].sum()
    return float(n_pairs / (n_pairs + _PAIRS))


def probability_adequate(against: float) -> float:
    """Return the probability that a model is adequate, given the log Bayes factor against it."""
    odds = (1 - _PRIOR) / _PRIOR * np.exp(np.clip(against, -50.0, 50.0))
    return float(1 / (1 + odds))


@dataclass(frozen=True, slots=True)
class _Residuals:
    """Residuals of pairs of sources: agreement minus the agreement that tables predict.

    Attributes
    ----------
    mean, error : float
        Mean residual correlation, and its standard error.
    misfit : float
        Mean squared residual of a pair, in standard errors.
    degrees : int
        Number of pairs beyond the number of sources.
    precision : float
        One over the squared standard error of the residual correlation of a pair.
    scale : float in [0, 1]
        How much sources agree beyond chance; 1 if clearly.
    """

    mean: float
    error: float
    misfit: float
    degrees: int
    precision: float
    scale: float


def _residuals(
    pairs: PairAgreement, tested: NDArray[np.bool_], tables: Tables, sums_of_pairs: SumsOfPairs, degrees: int
) -> _Residuals:
    first, second, overlap = pairs.first[tested], pairs.second[tested], pairs.overlap[tested]
    n_items, predicted, variance = np.full((3, len(first)), 1e-300)
    by_class = zip(sums_of_pairs(first, second), tables.tables.transpose(1, 2, 0), strict=True)
    m, n_classes = tables.tables.shape[:2]
    at = first * m + second
    for n_shared, of_class in by_class:
        if m * m <= n_classes * len(at):  # the rates of all pairs are one product
            rate = (of_class.T @ of_class).ravel().take(at)
        else:
            rate = (of_class[:, first] * of_class[:, second]).sum(axis=0)
        n_items += n_shared
        predicted += n_shared * rate
        variance += n_shared * rate * (1 - rate)
    # Relative to the items of `sums_of_pairs`, which may be a sample of all.
    predicted, variance = predicted * overlap / n_items, variance * overlap / n_items
    residual, spread = pairs.agreement[tested] - predicted, np.maximum(variance, 0.25)
    chance = pairs.chance[tested] * overlap
    room = np.maximum(overlap - chance, 1e-9)
    # The largest possible additional agreement. Votes for one class leave none, so they test nothing.
    spare = np.maximum(overlap - predicted, 0.1 * room)
    beyond = np.sqrt(((predicted - chance) ** 2 / room).sum() / room.sum())
    return _Residuals(
        mean=float(residual.sum() / spare.sum()),
        error=float(np.sqrt(spread.sum()) / spare.sum()),
        misfit=float((residual**2 / spread).sum() / degrees),
        degrees=degrees,
        precision=float(np.mean(spare**2 / spread)),
        scale=float(np.clip(beyond, _LEAST_AGREEMENT, _CLEAR_AGREEMENT) / _CLEAR_AGREEMENT),
    )


def _evidence_against(found: _Residuals) -> float:
    """Return the log Bayes factor of "tables are wrong" against "negligible misfit".

    Tables are wrong on average over pairs or for single pairs, and with a probability of one half for both.
    """
    mean, error, wrong, negligible = found.mean, found.error, found.scale * _WRONG, found.scale * _NEGLIGIBLE
    # Shared errors make pairs agree more, so their mean correlation is positive: half a normal.
    positive = np.log(2) + float(log_ndtr(mean * wrong / error / np.hypot(wrong, error)))
    by_mean = positive + _log_ratio(mean**2, wrong**2 + error**2, negligible**2 + error**2, 1)
    of_wrong, of_negligible = (1 + found.precision * size**2 for size in (wrong, negligible))
    by_pairs = _log_ratio(found.misfit, of_wrong, of_negligible, found.degrees)
    both = by_mean + by_pairs + np.log(2)
    return float(np.logaddexp.reduce([by_mean, by_pairs, both]) - np.log(4))


def evidence_against_abstention(moments: Moments, weights: VoteWeights) -> Callable[[Tables], float] | None:
    """Return the test of abstention that depends on the class only; None if it cannot be tested.

    The test returns the log Bayes factor against it for tables with coverage. Whether one source votes, and
    for which class another one votes, are compared with the prediction from the coverage in each class.
    """
    coverage, n_items = moments.coverage, float(moments.n_items)
    several = ~weights.one_sided & (coverage > 0)
    at = np.flatnonzero(several & (coverage > _LEAST_COVERAGE) & (coverage < _MOST_COVERAGE))
    others = np.flatnonzero(several)
    share = (np.asarray(moments.vote_counts, np.float64)[others] / n_items).T[:, None]
    of_vote = share * (1 - share)
    tested = (at[:, None] != others) & (of_vote * n_items > _UNUSUAL_VOTES)
    if len(others) < _FEWEST_SOURCES or not tested.any():
        return None
    seen = moments.by_vote(at)[:, :, others] / n_items  # i votes and j votes v: (v, i, j)
    scale = np.sqrt((coverage * (1 - coverage))[at][:, None] * of_vote)

    def evidence(tables: Tables) -> float:
        voting = np.ones(tables.tables.shape[:2]) if tables.coverage is None else tables.coverage
        votes = voting[:, :, None] * tables.tables
        predicted = (tables.balance * voting[at]) @ votes[others].transpose(2, 1, 0)
        correlation = (seen - predicted)[tested] / scale[tested]
        mean_square = float(np.mean(correlation**2))
        noise = 1 / n_items
        return _log_ratio(mean_square, noise + _WRONG**2, noise + _NEGLIGIBLE**2, len(correlation))

    return evidence


def _log_ratio(mean_square: float, wrong: float, negligible: float, n: int) -> float:
    """Return the log density of n values under the normal with variance ``wrong``, minus ``negligible``."""
    by_wrong, by_negligible = (-0.5 * n * (np.log(v) + mean_square / v) for v in (wrong, negligible))
    return float(by_wrong - by_negligible)


def p_value_of_chance(moments: Moments) -> float:
    """Return the p-value of the agreement of sources that guess; 0 if no sources can be compared.

    Sources that guess agree as often as their class shares imply. There are two tests: of all pairs together,
    and of single pairs, which also detects groups of sources that contradict each other.
    """
    if moments.n_sources > MOST_SOURCES or not moments.has_all_pairs:
        return 0.0
    pairs = moments.compare_pairs()
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    share = vote_counts / np.maximum(vote_counts.sum(axis=1, keepdims=True), 1e-12)
    first, second = share[pairs.first], share[pairs.second]
    by_chance, cubes = (first * second).sum(axis=1), (first * second * (first + second)).sum(axis=1)
    # Variance of the agreement beyond chance of two sources that guess (Fleiss, Cohen and Everitt 1969).
    variance = pairs.overlap * np.maximum(by_chance + by_chance**2 - cubes, 0.0)
    compared = (variance > 1e-9) & (pairs.spread > 0).all(axis=0)
    if not compared.any():
        return 0.0
    beyond, variance = (pairs.agreement - pairs.chance * pairs.overlap)[compared], variance[compared]
    together = ndtr(-beyond.sum() / np.sqrt(variance.sum()))
    often = pairs.overlap[compared] >= _SHARED_ITEMS
    single = chdtrc(often.sum(), (beyond[often] ** 2 / variance[often]).sum()) if often.any() else 1.0
    return float(min(2 * min(together, single), 1.0))
