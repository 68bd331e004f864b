"""Votes that stay on a cluster, and the rounds of map and reduce over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._registry import reader_of
from flyingsquid._values import format_count, format_list, format_value, is_null, option_error
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, LabelingError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.labeling.chunks import OnError, check_on_error, label_chunk, read_classes
from flyingsquid.labeling.functions import LabelingFunction, read_functions
from flyingsquid.moments import ChunkCounts, Moments
from flyingsquid.votes import ABSTAIN, Votes, as_votes, gold_items
from flyingsquid.votes.arguments import item_ids, read_keys
from flyingsquid.votes.codes import Label, read_array, require_same
from flyingsquid.votes.conventions import is_gold_name, is_item_name
from flyingsquid.votes.encode import Convention, classes_of, encode, plain_number
from flyingsquid.votes.frames import is_frame, open_table
from flyingsquid.votes.gold_items import GoldItems, LabeledRows, require_all_found
from flyingsquid.votes.reading import is_empty


class Parts(Protocol):
    """Interface of an engine, implemented in ``dask.py`` and ``spark.py``."""

    columns: tuple[Any, ...] | None
    """Names of the columns, known in advance; None for chunks without names."""

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and return the sum."""

    def label(self, labeling: Labeling) -> Any:
        """Return labels on the cluster, lazily."""

    def transform(self, transform: Transform) -> Any:
        """Return a transformed dataframe on the cluster, lazily."""


@dataclass(frozen=True, slots=True, repr=False)
class DistributedVotes:
    """Votes on a cluster, as returned by :func:`votes`. Nothing is computed until counts are needed.

    Attributes
    ----------
    parts : Parts
        The chunks and their engine.
    columns : tuple of column names, or None if chunks have none
        The sources, in order.
    classes : tuple of K labels, or None to find them in a pass over the votes
    keep : tuple of column names
        Columns to keep next to the labels of ``predict`` and ``predict_proba``.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> import pandas as pd
    >>> from dask.dataframe import from_pandas
    >>> frame = from_pandas(pd.DataFrame({"a": [0, 1, 1], "b": [1, 1, 0]}), npartitions=2)
    >>> fs.Moments.of(fs.distributed.votes(frame))
    Moments(3 items x 2 sources, classes 0, 1, integer counts)
    """

    parts: Parts
    columns: tuple[Any, ...] | None = None
    classes: tuple[Label, ...] | None = None
    keep: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        names = self.columns
        sources = "sources without names" if names is None else format_count(len(names), "source")
        return (
            f"DistributedVotes({type(self.parts).__name__}, {sources}, classes {self.classes or 'unknown'})"
        )

    def with_classes(self, classes: tuple[Label, ...] | None = None) -> DistributedVotes:
        """Return the same votes with known classes: given, declared, or found in a pass over the votes."""
        if classes is not None and self.classes is not None and len(classes) != len(self.classes):
            raise OptionError(
                f"`n_classes` must match the classes {format_list(self.classes)}; got {len(classes)}.",
                parameter="n_classes",
            )
        known = self.classes or classes
        return replace(self, classes=self._find_classes() if known is None else known)

    def count(self, graph: DependencyGraph | None = None, rows: bool = True) -> ChunkCounts:
        """Return counts and, while they are few, the distinct rows; unknown classes take one more round."""
        known = self.with_classes()
        tasks = None if graph is None else graph.stacked_shape
        reader = Reader(known.columns, known.classes, tasks)
        total: ChunkCounts = known._round(partial(count, reader=reader, graph=graph, rows=rows))
        return total

    def gold_items(self, gold: Any) -> GoldItems | None:
        """Return the votes on items with gold labels. Requires a pass over the votes.

        Items are identified by the column in ``keep`` if it has one entry, otherwise by the index of a pandas
        chunk or by ``Votes.items``.

        Raises
        ------
        VotesError
            If ``gold`` is not a mapping or a pandas Series, or cannot be joined.
        """
        by_id = read_keys(gold, "gold")
        if by_id is None:
            raise VotesError(
                "`gold` must be a mapping or a pandas Series by item identifier for votes on a cluster; got "
                f"{type(gold).__name__}.",
                parameter="gold",
            )
        item = self.keep[0] if len(self.keep) == 1 else None
        columns = self.columns if item is None else (*(self.columns or ()), item)
        task = partial(labeled_rows, reader=Reader(self.columns, self.classes), item=item, by_id=by_id)
        found: LabeledRows = self._round(task, columns)
        require_all_found(by_id, set(found.ids))
        if len(set(found.ids)) < len(found.ids):
            raise VotesError("`votes` must have unique item identifiers to be joined with `gold`.")
        return found.items if len(found.items) else None

    def moments(self, graph: DependencyGraph | None = None) -> Moments:
        """Return the counts, the same integers as on one machine."""
        return self.count(graph, rows=False).moments

    def label(self, estimator: Any, method: str, options: dict[str, Any]) -> Any:
        """Return the labels of ``estimator.predict`` or ``predict_proba`` on the cluster, lazily."""
        if self.columns is not None:  # here, because the engine would wrap an error of a worker
            theirs = set(estimator.vote_schema_.names or map(str, self.columns))
            try:
                require_same("sources", set(map(str, self.columns)), theirs)
            except IncompatibleError as error:
                raise IncompatibleError(f"{error} {COLUMNS_HINT}.") from error
        return self.parts.label(Labeling.by(estimator, method, options, self.columns, self.keep))

    def _find_classes(self) -> tuple[Label, ...]:
        found: Labels = self._round(partial(find_labels, reader=Reader(self.columns)))
        if found.declared is not None:
            return found.declared
        labels = [sorted(values, key=repr) for values in found.values]
        if not all(isinstance(label, bool) for column in labels for label in column):
            labels = [[int(v) if isinstance(v, bool) else v for v in column] for column in labels]
        try:
            return classes_of(labels, Convention.declared(None), lambda _, j: f"column {found.names[j]!r}")
        except VotesError as error:
            raise VotesError(f"{error} {COLUMNS_HINT}, which also accepts `classes`.") from error

    def _round(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None = None) -> Any:
        total = self.parts.reduce(task, columns or self.columns)
        if total is None:
            raise VotesError("Votes must have at least one row; all partitions are empty.")
        if isinstance(total, FlyingSquidError):
            raise total
        return total


def votes(
    frame: Any,
    *,
    columns: Sequence[Any] | None = None,
    classes: Sequence[Label] | None = None,
    keep: Sequence[Any] = (),
) -> DistributedVotes:
    """Select the votes of a dataframe on a cluster. Pass the result wherever votes are accepted.

    Parameters
    ----------
    frame : Dask array or dataframe, list of dask.delayed chunks, or Spark dataframe
        One row per item and one column per source. A chunk is ``Votes``, or anything that
        ``Votes.from_classes`` or ``Votes.from_frame`` accepts. Null, NaN and -1 are no vote.
    columns : sequence of column names or None, default=None
        The sources; None is all columns that are not in ``keep``.
    classes : sequence of K labels or None, default=None
        None finds them in a pass over the votes: 0 to the largest for integers, the sorted labels for
        strings.
    keep : sequence of column names, default=()
        Columns to keep next to the labels, such as identifiers.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> import pandas as pd
    >>> from dask.dataframe import from_pandas
    >>> frame = from_pandas(pd.DataFrame({"id": [1, 2], "a": [0, 1], "b": [1, 1]}), npartitions=2)
    >>> fs.distributed.votes(frame, columns=["a", "b"], classes=[0, 1], keep=["id"])
    DistributedVotes(DaskParts, 2 sources, classes (0, 1))
    """
    parts = _open_parts(frame)
    if parts is None:
        raise OptionError(
            "`frame` must be a Dask array or dataframe, a list of dask.delayed chunks or a Spark dataframe; "
            f"got {type(frame).__name__}. Use fs.Votes for votes in memory.",
            parameter="frame",
        )
    present = parts.columns
    if present is None:
        if keep:
            raise OptionError(
                "`keep` needs a dataframe with named columns; these chunks have none.", parameter="keep"
            )
        chosen = None if columns is None else _read_names("columns", columns)
    else:
        kept = _read_names("keep", keep)
        chosen = (
            tuple(c for c in present if c not in kept) if columns is None else _read_names("columns", columns)
        )
        _require_columns((*chosen, *kept), present)
        if not chosen:
            raise VotesError("There must be at least one column of votes; got none.")
        if columns is None:
            _refuse_other_columns(chosen)
    known = Convention.declared(classes).classes
    return DistributedVotes(parts, chosen, known, tuple(keep))


def _refuse_other_columns(names: Iterable[Any]) -> None:
    """Raise an error for a column whose name shows that it does not hold votes."""
    for name in names:
        kind = "gold labels" if is_gold_name(name) else "item identifiers" if is_item_name(name) else None
        if kind is not None:
            shown = format_value(name)
            raise VotesError(
                f"Not all columns are votes: column {shown} looks like {kind}. Pass "
                f"fs.distributed.votes(frame, keep=[{shown}]) to keep it next to the labels, or "
                "columns=[...] if it is a source.",
                parameter="columns",
            )


def _open_parts(frame: Any) -> Parts | None:
    """Return a dataframe with its engine; None for data in memory."""
    home = reader_of(frame)
    return None if home is None else import_module(home).parts_of(frame)


def _require_columns(names: Iterable[Any], present: Collection[Any]) -> None:
    for name in names:
        if name not in present:
            raise VotesError(
                f"No column is named {format_value(name)}; the columns are {', '.join(map(str, present))}."
            )


def _read_names(option: str, names: Any) -> tuple[Any, ...]:
    if isinstance(names, str):
        raise option_error(option, "a list of column names", names)
    return tuple(names)


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
    parts = _open_parts(frame)
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
        columns = reader.columns or [name for name in by_name if not is_item_name(name)]
        _require_columns(columns, by_name)
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
    if ids is None:
        raise VotesError(
            "`gold` needs votes with item identifiers on a cluster, such as the index of a Dask dataframe or "
            "the column in `keep` of flyingsquid.distributed.votes; these votes have none.",
            parameter="gold",
        )
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
