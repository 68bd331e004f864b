"""Compare the speed of two versions of the package, measured alternately on the same machine.

    python -m benchmarks.compare BASE            # BASE is a commit; the other side is the working tree
    python -m benchmarks.compare BASE --rounds 7 --record

Each side runs in a process of its own, in turns, so that a busy machine slows both down. A measurement is
the best of several repeats within a process; the table shows the median over rounds of the ratio new / base.
Below 1 is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results") / "compare.json"
# Runs on either side, so it uses only what both versions have.
MEASURE = textwrap.dedent(
    """
    import json, sys, time, warnings
    import numpy as np
    import flyingsquid as fs

    warnings.simplefilter("ignore")

    def draw(n, m, k=2, seed=0, copies=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, k, n)
        right = rng.random((n, m)) < np.linspace(0.9, 0.6, m)
        votes = np.where(right, y[:, None], rng.integers(0, k, (n, m)))
        last = slice(m - copies, m)
        votes[:, last] = np.where(rng.random((n, copies)) < 0.7, votes[:, [0]], votes[:, last])
        votes[rng.random((n, m)) < 0.2] = -1
        return votes

    def triplet(**options):
        try:
            return fs.LabelModel(method="triplet_mean", **options).fit(draw(50, 5))
        except Exception:
            return fs.LabelModel(method="triplet", **options)

    small, large = draw(1_000, 10), draw(200_000, 10)
    dependent = draw(1_000, 10, copies=3)
    many, graph = draw(20_000, 12, 5), fs.DependencyGraph(8, source_edges=[(0, 1), (2, 3)])
    edges = draw(20_000, 8)
    fitted, by_tables = fs.LabelModel().fit(dependent), fs.LabelModel(method="covariance").fit(large)
    online = fs.OnlineLabelModel(n_classes=2)
    online.update(small)
    row = small[0]
    calls = {
        "fit 1,000 x 10": lambda: fs.LabelModel().fit(small),
        "fit 1,000 x 10, dependent": lambda: fs.LabelModel().fit(dependent),
        "fit 1,000 x 10, triplet": lambda: triplet().fit(small),
        "fit 1,000 x 10, covariance": lambda: fs.LabelModel(method="covariance").fit(small),
        "fit 200,000 x 10": lambda: fs.LabelModel().fit(large),
        "fit 20,000 x 12, five classes": lambda: fs.LabelModel().fit(many),
        "fit 20,000 x 8 on a graph": lambda: fs.LabelModel(graph).fit(edges),
        "fit sequences 20,000 x 8": lambda: fs.SequenceLabelModel().fit(edges),
        "predict_proba 1,000 x 10": lambda: fitted.predict_proba(dependent),
        "predict_proba 200,000 x 10": lambda: by_tables.predict_proba(large),
        "explain": lambda: fitted.explain(row),
        "summary": lambda: fs.LabelModel().fit(small).summary(),
        "online update of 500": lambda: online.update(small[:500]),
        "online learn_one x 100": lambda: [online.learn_one(row) for _ in range(100)],
        "online predict_proba_one x 100": lambda: [online.predict_proba_one(row) for _ in range(100)],
    }
    times = {}
    for name, call in calls.items():
        call()
        best, spent = float("inf"), 0.0
        while spent < float(sys.argv[1]):
            start = time.perf_counter()
            call()
            taken = time.perf_counter() - start
            best, spent = min(best, taken), spent + taken
        times[name] = best
    print(json.dumps(times))
    """
)


def measure(source: Path, seconds: float) -> dict[str, float]:
    env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", MEASURE, str(seconds)], env=env, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise SystemExit(f"{source}: {answer.stderr}")
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of two versions.")
    parser.add_argument("base", help="a commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="time per call and round")
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(
            ["git", "worktree", "add", "--detach", "--quiet", str(base), options.base], cwd=ROOT, check=True
        )
        try:
            rounds = []
            for number in range(options.rounds):
                sides = [base / "src", ROOT / "src"]
                order = sides if number % 2 == 0 else sides[::-1]
                found = {side: measure(side, options.seconds) for side in order}
                rounds.append((found[sides[0]], found[sides[1]]))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)
    table = {
        name: {
            "base_ms": 1e3 * min(before[name] for before, _ in rounds),
            "new_ms": 1e3 * min(after[name] for _, after in rounds),
            "ratio": statistics.median(after[name] / before[name] for before, after in rounds),
        }
        for name in rounds[0][0]
    }
    print(f"{'call':34}{'base ms':>10}{'new ms':>10}{'new / base':>12}")
    for name, row in table.items():
        print(f"{name:34}{row['base_ms']:>10.3f}{row['new_ms']:>10.3f}{row['ratio']:>12.2f}")
    if options.record:
        from benchmarks.harness import machine

        RESULTS.write_text(
            json.dumps({"base": options.base, "machine": machine(), "calls": table}, indent=1) + "\n", "utf-8"
        )


if __name__ == "__main__":
    main()
