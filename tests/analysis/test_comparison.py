"""The comparison with majority vote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sklearn.metrics import f1_score, log_loss

import flyingsquid as fs
from flyingsquid.analysis import compare_with_majority
from flyingsquid.exceptions import VotesError


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


def test_the_sentence_gives_the_direction(model, sample):
    found = compare_with_majority(model, sample.votes, sample.y)
    worse = replace(found, gain=-found.gain, gain_interval=(-0.2, -0.1))
    equal = replace(found, gain=0.0, gain_interval=(-0.1, 0.1))
    assert ": better (" in found.sentence()
    assert ": worse (" in worse.sentence()
    assert ": not significantly different (" in equal.sentence()


def test_gold_labels_must_not_all_be_unknown(model, sample):
    with pytest.raises(VotesError, match="`y`"):
        compare_with_majority(model, sample.votes, [None] * 3_000)
