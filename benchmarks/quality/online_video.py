"""Claim: the table shows what one pass over real frames loses compared with a fit on all of them.

Run ``python -m benchmarks.quality.online_video``; ``--save`` writes docs/quality/online.md and the results
file. Reads the directory named by FLYINGSQUID_DATA. The frames of the train split, in order, are one stream;
every frame is labeled when it comes, and scored where its class is known. Every model is told an even
class balance; no gold label is used. ``commercial`` is of the frozen half (docs/quality/halves.md): it is
reported, and nothing is chosen by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import save, save_parser
from benchmarks.quality.data_directory import data_directory, find
from benchmarks.quality.scores import add_one_shares, cell, scores_of

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "online.md"
SETS = ("basketball", "tennis", "commercial")
CHUNK = 100
Codes = NDArray[np.int8]
Array = NDArray[np.float64]
Way = Callable[[Codes], Array]


def load(folder: Path, name: str) -> tuple[Codes, Codes]:
    """Votes and classes of the frames in order."""
    with np.load(find(folder, name)) as data:
        return data["L_train"], data["Y_train"]


def offline(method: Any) -> Way:
    def label(votes: Codes) -> Array:
        model = fs.LabelModel(method=method, class_balance="uniform").fit(votes)
        return model.predict_proba(votes)

    return label


def online(method: Any, **options: Any) -> Way:
    def label(votes: Codes) -> Array:
        model = fs.OnlineLabelModel(**options, method=method, class_balance="uniform", n_classes=2)
        chunks = (votes[start : start + CHUNK] for start in range(0, len(votes), CHUNK))
        return np.concatenate([model.update(chunk) for chunk in chunks])

    return label


WAYS: dict[str, Way] = {"majority vote": add_one_shares}
for _method in ("weighted", "triplet", "agreement"):
    WAYS[f"offline, {_method}"] = offline(_method)
    WAYS[f"online, {_method}, window 10,000"] = online(_method)
    WAYS[f"online, {_method}, window 2,000"] = online(_method, window=2_000)
    WAYS[f"online, {_method}, auto"] = online(_method, window="auto")


def measure(votes: Codes, y: Codes) -> dict[str, dict[str, float] | str]:
    """The scores of every way, or why it refused."""
    results: dict[str, dict[str, float] | str] = {}
    known = y >= 0
    for name, label in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
            try:
                posterior = label(votes)[known]
            except fs.exceptions.NotIdentifiableError as error:
                results[name] = str(error)
                continue
        results[name] = {metric: round(value, 6) for metric, value in scores_of(posterior, y[known]).items()}
    return results


INTRODUCTION = """\
# Streams of real video frames

This page shows how much a single pass over a stream loses compared with a fit to all frames. The frames
of the train split, in order, are one stream. Every frame is labeled once when it arrives, in chunks of
{chunk}, with parameters from the frames before it and its own chunk. *Offline* is one fit to all frames,
which are then labeled. No gold labels are used, and every model is given a uniform class balance.

Written by `python -m benchmarks.quality.online_video --save`
([script](../../benchmarks/quality/online_video.py),
[results](../../benchmarks/results/online_video.json)). Every cell has the form

    accuracy in % / F1 of class 1 in % / log loss in nats

`commercial` belongs to the [frozen half](halves.md), so nothing was chosen by looking at it.
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    lines = [INTRODUCTION.format(chunk=CHUNK)]
    heads = [f"`{name}`, {r['frames']:,} frames" for name, r in results.items()]
    lines.append(f"| | {' | '.join(heads)} |")
    lines.append(f"|---|{'---|' * len(results)}")
    for way in WAYS:
        cells = [cell(r["scores"][way]) for r in results.values()]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    arguments = save_parser("Compare single passes over real frames with fits to all of them.").parse_args()
    folder, results = data_directory(), dict[str, dict[str, Any]]()
    for name in SETS:
        votes, y = load(folder, name)
        results[name] = {"frames": len(votes), "known": int((y >= 0).sum()), "scores": measure(votes, y)}
    page = render(results)
    print(page)
    if arguments.save:
        PAGE.write_text(page, encoding="utf-8")
        print(f"saved to {save('online_video', results).name} and {PAGE.name}")


if __name__ == "__main__":
    main()
