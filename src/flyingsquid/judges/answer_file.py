"""Cache of answers in a file of JSON lines, and the fingerprints by which answers are found in it.

The first line identifies the format. Every other line is one final answer: the judge, the item, a key for
both, the answer or the error, how it was parsed at the time, and the number of attempts. A line is written
as soon as the answer is parsed. If a run has a budget, there is also one line before each attempt, so
that attempts of a killed process are counted. A killed process leaves at most an incomplete last line, which
the next one removes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NoReturn, Self
from uuid import UUID

import numpy as np

from flyingsquid._values import format_value
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.outputs import try_lock
from flyingsquid.judges.answers import Missing
from flyingsquid.judges.judge import Answer, Judge

_HEADER = b'{"flyingsquid": "answers of judges", "version": 1}\n'
# Python writes and reads integers of up to 4,300 digits; no answer needs as many.
_MOST_BITS = 1 << 12


class AnswerFile:
    """Answers of the judges of one run about its items, kept in a file that one process at a time may open.

    Without a path, nothing is read or written. Judges and items are identified by their positions in a run,
    and by the name of the judge and a key in the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        judges: Sequence[Judge] = (),
        items: Sequence[Any] = (),
        ids: Sequence[str | int] | None = None,
        fingerprint: Callable[[Any], Any] | None = None,
    ) -> None:
        self._judges, self._ids = judges, ids
        self._keys = [] if path is None else answer_keys(judges, items, ids, fingerprint)
        self._write_lock = threading.Lock()
        self._answers: dict[tuple[str, str], Answer] = {}  # by name of the judge and key, not parsed yet
        self._n_attempts: Counter[tuple[str, str]] = Counter()
        self._n_begun: Counter[tuple[str, str]] = Counter()  # since the last answer
        self._file: BinaryIO | None = None
        if path is None:
            return
        self.path = Path(path)
        try:
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise ModelFileError(f"{self.path}: answers cannot be written: {error}") from error
        try:
            if not try_lock(self._file):
                raise ModelFileError(
                    f"{self.path}: another run uses this file. Wait until it ends, or pass another path."
                )
            self._read(self._file)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def find_answers(self, ask_again: frozenset[str], *, raises: bool) -> dict[tuple[int, int], Answer]:
        """Return the answers in the file, parsed again because the parser may have changed.

        Answers that are missing for a reason in ``ask_again`` are left out. ``raises`` is whether to raise
        the error of a parser.
        """
        found = {}
        for j, i, cell in self._cells():
            if cell not in self._answers:
                continue
            answer = self._answers[cell].parse(self._judges[j])
            if answer.parse_error is not None and raises:
                answer.parse_error.add_note(f"judge {cell[0]!r}, item {i}, a cached answer")
                raise answer.parse_error
            if not (isinstance(answer.outcome, Missing) and answer.outcome.value in ask_again):
                found[j, i] = answer
        return found

    def find_attempts(self) -> dict[tuple[int, int], int]:
        """Return the number of recorded attempts for each judge and item, if there are any."""
        recorded = self._n_attempts
        return {(j, i): recorded[cell] for j, i, cell in self._cells() if cell in recorded}

    def _cells(self) -> Iterator[tuple[int, int, tuple[str, str]]]:
        """Yield judge, item, and the pair of name and key that identifies their answer in the file."""
        for j, keys in enumerate(self._keys):
            for i, key in enumerate(keys):
                yield j, i, (self._judges[j].name, key)

    def write(self, judge: int, item: int, answer: Answer) -> None:
        """Append one answer. After :meth:`close`, nothing is written."""
        line: dict[str, Any] = {}
        if isinstance(answer.raw, Missing):
            line |= {"said": answer.raw.value} if answer.error is None else {"error": answer.error}
        else:
            line["answer"] = answer.raw
        missing = isinstance(answer.outcome, Missing)
        line |= {"missing": answer.outcome.value} if missing else {"class": answer.outcome}
        self._append(judge, item, line | {"attempts": answer.attempts})

    def write_attempt(self, judge: int, item: int) -> None:
        """Append that an attempt begins."""
        self._append(judge, item, {"begins": True})

    def _append(self, judge: int, item: int, fields: dict[str, Any]) -> None:
        with self._write_lock:
            if self._file is None:
                return
            shown = item if self._ids is None else self._ids[item]
            line = {"judge": self._judges[judge].name, "item": shown, "key": self._keys[judge][item]}
            encoded = (json.dumps(line | fields, default=str) + "\n").encode()
            try:
                if self._file.write(encoded) != len(encoded):
                    raise OSError("only a part of a line was written")
            except OSError as error:
                # Another line would be appended to the incomplete one; the next process removes it.
                self._file.close()
                self._file = None
                raise ModelFileError(f"{self.path}: answers cannot be written: {error}") from error

    def close(self) -> None:
        """Close the file, and release its lock."""
        with self._write_lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _read(self, file: BinaryIO) -> None:
        number, n_complete, incomplete = 0, 0, b""
        # A second, buffered handle for reading; the other one is unbuffered for writing.
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    incomplete = line
                    break
                n_complete += len(line)
                if number == 1:
                    self._check_header(line)
                else:
                    self._keep(line, number)
        if incomplete and number == 1 and not _HEADER.startswith(incomplete):
            self._check_header(incomplete)
        if incomplete and number > 1:
            try:
                self._keep(incomplete, number)
            except ModelFileError:
                pass
            else:
                # No proper prefix of a JSON object is one, so only the end of the line is missing.
                file.write(b"\n")
                return
        if incomplete:
            file.truncate(n_complete)
        if not n_complete:
            file.write(_HEADER)

    def _check_header(self, line: bytes) -> None:
        if line != _HEADER:
            raise ModelFileError(
                f"{self.path}: line 1 is not the header of a file of answers. Pass the path of a new file, "
                "or of one that an earlier run wrote."
            )

    def _keep(self, line: bytes, number: int) -> None:
        """Keep what one line records."""
        key, answer = self._parse(line, number)
        if answer is None:
            self._n_attempts[key] += 1
            self._n_begun[key] += 1
            return
        self._answers[key] = answer
        # Attempts of a run without a budget are recorded only with their answer.
        self._n_attempts[key] += max(0, answer.attempts - self._n_begun.pop(key, 0))

    def _parse(self, line: bytes, number: int) -> tuple[tuple[str, str], Answer | None]:
        """Return the judge and the key of a line, with the answer; None if an attempt begins."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(number, f"must be JSON: {error}")
        if not isinstance(found, dict):
            self._refuse(number, "must be a JSON object")
        judge, key, attempts = (found.get(name) for name in ("judge", "key", "attempts"))
        if isinstance(judge, str) and isinstance(key, str) and found.get("begins") is True:
            return (judge, key), None
        if (
            not isinstance(judge, str)
            or not isinstance(key, str)
            or type(attempts) is not int
            or attempts < 1
        ):
            self._refuse(number, "must have the fields judge, key and attempts")
        fields = [name for name in ("answer", "said", "error") if name in found]
        if len(fields) != 1:
            self._refuse(number, "must have one of the fields answer, said and error")
        value = found[fields[0]]
        if fields == ["answer"]:
            return (judge, key), Answer(value, None, attempts)
        if fields == ["error"]:
            return (judge, key), Answer(Missing.FAILED, str(value), attempts)
        if value not in [reason.value for reason in Missing]:
            self._refuse(number, f"must have a known reason in the field said; got {format_value(value, 40)}")
        return (judge, key), Answer(Missing(value), None, attempts)

    def _refuse(self, number: int, problem: str) -> NoReturn:
        raise ModelFileError(
            f"{self.path}: line {number} {problem}. Remove the line to ask about its item again."
        )


def to_json_data(answer: Any) -> Any:
    """Return an answer as JSON data: strings, numbers, booleans, None, lists and dicts of them.

    NaN becomes None. Members of :class:`Missing` are returned unchanged.

    >>> to_json_data(np.float32(0.5)), to_json_data(float("nan"))
    (0.5, None)
    """
    if isinstance(answer, np.generic):
        answer = answer.item()
    if isinstance(answer, str):
        return answer.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded as UTF-8
    if isinstance(answer, int) and answer.bit_length() > _MOST_BITS:
        raise TypeError(f"a judge must return an integer of at most {_MOST_BITS:,} bits")
    if answer is None or isinstance(answer, (bool, int, Missing)):
        return answer
    if isinstance(answer, float):
        # JSON has no infinity; the largest number is on the same side of every threshold.
        largest = np.finfo(np.float64).max
        return None if math.isnan(answer) else float(min(max(answer, -largest), largest))
    if isinstance(answer, (list, tuple)):
        return [to_json_data(part) for part in answer]
    if isinstance(answer, dict) and all(isinstance(key, str) for key in answer):
        return {key: to_json_data(value) for key, value in answer.items()}
    raise TypeError(
        f"a judge must return a string, a number, None or JSON data; got a value of type "
        f"{type(answer).__name__}."
    )


# ---------------------------------------------------------------------- fingerprints


def answer_keys(
    judges: Sequence[Judge],
    items: Sequence[Any],
    ids: Sequence[str | int] | None,
    fingerprint: Callable[[Any], Any] | None,
) -> list[list[str]]:
    """Return for each judge one key per item, which changes with the version of the judge and the item."""
    prints = fingerprint_items(items, ids, fingerprint)
    versions = [
        _to_canonical(judge.version, f"`version` of judge {format_value(judge.name)}") for judge in judges
    ]
    return [[_digest(version + item) for item in prints] for version in versions]


def fingerprint_items(
    items: Sequence[Any], ids: Sequence[str | int] | None, fingerprint: Callable[[Any], Any] | None
) -> list[str]:
    """Return one fingerprint per item, which changes with its id and its content.

    Equal items without ids are numbered, so that answers are found independently of the order of items.

    >>> a, b, c = fingerprint_items(["x", "y", "x"], None, None)
    >>> [b, a, c] == fingerprint_items(["y", "x", "x"], None, None), a == c
    (True, False)
    """
    seen: Counter[str] = Counter()
    prints = []
    for at, item in enumerate(items):
        content = _to_canonical(item if fingerprint is None else fingerprint(item), f"`items[{at}]`")
        identity: Any = seen[content] if ids is None else [ids[at]]
        seen[content] += 1
        prints.append(_digest(json.dumps([identity, content])))
    return prints


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _to_canonical(value: Any, parameter: str) -> str:
    """Return a value as JSON; equal values give equal strings in any order of keys.

    >>> _to_canonical({"b": 1, "a": (1.5, None)}, "item 0")
    '{"a": [1.5, null], "b": 1}'
    """

    def convert(part: Any) -> Any:
        if isinstance(part, np.generic):
            return part.item()
        if isinstance(part, np.ndarray):
            return ["array", str(part.dtype), list(part.shape), _digest(repr(part.tolist()))]
        if isinstance(part, (bytes, bytearray)):
            return ["bytes", hashlib.sha256(part).hexdigest()]
        if isinstance(part, (date, time, timedelta, Decimal, UUID, PurePath)):
            return [type(part).__name__, str(part)]
        if isinstance(part, (set, frozenset)):
            return ["set", *sorted(_to_canonical(p, parameter) for p in part)]
        if is_dataclass(part) and not isinstance(part, type):
            return [type(part).__name__, asdict(part)]
        raise TypeError(f"it contains a value of type {type(part).__name__}")

    try:
        return json.dumps(value, sort_keys=True, default=convert)
    except (TypeError, ValueError, RecursionError) as error:  # ValueError: an integer of 4,300 digits
        raise OptionError(
            f"{parameter} must consist of strings, numbers, lists and dicts if `cache` is used; {error}. "
            "Pass `fingerprint`, a function that returns such a value for an item."
        ) from error
