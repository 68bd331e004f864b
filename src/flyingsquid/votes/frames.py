"""Tables of pandas, polars and pyarrow, through narwhals: none of them is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VotesError
from flyingsquid.votes.encode import Convention, encode
from flyingsquid.votes.states import Label


def is_frame(data: Any) -> bool:
    """Whether ``data`` is a table that :func:`read` takes."""
    return bool(nw.dependencies.is_into_dataframe(data))


def read(
    frame: Any, columns: Sequence[str] | None, convention: Convention
) -> tuple[NDArray[Any], tuple[Label, ...], tuple[str, ...]]:
    """Codes (n, m), classes and column names of a table."""
    if not is_frame(frame):
        raise VotesError(
            f"a pandas, polars or pyarrow table is needed, not {type(frame).__name__}; "
            "arrays are read by Votes.from_classes"
        )
    table = nw.from_native(frame, eager_only=True)
    names = _pick(table.columns, columns)
    if not names:
        raise VotesError("the table has no columns; one column a source is needed")
    if not len(table):
        raise VotesError(f"votes are empty: 0 items x {len(names)} sources")
    series = [table[name] for name in names]
    numeric = [s.dtype.is_numeric() or s.dtype == nw.Boolean for s in series]
    texts = [s.dtype in (nw.String, nw.Categorical, nw.Enum) for s in series]
    if any(numeric) and any(texts):
        one, other = names[numeric.index(True)], names[texts.index(True)]
        raise VotesError(
            f"column {one!r} holds numbers and column {other!r} texts; pass columns= to pick the "
            "sources, or convert them to one type"
        )
    # A column of Python objects (pandas' booleans with None) may stand beside either kind.
    labels = _numbers(series) if all(numeric) else np.stack([_objects(s) for s in series], axis=1)
    codes, classes = encode(labels, convention, names)
    return codes, classes, names


def _pick(present: list[Any], columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(str(name) for name in present)
    if isinstance(columns, str):
        raise VotesError(f"columns={columns!r} is one text; pass a list of column names")
    absent = [name for name in columns if name not in present]
    if absent:
        raise VotesError(f"no column {absent[0]!r}; the table has {', '.join(map(str, present))}")
    return tuple(columns)


def _numbers(series: list[Any]) -> NDArray[Any]:
    """Numeric columns as one matrix: integers where no cell is null, floats with NaN otherwise."""
    if all(s.dtype == nw.Boolean for s in series) and not any(s.null_count() for s in series):
        return np.stack([s.to_numpy().astype(bool) for s in series], axis=1)
    arrays = []
    for s in series:
        plain = s.dtype.is_integer() or s.dtype == nw.Boolean
        if s.null_count():
            array = s.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)
        else:
            array = s.to_numpy()
            array = array.astype(np.int8 if s.dtype == nw.Boolean else array.dtype, copy=False)
            if not plain:
                array = array.astype(np.float64, copy=False)
        arrays.append(array)
    return np.stack(arrays, axis=1)


def _objects(series: Any) -> NDArray[Any]:
    values = np.empty(len(series), object)
    values[:] = series.to_list()
    return values
