"""Trust in confusion tables: chance, the evidence of abstentions, and what pairs determine."""

import numpy as np
import pytest

from flyingsquid.estimation.tied_em import Tables
from flyingsquid.estimation.trust import (
    evidence_against_abstention,
    p_value_of_chance,
    probability_adequate,
    share_determined,
)
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes


def simulate(rng, n, accuracies, balance=0.5, coverage=1.0):
    y = (rng.random(n) < balance).astype(int)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])
    votes[rng.random(votes.shape) >= coverage] = -1
    return votes.astype(np.int8), y


@pytest.mark.parametrize("balance", [0.5, 0.2])
@pytest.mark.parametrize("coverage", [1.0, 0.3])
def test_coins_agree_by_chance(balance, coverage):
    """P-values of guesses are below .05 in 5% of draws at most; 12 of 100 have a probability of .004."""
    rng = np.random.default_rng(5)
    coins = (rng.random((100, 300, 6)) < balance).astype(np.int8)
    coins[rng.random(coins.shape) >= coverage] = -1
    assert sum(p_value_of_chance(Moments.of(votes)) < 0.05 for votes in coins) <= 11


@pytest.mark.parametrize("accuracies", [[0.7] * 4, [0.3, 0.3, 0.8, 0.8]], ids=["signal", "two groups"])
def test_signal_and_contradiction_are_not_chance(accuracies):
    votes, _ = simulate(np.random.default_rng(0), 400, accuracies)
    assert p_value_of_chance(Moments.of(votes)) < 1e-6


def test_sources_that_never_meet_cannot_be_compared():
    votes = np.full((40, 2), -1, np.int8)
    votes[:20, 0], votes[20:, 1] = 0, 1
    assert p_value_of_chance(Moments.of(votes)) == 0
    always = np.zeros((40, 2), np.int8)  # agreement without variance says nothing
    assert p_value_of_chance(Moments.of(Votes.from_classes(always, classes=[0, 1]))) == 0


def test_half_is_determined_by_a_hundred_pairs_of_votes():
    votes, _ = simulate(np.random.default_rng(1), 100, [0.8, 0.8])
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    assert share_determined(moments.compare_pairs(), weights) == pytest.approx(0.5)
    three, _ = simulate(np.random.default_rng(1), 100, [0.8] * 3)
    moments = Moments.of(three)
    weights = vote_weights(moments, None)
    assert share_determined(moments.compare_pairs(), weights) == pytest.approx(0.75)


def test_the_prior_is_kept_without_evidence():
    assert probability_adequate(0.0) == pytest.approx(0.25)
    assert probability_adequate(10.0) < 1e-3
    assert probability_adequate(-10.0) > 0.999


class TestAbstention:
    """Abstentions that depend only on the class fit coverage by class; those on shared items do not."""

    def tables(self, accuracy, coverage):
        table = [[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]
        return Tables(np.array([table] * 4), np.array([0.5, 0.5]), np.array([coverage] * 4))

    def test_abstention_by_class_is_adequate(self):
        rng = np.random.default_rng(2)
        votes, y = simulate(rng, 4_000, [0.8] * 4)
        votes[rng.random(votes.shape) >= np.where(y == 1, 0.9, 0.5)[:, None]] = -1
        moments = Moments.of(Votes.from_classes(votes, classes=[0, 1]))
        evidence = evidence_against_abstention(moments, vote_weights(moments, None))
        assert evidence is not None
        assert probability_adequate(evidence(self.tables(0.8, [0.5, 0.9]))) > 0.99
        assert probability_adequate(evidence(self.tables(0.8, [0.9, 0.5]))) < 0.01

    def test_abstention_on_the_same_items_is_not(self):
        rng = np.random.default_rng(3)
        votes, _ = simulate(rng, 4_000, [0.8] * 4)
        easy = rng.random(4_000) < 0.5
        votes[rng.random(votes.shape) >= np.where(easy, 0.9, 0.3)[:, None]] = -1
        moments = Moments.of(votes)
        evidence = evidence_against_abstention(moments, vote_weights(moments, None))
        assert evidence is not None
        assert probability_adequate(evidence(self.tables(0.8, [0.6, 0.6]))) < 0.01

    @pytest.mark.parametrize(("n_sources", "coverage"), [(4, 1.0), (2, 0.5)])
    def test_complete_votes_and_two_sources_cannot_be_tested(self, n_sources, coverage):
        votes, _ = simulate(np.random.default_rng(4), 500, [0.8] * n_sources, coverage=coverage)
        moments = Moments.of(votes)
        assert evidence_against_abstention(moments, vote_weights(moments, None)) is None
