"""The measurement of suggested items: labels needed, items that are scored, and the page."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.harness import saved_halves

pytestmark = pytest.mark.extra  # the harness reads the machine with psutil


@pytest.fixture(scope="module")
def suggestions():
    from benchmarks.quality import suggestions

    return suggestions


@pytest.fixture(scope="module")
def pool(suggestions):
    sample = fs.datasets.simulate(400, [0.9, 0.8, 0.7, 0.6], coverage=0.8, random_state=0)
    votes, y = np.asarray(sample.votes.codes), np.asarray(sample.y).copy()
    y[:20] = -1
    return suggestions.Pool("made", 2, votes, y, votes, y, False)


def test_labels_needed_are_interpolated(suggestions):
    needed = suggestions.labels_needed
    assert needed([0.7, 0.8, 0.9, 0.9, 0.9], [0.5, 0.6, 0.7, 0.8, 0.85]) == pytest.approx(50)
    assert needed([0.9] * 5, [0.8] * 5) == 20
    assert needed([0.5] * 5, [0.8] * 5) == float("inf")
    assert needed([0.5, 0.3, 0.3, 0.3, 0.3], [0.4] * 5, higher=False) == pytest.approx(30)


def test_suggested_items_are_never_scored(suggestions, pool):
    found = suggestions.divided(pool)
    assert len(found.y) == len(found.scored_y) == 190
    assert (found.y >= 0).all()


def test_curves_have_a_score_for_every_step(suggestions, pool):
    for choice in suggestions.CHOICES:
        assert suggestions.curve(suggestions.divided(pool), choice, 0).shape == (5, 3)


def test_the_page_has_every_dataset(suggestions):
    curve = [[0.5 + 0.05 * at, 0.5, 0.5 - 0.05 * at] for at in range(5)]
    row = dict.fromkeys(suggestions.CHOICES, curve)
    page = suggestions.render({"design": {"draws": 2, "scores": {"first": row, "second": row}}})
    assert "2 datasets, 2 draws" in page
    assert "| second |" in page


def test_the_page_is_that_of_the_saved_results(suggestions):
    saved = saved_halves(suggestions.NAMES)
    assert suggestions.PAGE.read_text(encoding="utf-8") == suggestions.render(saved)
