"""The page about intervals: coverage is counted as described, and the page has every table."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs

pytestmark = pytest.mark.extra  # the harness reads the machine with psutil


@pytest.fixture(scope="module")
def honesty():
    from benchmarks.quality import honesty

    return honesty


@pytest.fixture(scope="module")
def dataset(honesty):
    sample = fs.datasets.simulate(400, [0.9, 0.8, 0.7, 0.6, 0.6], coverage=0.8, random_state=0)
    votes = np.asarray(sample.votes.codes).copy()
    votes[20:, 4] = -1  # too few votes to count
    return honesty.Dataset("made", "crowds", 2, votes, np.asarray(sample.y).astype(int))


@pytest.fixture(scope="module")
def row(honesty, dataset):
    return honesty.measure_dataset(dataset)


def test_only_sources_with_enough_gold_votes_count(row):
    assert row["sources"] == 4
    assert 0 <= row["covered"] <= 4
    assert 0 < row["width"] < 1


def test_realized_accuracies_are_those_on_gold_labels(honesty):
    data = honesty.Dataset("", "", 2, np.array([[0, 1], [1, 1], [0, -1]]), np.array([0, 1, -1]))
    accuracy, n = data.realized()
    assert accuracy.tolist() == [1.0, 0.5]
    assert n.tolist() == [2, 2]


def test_the_default_is_one_of_the_candidates(honesty, row):
    at = honesty.GRID.index(honesty.DEFAULT)
    assert row["by_grid"][at][0] == row["covered"]
    assert row["by_grid"][at][1] == pytest.approx(row["sources"] * row["width"])


def test_a_dataset_is_scored_with_constants_chosen_without_it(honesty):
    """On the others the widest candidate is best; on the one left out it covers nothing."""
    n = len(honesty.GRID)
    good = {"sources": 10, "by_grid": [[5.0, 1.0]] * (n - 1) + [[10.0, 1.0]]}
    bad = {"sources": 10, "by_grid": [[10.0, 1.0]] * (n - 1) + [[0.0, 1.0]]}
    kinds = list(honesty.GOALS)
    datasets = {f"{kind} {i}": {**good, "kind": kind} for kind in kinds for i in (1, 2)}
    datasets["left"] = {**bad, "kind": kinds[0]}
    found = honesty.leave_one_out(datasets)
    assert found[kinds[0]][0] < found[kinds[1]][0] == 1.0


def test_the_page_has_both_halves_and_the_simulations(honesty, row):
    gains = zip(honesty.GOALS, (0.01, 0.02, 0.03), strict=True)
    datasets = {kind: {**row, "kind": kind, "claimed": g, "realized": g} for kind, g in gains}
    simulation = {"cases": 1.0, "coverage": 0.95, "realized": 0.97, "width": 0.1, "balance": 1.0}
    design = {
        "datasets": datasets,
        "left_out": {kind: [0.9, 0.4] for kind in honesty.GOALS},
        "simulations": {"quickstart": {**simulation, "ratio": float("nan")}},
        "verdicts": {"clean": honesty._count_verdicts([("recommended", 0.03), ("unproven", 0.01)])},
        "few_sources": [["1", "85%", "not shown"]],
    }
    text = honesty.render({"design": design, "frozen": {"datasets": datasets}})
    for heading in ("## Design half", "## Frozen half", "## Simulations"):
        assert heading in text
    assert "nan" not in text


def test_recommended_losses_are_counted(honesty):
    found = [("recommended", -0.02), ("recommended", 0.02), ("unproven", -0.02), ("no signal", 0.0)]
    counts = honesty._count_verdicts(found)
    assert counts["recommended"] == 2
    assert counts["lost"] == 1


def test_noise_has_the_given_shape_and_no_signal(honesty):
    case = honesty._noise(0, 400, 5, 3, 0.5)
    assert case.fit.shape == (400, 5)
    assert 0.4 < (case.fit >= 0).mean() < 0.6
    assert honesty._verdict_on(case)[0] == "no signal"
