"""Kill adaptive runs of ``ask_judges`` many times: ``python -m tests.fuzz.asking_kills --kills 30``.

Nothing may be asked twice except the calls in progress at a kill, and the budget must hold over all runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyingsquid.judges import ask_judges
from tests.support.panel_of_functions import ACCURACIES, make_panel

CONCURRENCY = 8


class Outcome(NamedTuple):
    """Calls over all runs, the calls beyond one per vote, and whether the votes are those of one run."""

    n_calls: int
    n_repeated: int
    n_kills: int
    is_same: bool


def run_once(folder: Path, n_items: int, budget: float) -> np.ndarray:
    """Ask about all items; every call appends a line to ``calls``."""
    log = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def called(name: str, item: int) -> None:
        os.write(log, f"{name} {item}\n".encode())
        time.sleep(0.002)

    run = ask_judges(
        make_panel(called),
        range(n_items),
        stop_at=0.9,
        budget=budget,
        cache=folder / "answers.jsonl",
        concurrency=CONCURRENCY,
    )
    os.close(log)
    return np.asarray(run.votes.codes)


def calls_in(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def killed(folder: Path, n_items: int, n_kills: int, budget: float = 1e9) -> Outcome:
    """Kill runs at random moments, and then let one finish."""
    rng, straight, broken = random.Random(0), folder / "straight", folder / "broken"
    straight.mkdir()
    broken.mkdir()
    whole = run_once(straight, n_items, budget)
    n_whole = len(calls_in(straight))
    context = multiprocessing.get_context("forkserver")
    # So that a child starts at once.
    context.set_forkserver_preload(["flyingsquid.judges.run", "tests.support.panel_of_functions"])
    done = 0
    for number in range(n_kills):
        wanted = n_whole * (number + rng.random()) / (n_kills + 1)
        child = context.Process(target=run_once, args=(broken, n_items, budget))
        child.start()
        while len(calls_in(broken)) < wanted and child.is_alive():
            time.sleep(0.005)
        done += child.is_alive()
        child.kill()
        child.join()
    codes = run_once(broken, n_items, budget)
    calls = Counter(calls_in(broken))
    return Outcome(calls.total(), calls.total() - len(calls), done, bool(np.array_equal(codes, whole)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--items", type=int, default=1_500)
    options = parser.parse_args()
    for budget in (1e9, 0.4 * len(ACCURACIES) * options.items):
        with tempfile.TemporaryDirectory() as folder:
            found = killed(Path(folder), options.items, options.kills, budget)
        sys.stdout.write(f"budget {budget:g}: {found}\n")
        if found.n_repeated > CONCURRENCY * options.kills or found.n_calls > budget:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
