"""``header.json``: what a file holds, written in exactly one way."""

from __future__ import annotations

import json
import math
import re
import reprlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from flyingsquid._values import told
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io.state import (
    DTYPES,
    MAX_DIMENSIONS,
    MAX_INT_BITS,
    Json,
    State,
    check_meta,
    check_name,
)

FORMAT = "flyingsquid state"
FORMAT_VERSION = 1
# Names of 100,000 sources fit; hostile JSON takes some 40 times its size in memory, 300 MB here.
MAX_HEADER = 1 << 23

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_KEYS = {"format", "format_version", "flyingsquid_version", "kind", "meta", "arrays"}
_ARRAY_KEYS = {"name", "dtype", "shape", "bytes"}
_MAX_BYTES = 2**63 - 1
_VERSION_TEXT = re.compile(r"[0-9A-Za-z.+!-]{1,40}")


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Name, type and shape of an array, before any of its bytes are read."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def entry(self) -> str:
        """The name of its entry in the archive."""
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


def header_of(state: State) -> Header:
    """The header of a state that was checked."""
    specs = (ArraySpec(name, a.dtype.newbyteorder("<"), a.shape) for name, a in state.arrays.items())
    return Header(state.kind, state.meta, tuple(sorted(specs, key=lambda spec: spec.name)))


def encode_header(header: Header) -> bytes:
    """The bytes of ``header.json``."""
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
            f"meta and the names of arrays take {len(data):,} bytes, more than {MAX_HEADER:,}; "
            "numbers belong into arrays"
        )
    return data


def decode_header(data: bytes) -> Header:
    """Read ``header.json``, or say what is wrong with it."""
    fields = _parse(data)
    _check_version(fields)
    if set(fields) != _KEYS:
        raise ModelFileError(f"the header has the fields {reprlib.repr(sorted(fields))}; damaged")
    check_name(fields["kind"], "kind")
    check_meta(fields["meta"])
    arrays = tuple(_decode_spec(spec) for spec in _typed(fields["arrays"], list, "arrays"))
    names = [spec.name for spec in arrays]
    if any(a >= b for a, b in pairwise(names)):
        raise ModelFileError("the header names its arrays twice or not in order; damaged")
    # One way to write a header: repeated keys, stray spaces and other spellings end here.
    if _dump(fields) != data:
        raise ModelFileError("the header is not written as FlyingSquid writes it; damaged")
    return Header(fields["kind"], fields["meta"], arrays)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data.decode(), parse_constant=_refuse_constant, parse_int=_parse_int)
    except RecursionError as error:
        raise ModelFileError("the header is nested too deeply; damaged") from error
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"the header is no JSON ({error}); damaged") from error
    if type(fields) is not dict or fields.get("format") != FORMAT:
        raise ModelFileError("this is no FlyingSquid file: its header does not say so")
    return fields


def _check_version(fields: dict[str, Any]) -> None:
    version, writer = fields.get("format_version"), fields.get("flyingsquid_version")
    if type(writer) is not str or not _VERSION_TEXT.fullmatch(writer):
        raise ModelFileError(f"flyingsquid_version is {reprlib.repr(writer)}; damaged")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"format_version is {reprlib.repr(version)}; damaged")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"written by FlyingSquid {writer} in format version {reprlib.repr(version)}; this is FlyingSquid "
            f"{__version__}, which reads up to {FORMAT_VERSION}. Upgrade flyingsquid to read it"
        )


def _decode_spec(fields: Any) -> ArraySpec:
    fields = _typed(fields, dict, "an array")
    if set(fields) != _ARRAY_KEYS:
        raise ModelFileError(f"an array has the fields {reprlib.repr(sorted(fields))}; damaged")
    name, dtype, shape = fields["name"], fields["dtype"], _typed(fields["shape"], list, "shape")
    check_name(name, "the name of an array")
    if type(dtype) is not str or dtype not in _BY_NAME:
        raise ModelFileError(f"array {told(name)} has type {reprlib.repr(dtype)}, which files do not hold")
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise ModelFileError(f"array {told(name)} has shape {reprlib.repr(shape)}, which no array has")
    spec = ArraySpec(name, _BY_NAME[dtype], tuple(shape))
    # An array without elements still has strides, which must not overflow.
    if math.prod(n for n in shape if n) * spec.dtype.itemsize > _MAX_BYTES:
        raise ModelFileError(f"array {told(name)} has shape {reprlib.repr(shape)}, which no array has")
    if type(fields["bytes"]) is not int or fields["bytes"] != spec.nbytes:
        raise ModelFileError(
            f"array {told(name)} declares {reprlib.repr(fields['bytes'])} bytes; its shape and type take "
            f"{spec.nbytes:,}"
        )
    return spec


def _typed(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ModelFileError(f"the header gives {what} as {reprlib.repr(value)}, not as {kind.__name__}")
    return value


def _dump(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"the header holds {name}, which JSON does not have; damaged")


def _parse_int(digits: str) -> int:
    # Reading a number takes time quadratic in its digits, so the length is looked at first.
    if len(digits) > MAX_INT_BITS:
        raise ModelFileError(f"the header holds a number of {len(digits):,} digits; damaged")
    return int(digits)
