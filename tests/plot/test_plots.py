"""Plots: on given and new axes, without pyplot, with hostile names."""

from __future__ import annotations

import io
import sys
import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import (
    agreement,
    calibration,
    dependence_given_truth,
    learning_curve,
    leave_one_out,
)
from flyingsquid.exceptions import OptionError

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.extra
HOSTILE = ["$\\frac{1}{", "<script>", "a\nb", "x" * 500, "\u202eabc", ""]


@pytest.fixture(scope="module")
def fitted():
    sample = fs.datasets.simulate(800, [0.9, 0.8, 0.75, 0.7, 0.65, 0.6], coverage=0.8, random_state=0)
    votes = fs.Votes(sample.votes.codes, sample.votes.classes, tuple(HOSTILE))
    return votes, sample.y, fs.LabelModel().fit(votes)


def pictures(votes, y, model):
    """Every picture by name: a function of axes, and how many of these it takes."""
    from flyingsquid import plot

    summary = fs.summarize(votes, y, model=model)
    found = leave_one_out(model, votes, y)
    curve = learning_curve(model, votes, y, random_state=0, sizes=[100, 800], repeats=2)
    given = dependence_given_truth(votes, y)
    counted = fs.MajorityVote().fit(votes).explain(votes[[3]])
    return {
        "accuracies": (lambda a: plot.plot_accuracies(summary, a), 1),
        "accuracies of a model": (lambda a: plot.plot_accuracies(model.summary(), a), 1),
        "coverage": (lambda a: plot.plot_coverage(summary, a), 1),
        "agreement": (lambda a: plot.plot_result(agreement(votes), a), 1),
        "dependence": (lambda a: plot.plot_dependence(given, votes.source_names, a), 1),
        "posteriors": (lambda a: plot.plot_posteriors(model.predict_proba(votes), a), 1),
        "calibration": (lambda a: plot.plot_result(calibration(model, votes, y), a), 2),
        "explanation": (lambda a: plot.plot_result(model.explain(votes[[3]]), a), 1),
        "majority": (lambda a: plot.plot_result(counted, a, most=2), 1),
        "leave_one_out": (lambda a: plot.plot_result(found, a), 1),
        "learning_curve": (lambda a: plot.plot_result(curve, a), 1),
        "asking": (lambda a: plot.plot_result(fs.judges.simulate_asking(votes, y, stop_at=0.9), a), 1),
    }  # fmt: skip


NAMES = [
    "accuracies", "accuracies of a model", "coverage", "agreement", "dependence", "posteriors", "calibration",
    "explanation", "majority", "leave_one_out", "learning_curve", "asking",
]  # fmt: skip


@pytest.fixture(scope="module")
def drawn(fitted):
    return pictures(*fitted)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_draw_on_new_and_on_given_axes(drawn, name):
    from matplotlib.figure import Figure

    draw, n_axes = drawn[name]
    before = dict(matplotlib.rcParams)
    figure = Figure()
    given = figure.subplots(n_axes, 1)
    assert np.all(np.asarray(draw(given)) == np.asarray(given))
    new = draw(None)
    axis = new[0] if n_axes > 1 else new
    assert axis.figure is not figure
    for each in (figure, axis.figure):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # no font has them all
            each.savefig(io.BytesIO(), format="png", dpi=40)
    assert dict(matplotlib.rcParams) == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_sources_stand_in_order_of_their_accuracy(fitted):
    from flyingsquid.plot import plot_accuracies

    _, y, _ = fitted
    votes = fs.Votes(fitted[0].codes, (0, 1), tuple("abcdef"))
    axis = plot_accuracies(fs.summarize(votes, y))
    precision = fs.summarize(votes, y).to_dict()["precision"]
    expected = [votes.names[i] for i in np.argsort(-np.array(precision))]
    assert [label.get_text() for label in axis.get_yticklabels()] == expected


def test_sure_labels_stand_at_the_ends():
    from flyingsquid.plot import plot_posteriors

    axis = plot_posteriors(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), bins=2)
    assert [patch.get_height() for patch in axis.patches] == pytest.approx([1 / 3, 2 / 3])


def test_what_is_drawn_can_be_chosen(fitted):
    from flyingsquid import plot

    votes, y, model = fitted
    kappas = plot.plot_result(agreement(votes)).images[0].get_array()
    off = ~np.eye(6, dtype=bool)
    expected = agreement(votes).beyond_chance
    np.testing.assert_allclose(np.sort(kappas.data[off]), np.sort(expected[off]))
    assert plot.plot_posteriors([0.2, 0.9], event="P(rain)").get_xlabel() == "P(rain)"
    assert len(plot.plot_result(leave_one_out(model, votes, y), most=2).patches) == 2
    given = dependence_given_truth(votes, y, model=model)
    drawn = plot.plot_dependence(given, tuple("abcdef")).images[0].get_array()
    np.testing.assert_allclose(np.sort(drawn.data[off]), np.sort(given[off]))


def test_blue_bars_are_for_the_label():
    from flyingsquid.plot import plot_result

    sample = fs.datasets.simulate(800, [0.9, 0.8, 0.7], random_state=0)
    why = fs.LabelModel(method="triplet").fit(sample.votes).explain([1, 1, 0])
    axis = plot_result(why)
    widths = [patch.get_width() for patch in axis.patches]
    assert sum(widths) == pytest.approx(why.log_odds)
    assert [np.sign(w) for w in widths[1:]] == [np.sign(c.adds) for c in why.contributions]


def test_wrong_things_are_refused():
    from flyingsquid import plot

    for draw, parameter in (
        (plot.plot_accuracies, "summary"),
        (plot.plot_coverage, "summary"),
        (plot.plot_result, "result"),
    ):
        with pytest.raises(OptionError, match=f"`{parameter}`"):
            draw([1, 2])
    with pytest.raises(OptionError, match="`summary`"):
        plot.plot_accuracies(fs.summarize([[0, 1], [1, 1]]))
    with pytest.raises(OptionError, match="`correlations`"):
        plot.plot_dependence(np.eye(3), ["a", "b"])
    with pytest.raises(OptionError, match="`probabilities`"):
        plot.plot_posteriors(np.ones((2, 2, 2)))
    with pytest.raises(OptionError, match="`bins`"):
        plot.plot_posteriors(np.ones((2, 2)), bins=0)
    sample = fs.datasets.simulate(50, [0.9, 0.8, 0.7], random_state=0)
    with pytest.raises(OptionError, match="`most`"):
        plot.plot_result(fs.LabelModel().fit(sample.votes).explain(sample.votes[0]), most=0)
