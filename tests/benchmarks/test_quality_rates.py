"""The measurement of rates: cells, summary, and the page."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.harness import saved_halves
from benchmarks.quality.halves import RealSet

pytestmark = pytest.mark.extra  # the harness reads the machine with psutil
MADE = RealSet("made", "labeling functions", 2)


@pytest.fixture(scope="module")
def rates():
    from benchmarks.quality import rates

    return rates


@pytest.fixture(scope="module")
def measured(rates):
    sample = fs.datasets.simulate(1_500, [0.9, 0.8, 0.8], class_balance=[0.9, 0.1], random_state=0)
    y = np.asarray(sample.y, np.int8)
    y[:100] = -1
    return rates.measure(MADE, np.asarray(sample.votes.codes), y, sizes=(50, 120), resamples=300)


def test_cells_are_classes_with_enough_expected_gold_labels(measured):
    assert measured["n_items"] == 1_400
    assert [(cell["n"], cell["class"]) for cell in measured["cells"]] == [(50, 0), (120, 0), (120, 1)]
    for cell in measured["cells"]:
        assert cell["coverage"] >= 0.9
        assert cell["width"] < cell["width_alone"]
        assert cell["worth_observed"] > cell["n"]


def test_summary_counts_cells(rates, measured):
    found = rates.summarize([measured])
    assert found["cells"] == 3
    assert found["lowest_coverage"] == min(cell["coverage"] for cell in measured["cells"])


def test_the_page_is_that_of_the_saved_results(rates):
    results = saved_halves(rates.NAMES)
    assert set(results) == {"design", "frozen"}
    assert rates.PAGE.read_text(encoding="utf-8") == rates.render(results)


def test_saved_results_meet_the_goals(rates):
    for results in saved_halves(rates.NAMES).values():
        assert results["summary"]["covered"] >= 0.95
        assert results["summary"]["widest"] <= 1.05
