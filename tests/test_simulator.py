"""The simulator draws what it says."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError


def test_rates_are_the_given_ones():
    sample = fs.datasets.simulate(
        200_000, [0.9, 0.6], coverage=[0.5, 1.0], class_balance=[0.2, 0.8], rng=np.random.default_rng(0)
    )
    codes = sample.votes.codes
    np.testing.assert_allclose((codes >= 0).mean(axis=0), [0.5, 1.0], atol=0.01)
    for j, accuracy in enumerate([0.9, 0.6]):
        voted = codes[:, j] >= 0
        assert np.mean(codes[voted, j] == sample.y[voted]) == pytest.approx(accuracy, abs=0.01)
    assert sample.y.mean() == pytest.approx(0.8, abs=0.01)


def test_the_same_generator_draws_the_same_votes():
    a, b = (fs.datasets.simulate(50, [0.8] * 3, rng=np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(a.votes.codes, b.votes.codes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_items": 0}, "at least one item"),
        ({"accuracies": [1.2]}, "accuracies must be probabilities"),
        ({"coverage": [0.5, 0.5]}, "coverage has shape"),
        ({"rng": 3}, "numpy.random.Generator"),
        ({"n_items": 2.5}, "at least one item"),
        ({"coverage": -0.1}, "coverage must be probabilities"),
        ({"class_balance": [0.5]}, "class_balance has shape"),
    ],
)
def test_bad_options_are_refused(options, message):
    arguments = {"n_items": 10, "accuracies": [0.8], "rng": np.random.default_rng(0)} | options
    with pytest.raises(OptionError, match=message):
        fs.datasets.simulate(**arguments)


def test_sequences_follow_the_given_chain():
    sample = fs.datasets.simulate_sequence(
        200_000,
        [0.9, 0.6],
        coverage=[0.5, 1.0],
        class_balance=[0.2, 0.8],
        persistence=0.7,
        lengths=[100] * 2_000,
        error_persistence=0.5,
        rng=np.random.default_rng(0),
    )
    y, inside = sample.y, np.arange(200_000) % 100 != 99
    for k in (0, 1):
        now = np.flatnonzero(inside & (y == k))
        assert np.mean(y[now + 1] == 1) == pytest.approx(sample.transition[k, 1], abs=0.01)
    ends = np.arange(99, 199_999, 100)
    assert np.corrcoef(y[ends], y[ends + 1])[0, 1] == pytest.approx(0, abs=0.06)
    assert y.mean() == pytest.approx(0.8, abs=0.01)
    right = np.asarray(sample.votes.codes)[:, 1] == y
    assert right.mean() == pytest.approx(0.6, abs=0.01)
    now = np.flatnonzero(inside)
    assert np.corrcoef(right[now], right[now + 1])[0, 1] == pytest.approx(0.5, abs=0.01)
    np.testing.assert_allclose((sample.votes.codes >= 0).mean(axis=0), [0.5, 1.0], atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"persistence": 1.0}, "persistence=1.0"),
        ({"persistence": -0.1}, "persistence=-0.1"),
        ({"error_persistence": "much"}, "error_persistence='much'"),
        ({"n_items": 0}, "at least one item"),
    ],
)
def test_bad_options_of_sequences_are_refused(options, message):
    arguments = {"n_items": 10, "accuracies": [0.8], "rng": np.random.default_rng(0)} | options
    with pytest.raises(OptionError, match=message):
        fs.datasets.simulate_sequence(**arguments)
