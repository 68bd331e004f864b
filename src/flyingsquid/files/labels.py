"""Write labels to files: item, label, probabilities, number of votes, and whether classes tie."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import option_error, plain_value
from flyingsquid.exceptions import Hint, OptionError, VoteFileError
from flyingsquid.files.inputs import StrPath, located, need_pyarrow
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
    text_file,
)
from flyingsquid.files.state import encode_labels
from flyingsquid.kernels import n_threads
from flyingsquid.votes.codes import Label
from flyingsquid.votes.decisions import is_tied

# As JSON spells it; pandas and polars read these as bools.
_TRUTH = ("false", "true")
LABEL_FORMATS = ("csv", "tsv", "jsonl", "npz", "parquet", "arrow")
"""The formats that labels are written in."""


def label_format(path: StrPath, declared: str | None = None) -> str:
    """Return the format for labels at ``path``, and require the packages that it needs."""
    found = output_format(path, declared, LABEL_FORMATS)
    if found in ("parquet", "arrow"):
        need_pyarrow(f"Writing {found}")
    return found


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
        self.format = label_format(path, format)
        self.n_items = 0
        shares = (f"p_{label_text(label)}" for label in self.classes)
        self.columns = (id_name, "label", *shares, "n_votes", "tied")
        if len(set(self.columns)) < len(self.columns):
            raise OptionError(
                f"Column names must be unique; got {', '.join(self.columns)}.",
                hints=[Hint("id_name", "to rename the column of identifiers")],
            )
        self._sink: Writer | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(output(self.path, overwrite=self.overwrite))
            self._sink = stack.enter_context(_SINKS[self.format](file, self))
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
        if self._sink is None:
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
            self._sink.write(_Labels(ids, codes, shares, counts, is_tied(shares)))
        self.n_items += n

    def __exit__(self, *error: Any) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            with located(str(self.path)):  # a failure here removes the file, too
                self._stack.__exit__(*error)


class _Labels(NamedTuple):
    """Labels of n items: identifiers, codes, probabilities (n, K), numbers of votes, and ties."""

    ids: Any
    codes: NDArray[Any]
    shares: NDArray[Any]
    counts: NDArray[Any]
    tied: NDArray[np.bool_]


class _Delimited(Writer):
    """Sink for csv and tsv files."""

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._write = csv_writer(file, out.format, escape_formulas=out.escape_formulas)
        self._write([out.columns])
        self._labels = [*map(label_text, out.classes), ""]

    def write(self, items: _Labels) -> None:
        labels = [self._labels[code] for code in items.codes.tolist()]
        columns = [share.tolist() for share in items.shares.T]
        ties = [_TRUTH[tie] for tie in items.tied.tolist()]
        ids, counts = list_of_ids(items.ids), items.counts.tolist()
        self._write(zip(ids, labels, *columns, counts, ties, strict=True))


class _JsonLines(Writer):
    """Sink for JSON lines."""

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._file = text_file(file)
        self._id_name = out.columns[0]
        self._labels = [*encode_labels(out.classes), None]
        self._keys = [label_text(label) for label in out.classes]

    def write(self, items: _Labels) -> None:
        ids, *columns = items
        rows = zip(list_of_ids(ids), *(column.tolist() for column in columns), strict=True)
        self._file.write("".join([
            json.dumps({
                self._id_name: identity, "label": self._labels[code],
                "probabilities": dict(zip(self._keys, row, strict=True)), "n_votes": count, "tied": tie,
            }) + "\n"
            for identity, code, row, count, tie in rows
        ]))  # fmt: skip


class _Arrays(Writer):
    """npz: ``ids``, ``labels`` (codes), ``probabilities``, ``n_votes``, ``tied``, ``classes``.

    Everything is collected first.
    """

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._file = file
        self._classes = out.classes
        self._parts: list[_Labels] = []

    def write(self, items: _Labels) -> None:
        self._parts.append(items._replace(ids=list_of_ids(items.ids)))

    def close(self) -> None:
        ids = [identity for part in self._parts for identity in part[0]]
        arrays: dict[str, Any] = {
            name: np.concatenate([part[j] for part in self._parts]) if self._parts else np.empty(0)
            for j, name in enumerate(("labels", "probabilities", "n_votes", "tied"), start=1)
        }
        np.savez_compressed(
            self._file,
            ids=id_array(ids),
            classes=np.array(json.dumps(encode_labels(self._classes))),
            **arrays,
        )


class _Columnar(Writer):
    """parquet and arrow, encoded on a thread while the next items are labeled."""

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._columns, self._labels = out.columns, LabelColumns(out.classes)
        self._sink: ColumnarFile | None = ColumnarFile(
            file, out.format, out.columns, required=out.columns[2:], encode=self._encodings
        )
        self._pool, self._is_parallel = ThreadPoolExecutor(1, "flyingsquid-write"), n_threads() > 1
        self._last: Future[None] | None = None

    def write(self, items: _Labels) -> None:
        array = need_pyarrow("Writing columns").array
        ids, codes, shares, counts, tied = items
        # Copies, since the caller may fill the same arrays again while these are encoded.
        columns = [
            id_column(ids.copy() if isinstance(ids, np.ndarray) else ids), self._labels.column(codes),
            *(array(share.copy()) for share in shares.T), array(counts.astype(np.int32)), array(tied),
        ]  # fmt: skip
        self._wait()
        if self._sink is not None:
            self._last = self._pool.submit(self._sink.write, columns)
        if not self._is_parallel:
            self._wait()

    def _wait(self) -> None:
        """Wait until the last items are written, and raise the error of writing them."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def _encodings(self, types: list[Any]) -> dict[str, Any]:
        """Choose encodings that are five times as fast as pyarrow's default, and no larger.

        Integers are stored as differences, which makes row numbers and labels small. Dictionary encoding
        helps only for labels that are strings. Compression does not make probabilities smaller. Statistics
        help to find items by their identifiers; of the other columns, all groups of rows contain all values.
        """
        name, label, *shares, _, tied = self._columns
        named = zip(self._columns, types, strict=True)
        integers = [column for column, kind in named if str(kind).startswith(("int", "uint"))]
        return {
            "write_statistics": [name],
            "use_dictionary": [] if label in integers else [label],
            "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            "compression": {name: "snappy", label: "snappy"}
            | dict.fromkeys([*integers, *shares, tied], "none"),
        }

    def close(self) -> None:
        with self._pool:
            self._wait()
        if self._sink is not None:
            self._sink.close()

    def drop(self) -> None:
        self._pool.shutdown()
        self._sink = None  # collected now: pyarrow then writes the end of the file, which is still open


_SINKS: dict[str, Callable[[BinaryIO, LabelWriter], Writer]] = {
    "csv": _Delimited, "tsv": _Delimited, "jsonl": _JsonLines, "npz": _Arrays,
    "parquet": _Columnar, "arrow": _Columnar,
}  # fmt: skip
