"""Bytes of files and of standard input, unpacked on the way; text in blocks of whole lines."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, VoteFileError, VotesError

BLOCK = 1 << 20
LONGEST_LINE = 1 << 26
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Input:
    """A file that can be read again and again.

    Attributes
    ----------
    shown : how messages call it
    path : where it is on disk; a copy, for standard input
    compression : None, "gzip" or "zstd", by its first bytes
    keeper : what must live as long as the file
    """

    shown: str
    path: Path
    compression: str | None = None
    keeper: Any = None

    def open(self) -> Any:
        """The bytes, unpacked."""
        if self.compression == "gzip":
            return gzip.open(self.path, "rb")
        if self.compression == "zstd":
            pyarrow = need_pyarrow("a file packed with zstd")
            return pyarrow.CompressedInputStream(pyarrow.OSFile(str(self.path)), "zstd")
        return open(self.path, "rb")

    def start(self, size: int = 1 << 16) -> bytes:
        """The first bytes, unpacked."""
        with self.open() as file:
            return bytes(file.read(size))


class Held:
    """A temporary file that is closed, and so removed, together with what uses it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        # Not __del__: in a cycle, such as that of a caught error, the file could go first.
        weakref.finalize(self, file.close)


def temporary(in_memory: int) -> Held:
    """A temporary file, in memory as long as it is small."""
    return Held(tempfile.SpooledTemporaryFile(in_memory, prefix="flyingsquid-"))


def open_input(path: str | os.PathLike[str]) -> Input:
    """What is at ``path``; ``-`` is standard input, which is copied to a temporary file."""
    if os.fspath(path) == "-":
        return _spooled(sys.stdin.buffer, "standard input")
    shown = os.fspath(path)
    if not isinstance(shown, str):
        raise OptionError(f"path={told(path)} is no text")
    with located(shown):
        if "\0" in shown:
            raise VoteFileError("a path cannot hold a NUL character")
        if os.path.isdir(shown):
            return Input(shown, Path(shown))
        if os.path.exists(shown) and not os.path.isfile(shown):  # a pipe, as in <(command)
            with open(shown, "rb") as pipe:
                return _spooled(pipe, shown)
        return _recognised(shown, Path(shown))


def _spooled(stream: BinaryIO, shown: str) -> Input:
    keeper = Held(tempfile.NamedTemporaryFile(prefix="flyingsquid-"))  # noqa: SIM115  # closed with its user
    with located(shown):
        shutil.copyfileobj(stream, keeper.file, BLOCK)
        keeper.file.flush()
        return _recognised(shown, Path(keeper.file.name), keeper)


def _recognised(shown: str, path: Path, keeper: Any = None) -> Input:
    with open(path, "rb") as file:
        start = file.read(4)
    compression = "gzip" if start.startswith(_GZIP) else "zstd" if start == _ZSTD else None
    return Input(shown, path, compression, keeper)


def text_blocks(source: Input) -> Iterator[str]:
    """The text of a file in blocks of whole lines, checked: UTF-8, no NUL, no endless line."""
    line, offset, rest = 1, 0, b""
    with source.open() as file:
        while True:
            read = file.read(BLOCK)
            if not offset and not rest:
                for mark, name in _OTHER_ENCODINGS.items():
                    if read.startswith(mark):
                        raise VoteFileError(f"the text is {name}; save it as UTF-8")
            block, rest = _whole_lines(rest + read, last=not read)
            if len(rest) > LONGEST_LINE:
                raise VoteFileError(
                    f"line {line} is longer than {LONGEST_LINE:,} bytes; this is no text file"
                )
            if block:
                yield _decoded(block, line, offset)
                line += block.count(b"\n")
                offset += len(block)
            if not read:
                return


def _whole_lines(block: bytes, last: bool) -> tuple[bytes, bytes]:
    end = len(block) if last else block.rfind(b"\n") + 1
    return block[:end], block[end:]


def _decoded(block: bytes, line: int, offset: int) -> str:
    nul = block.find(b"\0")
    if nul >= 0:
        at = line + block.count(b"\n", 0, nul)
        raise VoteFileError(f"line {at} holds a NUL byte; the file is binary, damaged, or not UTF-8")
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise VoteFileError(
            f"line {at}, byte {offset + error.start:,} is not UTF-8; save the file as UTF-8 "
            "(iconv -f latin1 -t utf-8, if it is Latin-1)"
        ) from error
    return text.removeprefix("\ufeff") if not offset else text


def need_pyarrow(what: str) -> Any:
    """The package pyarrow, or an error that says how to get it."""
    try:
        import pyarrow  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise VoteFileError(f"{what} needs pyarrow: pip install 'flyingsquid[files]'") from error
    return pyarrow


@contextlib.contextmanager
def located(shown: str) -> Iterator[None]:
    """Every failure as one line that begins with the name of the file."""
    try:
        yield
    except OptionError:
        raise
    except (VoteFileError, VotesError) as error:
        text = str(error)
        raise VoteFileError(text if text.startswith(f"{shown}: ") else f"{shown}: {text}") from error
    except FileNotFoundError as error:
        raise VoteFileError(f"{error.filename or shown}: there is no such file or folder") from error
    except FileExistsError as error:
        raise VoteFileError(
            f"{shown}: there is such a file already; force=True (--force) replaces it"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise VoteFileError(f"{shown}: truncated or damaged: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise VoteFileError(f"{shown}: damaged: a name or a text is not UTF-8") from error
    except MemoryError as error:
        raise VoteFileError(f"{shown}: memory has no room for this file") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        what = error.strerror.lower() if error.errno and error.strerror else one_line(error)
        raise VoteFileError(f"{shown}: {what}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        raise VoteFileError(f"{shown}: damaged or not readable: {one_line(error)}") from error


def one_line(error: object, most: int = 300) -> str:
    """The text of an error of another library, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[: most - 3] + "..."
