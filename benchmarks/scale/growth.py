"""Growth of time with items, sources, classes and tasks; counts, the solver and labels separately."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import flyingsquid as fs
from benchmarks.harness import in_a_fresh_process, peak_resident_megabytes
from benchmarks.scale.made import make

CURVES: dict[str, list[int]] = {
    "n": [10_000, 100_000, 1_000_000, 10_000_000],
    "m": [30, 100, 300, 1_000, 3_000],
    "K": [2, 4, 8, 16, 32],
    "D": [4, 8, 16, 32, 64],
}
QUICK = {"n": [1_000, 4_000], "m": [10, 20], "K": [2, 3], "D": [2, 3]}
ITEMS = 100_000
STEPS = ("count", "solve", "label")
MOST = {"m": 2.3}  # of counting; the solver may take m^3


def point(axis: str, value: int, items: int = ITEMS) -> dict[str, Any]:
    """Seconds of each step, the best of a few, and the peak of this process in megabytes."""
    graph = None
    method = "triplet"
    if axis == "n":
        votes: Any = make(value, 10).votes
    elif axis == "m":
        votes = make(items, value).votes
    elif axis == "K":
        votes, method = fs.Votes.from_classes(make(items, 10, value).votes, classes=range(value)), "agreement"
    else:
        graph = fs.DependencyGraph.chain(value, 3)
        few = max(2_000, items // 10)
        votes = fs.datasets.simulate_graph(few, graph, 0.75, random_state=0).votes
    best = dict.fromkeys(STEPS, np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        for _ in range(3):
            start = time.perf_counter()
            moments = fs.Moments.of(votes, graph)
            counted = time.perf_counter()
            model = fs.LabelModel(graph, method=method).fit_moments(moments)  # type: ignore[arg-type]
            solved = time.perf_counter()
            model.predict_proba(votes)
            took = (counted - start, solved - counted, time.perf_counter() - solved)
            best = {step: min(best[step], one) for step, one in zip(STEPS, took, strict=True)}
    peak = peak_resident_megabytes()
    return {"at": value, **{step: round(best[step], 6) for step in STEPS}, "peak_mb": round(peak)}


def exponent(at: list[int], seconds: list[float]) -> float:
    """The slope of log time against log size, over the upper half of the points, at least two."""
    keep = max(2, (len(at) + 1) // 2)
    return round(float(np.polyfit(np.log(at[-keep:]), np.log(seconds[-keep:]), 1)[0]), 2)


def curves(*, quick: bool = False) -> dict[str, Any]:
    """Every point in a process of its own, so that memory is its own too."""
    results: dict[str, Any] = {}
    for axis, values in (QUICK if quick else CURVES).items():
        items = 1_000 if quick else ITEMS
        points = [in_a_fresh_process("benchmarks.scale", "--point", axis, value, items) for value in values]
        exponents = {step: exponent(values, [p[step] for p in points]) for step in STEPS}
        results[axis] = {"points": points, "exponents": exponents, "goal": MOST.get(axis)}
    return results
