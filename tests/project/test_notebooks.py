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


@pytest.mark.parametrize(
    "graph",
    [
        fs.DependencyGraph(4, source_edges=[(0, 1)]),
        fs.DependencyGraph.chain(12, 3, source_edges=[(0, 1)]),
        fs.DependencyGraph.grid(3, 3, 3),
        fs.DependencyGraph(4, 4, task_edges=[(0, 1), (0, 2), (0, 3)]),
    ],
)
def test_a_graph_is_plotted(graph):
    """One circle per truth and source, one line per vote and edge."""
    pytest.importorskip("matplotlib")
    from matplotlib.patches import Circle, PathPatch

    axis = graph.plot()
    circles = [p for p in axis.patches if isinstance(p, Circle)]
    lines = [p for p in axis.patches if isinstance(p, PathPatch)]
    assert len(circles) == graph.n_tasks + graph.n_sources
    assert len(lines) == graph.n_sources + len(graph.source_edges) + len(graph.task_edges)
    left, right = sorted(axis.get_xlim())
    assert all(left < c.center[0] < right for c in circles)
    assert graph.plot(axis) is axis
    named = graph.plot(names=[f"rule {i}" for i in range(graph.n_sources)])
    assert "rule 0" in [text.get_text() for text in named.texts]
    with pytest.raises(fs.FlyingSquidError, match="`names`"):
        graph.plot(names=["a"])


def test_a_training_set_unpacks(results):
    X, y, sample_weight = results["TrainingSet"]
    assert len(X) == len(y) == len(sample_weight)
