"""Functions that run on workers: count votes, label them by a model, and apply labeling functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._registry import reader_of
from flyingsquid._values import format_list, format_value, is_null, option_error
from flyingsquid.exceptions import FlyingSquidError, LabelingError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.labeling.chunks import OnError, check_on_error, label_chunk, read_classes
from flyingsquid.labeling.functions import LabelingFunction, read_functions
from flyingsquid.moments import ChunkCounts
from flyingsquid.votes import ABSTAIN, Votes, as_votes, gold_items
from flyingsquid.votes.arguments import item_ids
from flyingsquid.votes.codes import Label, read_array, require_same
from flyingsquid.votes.encode import Convention, encode, plain_number
from flyingsquid.votes.frames import is_frame, open_table
from flyingsquid.votes.gold_items import LabeledRows
from flyingsquid.votes.reading import is_empty


@dataclass(frozen=True, slots=True)
class Labeling:
    """Labels by a fitted model.

    Attributes
    ----------
    estimator : a fitted model without its counts
    method : {"predict_proba", "predict"}
    options : options of that method
    columns : tuple of columns to read, or None for all
    keep : tuple of columns to keep before the new ones
    types : dict of the types of the new columns, as in pandas
        New columns are ``p_spam`` for a probability and ``label`` for a label; for task 3 of several,
        ``p_3_spam`` and ``label_3``.
    example : array of shape (0, ...)
        Labels of zero items, with the shape and type of all labels.
    """

    estimator: Any
    method: str
    options: dict[str, Any]
    columns: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    types: dict[str, str]
    example: NDArray[Any]

    @classmethod
    def by(
        cls,
        estimator: Any,
        method: str,
        options: dict[str, Any],
        columns: tuple[Any, ...] | None,
        keep: tuple[Any, ...],
    ) -> Labeling:
        """Return the labeling of a fitted model, without the counts that labels do not need."""
        if options.get("tie_break") == "random":
            raise OptionError(
                "tie_break='random' is not supported on a cluster, where a task may run twice. Use 'first' "
                "or 'abstain'.",
                parameter="tie_break",
            )
        slim = estimator.for_labeling()
        schema = slim.vote_schema_
        missing = np.full((1, len(schema.source_names)), -1, np.int8)
        example = getattr(slim, method)(Votes(missing, schema.classes, schema.names), **options)[:0]
        column_type = _type_of_labels(schema.classes) if method == "predict" else example.dtype.name
        names = _column_names(method, slim.classes_, example.shape[1:])
        types = dict.fromkeys(names, column_type)
        if len(types) < len(names):
            raise OptionError(
                f"Classes must have unique names to become columns; got {format_list(schema.classes)}."
            )
        _require_new_names(types, keep)
        return cls(slim, method, options, columns, keep, types, example)

    def __call__(self, chunk: Any) -> NDArray[Any]:
        """Return labels of a chunk of n items, shape (n, K), (n, D, K), (n,) or (n, D)."""
        if not len(chunk):
            return self.example
        schema = self.estimator.vote_schema_
        read = Reader(self.columns, schema.classes, schema.tasks)
        labels: NDArray[Any] = getattr(self.estimator, self.method)(read(chunk), **self.options)
        return labels

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """Return labels of a chunk of n items, each column of shape (n,)."""
        flat = self(chunk).reshape(len(chunk), len(self.types))
        return dict(zip(self.types, flat.T, strict=True))


@dataclass(frozen=True, slots=True)
class Application:
    """Votes of labeling functions; ``columns``, ``keep`` and ``types`` are as in :class:`Labeling`."""

    functions: tuple[LabelingFunction, ...]
    on_error: OnError
    classes: tuple[Label, ...] | None
    columns: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    types: dict[str, str]

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """Return votes on a chunk of n items, (n,) each; no vote is -1 for integers and None otherwise."""
        labeled = label_chunk(self.functions, chunk, on_error=self.on_error)
        if self.classes is None:
            for name, column in labeled.columns.items():
                if column.kind not in (None, "int"):
                    raise LabelingError(
                        f"Function {format_value(name)} returned {format_value(column.values[0])}. On a "
                        "cluster, `classes` must be given if they are not integers."
                    )
        labeled.infer_classes(self.classes)  # raises an error for a vote outside of them
        missing, dtype = (ABSTAIN, np.int64) if "int64" in self.types.values() else (None, object)
        # No vote has a negative index, which reads from the end of the table.
        return {
            name: np.array([*column.values, *[missing] * 4], dtype)[column.index]
            for name, column in labeled.columns.items()
        }


Transform: TypeAlias = Labeling | Application
"""What an engine applies to every chunk of a dataframe. It is sent to the workers."""


def apply(
    lfs: Iterable[Any],
    frame: Any,
    *,
    classes: Sequence[Label] | None = None,
    on_error: OnError = "raise",
    keep: Sequence[Any] = (),
) -> Any:
    """Apply labeling functions to every row of a Dask or Spark dataframe, lazily.

    Parameters
    ----------
    lfs : list of m labeling functions
        The functions and their resources are sent to every worker once. A vectorized function gets one part
        of the dataframe at a time: a pandas table from Dask, a pyarrow table from Spark.
    frame : Dask or Spark dataframe
    classes : sequence of K labels or None, default=None
        Required if the functions return strings or booleans, because the columns need a type in advance.
    on_error : {"raise", "abstain"}, default="raise"
        Whether an error of a function stops the job or results in a missing vote.
    keep : sequence of column names, default=()
        Columns to keep before the votes, such as identifiers.

    Returns
    -------
    dataframe of the same engine
        The kept columns, then one column of votes per function; no vote is -1 for integers, and null for
        strings and booleans.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> import pandas as pd
    >>> from dask.dataframe import from_pandas
    >>> frame = from_pandas(pd.DataFrame({"text": ["a", "long text"]}), npartitions=1)
    >>> @fs.labeling_function
    ... def long(row):
    ...     return int(len(row.text) > 3)
    >>> fs.distributed.apply([long], frame).compute()["long"].tolist()
    [0, 1]
    """
    home = reader_of(frame)
    parts = None if home is None else import_module(home).parts_of(frame)
    if parts is None or parts.columns is None:
        raise OptionError(
            f"`frame` must be a Dask or Spark dataframe; got {type(frame).__name__}. Use fs.apply for data "
            "in memory.",
            parameter="frame",
        )
    functions, known = read_functions(lfs), read_classes(classes)
    check_on_error(on_error)
    absent = [name for name in keep if name not in parts.columns]
    if absent:
        raise option_error("keep", f"columns of `frame` ({format_list(parts.columns)})", absent[0])
    column_type = "int64" if known is None else _type_of_labels(known)
    types = {function.name: column_type for function in functions}
    _require_new_names(types, tuple(keep))
    return parts.transform(Application(functions, on_error, known, None, tuple(keep), types))


def _type_of_labels(classes: tuple[Label, ...]) -> str:
    """Return the type of a column of class labels."""
    for kind, name in ((bool, "boolean"), (int, "int64"), (str, "string")):
        if all(type(label) is kind for label in classes):
            return name
    raise OptionError(
        "Labels in a dataframe must be all strings, all integers or all booleans; got "
        f"{format_list(classes)}. Use predict_proba."
    )


def _require_new_names(types: dict[str, str], keep: tuple[Any, ...]) -> None:
    taken = set(types) & set(map(str, keep))
    if taken:
        raise OptionError(
            f"`keep` must not contain the name of a new column; got {format_value(min(taken))}.",
            parameter="keep",
        )


def _column_names(method: str, classes: NDArray[Any], tail: tuple[int, ...]) -> tuple[str, ...]:
    if method == "predict":
        return ("label",) if not tail else tuple(f"label_{task}" for task in range(tail[0]))
    if len(tail) == 1:
        return tuple(f"p_{label}" for label in classes)
    return tuple(f"p_{task}_{label}" for task in range(tail[0]) for label in classes)


# ---------------------------------------------------------------------- reading and counting


COLUMNS_HINT = "Select the columns of votes with flyingsquid.distributed.votes(frame, columns=[...])"
# A column with more different values does not contain votes: codes of classes are small integers.
_MAX_LABELS = np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of chunks, the same on every worker, so that columns and classes agree.

    Attributes
    ----------
    columns : tuple of column names, or None for all columns of a chunk
    classes : tuple of K labels or None
    tasks : (D, s) if chunks are arrays of shape (n, D, s), otherwise None
    """

    columns: tuple[Any, ...] | None
    classes: tuple[Label, ...] | None = None
    tasks: tuple[int, int] | None = None

    def __call__(self, chunk: Any) -> Votes:
        if not isinstance(chunk, (Votes, np.ndarray)) and is_frame(chunk):
            return Votes.from_frame(chunk, self.columns, classes=self.classes)
        if self.classes is not None and ABSTAIN in self.classes and not isinstance(chunk, Votes):
            return Votes.from_classes(chunk, None, self.classes)
        return as_votes(chunk, self.classes, self.tasks)


@dataclass(frozen=True, slots=True)
class Labels:
    """Distinct labels of each column, or the classes that chunks of ``Votes`` declare."""

    names: tuple[str, ...]
    values: tuple[frozenset[Any], ...]
    declared: tuple[Label, ...] | None = None

    def __add__(self, other: Labels) -> Labels:
        if self.declared is not None or other.declared is not None:
            if self.declared is not None and other.declared is not None:
                require_same("classes", set(self.declared), set(other.declared))
            return self if self.declared is not None else other
        require_same("sources", set(other.names), set(self.names))
        theirs = dict(zip(other.names, other.values, strict=True))
        both = ((name, mine | theirs[name]) for name, mine in zip(self.names, self.values, strict=True))
        return Labels(self.names, tuple(_require_few(labels, f"source {name!r}") for name, labels in both))


def find_labels(chunk: Any, reader: Reader) -> Labels:
    """Return the distinct labels of a chunk."""
    if isinstance(chunk, Votes):
        return Labels((), (), chunk.classes)
    if not isinstance(chunk, np.ndarray) and is_frame(chunk):
        table = open_table(chunk)
        by_name = dict(zip(table.columns, table.iter_columns(), strict=True))
        columns = by_name if reader.columns is None else reader.columns
        absent = [name for name in columns if name not in by_name]
        if absent:
            raise VotesError(
                f"No column is named {format_value(absent[0])}; the columns are "
                f"{', '.join(map(str, by_name))}."
            )
        found = {str(name): _labels_of(by_name[name], f"source {str(name)!r}") for name in columns}
    else:
        array = read_array(chunk, "votes", "a rectangular array")
        if array.ndim < 2 or not array.size:
            raise VotesError(f"Votes must have the shape (items, sources); got {array.shape}.")
        sources = enumerate(array.reshape(len(array), -1).T)
        found = {f"source {j}": _labels_of(column, f"source {j}") for j, column in sources}
    return Labels(tuple(found), tuple(found.values()))


def _labels_of(column: Any, where: str) -> frozenset[Any]:
    """Return the distinct labels of a series or an array; raise an error for numbers that are not classes."""
    values: Any
    if hasattr(column, "unique"):
        values = column.unique().to_list()
    else:
        present = np.ma.compressed(column)
        values = set(present.tolist()) if present.dtype.kind == "O" else np.unique(present).tolist()
    labels = frozenset(plain_number(v) for v in _require_few(values, where) if not is_null(v))
    numbers = [v for v in labels if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if not all((isinstance(v, int) or v.is_integer()) and v >= ABSTAIN for v in numbers):
        cells = np.empty((len(column), 1), object)
        cells[:, 0] = column.to_list() if hasattr(column, "to_list") else column.tolist()
        try:  # now, while the row is known
            encode(cells, Convention.declared(None), lambda row, _: f"row {row}, {where}")
        except VotesError as error:
            raise VotesError(f"{error} {COLUMNS_HINT}, which also accepts `classes`.") from None
    return labels


def _require_few(values: Any, where: str) -> Any:
    if len(values) > _MAX_LABELS:
        raise VotesError(
            f"The column of {where} has more than {_MAX_LABELS:,} distinct values, which cannot be votes. "
            f"{COLUMNS_HINT}."
        )
    return values


def count(chunk: Any, reader: Reader, graph: DependencyGraph | None, rows: bool) -> ChunkCounts:
    """Return the counts of a chunk, with its distinct rows if ``rows``."""
    return ChunkCounts.of(reader(chunk), graph, rows=rows)


def labeled_rows(chunk: Any, reader: Reader, item: Any, by_id: Mapping[Any, Any]) -> LabeledRows:
    """Return the items of a chunk with gold labels; ``item`` is the column of identifiers, or None."""
    votes = reader(chunk)
    ids = item_ids(chunk, votes)
    if item is not None:
        ids = open_table(chunk)[item].to_list()
    return gold_items.labeled_rows(votes, ids, by_id)


def attempt(task: Callable[[Any], Any], chunk: Any, where: str) -> Any:
    """Return the result of a task, or its error if the votes cannot be read; None for an empty chunk.

    Engines would run a failed task again and wrap its error.
    """
    if is_empty(chunk):
        return None
    try:
        return task(chunk)
    except FlyingSquidError as error:
        return type(error)(f"{where}: {error}")


def merge(first: Any, second: Any) -> Any:
    """Return the sum of two results, or the first error; None is an empty result."""
    if first is None or isinstance(second, FlyingSquidError):
        return first if isinstance(first, FlyingSquidError) else second
    if second is None or isinstance(first, FlyingSquidError):
        return first
    try:
        return first + second
    except FlyingSquidError as error:
        return error
