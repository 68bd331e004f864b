"""Claim: reading a parquet of votes twice and writing labels costs at most 2.5 times a copy by pyarrow.

The baseline reads the whole file with pyarrow and writes it again. Ours opens it, reads all codes once as for
counting, and once more while labels, probabilities and numbers of votes are written. The model in between is
left out, so that this is the part of files alone. Ten sources; class numbers with -1, 64-bit numbers
with nulls, and texts. Run with ``python -m benchmarks.bench_files``; ``--save`` writes the results file,
``--quick`` takes fewer rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import alternate, machine, ratio, save, save_parser
from flyingsquid.files import LabelWriter, open_votes

SOURCES, GOAL, REPEATS, BLOCK = 10, 2.5, 3, 1_000_000
KINDS = ("int8, -1", "int64, null", "text")


def write(path: Path, kind: str, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, out = np.random.default_rng(0), None
    for at in range(0, n, BLOCK):
        size = min(BLOCK, n - at)
        columns: dict[str, Any] = {"id": np.arange(at, at + size)}
        for j in range(SOURCES):
            votes, silent = rng.integers(0, 2, size), rng.random(size) < 0.3
            if kind == "text":
                columns[f"s{j}"] = pa.array(np.array(["ham", "spam"], object)[votes], mask=silent)
            elif kind == "int64, null":
                columns[f"s{j}"] = pa.array(votes, mask=silent)
            else:
                columns[f"s{j}"] = np.where(silent, -1, votes).astype(np.int8)
        table = pa.table(columns)
        out = out or pq.ParquetWriter(path, table.schema)
        out.write_table(table)
    if out is not None:
        out.close()


def copy(path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path), path.with_name("copy.parquet"))


def label(path: Path) -> None:
    """Read and write files as ``flyingsquid label`` does, with fixed labels instead of a model."""
    file = open_votes(path)
    for chunk in file:
        chunk.votes.codes.sum()
    shares = np.random.default_rng(0).random(3**4)
    with LabelWriter(path.with_name("labels.parquet"), classes=file.classes, overwrite=True) as out:
        for chunk in file:
            codes = np.asarray(chunk.votes.codes)
            p = shares[(codes[:, :4] + 1) @ np.array([1, 3, 9, 27])]
            voted = np.count_nonzero(codes >= 0, axis=1)
            out.write(chunk.ids, (p > 0.5).astype(np.int8), np.stack([1 - p, p], axis=1), voted)


def measure(kind: str, folder: Path, n: int) -> dict[str, Any]:
    path = folder / "votes.parquet"
    write(path, kind, n)
    seconds = alternate({"ours": lambda: label(path), "copy": lambda: copy(path)}, repeats=REPEATS)
    return {"kind": kind, "rows": n, "goal": GOAL, **ratio(seconds, "ours", "copy")}


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 rows instead of 10,000,000")
    arguments = parser.parse_args()
    console = Console(width=140)
    console.print(machine())
    table = Table("votes", "rows", "times a copy", "goal", "seconds", "copy, seconds")
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(kind, Path(folder), 100_000 if arguments.quick else 10_000_000) for kind in KINDS]
    for r in results:
        table.add_row(
            r["kind"], f"{r['rows']:,}", f"{r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f})",
            f"<= {r['goal']:g}", f"{r['seconds']:.2f}", f"{r['baseline_seconds']:.2f}",
        )  # fmt: skip
    console.print(table)
    if arguments.save:
        console.print(f"saved to {save('files', results).name}")


if __name__ == "__main__":
    main()
