"""Simulated drift, reported changes, and their chart."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError
from flyingsquid.models.drift import ChangePoint, DriftHistory

BEFORE, AFTER = np.array([0.9, 0.7, 0.8]), np.array([0.6, 0.7, 0.9])


def history(values, *, error=0.01, window=1_000, pace=500):
    """Records of sources by (r, m) accuracies."""
    values = np.asarray(values, float).reshape(len(values), -1)
    names = tuple(f"s{i}" for i in range(values.shape[1]))
    at = pace * np.arange(1, len(values) + 1)
    ends = values[:, :, None] + 1.96 * error * np.array([-1, 1])
    return DriftHistory(names, at, np.full(len(values), float(window)), values, ends)


@pytest.mark.parametrize("kind", ["none", "sudden", "gradual", "periodic"])
def test_simulated_sources_have_the_declared_accuracies(kind):
    stream = fs.datasets.simulate_drift(
        60_000, BEFORE, AFTER, kind=kind, period=20_000, coverage=0.5, random_state=0
    )
    codes = np.asarray(stream.votes.codes)
    for part in np.split(np.arange(60_000), 6):
        voted = codes[part] >= 0
        right = (codes[part] == stream.y[part, None]).sum(axis=0) / voted.sum(axis=0)
        np.testing.assert_allclose(right, stream.accuracies[part].mean(axis=0), atol=0.03)
    first, middle, last = stream.accuracies[[0, 30_000, -1]]
    expected = {
        "none": (BEFORE, BEFORE, BEFORE),
        "sudden": (BEFORE, AFTER, AFTER),
        "gradual": (BEFORE, (BEFORE + AFTER) / 2, AFTER),
        "periodic": (BEFORE, AFTER, BEFORE),
    }
    np.testing.assert_allclose([first, middle, last], expected[kind], atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"kind": "odd"}, {"at": 0}, {"period": 1}, {"after": [0.5]}, {"after": [0.5, 0.5, 2]}]
)
def test_drift_that_cannot_be_is_refused(options):
    arguments = {"before": BEFORE, "after": AFTER, "random_state": 0, **options}
    with pytest.raises(OptionError):
        fs.datasets.simulate_drift(100, **arguments)


def test_changes_are_described_in_a_sentence():
    assert str(ChangePoint("source 3", 412_000, 0.86, 0.61)) == (
        "source 3 fell from .86 to .61 around item 412,000"
    )
    assert str(ChangePoint("x", 5, 0.5, 1.0)) == "x rose from .50 to 1.00 around item 5"


def test_steps_are_found_where_they_are():
    steps = np.r_[np.full(30, 0.9), np.full(30, 0.6), np.full(30, 0.8)]
    flat = np.full(90, 0.7)
    found = history(np.column_stack([steps, flat])).changes()
    assert [(c.source, round(c.before, 2), round(c.after, 2)) for c in found] == [
        ("s0", 0.9, 0.6),
        ("s0", 0.6, 0.8),
    ]
    # Records speak of the middle of their windows.
    assert [c.position for c in found] == pytest.approx([14_750, 29_750], abs=100)


def test_noise_is_no_change():
    rng = np.random.default_rng(0)
    quiet = history(0.8 + 0.02 * rng.normal(size=(300, 6)), error=0.02, window=500)
    assert quiet.changes() == ()
    assert history([[0.9], [0.5]]).changes() == ()  # too few records to say
    unknown = np.full((50, 1), np.nan)
    assert history(unknown).changes() == ()


def test_changes_of_sources_without_intervals_are_tested_by_the_window():
    values = np.r_[np.full(20, 0.9), np.full(20, 0.6)]
    record = history(values, error=np.nan)
    assert len(record.changes()) == 1
    small = history(values, error=np.nan, window=40, pace=1)  # too few items for such a difference
    assert small.changes() == ()


def test_repr_of_a_history_has_its_size():
    assert repr(history([[0.5]] * 3)) == "DriftHistory(3 records of 1 source, items 500 to 1,500)"
    assert (
        repr(fs.OnlineLabelModel().partial_fit([[0, 1]]).history_) == "DriftHistory(0 records of 2 sources)"
    )


@pytest.mark.extra
def test_the_picture_shows_every_source_and_the_window():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    from flyingsquid.plot import plot_result

    steps = np.column_stack([np.r_[np.full(30, 0.9), np.full(30, 0.6)], np.full(60, 0.7)])
    top, bottom = plot_result(history(steps))
    assert [line.get_label() for line in top.get_lines()[:2]] == ["s0", "s1"]
    assert len(top.get_lines()) == 3  # and one change
    assert len(bottom.get_lines()) == 1
    given = pyplot.subplots(2, 1)[1]
    assert plot_result(history(steps), given)[0] is given[0]
    pyplot.close("all")
    with pytest.raises(OptionError, match="`result`"):
        plot_result("x")
