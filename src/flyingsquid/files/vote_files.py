"""Open a file of votes: detect its format, describe it, and read it in chunks."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count, format_list, format_value, is_null, read_integer
from flyingsquid._warnings import warn_about_votes
from flyingsquid.exceptions import Note, VoteFileError
from flyingsquid.files.arrays import is_wrench, read_directory, read_npy, read_npz, read_wrench
from flyingsquid.files.coding import Coding, Survey, build_coding, read_convention
from flyingsquid.files.columnar import Batches, read_columnar
from flyingsquid.files.columns import Form, ReadOptions, Roles
from flyingsquid.files.decoded_size import MOST_BYTES
from flyingsquid.files.exchange import TOOLS, read_eval, read_export, tool_of
from flyingsquid.files.inputs import (
    DELIMITERS,
    Input,
    StrPath,
    add_path_to_errors,
    detect_format,
    open_input,
    read_json,
    text_blocks,
)
from flyingsquid.files.tables import DelimitedTable, JsonTable, columns_of, read_table
from flyingsquid.votes import ABSTAIN, REASONS, Votes
from flyingsquid.votes.codes import Codes, Label, is_sparse, read_names, shown_names, stack_codes
from flyingsquid.votes.conventions import SMALL_NUMBER, find_misreadings
from flyingsquid.votes.encode import Convention
from flyingsquid.votes.scores import Scores, read_score_table
from flyingsquid.votes.structure import Structure

# Large chunks, because some work is done once per chunk; still only a few megabytes of codes.
_CHUNK_CELLS = 1 << 23
# Rows that are tested for another convention of votes.
_TESTED_ROWS = 20_000
_TEXT_ENDINGS = (".txt", ".txt.gz", ".txt.zst")


class Source(Protocol):
    """Votes of one format: the values that occur, and codes once the classes are known."""

    @property
    def source_names(self) -> tuple[str, ...] | None: ...
    @property
    def n_sources(self) -> int: ...
    @property
    def n_items(self) -> int: ...
    def survey(self, exact: bool = False) -> Survey: ...
    def find(self, value: Any) -> str | None: ...
    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Codes, Any, NDArray[Any] | None]]: ...


@dataclass(frozen=True, slots=True)
class VoteChunk:
    """Some items of a file.

    Attributes
    ----------
    votes : Votes
        Votes with the same names and classes in every chunk.
    ids : sequence of n identifiers
        A list, a NumPy array or, for columnar files, a pyarrow array; row numbers from 0 if the file has no
        identifiers. ``numpy.asarray(ids)`` always works.
    gold_codes : integer array of shape (n,), or None
        Codes of the gold labels, -1 if unknown; None without a gold column.
    """

    votes: Votes
    ids: Any
    gold_codes: NDArray[Any] | None = None

    @property
    def gold(self) -> NDArray[Any] | None:
        """Gold labels, None if unknown, shape (n,); ready for ``LabelModel.fit(gold=)``."""
        if self.gold_codes is None:
            return None
        labels = np.empty(len(self.votes.classes) + 1, object)
        labels[:-1] = self.votes.classes
        return labels[self.gold_codes]

    def with_items(self) -> VoteChunk:
        """Return the chunk with :attr:`ids` as the identifiers of its votes."""
        if self.votes.items is not None:
            return self
        return replace(self, votes=replace(self.votes, items=np.asarray(self.ids, object)))


class VoteFile:
    """An open file of votes. Iterate over it as often as needed, or :meth:`read` all of it.

    Attributes
    ----------
    path : str
        Name of the file in messages.
    format : str
        One of :data:`flyingsquid.files.FORMATS`.
    form : "wide" or "long"
    classes : tuple of K labels
    names : tuple of m str, or None if sources have only positions
    item_name, gold_name : str or None
        The columns of identifiers and of gold labels.
    n_items, n_sources : int
    structure : Structure or None
        Which sources are answers of one judge, for a panel in long form.
    notes : tuple of Note
        Assumptions, and the parameters that change them.
    misreadings : tuple of Note
        Notes on evidence that the votes were misread; they are also in ``notes``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import flyingsquid as fs
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = path.write_text("id,a,b\\n1,spam,ham\\n2,ham,\\n")
    >>> file = fs.files.open_votes(path)
    >>> file.n_items, file.names, file.classes
    (2, ('a', 'b'), ('ham', 'spam'))
    >>> file.read().votes
    Votes(2 items x 2 sources, classes 'ham', 'spam', 75% voted, dense int8)
    >>> [chunk.votes.n_items for chunk in file]
    [2]
    """

    def __init__(
        self, source: Source, given: Input, format: str, roles: Roles, convention: Convention,
        chunk_rows: int | None,
    ) -> None:  # fmt: skip
        survey = _survey(source, convention)
        coding, notes = build_coding(survey, convention, lambda value: source.find(value) or "gold labels")
        is_declared = (convention.classes or survey.classes) is not None
        is_declared |= REASONS[0] in convention.reasons.values()
        self._source, self._coding = source, coding
        self._input = given  # a temporary copy of standard input lives as long as this
        self._missing = [v for v in survey.values if coding.code_of(v) == ABSTAIN]
        self.path = given.shown
        self.format, self.form = format, roles.form
        self.classes = coding.classes
        self.n_sources, self.names = source.n_sources, source.source_names
        self.structure: Structure | None = getattr(source, "structure", None)
        self.item_name, self.gold_name = roles.item, roles.gold
        self.n_items = source.n_items
        self.misreadings = () if is_declared else _misreadings(source, coding)
        self.notes = (*roles.notes, *notes, *self.misreadings)
        width = max(1, self.n_sources, len(self.classes))
        self.chunk_rows = chunk_rows or max(1, min(LIMITS.get().chunk_rows, _CHUNK_CELLS // width))

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... if there are none."""
        return shown_names(self.names, self.n_sources)

    def __iter__(self) -> Iterator[VoteChunk]:
        with add_path_to_errors(self.path):
            read_names(self.names, self.n_sources)
            start = 0
            for codes, ids, gold in self._source.chunks(self._coding, self.chunk_rows):
                n = codes.shape[0]
                items = ids if ids is not None and is_sparse(codes) else None
                votes = Votes._checked(codes, self.classes, self.names, items, self.structure)
                yield VoteChunk(votes, np.arange(start, start + n) if ids is None else ids, gold)
                start += n

    def read(self) -> VoteChunk:
        """Read all items as one chunk, whose votes have the identifiers of the file as ``items``."""
        chunks = list(self)
        chunk = chunks[0] if len(chunks) == 1 else join_chunks(chunks)
        return chunk if self.item_name is None else chunk.with_items()

    def describe(self) -> str:
        """Return a one-line description of the file.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
        >>> _ = path.write_text("id,links,short\\na,spam,\\nb,ham,ham\\n")
        >>> open_votes(path).describe()
        '2 items, 2 sources, classes ham/spam, blank = abstain, wide form'
        """
        classes = "/".join(_short(label) for label in self.classes[:6])
        if len(self.classes) > 6:
            classes += f"/... ({len(self.classes):,})"
        abstain = "no row = abstain"
        if self.form == "wide":
            missing = sorted(
                {"blank" if is_null(v) or not str(v).strip() else _short(v) for v in self._missing}
            )
            abstain = f"{' or '.join(missing[:3])} = abstain" if missing else ""
        parts = [
            format_count(self.n_items, "item"),
            format_count(self.n_sources, "source"),
            f"classes {classes}",
            abstain,
            f"{self.form} form",
        ]
        return ", ".join(part for part in parts if part)


def open_votes(
    path: StrPath,
    *,
    format: str | None = None,  # the word that users know
    form: Form | None = None,
    item: str | bool | None = None,
    sources: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    gold: str | None = None,
    long: Iterable[str] | None = None,
    header: bool | None = None,
    part: str | None = None,
    abstain: Iterable[Any] | str | float | None = None,
    reasons: Mapping[Any, str] | None = None,
    signed: bool = False,
    classes: Iterable[Label] | None = None,
    normalize: bool = False,
    duplicates: str = "error",
    chunk_rows: int | None = None,
    max_decoded_bytes: int = MOST_BYTES,
    panel: Mapping[str, str] | None = None,
) -> VoteFile:
    """Open a file of votes.

    Parameters
    ----------
    path : str or os.PathLike
        "-" is standard input. A directory holds parquet files, a dataset of WRENCH or a dataset that Hugging
        Face's ``save_to_disk`` wrote.
    format : str, optional
        One of "csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench", "label_studio",
        "argilla" or "inspect". By default, it is detected from the name and the content of the file, which
        must agree.
    form : "wide" (one row per item) or "long" (one row per vote), optional
        By default, it is detected from the names of the columns.
    item : str or False, optional
        The column of item identifiers; False if there is none. By default, it is detected from the names and
        values of the columns.
    sources, ignore : iterable of str, optional
        Columns of votes, and columns to leave out. By default, all columns except for the item and gold
        columns are votes.
    gold : str, optional
        The column of gold labels. It is never chosen by default.
    long : (item, source, label), optional
        The columns of items, sources and labels in long form.
    header : bool, optional
        Whether the first line of a csv contains names. By default it does unless it contains only numbers.
    part : str, optional
        The array of an npz file ("L_train" or "train"), the split of a directory, or the question of an
        export of Label Studio or Argilla, or the name of a score in a log of inspect_ai.
    abstain : value or iterable of values, optional
        Values that mean "no vote", in addition to blank, NA, null, NaN, and -1 among numbers.
    reasons : mapping of value to str, optional
        Values that mean a missing vote with a reason, such as ``{"N/A": "refused"}``.
    signed : bool, default=False
        Read -1 and 1 as the classes and 0 as "no vote".
    classes : iterable of labels, optional
        All classes, in order. By default those that occur.
    normalize : bool, default=False
        Read strings that differ only in case or spaces as one label, in lower case.
    duplicates : "error", "first", "last" or "majority", default="error"
        What to do if a source votes more than once on an item in long form.
    chunk_rows : int, optional
        Number of items per chunk.
    max_decoded_bytes : int, default=2**28
        Limit for what is decoded at once: the pages of a parquet file, a compressed batch of an arrow file,
        an array of an npz file, or a JSON document. A few bytes of a crafted file can declare gigabytes;
        raise the limit for large files that you trust.
    panel : mapping of field to column, optional
        The columns of a panel of judges in long form, such as ``{"judge": "rater", "order": "position"}``.
        The fields are judge, model, prompt, order and repeat, as in :class:`flyingsquid.SourceInfo`. By
        default, columns with these names, if there are at least two.

    Raises
    ------
    VoteFileError
        If the file cannot be read. ``path``, ``line`` and ``hints`` are attributes of the error.
    OptionError
        If an option is invalid, or options contradict each other.

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
    options = ReadOptions(
        form, item, sources, ignore, gold, long,  # type: ignore[arg-type]  # iterables become tuples
        header, part, duplicates, max_decoded_bytes, panel,
    )  # fmt: skip
    convention = read_convention(classes, abstain, signed, reasons, normalize)
    if chunk_rows is not None:
        read_integer("chunk_rows", chunk_rows, 1)
    given = open_input(path)
    with add_path_to_errors(given.shown):
        found, roles, source = _read(given, detect_format(given, format), options)
        if not source.n_items:
            raise VoteFileError("The file contains no items.")
        return VoteFile(source, given, found, roles, convention, chunk_rows)


def _read(given: Input, format: str, options: ReadOptions) -> tuple[str, Roles, Source]:
    """Return the format, which the content of JSON decides, and the votes."""
    if format in ("csv", "tsv"):
        return format, *read_table(DelimitedTable(given, format, options.header), options)
    if format in ("parquet", "arrow"):
        return format, *read_columnar(given.path, format, options)
    if format == "npy":
        return format, *read_npy(given.path, options)
    if format == "npz":
        return format, *read_npz(given.path, options)
    if format == "wrench":
        return format, *read_directory(given.path, options)
    return _read_json(given, format, options)


def _read_json(given: Input, format: str, options: ReadOptions) -> tuple[str, Roles, Source]:
    """Read JSON lines, or a document: records, WRENCH or the export of a tool."""
    document: Any = None
    if format == "inspect" and zipfile.is_zipfile(given.path):
        document = read_eval(given.path, options.max_decoded_bytes)
    elif format != "jsonl":
        document = read_json(given, options.max_decoded_bytes)
    tool = tool_of(document) if format == "json" else format
    if tool in TOOLS:
        return tool, *read_export(document, tool, options)
    if is_wrench(document):
        return format, *read_wrench(document, options)
    records = document if document is None or isinstance(document, list) else [document]
    return format, *read_table(JsonTable(records, given), options)


def _survey(source: Source, convention: Convention) -> Survey:
    """Return the values that occur; all of them if the extremes do not determine the classes."""
    survey = source.survey(exact=convention.classes is None and bool(convention.reasons))
    numbers = [v for v in survey.values if v is not None]
    if not survey.extremes_only or not numbers:
        return survey
    if min(numbers) < -1 or max(numbers) > SMALL_NUMBER:
        return source.survey(exact=True)
    if min(numbers) == -1 and max(numbers) > 1:  # the smallest class may be 0 or 1
        if source.find(0) is None:
            return source.survey(exact=True)
        return replace(survey, values=[*survey.values, 0])
    return survey


def _misreadings(source: Source, coding: Coding) -> tuple[Note, ...]:
    """Return notes if the first votes fit another convention better than the one they are read by."""
    codes = next((codes for codes, _, _ in source.chunks(coding, _TESTED_ROWS)), None)
    found = [] if codes is None else find_misreadings(codes, coding.classes)
    return tuple(Note(d.summary, () if d.hint is None else (d.hint,)) for d in found)


def _short(label: Any) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 40 else text[:37] + "..."


def read_path(votes: Any, classes: Iterable[Label] | None = None) -> Any:
    """Return the votes of a file if ``votes`` is its path; other values unchanged.

    Item identifiers of the file are those of the votes.
    """
    if not isinstance(votes, (str, os.PathLike)):
        return votes
    file = open_votes(votes, classes=classes)
    chunk = file.read()
    for note in file.misreadings:
        warn_about_votes(f"{file.path}: {note}")
    items = None if file.item_name is None else np.asarray(chunk.ids, object)
    return replace(chunk.votes, items=items)


def join_chunks(chunks: list[VoteChunk]) -> VoteChunk:
    """Join the chunks of a file into one."""
    first = chunks[0].votes
    codes = stack_codes([c.votes.codes for c in chunks])
    ids = [np.asarray(c.ids, object) for c in chunks]
    items = None if first.items is None else np.concatenate([np.asarray(c.votes.items) for c in chunks])
    gold = None
    if chunks[0].gold_codes is not None:
        gold = np.concatenate([c.gold_codes for c in chunks if c.gold_codes is not None])
    votes = Votes(codes, first.classes, first.names, items, first.structure)
    return VoteChunk(votes, np.concatenate(ids), gold)


# ---------------------------------------------------------------------- items and scores


def read_records(path: StrPath) -> list[Any]:
    """Read the items themselves: one mapping per row, or one string per line of a ``.txt`` file.

    The format is csv, tsv, JSON lines, a JSON list, parquet or arrow.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text("id,text\\n7,Buy now\\n")
    >>> read_records(path)
    [{'id': '7', 'text': 'Buy now'}]
    """
    source = open_input(path)
    with add_path_to_errors(source.shown):
        if source.shown.lower().endswith(_TEXT_ENDINGS):
            return [line for text in text_blocks(source) for line in text.splitlines()]
        return list(iterate_records(source))


def iterate_records(source: Input) -> Iterable[dict[str, Any]]:
    """Yield one mapping per row of a table."""
    found = detect_format(source)
    if found in ("parquet", "arrow"):
        batches = Batches(source.path, found)
        for batch in batches.batches(batches.names, 1 << 16):
            yield from batch.to_pylist()
    elif found in ("csv", "tsv"):
        for block in DelimitedTable(source, found, header=True).row_blocks():
            names = list(block.columns)
            yield from (
                dict(zip(names, row, strict=True)) for row in zip(*block.columns.values(), strict=True)
            )
    elif found in ("json", "jsonl"):
        records = read_json(source) if found == "json" else None
        if found == "json" and not isinstance(records, list):
            raise VoteFileError("The items must be a list of records, one per item.")
        for number, record in JsonTable(records, source).records():
            if not isinstance(record, dict):
                raise VoteFileError(
                    f"Item {number} must be an object with names; got {format_value(record)}."
                )
            yield record
    else:
        raise VoteFileError(f"The items must be csv, tsv, jsonl, json, parquet, arrow or txt; got {found}.")


def read_columns(source: Input) -> dict[str, list[Any]]:
    """Return the columns of a table."""
    found = detect_format(source)
    if found not in DELIMITERS:
        return columns_of(list(iterate_records(source)))
    columns: dict[str, list[Any]] = {}
    for block in DelimitedTable(source, found, header=True).row_blocks():
        for name, values in block.columns.items():
            columns.setdefault(name, []).extend(values)
    return columns


def read_score_file(
    path: StrPath, *, ignore: Collection[str] = (), fitted: Sequence[str] | None = None
) -> Scores:
    """Read a wide or long table of scores.

    Parameters
    ----------
    path : str or os.PathLike
        A csv, tsv, JSON, parquet or arrow file with named columns; ``-`` is standard input.
    ignore : collection of str
        Columns to leave out.
    fitted : sequence of str, optional
        Names of the sources of an earlier fit; other columns of a wide table are left out.
    """
    source = open_input(path)
    with add_path_to_errors(source.shown):
        columns = read_columns(source)
        names = list(columns)
        if not names:
            raise VoteFileError("The file must have column names and at least one row.")
        unknown = [name for name in ignore if name not in names]
        if unknown:
            raise VoteFileError(
                f"`ignore` must contain column names, such as {format_list(names, 5)}; got "
                f"{format_value(unknown[0])}."
            )
        columns = {name: values for name, values in columns.items() if name not in ignore}
        return read_score_table(columns, None, fitted)
