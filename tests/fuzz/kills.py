"""Kill ``flyingsquid stream`` many times: ``python -m tests.fuzz.kills --kills 100 --lines 1000000``.

The output must be the same as that of an uninterrupted run, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.support.launcher import Launcher

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def write_lines(path: Path, n_lines: int) -> None:
    """Votes of five sources, some of which abstain."""
    rng = np.random.default_rng(0)
    words = np.array(["null", "0", "1"])
    with open(path, "w", encoding="utf-8") as file:
        for start in range(0, n_lines, 100_000):
            n = min(100_000, n_lines - start)
            y = rng.integers(0, 2, (n, 1))
            votes = np.where(rng.random((n, 5)) < [0.9, 0.8, 0.7, 0.8, 0.6], y, 1 - y)
            cells = words[np.where(rng.random((n, 5)) < 0.8, votes + 1, 0)].tolist()
            file.writelines(
                f'{{"a": {a}, "b": {b}, "c": {c}, "d": {d}, "e": {e}}}\n' for a, b, c, d, e in cells
            )


def killed(folder: Path, n_lines: int, n_kills: int) -> Counter[str]:
    """Kill a stream ``n_kills`` times, spread over its output; return how often by which signal."""
    rng, found = random.Random(0), Counter[str]()
    votes, straight, labels = folder / "votes.jsonl", folder / "straight.jsonl", folder / "labels.jsonl"
    write_lines(votes, n_lines)
    options = [str(votes), "--window", "auto", "--method", "triplet", "--classes", "2"]
    launcher = Launcher(["stream", *options, "-o", str(straight)])
    launcher.start()
    if launcher.wait() != 0:
        raise RuntimeError("the uninterrupted run failed")
    launcher.close()
    found["peak MB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    whole = straight.stat().st_size
    launcher = Launcher(["stream", *options, "-o", str(labels), "--checkpoint", str(folder / "run.fsq")])
    for number in range(n_kills):
        child = launcher.start()
        wanted = whole * (number + rng.random()) / (n_kills + 1)
        while (labels.stat().st_size if labels.exists() else -1) < wanted:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))
        chosen = SIGNALS[number % len(SIGNALS)]
        os.kill(child, chosen)
        code = launcher.wait()
        if code not in (-chosen, 128 + chosen):
            raise RuntimeError(f"ended with {code} after {chosen.name}")
        found[chosen.name] += 1
    launcher.start()
    if launcher.wait() != 0:
        raise RuntimeError("the last run failed")
    launcher.close()
    same = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (straight, labels)]
    found["same bytes"] = int(same[0] == same[1])
    found["lines"] = labels.read_bytes().count(b"\n")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--lines", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        started = time.monotonic()
        found = killed(Path(name), chosen.lines, chosen.kills)
    sys.stdout.write(f"{dict(found)} in {time.monotonic() - started:.0f} s\n")
    return 0 if found["same bytes"] else 1


if __name__ == "__main__":
    sys.exit(main())
