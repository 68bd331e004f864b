"""Write votes to files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import format_count, format_value, option_error
from flyingsquid.exceptions import Hint, OptionError, VoteFileError
from flyingsquid.files.arrays import MARK
from flyingsquid.files.columns import Form
from flyingsquid.files.datasets import GOLD, WEAK
from flyingsquid.files.exchange import TOOLS, export_text
from flyingsquid.files.inputs import FORMATS, StrPath, need_pyarrow
from flyingsquid.files.outputs import (
    ColumnarFile,
    LabelColumns,
    Writer,
    csv_writer,
    id_array,
    id_column,
    label_text,
    list_of_ids,
    output,
    output_format,
    text_array,
    text_file,
)
from flyingsquid.files.state import encode_labels
from flyingsquid.files.vote_files import VoteChunk, VoteFile, join_chunks
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.arguments import read_gold
from flyingsquid.votes.codes import ABSTAIN, Label, is_sparse, marked_cells, stack_codes
from flyingsquid.votes.conventions import is_item_name


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
        Gold labels, None if unknown, supported only with ``Votes``.
    format : str, optional
        One of "csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench", "label_studio",
        "argilla" or "inspect". By default, the suffix of the name determines it. "json" is WRENCH in one
        file, "wrench" a directory.
    form : "wide" or "long", optional
        Default: long for sparse votes, if the format supports it.
    overwrite : bool, default=False
        Replace an existing file.
    escape_formulas : bool, default=False
        In csv and tsv, write an apostrophe before strings that start with ``=``, ``+``, ``-`` or ``@``, which
        a spreadsheet would run as formulas.
    data : table, or sequence of n mappings or strings, optional
        The items themselves, which become the fields of tasks, records or samples. This and the next two are
        only for "label_studio", "argilla" and "inspect".
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
    with output(path, overwrite=overwrite) as file, _WRITERS[found](file, layout) as writer:
        for chunk in every:
            writer.write(chunk)


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
    known = votes.items if ids is None else np.asarray(ids)
    if known is not None and known.shape != (votes.n_items,):
        raise OptionError(
            f"`ids` must have the shape ({votes.n_items},); got {known.shape}.", parameter="ids"
        )
    codes = None if gold is None else read_gold(gold, votes.classes, votes.n_items, "gold")
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

    @property
    def columns(self) -> list[str]:
        """Columns of a table.

        Raises
        ------
        VoteFileError
            If a source has the name of another column.
        """
        item, gold = [self.item] if self.has_ids else [], ["gold"] if self.has_gold else []
        if self.long:
            return [self.item, "source", "label", *gold]
        clash = [name for name in self.votes.source_names if name in (*item, *gold)]
        if clash:
            raise VoteFileError(
                f"A source and another column are both named {format_value(clash[0])}; rename the "
                "source, or write npz or jsonl."
            )
        return [*item, *self.votes.source_names, *gold]


class _DelimitedWriter(Writer):
    """csv and tsv: one row per item or per vote, blank for no vote."""

    def __init__(self, file: BinaryIO, layout: _Layout) -> None:
        self._layout = layout
        self._write = csv_writer(file, layout.format, escape_formulas=layout.escape_formulas)
        self._write([layout.columns])
        self._cells = _cells_of(layout.votes.classes, "")

    def write(self, chunk: VoteChunk) -> None:
        layout = self._layout
        if layout.long:
            self._write(_long_rows(chunk, self._cells, layout.has_gold))
            return
        table = self._cells[_dense(chunk.votes)].tolist()
        columns: list[Any] = list(zip(*table, strict=True))
        if layout.has_ids:
            columns.insert(0, list_of_ids(chunk.ids))
        if chunk.gold_codes is not None:
            columns.append(self._cells[chunk.gold_codes].tolist())
        self._write(zip(*columns, strict=True))


class _JsonWriter(Writer):
    """JSON lines: one object per item with its votes in ``"votes"``, or one object per vote."""

    def __init__(self, file: BinaryIO, layout: _Layout) -> None:
        self._layout, self._text = layout, text_file(file)
        self._cells = _cells_of(tuple(encode_labels(layout.votes.classes)), None, texts=False)

    def write(self, chunk: VoteChunk) -> None:
        lines: list[Any]
        if self._layout.long:
            keys = (self._layout.item, "source", "label", "gold")
            rows = _long_rows(chunk, self._cells, self._layout.has_gold)
            lines = [dict(zip(keys, row, strict=False)) for row in rows]
        else:
            lines = self._items(chunk)
        self._text.write("".join([json.dumps(line) + "\n" for line in lines]))

    def _items(self, chunk: VoteChunk) -> list[dict[str, Any]]:
        names = chunk.votes.names
        votes = self._cells[_dense(chunk.votes)].tolist()
        named = votes if names is None else [dict(zip(names, row, strict=True)) for row in votes]
        lines = [{"votes": row} for row in named]
        if self._layout.has_ids:
            ids = list_of_ids(chunk.ids)
            lines = [{self._layout.item: name} | line for name, line in zip(ids, lines, strict=True)]
        if chunk.gold_codes is not None:
            gold = self._cells[chunk.gold_codes].tolist()
            lines = [line | {"gold": label} for line, label in zip(lines, gold, strict=True)]
        return lines


class _WrenchWriter(Writer):
    """Writer for WRENCH data in one file."""

    def __init__(self, file: BinaryIO, layout: _Layout | None = None) -> None:  # noqa: ARG002  # as others
        self._text = text_file(file)
        self._text.write("{")
        self._row = 0

    def write(self, chunk: VoteChunk) -> None:
        votes = np.maximum(np.asarray(chunk.votes.to_dense().codes), -1).tolist()
        n = len(votes)
        ids = range(self._row, self._row + n) if chunk.ids is None else list_of_ids(chunk.ids)
        gold = [-1] * n if chunk.gold_codes is None else chunk.gold_codes.tolist()
        for at, (identity, weak, label) in enumerate(zip(ids, votes, gold, strict=True), self._row):
            entry = json.dumps({GOLD: label, WEAK: weak, "data": {}})
            self._text.write(f"{',' * (at > 0)}\n{json.dumps(str(identity))}: {entry}")
        self._row += n

    def close(self) -> None:
        self._text.write("\n}\n")


def _write_directory(path: StrPath, chunks: Iterable[VoteChunk], *, overwrite: bool) -> None:
    """Write a directory of WRENCH: ``label.json`` with the names of classes, and ``train.json``."""
    directory = os.fspath(path)
    os.makedirs(directory, exist_ok=True)
    names = None
    target = os.path.join(directory, "train.json")
    with output(target, overwrite=overwrite) as file, _WrenchWriter(file) as writer:
        for chunk in chunks:
            if names is None:
                names = {str(k): label_text(label) for k, label in enumerate(chunk.votes.classes)}
                with output(os.path.join(directory, "label.json"), overwrite=overwrite) as labels:
                    text_file(labels).write(json.dumps(names) + "\n")
            writer.write(chunk)


# ---------------------------------------------------------------------- arrays


class _ArrayWriter(Writer):
    """npy: the codes, reasons as -1. npz: ``L`` with the codes, names, classes, ids and ``Y``.

    The header of an array contains its size, so votes are collected first.
    """

    def __init__(self, file: BinaryIO, layout: _Layout) -> None:
        self._file, self._layout = file, layout
        self._codes: list[Any] = []
        self._ids: list[Any] = []
        self._gold: list[NDArray[Any]] = []

    def write(self, chunk: VoteChunk) -> None:
        self._codes.append(chunk.votes.codes)
        if self._layout.has_ids:
            self._ids += list_of_ids(chunk.ids)
        if chunk.gold_codes is not None:
            self._gold.append(chunk.gold_codes)

    def close(self) -> None:
        (self._write_npy if self._layout.format == "npy" else self._write_npz)()

    def _write_npy(self) -> None:
        if is_sparse(self._codes[0]):
            raise VoteFileError("Sparse votes cannot be written as npy; write npz.")
        np.lib.format.write_array(self._file, np.maximum(np.concatenate(self._codes), -1), allow_pickle=False)

    def _write_npz(self) -> None:
        arrays: dict[str, Any] = {MARK: np.array("votes 1")}
        if is_sparse(self._codes[0]):
            stacked: Any = stack_codes(self._codes)
            arrays |= {"format": np.array("csr"), "shape": np.array(stacked.shape), "data": stacked.data}
            arrays |= {"indices": stacked.indices, "indptr": stacked.indptr}
            if self._gold:
                raise VoteFileError("Gold labels cannot be written to a sparse npz.")
        else:
            arrays["L"] = np.concatenate(self._codes)
        if self._layout.votes.names is not None:
            arrays["names"] = text_array(list(self._layout.votes.names), "source")
        arrays["classes"] = np.array(json.dumps(encode_labels(self._layout.votes.classes)))
        if self._layout.has_ids:
            arrays["ids"] = id_array(self._ids)
        if self._gold:
            arrays["Y"] = np.concatenate(self._gold)
        np.savez_compressed(self._file, **arrays)


# ---------------------------------------------------------------------- columns


class _ColumnarWriter(Writer):
    """parquet and arrow. Wide: one column per source, null for no vote. Long: item, source, label."""

    def __init__(self, file: BinaryIO, layout: _Layout) -> None:
        self._layout = layout
        self._array = need_pyarrow(f"Writing {layout.format}").array
        self._labels, self._cells = (
            LabelColumns(layout.votes.classes),
            _cells_of(layout.votes.classes, None, texts=False),
        )
        about = {
            "classes": encode_labels(layout.votes.classes),
            "form": "long" if layout.long else "wide",
            "item": layout.item if layout.has_ids else None,
            "gold": "gold" if layout.has_gold else None,
        }
        self._out = ColumnarFile(file, layout.format, layout.columns, metadata=about)

    def write(self, chunk: VoteChunk) -> None:
        if self._layout.long:
            rows = _long_rows(chunk, self._cells, self._layout.has_gold)
            self._out.write([self._array([row[j] for row in rows]) for j in range(len(self._layout.columns))])
            return
        columns = [id_column(chunk.ids)] if self._layout.has_ids else []
        columns += [self._labels.column(codes) for codes in np.asarray(chunk.votes.to_dense().codes).T]
        if chunk.gold_codes is not None:
            columns.append(self._labels.column(chunk.gold_codes))
        self._out.write(columns)

    def close(self) -> None:
        self._out.close()


_WRITERS: dict[str, Callable[[BinaryIO, _Layout], Writer]] = {
    "csv": _DelimitedWriter, "tsv": _DelimitedWriter, "jsonl": _JsonWriter, "json": _WrenchWriter,
    "npy": _ArrayWriter, "npz": _ArrayWriter, "parquet": _ColumnarWriter, "arrow": _ColumnarWriter,
}  # fmt: skip


# ---------------------------------------------------------------------- cells


def _cells_of(classes: tuple[Label, ...], nothing: Any, *, texts: bool = True) -> NDArray[Any]:
    """Return the cell for each code: classes from the front, reasons and "no vote" from the back."""
    labels: list[Any] = [label_text(label) for label in classes] if texts else list(classes)
    reasons = [f"!{reason}" for reason in reversed(REASONS[1:])]
    cells = np.empty(len(labels) + len(REASONS), object)
    cells[:] = [*labels, *reasons, nothing]
    return cells


def _long_rows(chunk: VoteChunk, cells: NDArray[Any], has_gold: bool) -> list[tuple[Any, ...]]:
    """Return (item, source, label) for every vote, with the gold label if requested.

    An item without votes has one row in which the first source abstains, so that it is not lost.
    """
    rows, columns, entries = marked_cells(chunk.votes.codes)
    empty = np.flatnonzero(np.bincount(rows, minlength=chunk.votes.n_items) == 0)
    if len(empty):
        order = np.argsort(np.concatenate([rows, empty]), kind="stable")
        rows = np.concatenate([rows, empty])[order]
        columns = np.concatenate([columns, np.zeros_like(empty)])[order]
        entries = np.concatenate([entries, np.full(len(empty), ABSTAIN)])[order]
    ids = list_of_ids(chunk.ids) if chunk.ids is not None else list(range(chunk.votes.n_items))
    names = chunk.votes.source_names
    labels = cells[entries].tolist()
    at = rows.tolist()
    triples = [(ids[i], names[j], label) for i, j, label in zip(at, columns.tolist(), labels, strict=True)]
    if not has_gold or chunk.gold_codes is None:
        return triples
    gold = cells[chunk.gold_codes].tolist()
    return [(*triple, gold[i]) for triple, i in zip(triples, at, strict=True)]


def _dense(votes: Votes) -> NDArray[Any]:
    if votes.is_sparse and votes.n_items * votes.n_sources > 1 << 28:
        raise OptionError(
            f"The wide form of {format_count(votes.n_items, 'item')} x "
            f"{format_count(votes.n_sources, 'source')} is too large.",
            hints=[Hint("form", "to write one row per vote", "long")],
        )
    return np.asarray(votes.to_dense().codes)
