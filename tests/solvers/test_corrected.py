"""Corrections by gold labels: directions of factors, limits of intervals, and rarely labeled classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.factors import fit_factors
from flyingsquid.inference.weighted import Mixture, mixture_posterior
from flyingsquid.solvers.corrected import _is_representative, follow_direction


def two_factors(n=600, seed=0):
    """Eight judges, of which four also share a bias."""
    rng = np.random.default_rng(seed)
    y, bias = rng.integers(0, 2, n), rng.integers(0, 2, n)
    says = np.where(np.arange(8) < 4, y[:, None], bias[:, None])
    votes = np.where(rng.random((n, 8)) < 0.85, says, 1 - says)
    votes[rng.random(votes.shape) < 0.1] = -1
    return votes.astype(np.int8), y, bias


def test_log_odds_follow_a_direction_of_the_factors():
    votes, *_ = two_factors()
    factors = fit_factors(fs.Moments.of(votes))
    assert factors.rank == 2
    mixture = Mixture(
        weights=np.ones((8, 2)), one_sided=np.ones(8, bool), without_votes=np.full(2, 0.5), majority=0.5
    )
    toward, intercept = np.array([1.5, -0.7]), 0.4
    found = mixture_posterior(votes, follow_direction(mixture, factors, toward, intercept))
    for row, label in zip(votes[:50], found[:50], strict=True):
        if (row >= 0).any():
            log_odds = intercept + sum(
                (factors.coefficients[i] @ toward) * (2 * v - 1 - factors.means[i])
                for i, v in enumerate(row)
                if v >= 0
            )
            assert np.log(label[1] / label[0]) == pytest.approx(log_odds)


@pytest.mark.parametrize("factor", [0, 1])
def test_gold_labels_choose_between_two_factors(factor):
    votes, *explanations = two_factors(1_500)
    truth = explanations[factor]
    gold = np.full(len(truth), -1)
    gold[:60] = truth[:60]
    model = fs.LabelModel().fit(votes, gold=gold)
    assert np.mean(model.predict(votes) == truth) > 0.85
    assert "gold labels choose among 2 factors" in model.reason_


@pytest.mark.parametrize("n_gold", [5, 30, 200])
def test_gold_labels_widen_no_interval_by_more_than_they_move_the_accuracy(n_gold):
    sample = fs.datasets.simulate(800, [0.8, 0.75, 0.7, 0.7, 0.65], random_state=2)
    gold = np.full(800, -1)
    gold[:n_gold] = sample.y[:n_gold]
    plain = fs.LabelModel().fit(sample.votes)
    corrected = fs.LabelModel().fit(sample.votes, gold=gold)
    moved = np.abs(corrected.accuracies_ - plain.accuracies_)
    for before, after in zip(
        np.abs(plain.accuracies_interval_ - plain.accuracies_[:, None]).T,
        np.abs(corrected.accuracies_interval_ - corrected.accuracies_[:, None]).T,
        strict=True,
    ):
        assert (after <= before + moved + 1e-9).all()


def test_labels_of_a_random_sample_look_like_those_of_all():
    rng = np.random.default_rng(0)
    every = rng.dirichlet([1, 1], 2_000)
    counts = np.ones(2_000)
    kept = [
        _is_representative(every[rng.choice(2_000, 100, replace=False)], every, counts) for _ in range(50)
    ]
    assert np.mean(kept) > 0.8
    assert not _is_representative(every[every[:, 0] > 0.6][:100], every, counts)
    sure = every[np.abs(every[:, 0] - 0.5) > 0.25]  # the balance is right, and certain items are preferred
    assert not _is_representative(sure[:200], every, counts)


def rare_class(n=600, n_rare=20):
    """Three weak sources and a class with gold labels that votes hardly ever make the most probable."""
    rng = np.random.default_rng(1)
    y = np.zeros(n, int)
    y[:n_rare] = 1
    votes = np.where(rng.random((n, 3)) < 0.02, 1, 0)
    return votes.astype(np.int8), y


def test_classes_with_gold_labels_that_are_hardly_labeled_are_reported():
    votes, y = rare_class()
    gold = np.full(len(y), -1)
    gold[:10], gold[-60:] = 1, 0
    with pytest.warns(fs.exceptions.SourceWarning, match="rank items by `predict_proba`"):
        fs.LabelModel().fit(votes, gold=gold)


@pytest.mark.filterwarnings("error::flyingsquid.exceptions.SourceWarning")
def test_few_items_do_not_show_that_a_class_is_hardly_labeled():
    votes, y = rare_class(19, 5)
    model = fs.LabelModel().fit(np.zeros_like(votes), gold=y)
    assert model.fit_.by_gold.effect.n_gold == 19


def gold_of(n_sources: int, how: str, n_gold: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return votes of sources, and gold labels that are correct, exchanged, in another order or unrelated."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 1_000)
    # Sources that share errors agree with each other, but not with the truth.
    target = rng.integers(0, 2, 1_000) if how == "unrelated" else y
    votes = np.where(rng.random((1_000, n_sources)) < 0.85, target[:, None], 1 - target[:, None])
    known = {"exchanged": 1 - y, "another order": np.roll(y, 1)}.get(how, y)
    gold = np.full(1_000, -1)
    gold[:n_gold] = known[:n_gold]
    return votes.astype(np.int8), gold


@pytest.mark.parametrize(
    ("n_sources", "how", "n_gold", "is_reported"),
    [
        (5, "correct", 100, False),
        (5, "exchanged", 100, True),
        (3, "exchanged", 100, True),
        (5, "exchanged", 25, True),
        (5, "another order", 100, True),
        (5, "another order", 25, False),
        (3, "unrelated", 100, False),
    ],
)
def test_gold_labels_that_contradict_the_votes_are_reported(n_sources, how, n_gold, is_reported):
    votes, gold = gold_of(n_sources, how, n_gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        concerns = fs.LabelModel().fit(votes, gold=gold).fit_.concerns
    assert any("by chance" in each for each in concerns) is is_reported


def test_a_source_that_gold_labels_confirm_shows_that_items_are_in_order():
    """Four of five sources share errors, so that the labels are right by chance; the fifth is accurate."""
    votes, gold = gold_of(5, "unrelated")
    votes[:100, 4] = np.where(np.arange(100) % 8 > 0, gold[:100], 1 - gold[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        concerns = fs.LabelModel().fit(votes, gold=gold).fit_.concerns
    assert not any("by chance" in each for each in concerns)
