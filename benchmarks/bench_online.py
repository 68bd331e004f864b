"""Claim: a stream costs a few times what NumPy needs for its pair counts, regardless of its length.

Baselines, in the same run, a round at a time, for 10 binary sources: for chunks of 1,000 the Gram matrix of
the one-hot votes plus a majority vote; for single items a loop of ``M += np.outer(x, x); x @ w``. Memory is
what is held after 1e5 and after 1e7 items. Run with ``python -m benchmarks.bench_online``; ``--save`` writes
the results file, ``--items`` makes the run over many items shorter.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser

SOURCES, CHUNK, CHUNKS, SINGLES = 10, 1_000, 50, 5_000
REPEATS = 9
# Name, options, goal for chunks, goal for single items.
WINDOWS: list[tuple[str, dict[str, Any], float | None, float | None]] = [
    ("window=10,000", {}, 6.0, 8.0),
    ("decay=0.9999", {"decay": 0.9999}, None, None),
    ("window='auto'", {"window": "auto"}, None, None),
]


def votes_of(n: int) -> NDArray[np.int8]:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, SOURCES), rng.uniform(0.5, 1, SOURCES)
    return np.asarray(fs.datasets.simulate(n, accuracies, coverage=coverage, random_state=rng).votes.codes)


def numpy_chunk(votes: NDArray[np.int8]) -> tuple[NDArray[Any], NDArray[Any]]:
    hot = (votes[:, :, None] == np.arange(2)).reshape(len(votes), -1).astype(np.float64)
    gram = hot.T @ hot
    majority = (votes == 1).sum(axis=1) > (votes == 0).sum(axis=1)
    return gram, majority


def numpy_items(rows: list[NDArray[np.int8]], weights: NDArray[np.float64]) -> None:
    counts = np.zeros((SOURCES, SOURCES))
    for x in rows:
        counts += np.outer(x, x)
        x @ weights


def our_items(online: fs.OnlineLabelModel, rows: list[NDArray[np.int8]]) -> None:
    for x in rows:
        online.learn_one(x)
        online.predict_proba_one(x)


def measure(name: str, options: dict[str, Any], goals: tuple[float | None, float | None]) -> dict[str, Any]:
    votes = votes_of(CHUNK * CHUNKS)
    chunks = np.split(votes, CHUNKS)
    rows, weights = list(votes[:SINGLES]), np.random.default_rng(0).normal(size=SOURCES)
    online = fs.OnlineLabelModel(**options).partial_fit(votes)
    single = fs.OnlineLabelModel(**options, refresh=100).partial_fit(votes)
    by_chunk = alternate(
        {
            "numpy": lambda: [numpy_chunk(chunk) for chunk in chunks],
            "ours": lambda: [online.update(chunk) for chunk in chunks],
        },
        repeats=REPEATS,
    )
    by_item = alternate(
        {"numpy": lambda: numpy_items(rows, weights), "ours": lambda: our_items(single, rows)},
        repeats=REPEATS,
    )
    chunk, item = ratio(by_chunk, "ours", "numpy"), ratio(by_item, "ours", "numpy")
    return {
        "window": name,
        "update": {**chunk, "goal": goals[0], "items_per_second": round(len(votes) / chunk["seconds"])},
        "one": {**item, "goal": goals[1], "items_per_second": round(SINGLES / item["seconds"])},
    }


def measure_memory(name: str, options: dict[str, Any], items: int) -> dict[str, Any]:
    """Megabytes held after 1e5 items and at the end, and the speed of the whole run."""
    votes = votes_of(100_000)
    fs.OnlineLabelModel(**options).partial_fit(votes)  # what is imported on first use does not count
    tracemalloc.start()
    online = fs.OnlineLabelModel(**options)
    held, start = [], time.perf_counter()
    for done in range(0, items, len(votes)):
        for at in range(0, len(votes), CHUNK):
            online.update(votes[at : at + CHUNK])
        if done == 0 or done + len(votes) >= items:
            gc.collect()
            held.append(round(tracemalloc.get_traced_memory()[0] / 1e6, 2))
    seconds = time.perf_counter() - start
    tracemalloc.stop()
    return {
        "window": name,
        "items": items,
        "megabytes": held,
        "items_per_second_traced": round(items / seconds),
        "history": len(online.history_),
    }


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{SOURCES} sources: ratios to NumPy, median (quartiles)", header_style="bold")
    for column in ("window", "update", "goal", "items/s", "learn_one + predict_proba_one", "goal", "items/s"):
        table.add_column(column, justify="right")
    for r in results["speed"]:
        cells = [r["window"]]
        for part in (r["update"], r["one"]):
            goal = "" if part["goal"] is None else f"<= {part['goal']:g}"
            shown = f"{part['ratio']:.1f} ({part['low']:.1f}-{part['high']:.1f})"
            cells += [shown, goal, f"{part['items_per_second']:,}"]
        table.add_row(*cells)
    console.print(table)
    for r in results["memory"]:
        first, last = r["megabytes"][0], r["megabytes"][-1]
        console.print(f"{r['window']}: {first} MB after 100,000 items, {last} MB after {r['items']:,}")


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--items", type=int, default=10_000_000, help="items of the run for memory")
    arguments = parser.parse_args()
    console = Console(width=140)
    console.print(machine())
    results = {
        "speed": [measure(name, options, (chunk, one)) for name, options, chunk, one in WINDOWS],
        "memory": [measure_memory(name, options, arguments.items) for name, options, *_ in WINDOWS],
    }
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('online', results).name}")


if __name__ == "__main__":
    main()
