"""Alternating measurements of two or more methods, and files of results."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info

Name = TypeVar("Name")
Answer = TypeVar("Answer")
RESULTS = Path(__file__).parent / "results"
_REST, _SHORT = 0.15, 0.1
PACKAGES = ("flyingsquid", "numpy", "scipy", "scikit-learn")


def rest() -> None:
    """Wait until the threads of earlier calls are idle; those of BLAS stay busy for a while."""
    time.sleep(_REST)


def steady(call: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds of a call, and its answer; a short one is made again and again, as for chunk after chunk."""
    start, calls = time.perf_counter(), 0
    while True:
        answer = call()
        calls += 1
        took = time.perf_counter() - start
        if took >= _SHORT:
            return took / calls, answer


def alternate(contenders: Mapping[Name, Callable[[], Any]], *, repeats: int) -> dict[Name, list[float]]:
    """Seconds of each call, a round at a time, so that a noisy moment hits all contenders alike."""
    seconds: dict[Name, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(repeats):
        for name, call in contenders.items():
            rest()
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str, baseline: str) -> dict[str, float]:
    """Median over the rounds of one contender's time by another's, with the quartiles."""
    ratios = np.array(seconds[name]) / np.array(seconds[baseline])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return {
        "ratio": round(float(middle), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
        "seconds": float(np.median(seconds[name])),
        "baseline_seconds": float(np.median(seconds[baseline])),
    }


def peak_megabytes(call: Callable[[], Any]) -> float:
    """Most memory that a call holds at once beyond what was there, in megabytes."""
    tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    call()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return round(peak / 1e6, 1)


def peak_resident_megabytes() -> float:
    """Most memory that this process had at once.

    Not by getrusage: a new process begins there with what its parent had.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6, 1)


def in_a_fresh_process(module: str, *arguments: object) -> dict[str, Any]:
    """The JSON that a module of ours prints, run where nothing is in memory yet."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def machine() -> dict[str, Any]:
    """Return a description of the machine."""
    import psutil  # here, so that the tests of what was measured need no extra

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        # Sorted because libraries are listed in the order in which they were found, which varies.
        "blas": sorted(
            f"{i['internal_api']} {i['version']}, {i['num_threads']} threads" for i in threadpool_info()
        ),
    }


def save(name: str, results: Any) -> Path:
    """Write results together with the machine that they were measured on."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n", encoding="utf-8")
    return path


def saved_halves(names: Mapping[str, str]) -> dict[str, Any]:
    """Return the saved results of each half that has been computed, from the names of their files."""
    found = {}
    for half, name in names.items():
        path = RESULTS / f"{name}.json"
        if path.is_file():
            found[half] = json.loads(path.read_text(encoding="utf-8"))["results"]
    return found


def save_half(
    names: Mapping[str, str], half: str, results: Any, page: Path, render: Callable[[dict[str, Any]], str]
) -> None:
    """Write the results of one half, and the page with the saved results of both."""
    print(f"saved to {save(names[half], results).name} and {page.name}")
    page.write_text(render(saved_halves(names)), encoding="utf-8")


def save_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with ``--save``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--save", action="store_true", help="write the results file, and the page if there is one"
    )
    return parser


def half_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with ``--save`` and ``--frozen``."""
    parser = save_parser(description)
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="the frozen half instead; only when nothing is left to choose, see docs/quality/halves.md",
    )
    return parser


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
