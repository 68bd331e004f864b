"""Writers of tables, some rows at a time: csv, tsv, JSON lines, npz, parquet and arrow."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files.columns import list_of_values
from flyingsquid.files.inputs import DELIMITERS, need_pyarrow
from flyingsquid.files.outputs import arrow_sink
from flyingsquid.files.state import encode_labels
from flyingsquid.kernels import n_threads
from flyingsquid.votes.codes import REASONS, Label

META = b"flyingsquid"
"""The key of our metadata in the schema of a columnar file."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# As JSON spells it; pandas and polars read these as bools.
_TRUTH = ("false", "true")


class TableWriter(contextlib.AbstractContextManager["TableWriter"]):
    """Base class of writers of one format, for use in a ``with`` block inside that of the file.

    :meth:`values`, :meth:`labels` and :meth:`group` return columns in the form that the format needs, and
    :meth:`write` appends them.
    """

    def values(self, values: Any) -> Any:
        """Return identifiers, numbers or booleans as a column."""
        return list_of_values(values)

    def labels(self, codes: NDArray[Any]) -> Any:
        """Return the class labels of codes as a column."""
        raise NotImplementedError

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:  # noqa: ARG002
        """Return columns that belong together; one column of objects or lists in nested formats."""
        return list(columns)

    def write(self, columns: Sequence[Any]) -> None:
        """Append rows."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is left; formats that write at once need not."""

    def drop(self) -> None:
        """Stop writing: the file is about to be removed."""

    def __exit__(self, kind: Any, *_: object) -> None:
        (self.close if kind is None else self.drop)()


class DelimitedWriter(TableWriter):
    """csv and tsv: a line of names, then one line per row; blank for no label."""

    def __init__(
        self,
        file: BinaryIO,
        format: str,  # as in write_votes
        names: Sequence[str],
        classes: tuple[Label, ...] = (),
        *,
        escape_formulas: bool = False,
    ) -> None:
        self._rows = csv.writer(text_file(file), delimiter=DELIMITERS[format], lineterminator="\n")
        self._escape = escape_formulas
        self._cells = _cells([label_text(label) for label in classes], "")
        self.write([[name] for name in names])

    def values(self, values: Any) -> list[Any]:
        found = list_of_values(values)
        return [_TRUTH[value] for value in found] if _are_booleans(values) else found

    def labels(self, codes: NDArray[Any]) -> list[Any]:
        return list(self._cells[codes].tolist())

    def write(self, columns: Sequence[Any]) -> None:
        rows = zip(*columns, strict=True)
        self._rows.writerows(map(_escape_formulas, rows) if self._escape else rows)


class JsonLinesWriter(TableWriter):
    """JSON lines: one object per row; null for no label."""

    def __init__(self, file: BinaryIO, names: Sequence[str], classes: tuple[Label, ...] = ()) -> None:
        self._text, self._names = text_file(file), names
        self._cells = _cells(encode_labels(classes), None)

    def labels(self, codes: NDArray[Any]) -> list[Any]:
        return list(self._cells[codes].tolist())

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:
        rows = zip(*columns, strict=True)
        return [list(map(list, rows)) if keys is None else [dict(zip(keys, r, strict=True)) for r in rows]]

    def write(self, columns: Sequence[Any]) -> None:
        rows = zip(*columns, strict=True)
        lines = [json.dumps(dict(zip(self._names, row, strict=True))) + "\n" for row in rows]
        self._text.write("".join(lines))


class ArrayWriter(TableWriter):
    """npz: one array per column, the first one identifiers, and ``classes``. Rows are collected first."""

    def __init__(self, file: BinaryIO, names: Sequence[str], classes: tuple[Label, ...]) -> None:
        self._file, self._names, self._classes = file, names, classes
        self._parts: list[Sequence[Any]] = []

    def values(self, values: Any) -> Any:
        return values

    def labels(self, codes: NDArray[Any]) -> NDArray[Any]:
        return codes

    def group(self, columns: Iterable[Any], keys: Sequence[str] | None) -> list[Any]:  # noqa: ARG002
        return [np.stack(list(columns), axis=1)]

    def write(self, columns: Sequence[Any]) -> None:
        self._parts.append(columns)

    def close(self) -> None:
        ids = [value for part in self._parts for value in list_of_values(part[0])]
        arrays = {self._names[0]: id_array(ids)}
        for j, name in enumerate(self._names[1:], start=1):
            arrays[name] = np.concatenate([part[j] for part in self._parts]) if self._parts else np.empty(0)
        arrays["classes"] = np.array(json.dumps(encode_labels(self._classes)))
        np.savez_compressed(self._file, **arrays)  # type: ignore[arg-type]  # numpy < 2.4 has no such overload


class ColumnarWriter(TableWriter):
    """parquet and arrow: each call is a row group or record batch, encoded on a thread.

    Labels that are strings are dictionaries; null for no label.

    Parameters
    ----------
    file : binary file
    format : {"parquet", "arrow"}
    names : names of the columns
    classes : tuple of labels
    metadata : JSON values about the votes, optional
    required : names of columns without missing values, optional
        They are stored without marks for missing values, in two thirds of the time.
    encode : callable, optional
        Takes the types of the columns, and returns options of ``pyarrow.parquet.ParquetWriter``.
    """

    def __init__(
        self,
        file: BinaryIO,
        format: str,  # as in write_votes
        names: Sequence[str],
        classes: tuple[Label, ...],
        *,
        metadata: dict[str, Any] | None = None,
        required: Collection[str] = (),
        encode: Callable[[list[Any]], dict[str, Any]] | None = None,
    ) -> None:
        self._pyarrow = need_pyarrow(f"Writing {format}")
        self._file, self._format, self._names, self._classes = file, format, names, classes
        self._metadata, self._required, self._encode = metadata, required, encode
        self._writer: Any = None
        self._pool, self._is_parallel = ThreadPoolExecutor(1, "flyingsquid-write"), n_threads() > 1
        self._last: Future[None] | None = None
        self._texts = all(isinstance(label, str) for label in classes)
        if self._texts:
            reasons = [f"!{reason}" for reason in REASONS[1:]]
            self._dictionary = self._pyarrow.array([*classes, *reasons], "string")
        else:
            table = np.array(classes)
            integers = all(type(label) is int for label in classes)
            if integers:
                table = table.astype(np.min_scalar_type(-int(np.abs(table).max()) - 1))
            self._table = table
            self._are_codes = integers and np.array_equal(table, np.arange(len(table)))

    def values(self, values: Any) -> Any:
        if isinstance(values, self._pyarrow.Array):
            return values
        if isinstance(values, np.ndarray):
            # A copy, since the caller may fill the same array again while it is encoded.
            values = values.tolist() if values.dtype.kind == "O" else values.copy()
        return self._pyarrow.array(values if isinstance(values, np.ndarray) else list(values))

    def labels(self, codes: NDArray[Any]) -> Any:
        if not self._texts:
            missing = codes < 0
            known = np.maximum(codes, 0)
            labels = known.astype(self._table.dtype) if self._are_codes else np.take(self._table, known)
            return self._pyarrow.array(labels, mask=missing if missing.any() else None)
        k = len(self._classes)
        small = np.int8 if k < 120 else np.int16
        # Reasons follow the classes in the dictionary: -2 at K, -3 at K + 1, ...
        index = np.where(codes < -1, k - 2 - codes.astype(np.int64), codes).astype(small)
        indices = self._pyarrow.array(index, mask=codes == -1)
        return self._pyarrow.DictionaryArray.from_arrays(indices, self._dictionary)

    def write(self, columns: Sequence[Any]) -> None:
        self._wait()
        self._last = self._pool.submit(self.encode, columns)
        if not self._is_parallel:
            self._wait()

    def _wait(self) -> None:
        """Wait until the last rows are encoded, and raise the error of encoding them."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def encode(self, columns: Sequence[Any]) -> None:
        """Append rows at once; the first ones determine the types of the columns."""
        if self._writer is None:
            self._writer = self._open([column.type for column in columns])
        columns = [column.cast(field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_batch(self._pyarrow.RecordBatch.from_arrays(columns, schema=self._schema))

    def _open(self, types: list[Any]) -> Any:
        about = None if self._metadata is None else {META: json.dumps(self._metadata).encode()}
        fields = [
            self._pyarrow.field(name, kind, nullable=name not in self._required)
            for name, kind in zip(self._names, types, strict=True)
        ]
        self._schema = self._pyarrow.schema(fields, metadata=about)
        sink = arrow_sink(self._file)
        if self._format == "arrow":
            return self._pyarrow.ipc.new_file(sink, self._schema)
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415  # an extra

        return ParquetWriter(sink, self._schema, **({} if self._encode is None else self._encode(types)))

    def close(self) -> None:
        with self._pool:
            self._wait()
        if self._writer is None:
            raise VoteFileError("Nothing was written.")
        self._writer.close()

    def drop(self) -> None:
        self._pool.shutdown()
        self._writer = None  # collected now: pyarrow then writes the end of the file, which is still open


# ---------------------------------------------------------------------- cells


def text_file(file: BinaryIO) -> codecs.StreamWriter:
    """Wrap a binary file for text in UTF-8. Unlike a TextIOWrapper it never closes the file."""
    return codecs.getwriter("utf-8")(file)


def label_text(label: Any) -> str:
    """Return a class label as the text of a cell."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _cells(labels: Sequence[Any], missing: Any) -> NDArray[Any]:
    """Return the cell for each code: classes from the front, reasons and "no vote" from the back."""
    reasons = [f"!{reason}" for reason in reversed(REASONS[1:])]
    cells = np.empty(len(labels) + len(REASONS), object)
    cells[:] = [*labels, *reasons, missing]
    return cells


def _escape_formulas(row: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before strings that a spreadsheet would run as a formula."""
    return [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA_STARTS) else c for c in row]


def _are_booleans(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype == np.bool_


def id_array(ids: list[Any]) -> NDArray[Any]:
    """Return item identifiers as an array of integers or strings for npz."""
    if all(type(value) is int and abs(value) < 1 << 62 for value in ids):
        return np.array(ids, np.int64)
    return text_array(ids, "item")


def text_array(values: Sequence[Any], what: str) -> NDArray[Any]:
    """Return names as an array of strings for npz."""
    texts = [str(value) for value in values]
    longest = max(map(len, texts), default=0)
    if any(text.endswith("\0") for text in texts):
        raise VoteFileError(f"npz cannot store the name of an {what} that ends with a NUL character.")
    if longest * len(texts) > 1 << 28:
        raise VoteFileError(
            f"npz cannot store the name of an {what} with {longest:,} characters; write parquet."
        )
    return np.array(texts, f"U{max(1, longest)}")
