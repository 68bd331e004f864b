"""States: the arrays and JSON values of models and counts, written to files and read back.

A file is a line that identifies it, a line of JSON (the header), the bytes of the arrays that the header
declares, in order, and a CRC-32 of everything before it. A file can store a :class:`State` only if its types
and values can be restored exactly; everything else is rejected before anything is written.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value, plain_value
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.inputs import StrPath
from flyingsquid.files.outputs import open_atomic

Scalar: TypeAlias = str | int | bool | float

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
MAGIC = b"flyingsquid state\n"
"""The first line of every file."""
FORMAT_VERSION = 1
# Names of 100,000 sources fit; hostile JSON takes about 40 times its size in memory, 300 MB here.
MAX_HEADER = 1 << 23

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_KEYS = {"format_version", "flyingsquid_version", "kind", "meta", "arrays"}
_ARRAY_KEYS = {"name", "dtype", "shape"}
_CHECKSUM = 4
_MAX_BYTES = 2**63 - 1
_VERSION_TEXT = re.compile(r"[0-9A-Za-z.+!-]{1,40}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_NAME = 100


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The content of a value without its class.

    :func:`write_state` checks it, and rejects a state that could not be read back exactly.

    Attributes
    ----------
    kind : str
        The class of the value, such as ``"Moments"``. Identifiers, joined by dots.
    meta : dict of JSON values
        str, int, bool, None, finite float, lists of these and dicts of these by str. Files sort
        the keys of a dict, so store an order that matters in a list.
    arrays : dict of arrays of any shape
        Booleans, integers of 8 to 64 bits, floats of 16 to 64 bits. Strings are stored in ``meta``.
        Names are identifiers, joined by dots: ``"moments.pair_counts"``.
    """

    kind: str
    meta: dict[str, Json]
    arrays: dict[str, NDArray[Any]]


def write_state(path: StrPath, state: State) -> None:
    """Write a state to ``path``, replacing an existing file.

    The same state gives the same bytes. After a failure, an existing file is unchanged.

    Raises
    ------
    ModelFileError
        If a file could not restore the state exactly.
    OSError
        If the file cannot be written.
    """
    _require_path(path)
    with _located(path):
        _check_state(state)
        arrays = dict(sorted(state.arrays.items()))
        data = MAGIC + _encode_header(state, arrays) + b"\n"
        _require_regular(path)
    with open_atomic(Path(os.path.realpath(path))) as file:
        file.write(data)
        checksum = crc32(data)
        for array in arrays.values():
            part = _bytes_of(np.asarray(array, array.dtype.newbyteorder("<"), order="C"))
            file.write(part)
            checksum = crc32(part, checksum)
        file.write(checksum.to_bytes(_CHECKSUM, "little"))


def read_state(path: StrPath) -> State:
    """Read a state that :func:`write_state` wrote. Arrays are new, writeable, and equal to the last bit.

    Memory use is bounded by the size of the file, nothing is unpacked to disk, and nothing in the file is
    executed.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, not a FlyingSquid file, or of a newer format.
    OSError
        If the file does not exist or cannot be read.
    """
    _require_path(path)
    with _located(path):
        _require_regular(path)  # before opening, which would block on a pipe
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)


def read_version(path: StrPath) -> str:
    """Return the version of FlyingSquid that wrote a file which :func:`read_state` accepts."""
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        return _read_header(file)[0].version


# ---------------------------------------------------------------------- reading


def _read(file: BinaryIO, size: int) -> State:
    if file.read(len(MAGIC)) != MAGIC:
        raise ModelFileError(
            "This is not a FlyingSquid file; it has another format, is damaged, or was written by an earlier "
            "development version. Fit and save the model again."
        )
    header, data = _read_header(file)
    declared = len(MAGIC) + len(data) + sum(spec.nbytes for spec in header.arrays) + _CHECKSUM
    # Before anything is allocated: the sizes must add up.
    if size != declared:
        what = "truncated" if size < declared else "damaged"
        raise ModelFileError(
            f"The file is {what}: its header declares {declared:,} bytes and it has {size:,}."
        )
    arrays, checksum = {}, crc32(data, crc32(MAGIC))
    for spec in header.arrays:
        arrays[spec.name] = array = _read_array(file, spec)
        checksum = crc32(_bytes_of(array), checksum)
    if file.read() != checksum.to_bytes(_CHECKSUM, "little"):
        raise ModelFileError("The file is damaged: its checksum does not match.")
    for name, array in arrays.items():
        _check_bits(name, array)
    return State(header.kind, header.meta, arrays)


def _read_header(file: BinaryIO) -> tuple[Header, bytes]:
    """Read the header of an open file after its first line; also return its bytes."""
    data = file.readline(MAX_HEADER + 2)
    if not data.endswith(b"\n"):
        raise ModelFileError("The file is truncated or damaged: its header does not end, or is too large.")
    return _decode_header(data[:-1]), data


def _read_array(file: BinaryIO, spec: ArraySpec) -> NDArray[Any]:
    try:
        array = np.empty(spec.shape, spec.dtype)
    except MemoryError as error:
        raise ModelFileError(
            f"Out of memory while reading array {format_value(spec.name)} of {spec.nbytes:,} bytes."
        ) from error
    if file.readinto(_bytes_of(array)) != spec.nbytes:  # type: ignore[attr-defined]  # BinaryIO lacks it
        raise ModelFileError(f"The file is truncated within array {format_value(spec.name)}.")
    return array


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return a view of the bytes of a C-contiguous array, shape (nbytes,)."""
    # By way of NumPy, because a memoryview without elements cannot be cast.
    return array.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _located(path: StrPath) -> Iterator[None]:
    """Add the path to errors."""
    try:
        yield
    except ModelFileError as error:
        error.path = os.fspath(path)
        raise


def _require_path(path: Any) -> None:
    """Raise ModelFileError if this cannot be the path of a file."""
    try:
        named = os.fsencode(path)
    except (TypeError, UnicodeError) as error:
        raise ModelFileError(
            f"`path` must be a str or os.PathLike; got {type(path).__name__}: {error}."
        ) from error
    if b"\0" in named:
        raise ModelFileError("`path` must not contain NUL characters.")


def _require_regular(path: StrPath) -> None:
    """Reject devices and pipes. Missing files and directories are left to the system's errors."""
    if not os.path.exists(os.fspath(path)) or os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise ModelFileError("The path must be a regular file; it is a device or a pipe.")


# ---------------------------------------------------------------------- checks


def _check_state(state: State) -> None:
    """Raise ModelFileError if a file could not restore this state exactly."""
    _check_name(state.kind, "`kind`")
    _check_meta(state.meta)
    if type(state.arrays) is not dict:
        raise ModelFileError(f"`arrays` must be a dict of arrays; got {type(state.arrays).__name__}.")
    for name, array in state.arrays.items():
        _check_name(name, "The name of an array")
        _check_array(name, array)


def _check_bits(name: str, array: NDArray[Any]) -> None:
    """Require that the bytes of booleans are 0 or 1; operations on others are undefined."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"Array {format_value(name)} contains booleans that are neither 0 nor 1.")


def _check_array(name: str, array: object) -> None:
    # A subclass carries more than its bytes, such as a mask.
    if type(array) is not np.ndarray:
        raise ModelFileError(
            f"Array {format_value(name)} must be a numpy.ndarray; got {type(array).__name__}."
        )
    if array.dtype.kind not in "biuf" or array.dtype.newbyteorder("<") not in DTYPES:
        raise ModelFileError(
            f"Array {format_value(name)} must have one of the types {', '.join(DTYPES.values())}; got "
            f"{array.dtype}."
        )
    if array.ndim > MAX_DIMENSIONS:
        raise ModelFileError(
            f"Array {format_value(name)} must have at most {MAX_DIMENSIONS} dimensions; got {array.ndim}."
        )
    _check_bits(name, array)


def _check_name(name: object, what: str) -> None:
    """Require identifiers joined by dots, because the name becomes part of an entry's name."""
    if type(name) is not str or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ModelFileError(
            f"{what} must be ASCII identifiers joined by dots, at most {_MAX_NAME} characters; got "
            f"{reprlib.repr(name)}."
        )


def _check_meta(meta: object) -> None:
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


# ---------------------------------------------------------------------- the header


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Name, type and shape of an array, before any of its bytes are read."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Header:
    """A state without the bytes of its arrays, which are sorted by name, and the version that wrote it."""

    kind: str
    meta: dict[str, Json]
    arrays: tuple[ArraySpec, ...]
    version: str


def _encode_header(state: State, arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the header of a checked state as one line of JSON."""
    data = _dump({
        "format_version": FORMAT_VERSION,
        "flyingsquid_version": __version__,
        "kind": state.kind,
        "meta": state.meta,
        "arrays": [
            {"name": name, "dtype": DTYPES[array.dtype.newbyteorder("<")], "shape": list(array.shape)}
            for name, array in arrays.items()
        ],
    })  # fmt: skip
    if len(data) > MAX_HEADER:
        raise ModelFileError(
            f"`meta` and the names of arrays must take at most {MAX_HEADER:,} bytes; they take "
            f"{len(data):,}. Store numbers in arrays."
        )
    return data


def _decode_header(data: bytes) -> Header:
    fields = _parse(data)
    _check_version(fields)
    if set(fields) != _KEYS:
        raise ModelFileError(f"The header is damaged: its fields are {reprlib.repr(sorted(fields))}.")
    _check_name(fields["kind"], "`kind`")
    _check_meta(fields["meta"])
    arrays = tuple(_decode_spec(spec) for spec in _typed(fields["arrays"], list, "arrays"))
    names = [spec.name for spec in arrays]
    if any(a >= b for a, b in pairwise(names)):
        raise ModelFileError("The header is damaged: its arrays are repeated or out of order.")
    # There is one way to write a header, so repeated keys, stray spaces and other spellings are damage.
    if _dump(fields) != data:
        raise ModelFileError("The header is damaged: it is not in the form that FlyingSquid writes.")
    return Header(fields["kind"], fields["meta"], arrays, fields["flyingsquid_version"])


def _parse(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data.decode(), parse_constant=_refuse_constant, parse_int=_parse_int)
    except RecursionError as error:
        raise ModelFileError("The header is damaged: it is nested too deeply.") from error
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"The header is damaged: it is not JSON ({error}).") from error
    return dict(_typed(fields, dict, "it"))


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
    _check_name(name, "The name of an array")
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


# ---------------------------------------------------------------------- class labels


def encode_labels(labels: tuple[Any, ...]) -> list[Scalar]:
    """Return class labels as a list whose types JSON preserves.

    JSON distinguishes ``true``, ``1``, ``1.0`` and ``"1"``. NumPy scalars become equal Python values.

    Examples
    --------
    >>> encode_labels(("ham", 1, 1.0, True))
    ['ham', 1, 1.0, True]
    """
    return [_check_label(plain_value(label), at) for at, label in enumerate(labels)]


def decode_labels(values: Any) -> tuple[Scalar, ...]:
    """Return the labels that :func:`encode_labels` was given.

    >>> decode_labels(["ham", 1, 1.0, True])
    ('ham', 1, 1.0, True)
    """
    if type(values) is not list:
        raise ModelFileError(f"Class labels must be a list; got {reprlib.repr(values)}.")
    return tuple(_check_label(value, at) for at, value in enumerate(values))


def _check_label(label: Any, at: int) -> Scalar:
    # Exact types: an enumeration is an int or a str too, and would come back as a bare one.
    kept = type(label) in (str, int, bool) or (type(label) is float and math.isfinite(label))
    if not kept:
        raise ModelFileError(
            f"Class labels in a file must be str, int, bool or finite float; class {at} is "
            f"{reprlib.repr(label)} of type {type(label).__name__}."
        )
    return label
