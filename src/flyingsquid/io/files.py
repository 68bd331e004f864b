"""States to files, whole or not at all, and back."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import archive
from flyingsquid.io.archive import Entry
from flyingsquid.io.atomic import replacing
from flyingsquid.io.header import MAX_HEADER, ArraySpec, Header, decode_header, encode_header, header_of
from flyingsquid.io.state import State, check_bits, check_state

StrPath: TypeAlias = str | os.PathLike[str]
HEADER = "header.json"


def write_state(path: StrPath, state: State) -> None:
    """Write a state to ``path``, replacing a file that is there.

    The same state gives the same bytes. The file appears whole or not at all: it is written
    under another name beside ``path`` and then renamed, so a failure leaves what was there.

    Raises
    ------
    ModelFileError
        If the state holds what a file could not give back exactly.
    OSError
        If the place cannot be written to.
    """
    _require_path(path)
    with _located(path):
        check_state(state)
        data = encode_header(header_of(state))
        _require_regular(path)
    with replacing(Path(os.path.realpath(path))) as file:
        _pack(file, data, state)


def read_state(path: StrPath) -> State:
    """Read what :func:`write_state` wrote. Arrays are new, writeable, and equal to the bit.

    No more memory is taken than the size of the file justifies, nothing is unpacked to disk,
    and nothing in the file is ever run.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, no FlyingSquid file, or of a newer format.
    OSError
        If there is no such file, or it may not be read.
    """
    _require_path(path)
    with _located(path):
        _require_regular(path)  # before opening, which waits for ever on a pipe
        with open(path, "rb") as file:
            return _unpack(file, os.fstat(file.fileno()).st_size)


# ---------------------------------------------------------------------- writing


def _pack(file: BinaryIO, header: bytes, state: State) -> None:
    entries = [Entry(HEADER, len(header), crc32(header))]
    file.write(archive.entry_head(entries[0]) + header)
    for spec in header_of(state).arrays:
        data = _bytes_of(np.asarray(state.arrays[spec.name], dtype=spec.dtype, order="C"))
        entry = Entry(spec.entry, spec.nbytes, crc32(data))
        file.write(archive.entry_head(entry))
        file.write(data)
        entries.append(entry)
    file.write(archive.directory(entries))


# ---------------------------------------------------------------------- reading


def _unpack(file: BinaryIO, size: int) -> State:
    header, entry = _read_header(file, size)
    declared = archive.archive_size(
        [(HEADER, entry.size), *((spec.entry, spec.nbytes) for spec in header.arrays)]
    )
    # Before anything is allocated: entries are stored as they are, so the sizes must add up.
    if size != declared:
        what = "truncated" if size < declared else "damaged"
        raise ModelFileError(f"the header declares {declared:,} bytes and there are {size:,}; {what}")
    entries, arrays = [entry], {}
    for spec in header.arrays:
        head = file.read(archive.head_size(spec.entry))
        arrays[spec.name] = array = _read_array(file, spec)
        entries.append(Entry(spec.entry, spec.nbytes, crc32(_bytes_of(array))))
        if head != archive.entry_head(entries[-1]):
            raise ModelFileError(f"array {told(spec.name)} is damaged: its checksum or entry does not match")
        check_bits(spec.name, array)
    if file.read() != archive.directory(entries):
        raise ModelFileError("the directory of entries is damaged")
    return State(header.kind, header.meta, arrays)


def _read_header(file: BinaryIO, size: int) -> tuple[Header, Entry]:
    entry = archive.read_head(HEADER, file.read(archive.head_size(HEADER)))
    if entry is None:
        raise ModelFileError(
            "this does not begin as FlyingSquid files do; it is something else, damaged, or packed anew "
            "by another program"
        )
    if entry.size > min(MAX_HEADER, size):
        raise ModelFileError(f"{HEADER} declares {entry.size:,} bytes, too large; truncated or damaged")
    data = file.read(entry.size)
    if (len(data), crc32(data)) != (entry.size, entry.crc):
        raise ModelFileError(f"{HEADER} is damaged: its checksum does not match")
    return decode_header(data), entry


def _read_array(file: BinaryIO, spec: ArraySpec) -> NDArray[Any]:
    try:
        array = np.empty(spec.shape, spec.dtype)
    except MemoryError as error:
        raise ModelFileError(
            f"array {told(spec.name)} takes {spec.nbytes:,} bytes; memory has no room"
        ) from error
    if file.readinto(_bytes_of(array)) != spec.nbytes:  # type: ignore[attr-defined]  # BinaryIO lacks it
        raise ModelFileError(f"array {told(spec.name)} is cut off; truncated")
    return array


# ---------------------------------------------------------------------- both


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """The memory of a C-contiguous array, shape (nbytes,), shared."""
    # By way of NumPy, because a memoryview without elements cannot be cast.
    return array.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _located(path: StrPath) -> Iterator[None]:
    """Put the path before the message."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error


def _require_path(path: Any) -> None:
    """Refuse what no file can be named by."""
    try:
        named = os.fsencode(path)
    except (TypeError, UnicodeError) as error:
        raise ModelFileError(f"{type(path).__name__} is no path of a file: {error}") from error
    if b"\0" in named:
        raise ModelFileError("a path of a file cannot hold the character NUL")


def _require_regular(path: StrPath) -> None:
    """Refuse devices and pipes. Missing files and directories are left to the system's errors."""
    if not os.path.exists(os.fspath(path)) or os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise ModelFileError("this is a device or a pipe; a regular file is needed")
