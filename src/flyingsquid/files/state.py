"""States: the arrays and JSON values of models and counts, written to files and read back.

A file can store a :class:`State` only if its types and values can be restored exactly; everything
else is rejected before anything is written.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value, plain_value
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.archive import (
    DTYPES,
    HEADER,
    MAX_DIMENSIONS,
    MAX_HEADER,
    ArraySpec,
    Entry,
    Header,
    Json,
    archive_size,
    check_meta,
    check_name,
    decode_header,
    directory,
    encode_header,
    entry_head,
    head_size,
    read_head,
)
from flyingsquid.files.inputs import StrPath
from flyingsquid.files.outputs import open_atomic

Scalar: TypeAlias = str | int | bool | float


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
        _require_regular(path)  # before opening, which would block on a pipe
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
                f"The file is damaged: the checksum of array {format_value(spec.name)} does not match."
            )
        check_bits(spec.name, array)
    if file.read() != directory(entries):
        raise ModelFileError("The file is damaged: its directory does not match its entries.")
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
            f"Out of memory while reading array {format_value(spec.name)} of {spec.nbytes:,} bytes."
        ) from error
    if file.readinto(_bytes_of(array)) != spec.nbytes:  # type: ignore[attr-defined]  # BinaryIO lacks it
        raise ModelFileError(f"The file is truncated within array {format_value(spec.name)}.")
    return array


# ---------------------------------------------------------------------- both


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


def check_state(state: State) -> None:
    """Raise ModelFileError if a file could not restore this state exactly."""
    check_name(state.kind, "`kind`")
    check_meta(state.meta)
    if type(state.arrays) is not dict:
        raise ModelFileError(f"`arrays` must be a dict of arrays; got {type(state.arrays).__name__}.")
    for name, array in state.arrays.items():
        check_name(name, "The name of an array")
        _check_array(name, array)


def check_bits(name: str, array: NDArray[Any]) -> None:
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
    check_bits(name, array)


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


def header_of(state: State) -> Header:
    """Return the header of a checked state."""
    specs = (ArraySpec(name, a.dtype.newbyteorder("<"), a.shape) for name, a in state.arrays.items())
    return Header(state.kind, state.meta, tuple(sorted(specs, key=lambda spec: spec.name)))
