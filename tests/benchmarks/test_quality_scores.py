"""Scores of soft labels by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.quality import scores
from flyingsquid.votes.decisions import expected_credit

BINARY = np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])


def test_two_classes_by_hand():
    """One right, one wrong, one tie on each class: 3 of 6, and 2 · 1.5 / (3 + 3)."""
    y = np.array([1, 1, 1, 0, 0, 0], np.int8)
    np.testing.assert_array_equal(expected_credit(BINARY, y), [1, 0, 0.5, 1, 0, 0.5])
    assert scores.f1(BINARY, y) == pytest.approx(0.5)
    assert scores.log_loss(BINARY, y) == pytest.approx(-np.log([0.9, 0.2, 0.5, 0.9, 0.2, 0.5]).mean())


def test_three_classes_by_hand():
    """One right, one wrong, one tie of two classes."""
    posterior = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
    result = scores.scores_of(posterior, np.array([0, 1, 1], np.int8))
    assert result["accuracy"] == pytest.approx(1.5 / 3)
    # Class 0: 1 right of 2.5 labels and 1 true; class 1: 0.5 right of 0.5 labels and 2 true; class 2: none.
    assert result["f1"] == pytest.approx((2 * 1 / 3.5 + 2 * 0.5 / 2.5) / 2)
    assert result["log_loss"] == pytest.approx(-np.log([0.8, 0.2, 0.4]).mean())


def test_log_loss_is_clipped_on_both_sides():
    certain = np.array([[1.0, 0.0]])
    assert scores.log_loss(certain, np.array([1], np.int8)) == pytest.approx(-math.log(1e-4))
    assert scores.log_loss(certain, np.array([0], np.int8)) == pytest.approx(-math.log(1 - 1e-4))


def test_nothing_of_class_1_scores_0():
    assert scores.f1(np.array([[0.9, 0.1]]), np.array([0], np.int8)) == 0


def test_majority_vote_is_add_one_shares():
    votes = np.array([[1, 1, 0], [0, -1, -1], [-1, -1, -1]], np.int8)
    np.testing.assert_allclose(scores.add_one_shares(votes)[:, 1], [3 / 5, 1 / 3, 1 / 2])
    np.testing.assert_allclose(scores.add_one_shares(votes, 3)[0], [2 / 6, 3 / 6, 1 / 6])


def test_unknown_classes_are_not_scored():
    y = np.array([1, 1, -1, 0, -1, 0])
    accuracy, f1, loss, error = scores.score_known(BINARY, y)
    assert (accuracy, f1) == (pytest.approx(2.5 / 4), pytest.approx(2 * 1 / (1.5 + 2)))
    assert loss == pytest.approx(-np.log([0.9, 0.2, 0.9, 0.5]).mean())
    assert error == pytest.approx((0.1 + 0.8 + 0.1) / 4)


def test_calibration_error_of_correct_probabilities():
    """Labels that are as often correct as their probabilities have the least error; ties have none."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 400)
    posterior = np.stack([1 - p, p], axis=1)
    found = [scores.calibration_error(posterior, (rng.random(400) < p).astype(int)) for _ in range(300)]
    assert np.mean(found) == pytest.approx(scores.least_calibration_error(posterior), rel=0.05)
    assert scores.least_calibration_error(np.full((10, 2), 0.5)) == 0
