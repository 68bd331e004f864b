"""Claim: the paper's evaluation can be measured anew by one command, in minutes.

Run ``python -m benchmarks.paper``, or ``make paper``: what ``flyingsquid reproduce --all`` does, into
docs/paper, and how long each table took, beside the fit times of Table 1 and the machine, into
benchmarks/results/paper.json. ``--quick`` shows that everything runs, in a folder that is thrown away.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.harness import save
from flyingsquid.reproduce import Setting, choose, run
from flyingsquid.reproduce.peers import find_interpreter

FOLDER = Path(__file__).parents[2] / "docs" / "paper"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="Python of the peers' environment; default: FLYINGSQUID_PEERS")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing saved")
    options = parser.parse_args()
    data = os.environ.get("FLYINGSQUID_DATA")
    setting = Setting(Path(data) if data else None, find_interpreter(options.peers), options.quick)
    with tempfile.TemporaryDirectory() as thrown_away:
        seconds, fits = {}, {}
        start = time.perf_counter()
        for done in run(choose(()), setting, Path(thrown_away) if options.quick else FOLDER):
            name = done.artifact.name
            seconds[name] = round(time.perf_counter() - start, 1)
            print(f"{name:<12} {seconds[name]:>6} s" + ("" if done.outcome else "  left out: no votes"))
            if done.outcome is not None and done.outcome.timings:
                fits[name] = done.outcome.timings
            start = time.perf_counter()
    print(f"{'all':<12} {sum(seconds.values()):>6.1f} s")
    if not options.quick:
        print(f"saved to {save('paper', {'seconds': seconds, 'fits': fits}).name} and {FOLDER.name}/")


if __name__ == "__main__":
    main()
