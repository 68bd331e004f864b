"""Sizes of parquet pages and arrow batches in memory, read from their headers before they are decoded.

A few bytes of a compressed file can represent gigabytes, and pyarrow allocates the memory that a header
declares. Every codec fails if the data does not have the declared size, so it is enough to limit the declared
sizes.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import Hint, VoteFileError

MOST_BYTES = 1 << 28
"""Default limit; several times what usual writers put into a page or a batch."""
# Constant columns of pyarrow take a byte for some 3,500 rows.
_ROWS_PER_BYTE = 20_000
_DEPTH = 16
DELTA_BYTE_ARRAY = 7


def too_large_error(what: str, size: int, limit: int) -> VoteFileError:
    """Return the error for data that needs more memory than the limit."""
    return VoteFileError(
        f"{what} {size:,} bytes in memory; the limit is {limit:,}.",
        hints=[Hint("max_decoded_bytes", "to raise the limit if you trust the file")],
    )


def require_possible_rows(n_rows: int, n_bytes: int, limit: int) -> None:
    """Raise an error for files that declare implausibly many rows for their size."""
    most = limit + _ROWS_PER_BYTE * n_bytes
    if n_rows > most:
        raise VoteFileError(
            f"The file declares {format_count(n_rows, 'row')} in {n_bytes:,} bytes; the limit is {most:,}.",
            hints=[Hint("max_decoded_bytes", "to raise the limit if you trust the file")],
        )


# ---------------------------------------------------------------------- parquet


def check_pages(path: Path, metadata: Any, limit: int) -> bool:
    """Raise an error if the pages of a parquet file take too much memory.

    One page of each column is decoded at a time.

    Returns
    -------
    bool
        Whether strings share prefixes, so that values together may be much longer than their page.
    """
    has_prefixes = False
    if not metadata.num_row_groups:
        return has_prefixes
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _require_matching_statistics(data, metadata)
        for g in range(metadata.num_row_groups):
            group, total = metadata.row_group(g), 0
            for j in range(group.num_columns):
                chunk, largest = group.column(j), 0
                for size, encoding in _pages(data, chunk):
                    largest = max(largest, size)
                    has_prefixes |= encoding == DELTA_BYTE_ARRAY and chunk.physical_type == "BYTE_ARRAY"
                total += largest
                if total > limit:
                    name = format_value(chunk.path_in_schema)
                    raise too_large_error(f"The pages of the columns up to {name} take", total, limit)
    return has_prefixes


def _require_matching_statistics(data: Any, metadata: Any) -> None:
    """Raise an error if the size statistics of a column chunk do not fit its type.

    pyarrow ends the process when it describes such a chunk.
    """
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    try:
        groups = _thrift_struct(data, footer, _DEPTH)[0].get(4, [])
        for group in groups:
            for j, chunk in enumerate(group[1]):
                sizes = chunk.get(3, {}).get(16)
                if sizes is None:
                    continue
                column = metadata.schema.column(j)
                levels = ((2, column.max_repetition_level), (3, column.max_definition_level))
                fits = all(len(sizes.get(field) or ()) in (0, level + 1) for field, level in levels)
                if not fits or (1 in sizes and column.physical_type != "BYTE_ARRAY"):
                    raise ValueError("the statistics of a column do not fit its type")
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise VoteFileError("The file is damaged: the description of a column cannot be read.") from error


def _pages(data: Any, chunk: Any) -> Iterator[tuple[int, int | None]]:
    """Yield the decompressed size of each page of a column chunk, and the encoding of its values."""
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
    at = min((start for start in starts if start), default=0)
    end = at + chunk.total_compressed_size
    if not 0 < at <= end <= len(data):
        raise VoteFileError("The file is damaged: a column is outside of the file.")
    encoding: int | None
    while at < end:
        try:
            usual = _DATA_PAGE.match(data, at)
            if usual is not None:
                at = usual.end()
                size, packed, encoding = map(_integer, usual.groups())
            else:
                fields, at = _thrift_struct(data, at, _DEPTH)
                size, packed = fields[2], fields[3]
                values = fields.get(5) or fields.get(8) or {}
                encoding = values.get(2) if 5 in fields else values.get(4)
        except (IndexError, KeyError, struct.error, AttributeError, ValueError) as error:
            raise VoteFileError("The file is damaged: the header of a page cannot be read.") from error
        if type(size) is not int or type(packed) is not int or size < 0 or packed < 0:
            raise VoteFileError("The file is damaged: a page must have a size of at least 0.")
        yield size, encoding
        at += packed


def _data_page() -> re.Pattern[bytes]:
    """Return a pattern for the header of a data page in Thrift's compact protocol, as most writers write it.

    Its groups are the integers that :func:`_pages` needs. Statistics are skipped if they consist of
    booleans, integers and short strings.
    """

    def fields(*kinds: int) -> bytes:
        return b"[%b]" % b"".join(b"\\x%02x" % (16 * step + kind) for step in range(1, 16) for kind in kinds)

    integer = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
    texts = b"|".join(b"\\x%02x.{%d}" % (length, length) for length in range(9))
    statistics = rb"(?:%b|%b%b|%b(?:%b))*+\x00" % (fields(1, 2), fields(5, 6), integer, fields(8), texts)
    sizes = rb"\x15%b\x15(%b)\x15(%b)(?:\x15%b\x1c|\x2c)" % (4 * (integer,))  # the last one: a checksum
    values = rb"\x15%b\x15(%b)\x15%b\x15%b" % (4 * (integer,))
    return re.compile(rb"%b%b(?:\x1c%b)?\x00\x00" % (sizes, values, statistics), re.DOTALL)


# A column may have a page per 20,000 rows, and parsing all headers field by field takes a fifth of a fit.
_DATA_PAGE = _data_page()


@lru_cache(1 << 12)
def _integer(number: bytes) -> int:
    return int(_thrift_value(number, 0, 5, 0)[0])


def _varint(data: Any, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("an integer is too long")


def _thrift_struct(data: Any, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a struct of Thrift's compact protocol by field number.

    Integers, lists and structs are read, booleans are left out, and other values are None.
    """
    if not depth:
        raise ValueError("a struct is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        number += step
        if not step:
            number, at = _varint(data, at)
            number = (number >> 1) ^ -(number & 1)
        if kind not in (1, 2):  # a boolean has no value apart from its kind
            fields[number], at = _thrift_value(data, at, kind, depth)
    return fields, at + 1


def _thrift_value(data: Any, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        value = data[at]
        at += 1
        if value >= 0x80:
            value, at = _varint(data, at - 1)
        return (value >> 1) ^ -(value & 1), at
    if kind == 8:
        length, at = _varint(data, at)
        return None, at + length
    if kind in (1, 2, 3, 7):
        return None, at + (8 if kind == 7 else 1)
    if kind == 12:
        return _thrift_struct(data, at, max(depth - 1, 0))
    if kind in (9, 10):
        n, of = data[at] >> 4, data[at] & 15
        n, at = _varint(data, at + 1) if n == 15 else (n, at + 1)
        if not depth or n > len(data):
            raise ValueError("a list is nested too deeply or too long")
        values = []
        for _ in range(n):
            value, at = _thrift_value(data, at, of, depth - 1)
            values.append(value)
        return values, at
    raise ValueError(f"type {kind} does not occur in a parquet file")


# ---------------------------------------------------------------------- arrow


def check_batches(pyarrow: Any, source: Any, limit: int) -> None:
    """Raise an error if the compressed buffers of a batch of arrow messages take too much memory."""
    reader = pyarrow.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type not in ("record batch", "dictionary"):
            continue
        body = message.body
        total = 0
        for offset, length in _buffers(bytes(message.metadata), message.type == "dictionary"):
            if length >= 8 and offset + 8 <= body.size:
                (size,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
                total += max(0, size)
        if total > limit:
            raise too_large_error("A batch takes", total, limit)


def _buffers(metadata: bytes, is_dictionary: bool) -> list[tuple[int, int]]:
    """Return offset and length of each buffer of a batch; none if they are not compressed."""
    try:
        message = _flat_offset(metadata, 0)
        batch = _flat_offset(metadata, _flat_field(metadata, message, 2))
        if is_dictionary:
            batch = _flat_offset(metadata, _flat_field(metadata, batch, 1))
        if not _flat_field(metadata, batch, 3):  # compression
            return []
        vector = _flat_offset(metadata, _flat_field(metadata, batch, 2))
        (n,) = struct.unpack_from("<I", metadata, vector)
        return list(struct.iter_unpack("<qq", metadata[vector + 4 : vector + 4 + 16 * n]))
    except (struct.error, IndexError) as error:
        raise VoteFileError("The file is damaged: the header of a batch cannot be read.") from error


def _flat_offset(data: bytes, at: int) -> int:
    """Follow an offset of a flatbuffer."""
    return int(at + struct.unpack_from("<I", data, at)[0])


def _flat_field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field of a table of a flatbuffer; 0 if it is absent."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, layout)
    at = 4 + 2 * number
    if at + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, layout + at)
    return int(table + offset) if offset else 0
