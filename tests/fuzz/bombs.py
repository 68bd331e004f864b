"""Small files that stand for a lot of memory, and how much of it reading them takes.

``python -m tests.fuzz.bombs`` reads each in a process of its own and prints seconds and peak memory.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.files import open_votes
from flyingsquid.files.decoded_size import MOST_BYTES

MOST_SECONDS, MOST_MEMORY = 5.0, 600 << 20


def make_columnar_bombs(folder: Path, size: int) -> list[Path]:
    """Parquet and arrow files of a few kilobytes, each of which unpacks to more than ``size`` bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = "x" * size

    def column(value: str, n: int) -> object:  # as a dictionary, so that making it takes no memory
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value]))

    def write(name: str, table: object, **options: object) -> None:
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", **options)

    write("dictionary", pa.table({"a": column(text, 1000), "b": column("y", 1000)}))
    write("plain", pa.table({"a": [text, "y"], "b": ["x", "y"]}), use_dictionary=False)
    several = pa.table({f"s{j}": [text[: size // 4 + 1], "y"] for j in range(6)})
    write("columns", several)
    short = text[: size // 400]
    write("repeated", pa.table({"id": column(short, 3000), "a": column("x", 3000), "b": column("y", 3000)}))
    prefixes = pa.table({"id": [short + str(i) for i in range(500)], "a": ["x", "y"] * 250})
    write(
        "prefixes", prefixes, use_dictionary=False, column_encoding={"id": "DELTA_BYTE_ARRAY", "a": "PLAIN"}
    )
    numbers = pa.table({"a": np.zeros(size + 1, np.int8), "b": np.zeros(size + 1, np.int8)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    for name, table in (("texts", several), ("numbers", numbers)):
        with pa.ipc.new_file(folder / f"{name}.arrow", table.schema, options=options) as file:
            file.write_table(table)
    with pa.ipc.new_stream(folder / "stream.arrow", several.schema, options=options) as file:
        file.write_table(several)
    return sorted(folder.iterdir())


def make_bombs(folder: Path, size: int) -> list[Path]:
    """Files of every format that unpack to more than ``size`` bytes."""
    import pyarrow as pa

    make_columnar_bombs(folder, size)
    with gzip.open(folder / "line.csv.gz", "wb", 9) as file:
        file.write(b"a,b\n0," + b"1" * (size + (1 << 27)))
    with gzip.open(folder / "blank.csv.gz", "wb", 9) as file:
        file.write(b"a,b\n0,1\n" + b"\n" * (size + (1 << 27)))
    zstd = pa.CompressedOutputStream(str(folder / "line.jsonl.zst"), "zstd")
    zstd.write(b'{"a": "' + b"1" * (size + (1 << 27)))
    zstd.close()
    with gzip.open(folder / "list.json.gz", "wb", 9) as file:
        file.write(b"[" + b"[],\n" * (size // 4 + 1) + b"[]]")
    (folder / "deep.jsonl").write_text("[" * 1_000_000 + "\n")
    (folder / "deep.json").write_text('{"a":' * 1_000_000)
    with zipfile.ZipFile(folder / "matrix.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "L", np.zeros((1, size + (1 << 28)), np.int8))
    with zipfile.ZipFile(folder / "ids.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "L", np.zeros((40, 3), np.int8))
        _add(archive, "ids", np.full(40, "x" * ((size + (1 << 28)) // 160), f"U{(size + (1 << 28)) // 160}"))
    return sorted(path for path in folder.iterdir())


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w") as file:
        np.lib.format.write_array(file, array)


def read(path: Path, limit: int = MOST_BYTES) -> str:
    """Read a file; return the error, or what was read."""
    try:
        file = open_votes(path, max_decoded_bytes=limit)
        n = sum(chunk.votes.n_items for chunk in file)
    except FlyingSquidError as error:
        return f"refused: {error}"
    return f"read: {n:,} items"


def _measured(path: Path) -> tuple[str, float, int]:
    import pyarrow.parquet  # noqa: F401  # not a part of the time

    started = time.monotonic()
    found = read(path)
    return found, time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> int:
    """Measure bombs of 400 MB; exit code 1 if one takes too much."""
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            paths = process.submit(make_bombs, Path(name), 400_000_000).result()
        for path in paths:
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                found, seconds, memory = process.submit(_measured, path).result()
            is_bad = seconds > MOST_SECONDS or memory > MOST_MEMORY
            worst |= is_bad
            line = {"file": path.name, "bytes": path.stat().st_size, "seconds": round(seconds, 2),
                    "MB": memory >> 20, "bad": is_bad, "found": found.split(": ", 2)[-1][:90]}  # fmt: skip
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
