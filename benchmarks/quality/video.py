"""Claim: the table shows what a chain of frames gains over single frames on real data, losses included.

Run ``python -m benchmarks.quality.video``; ``--save`` writes docs/quality/video.md and the results file.
Reads the directory named by FLYINGSQUID_DATA. The train split is fitted, the test split scored; gold
labels are used only for the class balance of the valid split, in columns that name it. One dataset is in the
frozen half (docs/quality/halves.md): it is reported, and nothing is chosen by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import save, save_parser
from benchmarks.paper.data import CHAINS, in_clips
from benchmarks.quality.data_directory import data_directory, find
from benchmarks.quality.scores import add_one_shares, cell, scores_of

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "video.md"
NAMES = ("tennis", "commercial", "basketball")
SHORT = 3
METRICS = ("accuracy", "f1", "log_loss")
Codes = NDArray[np.int8]
Array = NDArray[np.float64]


class Video(NamedTuple):
    """Frames in order. Where one video ends and the next begins is not known."""

    name: str
    train: Codes
    test: Codes
    y: Codes
    balances: dict[str, Array]
    """Class balances that models are given: a uniform one, and that of the valid split."""


def load(folder: Path, name: str) -> Video:
    path = find(folder, name)
    with np.load(path) as data:
        valid = data["Y_valid"]
        known = np.bincount(valid[valid >= 0], minlength=2)
        balances = {"uniform balance": np.array([0.5, 0.5]), "balance of valid": known / known.sum()}
        return Video(name, data["L_train"], data["L_test"], data["Y_test"], balances)


def covering_clips(frames: Codes, length: int) -> tuple[Codes, NDArray[np.intp]]:
    """Return clips with every frame (the last one overlaps), and the position of each frame in them."""
    starts = np.arange(0, len(frames), length)
    starts[-1] = len(frames) - length
    rows = starts[:, None] + np.arange(length)
    at = np.empty(len(frames), np.intp)
    at[rows.ravel()] = np.arange(rows.size)
    return frames[rows], at


# ---------------------------------------------------------------------- methods

Method: TypeAlias = Callable[[Video, Array], Array]
"""P(class 1) of every test frame, for a class balance."""


def majority(video: Video, balance: Array) -> Array:  # noqa: ARG001
    return add_one_shares(video.test)[:, 1]


def single_frames(method: Any) -> Method:
    def label(video: Video, balance: Array) -> Array:
        model = fs.LabelModel(method=method, class_balance=balance).fit(video.train)
        return np.asarray(model.predict_proba(video.test)[:, 1])

    return label


def chain(method: Any, *, short: bool = False, temper: Any = None) -> Method:
    def label(video: Video, balance: Array) -> Array:
        length = SHORT if short else CHAINS[video.name]
        graph = fs.DependencyGraph.chain(length, video.train.shape[1])
        model = fs.LabelModel(graph, method=method, class_balance=balance, temper=temper)
        model.fit(in_clips(video.train, length))
        clips, at = covering_clips(video.test, length)
        return np.asarray(model.predict_proba(clips).reshape(-1, 2)[at, 1])

    return label


def one_sequence(method: Any, *, temper: Any = None) -> Method:
    def label(video: Video, balance: Array) -> Array:
        model = fs.SequenceLabelModel(method=method, class_balance=balance, temper=temper).fit(video.train)
        return np.asarray(model.predict_proba(video.test)[:, 1])

    return label


METHODS: dict[str, Method] = {
    "majority vote": majority,
    "single frames": single_frames("triplet"),
    "chain of 3": chain("triplet", short=True),
    "chain of D": chain("triplet"),
    "one sequence": one_sequence("triplet"),
    "chain of D, tempered": chain("triplet", temper="auto"),
    "one sequence, tempered": one_sequence("triplet", temper="auto"),
    "single frames, default": single_frames("auto"),
    "one sequence, default": one_sequence("auto", temper="auto"),
    "single frames, covariance": single_frames("covariance"),
    "chain of 3, covariance": chain("covariance", short=True),
    "chain of D, covariance": chain("covariance"),
    "one sequence, covariance": one_sequence("covariance"),
}
# Each method of several frames, and the one of single frames that it is to beat.
BESIDE = {
    name: next((f"single frames{of}" for of in (", covariance", ", default") if of in name), "single frames")
    for name in METHODS
    if name.startswith(("chain", "one"))
}


def measure(video: Video) -> dict[str, dict[str, dict[str, float] | str]]:
    """For every balance and method its scores, or the reason why it refused."""
    results: dict[str, dict[str, dict[str, float] | str]] = {}
    known = video.y >= 0
    for words, balance in video.balances.items():
        results[words] = {}
        for name, label in METHODS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
                try:
                    p = label(video, balance)[known]
                except fs.exceptions.NotIdentifiableError as error:
                    results[words][name] = str(error)
                    continue
            y = video.y[known]
            values = scores_of(np.stack([1 - p, p], axis=1), y)
            results[words][name] = {metric: round(value, 6) for metric, value in values.items()}
    return results


# ---------------------------------------------------------------------- the page

INTRODUCTION = """\
# Chains of frames on real video

This page compares models of chains and sequences with models of single frames. The train split is fitted
without gold labels, and the test split is scored. Every model is given a class balance: a uniform one,
or that of the valid split.

Written by `python -m benchmarks.quality.video --save` ([script](../../benchmarks/quality/video.py),
[results](../../benchmarks/results/video.json)). Every cell has the form

    accuracy in % / F1 of class 1 in % / log loss in nats

*Chain of D* divides the frames into clips of the paper's length ({lengths}) with the same sources on
every frame, *chain of 3* into clips of three. *One sequence* is `SequenceLabelModel` on all frames in
order; the ends of videos are not known. *Tempered* is `temper="auto"`; without it, methods other than the
default are fitted with `temper=None`. Ties get the expected score of a random choice. Probabilities are
clipped to [0.0001, 0.9999]. `commercial` belongs to the [frozen half](halves.md), so nothing was chosen
by looking at it.
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    lengths = ", ".join(f"{CHAINS[name]} for {name}" for name in NAMES)
    columns = [(name, words) for name, by_balance in results.items() for words in by_balance]
    lines = [INTRODUCTION.format(lengths=lengths)]
    lines.append(f"| | {' | '.join(f'`{name}`, {words}' for name, words in columns)} |")
    lines.append(f"|---|{'---|' * len(columns)}")
    for method in METHODS:
        cells = [cell(results[name][words][method]) for name, words in columns]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "## Difference from the same method on single frames", "", *lines[1:3]]
    for method, other in BESIDE.items():
        cells = [_gain(results[name][words][method], results[name][words][other]) for name, words in columns]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _gain(ours: dict[str, float] | str, alone: dict[str, float] | str) -> str:
    """Return the differences in accuracy, F1 and log loss."""
    if isinstance(ours, str) or isinstance(alone, str):
        return "refused"
    points = [f"{100 * (ours[metric] - alone[metric]):+.1f}" for metric in ("accuracy", "f1")]
    return " / ".join([*points, f"{ours['log_loss'] - alone['log_loss']:+.3f}"])


def main() -> None:
    arguments = save_parser("Compare chains of frames with single frames on real votes.").parse_args()
    folder = data_directory()
    results = {name: measure(load(folder, name)) for name in NAMES}
    page = render(results)
    print(page)
    if arguments.save:
        PAGE.write_text(page, encoding="utf-8")
        print(f"saved to {save('video', results).name} and {PAGE.name}")


if __name__ == "__main__":
    main()
