"""Write files atomically, compressed as their names imply."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from flyingsquid._values import option_error
from flyingsquid.exceptions import Hint, VoteFileError
from flyingsquid.files.inputs import (
    BLOCK,
    StrPath,
    compression_of_name,
    format_of_name,
    located,
    need_pyarrow,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BINARY = ("npy", "npz", "parquet", "arrow")
# Beyond the end of any file, because Windows does not allow reading a locked byte.
_LOCKED_BYTE = 1 << 40


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
    """Return the format to write: declared, implied by the name, or csv for names without an ending.

    The packages that the format needs are required, too.
    """
    if declared is not None and declared not in supported:
        raise option_error("format", f"one of {', '.join(supported)}", declared)
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
    if found in ("parquet", "arrow"):
        need_pyarrow(f"Writing {found}")
    return found
