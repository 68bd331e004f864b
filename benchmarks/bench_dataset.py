"""Claim: a directory of parquet files is fitted at half the speed of a scan, and labeled at an eighth of it.

100,000,000 rows of ten sources (simulated, ten files, deleted afterwards). The baseline reads every row group
of every file with pyarrow and does nothing with it. Ours fits chunk by chunk, and then labels chunk by chunk
into another file. Memory is the peak of the whole process. Run with ``python -m benchmarks.bench_dataset``;
``--save`` writes the results file, ``--quick`` takes fewer rows.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser
from flyingsquid.files import LabelWriter, VoteFile, open_votes

FILES, GROUP, REPEATS = 10, 1_000_000, 2
ACCURACIES = [0.9, 0.85, 0.8, 0.75, 0.75, 0.7, 0.7, 0.65, 0.65, 0.6]
GOALS = {"fit": 2.0, "fit, auto": 2.0, "fit and labels": 8.0, "fit and labels, auto": 4.0}


def write(folder: Path, rows: int) -> None:
    """Files of row groups that are drawn once and then taken in turn."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    size = min(GROUP, rows // FILES)
    drawn = []
    for _ in range(5):
        votes = fs.datasets.simulate(size, ACCURACIES, coverage=0.7, random_state=rng).votes.codes
        drawn.append(pa.table({f"source {j}": np.ascontiguousarray(votes[:, j]) for j in range(10)}))
    for part in range(FILES):
        with pq.ParquetWriter(folder / f"part-{part:02d}.parquet", drawn[0].schema) as out:
            for group in range(rows // FILES // size):
                out.write_table(drawn[(part + group) % len(drawn)])


def scan(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(
        batch.num_rows
        for part in sorted(folder.glob("*.parquet"))
        for batch in pq.ParquetFile(part).iter_batches(batch_size=1 << 17)
    )


def fit(file: VoteFile, method: Literal["auto", "triplet"]) -> fs.LabelModel:
    return fs.LabelModel(method=method).fit(fs.VoteChunks(file))


def label(folder: Path, target: Path, method: Literal["auto", "triplet"]) -> None:
    file = open_votes(folder, item=False)
    model = fit(file, method)
    with LabelWriter(target, classes=file.classes, overwrite=True) as out:
        for chunk in file:
            shares = model.predict_proba(chunk.votes, dtype=np.float32)
            voted = (chunk.votes.codes >= 0).sum(axis=1, dtype=np.int32)
            out.write(chunk.ids, (shares[:, 1] > shares[:, 0]).astype(np.int8), shares, voted)


def measure(rows: int, tasks: Sequence[str] = tuple(GOALS)) -> dict[str, Any]:
    """Return times of some tasks, relative to a scan."""
    with tempfile.TemporaryDirectory(prefix="flyingsquid-bench-") as name:
        folder = Path(name) / "votes"
        folder.mkdir()
        write(folder, rows)
        target = Path(name) / "labels.parquet"
        contenders: dict[str, Callable[[], Any]] = {
            "fit": lambda: fit(open_votes(folder, item=False), "triplet"),
            "fit, auto": lambda: fit(open_votes(folder, item=False), "auto"),
            "fit and labels": lambda: label(folder, target, "triplet"),
            "fit and labels, auto": lambda: label(folder, target, "auto"),
        }
        chosen = {"scan": lambda: scan(folder), **{task: contenders[task] for task in tasks}}
        seconds = alternate(chosen, repeats=REPEATS)
        bytes_read = sum(part.stat().st_size for part in folder.glob("*.parquet"))
    return {
        "rows": rows,
        "sources": len(ACCURACIES),
        "file_bytes": bytes_read,
        "scan_rows_a_second": round(rows / float(np.median(seconds["scan"]))),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "compared_with_a_scan": {
            name: {"goal": GOALS[name], **ratio(seconds, name, "scan")} for name in tasks
        },
    }


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000,000 rows")
    given = parser.parse_args()
    console = Console()
    found = measure(2_000_000 if given.quick else 100_000_000)
    table = Table("what", "times a scan", "quartiles", "goal", "rows per second", box=None)
    for name, numbers in found["compared_with_a_scan"].items():
        speed = found["rows"] / numbers["seconds"]
        spread = f"{numbers['low']:.2f} to {numbers['high']:.2f}"
        table.add_row(name, f"{numbers['ratio']:.2f}", spread, f"{numbers['goal']:g}", f"{speed:,.0f}")
    console.print(f"{found['rows']:,} rows x 10, scan {found['scan_rows_a_second']:,} rows per second")
    console.print(table)
    console.print(f"peak memory of the process {found['peak_megabytes']:,} MB; {machine()['processor']}")
    if given.save:
        console.print(save("dataset", found))


if __name__ == "__main__":
    main()
