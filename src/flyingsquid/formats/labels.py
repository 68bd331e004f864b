"""Labels to files: item, label, probabilities, number of votes."""

from __future__ import annotations

import contextlib
import json
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.formats.delimited import writer as delimited_writer
from flyingsquid.formats.opening import StrPath
from flyingsquid.formats.output import TextFile, output, output_format
from flyingsquid.formats.side_by_side import Behind
from flyingsquid.formats.streams import located
from flyingsquid.formats.text_files import plain_ids, text_of
from flyingsquid.io import encode_labels
from flyingsquid.votes.states import Label

WRITABLE = ("csv", "tsv", "jsonl", "npz", "parquet", "arrow")


class LabelWriter:
    """Write labels in blocks; the file appears when the ``with`` block ends without an error.

    Columns: ``id``, ``label``, one ``p_<class>`` a class, and ``n_votes``. JSON lines hold the
    probabilities as an object.

    Parameters
    ----------
    path : path, or "-" for standard output (csv unless ``format`` says otherwise)
    classes : K labels
    format : "csv", "tsv", "jsonl", "npz", "parquet" or "arrow", optional
        Default: by the name. ``.gz`` and ``.zst`` pack csv, tsv and jsonl.
    force : replace a file that is there
    id_name : what the column of identifiers is called

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with LabelWriter(path, classes=("ham", "spam")) as out:
    ...     out.write(["a", "b"], [1, 0], [[0.25, 0.75], [0.5, 0.5]], [2, 0])
    >>> print(path.read_text(), end="")
    id,label,p_ham,p_spam,n_votes
    a,spam,0.25,0.75,2
    b,ham,0.5,0.5,0
    """

    def __init__(
        self, path: StrPath, *, classes: tuple[Label, ...], format: str | None = None,
        force: bool = False, id_name: str = "id",
    ) -> None:  # fmt: skip
        self.path, self.classes, self.force = path, tuple(classes), force
        self.format = output_format(path, format, WRITABLE, "csv")
        self.n_items = 0
        self.columns = (id_name, "label", *(f"p_{text_of(label)}" for label in self.classes), "n_votes")
        if len(set(self.columns)) < len(self.columns):
            raise OptionError(
                f"the columns {', '.join(self.columns)} are not different; id_name= renames the first"
            )
        self._stack = contextlib.ExitStack()
        self._sink: Any = None

    def __enter__(self) -> Self:
        file = self._stack.enter_context(output(self.path, force=self.force))
        try:
            self._sink = _SINKS[self.format](file, self)
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def write(self, ids: Any, labels: ArrayLike, probabilities: ArrayLike, n_votes: ArrayLike) -> None:
        """Append items.

        Parameters
        ----------
        ids : n identifiers, as chunks of a file of votes have them
        labels : n codes, 0..K-1, or -1 for no label
        probabilities : shape (n, K)
        n_votes : how many sources voted, shape (n,)
        """
        if self._sink is None:
            raise VoteFileError("labels are written inside a with block")
        codes, shares, counts = np.asarray(labels), np.asarray(probabilities), np.asarray(n_votes)
        n = len(codes)
        right = codes.ndim == 1 and codes.dtype.kind in "iu" and shares.shape == (n, len(self.classes))
        if not right or counts.shape != (n,) or len(ids) != n:
            raise OptionError(
                f"{len(ids)} ids, labels {codes.dtype}{codes.shape}, probabilities {shares.shape}, "
                f"n_votes {counts.shape}; n ids, n codes, (n, {len(self.classes)}) and n are needed"
            )
        if n and (codes.min() < -1 or codes.max() >= len(self.classes)):
            raise OptionError(
                f"labels run from {codes.min()} to {codes.max()}; codes -1..{len(self.classes) - 1}"
            )
        with located(str(self.path)):
            self._sink.write(ids, codes, shares, counts)
        self.n_items += n

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                with located(str(self.path)):
                    self._sink.close()
            except BaseException as late:
                self._stack.__exit__(type(late), late, late.__traceback__)
                raise
        elif self._sink is not None:
            self._sink.drop()
        self._sink = None
        self._stack.__exit__(kind, error, trace)


class _Delimited:
    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._csv = delimited_writer(TextFile(file), out.format)  # type: ignore[arg-type]  # it only writes
        self._csv.writerow(out.columns)
        self._labels = [*map(text_of, out.classes), ""]

    def write(self, ids: Any, codes: NDArray[Any], shares: NDArray[Any], counts: NDArray[Any]) -> None:
        labels = [self._labels[code] for code in codes.tolist()]
        columns = [shares[:, k].tolist() for k in range(shares.shape[1])]
        self._csv.writerows(zip(plain_ids(ids), labels, *columns, counts.tolist(), strict=True))

    def close(self) -> None:
        """Everything is written."""

    drop = close


class _JsonLines:
    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._file = TextFile(file)
        self._id_name = out.columns[0]
        self._labels = [*encode_labels(out.classes), None]
        self._keys = [text_of(label) for label in out.classes]

    def write(self, ids: Any, codes: NDArray[Any], shares: NDArray[Any], counts: NDArray[Any]) -> None:
        rows = zip(plain_ids(ids), codes.tolist(), shares.tolist(), counts.tolist(), strict=True)
        self._file.write("".join([
            json.dumps({
                self._id_name: identity, "label": self._labels[code],
                "probabilities": dict(zip(self._keys, row, strict=True)), "n_votes": count,
            }) + "\n"
            for identity, code, row, count in rows
        ]))  # fmt: skip

    def close(self) -> None:
        """Everything is written."""

    drop = close


class _Arrays:
    """npz: ``ids``, ``labels`` (codes), ``probabilities``, ``n_votes``, ``classes``; collected first."""

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        self._file = file
        self._classes = out.classes
        self._parts: list[tuple[Any, ...]] = []

    def write(self, ids: Any, codes: NDArray[Any], shares: NDArray[Any], counts: NDArray[Any]) -> None:
        self._parts.append((plain_ids(ids), codes, shares, counts))

    def close(self) -> None:
        ids = [identity for part in self._parts for identity in part[0]]
        whole = all(type(identity) is int and abs(identity) < 1 << 62 for identity in ids)
        arrays: dict[str, Any] = {
            name: np.concatenate([part[j] for part in self._parts]) if self._parts else np.empty(0)
            for j, name in enumerate(("labels", "probabilities", "n_votes"), start=1)
        }
        np.savez_compressed(
            self._file,
            ids=np.array(ids, np.int64) if whole else np.array([str(identity) for identity in ids]),
            classes=np.array(json.dumps(encode_labels(self._classes))),
            **arrays,
        )

    def drop(self) -> None:
        """Nothing is written."""


class _Columnar:
    """parquet and arrow, encoded behind what is labelled next."""

    def __init__(self, file: BinaryIO, out: LabelWriter) -> None:
        from flyingsquid.formats.columnar_files import LabelColumns  # noqa: PLC0415  # imports pyarrow

        self._file, self._out = file, out
        self._labels = LabelColumns(out.classes)
        self._sink: Any = None
        self._behind = Behind()

    def write(self, ids: Any, codes: NDArray[Any], shares: NDArray[Any], counts: NDArray[Any]) -> None:
        from flyingsquid.formats.columnar_files import ColumnarFile, id_column  # noqa: PLC0415  # imports pyarrow
        from flyingsquid.formats.streams import need_pyarrow  # noqa: PLC0415

        pyarrow = need_pyarrow(self._out.format)
        # Copies, since the caller may fill the same arrays again while these are encoded.
        columns = [
            id_column(ids.copy() if isinstance(ids, np.ndarray) else ids), self._labels.column(codes),
            *(pyarrow.array(shares[:, k].copy()) for k in range(shares.shape[1])),
            pyarrow.array(counts.astype(np.int32)),
        ]  # fmt: skip
        if self._sink is None:
            fields = [pyarrow.field(name, c.type) for name, c in zip(self._out.columns, columns, strict=True)]
            options = self._encodings([c.type for c in columns]) if self._out.format == "parquet" else {}
            self._sink = ColumnarFile(self._file, self._out.format, pyarrow.schema(fields), **options)
        self._behind.call(self._sink.write, columns)

    def _encodings(self, types: list[Any]) -> dict[str, Any]:
        """Five times as fast as the default of pyarrow, and no larger.

        Integers are stored as differences: row numbers take no room so, few labels a bit or two. Dictionaries
        pay for labels that are texts only. Probabilities do not get smaller by packing.
        """
        name, label, *shares, _ = self._out.columns
        whole = [
            column
            for column, kind in zip(self._out.columns, types, strict=True)
            if str(kind).startswith(("int", "uint"))
        ]
        return {
            "use_dictionary": [] if label in whole else [label],
            "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
            "compression": {name: "snappy", label: "snappy"} | dict.fromkeys([*whole, *shares], "none"),
        }

    def close(self) -> None:
        self._behind.finish()
        if self._sink is None:
            raise VoteFileError("there are no labels to write")
        self._sink.close()

    def drop(self) -> None:
        """The file is about to go; nothing may write to it any longer."""
        self._behind.drop()


_SINKS: dict[str, Any] = {
    "csv": _Delimited, "tsv": _Delimited, "jsonl": _JsonLines, "npz": _Arrays,
    "parquet": _Columnar, "arrow": _Columnar,
}  # fmt: skip
