"""``python -m tests.fuzz --minutes 10``: exit code 1 if anything but a documented error occurs."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the files that led to findings")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = fuzz(folder, seconds=60 * chosen.minutes, seed=chosen.seed, limit_memory=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(
        f"{outcome.files:,} files, {outcome.read:,} still readable, slowest {outcome.slowest:.2f} s "
        f"({outcome.slowest_file}), "
        f"peak memory {peak:,} MB, {len(outcome.findings)} findings\n"
    )
    for name, what in outcome.findings:
        sys.stdout.write(f"{name}: {what}\n")
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
