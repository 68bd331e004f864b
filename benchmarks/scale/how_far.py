"""The page "How far does it go": a cost model, what was measured, and what follows from both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Assumptions, which the page states.
MACHINES, BYTES_PER_SECOND = 100, 200e6
ROWS = (10**9, 10**10, 10**12)
LABEL_BYTES = 8  # two classes in float32
MOST_DISTINCT = 1 << 18

TEMPLATE = Path(__file__).with_name("how-far.template.md")


def how_far(whole: Mapping[str, Any]) -> str:
    """The page, from the results."""
    found = whole["results"]["throughput"]
    m, fast = found["m"], found["fast"]
    measured = "\n".join(
        f"| {shown} | {found[which]['count_rows_per_second']:,} | {found[which]['label_rows_per_second']:,} |"
        for which, shown in (("fast", "fast"), ("numpy", "NumPy"))
    )
    disk = BYTES_PER_SECOND / m
    slower = "fewer than are counted" if disk < fast["count_rows_per_second"] else "more than are counted"
    return TEMPLATE.read_text("utf-8").format(
        distinct=MOST_DISTINCT,
        n=found["n"],
        m=m,
        threads=whole["threads"],
        measured=measured,
        disk=disk / 1e6,
        disk_or_us=f", {slower}",
        machines=MACHINES,
        label_bytes=LABEL_BYTES,
        projected="\n".join(_projection(n, m, fast) for n in ROWS),
    )


def _projection(n: int, m: int, fast: Mapping[str, float]) -> str:
    def seconds(machines: int) -> tuple[str, bool]:
        counting = n / (machines * fast["count_rows_per_second"]), n * m / (machines * BYTES_PER_SECOND)
        width = m + LABEL_BYTES
        labeling = n / (machines * fast["label_rows_per_second"]), n * width / (machines * BYTES_PER_SECOND)
        return f"{_time(max(counting))}, {_time(max(labeling))}", counting[1] > counting[0]

    alone, reading = seconds(1)
    together, _ = seconds(MACHINES)
    partitions = max(1, n // 10**6)
    # Counts of pairs, and what `auto` adds: at most all patterns, as a row and a count each.
    sent = partitions * (8 * 4 * m * m + min(MOST_DISTINCT, 3**m) * (m + 8))
    limit = "reading" if reading else "the processor"
    items = f"10^{len(str(n)) - 1}"
    return f"| {items} | {_size(n * m)} | {_size(sent)} | {alone} | {together} | {limit} |"


def _time(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _size(n_bytes: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"
