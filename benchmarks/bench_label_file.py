"""Claim: ``flyingsquid label`` of 1e7 rows of 10 sources in parquet takes under 1 GB, and at most four times
as long as pyarrow takes to read and re-write the same file.

Both run as processes of their own, alternating; the time of a process includes its start. Peak memory is that
of the process that the operating system reports. ``--quick``: 2e5 rows, one round, nothing saved.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import ratio, save

ACCURACIES = (0.9, 0.85, 0.8, 0.8, 0.75, 0.75, 0.7, 0.7, 0.65, 0.6)
COVERAGE = 0.7
REWRITE = "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1]), sys.argv[2])"


def make_file(path: Path, n: int, *, ids: bool) -> None:
    """Votes of ten sources as a parquet file, int8 with nulls for no vote, in row groups of a million."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    fields = [("id", pa.int64())] * ids + [(f"source_{j}", pa.int8()) for j in range(len(ACCURACIES))]
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for start in range(0, n, 1_000_000):
            rows = min(1_000_000, n - start)
            y = rng.random(rows) < 0.4
            columns = [pa.array(np.arange(start, start + rows))] * ids
            for accuracy in ACCURACIES:
                vote = np.where(rng.random(rows) < accuracy, y, ~y).astype(np.int8)
                columns.append(pa.array(vote, mask=rng.random(rows) > COVERAGE))
            writer.write_table(pa.table(columns, schema=writer.schema))


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    scale = 1e6 if sys.platform == "darwin" else 1e3
    return seconds, usage.ru_maxrss / scale


def measure(n: int, rounds: int, *, ids: bool) -> dict[str, float]:
    """Alternating rounds on a file of n rows."""
    with tempfile.TemporaryDirectory(prefix="flyingsquid-bench-") as folder:
        votes, labels, copy = (Path(folder) / f"{name}.parquet" for name in ("votes", "labels", "copy"))
        make_file(votes, n, ids=ids)
        commands = {
            "label": [sys.executable, "-m", "flyingsquid", "label", str(votes), "-o", str(labels), "--force",
                      "--quiet"],
            "rewrite": [sys.executable, "-c", REWRITE, str(votes), str(copy)],
        }  # fmt: skip
        for command in commands.values():
            timed(command)  # the file is then in the memory of the system for both
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        peaks: dict[str, float] = dict.fromkeys(commands, 0.0)
        for _ in range(rounds):
            for name, command in commands.items():
                took, peak = timed(command)
                seconds[name].append(took)
                peaks[name] = max(peaks[name], peak)
        return {
            "rows": n,
            "megabytes_of_votes": round(votes.stat().st_size / 1e6, 1),
            **ratio(seconds, "label", "rewrite"),
            "label_peak_megabytes": round(peaks["label"]),
            "rewrite_peak_megabytes": round(peaks["rewrite"]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.quick:
        print(measure(200_000, 1, ids=True))
        return
    results = {
        name: measure(given.rows, given.rounds, ids=ids)
        for name, ids in (("with identifiers", True), ("without identifiers", False))
    }
    for name, result in results.items():
        print(name, result)
    print(save("label_file", results))


if __name__ == "__main__":
    main()
