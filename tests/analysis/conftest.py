"""Votes of one strong source and four weak ones, and a model of them."""

from __future__ import annotations

import pytest

import flyingsquid as fs


@pytest.fixture(scope="module")
def sample():
    return fs.datasets.simulate(3_000, [0.95, 0.6, 0.6, 0.6, 0.6], coverage=0.9, random_state=0)


@pytest.fixture(scope="module")
def model(sample):
    return fs.LabelModel().fit(sample.votes)
