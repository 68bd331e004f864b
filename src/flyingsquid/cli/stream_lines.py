"""Parse lines of JSON into votes, and format labels as lines of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.exceptions import VoteFileError, VotesError
from flyingsquid.files.inputs import LONGEST_LINE, parse_json
from flyingsquid.votes import ABSTAIN, Votes, as_votes
from flyingsquid.votes.codes import Label, smallest_dtype
from flyingsquid.votes.conventions import find_other_columns, is_gold_name, is_missing_text
from flyingsquid.votes.decisions import winners

LABEL_START = b'{"id": '
"""The first bytes of every line that :func:`write_block` returns."""
# Bytes after which a block ends, so that memory does not depend on the length of lines.
_BLOCK_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_dumps = json.JSONEncoder().encode


@dataclass(frozen=True, slots=True)
class Known:
    """Sources and classes of a stream before a block is read."""

    # Names of the sources, or their positions if lines are lists; None before the first votes.
    sources: tuple[str, ...] | tuple[int, ...] | None = None
    classes: tuple[Label, ...] | None = None  # None before the first votes


@dataclass(frozen=True, slots=True)
class Rules:
    """Options for reading lines: the field that identifies an item, and whether new names are added."""

    id_field: str = "id"
    add_sources: bool = False
    add_classes: bool = False
    ignore: tuple[str, ...] = ()  # fields that are not votes
    abstain: tuple[str, ...] = ()  # values that mean "no vote", also as numbers


@dataclass(frozen=True, slots=True)
class Block:
    """Votes of some lines."""

    votes: Votes | None  # shape (n, m); None if no line has any
    ids: list[Any]  # the line number if a line has no identifier
    bad: list[tuple[int, str]]  # the lines that cannot be read
    known: Known  # sources and classes after this block


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of the input."""

    lines: list[bytes]  # lines that are too long are truncated, but stay too long to be read
    n_bytes: int  # their length in the input
    checksum: int  # CRC-32 of the input up to their end
    is_complete: bool  # whether more input cannot change this block


def next_lines(source: BinaryIO, most: int, checksum: int, *, skip_long: bool) -> Lines:
    """Read a block of at most ``most`` lines, fewer if they are long.

    Parameters
    ----------
    checksum : int
        CRC-32 of the input before the block.
    skip_long : bool
        Whether to continue after a line that is too long.
    """
    lines: list[bytes] = []
    n_bytes, at_start = 0, True
    for piece in iter(lambda: source.readline(LONGEST_LINE + 1), b""):
        if at_start:
            lines.append(piece)
        n_bytes += len(piece)
        checksum = crc32(piece, checksum)
        at_start = piece.endswith(b"\n")
        if at_start and (len(lines) == most or n_bytes >= _BLOCK_BYTES):
            return Lines(lines, n_bytes, checksum, is_complete=True)
        if not at_start and not skip_long:
            break
    return Lines(lines, n_bytes, checksum, is_complete=False)


def read_block(lines: Sequence[bytes], first: int, known: Known, rules: Rules) -> Block:
    """Read lines, the first of which has the number ``first``. Blank lines are skipped.

    Sources and classes that are not known yet are determined by these lines.
    """
    reader = _Reader(known, rules)
    rows, ids, numbers, bad = [], [], [], []
    has_other_fields = False  # next to votes; in a field "votes", every name is a source
    for number, line in enumerate(lines, first):
        try:
            found = _parse(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line)
            if found is None:
                continue
            votes, identity = _votes_and_id(found, rules, number)
            has_other_fields |= votes is found
            has_booleans = b"true" in line or b"false" in line
            rows.append(reader.row(votes, has_booleans or reader.votes_are_booleans))
            ids.append(identity)
            numbers.append(number)
        except _LineError as error:
            bad.append((number, str(error)))
    if not reader.sources:
        reason = "The line contains no votes, and the sources are not known yet. Use --sources to name them."
        return Block(None, [], sorted([*bad, *((number, reason) for number in numbers)]), known)
    if not rows:
        return Block(None, [], bad, known)
    if known.sources is None and reader.are_named and has_other_fields:
        reader.require_votes(rows)
    return Block(reader.votes(rows), ids, bad, reader.known())


def write_block(ids: Iterable[Any], posterior: NDArray[np.float64], classes: tuple[Label, ...]) -> bytes:
    """Return one line of JSON per item, for ``posterior`` of shape (n, K)."""
    labels = [_dumps(label) for label in classes]
    keys = [_dumps(label if isinstance(label, str) else _dumps(label)) for label in classes]
    shares = ", ".join(key.replace("%", "%%") + ": %r" for key in keys)
    line = '{"id": %s, "label": %s, "probabilities": {' + shares + "}}\n"
    return "".join([
        line % (identity if type(identity) is int else _dumps(identity), labels[winner], *row)
        for identity, winner, row in zip(ids, winners(posterior).tolist(), posterior.tolist(), strict=True)
    ]).encode()  # fmt: skip


# ---------------------------------------------------------------------- one line


class _LineError(Exception):
    """A line that cannot be read; the message is the reason."""


def _parse(line: bytes) -> Any:
    """Return the value of a line; None for a blank one."""
    if len(line) > LONGEST_LINE:
        raise _LineError(f"The line is longer than {LONGEST_LINE:,} bytes.")
    try:
        found = parse_json(line.decode())
    except UnicodeDecodeError as error:
        raise _LineError(f"The line is not UTF-8: {error}.") from error
    except VoteFileError as error:
        if line.isspace() or not line:
            return None
        raise _LineError(error.message) from error
    if found is None:
        raise _LineError("The line must be an object or a list of votes; got null.")
    return found


def _votes_and_id(found: Any, rules: Rules, number: int) -> tuple[dict[str, Any] | list[Any], Any]:
    """Return the votes of a line, and the identifier of its item."""
    if type(found) is dict:
        votes = found.get("votes")
        # A vote is never an object or a list, so a source may still be named "votes".
        if type(votes) is dict or type(votes) is list:
            return votes, found.get(rules.id_field, number)
        identity = found.pop(rules.id_field, number)
        for name in rules.ignore:
            found.pop(name, None)
        return found, identity
    if type(found) is list:
        return found, number
    raise _LineError(f"The line must be an object or a list of votes; got {_shown(found)}.")


class _Reader:
    """Encode the votes of one block, and collect the sources and classes that occur in it."""

    def __init__(self, known: Known, rules: Rules) -> None:
        self.sources: list[Any] = list(known.sources or ())
        self._index_sources()
        self.open_sources = known.sources is None or (rules.add_sources and self.are_named)
        self.undecided = known.classes is None
        self.open_classes = self.undecided or rules.add_classes
        self.classes: list[Label] = list(known.classes or ())
        # None always abstains, and so do -1 and strings such as "NA" unless they are classes.
        self.codes: dict[Any, int] = {ABSTAIN: -1, None: -1}
        self.codes |= {label: code for code, label in enumerate(self.classes)}
        self.codes |= dict.fromkeys(rules.abstain, -1)
        self.codes |= {int(value): -1 for value in rules.abstain if re.fullmatch(r"-?\d{1,18}", value)}

    @property
    def votes_are_booleans(self) -> bool:
        """True if the classes known so far are booleans."""
        return bool(self.classes) and type(self.classes[0]) is bool

    def row(self, votes: dict[str, Any] | list[Any], has_booleans: bool) -> list[int]:
        """Return the codes of one item, one per source known so far.

        ``has_booleans`` is False if neither the line nor the classes contain booleans.
        """
        if has_booleans:  # true and 1 are the same key of a dict
            return self._checked(votes)
        codes = self.codes
        try:
            if isinstance(votes, list):
                if votes and len(votes) == len(self.sources) and not self.are_named:
                    return [codes[vote] for vote in votes]
            elif len(votes) == len(self.sources) and self.pick is not None:
                return [codes[vote] for vote in self.pick(votes)]
            elif self.are_named:
                row, position = [-1] * len(self.sources), self.position
                for name, vote in votes.items():
                    row[position[name]] = codes[vote]
                return row
        except (KeyError, TypeError):
            pass  # a new or invalid name or vote
        return self._checked(votes)

    def votes(self, rows: list[list[int]]) -> Votes:
        """Return the votes of all rows."""
        width, before = len(self.sources), self.classes
        if any(len(row) != width for row in rows):  # a source was added after these rows
            rows = [row + [-1] * (width - len(row)) for row in rows]
        if self.undecided:
            self.classes = list(_infer_classes(before))
        flat = np.array(list(chain.from_iterable(rows)), smallest_dtype(max(len(self.classes), len(before))))
        if self.undecided:
            order = np.array([*(self.classes.index(label) for label in before), -1], flat.dtype)
            flat = order[flat]  # code -1 picks the last
        names = tuple(self.sources) if self.are_named else None
        return Votes(flat.reshape(-1, width), tuple(self.classes), names)

    def require_votes(self, rows: list[list[int]]) -> None:
        """Raise an error if a field of the first block does not hold votes, as for columns of files."""
        values: list[Any] = [*self.classes, None]  # code -1 picks the last
        columns = [{values[code] for code in column} for column in zip_longest(*rows, fillvalue=-1)]
        reasons = {self.sources[j]: reason for j, reason in find_other_columns(columns, len(rows)).items()}
        reasons |= {name: "looks like gold labels" for name in self.sources if is_gold_name(name)}
        if reasons:
            found = "; ".join(f"{format_value(name)} {reason}" for name, reason in reasons.items())
            raise VotesError(
                f"Not all fields are votes: {found}. Use --ignore {','.join(reasons)} to leave out what is "
                "not a vote, or --sources to name the sources."
            )

    def known(self) -> Known:
        """Return the sources and classes after this block."""
        return Known(tuple(self.sources), tuple(self.classes))

    def _index_sources(self) -> None:
        self.are_named = bool(self.sources) and type(self.sources[0]) is str
        self.pick: Callable[[dict[str, Any]], tuple[Any, ...]] | None = None
        self.position = {name: at for at, name in enumerate(self.sources)}
        if self.are_named and len(self.sources) > 1:
            self.pick = itemgetter(*self.sources)

    def _checked(self, votes: dict[str, Any] | list[Any]) -> list[int]:
        if isinstance(votes, list):
            if self.are_named:
                raise _LineError("The votes must be an object with names, as in earlier lines; got a list.")
            if not votes or (self.sources and len(votes) != len(self.sources)):
                needed = f" ({len(self.sources)})" if self.sources else ""
                raise _LineError(
                    f"The list must contain one vote per source{needed}; it contains {len(votes)}."
                )
        elif self.sources and not self.are_named:
            raise _LineError("The votes must be a list, as in earlier lines; got an object with names.")
        by_source = dict(enumerate(votes)) if isinstance(votes, list) else votes
        new = [name for name in by_source if name not in self.position]
        if new and not self.open_sources:
            raise _LineError(
                f"Unknown source {format_list(new)}; the sources are {format_list(self.sources)}. Use "
                "--new-sources add to add it, --ignore to leave it out, or --id to name the field of "
                "identifiers."
            )
        codes = dict(zip(by_source, self._checked_codes(by_source), strict=True))
        if new:
            self.sources += new
            self._index_sources()
        return [codes.get(name, -1) for name in self.sources]

    def _checked_codes(self, votes: Mapping[Any, Any]) -> list[int]:
        # All votes are checked before a class is added, so that a rejected line changes nothing.
        votes = {source: _as_integer(vote) for source, vote in votes.items()}
        for vote in votes.values():
            if isinstance(vote, str) and vote not in self.codes and is_missing_text(vote):
                self.codes[vote] = -1
        kinds = {type(label) for label in self.classes}
        kinds |= {type(vote) for vote in votes.values() if vote is not None and vote != ABSTAIN}
        if {bool, int} <= kinds:
            raise _LineError("Votes must have one type; got booleans and numbers.")
        for source, vote in votes.items():
            if vote is not None and type(vote) not in (str, int, bool):
                raise _LineError(
                    f"Votes must be strings, integers, booleans or null; source {format_value(source)} has "
                    f"{_shown(vote)}. Use --ignore to leave out a field that is not a vote."
                )
            if vote not in self.codes and not self.open_classes:
                raise _LineError(
                    f"Unknown class {_shown(vote)} (source {format_value(source)}); the classes are "
                    f"{format_list(self.classes)}. Use --new-classes add to add it, or --abstain if it "
                    "means no vote."
                )
        for vote in votes.values():
            if vote not in self.codes:
                self.codes[vote] = len(self.classes)
                self.classes.append(vote)
        return [self.codes[vote] for vote in votes.values()]


def _as_integer(vote: Any) -> Any:
    """Return 1 for 1.0; both are the same class."""
    return int(vote) if isinstance(vote, float) and vote.is_integer() else vote


def _infer_classes(found: list[Label]) -> tuple[Label, ...]:
    """Return all classes if ``found`` occur in the first block: 0 to the largest one, or sorted strings."""
    row = np.empty((1, max(1, len(found))), object)
    row[0, : len(found)] = found
    try:
        return as_votes(row, check=False).classes
    except VotesError as error:
        raise VotesError(
            f"The classes cannot be inferred from the first votes ({format_list(found) or 'all abstain'}). "
            "Use --classes to declare them."
        ) from error


def _shown(value: Any) -> str:
    text = _dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
