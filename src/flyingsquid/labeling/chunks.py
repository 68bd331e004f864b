"""Labeling functions on one chunk of items, and the results, which can be merged.

Everything that applies labeling functions, in this process, in others or on a cluster, calls
:func:`label_chunk`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np

from flyingsquid._values import (
    can_be_iterated,
    format_count,
    format_value,
    is_number,
    is_one_of,
    option_error,
)
from flyingsquid.exceptions import LabelingError, OptionError, SourceWarning
from flyingsquid.labeling.columns import (
    FAILED_CALL,
    Column,
    Failure,
    FailureRecorder,
    encode_column,
    encode_votes,
)
from flyingsquid.labeling.functions import LabelingFunction, list_items, preprocess_item
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.codes import Label, smallest_dtype
from flyingsquid.votes.conventions import is_missing_text
from flyingsquid.votes.encode import Convention, classes_of

OnError: TypeAlias = Literal["raise", "abstain"]


@dataclass(frozen=True, slots=True)
class ApplyLog:
    """Record of applying labeling functions.

    Attributes
    ----------
    n_items : int
    failures : mapping from str to Failure
        Failures by name of the function, for functions that failed.
    cached : tuple of str
        Names of the functions whose votes were read from the cache.
    not_cached : mapping from str to str
        Names of the functions whose votes could not be cached, with the reason.

    Examples
    --------
    >>> import warnings, flyingsquid as fs
    >>> @fs.labeling_function
    ... def inverse(x):
    ...     return int(1 / x)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     votes, log = fs.apply([inverse], [1, 0, 1], on_error="abstain", return_log=True)
    >>> print(log)
    3 items; inverse: 1 failed, first on item 1: ZeroDivisionError: division by zero
    >>> votes.missing_counts()["failed"]
    array([1])
    """

    n_items: int
    failures: Mapping[str, Failure]
    cached: tuple[str, ...] = ()
    not_cached: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [
            format_count(self.n_items, "item"),
            *(f"{name}: {failure}" for name, failure in self.failures.items()),
        ]
        if self.cached:
            parts.append(f"from the cache: {', '.join(self.cached)}")
        parts += [f"{name} not cached: {reason}" for name, reason in self.not_cached.items()]
        return "; ".join(parts)


def warn_about_failures(failures: Mapping[str, Failure], stacklevel: int) -> None:
    """Issue one warning for all functions that failed."""
    if failures:
        listed = "; ".join(f"{name!r}: {failure}" for name, failure in failures.items())
        warnings.warn(
            f"Labeling functions failed, and their votes are missing: {listed}. Pass return_log=True to "
            "fs.apply for the first traceback of each.",
            SourceWarning,
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLabels:
    """Votes of m labeling functions on one chunk of items. Chunks of consecutive items can be merged.

    The classes are determined last, from all votes, by :meth:`to_votes`. Instances can be pickled.

    Attributes
    ----------
    columns : dict from str to Column
        The votes and failures of each function by its name.
    first_item : int
        Position of the first item in the whole data, for messages.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> @fs.labeling_function
    ... def long(text):
    ...     return int(len(text) > 3)
    >>> first = fs.labeling.label_chunk([long], ["spam", "ham"])
    >>> second = fs.labeling.label_chunk([long], ["eggs"], first_item=2)
    >>> first.n_items, second.n_items, list(first.columns)
    (2, 1, ['long'])
    """

    columns: Mapping[str, Column]
    first_item: int = 0

    @property
    def n_items(self) -> int:
        """Number of items of the chunk."""
        return len(next(iter(self.columns.values())).index)

    @property
    def failures(self) -> dict[str, Failure]:
        """Failures by name of the function, for functions that failed."""
        columns = self.columns.items()
        return {name: column.failure for name, column in columns if column.failure is not None}

    @classmethod
    def merge(cls, parts: Sequence[ChunkLabels]) -> ChunkLabels:
        """Concatenate the labels of consecutive chunks.

        Raises
        ------
        LabelingError
            If a function returned classes of different types on different chunks.
        """
        if not parts:
            raise LabelingError("`parts` must contain at least one chunk; got none.")
        start = parts[0].first_item
        names = parts[0].columns
        return cls({n: Column.merge([part.columns[n] for part in parts], n, start) for n in names}, start)

    def to_votes(self, classes: Sequence[Label] | None = None) -> Votes:
        """Return the votes, by default with the classes that :meth:`Votes.from_classes` infers.

        Raises
        ------
        LabelingError
            If functions return classes of different types.
        VotesError
            If a vote is not one of the classes.
        """
        labels = self.infer_classes(classes)
        position = {label: k for k, label in enumerate(labels)}
        codes = np.empty((self.n_items, len(self.columns)), smallest_dtype(len(labels)))
        for j, column in enumerate(self.columns.values()):
            # Negative codes of missing votes index the end of the table.
            table = np.array([*(position[v] for v in column.values), -4, -3, -2, -1], codes.dtype)
            codes[:, j] = table[column.index]
        return Votes(codes, labels, tuple(self.columns))

    def infer_classes(self, classes: Sequence[Label] | None = None) -> tuple[Label, ...]:
        """Return the classes of the votes, or ``classes`` after checking that all votes are among them."""
        convention = _read_convention(classes)
        if convention.classes is None:
            self._check_one_type()
        columns = list(self.columns.values())
        names = list(self.columns)

        def locate(at: int, j: int) -> str:
            return self._locate(names[j], columns[j].values[at])

        return classes_of([column.values for column in columns], convention, locate)

    def _locate(self, name: str, value: Any) -> str:
        return f"item {self.first_item + self.columns[name].find(value)}, function {format_value(name)}"

    def _check_one_type(self) -> None:
        by_type: dict[str, list[str]] = {}
        for name, column in self.columns.items():
            if column.kind is not None:
                by_type.setdefault(column.kind, []).append(name)
            for value in column.values:
                if isinstance(value, str) and is_missing_text(value):
                    raise LabelingError(
                        f"{self._locate(name, value)} returned {format_value(value)}. Return None to "
                        "abstain, or include it in `classes` if it is a class."
                    )
        if len(by_type) > 1:
            found = "; ".join(f"{kind} by {', '.join(names)}" for kind, names in by_type.items())
            raise LabelingError(f"labeling functions must return classes of one type; got {found}.")


def label_chunk(
    functions: Sequence[LabelingFunction], data: Any, *, first_item: int = 0, on_error: OnError = "raise"
) -> ChunkLabels:
    """Apply labeling functions to a table or a list of items.

    Parameters
    ----------
    functions : sequence of m labeling functions
    data : pandas, polars or pyarrow table, or list of n items
    first_item : int, default=0
        Position of the first item in the whole data, for messages.
    on_error : {"raise", "abstain"}, default="raise"
        As in :func:`fs.apply`.

    Examples
    --------
    >>> from flyingsquid.labeling import labeling_function
    >>> @labeling_function
    ... def long(x):
    ...     return "ham" if len(x) > 5 else None
    >>> parts = [label_chunk([long], ["a text", "b"]), label_chunk([long], ["another"], first_item=2)]
    >>> ChunkLabels.merge(parts).to_votes(classes=["ham", "spam"]).codes.ravel()
    array([ 0, -1,  0], dtype=int8)
    """
    check_on_error(on_error)
    items = _PreparedItems([] if all(function.vectorized for function in functions) else list_items(data))
    columns = {}
    for function in functions:
        failures = FailureRecorder(function.name, first_item, on_error == "raise")
        if function.vectorized:
            column = _call_once(function, data, failures)
        else:
            column = _call_each(function, items.after(function.pre), failures)
        columns[function.name] = replace(column, failure=failures.failure)
    return ChunkLabels(columns, first_item)


class _FailedItem:
    """Marks an item on which a preprocessor failed."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _PreparedItems:
    """Items of a chunk after preprocessors, each of which is called once per item."""

    def __init__(self, items: list[Any]) -> None:
        self._known: dict[tuple[int, ...], list[Any]] = {(): items}

    def after(self, steps: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """Return the items after these steps; equal first steps are shared by all functions."""
        key = tuple(map(id, steps))
        if key not in self._known:
            before = self.after(steps[:-1])
            self._known[key] = [_prepare(steps[-1], item) for item in before]
        return self._known[key]


def _prepare(preprocess: Callable[[Any], Any], item: Any) -> Any:
    if isinstance(item, _FailedItem):
        return item
    try:
        return preprocess_item(preprocess, item)
    except Exception as error:  # a vote of every function that needs the item fails with it
        return _FailedItem(error)


def _call_prepared(function: Callable[[Any], Any], item: Any) -> Any:
    if isinstance(item, _FailedItem):
        raise item.error
    return function(item)


def _call_each(function: LabelingFunction, items: list[Any], failures: FailureRecorder) -> Column:
    returned: list[Any] = []
    call = partial(_call_prepared, function.bound) if function.pre else function.bound
    results = map(call, items)
    while len(returned) < len(items):
        try:
            returned.extend(results)  # keeps what came before an error; the map continues after it
            if len(returned) == len(items):
                break
            # The map ended early, which is how it shows a StopIteration.
            raise RuntimeError("the function raised StopIteration; pass a default to next()")
        except Exception as error:
            failures.call_failed(len(returned), error)
            returned.append(FAILED_CALL)
    return encode_votes(returned, failures)


def _call_once(function: LabelingFunction, data: Any, failures: FailureRecorder) -> Column:
    n_items = len(data)
    if not n_items:  # such as an empty partition on a cluster, which functions need not support
        return encode_votes([], failures)
    try:
        returned = function.bound(data)
        _check_index(returned, data)
        return encode_column(returned, n_items, failures)
    except LabelingError as error:
        if failures.raises:
            raise _with_function(error, failures) from error.__cause__
        failures.call_failed(0, error, n_items)
    except Exception as error:
        failures.call_failed(0, error, n_items)
    return encode_votes([FAILED_CALL] * n_items, failures)


def _check_index(returned: Any, data: Any) -> None:
    """Raise an error for a pandas Series whose index is neither that of the data nor numbered from 0."""
    is_pandas = nw.dependencies.is_pandas_dataframe(data) or nw.dependencies.is_pandas_series(data)
    if not is_pandas or not nw.dependencies.is_pandas_series(returned) or len(returned) != len(data):
        return
    if not returned.index.equals(data.index) and returned.index.tolist() != [*range(len(data))]:
        raise LabelingError(
            "a vectorized function must return one value per item in the order of the data; the index of the "
            "returned Series is not that of the data. Return `series.reindex(data.index)`, or an array."
        )


def _with_function(error: LabelingError, failures: FailureRecorder) -> LabelingError:
    """Add the name of the function to an error that does not have it yet."""
    if error.function is not None:
        return error
    start = f" (items counted from item {failures.first_item})" if failures.first_item else ""
    return LabelingError(
        f"function {format_value(failures.name)}: {error.message}{start}", function=failures.name
    )


# ---------------------------------------------------------------------- options


def check_on_error(on_error: str) -> None:
    """Raise an error if ``on_error`` is unknown."""
    if not is_one_of(on_error, ("raise", "abstain")):
        raise option_error("on_error", "'raise' or 'abstain'", on_error)


def read_classes(classes: Any) -> tuple[Label, ...] | None:
    """Return the declared classes as a tuple, or None to infer them."""
    return _read_convention(classes).classes


def _read_convention(classes: Any) -> Convention:
    if can_be_iterated(classes) and not isinstance(classes, str):
        classes = tuple(classes)
        if any(is_number(label) and label == ABSTAIN for label in classes):
            raise OptionError(
                f"`classes` must not contain {ABSTAIN}, which is fs.ABSTAIN; got "
                f"{format_value(list(classes))}."
            )
    return Convention.read(ABSTAIN, classes, None, advice="Pass `classes` to declare the classes")
