"""Where files are written to: whole or not at all, packed by their name."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.recognise import check_format, format_of_name, packing_of_name
from flyingsquid.formats.streams import BLOCK, located, need_pyarrow
from flyingsquid.io.atomic import replacing

BINARY = ("npy", "npz", "parquet", "arrow")


@contextlib.contextmanager
def output(path: str | os.PathLike[str], *, force: bool) -> Iterator[BinaryIO]:
    """A file to write to, which appears at ``path`` when all went well. ``-`` is standard output.

    Standard output, and devices and pipes, get everything at the end, and nothing if something fails.
    """
    shown = os.fspath(path)
    with located("standard output" if shown == "-" else shown), contextlib.ExitStack() as stack:
        if shown == "-" or (os.path.exists(shown) and not os.path.isfile(shown) and not os.path.isdir(shown)):
            file: Any = stack.enter_context(_at_the_end(shown))
        else:
            # A link stays a link; what it leads to is replaced.
            file = stack.enter_context(replacing(Path(os.path.realpath(shown)), force=force))
        packing = packing_of_name(shown)
        if packing == "gzip":
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))  # the same bytes every time
        elif packing == "zstd":
            pyarrow = need_pyarrow("a file packed with zstd")
            file = stack.enter_context(_zstd(pyarrow, file))
        yield file


@contextlib.contextmanager
def _zstd(pyarrow: Any, file: BinaryIO) -> Iterator[Any]:
    packed = pyarrow.CompressedOutputStream(sink(file), "zstd")
    try:
        yield _Unseekable(packed)
    finally:
        packed.close()


def sink(file: BinaryIO) -> Any:
    """A file as pyarrow writes to it; pyarrow closes what it is given, and must not close this."""
    return need_pyarrow("writing").PythonFile(_Unclosed(file), "w")


class _Unclosed:
    """A file that others cannot close."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.write, self.flush, self.tell = file.write, file.flush, file.tell

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""


class _Unseekable:
    """A stream of pyarrow with what text writers ask for."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Pack ``data``."""
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing: the end is what counts."""


@contextlib.contextmanager
def _at_the_end(shown: str) -> Iterator[BinaryIO]:
    with tempfile.SpooledTemporaryFile(1 << 24, prefix="flyingsquid-") as file:
        yield file  # type: ignore[misc]  # a binary file in all but name
        file.seek(0)
        if shown == "-":
            shutil.copyfileobj(file, sys.stdout.buffer, BLOCK)
            sys.stdout.buffer.flush()
            return
        with open(shown, "wb") as target:
            shutil.copyfileobj(file, target, BLOCK)


class TextFile:
    """Texts to a binary file as UTF-8. Unlike TextIOWrapper it never closes what it writes to."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write ``text``."""
        self._file.write(text.encode("utf-8", "surrogatepass"))
        return len(text)


def output_format(
    path: str | os.PathLike[str], declared: str | None, known: tuple[str, ...], default: str
) -> str:
    """The format to write: declared, or by the name, or ``default`` for standard output."""
    check_format(declared)
    shown = os.fspath(path)
    found = (
        declared
        or format_of_name(shown)
        or (default if shown == "-" or not os.path.splitext(shown)[1] else None)
    )
    if found is None:
        raise VoteFileError(
            f"{shown}: the name tells no format; format= (--format) is one of {', '.join(known)}"
        )
    if found not in known:
        raise VoteFileError(f"{shown}: this cannot be written as {found}; one of {', '.join(known)}")
    if found in BINARY and packing_of_name(shown):
        raise VoteFileError(f"{shown}: {found} is not packed once more; leave out the last ending")
    return found
