"""Weights of votes, compared with their definition, written as loops over items."""

import numpy as np
import pytest

from flyingsquid.estimation.weighted import is_one_sided, vote_weights, votes_per_item
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import NOT_ASKED


def agreement(votes, n_classes, counted):
    """Agreeing and all votes of others on the items of each vote, (m, K), by a loop over pairs of votes."""
    m = votes.shape[1]
    sides, met = np.zeros((m, n_classes)), np.zeros((m, n_classes))
    for row in votes:
        for i in range(m):
            for j in range(m):
                if i != j and row[i] >= 0 and row[j] >= 0:
                    met[i, row[i]] += counted[i, j]
                    sides[i, row[i]] += counted[i, j] * (row[i] == row[j])
    return sides, met


def odds(share):
    share = min(max(share, 0.01), 0.99)
    return share / (1 - share)


def by_definition(votes, n_classes):
    """Weights of independent sources of several classes."""
    m = votes.shape[1]
    sides, met = agreement(votes, n_classes, np.ones((m, m)))
    for i in range(m):
        for k in range(n_classes):
            others = max(met[i, k] / max((votes[:, i] == k).sum(), 1), 1.0)
            sides[i, k], met[i, k] = sides[i, k] / others, met[i, k] / others
    overall = sides.sum() / met.sum()
    weights = np.zeros((m, n_classes))
    for i in range(m):
        source = (sides[i].sum() + 20 * overall) / (met[i].sum() + 20)
        for k in range(n_classes):
            of_class = sides[:, k].sum() / met[:, k].sum()
            vote = (sides[i, k] + 20 * of_class) / (met[i, k] + 20)
            both = odds(vote) / odds(of_class) + odds(source) / odds(overall)
            weights[i, k] = min(max(both / 2, 0.2), 3.0)
    return weights


def panel(seed, n, accuracies, n_classes, coverage=0.7):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    wrong = (y[:, None] + rng.integers(1, n_classes, (n, len(accuracies)))) % n_classes
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], wrong)
    votes[rng.random(votes.shape) >= coverage] = -1
    return votes.astype(np.int8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_the_odds_of_agreement(n_classes):
    votes = panel(n_classes, 80, [0.9, 0.8, 0.7, 0.5], n_classes)
    found = vote_weights(Moments.of(votes), None)
    np.testing.assert_allclose(found.weights, by_definition(votes, n_classes), rtol=1e-12)
    assert found.weights[0].min() > found.weights[3].max()


def test_dependent_sources_share_their_weight():
    votes = panel(0, 300, [0.8] * 5, 2, coverage=1.0)
    shared = np.zeros((5, 5))
    shared[0, 1] = shared[1, 0] = 1.0
    found = vote_weights(Moments.of(votes), shared)
    np.testing.assert_allclose(found.discounts, [0.5, 0.5, 1, 1, 1])
    # Copies are not evidence for each other: the weights of one are those without the other, times one half.
    alone = vote_weights(Moments.of(votes[:, 1:]), None).weights
    half = vote_weights(Moments.of(votes), shared * 0.5).weights
    assert (found.weights[1] < alone[0]).all()
    assert (found.weights[1] < half[1]).all()


def test_two_sources_count_equally_and_a_third_turns_weights_on():
    votes = panel(1, 2_000, [0.95, 0.85, 0.6], 2, coverage=1.0)
    by_votes = vote_weights(Moments.of(votes), None).weights
    rare = votes.copy()
    rare[100:, 2] = -1  # 2.1 sources: the third one casts a twentieth of the votes of the others
    np.testing.assert_array_equal(vote_weights(Moments.of(rare), None).weights, np.ones((3, 2)))

    # With n, n and s votes, the number of sources is (2n + s)^2 / (2n^2 + s^2). It is 2.5 for s = .2792 n.
    half = votes.copy()
    half[round(0.2792 * 2_000) :, 2] = -1
    found = vote_weights(Moments.of(half), None).weights
    whole = by_definition(half, 2)
    np.testing.assert_allclose(found, (1 + whole) / 2, rtol=2e-3)
    assert np.abs(by_votes - 1).max() > 0.2


def test_copies_among_two_sources_count_once():
    codes = np.repeat(panel(0, 400, [0.8], 2, coverage=1.0), 2, axis=1)
    for r in (0.0, 0.4, 1.0):  # together, two sources that share r count as 2 / (1 + r)
        found = vote_weights(Moments.of(codes), np.array([[0.0, r], [r, 0.0]]))
        np.testing.assert_allclose(found.weights, np.full((2, 2), 1 / (1 + r)))


def test_one_sided_sources_are_those_that_vote_often_for_one_class():
    cast = np.array([[50, 50], [40, 0], [0, 40], [3, 0]], float)
    assert is_one_sided(cast).tolist() == [False, True, True, False]


def test_votes_per_item_leave_out_one_sided_sources_and_count_copies_once():
    votes = panel(2, 400, [0.8, 0.8, 0.8, 0.8], 2, coverage=1.0)
    votes[:, 3] = np.where(votes[:, 3] == 1, 1, -1)
    shared = np.zeros((4, 4))
    shared[0, 1] = shared[1, 0] = 1.0
    moments = Moments.of(votes)
    assert votes_per_item(moments, vote_weights(moments, None)) == pytest.approx(3.0)
    assert votes_per_item(moments, vote_weights(moments, shared)) == pytest.approx(2.0)


def test_votes_that_were_not_asked_for_count_as_votes_per_item():
    votes = panel(2, 400, [0.8, 0.8, 0.8, 0.8], 2, coverage=1.0)
    votes[::2, 2:] = NOT_ASKED
    votes[:, 3] = -1
    moments = Moments.of(Votes(votes, (0, 1)))
    assert votes_per_item(moments, vote_weights(moments, None)) == pytest.approx(3.0)


def test_votes_for_one_class_on_every_item_weigh_nothing():
    moments = Moments.of(Votes.from_classes(np.zeros((40, 3), np.int8), classes=[0, 1]))
    found = vote_weights(moments, None)
    assert found.one_sided.all() == is_one_sided(np.array([[40.0, 0]] * 3)).all()
    assert np.isfinite(found.weights).all()


def test_sources_that_each_vote_for_one_class_on_every_item_weigh_nothing():
    moments = Moments.of(Votes.from_classes([[0, 0, 1, 1]] * 40, classes=[0, 1]))
    found = vote_weights(moments, None)
    assert found.one_sided.all()
    np.testing.assert_array_equal(found.weights, np.zeros((4, 2)))


def test_one_sided_votes_for_a_frequent_class_count_less():
    """By the cube root of the share of the class, as far as votes come from one-sided sources."""
    rng = np.random.default_rng(0)
    codes = np.full((600, 4), -1, np.int8)
    codes[rng.random(600) < 0.5, 0] = codes[rng.random(600) < 0.5, 1] = 0
    codes[rng.random(600) < 0.25, 2] = codes[rng.random(600) < 0.25, 3] = 1
    moments = Moments.of(Votes.from_classes(codes, classes=[0, 1]))
    found = vote_weights(moments, None)
    assert found.one_sided.all()
    voted = (codes >= 0).sum(axis=0)
    informative = 1 - voted / 600  # a source that votes on every item carries no information
    share = np.array([(voted * informative)[:2].sum(), (voted * informative)[2:].sum()])
    share /= share.sum()
    factors = (share * 2) ** (-1 / 3)
    # Without these factors, the votes of a class have the average weight.
    plain = found.weights / informative[:, None] / factors
    assert plain[:2, 0].mean() == pytest.approx(1, rel=0.05)
    assert plain[2:, 1].mean() == pytest.approx(1, rel=0.05)
