"""Measure everything, save the results, and write the pages.

``python -m benchmarks.scale`` measures all; ``--quick``: small sizes, to see that it runs; ``--save``: keep.
``--reference CHECKOUT`` times the authors' code of 2020, by the Python named by ``--reference-python``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.harness import RESULTS, machine
from benchmarks.scale import comparison, growth, one_machine, page


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description="Speed, growth and memory.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--save", action="store_true", help="write the results file and the pages")
    parser.add_argument("--to", type=Path, help="write the results to this file, and no pages")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of BLAS and of ours")
    parser.add_argument(
        "--only", nargs="*", default=[], help="parts to measure; the others keep their results"
    )
    parser.add_argument("--reference", type=Path, metavar="CHECKOUT", help="the authors' code of 2020")
    parser.add_argument("--reference-python", default=sys.executable, help="the Python that it runs in")
    parser.add_argument("--memory-of", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--point", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def parts(given: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements by name, in order."""
    quick = given.quick
    found: dict[str, Any] = {
        "many_sources": lambda: one_machine.many_sources(*((20_000, 20, 2) if quick else ())),
        "many_items": lambda: one_machine.many_items(*((100_000, 3, 2) if quick else ())),
        "throughput": lambda: one_machine.throughput(*((50_000, 5) if quick else ())),
        "growth": lambda: growth.curves(quick=quick),
        "snorkel": lambda: comparison.compare_with_snorkel(
            given.threads, *(([(2_000, 6)], 1) if quick else ())
        ),
        "crowds": lambda: None if quick else _crowds(),
    }
    if given.reference is not None:
        sizes = ((2_000, 6),) if quick else comparison.REFERENCE_SIZES
        found["reference"] = lambda: comparison.compare_with_reference(
            given.reference, given.reference_python, given.threads, sizes
        )
    return found


def _crowds(repeats: int = 5) -> Any:
    """Compare with crowd-kit's Dawid-Skene on real crowds, if both are available."""
    from benchmarks.bench_many import SETS, compare_with_crowdkit
    from benchmarks.quality.peers import interpreter

    if interpreter() is None or not os.environ.get("FLYINGSQUID_DATA"):
        return None
    return {name: compare_with_crowdkit(name, repeats) for name in SETS}


def main(arguments: list[str] | None = None) -> None:
    given = options(arguments)
    if given.memory_of:
        print(json.dumps(one_machine.memory_of(*given.memory_of)))
        return
    if given.point:
        axis, value, items = given.point
        print(json.dumps(growth.point(axis, int(value), int(items))))
        return
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)  # of children
    path = given.to or RESULTS / "scale.json"
    results = json.loads(path.read_text("utf-8"))["results"] if given.only and path.is_file() else {}
    console = Console(width=120)
    with threadpool_limits(given.threads):
        for name, measure in parts(given).items():
            if given.only and name not in given.only:
                continue
            console.print(f"[bold]{name}")
            results[name] = measure()
            console.print_json(data=results[name])
    if given.save or given.to:
        whole = {"machine": machine(), "threads": given.threads, "quick": given.quick, "results": results}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    if given.save:
        page.write(whole)


if __name__ == "__main__":
    main()
