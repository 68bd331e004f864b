"""Coverage of the library by package: ``python -m tests.reach`` after ``make coverage``.

Ends with 1 where the core is below 95% of lines or 90% of branches.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "flyingsquid"
CORE = (
    "votes",
    "files",
    "graph",
    "moments",
    "kernels",
    "inference",
    "estimation",
    "fits",
    "solvers",
    "analysis",
    "models",
)
LEAST_LINES, LEAST_BRANCHES = 95.0, 90.0
Counts = tuple[int, int, int, int]  # statements, those reached, branches, those taken


def by_package(files: dict[str, Any]) -> dict[str, Counts]:
    """Return the counts of each package; top-level modules are "flyingsquid"."""
    sums: dict[str, Counts] = defaultdict(lambda: (0, 0, 0, 0))
    for path, file in files.items():
        inside = Path(path).resolve().relative_to(SOURCE).parts
        name, found = inside[0] if len(inside) > 1 else "flyingsquid", file["summary"]
        counts = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        a, b, c, d = (old + found[new] for old, new in zip(sums[name], counts, strict=True))
        sums[name] = (a, b, c, d)
    return dict(sums)


def added(counts: list[Counts]) -> Counts:
    a, b, c, d = (sum(column) for column in zip(*counts, strict=True))
    return a, b, c, d


def row(name: str, counts: Counts) -> str:
    return (
        f"| {name} | {counts[0]:,} | {share(*counts[:2]):.1f}% | {counts[2]:,} | {share(*counts[2:]):.1f}% |"
    )


def share(of: int, reached: int) -> float:
    return 100.0 * reached / of if of else 100.0


def main() -> int:
    from coverage import Coverage

    data = Coverage()
    data.load()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        data.json_report(outfile=str(file), include=[f"{SOURCE}/*"])
        packages = by_package(json.loads(file.read_text("utf-8"))["files"])
    core = added([packages[name] for name in CORE])
    lines = ["| package | lines | reached | branches | taken |", "|---|--:|--:|--:|--:|"]
    lines += [row(name, counts) for name, counts in sorted(packages.items())]
    lines += [row("**the core**", core), row("**everything**", added(list(packages.values())))]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(share(*core[:2]) < LEAST_LINES or share(*core[2:]) < LEAST_BRANCHES)


if __name__ == "__main__":
    sys.exit(main())
