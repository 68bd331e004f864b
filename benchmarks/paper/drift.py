"""Claim: without drift an online window costs nothing; under periodic drift it wins; its length finds itself.

The paper's figure on drift, on synthetic votes: ten sources, 60,000 items. *Offline* is one fit on all
votes, which then labels them, the paper's comparison; *online* learns each chunk and labels it, in one
pass. Every kind of drift runs with fixed windows, with ``window="auto"``, and with an oracle that is told
the accuracies at every item. Run ``python -m benchmarks.paper.drift``; ``--save`` writes the results file
and the picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import save

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "drift.svg"
ITEMS, CHUNK, COVERAGE, SEEDS = 60_000, 250, 0.8, (0, 1, 2)
WINDOWS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
METHOD: Any = "triplet_mean"
BEFORE = np.array([0.9, 0.85, 0.8, 0.6, 0.55, 0.6, 0.7, 0.65, 0.6, 0.58])
AFTER = np.array([0.55, 0.6, 0.58, 0.9, 0.85, 0.8, 0.62, 0.7, 0.65, 0.6])
# A source that breaks is worse than a coin: then what is known of its past does harm.
BROKEN = np.array([0.1, 0.15, 0.2, 0.9, 0.85, 0.8, 0.62, 0.7, 0.65, 0.8])
# Name: accuracies at the two ends, and how to get from one to the other.
DRIFTS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none", "after": AFTER},
    "limited": {"kind": "gradual", "after": BEFORE + 0.05 * np.sign(AFTER - BEFORE)},
    "gradual": {"kind": "gradual", "after": AFTER},
    "sudden": {"kind": "sudden", "after": AFTER},
    "periodic": {"kind": "periodic", "after": AFTER, "period": 12_000},
    "large periodic": {"kind": "periodic", "after": BROKEN, "period": 20_000},
}
Right = NDArray[np.bool_]


def stream_of(name: str, seed: int) -> fs.datasets.DriftSimulation:
    options = DRIFTS[name]
    rng = np.random.default_rng(seed)
    return fs.datasets.simulate_drift(ITEMS, BEFORE, coverage=COVERAGE, rng=rng, **options)


def online(stream: fs.datasets.DriftSimulation, window: Any) -> tuple[Right, list[float]]:
    """Which items are labelled right, and the window after every chunk."""
    model = fs.OnlineLabelModel(window, method=METHOD, refresh=CHUNK)
    codes, right, windows = np.asarray(stream.votes.codes), [], []
    for start in range(0, ITEMS, CHUNK):
        labels = model.update(codes[start : start + CHUNK])
        right.append((labels[:, 1] > 0.5) == stream.y[start : start + CHUNK])
        windows.append(float(model.window_))
    return np.concatenate(right), windows


def offline(stream: fs.datasets.DriftSimulation) -> Right:
    model = fs.LabelModel(method=METHOD).fit(stream.votes)
    return np.asarray(model.predict(stream.votes) == stream.y)


def oracle(stream: fs.datasets.DriftSimulation) -> Right:
    """Naive Bayes with the true accuracies of every item."""
    codes, q = np.asarray(stream.votes.codes), stream.accuracies
    odds = np.log(q / (1 - q))
    evidence = np.where(codes < 0, 0, np.where(codes == 1, odds, -odds)).sum(axis=1)
    return np.asarray((evidence > 0) == stream.y)


def measure(name: str) -> dict[str, Any]:
    """Mean accuracy of every way, and the window of its own choice over time."""
    scores: dict[str, list[float]] = {}
    curves: dict[str, Any] = {}
    shrunk = []
    for seed in SEEDS:
        stream = stream_of(name, seed)
        ways: dict[str, Right] = {"offline": offline(stream), "oracle": oracle(stream)}
        for window in WINDOWS:
            ways[f"window {window:,}"] = online(stream, window)[0]
        ways["auto"], windows = online(stream, "auto")
        for way, right in ways.items():
            scores.setdefault(way, []).append(float(right.mean()))
        after = windows[ITEMS // 2 // CHUNK : (ITEMS // 2 + 4_000) // CHUNK]
        shrunk.append(next((CHUNK * (at + 1) for at, w in enumerate(after) if w <= 2_000), None))
        if seed == SEEDS[0]:
            best = max(WINDOWS, key=lambda w: scores[f"window {w:,}"][0])
            shown = {"offline": "offline", "best": f"window {best:,}", "auto": "auto", "oracle": "oracle"}
            curves = {
                label: ways[way].reshape(-1, 1_000).mean(axis=1).tolist() for label, way in shown.items()
            }
            curves["window"] = windows[3::4]
    means = {way: round(100 * float(np.mean(values)), 2) for way, values in scores.items()}
    fixed = max(means[f"window {window:,}"] for window in WINDOWS)
    result = {
        "accuracy": means,
        "auto_beside_best_window": round(means["auto"] - fixed, 2),
        "auto_beside_offline": round(means["auto"] - means["offline"], 2),
        "best_window_beside_offline": round(fixed - means["offline"], 2),
        "curves": {label: [round(value, 4) for value in values] for label, values in curves.items()},
    }
    if name == "sudden":
        result["items_until_window_is_below_2000"] = shrunk
    return result


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"accuracy in %, {ITEMS:,} items, mean of {len(SEEDS)} streams", header_style="bold")
    ways = list(next(iter(results.values()))["accuracy"])
    for column in ("drift", *ways, "auto - best", "auto - offline"):
        table.add_column(column, justify="right")
    for name, r in results.items():
        cells = [f"{r['accuracy'][way]:.1f}" for way in ways]
        table.add_row(
            name, *cells, f"{r['auto_beside_best_window']:+.2f}", f"{r['auto_beside_offline']:+.2f}"
        )
    console.print(table)
    shrunk = results["sudden"]["items_until_window_is_below_2000"]
    console.print(f"after the sudden change the window is at most 2,000 within {shrunk} items")


def draw(results: dict[str, Any]) -> Path:
    """Accuracy over time for each kind of drift, and the window below."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "flyingsquid", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    colours = {"offline": "#c2410c", "best": "#9aa3ad", "auto": "#2563a8", "oracle": "#222222"}
    labels = {"best": "best fixed window", "auto": 'window="auto"'}
    figure, axes = plt.subplots(
        2, len(results), figsize=(15, 4), sharex=True, layout="constrained", height_ratios=(3, 1)
    )
    for column, (name, r) in enumerate(results.items()):
        top, bottom = axes[:, column]
        at = 1_000 * np.arange(1, len(r["curves"]["auto"]) + 1)
        for way, colour in colours.items():
            style = ":" if way == "oracle" else "-"
            top.plot(at, r["curves"][way], style, color=colour, linewidth=1.2, label=labels.get(way, way))
        bottom.plot(at, r["curves"]["window"], color=colours["auto"], linewidth=1)
        top.set_title(name, loc="left", fontsize=10)
        top.set_ylim(0.5, 1)
        for axis in (top, bottom):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("accuracy of labels")
    axes[1, 0].set_ylabel("window")
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.supxlabel("items seen", fontsize=9)
    figure.savefig(PICTURE, metadata={"Date": None})
    return PICTURE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write the results file and the picture")
    arguments = parser.parse_args()
    console = Console(width=200)
    results = {name: measure(name) for name in DRIFTS}
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('drift', results).name} and {draw(results).name}")


if __name__ == "__main__":
    main()
