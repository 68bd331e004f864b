"""Fit and labels compared with other label models: the same votes, alternating rounds, with accuracy.

The other side lives in its own environment and process, and reads the votes from a file, which is not part
of its time. Snorkel: ``make peers``. The authors' code of 2020: a checkout and a Python that the user has.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import ratio, rest, steady
from benchmarks.quality.peers import interpreter
from benchmarks.scale.made import Made, make
from benchmarks.scale.one_machine import fit, labels
from benchmarks.scale.rounds import OtherProcess

HERE = Path(__file__).parent
# Items and sources, and what part of Snorkel's time each of ours may take.
SIZES: dict[tuple[int, int], dict[str, float]] = {
    (100_000, 10): {"numpy": 1 / 30, "fast": 1 / 30, "auto": 1 / 10},
    (1_000_000, 10): {"numpy": 1 / 30, "fast": 1 / 30, "auto": 1 / 10},
    (100_000, 100): {"numpy": 1 / 15, "fast": 1 / 100, "auto": 1 / 10},
}
REFERENCE_SIZES = ((10_000, 10), (1_000_000, 10))
REFERENCE_GOAL = 1 / 1_000
OURS = {
    "numpy": ("numpy", "triplet"),
    "fast": ("fast", "triplet"),
    "auto": ("fast", "auto"),
}


def accuracy(posterior: NDArray[Any], y: NDArray[Any]) -> float:
    return round(float(np.mean(posterior.argmax(axis=1) == y)), 4)


def _fit_and_label(votes: NDArray[np.int8], which: str, method: str) -> Any:
    return labels(fit(votes, which, method), votes, which)


def compare(
    other: OtherProcess, made: Made, for_other: NDArray[Any], goals: dict[str, float], repeats: int
) -> dict[str, Any]:
    """Seconds of all in alternating rounds, as ratios to the other's, and the accuracy of all."""
    seconds: dict[str, list[float]] = {name: [] for name in (*goals, "other")}
    right: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        source, target = Path(folder) / "votes.npy", Path(folder) / "labels.npy"
        np.save(source, for_other)
        for _ in range(repeats + 1):
            for name in goals:
                which, method = OURS[name]
                rest()
                took, answer = steady(partial(_fit_and_label, made.votes, which, method))
                seconds[name].append(took)
                right[name] = accuracy(answer, made.y)
            rest()
            seconds["other"].append(sum(other.seconds(source, target)))
        theirs = np.load(target)
    warm = {name: times[1:] for name, times in seconds.items()}  # the first round warms up
    flat = theirs if theirs.ndim == 2 else np.column_stack([1 - theirs, theirs])
    return {
        **{
            name: {**ratio(warm, name, "other"), "goal": goals[name], "accuracy": right[name]}
            for name in goals
        },
        "other_accuracy": accuracy(flat, made.y),
    }


def compare_with_snorkel(
    threads: int, sizes: Sequence[tuple[int, int]] = tuple(SIZES), repeats: int = 7
) -> Any:
    """Return results by size, or None if the environment of Snorkel does not exist."""
    python = interpreter()
    if python is None:
        return None
    results = []
    with OtherProcess([str(python), str(HERE / "snorkel_rounds.py")], threads) as other:
        for n, m in sizes:
            made = make(n, m)
            goals = SIZES.get((n, m), dict.fromkeys(OURS, 1.0))
            results.append({"n": n, "m": m, **compare(other, made, made.votes, goals, repeats)})
    return results


def compare_with_reference(
    checkout: Path,
    python: str,
    threads: int,
    sizes: Sequence[tuple[int, int]] = REFERENCE_SIZES,
    repeats: int = 1,
) -> list[dict[str, Any]]:
    """The authors' code of 2020 from a checkout, by the Python that it runs in."""
    results = []
    command = [python, str(HERE / "reference_rounds.py"), str(checkout)]
    with OtherProcess(command, threads) as other:
        for n, m in sizes:
            made = make(n, m)
            # No vote is 0 there, and the classes are -1 and +1.
            signed = np.where(made.votes < 0, 0, 2 * made.votes - 1).astype(np.int8)
            goals = dict.fromkeys(OURS, REFERENCE_GOAL)
            results.append({"n": n, "m": m, **compare(other, made, signed, goals, repeats)})
    return results
