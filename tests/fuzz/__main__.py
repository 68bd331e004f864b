"""``python -m tests.fuzz --minutes 20``: half for calls, half for files; exit code 1 if anything is found."""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.api import fuzz_calls
from tests.fuzz.run import MOST_MEMORY, Outcome, fuzz

_ROUND = 120.0  # seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--what", choices=("all", "files", "calls"), default="all")
    parser.add_argument("--call", default="", help="only calls of tests/fuzz/calls.py whose name holds this")
    parser.add_argument("--keep", type=Path, help="a directory for the files that led to findings")
    chosen = parser.parse_args()
    seconds = 60 * chosen.minutes / (2 if chosen.what == "all" else 1)
    findings = 0
    # What asks for more memory than that is found, and does not take the machine with it.
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if chosen.what != "files":
        findings += _calls(seconds, chosen.seed, chosen.call)
    if chosen.what != "calls":
        findings += _files(seconds, chosen.seed, chosen.keep)
    return 1 if findings else 0


def _calls(seconds: float, seed: int, only: str) -> int:
    outcome = fuzz_calls(seconds=seconds, first_seed=seed, only=only)
    sys.stdout.write(
        f"{outcome.calls.total():,} calls, {outcome.refused.total():,} refused with a message, slowest "
        f"{outcome.slowest:.2f} s ({outcome.slowest_call}), {len(outcome.findings)} findings\n"
    )
    for (where, name), what in outcome.findings.items():
        sys.stdout.write(f"{where} {name}: {what}\n")
    return len(outcome.findings)


def _files(seconds: float, seed: int, keep: Path | None) -> int:
    outcome = Outcome()
    rounds = max(1, math.ceil(seconds / _ROUND))
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(rounds):
            folder = (keep or Path(temporary)) / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            # Each round in a process of its own: pyarrow keeps some memory of every damaged zstd file.
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                found = process.submit(fuzz, folder, seconds=seconds / rounds, seed=seed + number).result()
            outcome = outcome.with_(found)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    sys.stdout.write(
        f"{outcome.files:,} files, {outcome.read:,} still readable, slowest {outcome.slowest:.2f} s "
        f"({outcome.slowest_file}), "
        f"peak memory {peak:,} MB, {len(outcome.findings)} findings\n"
    )
    for name, what in outcome.findings:
        sys.stdout.write(f"{name}: {what}\n")
    return len(outcome.findings)


if __name__ == "__main__":
    sys.exit(main())
