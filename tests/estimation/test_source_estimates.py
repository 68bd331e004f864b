"""Accuracies and the class balance from counts alone are on the scale of those from the votes."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from tests.support.strategies import one_sided_rules


def crowd(n_classes: int, n: int = 1_500, m: int = 25, coverage: float = 0.25) -> np.ndarray:
    rng = np.random.default_rng(1)
    y = rng.integers(0, n_classes, n)
    right = rng.random((n, m)) < rng.uniform(0.5, 0.9, m)
    votes = np.where(right, y[:, None], (y[:, None] + rng.integers(1, n_classes, (n, m))) % n_classes)
    return np.where(rng.random((n, m)) < coverage, votes, -1)


@pytest.mark.parametrize("method", ["auto", "weighted"])
@pytest.mark.parametrize(
    "votes",
    [
        pytest.param(one_sided_rules(4_000, 8, share=0.4, recall=0.5), id="one-sided"),
        pytest.param(crowd(2), id="two classes"),
        pytest.param(crowd(4), id="four classes"),
        pytest.param(crowd(2, m=12, coverage=0.8), id="dense"),
    ],
)
def test_counts_give_accuracies_of_the_same_scale(votes, method):
    n_classes = int(votes.max()) + 1
    by_votes = fs.LabelModel(method=method, n_classes=n_classes).fit(votes)
    by_counts = fs.LabelModel(method=method, n_classes=n_classes).fit_moments(fs.Moments.of(votes))
    assert np.abs(by_votes.accuracies_ - by_counts.accuracies_).mean() < 0.06
    assert np.abs(by_votes.class_balance_ - by_counts.class_balance_).max() < 0.1
    low, high = by_counts.accuracies_interval_.T
    assert ((low <= by_counts.accuracies_) & (by_counts.accuracies_ <= high)).all()


@pytest.mark.parametrize("how", ["fit_moments", "partial_fit", "online"])
def test_a_source_that_is_right_85_percent_of_the_time_is_shown_so(how):
    truth = np.array([0.85, 0.75, 0.7, 0.65, 0.6])
    votes = fs.datasets.simulate(5_000, truth, coverage=0.8, random_state=0).votes
    if how == "online":
        model = fs.OnlineLabelModel(window=5_000)
        model.update(votes)
    else:
        model = fs.LabelModel()
        model = model.fit_moments(fs.Moments.of(votes)) if how == "fit_moments" else model.partial_fit(votes)
    np.testing.assert_allclose(model.accuracies_, truth, atol=0.04)
    low, high = model.accuracies_interval_.T
    assert ((low <= truth) & (truth <= high)).all()


def test_weighted_votes_estimate_the_class_balance_from_counts():
    sample = fs.datasets.simulate(3_000, [0.9, 0.85, 0.8, 0.8], class_balance=[0.8, 0.2], random_state=0)
    model = fs.LabelModel(method="weighted").fit_moments(fs.Moments.of(sample.votes))
    assert model.class_balance_[0] > 0.6
    low, high = model.class_balance_interval_[0]
    assert low <= 0.8 <= high


def test_tables_of_counts_say_which_class_a_one_sided_source_votes_for():
    votes = one_sided_rules(4_000, 8, share=0.4, recall=0.5)
    tables = np.asarray(fs.LabelModel().fit_moments(fs.Moments.of(votes)).confusion_)
    for source in range(8):
        assert tables[source, :, 1 - source % 2].max() == 0
    np.testing.assert_allclose(tables.sum(axis=2), 1)


def test_order_of_sources_does_not_matter_for_counts():
    votes, order = crowd(3), np.random.default_rng(0).permutation(25)
    models = [fs.LabelModel().fit_moments(fs.Moments.of(each)) for each in (votes, votes[:, order])]
    whole, shuffled = (model.accuracies_interval_ for model in models)
    np.testing.assert_allclose(shuffled, whole[order], atol=1e-6)
