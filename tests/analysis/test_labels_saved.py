"""Gold labels that weak supervision saves: the estimate, its interval, and errors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, VotesError

N = 1_500


def problem(accuracies, seed=0, n_features=20):
    """Return votes of sources, noisy features, and the truth."""
    rng = np.random.default_rng(seed)
    sample = fs.datasets.simulate(N, accuracies, random_state=seed)
    y = np.asarray(sample.y)
    X = rng.normal(size=(N, n_features))
    X[:, :3] += 1.2 * (2 * y[:, None] - 1)
    return sample.votes, X, y


def some(y, n, seed=0):
    gold = np.full(len(y), -1)
    at = np.random.default_rng(seed).choice(len(y), n, replace=False)
    gold[at] = y[at]
    return gold


@pytest.mark.slow
def test_good_sources_save_more_labels_than_bad_ones():
    needed = []
    for accuracies in ([0.9, 0.85, 0.85, 0.8], [0.55, 0.55, 0.52, 0.52]):
        votes, X, y = problem(accuracies)
        model = fs.LabelModel().fit(votes)
        found = fs.labels_saved(model, votes, X, some(y, 200), random_state=0)
        assert found.low <= found.needed <= found.high
        assert found.n_gold == 200
        needed.append(found.needed)
    assert needed[0] > 40 > needed[1]


@pytest.mark.slow
def test_the_interval_holds_what_all_labels_show():
    """The curve of all labels, which nobody has, against intervals from samples of 150."""
    votes, X, y = problem([0.75, 0.7, 0.65], seed=2)
    model = fs.LabelModel().fit(votes)
    truth = fs.labels_saved(model, votes, X, y, random_state=0).needed
    found = [fs.labels_saved(model, votes, X, some(y, 150, s), random_state=s) for s in range(4)]
    assert sum(each.low <= truth <= each.high for each in found) >= 3


@pytest.mark.slow
def test_the_curve_grows_and_is_printed():
    votes, X, y = problem([0.8, 0.75, 0.7])
    found = fs.labels_saved(fs.LabelModel().fit(votes), votes, X, some(y, 60), random_state=0)
    assert (np.diff(found.accuracies) >= 0).all()
    assert found.sizes[-1] == 42
    assert found.sentence() in str(found)
    values = json.loads(json.dumps(found.to_dict()))
    assert (values["needed"] is None) == math.isinf(found.needed)
    again = fs.labels_saved(fs.LabelModel().fit(votes), votes, X, some(y, 60), random_state=0)
    np.testing.assert_array_equal(found.accuracies, again.accuracies)


@pytest.mark.slow
def test_a_model_with_gold_labels_is_fitted_without_them():
    votes, X, y = problem([0.8, 0.75, 0.7])
    gold = some(y, 60)
    plain, corrected = fs.LabelModel().fit(votes), fs.LabelModel().fit(votes, gold=gold)
    both = [fs.labels_saved(model, votes, X, gold, random_state=0) for model in (plain, corrected)]
    assert both[0].weak_accuracy == both[1].weak_accuracy


def test_another_classifier():
    votes, X, y = problem([0.8, 0.75, 0.7])
    model = fs.LabelModel().fit(votes)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    found = fs.labels_saved(model, votes, X, some(y, 60), end_model=tree, random_state=0)
    assert 0.5 < found.weak_accuracy <= 1


def test_bad_input():
    votes, X, y = problem([0.8, 0.75, 0.7])
    model = fs.LabelModel().fit(votes)
    one_class = np.where(y == 1, np.where(np.arange(N) < 200, 1, -1), -1)
    for gold in (some(y, 19), one_class, [-1] * N, [0, 1]):
        with pytest.raises(VotesError, match="gold"):
            fs.labels_saved(model, votes, X, gold)
    with pytest.raises(OptionError, match="gold"):
        fs.labels_saved(model, votes, X, None)
    with pytest.raises(OptionError, match="model"):
        fs.labels_saved(None, votes, X, some(y, 30))
    with pytest.raises(fs.FlyingSquidError, match="X"):
        fs.labels_saved(model, votes, X[:10], some(y, 30))
