"""Write votes, labels and estimates of scores to files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import format_count, format_value, option_error, plain_value
from flyingsquid.exceptions import Hint, OptionError, VoteFileError
from flyingsquid.files.arrays import GOLD, MARK, WEAK
from flyingsquid.files.columns import Form, list_of_values
from flyingsquid.files.exchange import TOOLS, export_text
from flyingsquid.files.inputs import DELIMITERS, FORMATS, StrPath, add_path_to_errors
from flyingsquid.files.outputs import (
    ArrayWriter,
    ColumnarWriter,
    DelimitedWriter,
    JsonLinesWriter,
    TableWriter,
    id_array,
    label_text,
    output,
    output_format,
    text_array,
    text_file,
)
from flyingsquid.files.state import encode_labels
from flyingsquid.files.vote_files import VoteChunk, VoteFile, join_chunks
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import (
    Items,
    in_item_order,
    index_of,
    item_ids,
    join_by_item,
    join_labels,
    read_gold,
)
from flyingsquid.votes.codes import ABSTAIN, Label, is_sparse, marked_cells, stack_codes
from flyingsquid.votes.conventions import is_item_name
from flyingsquid.votes.decisions import is_tied

LABEL_FORMATS = ("csv", "tsv", "jsonl", "npz", "parquet", "arrow")
"""The formats that labels are written in."""
ESTIMATE_FORMATS = ("csv", "tsv", "jsonl")
"""The formats that estimates of scores are written in."""


def write_votes(
    path: StrPath,
    votes: Votes | VoteFile | Iterable[VoteChunk],
    *,
    ids: ArrayLike | None = None,
    gold: ArrayLike | None = None,
    format: str | None = None,  # the word that users know
    form: Form | None = None,
    overwrite: bool = False,
    escape_formulas: bool = False,
    data: Any = None,
    probabilities: ArrayLike | None = None,
    part: str | None = None,
) -> None:
    """Write votes to a file. The file appears only if everything succeeds.

    Parameters
    ----------
    path : str or os.PathLike
        "-" is standard output (csv, unless ``format`` is given). Names that end in ``.gz`` or ``.zst``
        compress csv, tsv and JSON.
    votes : Votes, VoteFile or iterable of VoteChunk
    ids : array of n identifiers, optional
        Item identifiers, supported only with ``Votes``. Default: ``votes.items``.
    gold : array of n gold labels, optional
        Gold labels, None if unknown, supported only with ``Votes``. A mapping or a pandas Series is joined by
        item identifier.
    format : str, optional
        As in :func:`open_votes`. By default, the suffix of the name determines it. "json" is WRENCH in one
        file, "wrench" a directory.
    form : "wide" or "long", optional
        Default: long for sparse votes, if the format supports it.
    overwrite : bool, default=False
        Replace an existing file.
    escape_formulas : bool, default=False
        In csv and tsv, write an apostrophe before strings that start with ``=``, ``+``, ``-`` or ``@``, which
        a spreadsheet would run as formulas.
    data : table, or sequence of n mappings or strings, optional
        The items themselves, which become the fields of tasks, records or samples. A pandas table is joined
        by item identifier. This and the next two are only for "label_studio", "argilla" and "inspect".
    probabilities : array of shape (n, K), optional
        Labels of a model, which are written as a prediction (Label Studio), a suggestion (Argilla) or a score
        (inspect_ai) of ``flyingsquid``.
    part : str, default="label"
        The question that the votes answer.

    Raises
    ------
    VoteFileError
        If the file exists already, or cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> votes = Votes.from_classes([["spam", None], ["ham", "ham"]], names=["links", "short"])
    >>> write_votes(path, votes, ids=["a", "b"])
    >>> print(path.read_text(), end="")
    id,links,short
    a,spam,
    b,ham,ham
    """
    chunks = _chunks(votes, ids, gold)
    first = next(chunks, None)
    if first is None:
        raise VoteFileError("There are no votes to write.", path=os.fspath(path))
    found = "wrench" if format is None and Path(path).is_dir() else output_format(path, format, FORMATS)
    if form not in (None, "wide", "long"):
        raise option_error("form", '"wide" or "long"', form)
    if form == "long" and found in ("npy", "npz", "json", "wrench", *TOOLS):
        raise OptionError(f'`form` must be "wide" for {found} files; got "long".', parameter="form")
    long = form == "long" or (form is None and first.votes.is_sparse)
    every = chain([first], chunks)
    if found in TOOLS:
        parts = list(every)
        all_items = parts[0] if len(parts) == 1 else join_chunks(parts)
        items = (
            Items(all_items.votes.n_items)
            if all_items.ids is None
            else Items.of(list_of_values(all_items.ids))
        )
        if isinstance(data, Mapping):
            data = join_by_item(data, item_ids(votes, items), items.n_items, "data")
        data = in_item_order(data, votes, items, "data")
        probabilities = in_item_order(probabilities, votes, items, "probabilities")
        text = export_text(found, all_items, data, probabilities, part)
        with output(path, overwrite=overwrite) as file:
            text_file(file).write(text)
        return
    for option, value in (("data", data), ("probabilities", probabilities), ("part", part)):
        if value is not None:
            raise OptionError(
                f"`{option}` is only supported for the formats {', '.join(TOOLS)}; got {found}.",
                parameter=option,
            )
    if found == "wrench":
        _write_directory(path, every, overwrite=overwrite)
        return
    named = votes.item_name if isinstance(votes, VoteFile) else None
    has_ids = named is not None if isinstance(votes, VoteFile) else first.ids is not None
    has_gold = first.gold_codes is not None
    layout = _Layout(found, first.votes, has_ids, has_gold, long, _item_name(named, long), escape_formulas)
    write = _write_wrench if found == "json" else _write_arrays if found in ("npy", "npz") else _write_table
    with output(path, overwrite=overwrite) as file:
        write(file, every, layout)


def _item_name(name: str | None, long: bool) -> str:
    """Return the column of identifiers. In long form, only a usual name is recognized when it is read."""
    if not name or not name.strip() or (long and not is_item_name(name)):
        return "item" if long else "id"
    return name


def _chunks(votes: Any, ids: ArrayLike | None, gold: ArrayLike | None) -> Iterator[VoteChunk]:
    if not isinstance(votes, Votes):
        for name, value in (("ids", ids), ("gold", gold)):
            if value is not None:
                raise OptionError(
                    f"`{name}` is supported only with Votes, because chunks have their own.", parameter=name
                )
        yield from votes
        return
    known = votes.items if ids is None else np.asarray(join_labels(ids, votes, votes, "ids"))
    if known is not None and known.shape != (votes.n_items,):
        raise OptionError(
            f"`ids` must have the shape ({votes.n_items},); got {known.shape}.", parameter="ids"
        )
    codes = None
    if gold is not None:
        is_numbered = index_of(gold) == list(range(votes.n_items))  # as a column of the table with the ids
        items = votes if known is None or is_numbered else Items.of(known.tolist())
        codes = read_gold(join_labels(gold, votes, items, "gold"), votes.classes, votes.n_items, "gold")
    yield VoteChunk(votes, known, codes)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Content of a file of votes; ``votes`` are the first ones."""

    format: str
    votes: Votes
    has_ids: bool
    has_gold: bool
    long: bool
    item: str
    escape_formulas: bool

    def columns(self, *, nested: bool = False) -> list[str]:
        """Return the columns of a table; with ``nested``, the votes of a row are one of them.

        Raises
        ------
        VoteFileError
            If a source has the name of another column.
        """
        item, gold = [self.item] if self.has_ids else [], ["gold"] if self.has_gold else []
        if self.long:
            return [self.item, "source", "label", *gold]
        sources = ["votes"] if nested else self.votes.source_names
        clash = [name for name in sources if name in (*item, *gold)]
        if clash:
            raise VoteFileError(
                f"A source and another column are both named {format_value(clash[0])}; rename the "
                "source, or write npz or jsonl."
            )
        return [*item, *sources, *gold]


def _write_table(file: BinaryIO, chunks: Iterable[VoteChunk], layout: _Layout) -> None:
    """Write csv, tsv, JSON lines, parquet or arrow: one row per item or per vote."""
    about = {
        "classes": encode_labels(layout.votes.classes),
        "form": "long" if layout.long else "wide",
        "item": layout.item if layout.has_ids else None,
        "gold": "gold" if layout.has_gold else None,
    }
    is_nested = layout.format == "jsonl"
    with _table_writer(
        file,
        layout.format,
        layout.columns(nested=is_nested),
        layout.votes.classes,
        escape_formulas=layout.escape_formulas,
        metadata=about,
    ) as table:
        for chunk in chunks:
            if layout.long:
                columns = _long_columns(table, chunk)
            else:
                columns = [table.values(chunk.ids)] if layout.has_ids else []
                votes = [table.labels(codes) for codes in _dense(chunk.votes).T]
                columns += table.group(votes, chunk.votes.names)
                if chunk.gold_codes is not None:
                    columns.append(table.labels(chunk.gold_codes))
            table.write(columns)


def _table_writer(
    file: BinaryIO,
    format: str,  # as in write_votes
    names: Sequence[str],
    classes: tuple[Label, ...] = (),
    *,
    nested: Sequence[str] | None = None,
    escape_formulas: bool = False,
    metadata: dict[str, Any] | None = None,
    required: Collection[str] = (),
    encode: Callable[[list[Any]], dict[str, Any]] | None = None,
) -> TableWriter:
    """Return the writer of a format; ``nested`` are the columns of formats in which one holds a whole row.

    The other options are those of :class:`~flyingsquid.files.outputs.ColumnarWriter`.
    """
    if format in DELIMITERS:
        return DelimitedWriter(file, format, names, classes, escape_formulas=escape_formulas)
    if format in ("jsonl", "npz"):
        writer = JsonLinesWriter if format == "jsonl" else ArrayWriter
        return writer(file, nested or names, encode_labels(classes))
    return ColumnarWriter(file, format, names, classes, metadata=metadata, required=required, encode=encode)


def _long_columns(table: TableWriter, chunk: VoteChunk) -> list[Any]:
    """Return the item, source and label of every vote, and the gold label if there are any.

    An item without votes has one row in which the first source abstains, so that it is not lost.
    """
    rows, columns, entries = marked_cells(chunk.votes.codes)
    empty = np.flatnonzero(np.bincount(rows, minlength=chunk.votes.n_items) == 0)
    if len(empty):
        order = np.argsort(np.concatenate([rows, empty]), kind="stable")
        rows = np.concatenate([rows, empty])[order]
        columns = np.concatenate([columns, np.zeros_like(empty)])[order]
        entries = np.concatenate([entries, np.full(len(empty), ABSTAIN)])[order]
    ids = list(range(chunk.votes.n_items)) if chunk.ids is None else list_of_values(chunk.ids)
    names = chunk.votes.source_names
    triples = [
        table.values([ids[i] for i in rows.tolist()]),
        table.values([names[j] for j in columns.tolist()]),
        table.labels(entries),
    ]
    return triples if chunk.gold_codes is None else [*triples, table.labels(chunk.gold_codes[rows])]


def _dense(votes: Votes) -> NDArray[Any]:
    if votes.is_sparse and votes.n_items * votes.n_sources > 1 << 28:
        raise OptionError(
            f"The wide form of {format_count(votes.n_items, 'item')} x "
            f"{format_count(votes.n_sources, 'source')} is too large.",
            hints=[Hint("form", "to write one row per vote", "long")],
        )
    return np.asarray(votes.to_dense().codes)


def _write_wrench(file: BinaryIO, chunks: Iterable[VoteChunk], _layout: _Layout | None = None) -> None:
    """Write WRENCH data in one file."""
    text, row = text_file(file), 0
    text.write("{")
    for chunk in chunks:
        votes = np.maximum(np.asarray(chunk.votes.to_dense().codes), -1).tolist()
        n = len(votes)
        ids = range(row, row + n) if chunk.ids is None else list_of_values(chunk.ids)
        gold = [-1] * n if chunk.gold_codes is None else chunk.gold_codes.tolist()
        for at, (identity, weak, label) in enumerate(zip(ids, votes, gold, strict=True), row):
            entry = json.dumps({GOLD: label, WEAK: weak, "data": {}})
            text.write(f"{',' * (at > 0)}\n{json.dumps(str(identity))}: {entry}")
        row += n
    text.write("\n}\n")


def _write_directory(path: StrPath, chunks: Iterator[VoteChunk], *, overwrite: bool) -> None:
    """Write a directory of WRENCH: ``label.json`` with the names of classes, and ``train.json``."""
    directory = os.fspath(path)
    os.makedirs(directory, exist_ok=True)
    first = next(chunks)
    names = {str(k): label_text(label) for k, label in enumerate(first.votes.classes)}
    with (
        output(os.path.join(directory, "train.json"), overwrite=overwrite) as file,
        output(os.path.join(directory, "label.json"), overwrite=overwrite) as labels,
    ):
        text_file(labels).write(json.dumps(names) + "\n")
        _write_wrench(file, chain([first], chunks))
        file.flush()  # so that a full disk leaves both files unchanged


def _write_arrays(file: BinaryIO, chunks: Iterable[VoteChunk], layout: _Layout) -> None:
    """Write npy, the codes with reasons as -1; or npz, ``L`` with the codes, names, classes, ids and ``Y``.

    The header of an array contains its size, so votes are collected first.
    """
    parts = list(chunks)
    codes: Any = stack_codes([part.votes.codes for part in parts])
    sparse = is_sparse(codes)
    if layout.format == "npy":
        if sparse:
            raise VoteFileError("Sparse votes cannot be written as npy; write npz.")
        array = np.ascontiguousarray(np.maximum(codes, -1))
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)  # not by numpy, whose error for a full disk does not state the reason
        return
    arrays: dict[str, Any] = {MARK: np.array("votes 1")}
    if sparse:
        if layout.has_gold:
            raise VoteFileError("Gold labels cannot be written to a sparse npz.")
        arrays |= {"format": np.array("csr"), "shape": np.array(codes.shape), "data": codes.data}
        arrays |= {"indices": codes.indices, "indptr": codes.indptr}
    else:
        arrays["L"] = codes
    if layout.votes.names is not None:
        arrays["names"] = text_array(layout.votes.names, "source")
    arrays["classes"] = np.array(json.dumps(encode_labels(layout.votes.classes)))
    if layout.has_ids:
        arrays["ids"] = id_array([value for part in parts for value in list_of_values(part.ids)])
    if layout.has_gold:
        arrays["Y"] = np.concatenate([part.gold_codes for part in parts if part.gold_codes is not None])
    np.savez_compressed(file, **arrays)


# ---------------------------------------------------------------------- labels


class LabelWriter:
    """Write labels in blocks; the file appears when the ``with`` block ends without an error.

    The columns are ``id``, ``label``, one ``p_<class>`` per class, ``n_votes``, and ``tied``: whether several
    classes are equally probable, so that the label is only one of them. JSON lines contain the probabilities
    as an object.

    Parameters
    ----------
    path : str or os.PathLike
        "-" is standard output (csv, unless ``format`` is given).
    classes : tuple of K labels
    format : "csv", "tsv", "jsonl", "npz", "parquet" or "arrow", optional
        By default, the suffix of the name determines the format; ``.gz`` and ``.zst`` compress csv, tsv and
        jsonl.
    overwrite : bool, default=False
        Replace an existing file.
    id_name : str, default="id"
        Name of the column of identifiers.
    escape_formulas : bool, default=False
        In csv and tsv, write an apostrophe before strings that start with ``=``, ``+``, ``-`` or ``@``, which
        a spreadsheet would run as formulas.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with LabelWriter(path, classes=("ham", "spam")) as out:
    ...     out.write(["a", "b"], [1, 0], [[0.25, 0.75], [0.5, 0.5]], [2, 0])
    >>> print(path.read_text(), end="")
    id,label,p_ham,p_spam,n_votes,tied
    a,spam,0.25,0.75,2,false
    b,ham,0.5,0.5,0,true
    """

    def __init__(
        self, path: StrPath, *, classes: tuple[Label, ...], format: str | None = None,
        overwrite: bool = False, id_name: str = "id", escape_formulas: bool = False,
    ) -> None:  # fmt: skip
        self.escape_formulas = escape_formulas
        self.path, self.classes, self.overwrite = path, tuple(map(plain_value, classes)), overwrite
        self.format = output_format(path, format, LABEL_FORMATS)
        self.n_items = 0
        shares = (f"p_{label_text(label)}" for label in self.classes)
        self.columns = (id_name, "label", *shares, "n_votes", "tied")
        if len(set(self.columns)) < len(self.columns):
            raise OptionError(
                f"Column names must be unique; got {', '.join(self.columns)}.",
                hints=[Hint("id_name", "to rename the column of identifiers")],
            )
        self._table: TableWriter | None = None

    def __enter__(self) -> Self:
        first = ("ids", "labels") if self.format == "npz" else self.columns[:2]
        with contextlib.ExitStack() as stack:
            table = _table_writer(
                stack.enter_context(output(self.path, overwrite=self.overwrite)),
                self.format,
                self.columns,
                self.classes,
                nested=(*first, "probabilities", *self.columns[-2:]),
                escape_formulas=self.escape_formulas,
                required=self.columns[2:],
                encode=self._encodings,
            )
            self._table = stack.enter_context(table)
            self._stack = stack.pop_all()
        return self

    def write(self, ids: Any, labels: ArrayLike, probabilities: ArrayLike, n_votes: ArrayLike) -> None:
        """Append items.

        Parameters
        ----------
        ids : sequence of n identifiers
            As in :class:`~flyingsquid.files.VoteChunk`.
        labels : integer array of shape (n,)
            Codes 0..K-1, or -1 for no label.
        probabilities : array of shape (n, K)
        n_votes : integer array of shape (n,)
            How many sources voted.
        """
        table = self._table
        if table is None:
            raise VoteFileError("Labels must be written inside a `with` block.", path=str(self.path))
        given = {"labels": labels, "probabilities": probabilities, "n_votes": n_votes}
        if any(index_of(values) is not None for values in given.values()):
            items = Items.of(list_of_values(ids))
            given = {name: in_item_order(values, None, items, name) for name, values in given.items()}
        codes, shares, counts = map(np.asarray, given.values())
        n, n_classes = len(ids), len(self.classes)
        if codes.shape != (n,) or codes.dtype.kind not in "iu":
            raise OptionError(
                f"`labels` must be an integer array of shape ({n},); got {codes.dtype} of shape "
                f"{codes.shape}.",
                parameter="labels",
            )
        if shares.shape != (n, n_classes) or counts.shape != (n,):
            raise OptionError(
                f"`probabilities` and `n_votes` must have the shapes ({n}, {n_classes}) and ({n},); got "
                f"{shares.shape} and {counts.shape}.",
                parameter="probabilities",
            )
        if n and (codes.min() < -1 or codes.max() >= n_classes):
            wrong = codes.min() if codes.min() < -1 else codes.max()
            raise option_error("labels", f"codes from -1 to {n_classes - 1}", wrong)
        with add_path_to_errors(str(self.path)):
            classes = [label_text(label) for label in self.classes]
            of_classes = table.group([table.values(share) for share in shares.T], classes)
            numbers = [table.values(counts.astype(np.int32)), table.values(is_tied(shares))]
            table.write([table.values(ids), table.labels(codes), *of_classes, *numbers])
        self.n_items += n

    def __exit__(self, *error: Any) -> None:
        table, self._table = self._table, None
        if table is not None:
            with add_path_to_errors(str(self.path)):  # a failure here removes the file, too
                self._stack.__exit__(*error)

    def _encodings(self, types: list[Any]) -> dict[str, Any]:
        """Choose encodings that are five times as fast as pyarrow's default, and no larger.

        Integers are stored as differences, which makes row numbers and labels small. Dictionary encoding
        helps only for labels that are strings. Compression does not make probabilities smaller. Statistics
        help to find items by their identifiers; of the other columns, all groups of rows contain all values.
        """
        name, label, *shares, _, tied = self.columns
        named = zip(self.columns, types, strict=True)
        integers = [column for column, kind in named if str(kind).startswith(("int", "uint"))]
        return {
            "write_statistics": [name],
            "use_dictionary": [] if label in integers else [label],
            "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            "compression": {name: "snappy", label: "snappy"}
            | dict.fromkeys([*integers, *shares, tied], "none"),
        }


# ---------------------------------------------------------------------- estimates of scores


def write_estimates(
    path: StrPath,
    columns: Mapping[str, Sequence[Any]],
    *,
    format: str | None = None,  # as in write_votes
    overwrite: bool = False,
    escape_formulas: bool = False,
) -> None:
    """Write columns of equal length to a file atomically; ``-`` is standard output."""
    chosen = output_format(path, format, ESTIMATE_FORMATS)
    with output(path, overwrite=overwrite) as file:
        table = _table_writer(file, chosen, list(columns), escape_formulas=escape_formulas)
        table.write(list(columns.values()))
