"""Tables of pandas, polars and pyarrow, read with narwhals: none of them is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import can_be_iterated, format_count, format_value
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.encode import Convention, encode, in_column


def is_frame(data: Any) -> bool:
    """Return whether ``data`` is a table that :func:`read` supports."""
    return bool(nw.dependencies.is_into_dataframe(data))


def is_lazy(data: Any) -> bool:
    """Return whether ``data`` is a lazy table, whose rows are not computed yet."""
    return bool(nw.dependencies.is_polars_lazyframe(data))


def named_row(data: Any, names: tuple[str, ...] | None) -> dict[str, Any] | None:
    """Return votes by source if ``data`` is a row of a pandas table; None if it has only positions."""
    if not nw.dependencies.is_pandas_series(data):
        return None
    keys = [str(key) for key in data.index]
    # The index of a column numbers its rows; these are names only if the sources have such names.
    counted = not any(isinstance(key, str) for key in data.index) and set(keys) != set(names or ())
    return None if counted else dict(zip(keys, data.tolist(), strict=True))


def read(
    frame: Any, columns: Sequence[str] | None, convention: Convention
) -> tuple[NDArray[Any], tuple[Label, ...], tuple[str, ...]]:
    """Return codes (n, m), classes and column names of a table."""
    series, names = _open(frame, columns, "votes")
    numeric = [s.dtype.is_numeric() or s.dtype == nw.Boolean for s in series]
    texts = [s.dtype == nw.String for s in series]
    if any(numeric) and any(texts):
        one, other = names[numeric.index(True)], names[texts.index(True)]
        raise VotesError(
            f"Column {format_value(one)} holds numbers and column {format_value(other)} strings. Pass "
            "`columns` to select the sources, or convert them to one type."
        )
    # Categories, and Python objects such as pandas' booleans with None, may be mixed with either type.
    labels = _numbers(series) if all(numeric) else np.stack([_objects(s) for s in series], axis=1)
    codes, classes = encode(labels, convention, in_column(names))
    return codes, classes, names


def columns_of(frame: Any) -> list[list[Any]]:
    """Return the columns of a table as lists of Python values."""
    return [column.to_list() for column in _open(frame, None, "votes")[0]]


def read_scores(frame: Any) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """Return the columns of a table, arrays of floats with NaN for null or of objects, and their names."""
    series, names = _open(frame, None, "scores")
    columns = []
    for column in series:
        s = column.cast(nw.Float64) if column.dtype.is_integer() else column
        columns.append(s.to_numpy() if s.dtype.is_float() else _objects(s))
    return columns, names


def open_table(frame: Any) -> Any:
    """Return a table as narwhals reads it; refuse one that it cannot read, such as with repeated columns."""
    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.NarwhalsError as error:
        raise VotesError(f"Reading the table failed: {' '.join(str(error).split())}.") from error


def _open(frame: Any, columns: Sequence[str] | None, what: str) -> tuple[list[Any], tuple[str, ...]]:
    """Return the chosen columns of a table with their names."""
    if is_lazy(frame):
        raise VotesError("`frame` must not be lazy; pass frame.collect().")
    if not is_frame(frame):
        raise VotesError(
            f"`frame` must be a pandas, polars or pyarrow table; got {type(frame).__name__}. Use "
            "Votes.from_classes for arrays."
        )
    table = open_table(frame)
    present = list(table.columns)
    if len({str(name) for name in present}) < len(present):
        raise VotesError(f"Column names must be different; the table has {', '.join(map(str, present))}.")
    at = _pick(present, columns)
    names = tuple(str(present[j]) for j in at)
    if not names:
        raise VotesError("The table must have at least one column, one per source.")
    if not len(table):
        raise VotesError(
            f"`{what}` must have at least one item; got 0 items x {format_count(len(names), 'source')}."
        )
    # By position, because pandas may name columns with numbers.
    return [table[:, j] for j in at], names


def _pick(present: list[Any], columns: Sequence[Any] | None) -> list[int]:
    """Return the positions of the chosen columns."""
    if columns is None:
        return list(range(len(present)))
    if isinstance(columns, str) or not can_be_iterated(columns):
        raise VotesError(f"`columns` must be a list of column names; got {format_value(columns)}.")
    columns = list(columns)
    absent = [name for name in columns if name not in present]
    if absent:
        raise VotesError(
            f"`columns` must be among {', '.join(map(str, present))}; got {format_value(absent[0])}."
        )
    return [present.index(name) for name in columns]


def _numbers(series: list[Any]) -> NDArray[Any]:
    """Return numeric columns as one matrix. Null integers become -1: floats would merge large ones."""
    if all(s.dtype == nw.Boolean for s in series) and not any(s.null_count() for s in series):
        return np.stack([s.to_numpy().astype(bool) for s in series], axis=1)
    arrays = []
    for column in series:
        s = column.cast(nw.Int8) if column.dtype == nw.Boolean else column
        if s.dtype.is_integer():
            s = s.fill_null(ABSTAIN) if s.null_count() and not _is_unsigned(s) else s
            array = _objects(s) if s.null_count() else s.to_numpy()
        else:
            array = s.to_numpy().astype(np.float64, copy=False)
        arrays.append(array)
    if len({a.dtype.kind for a in arrays} & {"i", "u"}) == 2:
        # NumPy would convert signed and unsigned integers to floats; objects keep every digit.
        arrays = [a.astype(object) for a in arrays]
    return np.stack(arrays, axis=1)


def _is_unsigned(series: Any) -> bool:
    return series.dtype in (nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64)


def _objects(series: Any) -> NDArray[Any]:
    values = np.empty(len(series), object)
    values[:] = series.to_list()
    return values


def rows_of(data: Any, positions: Sequence[int]) -> list[Any] | None:
    """Return some rows of a table as mappings, or some values of a column; None if ``data`` is neither."""
    at = [int(i) for i in positions]
    if nw.dependencies.is_into_series(data):
        values: list[Any] = nw.from_native(data, series_only=True)[at].to_list()
        return values
    if not is_frame(data):
        return None
    # Column by column, because pandas may name columns with numbers.
    columns = list(nw.from_native(data, eager_only=True)[at].iter_columns())
    names = [str(column.name) for column in columns]
    rows = zip(*(column.to_list() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]
