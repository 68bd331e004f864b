"""Writers of tables and labels, some rows at a time: csv, tsv, JSON lines, npz, parquet and arrow."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import option_error, plain_value
from flyingsquid.exceptions import Hint, OptionError, VoteFileError
from flyingsquid.files.columns import list_of_values
from flyingsquid.files.inputs import DELIMITERS, StrPath, located, need_pyarrow
from flyingsquid.files.outputs import arrow_sink, output, output_format
from flyingsquid.files.state import encode_labels
from flyingsquid.kernels import n_threads
from flyingsquid.votes.codes import REASONS, Label
from flyingsquid.votes.decisions import is_tied

META = b"flyingsquid"
"""The key of our metadata in the schema of a columnar file."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
LABEL_FORMATS = ("csv", "tsv", "jsonl", "npz", "parquet", "arrow")
"""The formats that labels are written in."""
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


class _TextWriter(TableWriter):
    """Base class of writers of text; ``labels`` and ``missing`` are cells for classes and for no label."""

    def __init__(self, labels: Sequence[Any], missing: Any) -> None:
        # The cell of each code: classes from the front, reasons and "no vote" from the back.
        reasons = [f"!{reason}" for reason in reversed(REASONS[1:])]
        self._cells = np.empty(len(labels) + len(REASONS), object)
        self._cells[:] = [*labels, *reasons, missing]

    def labels(self, codes: NDArray[Any]) -> Any:
        return self._cells[codes].tolist()


class DelimitedWriter(_TextWriter):
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
        super().__init__([label_text(label) for label in classes], "")
        self.write([[name] for name in names])

    def values(self, values: Any) -> list[Any]:
        found = list_of_values(values)
        are_booleans = isinstance(values, np.ndarray) and values.dtype == np.bool_
        return [_TRUTH[value] for value in found] if are_booleans else found

    def write(self, columns: Sequence[Any]) -> None:
        rows = zip(*columns, strict=True)
        self._rows.writerows(map(_escape_formulas, rows) if self._escape else rows)


class JsonLinesWriter(_TextWriter):
    """JSON lines: one object per row; null for no label."""

    def __init__(self, file: BinaryIO, names: Sequence[str], classes: tuple[Label, ...] = ()) -> None:
        self._text, self._names = text_file(file), names
        super().__init__(encode_labels(classes), None)

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
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(output(self.path, overwrite=self.overwrite))
            self._table = stack.enter_context(self._writer(file))
            self._stack = stack.pop_all()
        return self

    def _writer(self, file: BinaryIO) -> TableWriter:
        name = self.columns[0]
        if self.format in DELIMITERS:
            return DelimitedWriter(
                file, self.format, self.columns, self.classes, escape_formulas=self.escape_formulas
            )
        if self.format == "jsonl":
            return JsonLinesWriter(file, [name, "label", "probabilities", "n_votes", "tied"], self.classes)
        if self.format == "npz":
            return ArrayWriter(file, ["ids", "labels", "probabilities", "n_votes", "tied"], self.classes)
        return ColumnarWriter(
            file, self.format, self.columns, self.classes, required=self.columns[2:], encode=self._encodings
        )

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
        codes, shares, counts = np.asarray(labels), np.asarray(probabilities), np.asarray(n_votes)
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
        with located(str(self.path)):
            classes = [label_text(label) for label in self.classes]
            of_classes = table.group([table.values(share) for share in shares.T], classes)
            numbers = [table.values(counts.astype(np.int32)), table.values(is_tied(shares))]
            table.write([table.values(ids), table.labels(codes), *of_classes, *numbers])
        self.n_items += n

    def __exit__(self, *error: Any) -> None:
        table, self._table = self._table, None
        if table is not None:
            with located(str(self.path)):  # a failure here removes the file, too
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


# ---------------------------------------------------------------------- cells


def text_file(file: BinaryIO) -> codecs.StreamWriter:
    """Wrap a binary file for text in UTF-8. Unlike a TextIOWrapper it never closes the file."""
    return codecs.getwriter("utf-8")(file)


def label_text(label: Any) -> str:
    """Return a class label as the text of a cell."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _escape_formulas(row: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before strings that a spreadsheet would run as a formula."""
    return [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA_STARTS) else c for c in row]


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
