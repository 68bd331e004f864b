"""Make the pictures of the tutorials: ``python docs/pictures/make_tutorials.py`` (needs matplotlib)."""

from __future__ import annotations

import numpy as np
from drawing import BLUE, GRAY, ORANGE, plain, plt, save

import flyingsquid as fs

# Frames among which the sequence model is certain and wrong for a while.
SHOWN = slice(4_640, 4_940)
RULES = ["links", "sender", "caps", "length", "words"]


def video() -> None:
    """P(bird) frame by frame: alone, with neighbors, with neighbors that count for less."""
    stuck = fs.datasets.simulate_sequence(
        9_000,
        [0.85, 0.75, 0.7, 0.6],
        coverage=[0.9, 0.7, 0.6, 0.6],
        persistence=0.95,
        error_persistence=0.8,
        lengths=[4_000, 3_000, 2_000],
        random_state=0,
    )
    votes, lengths = stuck.votes, stuck.lengths
    ways = {
        "single frames": fs.LabelModel().fit(votes).predict_proba(votes),
        "with neighboring frames": fs.SequenceLabelModel(temper=None)
        .fit(votes, lengths)
        .predict_proba(votes, lengths),
        "the same, tempered": fs.SequenceLabelModel().fit(votes, lengths).predict_proba(votes, lengths),
    }
    at = np.arange(9_000)[SHOWN]
    steps = np.diff(stuck.y[SHOWN], prepend=0, append=0)
    visits = list(zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True))
    figure, axes = plt.subplots(3, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
    for axis, (title, p), color in zip(axes, ways.items(), (ORANGE, BLUE, BLUE), strict=True):
        for begin, end in visits:
            axis.axvspan(at[begin] - 0.5, at[end - 1] + 0.5, color=GRAY, alpha=0.3, linewidth=0)
        axis.plot(at, p[SHOWN, 1], color=color, linewidth=1.3)
        axis.set_title(title, loc="left", fontsize=11, color=GRAY)
        axis.set_yticks([0, 1], ["no bird", "bird"])
        axis.set_ylim(-0.04, 1.04)
        plain(axis)
    axes[-1].set_xlabel("frame; shaded: a bird is there", color=GRAY)
    save(figure, "tutorial-video")


def drift() -> None:
    """Draw the accuracies of the rules over the stream."""
    mails = fs.datasets.simulate_drift(
        24_000,
        [0.9, 0.85, 0.7, 0.65, 0.6],
        [0.4, 0.85, 0.7, 0.65, 0.6],
        coverage=0.8,
        random_state=0,
    )
    online = fs.OnlineLabelModel(window="auto", method="triplet")
    for start in range(0, 24_000, 100):
        online.partial_fit(mails.votes[start : start + 100])
    history = online.history_
    figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for source, name in enumerate(RULES):
        low, high = history.intervals[:, source].T
        color = ORANGE if name == "links" else BLUE
        axis.fill_between(history.positions, low, high, color=color, alpha=0.15, linewidth=0)
        axis.plot(history.positions, history.accuracies[:, source], color=color, linewidth=1.4)
        # Two of them end so near each other that their names would touch.
        apart = 0.012 if name == "caps" else 0
        axis.text(24_300, history.accuracies[-1, source] + apart, name, color=color, va="center")
    axis.axvline(12_000, color=GRAY, linewidth=1, linestyle="--")
    axis.text(12_200, 1.0, "from here on spam has no links", color=GRAY, va="top")
    axis.axhline(0.5, color=GRAY, linewidth=0.6)
    axis.text(24_300, 0.5, "a coin", color=GRAY, va="center", fontsize=9)
    axis.set_ylim(0.33, 1.01)
    axis.set_xlim(0, 24_000)
    axis.set_xticks(range(0, 24_001, 4_000), [f"{seen:,}" for seen in range(0, 24_001, 4_000)])
    axis.set_xlabel("mails seen", color=GRAY)
    axis.set_ylabel("estimated accuracy", color=GRAY)
    plain(axis)
    save(figure, "tutorial-drift")


if __name__ == "__main__":
    video()
    drift()
