"""Write files atomically, compressed as their names imply."""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import gzip
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import Hint, VoteFileError
from flyingsquid.files.inputs import (
    BLOCK,
    StrPath,
    check_format,
    compression_of_name,
    format_of_name,
    located,
    need_pyarrow,
)
from flyingsquid.votes.codes import REASONS, Label

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

META = b"flyingsquid"
"""The key of our metadata in the schema of a columnar file."""
BINARY = ("npy", "npz", "parquet", "arrow")
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Beyond the end of any file, because Windows does not allow reading a locked byte.
_LOCKED_BYTE = 1 << 40
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@contextlib.contextmanager
def open_atomic(target: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces ``target`` if the block succeeds, and is removed otherwise.

    It is written under another name in the same directory, synced to disk and renamed, so that a crash at any
    moment leaves either the old or the complete new file. Without ``overwrite`` an existing file is an error
    (FileExistsError), at the start and again at the end.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    _check_free(target, overwrite)
    temporary = target.with_name(f".flyingsquid-{secrets.token_hex(8)}.tmp")
    try:  # around the creation: an interrupt may come before open() returns
        with open(temporary, "xb") as file:
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


def try_lock(file: BinaryIO) -> bool:
    """Lock an open file until it is closed or this process ends; return False if another holds the lock."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt  # noqa: PLC0415

            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def output(path: StrPath, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at ``path`` only if the block succeeds. ``-`` is standard output.

    Standard output, devices and pipes receive everything at the end, and nothing if the block fails.
    """
    shown = os.fspath(path)
    with located("standard output" if shown == "-" else shown), contextlib.ExitStack() as stack:
        if shown == "-" or (os.path.exists(shown) and not os.path.isfile(shown) and not os.path.isdir(shown)):
            file: Any = stack.enter_context(_copy_at_end(shown))
        else:
            # A symbolic link stays; its target is replaced.
            file = stack.enter_context(open_atomic(Path(os.path.realpath(shown)), overwrite=overwrite))
        compression = compression_of_name(shown)
        if compression == "gzip":
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))  # the same bytes every time
        elif compression == "zstd":
            file = stack.enter_context(_zstd(file))
        yield file


@contextlib.contextmanager
def _zstd(file: BinaryIO) -> Iterator[Any]:
    compressed = need_pyarrow("Writing zstd files").CompressedOutputStream(arrow_sink(file), "zstd")
    try:
        yield _Unseekable(compressed)
    finally:
        compressed.close()


def arrow_sink(file: BinaryIO) -> Any:
    """Wrap a file for pyarrow, which closes its files and must not close this one."""
    return need_pyarrow("Writing").PythonFile(_Unclosed(file), "w")


class _Unclosed:
    """A file that others cannot close."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.write, self.flush, self.tell = file.write, file.flush, file.tell

    def close(self) -> None:
        """Do nothing: the caller that opened the file closes it."""


class _Unseekable:
    """A pyarrow stream with the methods that text writers call."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Compress ``data``."""
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the stream is flushed when it is closed."""


@contextlib.contextmanager
def _copy_at_end(shown: str) -> Iterator[BinaryIO]:
    with tempfile.SpooledTemporaryFile(1 << 24, prefix="flyingsquid-") as file:
        yield file  # type: ignore[misc]  # a binary file in all but name
        file.seek(0)
        if shown == "-":
            shutil.copyfileobj(file, sys.stdout.buffer, BLOCK)
            sys.stdout.buffer.flush()
            return
        with open(shown, "wb") as target:
            shutil.copyfileobj(file, target, BLOCK)


def output_format(path: StrPath, declared: str | None, supported: tuple[str, ...]) -> str:
    """Return the format to write: declared, implied by the name, or csv for names without an ending."""
    check_format(declared)
    shown = os.fspath(path)
    found = declared or format_of_name(shown)
    if found is None and (shown == "-" or not os.path.splitext(shown)[1]):
        found = "csv"
    if found is None:
        raise VoteFileError(
            f"The format cannot be inferred from the file name; the formats are {', '.join(supported)}.",
            path=shown,
            hints=[Hint("format", "to choose a format")],
        )
    if found not in supported:
        raise VoteFileError(f"The format must be one of {', '.join(supported)}; got {found}.", path=shown)
    if found in BINARY and compression_of_name(shown):
        raise VoteFileError(f"{found} files are already compressed; remove the last suffix.", path=shown)
    return found


class Writer(contextlib.AbstractContextManager["Writer"]):
    """Base class of writers of one format, for use in a ``with`` block inside that of the file."""

    def __exit__(self, kind: Any, *_: object) -> None:
        (self.close if kind is None else self.drop)()

    def write(self, items: Any) -> None:
        """Append items."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is left; formats that write at once need not."""

    def drop(self) -> None:
        """Stop writing: the file is about to be removed."""


# ---------------------------------------------------------------------- cells


def text_file(file: BinaryIO) -> codecs.StreamWriter:
    """Wrap a binary file for text in UTF-8. Unlike a TextIOWrapper it never closes the file."""
    return codecs.getwriter("utf-8")(file)


def csv_writer(
    file: BinaryIO,
    format: str,
    *,
    escape_formulas: bool = False,  # as in open_votes
) -> Callable[[Iterable[Iterable[Any]]], None]:
    """Return a function that writes rows to a "csv" or "tsv" file."""
    writer = csv.writer(text_file(file), delimiter=DELIMITERS[format], lineterminator="\n")
    return lambda rows: writer.writerows(map(_escape_formulas, rows) if escape_formulas else rows)


def _escape_formulas(row: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before strings that a spreadsheet would run as a formula."""
    return [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA_STARTS) else c for c in row]


def label_text(label: Any) -> str:
    """Return a class label as the text of a cell."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def list_of_ids(ids: Any) -> list[Any]:
    """Return item identifiers as a list of Python values."""
    if isinstance(ids, list):
        return ids
    if hasattr(ids, "to_pylist"):
        return list(ids.to_pylist())
    return list(np.asarray(ids, None if isinstance(ids, np.ndarray) else object).tolist())


def id_array(ids: list[Any]) -> NDArray[Any]:
    """Return item identifiers as an array of integers or strings for npz."""
    if all(type(value) is int and abs(value) < 1 << 62 for value in ids):
        return np.array(ids, np.int64)
    return text_array(ids, "item")


def text_array(values: list[Any], what: str) -> NDArray[Any]:
    """Return names as an array of strings for npz."""
    texts = [str(value) for value in values]
    longest = max(map(len, texts), default=0)
    if any(text.endswith("\0") for text in texts):
        raise VoteFileError(f"npz cannot store the name of an {what} that ends with a NUL character.")
    if longest * len(texts) > 1 << 28:
        raise VoteFileError(
            f"npz cannot store the name of an {what} with {longest:,} characters; write parquet."
        )
    return np.array(texts, f"U{max(1, longest)}")


# ---------------------------------------------------------------------- columns


class LabelColumns:
    """Decode codes to columns of labels: integers and booleans directly, strings as dictionaries."""

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self._pyarrow = need_pyarrow("Writing columns")
        self._classes = classes
        self._texts = all(isinstance(label, str) for label in classes)
        if self._texts:
            reasons = [f"!{reason}" for reason in REASONS[1:]]
            self._dictionary = self._pyarrow.array([*classes, *reasons], "string")
        else:
            table = np.array(classes)
            integers = all(type(label) is int for label in classes)
            if integers:
                table = table.astype(np.min_scalar_type(-int(np.abs(table).max()) - 1))
            self._table = table
            self._are_codes = integers and np.array_equal(table, np.arange(len(table)))

    def column(self, codes: NDArray[Any]) -> Any:
        """Return a column of labels, null if it has none."""
        if not self._texts:
            missing = codes < 0
            known = np.maximum(codes, 0)
            labels = known.astype(self._table.dtype) if self._are_codes else np.take(self._table, known)
            return self._pyarrow.array(labels, mask=missing if missing.any() else None)
        k = len(self._classes)
        small = np.int8 if k < 120 else np.int16
        # Reasons follow the classes in the dictionary: -2 at K, -3 at K + 1, ...
        index = np.where(codes < -1, k - 2 - codes.astype(np.int64), codes).astype(small)
        indices = self._pyarrow.array(index, mask=codes == -1)
        return self._pyarrow.DictionaryArray.from_arrays(indices, self._dictionary)


def id_column(ids: Any) -> Any:
    """Return identifiers as a column."""
    pyarrow = need_pyarrow("Writing columns")
    if isinstance(ids, pyarrow.Array):
        return ids
    values = list(ids) if not isinstance(ids, np.ndarray) else ids
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    return pyarrow.array(values)


class ColumnarFile:
    """Write columns to parquet or arrow, each call as a row group or record batch.

    Parameters
    ----------
    file : binary file
    format : {"parquet", "arrow"}
    names : names of the columns
    metadata : JSON values about the votes, optional
    required : names of columns without missing values, optional
        They are stored without marks for missing values, in two thirds of the time.
    encode : callable, optional
        Takes the types of the columns, and returns options of ``pyarrow.parquet.ParquetWriter``.
    """

    def __init__(
        self,
        file: BinaryIO,
        format: str,  # as in write_votes
        names: Sequence[str],
        *,
        metadata: dict[str, Any] | None = None,
        required: Collection[str] = (),
        encode: Callable[[list[Any]], dict[str, Any]] | None = None,
    ) -> None:
        self._pyarrow = need_pyarrow(f"Writing {format}")
        self._file, self._format, self._names = file, format, names
        self._metadata, self._required, self._encode = metadata, required, encode
        self._writer: Any = None

    def write(self, columns: Sequence[Any]) -> None:
        """Append rows; the first ones determine the types of the columns."""
        if self._writer is None:
            self._writer = self._open([column.type for column in columns])
        columns = [column.cast(field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_batch(self._pyarrow.RecordBatch.from_arrays(columns, schema=self._schema))

    def _open(self, types: list[Any]) -> Any:
        about = None if self._metadata is None else {META: json.dumps(self._metadata).encode()}
        fields = [
            self._pyarrow.field(name, kind, nullable=name not in self._required)
            for name, kind in zip(self._names, types, strict=True)
        ]
        self._schema = self._pyarrow.schema(fields, metadata=about)
        sink = arrow_sink(self._file)
        if self._format == "arrow":
            return self._pyarrow.ipc.new_file(sink, self._schema)
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415  # an extra

        return ParquetWriter(sink, self._schema, **({} if self._encode is None else self._encode(types)))

    def close(self) -> None:
        """Write the end of the file."""
        if self._writer is None:
            raise VoteFileError("Nothing was written.")
        self._writer.close()
