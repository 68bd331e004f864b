"""Claim: ``flyingsquid stream`` costs at most three times a loop of json.loads and json.dumps.

The baseline is a Python process that reads the same lines, decodes each and encodes it again into a file.
Both are whole processes, a round at a time, start-up included; the time that ours takes to begin is shown by
itself, because it does not grow with the input. Ten binary sources by name.
Run with ``python -m benchmarks.bench_stream``; ``--save`` writes the results file, ``--lines`` makes the
input shorter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser

SOURCES, GOAL, REPEATS = 10, 3.0, 3
LOOP = """
import json, sys
with open(sys.argv[1]) as votes, open(sys.argv[2], "w") as labels:
    for line in votes:
        labels.write(json.dumps(json.loads(line)) + "\\n")
"""
# Name, options, whether a checkpoint is kept, goal.
WAYS: list[tuple[str, list[str], bool, float | None]] = [
    ("window=10,000", [], False, GOAL),
    ("window=10,000, checkpoints", [], True, GOAL),
    ("window=auto, checkpoints", ["--window", "auto"], True, GOAL),
    ("--block 1", ["--block", "1"], False, None),
]


def write_votes(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, SOURCES), rng.uniform(0.5, 1, SOURCES)
    codes = fs.datasets.simulate(n, accuracies, coverage=coverage, random_state=rng).votes.codes.tolist()
    with path.open("w") as file:
        for row in codes:
            votes = {f"source_{j}": None if vote < 0 else vote for j, vote in enumerate(row)}
            file.write(json.dumps(votes) + "\n")


def call(command: Sequence[str]) -> None:
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def measure(name: str, options: list[str], keeps: bool, goal: float | None, votes: Path) -> dict[str, Any]:
    folder = votes.parent
    checkpoint = folder / "checkpoint"
    more = ["--checkpoint", str(checkpoint)] if keeps else []
    ours = ["-m", "flyingsquid", "stream", str(votes), "-o", str(folder / "labels"), *options, *more]

    def run_ours() -> None:
        checkpoint.unlink(missing_ok=True)
        call(ours)

    seconds = alternate(
        {
            "loop": lambda: call(["-c", LOOP, str(votes), str(folder / "copy")]),
            "ours": run_ours,
            "start": lambda: call(["-m", "flyingsquid", "--version"]),
        },
        repeats=REPEATS if goal is not None else 1,
    )
    with votes.open() as file:
        n = sum(1 for _ in file)
    found = ratio(seconds, "ours", "loop")
    return {
        "way": name,
        "lines": n,
        **found,
        "goal": goal,
        "start_seconds": float(np.median(seconds["start"])),
        "lines_per_second": round(n / found["seconds"]),
    }


def show(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="flyingsquid stream: ratio to json.loads + json.dumps, median (quartiles)")
    for column in ("way", "lines", "ratio", "goal", "seconds", "of which start", "loop", "lines/s"):
        table.add_column(column, justify="right")
    for r in results:
        table.add_row(
            r["way"],
            f"{r['lines']:,}",
            f"{r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f})",
            "" if r["goal"] is None else f"<= {r['goal']:g}",
            f"{r['seconds']:.2f}",
            f"{r['start_seconds']:.2f}",
            f"{r['baseline_seconds']:.2f}",
            f"{r['lines_per_second']:,}",
        )
    console.print(table)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--lines", type=int, default=500_000, help="lines of input")
    arguments = parser.parse_args()
    console = Console(width=140)
    console.print(machine())
    with tempfile.TemporaryDirectory() as folder:
        votes = Path(folder) / "votes"
        write_votes(votes, arguments.lines)
        results = [measure(*way, votes) for way in WAYS]
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('stream', results).name}")


if __name__ == "__main__":
    main()
