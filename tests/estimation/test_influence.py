"""Influence functions are derivatives of the estimates by the weight of an item, on exact populations."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from flyingsquid.estimation.balance import (
    BalanceEstimate,
    estimate_balance,
    rank_one_influence,
    skewness_influence,
)
from flyingsquid.estimation.binary import Evidence, fit_binary
from flyingsquid.estimation.sources import Separation
from flyingsquid.estimation.standard_errors import accuracy_errors, strength_errors
from flyingsquid.estimation.triplets import Options
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from tests.oracle.star import AnyStar

STAR = AnyStar.random(np.random.default_rng(3), 5)
ROWS = STAR.patterns()
SIGNED = np.where(ROWS < 0, 0.0, 2.0 * ROWS - 1)
P = STAR.joint().sum(axis=1)
N_ITEMS = 1e12
GIVEN = np.array(STAR.balance)
# The first two sources may depend on each other, so their pair is not used.
SEPARATIONS = {
    "independent": Separation.independent(5),
    "a dependent pair": Separation(np.array([0, 0, 1, 2, 3]), np.ones(5, np.bool_)),
}


def fit(p, separation, balance=None):
    votes, weights = Votes.from_classes(ROWS, classes=(0, 1)), p * N_ITEMS
    moments = Moments.of(votes, sample_weight=weights)
    evidence = Evidence(moments, votes, weights, separation=separation)
    return moments, fit_binary(evidence, balance, Options("covariance", screen=0.0))


def derivatives(estimate, chosen):
    """Return the derivative of an estimate by the share of each of the chosen rows, shape (rows, ...)."""
    found = []
    for row in chosen:
        at_row = np.arange(len(P)) == row
        up, down = (estimate((1 - step) * P + step * at_row) for step in (1e-6, -1e-6))
        found.append((up - down) / 2e-6)
    return np.array(found)


@pytest.fixture(scope="module")
def chosen():
    """Rows that are not rare, as a derivative needs a weight that can also decrease."""
    return np.random.default_rng(0).choice(np.flatnonzero(P > 1e-4), 12, replace=False)


@pytest.mark.parametrize("separation", SEPARATIONS.values(), ids=SEPARATIONS)
def test_influence_on_strengths(separation, chosen):
    expected = derivatives(lambda p: fit(p, separation)[1].conditional.strength, chosen)
    conditional = fit(P, separation)[1].conditional
    centered = SIGNED[chosen] - conditional.centered.mean
    found = rank_one_influence(centered, conditional)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    share = np.array([0.5, -1.0, 2.0, 0.3, 1.0])
    np.testing.assert_allclose(rank_one_influence(centered, conditional, share), found @ share)
    spread = np.std(found[:2], axis=0)
    np.testing.assert_allclose(
        strength_errors(conditional, SIGNED[chosen[:2]]) * np.sqrt(N_ITEMS), spread, rtol=1e-9
    )


@pytest.mark.parametrize("separation", SEPARATIONS.values(), ids=SEPARATIONS)
def test_influence_on_the_class_balance(separation, chosen):
    conditional = fit(P, separation)[1].conditional
    expected = derivatives(lambda p: fit(p, separation)[1].balance_estimate.expected, chosen)
    e = GIVEN[1] - GIVEN[0]
    skewness = -2 * e / np.sqrt(1 - e**2)
    found = skewness_influence(SIGNED[chosen] - conditional.centered.mean, conditional, skewness)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    # The standard error is the spread of the influence of all items.
    every = skewness_influence(SIGNED - conditional.centered.mean, conditional, skewness)
    votes = Votes.from_classes(ROWS, classes=(0, 1))
    estimate = estimate_balance(votes, P * N_ITEMS, conditional)
    assert estimate.expected == pytest.approx(e, abs=1e-8)
    assert estimate.error == pytest.approx(np.sqrt(P @ every**2 / N_ITEMS), rel=1e-6)


@pytest.mark.parametrize("separation", SEPARATIONS.values(), ids=SEPARATIONS)
@pytest.mark.parametrize("balance", [None, GIVEN], ids=["estimated balance", "given balance"])
def test_standard_errors_of_accuracies_are_the_spread_of_their_influence(separation, balance, chosen):
    def accuracies(p):
        moments, found = fit(p, separation, balance)
        return (1 + found.mean_parameters / moments.coverage) / 2

    influence = derivatives(accuracies, chosen)
    moments, found = fit(P, separation, balance)
    for pair in np.arange(len(chosen)).reshape(-1, 2):
        errors = accuracy_errors(
            moments, found, method="covariance", screen=0.0, by_hand=False, rows=SIGNED[chosen[pair]]
        )
        expected = np.abs(np.subtract(*influence[pair])) / 2  # the standard deviation of two values
        np.testing.assert_allclose(errors * np.sqrt(N_ITEMS), expected, atol=1e-4 * np.abs(influence).max())


@pytest.mark.parametrize("separation", SEPARATIONS.values(), ids=SEPARATIONS)
def test_class_balance_is_the_mean_of_weighted_triples_from_different_groups(separation):
    """Sources weigh by b over the variance that the truth leaves, of which at least a twentieth counts."""
    conditional = fit(P, separation)[1].conditional
    variance = conditional.centered.variance
    strength = conditional.strength * [1.3, 1.0, 0.8, 1.0, 1.0]
    strength[2] = np.sqrt(0.99 * variance[2])
    conditional = replace(conditional, strength=strength)
    score = strength / np.maximum(variance - strength**2, 0.05 * variance)
    rows = SIGNED - conditional.centered.mean
    triples = scale = 0.0
    for i, j, k in combinations(range(5), 3):
        if len({conditional.groups[source] for source in (i, j, k)}) == 3:
            triples += P @ (rows[:, i] * rows[:, j] * rows[:, k]) * score[i] * score[j] * score[k]
            scale += np.prod(strength[[i, j, k]] * score[[i, j, k]])
    skewness = triples / scale
    estimate = estimate_balance(Votes.from_classes(ROWS, classes=(0, 1)), P * N_ITEMS, conditional)
    assert estimate.expected == pytest.approx(-skewness / np.sqrt(4 + skewness**2))


def test_sources_without_strength_do_not_determine_the_class_balance():
    conditional = fit(P, SEPARATIONS["independent"])[1].conditional
    conditional = replace(conditional, strength=np.zeros(5))
    votes = Votes.from_classes(ROWS, classes=(0, 1))
    assert estimate_balance(votes, None, conditional) == BalanceEstimate(0.0, np.inf)
    np.testing.assert_array_equal(skewness_influence(SIGNED, conditional, 0.5), np.zeros(len(SIGNED)))
