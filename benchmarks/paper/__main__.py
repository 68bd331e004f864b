"""Claim: one command reproduces the paper's evaluation, in minutes.

``python -m benchmarks.paper`` (or ``make paper``) measures everything, rewrites docs/paper and saves times to
benchmarks/results/paper.json. Names select some tables, ``--list`` shows the names,
``--output`` writes to another directory, and ``--quick`` checks with small sizes that everything runs; these
save no times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import save
from benchmarks.paper.artifact import Setting, can_draw
from benchmarks.paper.data import download_advice
from benchmarks.paper.run import choose, run
from benchmarks.quality.peers import interpreter

PAGES = Path(__file__).parents[2] / "docs" / "paper"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables and figures; default: all")
    parser.add_argument("--list", action="store_true", help="show the names and exit")
    parser.add_argument("--data", type=Path, help="directory of real votes; default: FLYINGSQUID_DATA")
    parser.add_argument("-o", "--output", type=Path, help="directory for the files; default: docs/paper")
    parser.add_argument("--peers", help="Python of the peers' environment; default: FLYINGSQUID_PEERS")
    parser.add_argument("--quick", action="store_true", help="small sizes; without --output nothing is kept")
    options = parser.parse_args(arguments)
    try:
        artifacts = choose(options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        for artifact in artifacts:
            datasets = f"  [{', '.join(artifact.datasets)}]" if artifact.datasets else ""
            print(f"{artifact.name:<12} {artifact.title}{datasets}")
        return
    data = options.data or os.environ.get("FLYINGSQUID_DATA")
    setting = Setting(Path(data) if data else None, interpreter(options.peers), options.quick)
    with tempfile.TemporaryDirectory() as temporary:
        output = options.output or (Path(temporary) if options.quick else PAGES)
        seconds, fits, missing = {}, {}, {}
        start = time.perf_counter()
        for done in run(artifacts, setting, output):
            name = done.artifact.name
            seconds[name] = round(time.perf_counter() - start, 1)
            print(f"{name:<12} {seconds[name]:>6} s" + ("" if done.outcome else "  skipped: no votes"))
            missing.update(dict.fromkeys(done.missing))
            if done.outcome is not None and done.outcome.timings:
                fits[name] = done.outcome.timings
            start = time.perf_counter()
    print(f"{'all':<12} {sum(seconds.values()):>6.1f} s")
    if missing:
        print(f"\nNot found in --data or FLYINGSQUID_DATA:\n{download_advice(missing)}")
    if not can_draw():
        print("\nNo pictures were written; they need matplotlib (pip install 'flyingsquid[plot]').")
    if not (options.names or options.output or options.quick):
        print(f"saved to {save('paper', {'seconds': seconds, 'fits': fits}).name} and {PAGES.name}/")


if __name__ == "__main__":
    main()
