"""Write states to files, atomically, and read them back.

A file is a zip archive all of whose bytes are determined by the names, sizes and checksums of its entries. A
reader therefore never parses an archive: it compares. No byte is free to differ, so damage shows wherever it
is, and none of the ways in which a zip archive can lie (two directories, overlapping entries, sizes that
disagree, bombs, paths) can be expressed. Field names follow PKWARE's APPNOTE 6.3; sizes are always the 64-bit
ones, so that one layout serves every size.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io.state import (
    MAX_HEADER,
    ArraySpec,
    Header,
    State,
    check_bits,
    check_state,
    decode_header,
    encode_header,
    header_of,
)

StrPath: TypeAlias = str | os.PathLike[str]
HEADER = "header.json"
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
    with replacing(Path(os.path.realpath(path))) as file:
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


# ---------------------------------------------------------------------- the zip archive


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


# ---------------------------------------------------------------------- atomic files


@contextlib.contextmanager
def replacing(target: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces ``target`` if the block succeeds, and is removed otherwise.

    It is written under another name in the same directory, synced to disk and renamed, so that a crash at any
    moment leaves either the old or the complete new file. Without ``overwrite`` an existing file is an error
    (FileExistsError), at the start and again at the end.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    _check_free(target, overwrite)
    temporary = target.with_name(f".flyingsquid-{secrets.token_hex(8)}.tmp")
    file = open(temporary, "xb")  # noqa: SIM115  # closed below, before it is renamed
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _check_free(target, overwrite)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:  # also for an interrupt
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)


def _check_free(target: Path, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power failure, on systems that allow directories to be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
