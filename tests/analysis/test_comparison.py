"""The comparison with majority vote."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss

import flyingsquid as fs
from flyingsquid.analysis import (
    compare_with_majority,
    disagreement_buckets,
    learning_curve,
    leave_one_out,
)
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.decisions import is_tied


def test_comparison_scores_are_those_of_scikit_learn(model, sample):
    p = model.predict_proba(sample.votes)
    scores = compare_with_majority(model, sample.votes, sample.y).model
    assert scores.accuracy == pytest.approx(model.score(sample.votes, sample.y))
    assert scores.f1 == pytest.approx(f1_score(sample.y, p.argmax(axis=1)))
    assert scores.log_loss == pytest.approx(log_loss(sample.y, p))


def test_comparison_with_majority(model, sample):
    found = compare_with_majority(model, sample.votes, sample.y)
    assert found.gain == pytest.approx(found.model.accuracy - found.majority.accuracy)
    assert found.gain_interval[0] > 0
    without = compare_with_majority(model, sample.votes)
    assert without.model is None
    assert without.differ == found.differ
    assert "gold labels" in without.sentence()
    itself = compare_with_majority(fs.MajorityVote().fit(sample.votes), sample.votes, sample.y)
    assert itself.differ == 0
    assert itself.gain == 0
    assert itself.gain_interval == (0, 0)
    assert "majority vote" in str(found)


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        (("ham", "spam"), "F1 (spam)"),
        (("ham", "x" * 99), f"F1 ({'x' * 27}...)"),
        (("ham", "spam", "other"), "F1 (mean over classes)"),
    ],
)
def test_f1_names_its_class(classes, name):
    rng = np.random.default_rng(0)
    y = np.array(classes)[rng.integers(0, len(classes), 90)]
    given = np.where(rng.random((90, 3)) < 0.8, y[:, None], classes[0])
    votes = fs.Votes.from_classes(given, classes=list(classes))
    found = compare_with_majority(fs.LabelModel().fit(votes), votes, y)
    assert name in str(found).splitlines()[0]
    assert name in found._repr_html_()
    assert list(found.table().to_dict()) == ["labels", "accuracy", "f1", "log_loss"]


def test_the_verdict_gives_the_direction(model, sample):
    found = compare_with_majority(model, sample.votes, sample.y)
    worse = replace(found, gain=-found.gain, gain_interval=(-0.2, -0.1))
    equal = replace(found, gain=0.0, gain_interval=(-0.1, 0.1))
    assert found.verdict.kind == "recommended"
    assert worse.verdict.kind == "no better"
    assert equal.verdict.kind == "unproven"
    assert "below" in str(worse)


def test_gold_labels_must_not_all_be_unknown(model, sample):
    with pytest.raises(VotesError, match="`y`"):
        compare_with_majority(model, sample.votes, [None] * 3_000)


@pytest.fixture(scope="module")
def tied():
    """Two sources that often tie, or abstain both, and gold labels of mostly the second class."""
    sample = fs.datasets.simulate(600, [0.8, 0.75], coverage=0.7, class_balance=[0.2, 0.8], random_state=0)
    return sample.votes, sample.y


@pytest.mark.parametrize("kind", [fs.MajorityVote, fs.LabelModel])
def test_one_tie_rule_everywhere(tied, kind):
    """Score, comparison, buckets, leave-one-out and learning curve give the same accuracy."""
    votes, y = tied
    model = kind(class_balance="uniform") if kind is fs.LabelModel else kind()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(votes)
    expected = model.score(votes, y)
    assert is_tied(model.predict_proba(votes)).mean() > 0.05
    assert compare_with_majority(model, votes, y).model.accuracy == pytest.approx(expected)
    buckets = disagreement_buckets(votes, y, model=model).to_dict()
    weighted = np.average(buckets["accuracy"], weights=buckets["gold"])
    assert weighted == pytest.approx(expected)
    assert leave_one_out(model, votes, y).accuracy == pytest.approx(expected)
    curve = learning_curve(model, votes, y, random_state=0, sizes=[600], repeats=1)
    assert curve.accuracy[0, 0] == pytest.approx(expected)


def test_the_order_of_the_classes_changes_no_score(tied):
    votes, y = tied
    majority = fs.MajorityVote().fit(votes)
    swapped = fs.Votes.from_classes(np.where(votes.codes >= 0, 1 - votes.codes, -1))
    found = compare_with_majority(majority, votes, y)
    other = compare_with_majority(fs.MajorityVote().fit(swapped), swapped, 1 - np.asarray(y))
    assert other.model.accuracy == pytest.approx(found.model.accuracy)
    assert (other.ties, other.differ, other.coverage) == (found.ties, found.differ, found.coverage)


def test_f1_counts_a_tie_as_part_of_a_label_of_each_class():
    votes = fs.Votes.from_classes([[1, 1], [1, 0], [0, 0], [-1, -1]])
    found = compare_with_majority(fs.MajorityVote().fit(votes), votes, [1, 1, 0, 0]).model
    # Hits of class 1: 1 + 1/2; labels: 1 + 1/2 + 1/2; gold labels: 2.
    assert found.f1 == pytest.approx(2 * 1.5 / (2 + 2))
    assert found.accuracy == pytest.approx((1 + 0.5 + 1 + 0.5) / 4)


def test_shares_are_shares_of_all_items():
    votes = fs.Votes.from_classes([[1, 1, 0], [1, 0, -1], [-1, -1, -1], [0, 0, 0]])
    found = compare_with_majority(fs.MajorityVote().fit(votes), votes)
    assert (found.coverage, found.ties, found.differ) == (0.75, 0.25, 0.0)
