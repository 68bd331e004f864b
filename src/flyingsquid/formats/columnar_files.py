"""Votes and labels to parquet and arrow, a batch at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.columnar import META
from flyingsquid.formats.output import sink
from flyingsquid.formats.streams import need_pyarrow
from flyingsquid.formats.text_files import cells_of, long_rows
from flyingsquid.io import encode_labels
from flyingsquid.votes import REASONS
from flyingsquid.votes.states import Label

if TYPE_CHECKING:
    from flyingsquid.formats.opening import VoteChunk
    from flyingsquid.formats.writing import Layout


class ColumnarFile:
    """Tables of one schema to a file, each as a row group or record batch."""

    def __init__(self, file: BinaryIO, format: str, schema: Any, **options: Any) -> None:
        self._pyarrow = need_pyarrow(format)
        self._sink = sink(file)
        if format == "parquet":
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415  # an extra

            self._writer = ParquetWriter(self._sink, schema, **options)
        else:
            self._writer = self._pyarrow.ipc.new_file(self._sink, schema)
        self.schema = schema

    def write(self, columns: list[Any]) -> None:
        """Append rows."""
        batch = self._pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


class ColumnarVotesWriter:
    """Wide: one column a source, texts as dictionaries, null for no vote. Long: item, source, label."""

    def __init__(self, file: BinaryIO, format: str, layout: Layout, first: VoteChunk) -> None:
        self._layout, self._file, self._format = layout, file, format
        self._pyarrow = need_pyarrow(format)
        self._labels = LabelColumns(layout.classes)
        self._out: ColumnarFile | None = None
        self._first = first

    def __enter__(self) -> Self:
        return self

    def write(self, chunk: VoteChunk) -> None:
        """Append the items of a chunk."""
        columns = self._long(chunk) if self._layout.long else self._wide(chunk)
        if self._out is None:
            names = list(columns)
            fields = [self._pyarrow.field(name, columns[name].type) for name in names]
            meta = {
                "classes": encode_labels(self._layout.classes),
                "form": "long" if self._layout.long else "wide",
                "item": "id" if self._layout.has_ids else None,
                "gold": "gold" if self._layout.has_gold else None,
            }
            schema = self._pyarrow.schema(fields, metadata={META: json.dumps(meta).encode()})
            self._out = ColumnarFile(self._file, self._format, schema)
        self._out.write([columns[field.name].cast(field.type) for field in self._out.schema])

    def _wide(self, chunk: VoteChunk) -> dict[str, Any]:
        names = chunk.votes.source_names
        columns: dict[str, Any] = {}
        if self._layout.has_ids:
            columns["id"] = id_column(chunk.ids)
        codes = np.asarray(chunk.votes.to_dense().codes)
        for j, name in enumerate(names):
            if name in columns or (name == "gold" and self._layout.has_gold):
                raise VoteFileError(
                    f"a source is called {told(name)}, as another column would be; npz and jsonl keep it"
                )
            columns[name] = self._labels.column(codes[:, j])
        if chunk.gold_codes is not None:
            columns["gold"] = self._labels.column(chunk.gold_codes)
        return columns

    def _long(self, chunk: VoteChunk) -> dict[str, Any]:
        cells = cells_of(self._layout.classes, None, texts=False)
        rows = long_rows(chunk, cells, self._layout.has_gold)
        names = ("item", "source", "label", "gold")[: 4 if self._layout.has_gold else 3]
        return {name: self._pyarrow.array([row[j] for row in rows]) for j, name in enumerate(names)}

    def __exit__(self, *error: object) -> None:
        if self._out is not None:
            self._out.close()


class LabelColumns:
    """Codes to columns of labels: integers and booleans as they are, texts as dictionaries."""

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self._pyarrow = need_pyarrow("columns")
        self._classes = classes
        self._texts = all(isinstance(label, str) for label in classes)
        if self._texts:
            reasons = [f"!{reason}" for reason in REASONS[1:]]
            self._dictionary = self._pyarrow.array([*classes, *reasons], "string")
        else:
            whole = all(type(label) is int for label in classes)
            table = np.array(classes)
            self._table = table.astype(np.min_scalar_type(-int(np.abs(table).max()) - 1)) if whole else table
            self._are_codes = whole and np.array_equal(table, np.arange(len(table)))

    def column(self, codes: NDArray[Any]) -> Any:
        """A column of labels, null where there is none."""
        if not self._texts:
            missing = codes < 0
            known = np.maximum(codes, 0)
            labels = known.astype(self._table.dtype) if self._are_codes else np.take(self._table, known)
            return self._pyarrow.array(labels, mask=missing if missing.any() else None)
        k = len(self._classes)
        small = np.int8 if k < 120 else np.int16
        # A reason stands behind the classes: -2 at K, -3 at K + 1, ...
        index = np.where(codes < -1, k - 2 - codes.astype(np.int64), codes).astype(small)
        indices = self._pyarrow.array(index, mask=codes == -1)
        return self._pyarrow.DictionaryArray.from_arrays(indices, self._dictionary)


def id_column(ids: Any) -> Any:
    """Identifiers as a column."""
    pyarrow = need_pyarrow("columns")
    if isinstance(ids, pyarrow.Array):
        return ids
    values = list(ids) if not isinstance(ids, np.ndarray) else ids
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    return pyarrow.array(values)
