"""Chart descriptions: what they show, in which order, under which labels."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid import charts
from flyingsquid.analysis import agreement, calibration, learning_curve, leave_one_out
from flyingsquid.analysis.influence import LearningCurve
from tests.support.report_data import watched_stream


@pytest.fixture(scope="module")
def fitted():
    sample = fs.datasets.simulate(800, [0.9, 0.8, 0.75, 0.7, 0.65, 0.3], coverage=0.8, random_state=0)
    votes = fs.Votes(sample.votes.codes, ("ham", "spam"), tuple("abcdef"))
    y = np.array(["ham", "spam"])[sample.y]
    return votes, y, fs.LabelModel().fit(votes)


def test_accuracies_are_those_of_the_summary_best_first(fitted):
    votes, y, model = fitted
    summary = fs.summarize(votes, y, model=model).to_dict()
    chart = charts.accuracy_chart(summary, worse_than_chance=("f",), chance=[0.5] * 6)
    values = [row.value for row in chart.rows]
    assert values == sorted(summary["accuracy"], reverse=True)
    for row in chart.rows:
        j = summary["name"].index(row.name)
        assert (row.low, row.high) == (summary["accuracy_low"][j], summary["accuracy_high"][j])
        assert row.gold == summary["precision"][j]
        assert row.chance == 0.5
        assert row.tone == ("bad" if row.name == "f" else "main")
    # The estimate of such a source may be above chance, so the legend states where it is worse.
    assert chart.bad_label.endswith("on gold labels")
    assert not charts.accuracy_chart(model.summary().to_dict() | {"name": list("abcdef")}).gold_label
    without_model = charts.accuracy_chart(fs.summarize(votes, y).to_dict(), order=[2, 0])
    assert [row.name for row in without_model.rows] == ["c", "a"]
    assert without_model.value_label == ""


def test_layers_of_coverage_are_nested(fitted):
    chart = charts.coverage_chart(fs.summarize(fitted[0]).to_dict())
    coverage, overlaps, conflicts = (np.array(layer.values) for layer in chart.layers)
    assert (conflicts <= overlaps).all()
    assert (overlaps <= coverage).all()
    assert (np.diff(coverage) <= 0).all()


def test_sources_that_help_and_hurt_have_different_tones(fitted):
    votes, y, model = fitted
    found = leave_one_out(model, votes, y)
    chart = charts.leave_one_out_chart(found, 4)
    assert len(chart.names) == 4
    for name, tone in zip(chart.names, chart.tones, strict=True):
        change = found.accuracy_change["abcdef".index(name)]
        assert tone == ("main" if change < -5e-4 else "bad" if change > 5e-4 else "other")
    assert charts.leave_one_out_chart(leave_one_out(model, votes), 4).annotations[0].endswith("%")


def test_contributions_add_up_to_the_log_odds(fitted):
    votes, _, model = fitted
    why = model.explain(votes[[0]])
    chart = charts.explanation_chart(why, 2)
    assert len(chart.names) == 4  # class balance, two sources, the others
    assert sum(chart.values) == pytest.approx(why.log_odds)


def test_shares_of_votes_against_the_label_are_negative(fitted):
    votes, _, _ = fitted
    why = fs.MajorityVote().fit(votes).explain(votes[[0]])
    chart = charts.explanation_chart(why, 20)
    for contribution, value in zip(why.contributions, chart.values, strict=True):
        assert (value > 0) == (contribution.vote == why.predicted)
    assert sum(charts.explanation_chart(why, 1).values) == pytest.approx(sum(chart.values))


def test_similar_sources_are_neighbors():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 500))
    noisy = [np.where(rng.random(500) < 0.95, x, 1 - x) for x in (a, b, a, b)]
    votes = fs.Votes.from_classes(np.column_stack(noisy), names=["a1", "b1", "a2", "b2"])
    sorted_chart = charts.agreement_chart(agreement(votes))
    assert {frozenset(sorted_chart.names[:2]), frozenset(sorted_chart.names[2:])} == {
        frozenset({"a1", "a2"}),
        frozenset({"b1", "b2"}),
    }
    given = charts.agreement_chart(agreement(votes), sort=False)
    assert given.names == ("a1", "b1", "a2", "b2")
    np.testing.assert_array_equal(given.values, agreement(votes).beyond_chance)


def test_pairs_without_common_items_have_no_value():
    found = agreement([[0, 0, -1], [1, 1, -1], [0, -1, 1], [1, -1, 0]])
    chart = charts.agreement_chart(found, sort=False)
    assert np.isnan(chart.values[1, 2])
    assert "no common items" in chart.hints[1][2]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_histogram_has_every_item_once(n_classes):
    posterior = np.random.default_rng(0).dirichlet(np.ones(n_classes), 200)
    chart = charts.posterior_chart(posterior, wrong=np.where(np.arange(200) < 50, 1.0, 0.0), bins=7)
    items, wrong = chart.layers
    assert sum(items.values) == pytest.approx(1)
    assert sum(wrong.values) == pytest.approx(0.25)
    assert chart.edges[0] == pytest.approx(0 if n_classes == 2 else 1 / 3)


def test_calibration_leaves_out_empty_bins(fitted):
    votes, y, model = fitted
    found = calibration(model, votes, y, bins=100)
    reliability, counts = charts.calibration_charts(found)
    assert len(reliability.lines[0].x) == (found.counts > 0).sum() < 100
    assert counts.layers[0].values == tuple(found.counts)


def test_learning_curves_leave_out_sizes_that_failed(fitted):
    votes, y, model = fitted
    curve = learning_curve(model, votes, y, random_state=0, sizes=[100, 800], repeats=2)
    same, accuracy = charts.learning_curve_chart(curve).lines
    np.testing.assert_allclose(accuracy.y, curve.accuracy.mean(axis=1))
    assert same.y[-1] == 1
    failed = LearningCurve(np.array([5, 10]), np.array([[np.nan], [1.0]]), np.full((2, 1), np.nan), None)
    assert charts.learning_curve_chart(failed).lines[0].x.tolist() == [10]


def test_changes_belong_to_their_source():
    _, online = watched_stream()
    accuracies, window = charts.drift_charts(online.history_)
    assert [bool(line.changes) for line in accuracies.lines] == [True, False, False]
    np.testing.assert_array_equal(window.lines[0].y, online.history_.windows)


@pytest.mark.parametrize("with_gold", [False, True])
def test_asking_is_compared_with_asking_everybody(fitted, with_gold):
    votes, y, _ = fitted
    found = fs.judges.simulate_asking(votes, y if with_gold else None, stop_at=0.9)
    adaptive, everybody = charts.asking_chart(found).lines
    assert adaptive.y[-1] == found.accuracy[-1]
    assert everybody.y.tolist() == [found.full_accuracy] * 2
    assert everybody.x[-1] == found.asking.full_cost
    assert ("gold" in adaptive.name) == with_gold
