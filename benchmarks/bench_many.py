"""Many sources and many classes: time compared with crowd-kit, and memory.

1. Claim: fit and predict on ``crowd_trec`` (19,033 x 762, two classes) and ``crowd_adult`` (11,040 x 825,
   four classes) take at most 1/20 of the time of crowd-kit's Dawid-Skene with n_iter=100, rounds alternating.
   It is measured in two ways: with default settings, crowd-kit stops when its lower bound falls, here after
   two or three passes; with that switched off, it makes its 100 passes.
2. Claim: 20,000 items at 20 votes each, of 1,200 sources and 56 classes, and of 3,000 sources and 1,500
   classes, are fitted and labeled within 1 and 4 GB of memory (peak of the whole process).

crowd-kit lives in its own environment: the variable FLYINGSQUID_PEERS names its interpreter (default
.venv-peers/bin/python); without it the first part is skipped. The datasets are read from the directory named
by FLYINGSQUID_DATA. Run with ``python -m benchmarks.bench_many``; ``--save`` writes the results file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array

import flyingsquid as fs
from benchmarks.harness import in_a_fresh_process, machine, ratio, rest, save, save_parser
from benchmarks.quality.data_directory import data_directory, find
from benchmarks.quality.peers import interpreter, needed_interpreter

SETS, GOAL = {"crowd_trec": 2, "crowd_adult": 4}, 1 / 20
# crowd-kit's own tolerance, and one that lets all its passes happen.
TOLERANCE = {"default settings": 1e-5, "100 passes": -1.0}
SHAPES = {(1_200, 56): 1.0, (3_000, 1_500): 4.0}  # sources and classes: gigabytes at most
ITEMS, VOTES_AN_ITEM = 20_000, 20
HERE = Path(__file__).parent


# ---------------------------------------------------------------------- comparison with crowd-kit


def compare_with_crowdkit(name: str, repeats: int) -> dict[str, Any]:
    """Return the seconds of both, in alternating rounds; each has its votes in memory in its own form."""
    with np.load(find(data_directory(), name)) as data:
        codes = data["L"]
    item, source = np.nonzero(codes >= 0)
    votes = fs.Votes.from_sparse(csr_array(codes + 1), classes=range(SETS[name]))

    def ours() -> float:
        start = time.perf_counter()
        fs.LabelModel().fit(votes).predict(votes)
        return time.perf_counter() - start

    seconds: dict[str, list[float]] = {"ours": [], **{setting: [] for setting in TOLERANCE}}
    passes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        path = Path(folder) / "votes.npz"
        np.savez(path, task=item, worker=source, label=codes[item, source])
        command = [str(needed_interpreter()), str(HERE / "crowdkit_rounds.py"), str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            for _ in range(repeats + 1):
                rest()
                seconds["ours"].append(ours())
                for setting, tolerance in TOLERANCE.items():
                    rest()
                    took, passes[setting] = _one_round(other, tolerance)
                    seconds[setting].append(took)
    warm = {who: times[1:] for who, times in seconds.items()}  # the first round warms up
    return {
        setting: {**ratio(warm, "ours", setting), "baseline_passes": passes[setting], "goal": GOAL}
        for setting in TOLERANCE
    }


def _one_round(other: subprocess.Popen[str], tolerance: float) -> tuple[float, int]:
    if other.stdin is None or other.stdout is None:
        raise RuntimeError("the other process has no pipes")
    other.stdin.write(f"{tolerance}\n")
    other.stdin.flush()
    seconds, passes = other.stdout.readline().split()
    return float(seconds), int(passes)


# ---------------------------------------------------------------------- memory


def draw(n_sources: int, n_classes: int) -> fs.Votes:
    """Votes of workers who are right 40% to 90% of the time, each item with equally many."""
    rng = np.random.default_rng(0)
    skill = rng.uniform(0.4, 0.9, n_sources)
    said = np.empty((ITEMS, VOTES_AN_ITEM), np.int16)
    who = np.empty((ITEMS, VOTES_AN_ITEM), np.int32)
    for start in range(0, ITEMS, 500):  # in parts, so that drawing takes less memory than fitting
        part = slice(start, start + 500)
        who[part] = np.argsort(rng.random((500, n_sources)), axis=1)[:, :VOTES_AN_ITEM]
        y = rng.integers(0, n_classes, (500, 1))
        right = rng.random((500, VOTES_AN_ITEM)) < skill[who[part]]
        said[part] = np.where(right, y, rng.integers(0, n_classes, (500, VOTES_AN_ITEM)))
    row = np.repeat(np.arange(ITEMS), VOTES_AN_ITEM)
    codes = csr_array((said.ravel() + 1, (row, who.ravel())), shape=(ITEMS, n_sources))
    return fs.Votes.from_sparse(codes, classes=range(n_classes))


def fit_and_label(n_sources: int, n_classes: int) -> dict[str, float]:
    """Seconds and peak memory of this process."""
    import resource

    votes = draw(n_sources, n_classes)
    start = time.perf_counter()
    model = fs.LabelModel().fit(votes)
    fitted = time.perf_counter()
    model.predict(votes)
    return {
        "fit_seconds": round(fitted - start, 2),
        "predict_seconds": round(time.perf_counter() - fitted, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def memory_of(n_sources: int, n_classes: int) -> dict[str, Any]:
    found = in_a_fresh_process("benchmarks.bench_many", "--shape", n_sources, n_classes)
    return {**found, "goal_gb": SHAPES[n_sources, n_classes]}


# ---------------------------------------------------------------------- the page


def show(results: dict[str, Any], console: Console) -> None:
    if results["speed"]:
        table = Table(title=f"fit and predict compared with crowd-kit's Dawid-Skene (at most {GOAL:g})")
        for column in ("votes", "crowd-kit", "its passes", "ratio", "holds", "ours, s", "crowd-kit, s"):
            table.add_column(column, justify="right")
        for name, settings in results["speed"].items():
            for setting, one in settings.items():
                times = f"{one['seconds']:.3f}", f"{one['baseline_seconds']:.2f}"
                holds = "yes" if one["ratio"] <= GOAL else "no"
                table.add_row(
                    name, setting, str(one["baseline_passes"]), f"{one['ratio']:.3f}", holds, *times
                )
        console.print(table)
    table = Table(title=f"{ITEMS:,} items at {VOTES_AN_ITEM} votes each")
    for column in ("sources x classes", "fit, s", "predict, s", "peak, GB", "at most, GB"):
        table.add_column(column, justify="right")
    for name, one in results["memory"].items():
        numbers = (one[key] for key in ("fit_seconds", "predict_seconds", "peak_gb", "goal_gb"))
        table.add_row(name, *(f"{number:g}" for number in numbers))
    console.print(table)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each contender")
    parser.add_argument("--shape", type=int, nargs=2, help="sources and classes: fit once, answer in JSON")
    options = parser.parse_args()
    if options.shape:
        sys.stdout.write(json.dumps(fit_and_label(*options.shape)) + "\n")
        return
    console = Console()
    console.print(machine())
    speed: dict[str, Any] = {}
    if interpreter() is not None:
        speed = {name: compare_with_crowdkit(name, options.repeats) for name in SETS}
    else:
        console.print("crowd-kit is skipped: run `make peers`, or set FLYINGSQUID_PEERS to its Python")
    memory = {f"{m:,} x {k:,}": memory_of(m, k) for m, k in SHAPES}
    results = {"speed": speed, "memory": memory}
    show(results, console)
    if options.save:
        console.print(f"written to {save('many', results)}")


if __name__ == "__main__":
    main()
