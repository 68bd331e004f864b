"""Lines of JSON to votes, and labels to lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import listed, told
from flyingsquid.exceptions import VotesError
from flyingsquid.inference.posterior import decide
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.codes import Label, smallest_dtype

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_dumps = json.JSONEncoder().encode


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a stream before a block of it is read.

    Attributes
    ----------
    names : the sources by name; None where they have none, or before the first votes
    width : how many sources there are; None before the first votes
    classes : the classes; None before the first votes
    """

    names: tuple[str, ...] | None = None
    width: int | None = None
    classes: tuple[Label, ...] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How lines are read: the field that identifies an item, and whether new names may join."""

    id_field: str = "id"
    add_sources: bool = False
    add_classes: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The votes of some lines.

    Attributes
    ----------
    votes : Votes of shape (n, m), or None where no line had any
    ids : n values of JSON, a line number where a line has none
    bad : (line number, what is wrong) for every line that could not be read
    known : what is known afterwards
    """

    votes: Votes | None
    ids: list[Any]
    bad: list[tuple[int, str]]
    known: Known


def read_block(lines: Sequence[bytes], first: int, known: Known, rules: Rules) -> Block:
    """Read lines, of which the first has the number ``first``. Blank ones are passed over.

    Sources and classes that are not known yet are those of these lines.
    """
    reader = _Reader(known, rules)
    rows, ids, numbers, bad = [], [], [], []
    for number, line in enumerate(lines, first):
        try:
            found = _parse(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line)
            if found is None:
                continue
            votes, identity = _parts(found, rules.id_field, number)
            rows.append(reader.row(votes))
            ids.append(identity)
            numbers.append(number)
        except _WrongLineError as error:
            bad.append((number, str(error)))
    if not reader.width:
        bad += [(number, "no votes, and no source is known yet; --sources names them") for number in numbers]
        return Block(None, [], sorted(bad), known)
    if not rows:
        return Block(None, [], bad, known)
    return Block(reader.votes(rows), ids, bad, reader.known())


def write_block(ids: Iterable[Any], posterior: NDArray[np.float64], classes: tuple[Label, ...]) -> bytes:
    """One line of JSON an item, for ``posterior`` of shape (n, K)."""
    labels = [_dumps(label) for label in classes]
    keys = [_dumps(label if isinstance(label, str) else _dumps(label)) for label in classes]
    shares = ", ".join(key.replace("%", "%%") + ": %r" for key in keys)
    line = '{"id": %s, "label": %s, "probabilities": {' + shares + "}}\n"
    winners = decide(posterior, tuple(range(len(classes))), "first", None)
    return "".join([
        line % (identity if type(identity) is int else _dumps(identity), labels[winner], *row)
        for identity, winner, row in zip(ids, winners.tolist(), posterior.tolist(), strict=True)
    ]).encode()  # fmt: skip


# ---------------------------------------------------------------------- one line


class _WrongLineError(Exception):
    """A line that is no item; the text says why."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode: Callable[[str], Any] = json.JSONDecoder(parse_constant=_no_constant).decode


def _parse(line: bytes) -> Any:
    """The value of a line; None for a blank one."""
    try:
        found = _decode(line.decode())
    except RecursionError as error:
        raise _WrongLineError("nested too deeply") from error
    except ValueError as error:
        if line.isspace() or not line:
            return None
        what = "no UTF-8" if isinstance(error, UnicodeDecodeError) else "no JSON"
        raise _WrongLineError(f"{what}: {error}") from error
    if found is None:
        raise _WrongLineError("null; an object or a list of votes is needed")
    return found


def _parts(found: Any, id_field: str, number: int) -> tuple[dict[str, Any] | list[Any], Any]:
    """The votes of a line, and what identifies its item."""
    if type(found) is dict:
        votes = found.get("votes")
        # No vote is an object or a list, so a source may still be called "votes".
        if type(votes) is dict or type(votes) is list:
            return votes, found.get(id_field, number)
        identity = found.pop(id_field, number)
        return found, identity
    if type(found) is list:
        return found, number
    raise _WrongLineError(f"{_shown(found)}; an object or a list of votes is needed")


class _Reader:
    """Rows of codes of one block, and the sources and classes that turn up in it."""

    def __init__(self, known: Known, rules: Rules) -> None:
        self.names = None if known.names is None else list(known.names)
        self.width = known.width
        self.open_sources = known.width is None or (rules.add_sources and known.names is not None)
        self.undecided = known.classes is None
        self.open_classes = self.undecided or rules.add_classes
        self.classes: list[Label] = list(known.classes or ())
        # None always abstains, and so does -1 unless it is a class.
        self.codes: dict[Any, int] = {ABSTAIN: -1, None: -1}
        self.codes |= {label: code for code, label in enumerate(self.classes)}
        self._take_names()

    def row(self, votes: dict[str, Any] | list[Any]) -> list[int]:
        """Codes of one item, as many as there are sources by now."""
        codes = self.codes
        try:
            if isinstance(votes, list):
                if len(votes) == self.width and self.names is None:
                    return [codes[vote] for vote in votes]
            elif len(votes) == self.width and self.pick is not None:
                return [codes[vote] for vote in self.pick(votes)]
            elif self.names is not None:
                row, place = [-1] * len(self.names), self.place
                for name, vote in votes.items():
                    row[place[name]] = codes[vote]
                return row
        except (KeyError, TypeError):
            pass  # a name or a vote that needs a closer look
        return self._look_closely(votes)

    def votes(self, rows: list[list[int]]) -> Votes:
        width, before = self.width or 0, self.classes
        if any(len(row) != width for row in rows):  # a source turned up on the way
            rows = [row + [-1] * (width - len(row)) for row in rows]
        if self.undecided:
            self.classes = list(_classes_of(before))
        flat = np.array(list(chain.from_iterable(rows)), smallest_dtype(max(len(self.classes), len(before))))
        if self.undecided:
            order = np.array([*(self.classes.index(label) for label in before), -1], flat.dtype)
            flat = order[flat]  # code -1 picks the last
        names = None if self.names is None else tuple(self.names)
        return Votes(flat.reshape(-1, width), tuple(self.classes), names)

    def known(self) -> Known:
        names = None if self.names is None else tuple(self.names)
        return Known(names, self.width, tuple(self.classes))

    def _take_names(self) -> None:
        """Make ready to pick votes by name."""
        self.pick: Callable[[dict[str, Any]], tuple[Any, ...]] | None = None
        self.place = {name: at for at, name in enumerate(self.names or ())}
        if self.names is not None and len(self.names) > 1:
            self.pick = itemgetter(*self.names)

    def _look_closely(self, votes: dict[str, Any] | list[Any]) -> list[int]:
        """The long way: what is new joins, or is refused with its name."""
        if isinstance(votes, list):
            if self.names is not None:
                raise _WrongLineError("a list of votes; the sources of this stream have names")
            if self.width is not None and len(votes) != self.width:
                raise _WrongLineError(f"{len(votes)} votes; the stream has {self.width} sources")
            if not votes:
                raise _WrongLineError("an empty list; one vote a source is needed")
            codes = self._codes(dict(enumerate(votes)))
            self.width = len(votes)
            return codes
        return self._named(votes)

    def _named(self, votes: dict[str, Any]) -> list[int]:
        if self.names is None and self.width is not None:
            raise _WrongLineError("votes with names; the sources of this stream have none")
        new = [name for name in votes if name not in self.place]
        if new and not self.open_sources:
            raise _WrongLineError(
                f"source {listed(new)} is not known; the stream has {listed(self.names or ())}. "
                "--new-sources add takes it in, --id names a field that is no source"
            )
        codes = dict(zip(votes, self._codes(votes), strict=True))
        if new:
            self.names = [*(self.names or ()), *new]
            self.width = len(self.names)
            self._take_names()
        return [codes.get(name, -1) for name in self.names or ()]

    def _codes(self, votes: Mapping[Any, Any]) -> list[int]:
        # All votes are checked before any class joins: a line that is refused leaves nothing behind.
        votes = {source: _whole(vote) for source, vote in votes.items()}
        for source, vote in votes.items():
            if vote is not None and type(vote) not in (str, int, bool):
                raise _WrongLineError(
                    f"source {told(source)} says {_shown(vote)}; a vote is a text, a whole number, true, "
                    "false or null"
                )
            if vote not in self.codes and not self.open_classes:
                raise _WrongLineError(
                    f"source {told(source)} says {_shown(vote)}; the classes are {listed(self.classes)}. "
                    "--new-classes add takes it in"
                )
        for vote in votes.values():
            if vote not in self.codes:
                self.codes[vote] = len(self.classes)
                self.classes.append(vote)
        return [self.codes[vote] for vote in votes.values()]


def _whole(vote: Any) -> Any:
    """1 for 1.0, which a lookup takes for the same."""
    return int(vote) if isinstance(vote, float) and vote.is_integer() else vote


def _classes_of(found: list[Label]) -> tuple[Label, ...]:
    """All classes, where the first block showed ``found``: 0..max for numbers, else sorted."""
    row = np.empty((1, max(1, len(found))), object)
    row[0, : len(found)] = found
    try:
        return Votes.from_classes(row).classes
    except VotesError as error:
        shown = listed(found) or "none"
        raise VotesError(
            f"the first votes show the classes {shown}; name all of them by --classes"
        ) from error


def _shown(value: Any) -> str:
    text = _dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
