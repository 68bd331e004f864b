"""Verdicts: when a model is recommended, when it is doubted, and why it is no better."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.estimation.independence import FitTest
from flyingsquid.fits.diagnostics import (
    UNTESTED,
    accuracy_gain,
    dependence_doubts,
    format_names,
    names_in_groups,
    persistence_doubts,
    recommend,
    recommend_by_gold,
)

UNEQUAL, EVERYWHERE = np.array([0.6, 0.7, 0.9]), np.ones(3)


@pytest.mark.parametrize(
    ("gain", "doubts", "kind"),
    [
        (0.0049, [], "no better"),
        (0.0049, ["a doubt"], "no better"),
        (0.005, [], "recommended"),
        (0.3, [], "recommended"),
        (0.301, [], "unproven"),  # too good to be true
        (0.1, ["a doubt"], "unproven"),
    ],
)
def test_a_gain_of_half_a_point_without_doubt_is_recommended(gain, doubts, kind):
    found = recommend(gain, UNEQUAL, EVERYWHERE, doubts, (gain - 0.01, gain + 0.01))
    assert found.kind == kind
    assert found.use_model == (kind == "recommended")
    assert (found.gain, found.gain_interval) == (gain, (gain - 0.01, gain + 0.01))
    assert all(doubt in found.text for doubt in doubts) or kind == "no better"
    if kind != "no better":
        assert f"{100 * gain:.1f} points" in found.text
        assert f"{100 * gain - 1:+.1f} to {100 * gain + 1:+.1f}" in found.text
        assert "interval" not in recommend(gain, UNEQUAL, EVERYWHERE, doubts).text


@pytest.mark.parametrize(
    ("accuracies", "coverage", "fact"),
    [
        ([0.9, 0.6, 0.7], [1, 0, 0], "one source"),
        ([0.9, 0.6, 0.7], [1, 1, 0], "two sources"),
        ([0.9, 0.6, 0.7], [0.5, 0.5, 0.49], "1.5 votes"),
        ([0.70, 0.75, 0.77], [1, 1, 1], "70% to 77%"),
        ([0.70, 0.75, 0.77, 0.1], [1, 1, 1, 0], "70% to 77%"),  # the last one does not vote
        ([0.70, 0.75, 0.79], [1, 1, 1], "weights"),
        ([0.70, 0.75, 0.79], [0.5, 0.5, 0.5], "weights"),
    ],
)
def test_the_reason_is_the_first_that_applies(accuracies, coverage, fact):
    found = recommend(0.0, np.array(accuracies), np.array(coverage))
    assert fact in found.text


@pytest.mark.parametrize(
    ("gain", "interval", "kind", "fact"),
    [
        (0.005, (0.001, 0.01), "recommended", "0.5 points above"),
        (0.0049, (0.001, 0.01), "unproven", "0.5 points above"),
        (0.02, (0.0, 0.04), "unproven", "2.0 points above"),
        (0.001, (-0.002, 0.0049), "no better", "0.1 points above"),
        (0.001, (-0.002, 0.005), "unproven", "0.1 points above"),
        (-0.02, (-0.03, -0.01), "no better", "2.0 points below"),
        (0.0004, (-0.001, 0.001), "no better", "that of majority vote"),
        (-0.0005, (-0.001, 0.001), "no better", "below"),
    ],
)
def test_gold_labels_recommend_a_clear_gain_and_rule_one_out(gain, interval, kind, fact):
    found = recommend_by_gold(gain, interval, 800)
    assert (found.kind, found.gain, found.gain_interval) == (kind, gain, interval)
    assert fact in found.text


def test_errors_that_persist_are_a_doubt_from_a_tenth_on():
    assert persistence_doubts([]) == []
    assert persistence_doubts([np.array([0.1, 0.1])]) == []
    # An unknown correlation and one below 0 count as 0.
    (doubt,) = persistence_doubts([np.array([0.3]), np.array([np.nan, 0.3, -5.0])])
    assert "0.15" in doubt
    assert persistence_doubts([np.array([0.3]), np.array([np.nan, 0.09, -5.0])]) == []
    assert "1.00" in persistence_doubts([np.array([7.0])])[0]  # at most 1


@pytest.mark.parametrize(("p_value", "n_doubts"), [(1.0, 0), (0.01, 0), (1e-9, 1), (0.0, 1)])
def test_clear_dependence_is_a_doubt(p_value, n_doubts):
    doubts = dependence_doubts(FitTest(1.0, 3, p_value))
    assert len(doubts) == n_doubts
    if p_value == 0:
        assert "p < 1e-300" in doubts[0]
    elif doubts:
        assert "p = 1e-09" in doubts[0]
    assert dependence_doubts(None) == [UNTESTED]


def test_gain_divides_ties():
    posterior = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    shares = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    y = np.array([0, 1, 1])
    assert accuracy_gain(posterior, shares, y) == pytest.approx((1 + 1 + 0.5) / 3 - (0.5 + 0 + 0.5) / 3)


def test_names_of_groups_and_of_long_lists():
    names = tuple("abcdefg")
    assert names_in_groups(names, np.array([0, 1, 0, 2, 1, 3, 1])) == (("a", "c"), ("b", "e", "g"))
    assert format_names(names[:5]) == "a, b, c, d, e"
    assert format_names(names) == "a, b, c, d, e and 2 more"
