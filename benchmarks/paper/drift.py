"""Figure on drift: without drift an online window costs little; under large periodic drift it is better.

Synthetic votes: ten sources, 60,000 items. *Offline* is one fit on all votes, which then labels them, as in
the paper; *online* updates the model with each chunk and labels it, in one pass. Every kind of drift runs
with fixed windows, with ``window="auto"``, and with an oracle that uses the true accuracies of every item.
Real drift: the frames of videos in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.artifact import BLACK, BLUE, GRAY, RED, Artifact, Outcome, Setting, percent, table
from benchmarks.paper.data import CHAINS, Array, Codes, available, load
from benchmarks.quality.scores import add_one_shares, f1
from flyingsquid.datasets import Simulation, simulate_drift
from flyingsquid.models import LabelModel, OnlineLabelModel

ITEMS, CHUNK, COVERAGE, SEEDS = 60_000, 250, 0.8, (0, 1, 2)
WINDOWS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
METHOD: Any = "triplet"
BEFORE = np.array([0.9, 0.85, 0.8, 0.6, 0.55, 0.6, 0.7, 0.65, 0.6, 0.58])
AFTER = np.array([0.55, 0.6, 0.58, 0.9, 0.85, 0.8, 0.62, 0.7, 0.65, 0.6])
# Sources that break are worse than chance: estimates from their past are harmful.
BROKEN = np.array([0.1, 0.15, 0.2, 0.9, 0.85, 0.8, 0.62, 0.7, 0.65, 0.8])
# Options of simulate_drift by kind of drift; all of them start at BEFORE.
DRIFTS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none", "after": AFTER},
    "limited": {"kind": "gradual", "after": BEFORE + 0.05 * np.sign(AFTER - BEFORE)},
    "gradual": {"kind": "gradual", "after": AFTER},
    "sudden": {"kind": "sudden", "after": AFTER},
    "periodic": {"kind": "periodic", "after": AFTER, "period": 12_000},
    "large periodic": {"kind": "periodic", "after": BROKEN, "period": 20_000},
}
Right = NDArray[np.bool_]


def stream_of(name: str, seed: int) -> Simulation:
    """Simulate one stream with a kind of drift."""
    rng = np.random.default_rng(seed)
    return simulate_drift(ITEMS, BEFORE, coverage=COVERAGE, random_state=rng, **DRIFTS[name])


def online(stream: Simulation, window: Any, method: Any = METHOD) -> tuple[Right, list[float]]:
    """Return which items are labeled correctly, and the window after every chunk."""
    model = OnlineLabelModel(window, method=method, refresh=CHUNK)
    codes, right, windows = np.asarray(stream.votes.codes), [], []
    for start in range(0, ITEMS, CHUNK):
        labels = model.update(codes[start : start + CHUNK])
        right.append((labels[:, 1] > 0.5) == stream.y[start : start + CHUNK])
        windows.append(float(model.window_))
    return np.concatenate(right), windows


def offline(stream: Simulation) -> Right:
    """Return which items are labeled correctly by one fit on all of them."""
    model = LabelModel(method=METHOD).fit(stream.votes)
    return np.asarray(model.predict(stream.votes) == stream.y)


def oracle(stream: Simulation) -> Right:
    """Return which items are labeled correctly by naive Bayes with the true accuracies of every item."""
    codes, q = np.asarray(stream.votes.codes), stream.accuracies
    odds = np.log(q / (1 - q))
    evidence = np.where(codes < 0, 0, np.where(codes == 1, odds, -odds)).sum(axis=1)
    return np.asarray((evidence > 0) == stream.y)


def measure(setting: Setting) -> Outcome:
    """Measure every kind of drift, and the videos that are found."""
    kinds = ("none", "sudden") if setting.quick else tuple(DRIFTS)
    simulated = {name: _measure(name, SEEDS[:1] if setting.quick else SEEDS) for name in kinds}
    real = {}
    if setting.data is not None:
        for name in available(setting.data, CHAINS):
            dataset = load(setting.data, name)
            splits = (dataset.train, dataset.test)
            votes, y = (
                np.concatenate([getattr(split, which) for split in splits]) for which in ("votes", "y")
            )
            n = 2_000 if setting.quick else len(votes)
            real[name] = _measure_frames(votes[:n], y[:n])
    return Outcome({"simulated": simulated, "real": real})


def _measure_frames(votes: Codes, y: Codes) -> dict[str, float]:
    """Return F1 of the default on frames in their order, which are labeled as they arrive."""
    known = y >= 0
    labeled: dict[str, Array] = {"majority vote": add_one_shares(votes)}
    labeled["offline"] = np.asarray(LabelModel().fit(votes).predict_proba(votes))
    for window in (1_000, 4_000, 16_000, "auto"):
        model = OnlineLabelModel(window, n_classes=2, refresh=CHUNK)
        parts = [model.update(votes[start : start + CHUNK]) for start in range(0, len(votes), CHUNK)]
        labeled["window chosen" if window == "auto" else f"window {window:,}"] = np.concatenate(parts)
    return {name: round(f1(proba[known], y[known]), 4) for name, proba in labeled.items()}


def _measure(name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return the mean accuracy of every labeler, and the automatic window over time."""
    scores: dict[str, list[float]] = {}
    curves: dict[str, Any] = {}
    shrunk = []
    for seed in seeds:
        stream = stream_of(name, seed)
        labeled: dict[str, Right] = {"offline": offline(stream), "oracle": oracle(stream)}
        for window in WINDOWS:
            labeled[f"window {window:,}"] = online(stream, window)[0]
        labeled["auto"], windows = online(stream, "auto")
        labeled["auto, default method"] = online(stream, "auto", "auto")[0]
        for labeler, right in labeled.items():
            scores.setdefault(labeler, []).append(float(right.mean()))
        after = windows[ITEMS // 2 // CHUNK : (ITEMS // 2 + 4_000) // CHUNK]
        shrunk.append(next((CHUNK * (at + 1) for at, w in enumerate(after) if w <= 2_000), None))
        if seed == seeds[0]:
            best = max(WINDOWS, key=lambda w: scores[f"window {w:,}"][0])
            shown = {"offline": "offline", "best": f"window {best:,}", "auto": "auto", "oracle": "oracle"}
            curves = {
                label: labeled[labeler].reshape(-1, 1_000).mean(axis=1).tolist()
                for label, labeler in shown.items()
            }
            curves["window"] = windows[3::4]
    means = {labeler: round(100 * float(np.mean(values)), 2) for labeler, values in scores.items()}
    fixed = max(means[f"window {window:,}"] for window in WINDOWS)
    result = {
        "accuracy": means,
        "auto_minus_best_window": round(means["auto"] - fixed, 2),
        "auto_minus_offline": round(means["auto"] - means["offline"], 2),
        "best_window_minus_offline": round(fixed - means["offline"], 2),
        "curves": {label: [round(value, 4) for value in values] for label, values in curves.items()},
    }
    if name == "sudden":
        result["items_until_window_is_below_2000"] = shrunk
    return result


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
    simulated, real = results["simulated"], results["real"]
    labelers = list(next(iter(simulated.values()))["accuracy"])
    rows = [
        [
            name,
            *(f"{r['accuracy'][labeler]:.1f}" for labeler in labelers),
            f"{r['auto_minus_best_window']:+.1f}",
            f"{r['auto_minus_offline']:+.1f}",
        ]
        for name, r in simulated.items()
    ]
    shrunk = ", ".join(str(each) for each in simulated["sudden"]["items_until_window_is_below_2000"])
    page = f"""\
## Simulated drift

The table shows the accuracy of labels in %, as the mean over simulated streams of {ITEMS:,} items with ten
sources. *Offline* is one fit to all votes; a window labels every chunk as it arrives. *Oracle* uses the true
accuracies of every item. The method is the mean over triplets, except for *default method*.

{table(["drift", *labelers, "auto - best window", "auto - offline"], rows)}

As in the paper, offline is as good or better with no or limited drift, and the window is better under large
periodic drift. The paper gives no numbers or sizes for its figure. After the sudden change, the automatic
window shrinks to at most 2,000 items; in the simulated streams this takes {shrunk} items.
"""
    if not real:
        return page
    columns = list(next(iter(real.values())))
    frames = [[f"`{name}`", *(percent(row[column]) for column in columns)] for name, row in real.items()]
    return f"""\
{page}
## Real frames

The table shows the F1 of class 1 in % on the frames of the train and test splits in their order, labeled by
the default method without gold labels.

{table(["task", *columns], frames)}
"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw accuracy over time for each kind of simulated drift, with the window below."""
    results = results["simulated"]
    colors = {"offline": RED, "best": GRAY, "auto": BLUE, "oracle": BLACK}
    labels = {"best": "best fixed window", "auto": 'window="auto"'}
    axes = figure.subplots(2, len(results), sharex=True, height_ratios=(3, 1), squeeze=False)
    for column, (name, r) in enumerate(results.items()):
        top, bottom = axes[:, column]
        at = 1_000 * np.arange(1, len(r["curves"]["auto"]) + 1)
        for labeler, color in colors.items():
            style = ":" if labeler == "oracle" else "-"
            top.plot(
                at,
                r["curves"][labeler],
                style,
                color=color,
                linewidth=1.2,
                label=labels.get(labeler, labeler),
            )
        bottom.plot(at, r["curves"]["window"], color=BLUE, linewidth=1)
        top.set_title(name, loc="left", fontsize=10)
        top.set_ylim(0.5, 1)
    axes[0, 0].set_ylabel("accuracy of labels")
    axes[1, 0].set_ylabel("window")
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("items seen", fontsize=9)


ARTIFACT = Artifact(
    "drift", "Figure: drift over time", tuple(CHAINS), measure, render, draw, (15, 4), needs_data=False
)
