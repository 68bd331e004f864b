"""Votes as arrays, tables and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_integer, is_null, is_one_of, option_error
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.decisions import abstain_marker, as_label_array

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes

# A notebook shows so many items and sources.
_MOST_ROWS, _MOST_COLUMNS = 10, 12


def to_numpy(votes: Votes) -> NDArray[Any]:
    """Return votes as class labels, shape (n, m); a missing vote is the marker of the classes."""
    codes = np.asarray(votes.to_dense().codes)
    labels, marker = as_label_array(votes.classes), abstain_marker(votes.classes)
    if marker is None:
        labels = labels.astype(object)
    table = np.append(labels, np.array([marker], labels.dtype))
    return table[np.maximum(codes, -1)]


def where_equal(votes: Votes, other: Any) -> NDArray[np.bool_]:
    """Return a mask of the votes for the class ``other``, or of those equal to other votes, shape (n, m).

    None, NaN and -1 are missing votes, unless -1 is a class.
    """
    codes = np.asarray(votes.to_dense().codes)
    if isinstance(other, type(votes)):
        if other.shape != votes.shape:
            raise VotesError(f"Votes must have the same shape; got {votes.shape} and {other.shape}.")
        return np.asarray((to_numpy(votes) == to_numpy(other)) & (codes >= 0))
    if np.ndim(other) > 0:
        return np.asarray(to_numpy(votes) == other)
    at = [k for k, label in enumerate(votes.classes) if label == other]
    if at:
        return np.asarray(codes == at[0])
    is_missing = is_null(other) or (is_integer(other) and other == ABSTAIN)
    return np.asarray(codes < 0) if is_missing else np.zeros(codes.shape, np.bool_)


def _columns(votes: Votes, missing: Any) -> dict[str, list[Any]]:
    codes = np.asarray(votes.to_dense().codes)
    labels = np.empty(votes.n_classes + 1, object)
    labels[:] = [*votes.classes, missing]
    table = labels[np.maximum(codes, -1)]
    return {name: table[:, j].tolist() for j, name in enumerate(votes.source_names)}


def to_pandas(votes: Votes) -> Any:
    """Return a ``pandas.DataFrame`` with one column per source, indexed by item."""
    pandas = _need("pandas")
    index = None if votes.items is None else pandas.Index(votes.items)
    kinds = {type(label) for label in votes.classes}
    dtype = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds))
    frame = pandas.DataFrame(_columns(votes, None), index=index)
    return frame if dtype is None else frame.astype(dtype)


def to_polars(votes: Votes) -> Any:
    """Return a ``polars.DataFrame`` with one column per source, and identifiers in the column ``id``."""
    polars = _need("polars")
    ids = {} if votes.items is None else {"id": votes.items.tolist()}
    columns = _columns(votes, None)
    if set(ids) & set(columns):
        raise VotesError("A source is named 'id', like the column of item identifiers; rename it.")
    return polars.DataFrame({**ids, **columns}, strict=False)


Output: TypeAlias = Literal["numpy", "pandas", "polars"]


def to_output(values: NDArray[Any], output: str, ids: Sequence[Any] | None, columns: Sequence[Any]) -> Any:
    """Return one value or row per item as an array, or as a Series or table of pandas or polars.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
    output : {"numpy", "pandas", "polars"}
    ids : item identifiers, the index in pandas and the column ``id`` in polars; None counts rows
    columns : the name of the values, or c names
    """
    if not is_one_of(output, get_args(Output)):
        raise option_error("output", '"numpy", "pandas" or "polars"', output)
    if output == "numpy":
        return values
    if values.ndim > 2:
        raise option_error("output", "'numpy' for several tasks", output)
    package = _need(output)
    if output == "pandas":
        index = None if ids is None else package.Index(ids)
        if values.ndim == 1:
            return package.Series(values, index=index, name=columns[0])
        return package.DataFrame(values, index=index, columns=list(columns))
    named = {} if ids is None else {"id": list(ids)}
    rows = values[:, None] if values.ndim == 1 else values
    return package.DataFrame(named | {str(name): rows[:, j] for j, name in enumerate(columns)})


def _need(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is not installed: pip install {package}") from error


def to_html(votes: Votes) -> str:
    """Return the first items as an HTML table, below a line that describes all votes."""
    shown = votes[:_MOST_ROWS].of_sources(range(min(_MOST_COLUMNS, votes.n_sources)))
    ids = range(shown.n_items) if shown.items is None else shown.items.tolist()
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown.source_names)
    rows = zip(*_columns(shown, None).values(), strict=True)
    body = "".join(
        f"<tr><th>{html.escape(str(item))}</th>{''.join(map(_cell, row))}</tr>"
        for item, row in zip(ids, rows, strict=True)
    )
    return f"<p>{html.escape(repr(votes))}</p><table><tr><th></th>{head}</tr>{body}</table>"


def _cell(label: Any) -> str:
    return f"<td>{'' if label is None else html.escape(str(label))}</td>"
