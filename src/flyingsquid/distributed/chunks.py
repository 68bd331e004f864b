"""Functions that run on workers: read a chunk of votes, count it, and merge two results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value, is_null
from flyingsquid.exceptions import FlyingSquidError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import ChunkCounts
from flyingsquid.votes import ABSTAIN, Votes, as_votes, gold_items
from flyingsquid.votes.arguments import item_ids
from flyingsquid.votes.codes import Label, read_array, require_same
from flyingsquid.votes.encode import Convention, encode, plain_number
from flyingsquid.votes.frames import is_frame, open_table
from flyingsquid.votes.gold_items import LabeledRows
from flyingsquid.votes.reading import is_empty

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
        return Labels(self.names, tuple(_require_few(labels, f"Column {name!r}") for name, labels in both))


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
        found = tuple(_of_series(by_name[name]) for name in columns)
        for name, labels in zip(columns, found, strict=True):
            _require_classes(labels, f"source {str(name)!r}", by_name[name].to_list)
        return Labels(tuple(map(str, columns)), found)
    array = read_array(chunk, "votes", "a rectangular array")
    if array.ndim < 2 or not array.size:
        raise VotesError(f"Votes must have the shape (items, sources); got {array.shape}.")
    table = array.reshape(len(array), -1)
    names = tuple(f"source {j}" for j in range(table.shape[1]))
    found = tuple(_of_array(column, name) for name, column in zip(names, table.T, strict=True))
    for name, labels, column in zip(names, found, table.T, strict=True):
        _require_classes(labels, name, column.tolist)
    return Labels(names, found)


def _require_classes(labels: frozenset[Any], name: str, cells: Callable[[], list[Any]]) -> None:
    """Raise an error for numbers that cannot be classes, while their row is known."""
    numbers = [v for v in labels if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if all((isinstance(v, int) or v.is_integer()) and v >= ABSTAIN for v in numbers):
        return
    column = np.empty((len(values := cells()), 1), object)
    column[:, 0] = values
    try:
        encode(column, Convention.declared(None), lambda row, _: f"row {row}, {name}")
    except VotesError as error:
        raise VotesError(f"{error} {COLUMNS_HINT}, which also accepts `classes`.") from None


def _of_series(series: Any) -> frozenset[Any]:
    values = _require_few(series.unique().to_list(), f"Column {series.name!r}")
    return frozenset(plain_number(v) for v in values if not is_null(v))


def _of_array(column: NDArray[Any], name: str) -> frozenset[Any]:
    if isinstance(column, np.ma.MaskedArray):
        column = column.compressed()
    if not column.size:
        return frozenset()
    values = column.tolist() if column.dtype.kind == "O" else np.unique(column).tolist()
    return frozenset(_require_few({plain_number(v) for v in values if not is_null(v)}, name))


def _require_few(values: Any, where: str) -> Any:
    if len(values) > _MAX_LABELS:
        raise VotesError(
            f"{where} has more than {_MAX_LABELS:,} distinct values, which cannot be votes. {COLUMNS_HINT}."
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
