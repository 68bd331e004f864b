"""Valid files to damage, and ways to damage them."""

from __future__ import annotations

import gzip
import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, save_npz

import flyingsquid as fs
from flyingsquid.files import write_votes
from tests.support.strategies import fittable_votes

TOKENS = [
    b",", b'"', b"\n", b"\r", b"\t", b"\0", b"-1", b"0", b"1", b"1e999", b"NaN", b"null", b"{", b"}", b"[",
    b"]", b":", b"\xff\xfe", b"\xef\xbb\xbf", b"\x80", b"true", b"9" * 30, b"9" * 5000, b"PK\x03\x04",
    b"PAR1", b"\x93NUMPY", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"[" * 2000,
    b'{"a":' * 500, b"id", b"votes",
    b"\xed\xa0\x80", b"(1, 1000000000)", b"'descr': '|O'", b"(99999999999999999999, 2)",
]  # fmt: skip


def example_files(folder: Path) -> dict[str, bytes]:
    """One small valid file of each kind, by name."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 2, (40, 4)).astype(np.int8)
    texts = fs.Votes(codes, ("ham", "spam"), ("a", "b", "c", "d"))
    numbers = fs.Votes(codes, (0, 1), ("a", "b", "c", "d"))
    ids = [f"item {i}" for i in range(40)]
    names = ["v.csv", "v.tsv", "v.jsonl", "v.npy", "v.npz", "v.json", "v.csv.gz"]
    names += ["v.parquet", "v.arrow", "v.jsonl.zst"] if find_spec("pyarrow") else []
    for name in names:
        write_votes(folder / name, texts, ids=ids, overwrite=True)
        write_votes(folder / f"n{name}", numbers, overwrite=True)
    for name in ("l.csv", "l.jsonl"):
        write_votes(folder / name, texts, ids=ids, form="long", overwrite=True)
    save_npz(folder / "sparse.npz", csr_array(codes + 1))
    fs.LabelModel(method="triplet").fit(fittable_votes(0)).save(folder / "model.fsq")
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".")}


def damaged(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A few random changes to ``data``."""
    packed = data.startswith(b"\x1f\x8b") and rng.random() < 0.7
    if packed:
        data = gzip.decompress(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([0, 1, 1, 2, 4, 8, 64, 1024]))
        kind = rng.randrange(8)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif kind == 2:
            data = data[:at] + rng.choice(TOKENS) + data[end:]
        elif kind == 3:
            data = data[:at] + rng.randbytes(end - at) + data[end:]
        elif kind == 4:
            data = data[:at] + data[end:]
        elif kind == 5:
            data = data[:end] + data[at:end] * rng.choice([1, 2, 50]) + data[end:]
        elif kind == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data = data[:at] + other[start : start + rng.choice([4, 64, 1024])] + data[end:]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return gzip.compress(data, 1) if packed else data
