"""States: the arrays and JSON values of models and counts, written to files and read back.

A file can store a :class:`State` only if reading gives back exactly the same types and values; everything
else is rejected before anything is written.
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

from flyingsquid._values import told
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.archive import Entry, archive_size, directory, entry_head, head_size, read_head
from flyingsquid.files.inputs import StrPath
from flyingsquid.files.outputs import open_atomic

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
Scalar: TypeAlias = str | int | bool | float

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
_KEYS = {"format", "format_version", "flyingsquid_version", "kind", "meta", "arrays"}
_ARRAY_KEYS = {"name", "dtype", "shape", "bytes"}
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
        the keys of a dict, so an order that matters goes into a list.
    arrays : dict of arrays of any shape
        Booleans, integers of 8 to 64 bits, floats of 16 to 64 bits. Strings go into ``meta``.
        Names are identifiers, joined by dots: ``"moments.pair_counts"``.
    """

    kind: str
    meta: dict[str, Json]
    arrays: dict[str, NDArray[Any]]


def write_state(path: StrPath, state: State) -> None:
    """Write a state to ``path``, replacing an existing file.

    The same state gives the same bytes. A failure leaves an existing file as it was.

    Raises
    ------
    ModelFileError
        If a file could not give the state back exactly.
    OSError
        If the file cannot be written.
    """
    _require_path(path)
    with _located(path):
        check_state(state)
        data = encode_header(header_of(state))
        _require_regular(path)
    with open_atomic(Path(os.path.realpath(path))) as file:
        _pack(file, data, state)


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
        _require_regular(path)  # before opening, which would wait for ever on a pipe
        with open(path, "rb") as file:
            return _unpack(file, os.fstat(file.fileno()).st_size)


# ---------------------------------------------------------------------- writing


def _pack(file: BinaryIO, header: bytes, state: State) -> None:
    entries = [Entry(HEADER, len(header), crc32(header))]
    file.write(entry_head(entries[0]) + header)
    for spec in header_of(state).arrays:
        data = _bytes_of(np.asarray(state.arrays[spec.name], dtype=spec.dtype, order="C"))
        entry = Entry(spec.entry, spec.nbytes, crc32(data))
        file.write(entry_head(entry))
        file.write(data)
        entries.append(entry)
    file.write(directory(entries))


# ---------------------------------------------------------------------- reading


def _unpack(file: BinaryIO, size: int) -> State:
    header, entry = _read_header(file, size)
    declared = archive_size([(HEADER, entry.size), *((spec.entry, spec.nbytes) for spec in header.arrays)])
    # Before anything is allocated: entries are stored uncompressed, so the sizes must add up.
    if size != declared:
        what = "truncated" if size < declared else "damaged"
        raise ModelFileError(
            f"The file is {what}: its header declares {declared:,} bytes and it has {size:,}."
        )
    entries, arrays = [entry], {}
    for spec in header.arrays:
        head = file.read(head_size(spec.entry))
        arrays[spec.name] = array = _read_array(file, spec)
        entries.append(Entry(spec.entry, spec.nbytes, crc32(_bytes_of(array))))
        if head != entry_head(entries[-1]):
            raise ModelFileError(
                f"The file is damaged: the checksum of array {told(spec.name)} does not match."
            )
        check_bits(spec.name, array)
    if file.read() != directory(entries):
        raise ModelFileError("The file is damaged: its directory of entries does not match.")
    return State(header.kind, header.meta, arrays)


def _read_header(file: BinaryIO, size: int) -> tuple[Header, Entry]:
    entry = read_head(HEADER, file.read(head_size(HEADER)))
    if entry is None:
        raise ModelFileError(
            "This is not a FlyingSquid file; it has another format, is damaged, or was repacked by another "
            "program."
        )
    if entry.size > min(MAX_HEADER, size):
        raise ModelFileError(
            f"The file is truncated or damaged: {HEADER} declares {entry.size:,} bytes, which is too large."
        )
    data = file.read(entry.size)
    if (len(data), crc32(data)) != (entry.size, entry.crc):
        raise ModelFileError(f"The file is damaged: the checksum of {HEADER} does not match.")
    return decode_header(data), entry


def _read_array(file: BinaryIO, spec: ArraySpec) -> NDArray[Any]:
    try:
        array = np.empty(spec.shape, spec.dtype)
    except MemoryError as error:
        raise ModelFileError(
            f"Out of memory while reading array {told(spec.name)} of {spec.nbytes:,} bytes."
        ) from error
    if file.readinto(_bytes_of(array)) != spec.nbytes:  # type: ignore[attr-defined]  # BinaryIO lacks it
        raise ModelFileError(f"The file is truncated within array {told(spec.name)}.")
    return array


# ---------------------------------------------------------------------- both


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the memory of a C-contiguous array, shape (nbytes,), shared."""
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


def check_state(state: State) -> None:
    """Raise ModelFileError if a file could not give this state back exactly."""
    check_name(state.kind, "`kind`")
    check_meta(state.meta)
    if type(state.arrays) is not dict:
        raise ModelFileError(f"`arrays` must be a dict of arrays; got {type(state.arrays).__name__}.")
    for name, array in state.arrays.items():
        check_name(name, "The name of an array")
        _check_array(name, array)


def check_name(name: object, what: str) -> None:
    """Require identifiers joined by dots, because the name becomes part of an entry's name."""
    if type(name) is not str or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ModelFileError(
            f"{what} must be ASCII identifiers joined by dots, at most {_MAX_NAME} characters; got "
            f"{reprlib.repr(name)}."
        )


def check_meta(meta: object) -> None:
    """Raise ModelFileError if JSON would not give back the same types and values."""
    if type(meta) is not dict:
        raise ModelFileError(f"`meta` must be a dict of JSON values; got {type(meta).__name__}.")
    problem = _problem(meta, MAX_DEPTH)
    if problem:
        raise ModelFileError(f"`meta{problem}.")


def check_bits(name: str, array: NDArray[Any]) -> None:
    """Require that the bytes of booleans are 0 or 1; operations on others are undefined."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"Array {told(name)} contains booleans that are neither 0 nor 1.")


def _check_array(name: str, array: object) -> None:
    # A subclass carries more than its bytes, such as a mask.
    if type(array) is not np.ndarray:
        raise ModelFileError(f"Array {told(name)} must be a numpy.ndarray; got {type(array).__name__}.")
    if array.dtype.kind not in "biuf" or array.dtype.newbyteorder("<") not in DTYPES:
        raise ModelFileError(
            f"Array {told(name)} must have one of the types {', '.join(DTYPES.values())}; got {array.dtype}."
        )
    if array.ndim > MAX_DIMENSIONS:
        raise ModelFileError(
            f"Array {told(name)} must have at most {MAX_DIMENSIONS} dimensions; got {array.ndim}."
        )
    check_bits(name, array)


def _problem(value: object, levels: int) -> str:
    """Describe what is wrong and where, as ``['key'][3]` must ...``; empty if nothing is."""
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


# ---------------------------------------------------------------------- class labels


def encode_labels(labels: tuple[Any, ...]) -> list[Scalar]:
    """Return class labels as a list that JSON gives back with the same types.

    JSON keeps ``true``, ``1``, ``1.0`` and ``"1"`` apart. NumPy scalars become the equal Python values.

    Examples
    --------
    >>> encode_labels(("ham", 1, 1.0, True))
    ['ham', 1, 1.0, True]
    """
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return [_check_label(label, at) for at, label in enumerate(plain)]


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


# ---------------------------------------------------------------------- header.json


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


def header_of(state: State) -> Header:
    """Return the header of a checked state."""
    specs = (ArraySpec(name, a.dtype.newbyteorder("<"), a.shape) for name, a in state.arrays.items())
    return Header(state.kind, state.meta, tuple(sorted(specs, key=lambda spec: spec.name)))


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
        raise ModelFileError("The header is damaged: FlyingSquid would write it differently.")
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
        raise ModelFileError("This is not a FlyingSquid file: its header does not say so.")
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
        raise ModelFileError(f"The header is damaged: array {told(name)} has the type {reprlib.repr(dtype)}.")
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise ModelFileError(
            f"The header is damaged: array {told(name)} has the shape {reprlib.repr(shape)}."
        )
    spec = ArraySpec(name, _BY_NAME[dtype], tuple(shape))
    # An array without elements still has strides, which must not overflow.
    if math.prod(n for n in shape if n) * spec.dtype.itemsize > _MAX_BYTES:
        raise ModelFileError(
            f"The header is damaged: array {told(name)} has the shape {reprlib.repr(shape)}."
        )
    if type(fields["bytes"]) is not int or fields["bytes"] != spec.nbytes:
        raise ModelFileError(
            f"The header is damaged: array {told(name)} declares {reprlib.repr(fields['bytes'])} bytes; its "
            f"shape and type take {spec.nbytes:,}."
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
        raise ModelFileError(f"The header is damaged: it contains a number of {len(digits):,} digits.")
    return int(digits)
