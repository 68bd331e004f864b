"""States: the arrays and JSON values of models and counts, written to files and read back.

A file is a line that identifies it, a line of JSON (the header), the bytes of the arrays that the header
declares, in order, and a CRC-32 of everything before it. A file can store a :class:`State` only if its types
and values can be restored exactly; everything else is rejected before anything is written.

Files are untrusted input. Each reader declares the fields that it expects, and :func:`check_fields` checks
them before they are used:

>>> declared = {"n_items": integer(0, 9), "names": optional(list_of(TEXT))}
>>> check_fields({"n_items": 3, "names": None}, declared)
>>> check_fields({"n_items": [], "names": None}, declared)
Traceback (most recent call last):
    ...
flyingsquid.exceptions.ModelFileError: `n_items` in the file must be an integer in [0, 9]; got [].
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, plain_value
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
MAGIC = b"flyingsquid state\n"
"""The first line of every file."""
FORMAT_VERSION = 1
# Names of 100,000 sources fit; hostile JSON takes about 40 times its size in memory, 300 MB here.
MAX_HEADER = 1 << 23

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_KEYS = {"format_version", "flyingsquid_version", "kind", "meta", "arrays"}
_CHECKSUM = 4
_VERSION_TEXT = re.compile(r"[0-9A-Za-z.+!-]{1,40}")


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The content of a value without its class.

    :func:`write_state` checks it, and rejects a state that could not be read back exactly.

    Attributes
    ----------
    kind : str
        The class of the value, such as ``"Moments"``.
    meta : dict of JSON values
        str, int, bool, None, finite float, lists of these and dicts of these by str. Files sort
        the keys of a dict, so store an order that matters in a list.
    arrays : dict of arrays of any shape
        Booleans, integers of 8 to 64 bits, floats of 16 to 64 bits. Strings are stored in ``meta``.
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
    with _add_path_to_errors(path):
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
    with _add_path_to_errors(path):
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
    except (MemoryError, ValueError) as error:  # NumPy limits dimensions, also those of empty arrays
        raise ModelFileError(
            f"Array {format_value(spec.name)} of {spec.nbytes:,} bytes cannot be read: {error}."
        ) from error
    if file.readinto(_bytes_of(array)) != spec.nbytes:  # type: ignore[attr-defined]  # BinaryIO lacks it
        raise ModelFileError(f"The file is truncated within array {format_value(spec.name)}.")
    return array


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return a view of the bytes of a C-contiguous array, shape (nbytes,)."""
    # By way of NumPy, because a memoryview without elements cannot be cast.
    return array.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _add_path_to_errors(path: StrPath) -> Iterator[None]:
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


def _check_bits(name: str, array: NDArray[Any]) -> None:
    """Require that the bytes of booleans are 0 or 1; operations on others are undefined."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"Array {format_value(name)} contains booleans that are neither 0 nor 1.")


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
    """Return the header as one line of JSON; raise ModelFileError if it would not be read back equal."""
    for name, array in arrays.items():
        # A subclass carries more than its bytes, such as a mask.
        if type(array) is not np.ndarray or array.dtype.newbyteorder("<") not in DTYPES:
            raise ModelFileError(
                f"Array {format_value(name)} must be a numpy.ndarray of one of the types "
                f"{', '.join(DTYPES.values())}; got {getattr(array, 'dtype', type(array).__name__)}."
            )
        _check_bits(name, array)
    fields = {
        "format_version": FORMAT_VERSION,
        "flyingsquid_version": __version__,
        "kind": state.kind,
        "meta": state.meta,
        "arrays": [
            {"name": name, "dtype": DTYPES[array.dtype.newbyteorder("<")], "shape": list(array.shape)}
            for name, array in arrays.items()
        ],
    }
    try:
        data = _dump(fields)
        is_equal = json.loads(data.decode()) == fields
    except (TypeError, ValueError, RecursionError) as error:  # not JSON, NaN, or a string that is not UTF-8
        raise ModelFileError(f"`meta` must contain JSON values: {error}.") from error
    if not is_equal:
        raise ModelFileError("`meta` must contain lists and keys of type str, which JSON restores.")
    if len(data) > MAX_HEADER:
        raise ModelFileError(
            f"`meta` and the names of arrays must take at most {MAX_HEADER:,} bytes; they take "
            f"{len(data):,}. Store numbers in arrays."
        )
    return data


def _decode_header(data: bytes) -> Header:
    try:
        fields = json.loads(data.decode())
        version, writer = fields["format_version"], fields["flyingsquid_version"]
        if type(version) is not int or version < 1 or not _VERSION_TEXT.fullmatch(writer):
            raise ValueError("its version is invalid")
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise ModelFileError(f"The header is damaged: {error}.") from error
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"The file has format version {reprlib.repr(version)}, written by FlyingSquid {writer}; "
            f"FlyingSquid {__version__} reads versions up to {FORMAT_VERSION}. Upgrade flyingsquid to read "
            "it."
        )
    try:
        arrays = tuple(_decode_spec(**spec) for spec in fields["arrays"])
        is_valid = (
            fields.keys() == _KEYS
            and type(fields["kind"]) is str
            and type(fields["meta"]) is dict
            and all(a.name < b.name for a, b in pairwise(arrays))
            # There is one way to write a header, so repeated keys and other spellings are damage.
            and _dump(fields) == data
        )
    except (TypeError, ValueError, KeyError, RecursionError):  # another type or name, or an infinite number
        is_valid = False
    if not is_valid:
        raise ModelFileError("The header is damaged: it is not in the form that FlyingSquid writes.")
    return Header(fields["kind"], fields["meta"], arrays, writer)


def _decode_spec(name: str, dtype: str, shape: list[int]) -> ArraySpec:
    if type(name) is not str or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("the name or the shape of an array is invalid")
    return ArraySpec(name, _BY_NAME[dtype], tuple(shape))


def _dump(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


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


# ---------------------------------------------------------------------- declared fields

# Counts up to here are exact in floats.
_LARGEST = 1 << 53
_WIDEST = 1e300


@dataclass(frozen=True, slots=True)
class Field:
    """Constraint on a value of a file: its description and a test that accepts any JSON value."""

    must: str
    test: Callable[[Any], bool]


TEXT = Field("a string", lambda value: type(value) is str)
BOOLEAN = Field("true or false", lambda value: type(value) is bool)
OBJECT = Field("an object", lambda value: type(value) is dict)
LABELS = Field(
    "a list of different class labels",
    lambda value: type(value) is list and _are_distinct(value),
)


def _are_distinct(values: list[Any]) -> bool:
    plain = all(type(value) in (str, int, bool, float) for value in values)
    return plain and len(set(values)) == len(values)


def integer(low: int = 0, high: int = _LARGEST) -> Field:
    """Return a field of integers."""
    return Field(f"an integer in [{low}, {high}]", lambda value: type(value) is int and low <= value <= high)


def finite(low: float = -_WIDEST, high: float = _WIDEST) -> Field:
    """Return a field of finite numbers."""

    def test(value: Any) -> bool:
        return type(value) in (int, float) and low <= value <= high and math.isfinite(value)

    return Field(f"a number in [{low:g}, {high:g}]", test)


def one_of(*values: str) -> Field:
    """Return a field of these strings."""
    return Field(f"one of {format_list(values)}", lambda value: type(value) is str and value in values)


def optional(field: Field) -> Field:
    """Return a field that may be null."""
    return Field(f"{field.must} or null", lambda value: value is None or field.test(value))


def list_of(field: Field, least: int = 0) -> Field:
    """Return a field of lists whose entries all satisfy one field."""

    def test(value: Any) -> bool:
        return type(value) is list and least <= len(value) and all(map(field.test, value))

    return Field(f"a list, each entry {field.must}", test)


def sequence_of(*fields: Field) -> Field:
    """Return a field of lists with one entry for each of ``fields``."""

    def test(value: Any) -> bool:
        if type(value) is not list or len(value) != len(fields):
            return False
        return all(field.test(entry) for field, entry in zip(fields, value, strict=True))

    return Field(f"a list of {', '.join(field.must for field in fields)}", test)


def check_fields(meta: Any, declared: Mapping[str, Field], what: str = "") -> None:
    """Raise ModelFileError unless ``meta`` has all declared fields with valid values.

    Fields that are not declared are ignored; ``what`` precedes the names in messages.
    """
    if type(meta) is not dict:
        name = what.rstrip(".") or "meta"
        raise ModelFileError(f"`{name}` in the file must be an object; got {format_value(meta)}.")
    for name, field in declared.items():
        if name not in meta:
            raise ModelFileError(f"`{what}{name}` is missing in the file.")
        if not field.test(meta[name]):
            shown = format_value(meta[name])
            raise ModelFileError(f"`{what}{name}` in the file must be {field.must}; got {shown}.")


def read_array(
    state: State,
    name: str,
    shape: tuple[int, ...],
    dtype: str = "float64",
    *,
    low: float = -np.inf,
    high: float = np.inf,
    may_be_nan: bool = False,
) -> NDArray[Any]:
    """Return an array of a state; raise ModelFileError for another shape or type, or values out of range."""
    array = state.arrays[name]
    if array.shape != shape or str(array.dtype) != dtype:
        raise ModelFileError(
            f"The array {format_value(name)} in the file must have shape {shape} and type {dtype}; got "
            f"{array.shape} and {array.dtype}."
        )
    values = array[~np.isnan(array)] if may_be_nan else array
    if not (np.isfinite(values).all() and (values >= low).all() and (values <= high).all()):
        raise ModelFileError(f"The array {format_value(name)} in the file must be in [{low:g}, {high:g}].")
    return array
