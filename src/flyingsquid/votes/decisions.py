"""Labels from scores of classes, and votes and labels as arrays, tables and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_integer, is_null, is_one_of, option_error
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.codes import ABSTAIN, FEW_CLASSES, Label

if TYPE_CHECKING:
    from flyingsquid.votes.votes import Votes


TieBreak: TypeAlias = Literal["first", "abstain", "random"]
TIE_BREAKS: tuple[str, ...] = get_args(TieBreak)
TIE = 1e-9
"""Probabilities closer than this are a tie, because equal evidence may be summed in different orders."""


def best_classes(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each class has the highest score of its item, shape (..., K); several on a tie."""
    if scores.shape[-1] > FEW_CLASSES:
        return np.asarray(scores >= scores.max(axis=-1, keepdims=True) - TIE)
    # Class by class, because NumPy reduces a short axis twenty times as slowly.
    least = reduce(np.maximum, np.moveaxis(scores, -1, 0)) - TIE
    return np.asarray(scores >= least[..., None])


def is_tied(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether several classes share the highest score, shape (n,) for scores of shape (n, K).

    >>> is_tied(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]))
    array([ True, False])
    """
    if scores.shape[-1] == 2:
        return np.asarray(np.abs(scores[..., 0] - scores[..., 1]) <= TIE)
    best = best_classes(scores)
    if scores.shape[-1] > FEW_CLASSES:
        return np.asarray(best.sum(axis=-1) > 1)
    return np.asarray(sum(np.moveaxis(best.view(np.int8), -1, 0)) > 1)


def label_shares(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability of each label if ties are broken at random, shape (..., K).

    >>> label_shares(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]))
    array([[0.5, 0.5, 0. ],
           [0. , 1. , 0. ]])
    """
    best = best_classes(scores)
    return np.asarray(best / best.sum(axis=-1, keepdims=True))


def expected_credit(scores: NDArray[Any], gold: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that each label is correct if ties are broken at random, shape of ``gold``.

    Parameters
    ----------
    scores : array of shape (..., K)
        Probabilities, log odds or shares of votes.
    gold : integer array of shape (...)
        Codes of the true classes. Unknown ones, which are negative, get no credit.

    Examples
    --------
    >>> scores = np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1], [0.2, 0.7, 0.1]])
    >>> expected_credit(scores, np.array([1, 1, 0]))
    array([0.5, 1. , 0. ])
    """
    known = np.maximum(gold, 0).astype(np.intp)
    credit = np.take_along_axis(label_shares(scores), known[..., None], axis=-1)[..., 0]
    return np.where(gold >= 0, credit, 0.0)


def winners(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the class with the highest score, shape (n,), for scores of shape (n, K); the first on a tie."""
    return np.asarray(decide(scores, tuple(range(scores.shape[1])), "first", None), np.intp)


def decide(
    posterior: NDArray[np.float64],
    classes: tuple[Label, ...],
    tie_break: str,
    rng: np.random.Generator | None,
) -> NDArray[Any]:
    """Return the most probable class of each item, shape (n,), for ``posterior`` of shape (n, K).

    ``tie_break``: ``"first"`` takes the first of the tied classes, ``"random"`` draws one with
    ``rng``, ``"abstain"`` returns -1 (0 if -1 is a class, None if classes are not integers).
    """
    if not is_one_of(tie_break, TIE_BREAKS):
        raise option_error("tie_break", f"one of {', '.join(map(repr, TIE_BREAKS))}", tie_break)
    labels = as_label_array(classes)
    if tie_break == "first" and len(classes) == 2:  # the usual case, ten times as fast
        return labels[(posterior[:, 0] < posterior[:, 1] - TIE).view(np.int8)]
    tied = best_classes(posterior)
    winner = np.argmax(tied, axis=1)
    if tie_break == "first":
        return labels[winner]
    rows = np.flatnonzero(tied.sum(axis=1) > 1)
    if tie_break == "random" and rng is not None:
        winner[rows] = np.argmax(rng.random((len(rows), len(classes))) * tied[rows], axis=1)
        return labels[winner]
    marker = abstain_marker(classes)
    answer = labels[winner]
    if marker is None:
        answer = answer.astype(object)
    answer[rows] = marker
    return answer


def as_label_array(classes: tuple[Label, ...]) -> NDArray[Any]:
    """Return class labels as a one-dimensional array, shape (K,)."""
    array = np.array(classes)
    if array.ndim == 1 and array.tolist() == list(classes):
        return array
    # NumPy would turn mixed labels into strings, and tuples into a second axis.
    array = np.empty(len(classes), object)
    array[:] = classes
    return array


def abstain_marker(classes: tuple[Label, ...]) -> int | None:
    """Return the value that means "no label" among ``classes``.

    >>> abstain_marker((0, 1)), abstain_marker((-1, 1)), abstain_marker(("ham", "spam"))
    (-1, 0, None)
    """
    if as_label_array(classes).dtype.kind != "i":
        return None
    return next((marker for marker in (ABSTAIN, 0) if marker not in classes), None)


# A notebook shows at most this many items and sources.
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
    pandas = _import_package("pandas")
    index = None if votes.items is None else pandas.Index(votes.items)
    kinds = {type(label) for label in votes.classes}
    dtype = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds))
    frame = pandas.DataFrame(_columns(votes, None), index=index)
    return frame if dtype is None else frame.astype(dtype)


def to_polars(votes: Votes) -> Any:
    """Return a ``polars.DataFrame`` with one column per source, and identifiers in the column ``id``."""
    polars = _import_package("polars")
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
    package = _import_package(output)
    if output == "pandas":
        index = None if ids is None else package.Index(ids)
        if values.ndim == 1:
            return package.Series(values, index=index, name=columns[0])
        return package.DataFrame(values, index=index, columns=list(columns))
    named = {} if ids is None else {"id": list(ids)}
    rows = values[:, None] if values.ndim == 1 else values
    return package.DataFrame(named | {str(name): rows[:, j] for j, name in enumerate(columns)})


def _import_package(package: str) -> Any:
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
