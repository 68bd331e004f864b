"""Simulated votes have the requested accuracies, coverage and dependence."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError


def test_rates_are_the_given_ones():
    sample = fs.datasets.simulate(
        200_000, [0.9, 0.6], coverage=[0.5, 1.0], class_balance=[0.2, 0.8], random_state=0
    )
    codes = sample.votes.codes
    np.testing.assert_allclose((codes >= 0).mean(axis=0), [0.5, 1.0], atol=0.01)
    for j, accuracy in enumerate([0.9, 0.6]):
        voted = codes[:, j] >= 0
        assert np.mean(codes[voted, j] == sample.y[voted]) == pytest.approx(accuracy, abs=0.01)
    assert sample.y.mean() == pytest.approx(0.8, abs=0.01)


def test_the_same_generator_draws_the_same_votes():
    a, b = (fs.datasets.simulate(50, [0.8] * 3, random_state=1) for _ in range(2))
    np.testing.assert_array_equal(a.votes.codes, b.votes.codes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_items": 0}, "n_items"),
        ({"accuracies": [1.2]}, "accuracies"),
        ({"coverage": [0.5, 0.5]}, "coverage"),
        ({"random_state": "3"}, "random_state"),
        ({"n_items": 2.5}, "n_items"),
        ({"coverage": -0.1}, "coverage"),
        ({"class_balance": [0.5]}, "class_balance"),
    ],
)
def test_bad_options_are_refused(options, message):
    arguments = {"n_items": 10, "accuracies": [0.8], "random_state": 0} | options
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
        random_state=0,
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
        ({"persistence": 1.0}, "`persistence`"),
        ({"persistence": -0.1}, "`persistence`"),
        ({"error_persistence": "much"}, "`error_persistence`"),
        ({"n_items": 0}, "`n_items`"),
    ],
)
def test_bad_options_of_sequences_are_refused(options, message):
    arguments = {"n_items": 10, "accuracies": [0.8], "random_state": 0} | options
    with pytest.raises(OptionError, match=message):
        fs.datasets.simulate_sequence(**arguments)


@pytest.mark.parametrize(
    "graph",
    [fs.DependencyGraph.chain(3, 3, source_edges=[(0, 1), (1, 2)]), fs.DependencyGraph.grid(2, 2, 3)],
)
def test_graphs_are_drawn_as_described(graph):
    sample = fs.datasets.simulate_graph(
        60_000, graph, 0.8, coverage=0.7, class_balance=[0.3, 0.7], correlation=0.6, copying=0.5,
        random_state=0,
    )  # fmt: skip
    codes, truth = np.asarray(sample.votes.codes), sample.y[:, graph.source_task]
    np.testing.assert_allclose((codes >= 0).mean(axis=0), sample.coverage, atol=0.01)
    right = (codes == truth).sum(axis=0) / (codes >= 0).sum(axis=0)
    np.testing.assert_allclose(right, sample.accuracies, atol=0.01)
    np.testing.assert_allclose(sample.y.mean(axis=0), 0.7, atol=0.01)
    for a, b in graph.task_edges:
        assert np.corrcoef(sample.y[:, a], sample.y[:, b])[0, 1] == pytest.approx(0.6, abs=0.02)
    for a, b in graph.source_edges:
        both = (codes[:, a] >= 0) & (codes[:, b] >= 0)
        alike = (codes[:, a] == codes[:, b])[both].mean()
        assert alike > 0.8 * 0.8 + 0.2 * 0.2 + 0.1  # more than two independent sources would


@pytest.mark.parametrize(
    "option", [{"correlation": 1.0}, {"correlation": -1}, {"copying": -0.1}, {"copying": True}]
)
def test_bad_options_of_graphs(option):
    with pytest.raises(fs.exceptions.OptionError, match=next(iter(option))):
        fs.datasets.simulate_graph(10, fs.DependencyGraph(3), 0.8, **option, random_state=0)
    with pytest.raises(fs.exceptions.OptionError, match="DependencyGraph"):
        fs.datasets.simulate_graph(10, 3, 0.8, random_state=0)
