"""Functions over one chunk of items: a plain function, and results that can be put together.

Everything that applies functions, here or on a cluster, goes through :func:`label_chunk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from flyingsquid._values import can_be_iterated, is_number, is_one_of, told
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.labeling.failures import ApplyLog, Failure, Watch, merge_failures
from flyingsquid.labeling.functions import LabelingFunction
from flyingsquid.labeling.returned import FAILURE, Column, column_of_calls, column_of_column, merge_columns
from flyingsquid.labeling.rows import rows_of
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.codes import Label, smallest_dtype
from flyingsquid.votes.encode import SUSPICIOUS_CLASSES, Convention, encode

OnError: TypeAlias = Literal["raise", "abstain"]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLabels:
    """What m functions said about one chunk of items; chunks of consecutive items add up.

    It is plain data, so it travels between processes. Classes are decided at the end, when all votes are
    known: :meth:`to_votes`.

    Attributes
    ----------
    names : tuple of m texts
    columns : tuple of m columns
    failures : tuple of m, a :class:`Failure` or None
    first_row : int
        The row of the first item in the whole data, for messages.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    failures: tuple[Failure | None, ...]
    first_row: int = 0

    @property
    def n_items(self) -> int:
        return len(self.columns[0].index)

    @classmethod
    def merge(cls, parts: Sequence[ChunkLabels]) -> ChunkLabels:
        """The labels of consecutive chunks as those of one.

        Raises
        ------
        LabelingError
            If a function voted by another kind of class on one chunk than on another.
        """
        if not parts:
            raise LabelingError("no chunk was labelled, so there is nothing to put together")
        names, first_row = parts[0].names, parts[0].first_row
        columns, failures = [], []
        for j, name in enumerate(names):
            columns.append(merge_columns([part.columns[j] for part in parts], _mixed_in(name, first_row)))
            failures.append(merge_failures([part.failures[j] for part in parts]))
        return cls(names, tuple(columns), tuple(failures), first_row)

    def to_votes(self, classes: Sequence[Label] | None = None) -> Votes:
        """The votes, classes as :meth:`Votes.from_classes` finds them where none are declared.

        Raises
        ------
        LabelingError
            If functions vote by different kinds of classes.
        VotesError
            If a vote is outside the classes.
        """
        known = self.classes(classes)
        position = {label: k for k, label in enumerate(known)}
        codes = np.empty((self.n_items, len(self.names)), smallest_dtype(len(known)))
        for j, column in enumerate(self.columns):
            # A missing vote has a negative number, which looks itself up from the end of the table.
            table = np.array([*(position[v] for v in column.values), -4, -3, -2, -1], codes.dtype)
            codes[:, j] = table[column.index]
        return Votes(codes, known, self.names)

    def classes(self, declared: Sequence[Label] | None = None) -> tuple[Label, ...]:
        """The classes that these votes are about: declared, or found in the votes."""
        convention = _convention(declared)
        if convention.classes is None:
            self._require_one_kind()
        height = max(1, *(len(column.values) for column in self.columns))
        distinct = np.full((height, len(self.columns)), None, object)
        for j, column in enumerate(self.columns):
            distinct[: len(column.values), j] = column.values
        return encode(distinct, convention, self._where)[1]

    def log(self) -> ApplyLog:
        """What failed."""
        failed = {n: f for n, f in zip(self.names, self.failures, strict=True) if f is not None}
        return ApplyLog(self.n_items, failed)

    def _where(self, at: int, j: int) -> str:
        """The place of the ``at``-th distinct vote of function j, for messages."""
        column = self.columns[j]
        row = self.first_row + column.first(column.values[at])
        return f"row {row}, function {told(self.names[j])}"

    def _require_one_kind(self) -> None:
        by_kind: dict[str, list[str]] = {}
        for name, column in zip(self.names, self.columns, strict=True):
            if column.kind is not None:
                by_kind.setdefault(column.kind, []).append(name)
            for value in column.values:
                if isinstance(value, str) and value.strip().lower() in SUSPICIOUS_CLASSES:
                    raise LabelingError(
                        f"row {self.first_row + column.first(value)}, function {told(name)} returned "
                        f"{told(value)}, which looks like no vote; return None for no vote, or list it in "
                        "classes= if it is a class"
                    )
        if len(by_kind) > 1:
            ways = "; ".join(f"{kind} by {', '.join(names)}" for kind, names in by_kind.items())
            raise LabelingError(f"functions name classes in different ways: {ways}. Use one kind of class")


def label_chunk(
    functions: Sequence[LabelingFunction], data: Any, *, first_row: int = 0, on_error: OnError = "raise"
) -> ChunkLabels:
    """Apply functions to a table or a list of items, all at once.

    Parameters
    ----------
    functions : sequence of m labeling functions
    data : pandas, polars or pyarrow table, or a list of n items
    first_row : int
        The row of the first item in the whole data, for messages.
    on_error : "raise" or "abstain"

    Examples
    --------
    >>> from flyingsquid.labeling import labeling_function
    >>> @labeling_function
    ... def long(x):
    ...     return "ham" if len(x) > 5 else None
    >>> parts = [label_chunk([long], ["a text", "b"]), label_chunk([long], ["another"], first_row=2)]
    >>> ChunkLabels.merge(parts).to_votes(classes=["ham", "spam"]).codes.ravel()
    array([ 0, -1,  0], dtype=int8)
    """
    raises = read_on_error(on_error)
    rows = None if all(function.vectorized for function in functions) else rows_of(data)
    columns, failures = [], []
    for function in functions:
        watch = Watch(function.name, first_row, raises)
        if function.vectorized:
            columns.append(_call_once(function, data, watch))
        else:
            columns.append(_call_each(function, rows or [], watch))
        failures.append(watch.failure)
    return ChunkLabels(tuple(f.name for f in functions), tuple(columns), tuple(failures), first_row)


def read_classes(declared: Any) -> tuple[Label, ...] | None:
    """The classes that a user declared, checked before anything is run."""
    return _convention(declared).classes


def _convention(declared: Any) -> Convention:
    if can_be_iterated(declared) and not isinstance(declared, str):
        declared = tuple(declared)
        if any(is_number(label) and label == ABSTAIN for label in declared):
            raise OptionError(
                f"classes={told(list(declared))} holds {ABSTAIN}, which is fs.ABSTAIN in a labeling "
                "function; name the classes by other numbers or by texts"
            )
    return Convention.read(ABSTAIN, declared, None, advice="Pass classes= if it has a meaning")


def read_on_error(on_error: str) -> bool:
    """Whether a failure raises."""
    if not is_one_of(on_error, ("raise", "abstain")):
        raise OptionError(f"on_error={told(on_error)} is unknown; pass 'raise' or 'abstain'")
    return on_error == "raise"


def _call_each(function: LabelingFunction, rows: list[Any], watch: Watch) -> Column:
    returned: list[Any] = []
    answers = map(function.bound, rows)
    while len(returned) < len(rows):
        try:
            returned.extend(answers)  # keeps what came before an error, and the map goes on after it
            if len(returned) == len(rows):
                break
            # A StopIteration looks like the end of the map, and no error is seen.
            raise RuntimeError("the function raised StopIteration: a next() found nothing; give it a default")
        except Exception as error:
            watch.call_failed(len(returned), error)
            returned.append(FAILURE)
    return column_of_calls(returned, watch.bad_value)


def _call_once(function: LabelingFunction, data: Any, watch: Watch) -> Column:
    n_items = len(data)
    if not n_items:  # an empty part of a table on a cluster; a function need not know of such
        return column_of_calls([], watch.bad_value)
    try:
        returned = function.bound(data)
        return column_of_column(returned, n_items, watch.bad_value)
    except LabelingError as error:
        if watch.raises:
            raise _with_function(error, watch) from error.__cause__
        watch.call_failed(0, error, n_items)
    except Exception as error:
        watch.call_failed(0, error, n_items)
    return column_of_calls([FAILURE] * n_items, watch.bad_value)


def _with_function(error: LabelingError, watch: Watch) -> LabelingError:
    """Add the name of the function to an error that does not have it yet."""
    if error.function is not None:
        return error
    counted = f" (rows counted from row {watch.first_row})" if watch.first_row else ""
    return LabelingError(f"function {told(watch.name)}: {error.message}{counted}", function=watch.name)


def _mixed_in(name: str, first_row: int) -> Any:
    def refuse(first: Any, other: Any, at: int) -> NoReturn:
        raise LabelingError(
            f"row {first_row + at}, function {told(name)} returned {told(other)}, and {told(first)} on an "
            "earlier row; classes are all of one type"
        )

    return refuse


def sliced(data: Any, start: int, stop: int) -> Any:
    """Some consecutive items of a table or a sequence."""
    if hasattr(data, "iloc"):  # pandas: data[start:stop] would look at labels of some indices
        return data.iloc[start:stop]
    if hasattr(data, "column_names") and hasattr(data, "slice"):  # pyarrow: slice(offset, length)
        return data.slice(start, stop - start)
    return data[start:stop]
