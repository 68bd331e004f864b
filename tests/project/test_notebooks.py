"""Results are shown as small tables in notebooks, not as dumps of their fields."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs


@pytest.fixture(scope="module")
def results():
    sample = fs.datasets.simulate(300, [0.9, 0.8, 0.7, 0.6], random_state=0)
    model = fs.LabelModel().fit(sample.votes)
    proba = model.predict_proba(sample.votes)
    return {
        "Votes": sample.votes,
        "Moments": model.moments_,
        "Diagnostics": model.diagnostics_,
        "Agreement": fs.analysis.agreement(sample.votes),
        "Comparison": fs.analysis.compare_with_majority(model, sample.votes, sample.y),
        "Comparison without gold": fs.analysis.compare_with_majority(model, sample.votes),
        "Calibration": fs.analysis.calibration(model, sample.votes, sample.y),
        "Findings": fs.analysis.findings(sample.votes, model=model),
        "TrainingSet": fs.to_training_set(np.arange(300)[:, None], proba),
        "Table": model.summary(),
        "ContestedItems": fs.analysis.contested_items(model, sample.votes, n=3),
        "LeaveOneOut": fs.analysis.leave_one_out(model, sample.votes),
        "LearningCurve": fs.analysis.learning_curve(model, sample.votes),
    }


NAMES = [
    "Votes", "Moments", "Diagnostics", "Agreement", "Comparison", "Comparison without gold", "Calibration",
    "Findings", "TrainingSet", "Table", "ContestedItems", "LeaveOneOut", "LearningCurve",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_results_have_html(results, name):
    shown = results[name]._repr_html_()
    assert shown.startswith(("<table", "<p>", "<ul>"))
    assert shown.count("<table") == shown.count("</table>")
    assert len(shown) < 10_000


def test_a_graph_is_a_picture():
    assert fs.DependencyGraph(3, source_edges=[(0, 1)])._repr_svg_().startswith("<svg")


def test_a_training_set_unpacks(results):
    X, y, sample_weight = results["TrainingSet"]
    assert len(X) == len(y) == len(sample_weight)
