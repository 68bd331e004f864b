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
