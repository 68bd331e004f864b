"""Open a file of votes: recognise it, say what was understood, read it in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, told
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.formats.arrays import read_npy, read_npz
from flyingsquid.formats.coding import Coding, Survey, Wish, decide
from flyingsquid.formats.columnar import read_columnar
from flyingsquid.formats.columns import Form, Roles, Wanted
from flyingsquid.formats.delimited import DelimitedTable
from flyingsquid.formats.jsonlines import OUTER, JsonTable, read_json
from flyingsquid.formats.recognise import format_of
from flyingsquid.formats.streams import Input, located, open_input
from flyingsquid.formats.tables import read_table
from flyingsquid.formats.wrench import is_wrench, read_folder, read_wrench
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.states import Codes, Label, is_sparse, shown_names, stack_codes

StrPath: TypeAlias = str | os.PathLike[str]
# Large chunks, because much is done once a chunk and not once an item; a few megabytes of codes all the same.
_CHUNK_CELLS, _CHUNK_ROWS = 1 << 23, 1 << 19


class Source(Protocol):
    """What a reader of a format gives: the values that occur, and codes once these have a meaning."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def n_items(self) -> int: ...
    @property
    def has_ids(self) -> bool: ...
    @property
    def has_gold(self) -> bool: ...
    def survey(self, exact: bool = False) -> Survey: ...
    def find(self, value: Any) -> str | None: ...
    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Codes, Any, NDArray[Any] | None]]: ...


@dataclass(frozen=True, slots=True)
class VoteChunk:
    """Some items of a file.

    Attributes
    ----------
    votes : Votes, with the same names and classes in every chunk
    ids : n identifiers: a list, a NumPy array, or of columnar files an array of pyarrow; row numbers, counted
        from 0 through the whole file, where the file has none. ``numpy.asarray(ids)`` always works
    gold_codes : codes of the known labels, -1 where unknown, shape (n,); None where none were asked for
    """

    votes: Votes
    ids: Any
    gold_codes: NDArray[Any] | None = None

    @property
    def gold(self) -> NDArray[Any] | None:
        """Known labels, None where unknown, shape (n,); ready for ``LabelModel.fit(gold=)``."""
        if self.gold_codes is None:
            return None
        labels = np.empty(len(self.votes.classes) + 1, object)
        labels[:-1] = self.votes.classes
        return labels[self.gold_codes]


class VoteFile:
    """An open file of votes. Iterate over it, as often as needed, or :meth:`read` it whole.

    Attributes
    ----------
    path : str
        How the file is called, in messages too.
    format : str
        One of :data:`flyingsquid.formats.FORMATS`.
    form : "wide" or "long"
    classes : tuple of K labels
    names : tuple of m texts, or None where sources have only positions
    item_name, gold_name : str or None
        The columns of identifiers and of known labels.
    n_items : int
    notes : tuple of texts
        What was assumed, and how to say otherwise.
    """

    def __init__(
        self, source: Source, given: Input, format: str, roles: Roles, survey: Survey, coding: Coding,
        notes: Sequence[str], chunk_rows: int | None,
    ) -> None:  # fmt: skip
        self._source, self._coding = source, coding
        self._input = given  # what was spooled is removed when this goes
        self._missing = [v for v in survey.values if coding.code_of(v) == ABSTAIN]
        self.path = given.shown
        self.format, self.form = format, roles.form
        self.classes = coding.classes
        self.n_sources = len(source.names) or int(getattr(source, "n_sources", 0))
        self.names = None if getattr(source, "positional", False) else tuple(source.names) or None
        self.item_name, self.gold_name = _plain(roles.item), _plain(roles.gold)
        self.n_items = source.n_items
        self.notes = tuple(notes)
        width = max(1, self.n_sources, len(self.classes))
        self.chunk_rows = chunk_rows or max(1, min(_CHUNK_ROWS, _CHUNK_CELLS // width))

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... where there are none."""
        return shown_names(self.names, self.n_sources)

    def __iter__(self) -> Iterator[VoteChunk]:
        with located(self.path):
            start = 0
            for codes, ids, gold in self._source.chunks(self._coding, self.chunk_rows):
                n = codes.shape[0]
                items = _as_ids(ids) if ids is not None and is_sparse(codes) else None
                votes = Votes(codes, self.classes, self.names, items)
                yield VoteChunk(votes, np.arange(start, start + n) if ids is None else ids, gold)
                start += n

    def read(self) -> VoteChunk:
        """All of it in one chunk."""
        chunks = list(self)
        if len(chunks) == 1:
            return chunks[0]
        return join_chunks(chunks)

    def describe(self) -> str:
        """What was understood, in one line.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
        >>> _ = path.write_text("id,links,short\\na,spam,\\nb,ham,ham\\n")
        >>> open_votes(path).describe()
        '2 items, 2 sources, classes ham/spam, blank = abstain, wide form'
        """
        shown = [_short(label) for label in self.classes[:6]] + (["..."] if len(self.classes) > 6 else [])
        classes = "/".join(shown) + (f" ({len(self.classes):,})" if len(self.classes) > 6 else "")
        parts = [
            f"{self.n_items:,} item{'s' * (self.n_items != 1)}",
            f"{self.n_sources:,} source{'s' * (self.n_sources != 1)}",
            f"classes {classes}",
            self._abstain(),
            f"{self.form} form",
        ]
        return ", ".join(part for part in parts if part)

    def _abstain(self) -> str:
        if self.form == "long":
            return "no row = abstain"
        shown = sorted({"blank" if str(v).strip() == "" or is_null(v) else _short(v) for v in self._missing})
        return f"{' or '.join(shown[:3])} = abstain" if shown else ""


def open_votes(
    path: StrPath,
    *,
    format: str | None = None,  # the word that users know
    form: Form | None = None,
    item: str | bool | None = None,
    sources: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    gold: str | None = None,
    long: tuple[str, str, str] | None = None,
    header: bool | None = None,
    part: str | None = None,
    abstain: Iterable[Any] | str | float | None = None,
    reasons: Mapping[Any, str] | None = None,
    signed: bool = False,
    classes: Iterable[Label] | None = None,
    duplicates: str = "error",
    chunk_rows: int | None = None,
) -> VoteFile:
    """Open a file of votes.

    Parameters
    ----------
    path : path, or "-" for standard input
        A folder is one of WRENCH.
    format : one of "csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench", optional
        Default: by the name and the first bytes, which must agree.
    form : "wide" (one row an item) or "long" (one row a vote), optional
    item : the column of item identifiers, optional
        False: there is none.
    sources, ignore : columns of votes, and columns to leave out, optional
    gold : the column of known labels, optional
        Never taken unless named.
    long : the columns of items, sources and labels of the long form, optional
    header : whether the first line of a csv holds names, optional
    part : which array of an npz ("L_train" or "train"), or which split of a WRENCH folder, optional
    abstain : a value or values that mean "no vote", beside blank, NA, null, NaN, and -1 among numbers
    reasons : values that mean a missing vote with a reason, such as ``{"N/A": "refused"}``
    signed : read -1 and 1 as the classes and 0 as "no vote"
    classes : class labels, in order, optional
        Default: the ones that occur.
    duplicates : "error", "first", "last" or "majority", where a source votes twice on an item in long form
    chunk_rows : how many items a chunk has, optional

    Raises
    ------
    VoteFileError
        If the file cannot be read, in one line that says where and what to do.
    OptionError
        If the options contradict each other.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = path.write_text("id,links,short\\na,spam,\\nb,ham,ham\\n")
    >>> file = open_votes(path)
    >>> file.classes, file.source_names, file.item_name
    (('ham', 'spam'), ('links', 'short'), 'id')
    >>> for chunk in file:
    ...     print(list(chunk.ids), chunk.votes.codes.tolist())
    ['a', 'b'] [[1, -1], [0, 0]]
    """
    wanted = Wanted(form, item, _names(sources), _names(ignore) or (), gold, long and _triple(long))
    wish = Wish.read(classes, abstain, signed, reasons)
    if duplicates not in ("error", "first", "last", "majority"):
        raise OptionError(f"duplicates={told(duplicates)} is unknown; error, first, last or majority")
    if chunk_rows is not None and chunk_rows < 1:
        raise OptionError(f"chunk_rows={told(chunk_rows)}; at least one item a chunk is needed")
    given = open_input(path)
    with located(given.shown):
        found = format_of(given, format)
        roles, source = _opened(given, found, wanted, duplicates, header, part)
        if not source.n_items:
            raise VoteFileError("the file holds no items")
        survey = _surveyed(source, wish)
        coding, notes = decide(survey, wish, lambda value: source.find(value) or "known labels")
    return VoteFile(source, given, found, roles, survey, coding, (*roles.notes, *notes), chunk_rows)


def _opened(
    given: Input, found: str, wanted: Wanted, duplicates: str, header: bool | None, part: str | None
) -> tuple[Roles, Source]:  # fmt: skip
    if found == "wrench":
        return read_folder(given.path, wanted, part)
    if found in ("npy", "npz"):
        return read_npz(given.path, wanted, part) if found == "npz" else read_npy(given.path, wanted)
    if found in ("parquet", "arrow"):
        return read_columnar(given.path, found, wanted, duplicates)
    if found in ("csv", "tsv"):
        return read_table(DelimitedTable(given, found, header), wanted, duplicates)
    document: Any = read_json(given) if found == "json" else None
    if is_wrench(document):
        return read_wrench(document, wanted, None)
    records = document if document is None or isinstance(document, list) else [document]
    return read_table(JsonTable(records, given), wanted, duplicates)


def _surveyed(source: Source, wish: Wish) -> Survey:
    """The values that occur; all of them, where the smallest and the largest do not tell the classes."""
    survey = source.survey(exact=bool(wish.abstain or wish.reasons))
    numbers = [v for v in survey.values if v is not None]
    if not survey.extremes_only or not numbers:
        return survey
    if min(numbers) < -1 or max(numbers) > 100:
        return source.survey(exact=True)
    if min(numbers) == -1 and max(numbers) > 1:  # is 0 the smallest class, or 1?
        if source.find(0) is None:
            return source.survey(exact=True)
        return replace(survey, values=[*survey.values, 0])
    return survey


def _names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise OptionError(f"{told(names)} is one text; pass a list of column names")
    return tuple(names)


def _triple(long: Iterable[str]) -> tuple[str, str, str]:
    names = tuple(long)
    if isinstance(long, str) or len(names) != 3:
        raise OptionError(f"long={told(long)}; three columns are needed: item, source, label")
    return names


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 40 else text[:37] + "..."


def _plain(name: str | None) -> str | None:
    return None if name is None else name.removeprefix(OUTER)


def _as_ids(ids: Any) -> NDArray[Any]:
    if isinstance(ids, np.ndarray):
        return ids
    array = np.empty(len(ids), object)
    array[:] = ids
    return array


def join_chunks(chunks: list[VoteChunk]) -> VoteChunk:
    """Several chunks of a file as one."""
    first = chunks[0].votes
    codes = stack_codes([c.votes.codes for c in chunks])
    ids = [np.asarray(c.ids, object) for c in chunks]
    items = None if first.items is None else np.concatenate([np.asarray(c.votes.items) for c in chunks])
    gold = None
    if chunks[0].gold_codes is not None:
        gold = np.concatenate([c.gold_codes for c in chunks if c.gold_codes is not None])
    return VoteChunk(Votes(codes, first.classes, first.names, items), np.concatenate(ids), gold)
