"""95% intervals of accuracies and of the class balance that include errors shared by the sources.

Sampling is the smaller part of the error of an accuracy. Sources share errors, so labels made of their votes
are wrong more often than the votes show, and every source that agrees with these labels looks better than it
is. If a share e of the labels is wrong, an accuracy a moves towards chance c = 1/K by e K / (K - 1) (a - c).
No statistic of the votes determines e. It is bounded by a multiple of the doubt, the mean probability that a
label is wrong, and decreases with the extent to which confusion tables explain how often sources agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.shares import NORMAL_95

Array = NDArray[np.float64]
FEWEST_SOURCES = 3
"""Votes of fewer sources, near-copies counted once, do not determine any accuracy."""


@dataclass(frozen=True, slots=True)
class Widening:
    """Constants of the reach of intervals beyond the sampling error.

    Constants were chosen on the design half (docs/quality/honesty.md; docs/design/0009-default.md).

    Attributes
    ----------
    shared : float
        Upper bound of the share of wrong labels, as a multiple of the doubt.
    suspect_shared : float
        Additional multiple for suspicious sources.
    least : float
        Constant part of the reach to both sides.
    away, suspect_away : float
        Reach to both sides as a multiple of the doubt, for all sources, and in addition for suspicious ones.
    contradiction : float
        If two groups of sources contradict each other, accuracies may be on the other side of chance by this
        multiple less 1.
    """

    shared: float = 1.7
    suspect_shared: float = 0.8
    least: float = 0.05
    away: float = 0.1
    suspect_away: float = 0.3
    contradiction: float = 1.2


DEFAULT = Widening()
# The class balance may be wrong by this, and by the doubt times the share of labels that may be wrong to one
# side, twice that if all votes come from one-sided sources.
_LEAST_BALANCE, _DOUBT_OF_BALANCE = 0.05, 0.9
# If this share of all pairs is dependent, all sources are suspect.
_DEPENDENT_PAIRS = 0.1
# This many tested pairs make up for a dependent one, squared: with four or five sources, the pairs that are
# left after dependent ones were found test little.
_TESTED_PER_DEPENDENT = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyEvidence:
    """Statistics that determine the reach of accuracy intervals.

    Attributes
    ----------
    accuracies : array of shape (m,)
    lowest, highest : arrays of shape (m,)
        Range of the accuracies over plausible labels.
    doubt : array of shape (m,)
        Mean probability that the label of an item is wrong, over the items that the source votes on.
    trust : array of shape (m,)
        Share of the accuracy that rests on tables; see :func:`usable_trust`.
    suspect : array of shape (m,)
        Score in [0, 1] for how suspicious a source is; see :func:`suspicion`.
    n_classes : int
    contradiction : float
        How clearly two groups of sources contradict each other, in [0, 1].
    n_groups : int
        Sources that vote, near-copies counted once.
    """

    accuracies: Array
    lowest: Array
    highest: Array
    doubt: Array
    trust: Array
    suspect: Array
    n_classes: int
    contradiction: float
    n_groups: int


def accuracy_reach(evidence: AccuracyEvidence, widening: Widening = DEFAULT) -> Array:
    """Return how much accuracies may differ from the estimates if the model is wrong, shape (m, 2).

    NaN if there are fewer than :data:`FEWEST_SOURCES` sources. Three sources determine their accuracies and
    leave nothing to test, so intervals reach down to chance.

    Examples
    --------
    >>> half = np.full(3, 0.5)
    >>> evidence = AccuracyEvidence(
    ...     np.array([0.9, 0.7, 0.5]), np.array([0.9, 0.7, 0.5]), np.array([0.9, 0.7, 0.5]), 0.1 * np.ones(3),
    ...     np.zeros(3), np.zeros(3), 2, 0.0, 8)
    >>> accuracy_reach(evidence).round(3).tolist()
    [[0.186, 0.06], [0.118, 0.06], [0.06, 0.06]]
    """
    found, n_classes = evidence, evidence.n_classes
    if found.n_groups < FEWEST_SOURCES:
        return np.full((len(found.accuracies), 2), np.nan)
    wrong = (widening.shared + widening.suspect_shared * found.suspect) * found.doubt
    shrinkage = np.maximum(wrong * n_classes / (n_classes - 1), widening.contradiction * found.contradiction)
    if found.n_groups == FEWEST_SOURCES:
        shrinkage = np.maximum(shrinkage, 1.0)
    towards_chance = shrinkage * (found.accuracies - 1 / n_classes)
    away = (widening.away + widening.suspect_away * found.suspect) * found.doubt
    below = np.maximum(towards_chance, found.accuracies - found.lowest + away)
    above = np.maximum(-towards_chance, found.highest - found.accuracies + away)
    reach = widening.least + np.stack([below, above], axis=1)
    return np.asarray((1 - found.trust[:, None]) * reach)


def intervals_around(estimates: Array, errors: Array, reach: Array | None = None) -> Array:
    """Return 95% intervals within [0, 1], with an additional axis for the two ends.

    Parameters
    ----------
    estimates, errors : arrays of any shape
        Estimates with their standard errors from sampling.
    reach : array with an additional axis of size 2, optional
        Largest distance of the truth below and above the estimates for reasons other than sampling.

    Examples
    --------
    >>> intervals_around(np.array([0.8]), np.array([0.01]), np.array([[0.1, 0.0]])).round(3).tolist()
    [[0.698, 0.82]]
    """
    sampling = NORMAL_95 * errors[..., None] * np.ones(2)
    total = sampling if reach is None else np.hypot(sampling, reach)
    return np.asarray(np.clip(estimates[..., None] + total * [-1.0, 1.0], 0.0, 1.0))


def usable_trust(share: float, n_tested: int, n_dependent: int, n_groups: int) -> float:
    """Return the weight of the confusion tables in intervals, in [0, 1].

    It is less than the trust in the tables if few pairs were tested compared with the number of dependent
    ones. It is 0 for three sources, because tables explain any agreement of three sources.
    """
    if n_groups <= FEWEST_SOURCES:
        return 0.0
    if not n_dependent:
        return share
    return share * n_tested**2 / (n_tested**2 + _TESTED_PER_DEPENDENT * n_dependent)


def suspicion(one_sided: NDArray[np.bool_], n_dependent: int, n_sources: int) -> Array:
    """Return a score in [0, 1] for how suspicious each source is, shape (m,).

    One-sided sources are suspicious, because their accuracy depends on the class balance, which their votes
    do not determine. All sources are suspicious if many pairs of the ``n_sources`` others depend on each
    other, because further dependent pairs are probably not detected.
    """
    pairs = max(n_sources * (n_sources - 1) / 2, 1.0)
    return np.where(one_sided, 1.0, min(n_dependent / pairs / _DEPENDENT_PAIRS, 1.0))


def balance_intervals(
    balance: Array, errors: Array, *, doubt: float, trust: float, one_sided: float
) -> Array:
    """Return 95% intervals of the class balance (K,), shape (K, 2).

    Parameters
    ----------
    balance, errors : arrays of shape (K,)
        With standard errors from sampling.
    doubt : float
        Mean probability that a label is wrong.
    trust : float
        Trust in the tables; see :func:`usable_trust`.
    one_sided : float
        Share of the votes that come from one-sided sources. Their numbers of votes do not reflect the class
        balance.
    """
    reach = (1 - trust) * (_LEAST_BALANCE + _DOUBT_OF_BALANCE * (1 + one_sided) * doubt)
    return intervals_around(balance, errors, np.full((len(balance), 2), reach))
