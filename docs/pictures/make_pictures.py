"""Make the pictures of the documentation: ``python docs/pictures/make_pictures.py`` (needs matplotlib)."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

import flyingsquid as fs
from flyingsquid import analysis, plot
from flyingsquid.analysis import learning_curve, leave_one_out

matplotlib.use("svg")
# The same picture is the same file.
matplotlib.rcParams.update({"svg.hashsalt": "flyingsquid", "svg.fonttype": "none", "font.size": 10})

from matplotlib import pyplot as plt  # noqa: E402  # after the backend is chosen

HERE = Path(__file__).parent
# Where the stretch of frames begins.
FIRST = 2_000
BLUE, RED, GRAY = "#2563a8", "#c2410c", "#9aa3ad"
GRAPHS = {
    "graph-independent": fs.DependencyGraph(5),
    "graph-dependent": fs.DependencyGraph(6, source_edges=[(0, 1), (0, 2), (1, 2)]),
    "graph-chain": fs.DependencyGraph.chain(3, 3, source_edges=[(0, 1)]),
}


def video() -> fs.datasets.SequenceSimulation:
    """The frames of the tutorial."""
    return fs.datasets.simulate_sequence(
        12_000,
        [0.8, 0.75, 0.7, 0.65],
        coverage=[0.9, 0.7, 0.6, 0.6],
        class_balance=[0.6, 0.4],
        persistence=0.95,
        random_state=0,
    )


def timeline() -> None:
    """A stretch of frames: the truth, single frames, the sequence."""
    frames = video()
    shown = slice(FIRST, FIRST + 250)
    alone = fs.LabelModel(class_balance=[0.6, 0.4]).fit(frames.votes).predict_proba(frames.votes)[shown, 1]
    model = fs.SequenceLabelModel(class_balance=[0.6, 0.4]).fit(frames.votes)
    together = model.predict_proba(frames.votes)[shown, 1]
    at = np.arange(FIRST, FIRST + 250)
    figure, axes = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
    for axis, values, color, title in (
        (axes[0], alone, RED, "single frames"),
        (axes[1], together, BLUE, "with neighboring frames"),
    ):
        axis.fill_between(at, frames.y[shown], step="mid", color=GRAY, alpha=0.35, linewidth=0, label="truth")
        axis.plot(at, values, color=color, linewidth=1.2, label="P(class 1)")
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_yticks([0, 1])
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="upper right", fontsize=8, frameon=False, ncols=2, bbox_to_anchor=(1, 1.25))
    axes[1].set_xlabel("frame")
    figure.savefig(HERE / "video-timeline.svg", metadata={"Date": None})


def lengths() -> None:
    """Accuracy by the number of frames in a chain."""
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 5, 8, 14]
    scores = []
    for size in sizes:
        graph = fs.DependencyGraph.chain(size, 4)
        clips = fs.datasets.simulate_graph(
            6_000, graph, [0.8, 0.75, 0.7, 0.65] * size, coverage=0.7, correlation=0.9, random_state=rng
        )
        model = fs.LabelModel(graph).fit(clips.votes)
        scores.append(model.score(clips.votes, clips.y))
    figure, axis = plt.subplots(figsize=(5, 2.8), layout="constrained")
    axis.plot(sizes, scores, marker="o", color=BLUE)
    axis.set_xlabel("frames in a clip")
    axis.set_ylabel("accuracy of a frame")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    figure.savefig(HERE / "video-lengths.svg", metadata={"Date": None})


def panel() -> tuple[fs.Votes, np.ndarray, fs.LabelModel]:
    """The twelve judges of the guide, two families of three among them."""
    names = [*(f"ash {size}" for size in "SML"), *(f"oak {size}" for size in "SML"),
             "elm", "fir", "yew", "box", "bay", "fig"]  # fmt: skip
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    sample = fs.datasets.simulate_graph(
        4_000,
        fs.DependencyGraph(12, source_edges=edges),
        [0.62, 0.7, 0.74, 0.66, 0.72, 0.78, 0.85, 0.8, 0.7, 0.65, 0.6, 0.4],
        coverage=[1, 1, 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
        random_state=0,
    )
    votes = fs.Votes(sample.votes.codes, ("fine", "toxic"), tuple(names))
    return votes, np.array(["fine", "toxic"])[sample.y[:, 0]], fs.LabelModel().fit(votes)


def understanding() -> None:
    """Draw the pictures of the guide on understanding a model."""
    votes, y, model = panel()
    summary = fs.summarize(votes, y, model=model)
    row = analysis.contested_items(model, votes, n=1).overruled[0].item
    given = analysis.dependence_given_truth(votes, y)
    drawn = {
        "accuracies": plot.plot_accuracies(summary),
        "coverage": plot.plot_coverage(summary),
        "agreement": plot.plot_result(analysis.agreement(votes)),
        "dependence": plot.plot_dependence(given, votes.source_names),
        "posteriors": plot.plot_posteriors(model.predict_proba(votes), event="P(toxic)"),
        "calibration": plot.plot_result(analysis.calibration(model, votes, y))[0],
        "explanation": plot.plot_result(model.explain(votes[[row]])),
        "leave-one-out": plot.plot_result(leave_one_out(model, votes, y)),
        "learning-curve": plot.plot_result(learning_curve(model, votes, y, random_state=0)),
    }
    for name, axis in drawn.items():
        axis.figure.savefig(HERE / f"understanding-{name}.svg", metadata={"Date": None})


def main() -> None:
    """Write every picture to the directory of this file."""
    for name, graph in GRAPHS.items():
        (HERE / f"{name}.svg").write_text(graph.to_svg(), encoding="utf-8")
    timeline()
    lengths()
    understanding()


if __name__ == "__main__":
    main()
