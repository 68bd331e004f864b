"""Claim: the default costs at most three times ``triplet``, fit and labels together.

Baseline, in the same run, a round at a time: ``LabelModel(method="triplet")`` on the same million items
of ten binary sources. Independent votes get a closed form, votes of which one source copies another half of
the time get weights and passes over distinct rows. A search for structure is reported next to them, without a
goal. Run with ``python -m benchmarks.bench_default``; ``--save`` writes the results file.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, ratio, save

ITEMS, SOURCES, REPEATS, GOAL = 1_000_000, 10, 9, 3.0


def votes_of(*, dependent: bool) -> NDArray[np.int8]:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, SOURCES), rng.uniform(0.3, 1, SOURCES)
    sample = fs.datasets.simulate(ITEMS, accuracies, coverage=coverage, random_state=rng)
    votes = np.array(sample.votes.codes)
    if dependent:
        copied = rng.random(ITEMS) < 0.5
        votes[copied, 1] = votes[copied, 0]
    return votes


def label(votes: NDArray[np.int8], method: str) -> NDArray[np.float64]:
    return fs.LabelModel(method=method).fit(votes).predict_proba(votes)  # type: ignore[arg-type]


def measure(*, dependent: bool) -> dict[str, Any]:
    votes = votes_of(dependent=dependent)
    seconds = alternate(
        {
            "auto": lambda: label(votes, "auto"),
            "triplet": lambda: label(votes, "triplet"),
        },
        repeats=REPEATS,
    )
    chosen = fs.LabelModel().fit(votes).diagnostics_.method
    start = time.perf_counter()
    fs.learn_structure(votes)
    search = round(time.perf_counter() - start, 3)
    return {
        "votes": "dependent" if dependent else "independent",
        "chosen": chosen,
        "cost": {**ratio(seconds, "auto", "triplet"), "goal": GOAL},
        "search_seconds": search,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the default with triplet.")
    parser.add_argument("--save", action="store_true", help="write the results file")
    arguments = parser.parse_args()
    results = [measure(dependent=dependent) for dependent in (False, True)]
    console = Console()
    table = Table(title=f"{ITEMS:,} x {SOURCES}: auto compared with triplet, in total", header_style="bold")
    for column in ("votes", "auto is", "ratio (quartiles)", "goal", "seconds", "a search for structure"):
        table.add_column(column, justify="right")
    for r in results:
        cost = r["cost"]
        shown = f"{cost['ratio']:.2f} ({cost['low']:.2f}-{cost['high']:.2f})"
        seconds = f"{cost['seconds']:.2f} s"
        table.add_row(r["votes"], r["chosen"], shown, f"<= {GOAL:g}", seconds, f"{r['search_seconds']:.2f} s")
    console.print(table)
    if arguments.save:
        console.print(f"saved to {save('default', results).name}")


if __name__ == "__main__":
    main()
