"""Known labels on a few items: never a loss on average, and a repair where all else is lost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimate import GoldCounts
from flyingsquid.exceptions import NotIdentifiableError, SourceWarning, VotesError
from tests.oracle.star import AnyStar

METHODS = ["triplet_mean", "triplet_median", "covariance", "quadratic"]


def some_known(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    gold = np.full(len(y), -1)
    at = rng.choice(len(y), n, replace=False)
    gold[at] = y[at]
    return gold


def test_counts_on_known_items():
    votes = fs.Votes.from_classes([[0, 1], [1, -1], [1, 1], [0, 0]])
    gold = GoldCounts.of(votes, np.array([0, 1, -1, 1]))
    assert gold.votes[0].tolist() == [[1, 0, 0], [1, 1, 0]]
    assert gold.votes[1].tolist() == [[0, 1, 0], [1, 0, 1]]
    assert (gold.right.tolist(), gold.cast.tolist(), gold.classes.tolist()) == ([2, 0], [3, 2], [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["symmetric", "any"])
def test_twenty_known_labels_never_hurt_on_average(method, kind):
    gains = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        if kind == "symmetric":
            p = rng.uniform(0.2, 0.8)
            sample = fs.datasets.simulate(
                2_000, rng.uniform(0.55, 0.9, 6), coverage=0.7, class_balance=[1 - p, p], rng=rng
            )
            votes, y = sample.votes, sample.y
        else:
            codes, y = AnyStar.random(rng, 6).sample(2_000, rng)
            votes = fs.Votes(codes, (0, 1))
        gold = some_known(y, 20, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)
            try:
                without = fs.LabelModel(method=method).fit(votes).score(votes, y)
            except NotIdentifiableError:
                continue
            gains.append(fs.LabelModel(method=method).fit(votes, gold=gold).score(votes, y) - without)
    assert len(gains) > 40
    assert np.mean(gains) > -0.002


@pytest.mark.parametrize("method", METHODS)
def test_known_labels_repair_an_adversarial_majority(method):
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.9, 0.2, 0.25, 0.3, 0.2, 0.8], rng=rng)
    gold = some_known(sample.y, 20, rng)
    assert fs.LabelModel(method=method).fit(sample.votes).score(sample.votes, sample.y) < 0.2
    model = fs.LabelModel(method=method).fit(sample.votes, gold=gold)
    assert model.score(sample.votes, sample.y) > 0.9
    np.testing.assert_array_equal(model.accuracies_ > 0.5, [True, False, False, False, False, True])


def test_known_labels_settle_signs_that_are_open():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(4_000, [0.8, 0.8, 0.7, 0.2, 0.2, 0.3], rng=rng)
    with pytest.raises(NotIdentifiableError):
        fs.LabelModel().fit(sample.votes)
    model = fs.LabelModel().fit(sample.votes, gold=some_known(sample.y, 20, rng))
    assert model.score(sample.votes, sample.y) > 0.9


def test_an_anchor_outranks_known_labels():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.8, 0.7], rng=rng)
    gold = some_known(sample.y, 20, rng)
    model = fs.LabelModel(signs=dict.fromkeys(range(4), -1)).fit(sample.votes, gold=gold)
    assert (model.accuracies_ < 0.5).all()


def test_many_known_labels_outweigh_a_wrong_model():
    """Sources that depend on each other fool the votes; known labels do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4_000)
    shared = np.where(rng.random(4_000) < 0.6, y, 1 - y)
    copies = [np.where(rng.random(4_000) < 0.95, shared, 1 - shared) for _ in range(4)]
    good = [np.where(rng.random(4_000) < 0.85, y, 1 - y) for _ in range(2)]
    votes = np.column_stack([*copies, *good])
    fooled = fs.LabelModel().fit(votes)
    told = fs.LabelModel().fit(votes, gold=np.where(np.arange(4_000) < 2_000, y, -1))
    assert fooled.accuracies_[0] > 0.9
    assert told.accuracies_[0] < fooled.accuracies_[0] - 0.05
    assert told.score(votes, y) > fooled.score(votes, y)


def test_the_balance_joins_votes_and_known_labels_unless_it_was_given():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.8, 0.75, 0.7, 0.8], class_balance=[0.8, 0.2], rng=rng)
    gold = some_known(sample.y, 100, rng)
    model = fs.LabelModel().fit(sample.votes, gold=gold)
    assert model.class_balance_[1] == pytest.approx(0.2, abs=0.05)
    assert "known labels" in model.diagnostics_.class_balance
    given = fs.LabelModel(class_balance=[0.7, 0.3]).fit(sample.votes, gold=gold)
    np.testing.assert_array_equal(given.class_balance_, [0.7, 0.3])


def test_intervals_shrink_with_known_labels():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(1_000, [0.8, 0.75, 0.7], rng=rng)
    few, many = (
        np.diff(fs.LabelModel().fit(sample.votes, gold=some_known(sample.y, n, rng)).accuracies_interval_)
        for n in (10, 900)
    )
    assert (many < few).all()


def test_gold_of_any_kind_is_read_and_bad_gold_is_located():
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], rng=np.random.default_rng(0))
    codes = np.where(np.arange(500) < 50, sample.y, -1)
    expected = fs.LabelModel().fit(sample.votes, gold=codes).predict_proba(sample.votes)
    for gold in (
        np.where(codes < 0, np.nan, codes),
        [None if c < 0 else int(c) for c in codes],
        np.ma.masked_array(sample.y, codes < 0),
    ):
        model = fs.LabelModel().fit(sample.votes, gold=gold)
        np.testing.assert_array_equal(model.predict_proba(sample.votes), expected)
    nothing = fs.LabelModel().fit(sample.votes, gold=np.full(500, -1))
    np.testing.assert_array_equal(
        nothing.predict_proba(sample.votes), fs.LabelModel().fit(sample.votes).predict_proba(sample.votes)
    )
    with pytest.raises(VotesError, match=r"gold\[3\]: the vote 7 is outside"):
        fs.LabelModel().fit(sample.votes, gold=np.where(np.arange(500) == 3, 7, codes))
    with pytest.raises(VotesError, match="gold has 3 labels"):
        fs.LabelModel().fit(sample.votes, gold=[1, 0, 1])
