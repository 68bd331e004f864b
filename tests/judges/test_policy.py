"""The policy of asking, against enumeration of small models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.estimation.factors import fit_logistic
from flyingsquid.judges.policy import (
    choose_judges,
    information,
    loss_features,
    pilot_size,
    settled_score,
    spread_items,
    within_budget,
)


def draw_model(rng, n_judges, n_classes):
    """A class balance, and tables P(vote | class) of each judge."""
    return rng.dirichlet(np.ones(n_classes)), rng.dirichlet(np.ones(n_classes), (n_judges, n_classes))


def posterior_of(balance, tables, votes):
    scores = balance * np.prod([tables[j, :, v] for j, v in votes.items()], axis=0) if votes else balance
    return scores / scores.sum()


def entropy(shares):
    return -sum(p * np.log(p) for p in shares if p > 0)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_information_is_the_expected_decrease_of_entropy(n_classes):
    """For every possible set of earlier votes, by enumeration of the next vote."""
    rng = np.random.default_rng(n_classes)
    balance, tables = draw_model(rng, 3, n_classes)
    for earlier in itertools.product(range(n_classes), repeat=2):
        now = posterior_of(balance, tables, dict(enumerate(earlier)))
        after = 0.0
        for vote in range(n_classes):
            chance = now @ tables[2, :, vote]
            after += chance * entropy(posterior_of(now, tables, {2: vote}))
        found = information(now[None, :], tables)[0, 2]
        assert found == pytest.approx(entropy(now) - after, abs=1e-12)


def test_the_best_judge_per_cost_is_chosen_by_enumeration():
    rng = np.random.default_rng(0)
    _, tables = draw_model(rng, 6, 3)
    posterior, costs = rng.dirichlet(np.ones(3), 40), rng.uniform(0.5, 3, 6)
    can_ask, rates = rng.random((40, 6)) < 0.6, rng.uniform(0.3, 1, 6)
    can_ask[0] = False
    judges, values = choose_judges(posterior, tables, can_ask, costs=costs / rates)
    assert judges[0] == -1
    assert values[0] == 0
    for i in range(1, 40):
        worth = {
            j: information(posterior[i : i + 1], tables)[0, j] * rates[j] / costs[j]
            for j in np.flatnonzero(can_ask[i])
        }
        assert judges[i] == (max(worth, key=worth.get) if worth else -1)
        assert values[i] == pytest.approx(max(worth.values(), default=0.0))


def test_a_copy_is_not_asked_after_its_original():
    tables = np.tile([[0.9, 0.1], [0.1, 0.9]], (3, 1, 1))
    tables[2] = [[0.7, 0.3], [0.3, 0.7]]
    shared = np.zeros((3, 3))
    shared[0, 1] = shared[1, 0] = 1.0
    asked = np.array([[True, False, False]])
    options = {"costs": np.ones(3), "asked": asked}
    even = np.array([[0.5, 0.5]])
    assert choose_judges(even, tables, ~asked, **options)[0] == [1]
    copied = choose_judges(even, tables, ~asked, shared=shared, **options)
    assert copied[1] == pytest.approx(information(even, tables)[0, 1] / 2)
    tables[2] = [[0.85, 0.15], [0.15, 0.85]]
    assert choose_judges(even, tables, ~asked, shared=shared, **options)[0] == [2]


def test_judges_of_similar_value_take_turns():
    tables = np.array([[[p, 1 - p], [1 - p, p]] for p in (0.9, 0.89, 0.88, 0.6)])
    even, can_ask = np.full((900, 2), 0.5), np.ones((900, 4), bool)
    judges, values = choose_judges(even, tables, can_ask, costs=np.ones(4), items=np.arange(900))
    counts = np.bincount(judges, minlength=4)
    assert counts[:3].min() > 200
    assert counts[3] == 0
    np.testing.assert_allclose(values, information(even, tables)[np.arange(900), judges])


def test_many_items_are_chosen_for_as_few_are():
    rng = np.random.default_rng(1)
    tables = rng.dirichlet(np.ones(2), (700, 2))
    posterior, can_ask = rng.dirichlet(np.ones(2), 2_000), rng.random((2_000, 700)) < 0.5
    whole = choose_judges(posterior, tables, can_ask, costs=np.ones(700))
    part = choose_judges(posterior[1_500:], tables, can_ask[1_500:], costs=np.ones(700))
    np.testing.assert_array_equal(whole[0][1_500:], part[0])


@given(st.lists(st.floats(0.01, 100), max_size=30), st.floats(0, 500))
def test_calls_within_a_budget_cost_no_more(costs, room):
    costs = np.array(costs)
    taken = within_budget(costs, room)
    assert costs[taken].sum() <= room * (1 + 1e-12)
    left = room - costs[taken].sum()
    assert (costs[~taken] > left - 1e-9 * max(room, 1)).all()  # nothing that fits is left out


@given(st.integers(1, 3_000), st.data())
def test_spread_items_are_different_and_everywhere(n, data):
    size = data.draw(st.integers(1, n))
    items = spread_items(n, size)
    assert len(set(items.tolist())) == size
    assert (np.diff(items) > 0).all()
    gaps = np.diff(items)
    assert not len(gaps) or gaps.max() <= 4 * n / size
    assert 1 <= pilot_size(n) <= n


@pytest.mark.parametrize("period", [2, 3, 7, 10])
def test_spread_items_do_not_follow_a_period(period):
    """Items that come in groups, such as three pairs per question, are sampled evenly."""
    counts = np.bincount(spread_items(6_000, 300) % period, minlength=period)
    assert counts.max() <= 1.5 * 300 / period


def test_settled_labels_change_as_rarely_as_intended():
    """Changes whose log odds are the scores: the realized share is the target."""
    rng = np.random.default_rng(0)
    chance = np.sort(rng.uniform(0, 0.6, (4_000, 8)), axis=1)[:, ::-1]
    changed = rng.random(chance.shape) < chance
    scores = np.log(chance / (1 - chance))
    stops = scores <= settled_score(scores, np.ones(scores.shape, bool), 0.05)
    first = stops.argmax(axis=1)
    realized = (changed[np.arange(4_000), first] & stops.any(axis=1)).mean()
    assert realized == pytest.approx(0.05, abs=0.01)


def test_nothing_is_settled_without_a_stage_or_if_all_labels_may_change():
    scores, stages = np.full((10, 2), -3.0), np.ones((10, 2), bool)
    assert settled_score(scores, stages, 0.05) == -3.0
    assert settled_score(scores, ~stages, 0.05) == -np.inf
    assert settled_score(scores, stages, 0.01) == -np.inf


def test_changes_are_predicted_from_error_and_number_of_judges():
    rng = np.random.default_rng(0)
    errors, n_asked = rng.uniform(0.01, 0.5, 20_000), rng.integers(1, 10, 20_000)
    features = loss_features(errors, n_asked, rng.integers(1, 10, 20_000))
    truth = np.array([-1.0, -0.8, -0.5, 0.7])
    changed = rng.random(20_000) < 1 / (1 + np.exp(-features @ truth))
    np.testing.assert_allclose(fit_logistic(features, changed, np.zeros(4), np.ones(4)), truth, atol=0.25)
    assert np.isfinite(loss_features(np.array([0.0, 1.0]), np.ones(2), np.zeros(2))).all()
