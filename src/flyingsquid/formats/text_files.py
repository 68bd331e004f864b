"""Votes to csv, tsv and JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.formats.delimited import writer as delimited_writer
from flyingsquid.formats.output import TextFile
from flyingsquid.io import encode_labels
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.states import Label, stated_cells

if TYPE_CHECKING:
    from flyingsquid.formats.opening import VoteChunk
    from flyingsquid.formats.writing import Layout


class _Writer:
    """Rows of text; nothing to do at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Everything is written already."""


class DelimitedVotesWriter(_Writer):
    """One row an item, or one a vote; blank for no vote."""

    def __init__(self, file: BinaryIO, format: str, layout: Layout) -> None:  # as in open_votes
        self._layout = layout
        self._csv = delimited_writer(TextFile(file), format)  # type: ignore[arg-type]  # it only writes
        self._cells = cells_of(layout.classes, "")
        self._started = False

    def write(self, chunk: VoteChunk) -> None:
        """Append the items of a chunk."""
        layout = self._layout
        if not self._started:
            self._csv.writerow(self._header(chunk))
            self._started = True
        if layout.long:
            self._csv.writerows(long_rows(chunk, self._cells, layout.has_gold))
            return
        table = self._cells[_dense(chunk.votes)].tolist()
        columns: list[Any] = list(zip(*table, strict=True))
        if layout.has_ids:
            columns.insert(0, plain_ids(chunk.ids))
        if chunk.gold_codes is not None:
            columns.append(self._cells[chunk.gold_codes].tolist())
        rows = zip(*columns, strict=True)
        self._csv.writerows(rows)

    def _header(self, chunk: VoteChunk) -> list[str]:
        if self._layout.long:
            return ["item", "source", "label", *(["gold"] if self._layout.has_gold else [])]
        names = list(chunk.votes.source_names)
        extra = (["id"] if self._layout.has_ids else [], ["gold"] if self._layout.has_gold else [])
        clash = [name for name in (*extra[0], *extra[1]) if name in names]
        if clash:
            raise VoteFileError(
                f"a source is called {told(clash[0])}, as another column would be; npz and jsonl keep it"
            )
        return [*extra[0], *names, *extra[1]]


class JsonVotesWriter(_Writer):
    """One object an item, votes under ``"votes"``; or one object a vote."""

    def __init__(self, file: BinaryIO, layout: Layout) -> None:
        self._file, self._layout = TextFile(file), layout
        self._cells = cells_of(tuple(encode_labels(layout.classes)), None, texts=False)

    def write(self, chunk: VoteChunk) -> None:
        """Append the items of a chunk."""
        layout = self._layout
        lines: list[Any]
        if layout.long:
            keys = ("item", "source", "label", "gold")
            rows = long_rows(chunk, self._cells, layout.has_gold)
            lines = [dict(zip(keys, row, strict=False)) for row in rows]
        else:
            lines = self._items(chunk)
        self._file.write("".join([json.dumps(line) + "\n" for line in lines]))

    def _items(self, chunk: VoteChunk) -> list[dict[str, Any]]:
        names = chunk.votes.names
        votes = self._cells[_dense(chunk.votes)].tolist()
        named = votes if names is None else [dict(zip(names, row, strict=True)) for row in votes]
        lines = [{"votes": row} for row in named]
        if self._layout.has_ids:
            lines = [
                {"id": identity} | line for identity, line in zip(plain_ids(chunk.ids), lines, strict=True)
            ]
        if chunk.gold_codes is not None:
            gold = self._cells[chunk.gold_codes].tolist()
            lines = [line | {"gold": label} for line, label in zip(lines, gold, strict=True)]
        return lines


def cells_of(classes: tuple[Label, ...], nothing: Any, *, texts: bool = True) -> NDArray[Any]:
    """What to write for each code: classes from the front, reasons and "nothing" from the back."""
    labels: list[Any] = [text_of(label) for label in classes] if texts else list(classes)
    reasons = [f"!{reason}" for reason in reversed(REASONS[1:])]
    cells = np.empty(len(labels) + len(REASONS), object)
    cells[:] = [*labels, *reasons, nothing]
    return cells


def text_of(label: Any) -> str:
    """A label as a cell of text."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def plain_ids(ids: Any) -> list[Any]:
    """Identifiers as Python values."""
    if hasattr(ids, "to_pylist"):
        return list(ids.to_pylist())
    return list(np.asarray(ids, None if isinstance(ids, np.ndarray) else object).tolist())


def long_rows(chunk: VoteChunk, cells: NDArray[Any], has_gold: bool) -> list[tuple[Any, ...]]:
    """(item, source, label) for every vote, with the known label where asked for."""
    rows, columns, entries = stated_cells(chunk.votes.codes)
    ids = plain_ids(chunk.ids) if chunk.ids is not None else list(range(chunk.votes.n_items))
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
        raise OptionError("sparse votes are too many to be written in wide form; form='long' is smaller")
    return np.asarray(votes.to_dense().codes)
