"""Layout of model files: a zip archive with fixed contents, and its header.

All bytes of an archive are determined by the names, sizes and checksums of its entries. A reader therefore
does not parse an archive, but compares its bytes. So damage is always detected, and an archive cannot be
inconsistent (two directories, overlapping entries, sizes that disagree, bombs, paths). Field names follow
PKWARE's APPNOTE 6.3; 64-bit sizes are always used, so that there is only one layout.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from flyingsquid._values import format_value
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError

Json: TypeAlias = Any
"""str, int, bool, None, finite float, list of these, dict of these by str."""

DTYPES = {
    np.dtype(name).newbyteorder("<"): name
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
"""Every type of array that a file may contain, with its name there. No objects, no strings."""

MAX_DEPTH = 64
MAX_DIMENSIONS = 32  # the most that every supported NumPy has
# Far above any label or count; below the length at which Python refuses to read a number.
MAX_INT_BITS = 1024
HEADER = "header.json"
FORMAT = "flyingsquid state"
FORMAT_VERSION = 1
# Names of 100,000 sources fit; hostile JSON takes about 40 times its size in memory, 300 MB here.
MAX_HEADER = 1 << 23

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_KEYS = {"format", "format_version", "flyingsquid_version", "kind", "meta", "arrays"}
_ARRAY_KEYS = {"name", "dtype", "shape", "bytes"}
_MAX_BYTES = 2**63 - 1
_VERSION_TEXT = re.compile(r"[0-9A-Za-z.+!-]{1,40}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_NAME = 100

_LOCAL = struct.Struct("<4s5H3I2H")
_LOCAL_SIZES = struct.Struct("<2H2Q")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_CENTRAL_SIZES = struct.Struct("<2H3Q")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_END = struct.Struct("<4s4H2IH")

_VERSION = 45  # the first with 64-bit sizes
_MADE_BY = 3 << 8 | _VERSION  # Unix, for the file mode
_MODE = 0o100644 << 16
_MIDNIGHT, _DAY = 0, 1 << 5 | 1  # 1980-01-01, the first valid day: files do not depend on the time
_STORED = 0
_IN_EXTRA_16, _IN_EXTRA_32 = 0xFFFF, 0xFFFFFFFF
_EXTRA_64 = 1

SIGNATURE = b"PK\x03\x04"


# ---------------------------------------------------------------------- the archive


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored entry: its ASCII name, its size in bytes, the CRC-32 of its bytes."""

    name: str
    size: int
    crc: int


def head_size(name: str) -> int:
    """Return the number of bytes before the data of the entry ``name``."""
    return _LOCAL.size + len(name) + _LOCAL_SIZES.size


def entry_head(entry: Entry) -> bytes:
    """Return the bytes before the data of an entry."""
    name = entry.name.encode("ascii")
    fields = (_VERSION, 0, _STORED, _MIDNIGHT, _DAY, entry.crc, _IN_EXTRA_32, _IN_EXTRA_32)
    local = _LOCAL.pack(SIGNATURE, *fields, len(name), _LOCAL_SIZES.size)
    return local + name + _LOCAL_SIZES.pack(_EXTRA_64, _LOCAL_SIZES.size - 4, entry.size, entry.size)


def read_head(name: str, head: bytes) -> Entry | None:
    """Return the entry ``name`` that has the bytes ``head`` before its data; None if there is none."""
    entry = Entry(name, int.from_bytes(head[-8:], "little"), int.from_bytes(head[14:18], "little"))
    return entry if head == entry_head(entry) else None


def directory(entries: Sequence[Entry]) -> bytes:
    """Return the bytes after the data of the last entry."""
    records, offset = [], 0
    for entry in entries:
        records.append(_record(entry, offset))
        offset += head_size(entry.name) + entry.size
    central = b"".join(records)
    n, end = len(entries), offset + len(central)
    return b"".join([
        central,
        _END_64.pack(
            b"PK\x06\x06", _END_64.size - 12, _MADE_BY, _VERSION, 0, 0, n, n, len(central), offset
        ),
        _LOCATOR_64.pack(b"PK\x06\x07", 0, end, 1),
        _END.pack(b"PK\x05\x06", 0, 0, *2 * [_IN_EXTRA_16], *2 * [_IN_EXTRA_32], 0),
    ])  # fmt: skip


def archive_size(entries: Iterable[tuple[str, int]]) -> int:
    """Return the size of a whole archive from the names and sizes of its entries."""
    record = _CENTRAL.size + _CENTRAL_SIZES.size
    inner = sum(head_size(name) + size + record + len(name) for name, size in entries)
    return inner + _END_64.size + _LOCATOR_64.size + _END.size


def _record(entry: Entry, offset: int) -> bytes:
    """Return one record of the directory."""
    name = entry.name.encode("ascii")
    fields = (_MADE_BY, _VERSION, 0, _STORED, _MIDNIGHT, _DAY, entry.crc, _IN_EXTRA_32, _IN_EXTRA_32)
    tail = (len(name), _CENTRAL_SIZES.size, 0, 0, 0, _MODE, _IN_EXTRA_32)
    sizes = (_EXTRA_64, _CENTRAL_SIZES.size - 4, entry.size, entry.size, offset)
    return _CENTRAL.pack(b"PK\x01\x02", *fields, *tail) + name + _CENTRAL_SIZES.pack(*sizes)


# ---------------------------------------------------------------------- header.json


def check_name(name: object, what: str) -> None:
    """Require identifiers joined by dots, because the name becomes part of an entry's name."""
    if type(name) is not str or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ModelFileError(
            f"{what} must be ASCII identifiers joined by dots, at most {_MAX_NAME} characters; got "
            f"{reprlib.repr(name)}."
        )


def check_meta(meta: object) -> None:
    """Raise ModelFileError if JSON would not preserve the types and values."""
    if type(meta) is not dict:
        raise ModelFileError(f"`meta` must be a dict of JSON values; got {type(meta).__name__}.")
    problem = _problem(meta, MAX_DEPTH)
    if problem:
        raise ModelFileError(f"`meta{problem}.")


def _problem(value: object, levels: int) -> str:
    """Describe an invalid value and its position, as ``['key'][3]` must ...``; empty if all are valid."""
    if type(value) is not dict and type(value) is not list:
        return _scalar_problem(value)
    if not levels:
        return f"` must be nested at most {MAX_DEPTH} levels deep"
    pairs: Iterable[tuple[Any, object]] = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        if type(value) is dict and (type(key) is not str or not _is_encodable(key)):
            return f"` must have str keys that UTF-8 can encode; got {reprlib.repr(key)}"
        if problem := _problem(item, levels - 1):
            return f"[{reprlib.repr(key)}]{problem}"
    return ""


def _scalar_problem(value: object) -> str:
    # Exact types: a tuple, an enumeration or a NumPy scalar would come back as something else.
    if value is None or type(value) is bool:
        return ""
    if type(value) is int:
        too_long = value.bit_length() > MAX_INT_BITS
        return f"` must have at most {MAX_INT_BITS} bits; got {value.bit_length()} bits" if too_long else ""
    if type(value) is float:
        return "" if math.isfinite(value) else f"` must be finite; got {value}"
    if type(value) is str:
        return "" if _is_encodable(value) else f"` must be encodable as UTF-8; got {reprlib.repr(value)}"
    return (
        f"` must be a str, int, bool, None, float, list or dict; got {reprlib.repr(value)} of type "
        f"{type(value).__name__}"
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Name, type and shape of an array, before any of its bytes are read."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def entry(self) -> str:
        """Name of its entry in the archive."""
        return f"arrays/{self.name}"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Header:
    """A state without the bytes of its arrays. Arrays are sorted by name."""

    kind: str
    meta: dict[str, Json]
    arrays: tuple[ArraySpec, ...]


def encode_header(header: Header) -> bytes:
    """Return the bytes of ``header.json``."""
    data = _dump({
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "flyingsquid_version": __version__,
        "kind": header.kind,
        "meta": header.meta,
        "arrays": [
            {"name": s.name, "dtype": DTYPES[s.dtype], "shape": list(s.shape), "bytes": s.nbytes}
            for s in header.arrays
        ],
    })  # fmt: skip
    if len(data) > MAX_HEADER:
        raise ModelFileError(
            f"`meta` and the names of arrays must take at most {MAX_HEADER:,} bytes; they take "
            f"{len(data):,}. Store numbers in arrays."
        )
    return data


def decode_header(data: bytes) -> Header:
    """Read ``header.json``."""
    fields = _parse(data)
    _check_version(fields)
    if set(fields) != _KEYS:
        raise ModelFileError(f"The header is damaged: its fields are {reprlib.repr(sorted(fields))}.")
    check_name(fields["kind"], "`kind`")
    check_meta(fields["meta"])
    arrays = tuple(_decode_spec(spec) for spec in _typed(fields["arrays"], list, "arrays"))
    names = [spec.name for spec in arrays]
    if any(a >= b for a, b in pairwise(names)):
        raise ModelFileError("The header is damaged: its arrays are repeated or out of order.")
    # There is one way to write a header, so repeated keys, stray spaces and other spellings are damage.
    if _dump(fields) != data:
        raise ModelFileError("The header is damaged: it is not in the form that FlyingSquid writes.")
    return Header(fields["kind"], fields["meta"], arrays)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data.decode(), parse_constant=_refuse_constant, parse_int=_parse_int)
    except RecursionError as error:
        raise ModelFileError("The header is damaged: it is nested too deeply.") from error
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"The header is damaged: it is not JSON ({error}).") from error
    if type(fields) is not dict or fields.get("format") != FORMAT:
        raise ModelFileError("This is not a FlyingSquid file: its header names another format.")
    return fields


def _check_version(fields: dict[str, Any]) -> None:
    version, writer = fields.get("format_version"), fields.get("flyingsquid_version")
    if type(writer) is not str or not _VERSION_TEXT.fullmatch(writer):
        raise ModelFileError(f"The header is damaged: flyingsquid_version is {reprlib.repr(writer)}.")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"The header is damaged: format_version is {reprlib.repr(version)}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"The file has format version {reprlib.repr(version)}, written by FlyingSquid {writer}; "
            f"FlyingSquid {__version__} reads versions up to {FORMAT_VERSION}. Upgrade flyingsquid to read "
            "it."
        )


def _decode_spec(fields: Any) -> ArraySpec:
    fields = _typed(fields, dict, "an array")
    if set(fields) != _ARRAY_KEYS:
        raise ModelFileError(
            f"The header is damaged: an array has the fields {reprlib.repr(sorted(fields))}."
        )
    name, dtype, shape = fields["name"], fields["dtype"], _typed(fields["shape"], list, "shape")
    check_name(name, "The name of an array")
    if type(dtype) is not str or dtype not in _BY_NAME:
        raise ModelFileError(
            f"The header is damaged: array {format_value(name)} has the type {reprlib.repr(dtype)}."
        )
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise ModelFileError(
            f"The header is damaged: array {format_value(name)} has the shape {reprlib.repr(shape)}."
        )
    spec = ArraySpec(name, _BY_NAME[dtype], tuple(shape))
    # An array without elements still has strides, which must not overflow.
    if math.prod(n for n in shape if n) * spec.dtype.itemsize > _MAX_BYTES:
        raise ModelFileError(
            f"The header is damaged: array {format_value(name)} has the shape {reprlib.repr(shape)}."
        )
    if type(fields["bytes"]) is not int or fields["bytes"] != spec.nbytes:
        raise ModelFileError(
            f"The header is damaged: array {format_value(name)} declares {reprlib.repr(fields['bytes'])} "
            f"bytes; its shape and type take {spec.nbytes:,}."
        )
    return spec


def _typed(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ModelFileError(
            f"The header is damaged: {what} must be a {kind.__name__}; got {reprlib.repr(value)}."
        )
    return value


def _dump(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"The header is damaged: {name} is not JSON.")


def _parse_int(digits: str) -> int:
    # Parsing an integer takes time quadratic in its digits, so the length is checked first.
    if len(digits) > MAX_INT_BITS:
        raise ModelFileError(f"The header is damaged: it contains a number with {len(digits):,} digits.")
    return int(digits)
