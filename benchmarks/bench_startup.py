"""Claim: a label model is ready after at most twice the CPU time that NumPy and SciPy take to import, and
``flyingsquid label`` labels 2,000 items after at most 2.5 times that.

Every contender is a fresh process, alternating; times are user and system time of the process. SciPy is
imported with the two modules that votes need. Bytecode is written by a first round that does not count.
``--save`` writes the results file.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import flyingsquid as fs
from benchmarks.harness import ratio, save

BASELINE = "numpy and scipy"
ITEMS, ROUNDS = 2_000, 15


def cpu_seconds(command: list[str]) -> float:
    """Return the user and system time of a process."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_votes(path: Path) -> None:
    sample = fs.datasets.simulate(ITEMS, [0.9, 0.8, 0.7, 0.6, 0.75, 0.65], coverage=0.7, random_state=0)
    header = ",".join(f"source_{j}" for j in range(sample.votes.n_sources))
    votes = np.asarray(sample.votes).tolist()
    lines = [",".join("" if vote < 0 else str(vote) for vote in row) for row in votes]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def measure(rounds: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="flyingsquid-bench-") as directory:
        votes, labels = Path(directory, "votes.csv"), Path(directory, "labels.csv")
        write_votes(votes)
        python = [sys.executable, "-c"]
        contenders = {
            BASELINE: [*python, "import numpy, scipy.sparse, scipy.special"],
            "fs.LabelModel": [*python, "import flyingsquid as fs; fs.LabelModel"],
            "flyingsquid label": [
                *[sys.executable, "-m", "flyingsquid", "label"],
                *[str(votes), "-o", str(labels), "--force"],
            ],
            "scikit-learn": [*python, "import sklearn.base"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, command in contenders.items():
                took = cpu_seconds(command)
                if number:
                    seconds[name].append(took)
    return {name: ratio(seconds, name, BASELINE) for name in contenders if name != BASELINE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--save", action="store_true", help="write the results file")
    options = parser.parse_args()
    results = measure(options.rounds)
    for name, found in results.items():
        print(f"{name:20s} {found['ratio']:.2f}x ({found['low']:.2f} to {found['high']:.2f}) {BASELINE}")
    if options.save:
        save("startup", results)


if __name__ == "__main__":
    main()
