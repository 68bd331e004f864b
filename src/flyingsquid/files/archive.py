"""Layout of model files: a zip archive without a free byte.

All bytes of an archive are determined by the names, sizes and checksums of its entries. A reader therefore
never parses an archive: it compares. No byte is free to differ, so damage shows wherever it is, and none of
the ways in which a zip archive can lie (two directories, overlapping entries, sizes that disagree, bombs,
paths) can be expressed. Field names follow PKWARE's APPNOTE 6.3; sizes are always the 64-bit ones, so that
one layout serves every size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
