"""Counting and labeling compared with the time that NumPy needs to read or multiply the same votes.

Baselines, a round at a time: for fit the float32 Gram product of the one-hot votes, for labels ``L.sum(1)``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.bench_label_model import one_hot_gram
from benchmarks.harness import alternate, in_a_fresh_process, peak_resident_megabytes, ratio
from benchmarks.scale.made import make

SWITCH = {"fast": "1", "numpy": "0"}
GOALS = {"fast": {"fit": 0.4, "predict_proba": 1.2}, "numpy": {"fit": 1.1, "predict_proba": 2.0}}
LARGE_GOAL, MEMORY_GOAL = 1.0, 500.0
STEPS = ("count", "label")


@contextmanager
def kernels(which: str) -> Iterator[None]:
    """Compiled loops on or off."""
    before = os.environ.get("FLYINGSQUID_FAST")
    os.environ["FLYINGSQUID_FAST"] = SWITCH[which]
    try:
        yield
    finally:
        if before is None:
            del os.environ["FLYINGSQUID_FAST"]
        else:
            os.environ["FLYINGSQUID_FAST"] = before


def fit(votes: NDArray[np.int8], which: str, method: str = "triplet") -> fs.LabelModel:
    with kernels(which):
        return fs.LabelModel(method=method).fit(votes)  # type: ignore[arg-type]


def labels(model: fs.LabelModel, votes: NDArray[np.int8], which: str, dtype: Any = np.float64) -> Any:
    with kernels(which):
        return model.predict_proba(votes, dtype=dtype)


def many_sources(n: int = 1_000_000, m: int = 100, repeats: int = 9) -> dict[str, Any]:
    """Fit and labels of votes that are too wide for a table of patterns, with and without compiled loops."""
    votes = make(n, m).votes
    model = fit(votes, "fast")
    fits = alternate(
        {
            "fast": lambda: fit(votes, "fast"),
            "numpy": lambda: fit(votes, "numpy"),
            "gram": lambda: one_hot_gram(votes),
        },
        repeats=repeats,
    )
    answers = alternate(
        {
            "fast": lambda: labels(model, votes, "fast"),
            "numpy": lambda: labels(model, votes, "numpy"),
            "sum": lambda: votes.sum(1),
        },
        repeats=repeats,
    )
    return {
        "n": n,
        "m": m,
        **{
            which: {
                "fit": {**ratio(fits, which, "gram"), "goal": goals["fit"]},
                "predict_proba": {**ratio(answers, which, "sum"), "goal": goals["predict_proba"]},
            }
            for which, goals in GOALS.items()
        },
    }


def many_items(n: int = 65_000_000, m: int = 3, repeats: int = 5) -> dict[str, Any]:
    """Fit and label very many items in float32, compared with one sum over them; also the memory."""
    votes = make(n, m).votes
    contenders = {
        name: lambda which=which, method=method: labels(fit(votes, which, method), votes, which, np.float32)
        for name, which, method in (
            ("fast", "fast", "triplet"),
            ("numpy", "numpy", "triplet"),
            ("fast, auto", "fast", "auto"),
        )
    }
    seconds = alternate({**contenders, "sum": lambda: votes.sum(1)}, repeats=repeats)
    in_all = {name: {**ratio(seconds, name, "sum"), "goal": LARGE_GOAL} for name in contenders}
    memory = in_a_fresh_process("benchmarks.scale", "--memory-of", n, m)
    return {"n": n, "m": m, **in_all, "memory": {**memory, "goal_mb": MEMORY_GOAL}}


def memory_of(n: int, m: int) -> dict[str, float]:
    """Peak of this process less the votes and the labels, in megabytes."""
    votes = make(n, m).votes
    answer = fit(votes, "fast", "auto").predict_proba(votes, dtype=np.float32)
    peak = peak_resident_megabytes()
    size = (votes.nbytes + answer.nbytes) / 1e6
    return {"peak_mb": round(peak), "votes_and_labels_mb": round(size), "beyond_mb": round(peak - size)}


def throughput(n: int = 20_000_000, m: int = 10, repeats: int = 5) -> dict[str, Any]:
    """Return rows per second of counting and labeling in chunks, from which projections are made."""
    votes = make(n, m).votes
    result: dict[str, Any] = {"n": n, "m": m}
    chunks = fs.VoteChunks(votes, classes=(0, 1))
    model = fs.LabelModel(method="triplet").fit(chunks)
    seconds = alternate(
        {
            (which, step): partial(_pass_over, model, chunks, which, step)
            for which in SWITCH
            for step in STEPS
        },
        repeats=repeats,
    )
    for which in SWITCH:
        # The best round: what the machine can do, which projections start from.
        result[which] = {f"{step}_rows_per_second": round(n / min(seconds[which, step])) for step in STEPS}
    return result


def _pass_over(model: fs.LabelModel, chunks: fs.VoteChunks, which: str, step: str) -> None:
    with kernels(which):
        if step == "count":
            fs.Moments.of(chunks)
            return
        for _ in model.predict_proba(chunks, dtype=np.float32):
            pass
