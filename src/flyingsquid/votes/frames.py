"""Tables of pandas, polars, pyarrow and Hugging Face datasets, read with narwhals: none is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import (
    can_be_iterated,
    format_count,
    format_list,
    format_value,
    is_integer,
    is_null,
)
from flyingsquid.exceptions import VotesError
from flyingsquid.votes import _narwhals as nw
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.conventions import (
    ITEM_NAMES,
    LABEL_NAMES,
    SOURCE_NAMES,
    find_item_column,
    find_long_columns,
    find_other_columns,
    find_roles,
    is_gold_name,
    is_item_name,
    is_row_number,
)
from flyingsquid.votes.encode import Convention, encode, encode_values, in_column
from flyingsquid.votes.structure import JUDGE_FIELDS, SOURCE_FIELDS, SourceInfo, read_calls

# Rows that decide what a column holds.
_FIRST_ROWS = 10_000


def is_frame(data: Any) -> bool:
    """Return whether ``data`` is a table that :func:`read` supports."""
    return bool(nw.dependencies.is_into_dataframe(data))


def is_dataset(data: Any) -> bool:
    """Return whether ``data`` is a ``Dataset`` or ``DatasetDict`` of Hugging Face, not a stream."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "num_rows")


def is_table(data: Any) -> bool:
    """Return whether ``data`` is a table or a dataset that :func:`read` supports."""
    return is_frame(data) or (is_dataset(data) and not isinstance(data, Mapping))


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
    frame: Any, columns: Sequence[str] | None, item: str | bool | None, convention: Convention
) -> tuple[NDArray[Any], tuple[Label, ...], tuple[str, ...], NDArray[Any] | None]:
    """Return codes (n, m), classes, column names and item identifiers of a table."""
    table = _table(frame)
    present = list(table.columns)
    if columns is None:
        item, chosen = _vote_columns(table, item)
    else:
        chosen = _pick(present, columns)
        if item is None:
            item = _item_among(frame, table, [str(present[j]) for j in chosen])
    if convention.classes is None:
        convention = replace(convention, classes=_declared_classes(frame, [present[j] for j in chosen]))
    series, names = _open(table, chosen, "votes")
    numeric = [s.dtype.is_numeric() or s.dtype == nw.Boolean for s in series]
    texts = [s.dtype == nw.String for s in series]
    if any(numeric) and any(texts):
        # pandas reads a column without votes, such as one of a small file, as numbers that are all NaN.
        series = [_without_type(s) if is_number else s for s, is_number in zip(series, numeric, strict=True)]
        numeric = [s.dtype.is_numeric() or s.dtype == nw.Boolean for s in series]
    if any(numeric) and any(texts):
        one, other = names[numeric.index(True)], names[texts.index(True)]
        raise VotesError(
            f"Column {format_value(one)} contains numbers and column {format_value(other)} strings. Pass "
            "`columns` to select the sources, or convert them to one type."
        )
    # Categories, and Python objects such as pandas' booleans with None, may be mixed with either type.
    if all(numeric):
        codes, classes = encode(_numbers(series, convention), convention, in_column(names))
    elif all(s.dtype in (nw.String, nw.Categorical, nw.Enum) for s in series):
        codes, classes = encode_values(*_factorize(series), convention, in_column(names))
    else:
        objects = np.stack([_objects(s) for s in series], axis=1)
        codes, classes = encode(objects, convention, in_column(names))
    return codes, classes, names, _identifiers(frame, table, item)


# ---------------------------------------------------------------------- roles of columns


def _vote_columns(table: Any, item: str | bool | None) -> tuple[str | bool | None, list[int]]:
    """Return the identifier column, if any, and the positions of the vote columns; raise for others."""
    names = [str(name) for name in table.columns]
    head = table.head(_FIRST_ROWS)
    long = None if item is False else find_long_columns(names, item if isinstance(item, str) else None)
    if long is not None:
        columns = ", ".join(f"{k}={v!r}" for k, v in zip(("item", "source", "label"), long, strict=True))
        has_replicates = {"order", "repeat"} & set(names)
        call = "from_panel(table)" if has_replicates else f"from_long(table, {columns})"
        raise VotesError(
            f"The table has one row per vote, with columns {', '.join(long)}. Use Votes.{call}, or pass "
            "`columns` to Votes.from_frame if they are sources."
        )
    if item is None:
        first = [_plain_values(head[:, j]) for j in range(len(names))]
        item, _ = find_item_column(names, [n for n in names if not is_gold_name(n)], first)
    elif isinstance(item, str):
        _require_column("item", item, names)
    rest = [j for j, name in enumerate(names) if name != item and not is_row_number(name, names, item)]
    gold = [names[j] for j in rest if is_gold_name(names[j])]
    distinct = [set(_plain_values(head[:, j])) for j in rest]
    reasons = {names[rest[k]]: reason for k, reason in find_other_columns(distinct, len(head)).items()}
    other = [name for name in reasons if name not in gold]
    if not gold and not other:
        return item, rest
    votes = [name for name in names if name not in (item, *gold, *other)]
    found = [f"column {format_value(n)} looks like gold labels" for n in gold]
    found += [f"column {format_value(n)} {reasons[n]}" for n in other]
    advice = f"Use Votes.from_frame(table, columns={format_value(votes, 300)})"
    if gold:
        advice += f", and pass table[{gold[0]!r}] as `gold` if it holds gold labels"
    if other and len(names) == 3:
        advice += "; Votes.from_long reads tables with one row per vote"
    raise VotesError(f"Not all columns are votes: {'; '.join(found)}. {advice}.", parameter="columns")


def _item_among(frame: Any, table: Any, sources: list[str]) -> str | None:
    """Return the column that identifies the items next to known sources, recognized as in a first fit."""
    names = [str(name) for name in table.columns]
    item, _ = find_item_column(names, names, None, sources)
    if item is not None or not names or names[0] in sources or index_identifiers(frame) is not None:
        return item
    head = table.head(_FIRST_ROWS)
    first = [_plain_values(head[:, j]) for j in range(len(names))]
    item, _ = find_item_column(names, names, first, sources)
    if item is not None and len(set(_plain_values(table[:, 0]))) < len(table):  # later rows repeat a value
        return None
    return item


def columns_among(frame: Any, names: tuple[str, ...] | None) -> list[Any] | None:
    """Return the columns of a table to read for sources of an earlier fit; None if these have no names.

    Columns that are not votes are left out. All others are read, so that unknown sources raise an error.
    """
    if names is None:
        return None
    table = _table(frame)
    present, sources = list(table.columns), set(names)
    extra = [j for j, name in enumerate(present) if str(name) not in sources]
    if not extra:
        return present
    if len(extra) == len(present):  # a table in long form, or of other sources
        return None
    head = table.head(_FIRST_ROWS)
    distinct = [set(_plain_values(head[:, j])) for j in range(len(present))]
    other = set(find_other_columns(distinct, len(head)))
    left_out = {j for j in extra if is_item_name(present[j]) or is_gold_name(present[j]) or j in other}
    return [name for j, name in enumerate(present) if j not in left_out]


def _plain_values(series: Any) -> list[Any]:
    """Return values of a column for comparisons, those without a hash as strings."""
    values = series.to_list()
    try:
        set(values)
    except TypeError:
        return [str(value) for value in values]
    return [None if is_null(value) else value for value in values]


def _identifiers(frame: Any, table: Any, item: str | bool | None) -> NDArray[Any] | None:
    """Return the identifiers in a column, or in the index of a pandas table unless it numbers the rows."""
    if isinstance(item, str):
        names = [str(name) for name in table.columns]
        _require_column("item", item, names)
        return as_identifiers(table[:, names.index(item)].to_list(), item)
    return None if item is False else index_identifiers(frame)


def index_identifiers(frame: Any) -> NDArray[Any] | None:
    """Return the index of a pandas table as identifiers; None if it numbers the rows, or for other data."""
    if not nw.dependencies.is_pandas_dataframe(frame):
        return None
    ids = frame.index.tolist()
    counts = all(type(key) is int for key in ids[:1]) and ids == list(range(len(ids)))
    return None if counts else as_identifiers(ids, None)


def as_identifiers(values: list[Any], column: str | None) -> NDArray[Any]:
    """Return item identifiers as an array; those of a column must be present and unique."""
    if column is not None:
        if any(is_null(value) for value in values):
            raise VotesError(f"Column {format_value(column)} must identify every item; a value is missing.")
        if len(set(values)) < len(values):
            raise VotesError(
                f"Column {format_value(column)} must identify the items; some values are repeated. Pass "
                "item=False if it does not, or use Votes.from_long for a table with one row per vote."
            )
    if values and all(type(value) is int and abs(value) < 2**62 for value in values):
        return np.array(values, np.int64)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _require_column(option: str, name: str | None, names: list[str]) -> None:
    if name not in names:
        raise VotesError(
            f"`{option}` must be a column, such as {format_list(names, 5)}; got {format_value(name)}.",
            parameter=option,
        )


def read_long(
    frame: Any, item: str | None, source: str | None, label: str | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return items, sources and labels of a table with one row per vote."""
    table = _table(frame)
    names = [str(name) for name in table.columns]
    chosen = find_roles(names, (ITEM_NAMES, SOURCE_NAMES, LABEL_NAMES), (item, source, label))
    for option, name in zip(("item", "source", "label"), chosen, strict=True):
        _require_column(option, name, names)
    if len(set(chosen)) < 3:
        raise VotesError(
            f"`item`, `source` and `label` must be different columns; got {', '.join(map(str, chosen))}."
        )
    columns = [table[:, names.index(str(name))] for name in chosen]
    plain = Convention(abstain=None)
    items, sources, labels = (
        _numbers([c], plain)[:, 0] if c.dtype.is_integer() or c.dtype == nw.Boolean else _objects(c)
        for c in columns
    )
    return items, sources, labels


def read_panel(
    frame: Any, item: str | None, label: str | None
) -> tuple[NDArray[Any], list[SourceInfo], NDArray[Any]]:
    """Return items, the source of each call, and labels of a table with one row per call of a judge."""
    table = _table(frame)
    names = [str(name) for name in table.columns]
    present = [name for name in SOURCE_FIELDS if name in names and name not in (item, label)]
    if not set(JUDGE_FIELDS) & set(present):
        raise VotesError(
            "The table must have a column 'judge', or 'model' and 'prompt'; its columns are "
            f"{format_list(names)}."
        )
    items, _, labels = read_long(frame, item, present[0], label)
    columns = [table[:, names.index(name)].to_list() for name in present]
    rows = list(zip(*columns, strict=True))
    distinct = list(dict.fromkeys(rows))
    known = dict(zip(distinct, read_calls(present, distinct), strict=True))
    calls = [known[row] for row in rows]
    answered: set[tuple[Any, str]] = set()
    for item_id, info in zip(items.tolist(), calls, strict=True):
        if (item_id, info.name) in answered:
            raise VotesError(
                f"The table has several answers of {format_value(info.name)} on item "
                f"{format_value(item_id)}. Distinguish them by columns 'order' and 'repeat'; its columns are "
                f"{format_list(names)}."
            )
        answered.add((item_id, info.name))
    return items, calls, labels


def columns_of(frame: Any) -> list[list[Any]]:
    """Return the columns of a table as lists of Python values."""
    table = _table(frame)
    return [column.to_list() for column in _open(table, list(range(len(table.columns))), "votes")[0]]


def float_columns(
    frame: Any, chosen: Sequence[str] | None = None, *, with_booleans: bool = False
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """Return columns of a table as arrays of floats, with NaN for null, or objects; and their names.

    ``with_booleans`` reads booleans as 0 and 1.
    """
    table = _table(frame)
    at = [j for j, name in enumerate(table.columns) if chosen is None or str(name) in chosen]
    series, names = _open(table, at, "scores")
    columns = []
    for column in series:
        is_number = column.dtype.is_integer() or (with_booleans and column.dtype == nw.Boolean)
        s = column.cast(nw.Float64) if is_number else column
        columns.append(s.to_numpy() if s.dtype.is_float() else _objects(s))
    return columns, names


def score_columns(frame: Any) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the columns of a table, arrays of floats or lists, and its identifiers as in :func:`read`."""
    table = _table(frame)
    series, names = _open(table, list(range(len(table.columns))), "scores")
    cells = [s.to_numpy() if s.dtype.is_float() else s.to_list() for s in series]
    return dict(zip(names, cells, strict=True)), _identifiers(frame, table, None)


def open_table(frame: Any) -> Any:
    """Return a table as narwhals reads it; raise an error if it cannot, for example for repeated columns."""
    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.NarwhalsError as error:
        raise VotesError(f"Reading the table failed: {' '.join(str(error).split())}.") from error


def _open_dataset(dataset: Any) -> Any:
    """Return a dataset of Hugging Face as a table, with the names of classes instead of their numbers."""
    table = open_table(dataset.with_format("arrow")[:])
    names = _class_names(dataset)
    return table.with_columns(
        table[column].replace_strict([-1, *range(len(classes))], [None, *classes], return_dtype=nw.String)
        for column, classes in names.items()
    )


def _class_names(dataset: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of classes by column, for columns of the type ClassLabel."""
    features = dict(dataset.features)
    return {name: tuple(f.names) for name, f in features.items() if getattr(f, "names", None)}


def _declared_classes(frame: Any, columns: list[Any]) -> tuple[Label, ...] | None:
    """Return the classes that all of these columns declare; None if they declare none or different ones."""
    if not is_dataset(frame):
        return None
    names = _class_names(frame)
    declared = {names.get(column) for column in columns}
    return next(iter(declared)) if len(declared) == 1 else None


def _table(frame: Any) -> Any:
    """Return a table as narwhals presents it."""
    if is_lazy(frame):
        raise VotesError("`frame` must not be lazy; pass frame.collect().")
    if is_table(frame) and is_dataset(frame):
        return _open_dataset(frame)
    if not is_frame(frame):
        raise VotesError(
            f"`frame` must be a pandas, polars or pyarrow table; got {type(frame).__name__}. Use "
            "Votes.from_classes for arrays."
        )
    table = open_table(frame)
    present = list(table.columns)
    if len({str(name) for name in present}) < len(present):
        raise VotesError(f"Column names must be unique; the table has {', '.join(map(str, present))}.")
    return table


def _open(table: Any, at: list[int], what: str) -> tuple[list[Any], tuple[str, ...]]:
    """Return the columns at some positions of a table with their names."""
    names = tuple(str(table.columns[j]) for j in at)
    if not names:
        raise VotesError("The table must have at least one column, one per source.")
    if not len(table):
        raise VotesError(
            f"`{what}` must have at least one item; got 0 items x {format_count(len(names), 'source')}."
        )
    # By position, because pandas may name columns with numbers.
    return [table[:, j] for j in at], names


def _without_type(series: Any) -> Any:
    """Return a column of numbers without any value as a column of strings; any other one unchanged."""
    values = series.drop_nulls()
    if len(values) and not (values.dtype.is_float() and np.isnan(values.to_numpy()).all()):
        return series
    return nw.new_series(series.name, [None] * len(series), nw.String, backend=series.implementation)


def _pick(present: list[Any], columns: Sequence[Any]) -> list[int]:
    """Return the positions of the chosen columns."""
    if isinstance(columns, str) or not can_be_iterated(columns):
        raise VotesError(f"`columns` must be a list of column names; got {format_value(columns)}.")
    columns = list(columns)
    absent = [name for name in columns if name not in present]
    if absent:
        raise VotesError(
            f"`columns` must be among {', '.join(map(str, present))}; got {format_value(absent[0])}."
        )
    return [present.index(name) for name in columns]


def _numbers(series: list[Any], convention: Convention) -> NDArray[Any]:
    """Return numeric columns as one matrix. Null integers become -1 if that means no vote, otherwise None."""
    fills = is_integer(convention.abstain) and convention.abstain == ABSTAIN
    if all(s.dtype == nw.Boolean for s in series) and not any(s.null_count() for s in series):
        return np.stack([s.to_numpy().astype(bool) for s in series], axis=1)
    arrays = []
    for column in series:
        s = column.cast(nw.Int8) if column.dtype == nw.Boolean else column
        if s.dtype.is_integer():
            s = s.fill_null(ABSTAIN) if s.null_count() and fills and not _is_unsigned(s) else s
            array = _objects(s) if s.null_count() else s.to_numpy()
        else:
            array = s.to_numpy().astype(np.float64, copy=False)
        arrays.append(array)
    if len({a.dtype.kind for a in arrays} & {"i", "u"}) == 2:
        # NumPy would convert signed and unsigned integers to floats; objects keep every digit.
        arrays = [a.astype(object) for a in arrays]
    return np.stack(arrays, axis=1)


def _factorize(series: list[Any]) -> tuple[list[Any], NDArray[np.int32]]:
    """Return the distinct values of columns of strings, and for each cell the position of its value.

    Libraries of tables number strings many times faster than a loop over Python strings, in less memory.
    """
    position: dict[Any, int] = {None: 0}
    index = np.empty((len(series[0]), len(series)), np.int32)
    for j, column in enumerate(series):
        numbers, values = _numbered(column)
        table = np.array([*(position.setdefault(v, len(position)) for v in values), 0], np.int32)
        index[:, j] = table[numbers]  # -1, the last, is null
    return list(position), index


def _numbered(column: Any) -> tuple[NDArray[np.integer], list[Any]]:
    """Return for each cell the number of its value, -1 for null, and the values."""
    native = column.to_native()
    if hasattr(native, "factorize"):  # pandas
        numbers, values = native.factorize()
        return numbers, values.tolist()
    values = column.drop_nulls().unique().to_list()
    if not values:  # narwhals cannot replace nothing in a column of pyarrow
        return np.full(len(column), -1, np.int32), values
    numbers = column.cast(nw.String).replace_strict(values, list(range(len(values))), return_dtype=nw.Int32)
    return numbers.fill_null(-1).to_numpy(), values


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
