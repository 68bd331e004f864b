"""Answers of judges in a file, one line of JSON each, so that nobody is asked twice.

The first line says what the file is. Every other line is one final answer: the judge, the item, a fingerprint
of both, what was answered or why it failed, how it was read at the time, and how many attempts it took. A
line is written in one piece as soon as the answer has been read. A process that is killed leaves at
most a torn last line, which the next one cuts off.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from flyingsquid.exceptions import ModelFileError
from flyingsquid.labeling.answers import Missing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_HEADER = b'{"flyingsquid": "answers of judges", "version": 1}\n'
# Further than any file reaches: on Windows a locked byte cannot be read.
_LOCKED_BYTE = 1 << 40


@dataclass(frozen=True, slots=True)
class Kept:
    """A final answer.

    Attributes
    ----------
    answer : what the judge returned, as JSON, or a reason that it gave itself; FAILED where it raised
    error : what it raised last, as a text, or None
    attempts : how often it was asked
    """

    answer: Any
    error: str | None = None
    attempts: int = 1


class AnswerFile:
    """The answers kept in one file, open for one process at a time.

    Attributes
    ----------
    kept : the last answer for each (judge, fingerprint)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._writing = threading.Lock()
        try:
            self._file: BinaryIO | None = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise ModelFileError(f"{self.path}: cannot keep answers there: {error}") from error
        try:
            _lock(self._file, self.path)
            self.kept = dict(self._read())
        except BaseException:
            self.close()
            raise

    def write(self, judge: str, item: str | int, key: str, kept: Kept, outcome: Any) -> None:
        """Append one answer. After :meth:`close` nothing is written."""
        line: dict[str, Any] = {"judge": judge, "item": item, "key": key}
        if isinstance(kept.answer, Missing):
            line |= {"said": kept.answer.value} if kept.error is None else {"error": kept.error}
        else:
            line["answer"] = kept.answer
        line |= {"missing": outcome.value} if isinstance(outcome, Missing) else {"class": outcome}
        line["attempts"] = kept.attempts
        encoded = (json.dumps(line, default=str) + "\n").encode()
        with self._writing:
            if self._file is None:
                return
            try:
                if self._file.write(encoded) != len(encoded):
                    raise OSError("the disk took only a part of a line")
            except OSError as error:
                # A further line would join the torn one; the next process cuts it off.
                self._file.close()
                self._file = None
                raise ModelFileError(f"{self.path}: cannot keep answers: {error}") from error

    def close(self) -> None:
        """Close the file, and let others have it."""
        with self._writing:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _read(self) -> Iterator[tuple[tuple[str, str], Kept]]:
        file = self._file
        if file is None:
            return
        number, whole = 0, 0
        # A second handle, buffered for reading; what is appended goes straight to the file.
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                if number == 1:
                    self._check_header(line)
                else:
                    yield self._parse(line, number)
            else:
                line = b""
        if number == 1 and line and not _HEADER.startswith(line):
            self._check_header(line)
        yield from self._repaired(file, line, number, whole)

    def _repaired(
        self, file: BinaryIO, torn: bytes, number: int, whole: int
    ) -> Iterator[tuple[tuple[str, str], Kept]]:
        """Mend the end of the file, where a process was killed; ``torn`` is a line without end, or empty."""
        if torn and number > 1:
            try:
                yield self._parse(torn, number)
                # No beginning of a JSON object is one itself: only the end of the line is missing.
                file.write(b"\n")
                return
            except ModelFileError:
                pass
        if torn:
            file.truncate(whole)
        if not whole:
            file.write(_HEADER)

    def _check_header(self, line: bytes) -> None:
        if line != _HEADER:
            raise ModelFileError(
                f"{self.path}: line 1 does not begin a file of answers. Name a new file, "
                "or one that an earlier run wrote"
            )

    def _parse(self, line: bytes, number: int) -> tuple[tuple[str, str], Kept]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(number, f"is no JSON: {error}")
        if not isinstance(found, dict):
            self._refuse(number, "is no answer")
        texts = [found.get(name) for name in ("judge", "key")]
        attempts = found.get("attempts")
        if not all(isinstance(text, str) for text in texts) or type(attempts) is not int or attempts < 1:
            self._refuse(number, "lacks the judge, the key or the attempts")
        ways = [name for name in ("answer", "said", "error") if name in found]
        if len(ways) != 1:
            self._refuse(number, "needs one of answer, said and error")
        return (found["judge"], found["key"]), self._kept(found, ways[0], number)

    def _kept(self, found: dict[str, Any], way: str, number: int) -> Kept:
        value, attempts = found[way], found["attempts"]
        if way == "answer":
            return Kept(value, None, attempts)
        if way == "error":
            return Kept(Missing.FAILED, str(value), attempts)
        if value not in [reason.value for reason in Missing]:
            self._refuse(number, f"gives the unknown reason {value!r:.40}")
        return Kept(Missing(value), None, attempts)

    def _refuse(self, number: int, what: str) -> NoReturn:
        raise ModelFileError(
            f"{self.path}: line {number} {what}. Remove the line, and its item is asked again"
        )


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other processes away until the file is closed, or this process ends in whatever way."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt  # noqa: PLC0415

            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
    except OSError as error:
        raise ModelFileError(
            f"{path}: another run keeps its answers there now. Wait for its end, or name another file"
        ) from error
