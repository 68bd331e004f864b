"""Make the pictures of the landing page and of the concepts: ``python docs/pictures/make_concepts.py``."""

from __future__ import annotations

import numpy as np
from drawing import BLUE, GRAY, ORANGE, plain, plt, save
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import flyingsquid as fs


def landing() -> None:
    """Draw votes on real biopsies, the estimated accuracy of each rule, and the labels."""
    data = fs.datasets.load_breast_cancer()
    model = fs.LabelModel().fit(data.votes)
    rng = np.random.default_rng(0)
    shown = rng.permutation(
        [i for y in np.unique(data.y) for i in rng.choice(np.flatnonzero(data.y == y), 7)]
    )
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(10, 3.8), width_ratios=[1.2, 1.5, 1.1], layout="constrained"
    )
    _cells(left, np.asarray(data.votes.codes)[shown])
    left.set_title("1. Votes of seven rules", loc="left", color=GRAY)
    left.text(0, -1.0, "blue: malignant, orange: benign, empty: abstains", fontsize=9, color=GRAY)

    measured = fs.summarize(data.votes, data.y).to_dict()["precision"]
    order = np.argsort(model.accuracies_)
    low, high = model.accuracies_interval_[order].T
    at = np.arange(len(order))
    middle.hlines(at, low, high, color=BLUE, linewidth=3, alpha=0.5)
    middle.plot(model.accuracies_[order], at, "o", color=BLUE)
    middle.plot(np.asarray(measured)[order], at, "|", color=ORANGE, markersize=14, markeredgewidth=2)
    middle.set_yticks(at, [model.source_names_[i] for i in order])
    middle.set_xlim(0.3, 1)
    middle.set_ylim(-1.6, len(order) - 0.5)
    middle.set_title("2. Accuracy of each rule", loc="left", color=GRAY)
    middle.text(0.3, -1.3, "dot: estimated without gold labels, |: measured", fontsize=9, color=GRAY)

    probabilities = model.predict_proba(data.votes)[shown, 1]
    rows = np.arange(len(shown))[::-1]
    colors = [BLUE if p >= 0.5 else ORANGE for p in probabilities]
    right.barh(rows, probabilities - 0.5, left=0.5, color=colors, height=0.7)
    right.axvline(0.5, color=GRAY, linewidth=0.8)
    right.set_xlim(0, 1)
    right.set_yticks([])
    right.set_ylim(-1.6, len(shown) - 0.6)  # rows of the votes on the left
    right.set_title("3. Labels: P(malignant)", loc="left", color=GRAY)
    for axis in (middle, right):
        plain(axis)
    save(figure, "landing")


def _cells(axis: Axes, codes: np.ndarray) -> None:
    for row, votes in enumerate(codes[::-1]):
        for column, vote in enumerate(votes):
            color = {1: BLUE, 0: ORANGE}.get(int(vote), "none")
            edge = GRAY if vote < 0 else "none"
            axis.add_patch(
                Rectangle((column, row), 0.86, 0.8, facecolor=color, edgecolor=edge, linewidth=0.5)
            )
    axis.set_xlim(-0.1, codes.shape[1])
    axis.set_ylim(-1.2, len(codes))
    axis.axis("off")


def triplet() -> None:
    """Three sources, three agreements, three accuracies."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    places = {"a": (0.15, 0.2), "b": (0.5, 0.85), "c": (0.85, 0.2)}
    worth = {"a": 0.8, "b": 0.6, "c": 0.5}
    for axis, title in (
        (left, "observed: agreement beyond chance"),
        (right, "solution: mean parameter of each source"),
    ):
        axis.set_title(title, loc="left", fontsize=11, color=GRAY)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1.05)
        axis.set_aspect(0.7)
        axis.axis("off")
    for one, other in (("a", "b"), ("b", "c"), ("a", "c")):
        (x, y), (to_x, to_y) = places[one], places[other]
        for axis in (left, right):
            axis.plot([x, to_x], [y, to_y], color=GRAY, linewidth=1, zorder=1)
        # Next to the line, so that the picture needs no background.
        away = (0.07 if to_x > 0.5 and x >= 0.5 else -0.07, 0.06) if y != to_y else (0.0, -0.1)
        text = f"{worth[one] * worth[other]:.2f}"
        left.text((x + to_x) / 2 + away[0], (y + to_y) / 2 + away[1], text, ha="center", color=BLUE)
    for name, (x, y) in places.items():
        for axis, text in ((left, "?"), (right, f"{worth[name]:.1f}")):
            axis.plot(x, y, "o", color=BLUE, markersize=34, zorder=2)
            axis.text(x, y, text, ha="center", va="center", color="white", zorder=3, fontsize=11)
    save(figure, "triplet")


if __name__ == "__main__":
    landing()
    triplet()
