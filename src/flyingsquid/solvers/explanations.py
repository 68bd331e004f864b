"""Choice by gold labels among several factors that explain the votes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from flyingsquid.estimation.factors import Factors, direction_by_gold, fit_factors
from flyingsquid.fits.base import Array
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.correction import log_probabilities
from flyingsquid.inference.weighted import Mixture, TableTerm
from flyingsquid.solvers.base import FitData

MAJORITY_FOLLOWED = (
    "Two groups of sources contradict each other, and the votes do not show which group is right; labels "
    "follow the majority vote."
)
"""Concern reported if several explanations fit the votes."""
CONSISTENT_FOLLOWED = (
    "Two groups of judges contradict each other; the labels are based on the judges that give the "
    "same answer in both orders. To check whether this is right, label the items that fs.suggest_items lists."
)
"""Concern reported if several explanations fit the votes of judges that were asked in several orders."""


def follow_direction(mixture: Mixture, factors: Factors, toward: Array, intercept: float = 0.0) -> Mixture:
    """Return a mixture whose log odds follow a direction ``toward`` of the factors, shape (r,)."""
    per_vote = factors.coefficients @ toward
    adds = per_vote[:, None] * (np.array([-1.0, 1.0]) - factors.means[:, None])  # sources, votes
    logs = np.stack([-adds / 2, adds / 2], axis=1)
    second = float(expit(intercept))
    return replace(
        mixture,
        one_sided=np.zeros(len(adds), np.bool_),
        tables=TableTerm(logs, np.ones_like(mixture.weights), np.array([1 - second, second])),
        trust=1.0,
        anchored=None,
        anchored_share=0.0,
        majority=0.0,
    )


def choose_by_gold(plain: WeightedFit, data: FitData, own: Array) -> tuple[WeightedFit, Array]:
    """Choose among factors that explain the votes by the likelihood of gold labels.

    Parameters
    ----------
    plain : WeightedFit
        The label-free fit.
    data : FitData
        Data with gold labels.
    own : array of shape (g, K)
        Label-free posteriors of the items with gold labels.

    Returns
    -------
    WeightedFit, array of shape (g, K)
        The fit along the direction that gold labels favor, and the posterior of each item by a direction that
        was estimated without it. Both are unchanged if one factor suffices or gold labels favor them.
    """
    items, factors = data.labeled, fit_factors(data.moments)
    if items is None or factors is None or factors.rank < 2:
        return plain, own
    codes = items.votes.codes if data.votes is None else data.votes.codes
    gold, labels = items.labels[:, 0], plain.posterior(codes)[:, 0, 1]
    found = direction_by_gold(
        factors.scores(codes), labels, factors.scores(items.votes.codes), gold, items.weights
    )
    left_out = np.stack([expit(-found.left_out), expit(found.left_out)], axis=1)
    at = np.arange(len(gold))
    gains = log_probabilities(left_out)[at, gold] - log_probabilities(own)[at, gold]
    if float(items.weights @ gains) <= 0:
        return plain, own
    chosen = follow_direction(plain.mixture, factors, found.coefficients, found.intercept)
    reason = f"gold labels choose among {factors.rank} factors of the votes; {plain.reason}"
    concerns = tuple(each for each in plain.concerns if each not in (MAJORITY_FOLLOWED, CONSISTENT_FOLLOWED))
    return replace(plain, mixture=chosen, reason=reason, concerns=concerns), left_out
