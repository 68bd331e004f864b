"""Which format a file has, by its name and its first bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.formats.streams import Input

FORMATS = ("csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench")
"""Names of formats. ``json``: a list of records, or WRENCH in one file. ``wrench``: a folder. ``parquet``: a
file, or a folder of them."""

_ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".npy": "npy", ".npz": "npz",
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
}
_PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_TEXTS = ("csv", "tsv", "jsonl", "json")


def format_of(source: Input, declared: str | None = None) -> str:
    """The format of a file. Name and content must agree, unless ``declared`` decides."""
    check_format(declared)
    if source.path.is_dir():
        if declared not in (None, "wrench", "parquet"):
            raise VoteFileError(f"this is a folder, and {declared} is a file")
        if declared == "parquet" and not parquet_parts(source.path):
            raise VoteFileError("this folder holds no parquet files")
        return declared or ("parquet" if parquet_parts(source.path) else "wrench")
    start = source.start()
    if not start:
        raise VoteFileError("the file is empty")
    binary = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    named = format_of_name(source.shown)
    wanted = declared or named
    if binary is None and wanted in ("npy", "npz", "parquet", "arrow"):
        raise VoteFileError(
            f"this should be {wanted}{'' if declared else ' by its name'}, and does not begin like that; "
            "it is damaged, or format= (--format) says what it is"
        )
    if binary is not None and wanted not in (None, binary):
        raise VoteFileError(
            f"this should be {wanted}{'' if declared else ' by its name'}, and begins as {binary} does; "
            f"rename it, or pass format='{binary}' (--format {binary})"
        )
    if binary is not None:
        if source.compression:
            raise VoteFileError(f"{binary} inside {source.compression} is not read; unpack it first")
        return binary
    return _text_format(start, named, declared)


def parquet_parts(folder: Path) -> list[Path]:
    """The parquet files below a folder, in the order of their names; what others hide is left alone."""
    found = (path for path in folder.rglob("*.parquet") if path.is_file())
    return sorted(p for p in found if not any(n[0] in "._" for n in p.relative_to(folder).parts))


def _text_format(start: bytes, named: str | None, declared: str | None) -> str:
    looks_json = _looks_like_json(start)
    if declared:
        return "json" if declared == "wrench" else declared
    if named in ("csv", "tsv") and looks_json == "jsonl":
        raise VoteFileError(
            f"this should be {named} by its name, and its first line is JSON; "
            "rename it, or pass format='jsonl' (--format jsonl)"
        )
    if named is None:
        return looks_json or ("tsv" if b"\t" in start.split(b"\n", 1)[0] else "csv")
    if named in ("json", "jsonl") and looks_json is None:
        raise VoteFileError(
            f"this should be {named} by its name, and does not begin with '{{' or '['; "
            "it is damaged, or format= (--format) says what it is"
        )
    return named


def _looks_like_json(start: bytes) -> str | None:
    """ "jsonl" if the first line is a JSON object or list, "json" if it only begins one."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return None
    try:
        found = json.loads(text.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return "json"
    # One line that holds everything: a list of records, or WRENCH.
    inner = found if isinstance(found, list) else list(found.values())
    records = bool(inner) and all(isinstance(entry, dict) for entry in inner)
    wrench = isinstance(found, dict) and any("weak_labels" in entry for entry in inner if records)
    return "json" if wrench or (isinstance(found, list) and records) else "jsonl"


def format_of_name(name: str | os.PathLike[str]) -> str | None:
    """The format that a name promises, packed or not; None if it promises none."""
    return _ENDINGS.get(os.path.splitext(_unpacked(os.fspath(name)))[1].lower())


def packing_of_name(name: str | os.PathLike[str]) -> str | None:
    """ "gzip", "zstd" or None, by the end of a name."""
    return _PACKED.get(os.path.splitext(os.fspath(name))[1].lower())


def _unpacked(name: str) -> str:
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in _PACKED else name


def check_format(declared: str | None) -> None:
    """Refuse an unknown format."""
    if declared is not None and declared not in FORMATS:
        raise OptionError(f"format={told(declared)} is unknown; one of {', '.join(FORMATS)}")
