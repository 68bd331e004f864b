"""Read bytes, text and JSON from files, and detect their format.

Every reader of this package starts from an :class:`Input`: a regular file, or a copy of standard input, that
can be read more than once and is decompressed while it is read.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import re
import shutil
import sys
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from flyingsquid._values import format_value, option_error
from flyingsquid.exceptions import Hint, OptionError, VoteFileError, VotesError
from flyingsquid.files.decoded_size import MOST_BYTES, too_large_error

StrPath: TypeAlias = str | os.PathLike[str]

FORMATS = (
    "csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench",
    "label_studio", "argilla", "inspect",
)  # fmt: skip
"""Names of formats. ``json``: a list of records, or WRENCH in one file. ``wrench``: a directory.
``parquet``: a file, or a directory of files. ``arrow``: a file, or a directory of Hugging Face datasets."""

DELIMITERS = {"csv": ",", "tsv": "\t"}
BLOCK = 1 << 20
_ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".npy": "npy", ".npz": "npz",
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".eval": "inspect",
}  # fmt: skip
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
}
HUGGING_FACE = ("state.json", "dataset_dict.json")
"""Files in the directories of ``Dataset.save_to_disk`` and ``DatasetDict.save_to_disk``."""
_COMPRESSED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# The marks of UTF-32 start with those of UTF-16, so they come first.
_OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip
_MOST_BLANK = 1 << 22
LONGEST_LINE = 1 << 26
"""Bytes of a line of text; a longer one is refused."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# An escape in JSON: a complete pair of surrogates, half of one, or any other.
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
_DECLARE_FORMAT = Hint("format", "to declare the format")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Input:
    """A file that can be read more than once.

    Attributes
    ----------
    shown : str
        Name of the file in messages.
    path : Path
        Location on disk; for standard input, a temporary copy that is removed together with this object.
    compression : str or None
        "gzip" or "zstd", detected by the first bytes.
    """

    shown: str
    path: Path
    compression: str | None = None

    def open(self) -> Any:
        """Open the decompressed bytes."""
        if self.compression == "gzip":
            return gzip.open(self.path, "rb")
        if self.compression == "zstd":
            pyarrow = import_pyarrow("Reading zstd files")
            return pyarrow.CompressedInputStream(pyarrow.OSFile(str(self.path)), "zstd")
        return open(self.path, "rb")


def standard_stream(name: Literal["stdin", "stdout"]) -> BinaryIO:
    """Return standard input or output for bytes; raise VoteFileError if it is closed."""
    stream: Any = getattr(sys, name)
    if stream is None:
        shown = "standard input" if name == "stdin" else "standard output"
        raise VoteFileError("The stream is closed; pass the path of a file.", path=shown)
    found: BinaryIO = stream.buffer
    return found


def open_input(path: StrPath) -> Input:
    """Find the file at ``path``; ``-`` is standard input, which is copied to a temporary file."""
    if os.fspath(path) == "-":
        return _copied(standard_stream("stdin"), "standard input")
    shown = os.fspath(path)
    if not isinstance(shown, str):
        raise option_error("path", "a str or os.PathLike of str", path)
    with add_path_to_errors(shown):
        if "\0" in shown:
            raise VoteFileError("A path must not contain NUL characters.")
        if os.path.isdir(shown):
            return Input(shown, Path(shown))
        if os.path.exists(shown) and not os.path.isfile(shown):  # a pipe, as in <(command)
            with open(shown, "rb") as pipe:
                return _copied(pipe, shown)
        return _detect_compression(shown, Path(shown))


def _copied(stream: BinaryIO, shown: str) -> Input:
    copy = tempfile.NamedTemporaryFile(prefix="flyingsquid-")  # noqa: SIM115  # closed with the Input
    try:
        with add_path_to_errors(shown):
            shutil.copyfileobj(stream, copy, BLOCK)
            copy.flush()
            found = _detect_compression(shown, Path(copy.name))
    except BaseException:
        copy.close()
        raise
    weakref.finalize(found, copy.close)
    return found


def _detect_compression(shown: str, path: Path) -> Input:
    with open(path, "rb") as file:
        start = file.read(4)
    compression = "gzip" if start.startswith(_GZIP) else "zstd" if start == _ZSTD else None
    return Input(shown, path, compression)


# ---------------------------------------------------------------------- formats


def detect_format(source: Input, declared: str | None = None) -> str:
    """Detect the format of a file. Name and content must agree, unless ``declared`` decides."""
    if declared is not None and declared not in FORMATS:
        raise option_error("format", f"one of {', '.join(FORMATS)}", declared)
    if source.path.is_dir():
        if declared not in (None, "wrench", "parquet", "arrow"):
            raise VoteFileError(f"A {declared} file was expected, but this is a directory.")
        if declared == "parquet" and not parquet_parts(source.path):
            raise VoteFileError("The directory contains no parquet files.")
        if declared is None and any((source.path / name).exists() for name in HUGGING_FACE):
            return "arrow"
        return declared or ("parquet" if parquet_parts(source.path) else "wrench")
    if source.shown.lower().endswith((".xlsx", ".xls")) and declared is None:
        raise VoteFileError("Excel files are not supported; save the sheet as csv.")
    with source.open() as file:
        start = bytes(file.read(1 << 16))
    if not start:
        raise VoteFileError("The file is empty.")
    binary = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    named = format_of_name(source.shown)
    expected = declared or named
    if binary == "npz" and expected == "inspect":  # both are zip archives
        return expected
    if binary is None and expected in ("npy", "npz", "parquet", "arrow"):
        raise VoteFileError(
            f"The content is not {expected}; the file may be damaged.", hints=[_DECLARE_FORMAT]
        )
    if binary is None:
        return _detect_text_format(start, named, declared)
    if expected not in (None, binary):
        raise VoteFileError(
            f"The {'declared format' if declared else 'file name'} implies {expected}, but the content is "
            f"{binary}.",
            hints=[Hint("format", f"to read it as {binary}", binary)],
        )
    if source.compression:
        raise VoteFileError(
            f"{binary} files compressed with {source.compression} are not supported; decompress the file."
        )
    return binary


def _detect_text_format(start: bytes, named: str | None, declared: str | None) -> str:
    looks_json = _looks_like_json(start)
    if declared:
        return "json" if declared == "wrench" else declared
    if named in ("csv", "tsv") and looks_json == "jsonl":
        raise VoteFileError(
            f"The file name implies {named}, but the first line is JSON.",
            hints=[Hint("format", "to read it as JSON lines", "jsonl")],
        )
    if named in ("json", "jsonl") and looks_json is None:
        raise VoteFileError(
            f"The file name implies {named}, but the content does not start with "
            f"'{{' or '['; the file may be damaged.",
            hints=[_DECLARE_FORMAT],
        )
    return named or looks_json or ("tsv" if b"\t" in start.split(b"\n", 1)[0] else "csv")


def _looks_like_json(start: bytes) -> str | None:
    """Return "jsonl" if the first line is a JSON object or list, "json" if it only begins one, else None."""
    text = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not text.startswith((b"{", b"[")):
        return None
    try:
        found = json.loads(text.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return "json"
    # One line may hold everything: a list of records, or WRENCH.
    inner = found if isinstance(found, list) else list(found.values())
    records = bool(inner) and all(isinstance(entry, dict) for entry in inner)
    wrench = isinstance(found, dict) and any("weak_labels" in entry for entry in inner if records)
    return "json" if wrench or (isinstance(found, list) and records) else "jsonl"


def parquet_parts(directory: Path) -> list[Path]:
    """Return the parquet files below a directory, sorted by name, without hidden ones (``.`` and ``_``)."""
    found = (path for path in directory.rglob("*.parquet") if path.is_file())
    return sorted(p for p in found if not any(n[0] in "._" for n in p.relative_to(directory).parts))


def format_of_name(name: StrPath) -> str | None:
    """Return the format that a file name implies, compressed or not; None if it implies none."""
    stem, ending = os.path.splitext(os.fspath(name))
    if ending.lower() in _COMPRESSED:
        ending = os.path.splitext(stem)[1]
    return _ENDINGS.get(ending.lower())


def compression_of_name(name: StrPath) -> str | None:
    """Return "gzip", "zstd" or None, as implied by the suffix of a file name."""
    return _COMPRESSED.get(os.path.splitext(os.fspath(name))[1].lower())


# ---------------------------------------------------------------------- text


def text_blocks(source: Input, longest_line: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the text of a file in blocks of complete lines. The text must be UTF-8 without NUL bytes."""
    line, offset, blank, rest = 1, 0, 0, b""
    with source.open() as file:
        while True:
            read = file.read(BLOCK)
            if not offset and not rest:
                for mark, name in _OTHER_ENCODINGS.items():
                    if read.startswith(mark):
                        raise VoteFileError(f"The text is encoded as {name}; save it as UTF-8.")
            data = rest + read
            end = data.rfind(b"\n") + 1 if read else len(data)
            block, rest = data[:end], data[end:]
            if len(rest) > longest_line:
                raise VoteFileError(
                    f"The line is longer than {longest_line:,} bytes; this is not a text file.", line=line
                )
            blank = blank + len(block) if block.isspace() else 0
            if blank > _MOST_BLANK:
                raise VoteFileError(
                    f"The file contains more than {_MOST_BLANK:,} bytes of blank lines.", line=line
                )
            if block:
                yield _decode_text(block, line, offset)
                line += block.count(b"\n")
                offset += len(block)
            if not read:
                return


def _decode_text(block: bytes, line: int, offset: int) -> str:
    nul = block.find(b"\0")
    if nul >= 0:
        at = line + block.count(b"\n", 0, nul)
        raise VoteFileError(
            "The line contains a NUL byte; the file is binary, damaged or not UTF-8.", line=at
        )
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VoteFileError(
            f"Byte {offset + error.start:,} is not UTF-8; save the file as UTF-8 "
            "(if it is Latin-1: iconv -f latin1 -t utf-8).",
            line=line + block.count(b"\n", 0, error.start),
        ) from error
    return text.removeprefix("\ufeff") if not offset else text


# ---------------------------------------------------------------------- JSON


class _ContentError(ValueError):
    """JSON that can be parsed and still has no usable value; the message is the reason."""


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build the object of these pairs of JSON, in which no key may occur twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _ContentError(f"The key {format_value(repeated)} occurs twice in one object.")
    return found


def _parse_constant(name: str) -> None:
    if name != "NaN":
        raise _ContentError(f"{name} is not a valid number in JSON.")


def _parse_float(digits: str) -> float:
    found = float(digits)
    if math.isinf(found):
        raise _ContentError(f"The number {digits[:20]} is too large for a float.")
    return found


_decode_json: Callable[[str], Any] = json.JSONDecoder(
    parse_constant=_parse_constant, parse_float=_parse_float, object_pairs_hook=_require_unique_keys
).decode


def parse_json(text: str) -> Any:
    """Parse JSON strictly.

    NaN is null. Repeated keys, infinite numbers and lone surrogates raise an error, because they have no
    meaning or cannot be written again.

    Raises
    ------
    VoteFileError
    """
    try:
        found = _decode_json(text)
    except RecursionError as error:
        raise VoteFileError("The JSON is nested too deeply.") from error
    except _ContentError as error:
        raise VoteFileError(str(error)) from error
    except ValueError as error:
        raise VoteFileError(f"The text is not valid JSON or is truncated: {one_line(error)}.") from error
    if "\\ud" in text or "\\uD" in text:
        _require_no_lone_surrogate(text)
    return found


def _require_no_lone_surrogate(text: str) -> None:
    """Raise an error for half of a pair of escapes such as ``\\ud83d\\ude00``; no encoding can store it."""
    for escape in _ESCAPE.finditer(text):
        if escape["half"]:
            column = escape.start() - text.rfind("\n", 0, escape.start())
            raise VoteFileError(
                f"Column {column:,}: {escape[0]} is half of a surrogate pair, which is not a character."
            )


def read_json(source: Input, limit: int = MOST_BYTES) -> Any:
    """Parse a whole JSON document of at most ``limit`` bytes."""
    parts, size = [], 0
    for part in text_blocks(source):
        size += len(part)
        if size > limit:
            raise too_large_error("The JSON document takes more than", limit, limit)
        parts.append(part)
    return parse_json("".join(parts))


# ---------------------------------------------------------------------- errors


def import_pyarrow(what: str) -> Any:
    """Import pyarrow, or raise an error with the command that installs it."""
    try:
        import pyarrow  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise VoteFileError(f"{what} requires pyarrow: pip install 'flyingsquid[files]'.") from error
    return pyarrow


@contextlib.contextmanager
def add_path_to_errors(shown: str) -> Iterator[None]:
    """Turn every failure to read or write the file ``shown`` into a VoteFileError with its path."""
    try:
        yield
    except OptionError:
        raise
    except VoteFileError as error:
        error.path = error.path or shown
        raise
    except VotesError as error:
        raise VoteFileError(error.message, hints=error.hints, path=shown) from error
    except FileNotFoundError as error:
        raise VoteFileError("No such file or directory.", path=str(error.filename or shown)) from error
    except FileExistsError as error:
        raise VoteFileError(
            "File exists.", path=shown, hints=[Hint("overwrite", "to replace it", True)]
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise VoteFileError(f"The file is truncated or damaged: {one_line(error)}.", path=shown) from error
    except UnicodeError as error:  # in columns that are damaged, or in strings with lone surrogates
        raise VoteFileError("A string is not valid UTF-8.", path=shown) from error
    except MemoryError as error:
        raise VoteFileError("Out of memory.", path=shown) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        what = error.strerror if error.errno and error.strerror else one_line(error)
        raise VoteFileError(f"{what}.", path=shown) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        raise VoteFileError(f"The file is damaged or unreadable: {one_line(error)}.", path=shown) from error


def one_line(error: object) -> str:
    """Return the message of an error of another library on one line, without a final period."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
