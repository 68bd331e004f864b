"""Calibration: probabilities compared with how often they come true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.analysis import calibration
from flyingsquid.analysis.comparison import calibrate
from flyingsquid.exceptions import OptionError
from tests.support.strategies import examples


@examples(40)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_calibration_counts_every_item(pairs, bins):
    p, happened = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    found = calibrate(p, happened, "event", bins=bins)
    assert found.counts.sum() == len(p)
    known = found.counts > 0
    assert np.sum(found.observed[known] * found.counts[known]) == pytest.approx(happened.sum())
    assert np.sum(found.probability[known] * found.counts[known]) == pytest.approx(p.sum())
    assert (found.low[known] <= found.observed[known] + 1e-9).all()
    assert (found.high[known] >= found.observed[known] - 1e-9).all()
    assert 0 <= found.error <= 1


def test_calibration_of_many_classes_is_of_the_label():
    sample = fs.datasets.simulate_graph(2_000, fs.DependencyGraph(5), 0.7, n_classes=3, random_state=0)
    model = fs.LabelModel().fit(sample.votes)
    found = calibration(model, sample.votes, sample.y)
    assert found.event == "P(label is right)"
    assert found.counts.sum() == 2_000


def test_bad_inputs_are_named():
    sample = fs.datasets.simulate(300, [0.9, 0.8, 0.7], random_state=0)
    model = fs.LabelModel().fit(sample.votes)
    with pytest.raises(OptionError, match="`y`"):
        calibration(model, sample.votes, None)
    with pytest.raises(OptionError, match="`bins`"):
        calibration(model, sample.votes, sample.y, bins=0)
