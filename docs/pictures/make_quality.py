"""Draw the plots of docs/quality/index.md from the recorded results.

Run with ``python -m docs.pictures.make_quality``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.quality.overview import CURVES, of_both_halves
from docs.pictures.drawing import BLUE, GRAY, ORANGE, plain, plt, save


def draw_gains() -> None:
    """Draw the accuracy above majority vote on every real dataset."""
    halves = of_both_halves("default_table")
    sets = [
        (half, one) for half, found in halves.items() for one in found["split"]["sets"] if one["in_means"]
    ]

    def gain(scores: Mapping[str, Any], name: str) -> float:
        one = scores.get(name, {"refused": ""})
        return 0.0 if "refused" in one else 100 * (one["accuracy"] - scores["majority"]["accuracy"])

    sets.sort(key=lambda each: gain(each[1]["scores"], "auto"))
    figure, axis = plt.subplots(figsize=(8, 0.26 * len(sets) + 1), layout="constrained")
    for at, (half, one) in enumerate(sets):
        for name, color in (("snorkel", GRAY), ("hyper", ORANGE), ("auto", BLUE)):
            value = float(np.clip(gain(one["scores"], name), -25, 25))
            fill = color if half == "frozen half" else "none"
            axis.plot(value, at, "o", color=color, markerfacecolor=fill, markersize=6)
    axis.axvline(0, color=GRAY, linewidth=1)
    axis.set_yticks(range(len(sets)), [one["name"] for _, one in sets], fontsize=9)
    axis.set_xlabel("points of accuracy above majority vote, cut at ±25", color=GRAY, fontsize=9)
    for name, color in (("LabelModel()", BLUE), ("hyper label model", ORANGE), ("Snorkel", GRAY)):
        axis.plot([], [], "o", color=color, label=name)
    axis.legend(frameon=False, labelcolor=GRAY, fontsize=9, loc="lower right")
    plain(axis)
    save(figure, "quality-gains")
    plt.close(figure)


def draw_gold() -> None:
    """Draw the mean accuracy by the number of gold labels."""
    halves = of_both_halves("gold")
    figure, axes = plt.subplots(1, len(halves), figsize=(8, 3), layout="constrained", sharey=True)
    styles = dict(zip(CURVES, ((BLUE, "-"), (ORANGE, "-"), (GRAY, "-"), (ORANGE, ":")), strict=True))
    for axis, (half, found) in zip(np.atleast_1d(axes), halves.items(), strict=True):
        # Only datasets with enough items for all numbers, so that a curve is about the same datasets.
        common = set.intersection(*(set(datasets) for datasets in found["scores"].values()))
        numbers = sorted(map(int, found["scores"]))
        for name, (color, line) in styles.items():
            means = [
                100 * np.mean([found["scores"][str(n)][dataset][name][0] for dataset in sorted(common)])
                for n in numbers
            ]
            axis.plot(numbers, means, line, color=color, label=name)
        axis.set_title(f"{half}, {len(common)} datasets", color=GRAY, fontsize=10)
        axis.set_xlabel("gold labels", color=GRAY, fontsize=9)
        axis.set_xticks(numbers)
        plain(axis)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("accuracy, %", color=GRAY, fontsize=9)
    first.legend(frameon=False, labelcolor=GRAY, fontsize=9, loc="lower right")
    save(figure, "quality-gold")
    plt.close(figure)


if __name__ == "__main__":
    draw_gains()
    draw_gold()
