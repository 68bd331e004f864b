"""Files that appear completely or not at all, their formats, and one writer of columns per format."""

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
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import option_error
from flyingsquid.exceptions import Hint, ModelFileError, VoteFileError
from flyingsquid.files.columns import list_of_values
from flyingsquid.files.inputs import (
    BLOCK,
    DELIMITERS,
    StrPath,
    add_path_to_errors,
    compression_of_name,
    format_of_name,
    import_pyarrow,
    standard_stream,
)
from flyingsquid.kernels import n_threads
from flyingsquid.votes.codes import REASONS, Label

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BINARY = ("npy", "npz", "parquet", "arrow")
# Beyond the end of any file, because Windows does not allow reading a locked byte.
_LOCKED_BYTE = 1 << 40
_TEMPORARY = ".flyingsquid-"
# Much longer than it takes to lock a file that was created.
_NEW_SECONDS = 10.0


@contextlib.contextmanager
def open_atomic(target: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces ``target`` if the block succeeds, and is removed otherwise.

    It is written under another name in the same directory, synced to disk and renamed, so that a crash at any
    moment leaves either the old or the complete new file. Files that killed processes left in the directory
    are removed. Without ``overwrite`` an existing file is an error (FileExistsError), at the start and again
    at the end. An OSError of the system has the name of ``target``.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    _check_free(target, overwrite)
    _remove_abandoned(target.parent)
    temporary = target.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}.tmp")
    try:  # around the creation: an interrupt may come before open() returns
        with open(temporary, "xb") as file:
            try_lock(file)  # until it is closed: others do not remove it
            yield file
            file.flush()
            os.fsync(file.fileno())
            _check_free(target, overwrite)
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            if os.name != "nt":  # before the lock is released
                os.replace(temporary, target)
        if os.name == "nt":  # Windows does not rename an open file
            os.replace(temporary, target)
    except BaseException as error:  # also for an interrupt
        with contextlib.suppress(OSError):
            temporary.unlink()
        # An error without a number, as from pyarrow, loses its message if it has a file name.
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = str(target)
        raise
    _sync_directory(target.parent)


def _remove_abandoned(directory: Path) -> None:
    """Remove the temporary files of processes that were killed: those that nobody has locked."""
    for path in directory.glob(f"{_TEMPORARY}*.tmp"):
        with contextlib.suppress(OSError):
            # A file may be new and not locked yet, so it is left alone for a while.
            if time.time() - path.stat().st_mtime < _NEW_SECONDS:
                continue
            with open(path, "r+b") as file:
                is_abandoned = try_lock(file)
            if is_abandoned:
                path.unlink()


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
def locked(path: str, message: str) -> Iterator[None]:
    """Hold the lock of a file that is replaced again and again; raise ``message`` if another process does.

    The lock is a file next to it, which is removed at the end.
    """
    lock = f"{path}.lock"
    with contextlib.ExitStack() as stack:
        with add_path_to_errors(lock):
            file = stack.enter_context(open(lock, "ab"))
            # If the process that held the lock has just removed the file, this lock is not the current one.
            if not try_lock(file) or not _is_at(file, lock):
                raise ModelFileError(message, path=path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows does not remove an open file
                os.unlink(lock)


def _is_at(file: BinaryIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def output(path: StrPath, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at ``path`` only if the block succeeds. ``-`` is standard output.

    Standard output, devices and pipes receive everything at the end, and nothing if the block fails.
    """
    shown = os.fspath(path)
    with add_path_to_errors("standard output" if shown == "-" else shown), contextlib.ExitStack() as stack:
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
    compressed = import_pyarrow("Writing zstd files").CompressedOutputStream(arrow_sink(file), "zstd")
    try:
        yield _Unseekable(compressed)
    finally:
        compressed.close()


def arrow_sink(file: BinaryIO) -> Any:
    """Wrap a file for pyarrow, which closes its files and must not close this one."""
    return import_pyarrow("Writing").PythonFile(_Unclosed(file), "w")


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
    standard = standard_stream("stdout") if shown == "-" else None
    with tempfile.SpooledTemporaryFile(1 << 24, prefix="flyingsquid-") as file:
        yield file  # type: ignore[misc]  # a binary file in all but name
        file.seek(0)
        if standard is not None:
            shutil.copyfileobj(file, standard, BLOCK)
            standard.flush()
            return
        with open(shown, "wb") as target:
            shutil.copyfileobj(file, target, BLOCK)


def output_format(
    path: StrPath, declared: str | None, supported: tuple[str, ...], *, parameter: str = "format"
) -> str:
    """Return the format to write: declared, implied by the name, or csv for names without an ending.

    The packages that the format needs are required, too. ``parameter`` is the name of ``declared`` in errors.
    """
    if declared is not None and declared not in supported:
        raise option_error(parameter, f"one of {', '.join(supported)}", declared)
    shown = os.fspath(path)
    found = declared or format_of_name(shown)
    if found is None and (shown == "-" or not os.path.splitext(shown)[1]):
        found = "csv"
    if found is None:
        raise VoteFileError(
            f"The format cannot be inferred from the file name; the formats are {', '.join(supported)}.",
            path=shown,
            hints=[Hint(parameter, "to choose a format")],
        )
    if found not in supported:
        raise VoteFileError(f"The format must be one of {', '.join(supported)}; got {found}.", path=shown)
    if found in BINARY and compression_of_name(shown):
        raise VoteFileError(f"{found} files are already compressed; remove the last suffix.", path=shown)
    if found in ("parquet", "arrow"):
        import_pyarrow(f"Writing {found}")
    return found


# ---------------------------------------------------------------------- tables, some rows at a time

META = b"flyingsquid"
"""The key of our metadata in the schema of a columnar file."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# As JSON spells it; pandas and polars read these as bools.
_TRUTH = ("false", "true")


class TableWriter(contextlib.AbstractContextManager["TableWriter"]):
    """Base class of writers of one format, for use in a ``with`` block inside that of the file.

    :meth:`values`, :meth:`labels` and :meth:`group` return columns in the form that the format needs, and
    :meth:`write` appends them.
    """

    def values(self, values: Any) -> Any:
        """Return identifiers, numbers or booleans as a column."""
        return list_of_values(values)

    def labels(self, codes: NDArray[Any]) -> Any:
        """Return the class labels of codes as a column."""
        raise NotImplementedError

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:  # noqa: ARG002
        """Return columns that belong together; one column of objects or lists in nested formats."""
        return list(columns)

    def write(self, columns: Sequence[Any]) -> None:
        """Append rows."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is left; formats that write at once need not."""

    def drop(self) -> None:
        """Stop writing: the file is about to be removed."""

    def __exit__(self, kind: Any, *_: object) -> None:
        (self.close if kind is None else self.drop)()


class _TextWriter(TableWriter):
    """Base class of writers of text; ``labels`` and ``missing`` are cells for classes and for no label."""

    def __init__(self, labels: Sequence[Any], missing: Any) -> None:
        # The cell of each code: classes from the front, reasons and "no vote" from the back.
        reasons = [f"!{reason}" for reason in reversed(REASONS[1:])]
        self._cells = np.empty(len(labels) + len(REASONS), object)
        self._cells[:] = [*labels, *reasons, missing]

    def labels(self, codes: NDArray[Any]) -> Any:
        return self._cells[codes].tolist()


class DelimitedWriter(_TextWriter):
    """csv and tsv: a line of names, then one line per row; blank for no label."""

    def __init__(
        self,
        file: BinaryIO,
        format: str,  # as in write_votes
        names: Sequence[str],
        classes: tuple[Label, ...] = (),
        *,
        escape_formulas: bool = False,
    ) -> None:
        self._rows = csv.writer(text_file(file), delimiter=DELIMITERS[format], lineterminator="\n")
        self._escape = escape_formulas
        super().__init__([label_text(label) for label in classes], "")
        self.write([[name] for name in names])

    def values(self, values: Any) -> list[Any]:
        found = list_of_values(values)
        are_booleans = isinstance(values, np.ndarray) and values.dtype == np.bool_
        return [_TRUTH[value] for value in found] if are_booleans else found

    def write(self, columns: Sequence[Any]) -> None:
        rows = zip(*columns, strict=True)
        self._rows.writerows(map(_escape_formulas, rows) if self._escape else rows)


class JsonLinesWriter(_TextWriter):
    """JSON lines: one object per row; null for no label."""

    def __init__(self, file: BinaryIO, names: Sequence[str], labels: Sequence[Any] = ()) -> None:
        self._text, self._names = text_file(file), names
        super().__init__(labels, None)

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:
        rows = zip(*columns, strict=True)
        return [list(map(list, rows)) if keys is None else [dict(zip(keys, r, strict=True)) for r in rows]]

    def write(self, columns: Sequence[Any]) -> None:
        rows = zip(*columns, strict=True)
        lines = [json.dumps(dict(zip(self._names, row, strict=True))) + "\n" for row in rows]
        self._text.write("".join(lines))


class ArrayWriter(TableWriter):
    """npz: one array per column, the first one identifiers, and ``classes``. Rows are collected first."""

    def __init__(self, file: BinaryIO, names: Sequence[str], labels: Sequence[Any]) -> None:
        self._file, self._names, self._labels = file, names, labels
        self._parts: list[Sequence[Any]] = []

    def values(self, values: Any) -> Any:
        return values

    def labels(self, codes: NDArray[Any]) -> NDArray[Any]:
        return codes

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:  # noqa: ARG002
        return [np.stack(list(columns), axis=1)]

    def write(self, columns: Sequence[Any]) -> None:
        self._parts.append(columns)

    def close(self) -> None:
        ids = [value for part in self._parts for value in list_of_values(part[0])]
        arrays = {self._names[0]: id_array(ids)}
        for j, name in enumerate(self._names[1:], start=1):
            arrays[name] = np.concatenate([part[j] for part in self._parts]) if self._parts else np.empty(0)
        arrays["classes"] = np.array(json.dumps(self._labels))
        np.savez_compressed(self._file, **arrays)  # type: ignore[arg-type]  # numpy < 2.4 has no such overload


class ColumnarWriter(TableWriter):
    """parquet and arrow: each call is a row group or record batch, encoded on a thread.

    Labels that are strings are dictionaries; null for no label.

    Parameters
    ----------
    file : binary file
    format : {"parquet", "arrow"}
    names : names of the columns
    classes : tuple of labels
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
        classes: tuple[Label, ...],
        *,
        metadata: dict[str, Any] | None = None,
        required: Collection[str] = (),
        encode: Callable[[list[Any]], dict[str, Any]] | None = None,
    ) -> None:
        self._pyarrow = import_pyarrow(f"Writing {format}")
        self._file, self._format, self._names, self._classes = file, format, names, classes
        self._metadata, self._required, self._encode = metadata, required, encode
        self._writer: Any = None
        self._pool, self._is_parallel = ThreadPoolExecutor(1, "flyingsquid-write"), n_threads() > 1
        self._last: Future[None] | None = None
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

    def values(self, values: Any) -> Any:
        if isinstance(values, self._pyarrow.Array):
            return values
        if isinstance(values, np.ndarray):
            # A copy, since the caller may fill the same array again while it is encoded.
            values = values.tolist() if values.dtype.kind == "O" else values.copy()
        return self._pyarrow.array(values if isinstance(values, np.ndarray) else list(values))

    def labels(self, codes: NDArray[Any]) -> Any:
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

    def write(self, columns: Sequence[Any]) -> None:
        self._wait()
        self._last = self._pool.submit(self.encode, columns)
        if not self._is_parallel:
            self._wait()

    def _wait(self) -> None:
        """Wait until the last rows are encoded, and raise the error of encoding them."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def encode(self, columns: Sequence[Any]) -> None:
        """Append rows at once; the first ones determine the types of the columns."""
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
        with self._pool:
            self._wait()
        if self._writer is None:
            raise VoteFileError("Nothing was written.")
        self._writer.close()

    def drop(self) -> None:
        self._pool.shutdown()
        self._writer = None  # collected now: pyarrow then writes the end of the file, which is still open


# ---------------------------------------------------------------------- cells


def text_file(file: BinaryIO) -> codecs.StreamWriter:
    """Wrap a binary file for text in UTF-8. Unlike a TextIOWrapper it never closes the file."""
    return codecs.getwriter("utf-8")(file)


def label_text(label: Any) -> str:
    """Return a class label as the text of a cell."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _escape_formulas(row: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before strings that a spreadsheet would run as a formula."""
    return [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA_STARTS) else c for c in row]


def id_array(ids: list[Any]) -> NDArray[Any]:
    """Return item identifiers as an array of integers or strings for npz."""
    if all(type(value) is int and abs(value) < 1 << 62 for value in ids):
        return np.array(ids, np.int64)
    return text_array(ids, "item")


def text_array(values: Sequence[Any], what: str) -> NDArray[Any]:
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
