"""Scores as users pass them: arrays, wide tables, long tables, and records of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from flyingsquid._registry import on_cluster
from flyingsquid._values import format_count, format_list, format_value, is_null
from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.codes import read_array, read_names, shown_names
from flyingsquid.votes.conventions import (
    ITEM_NAMES,
    SOURCE_NAMES,
    find_item_column,
    find_roles,
    is_gold_name,
    is_missing_text,
    is_row_number,
)
from flyingsquid.votes.scores import score_array

SCORE_NAMES = frozenset({"score", "rating", "value", "points", "grade"})
REPEAT_NAMES = frozenset({"repeat", "repetition", "run", "sample", "call", "attempt", "trial"})
# Larger numbers overflow when they are squared and multiplied.
LARGEST_SCORE = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of all sources on all items.

    Attributes
    ----------
    values : float64 array of shape (n, m, r)
        Up to r repeated scores of each source, NaN for missing ones.
    names : tuple of m str, or None
    items : array of n identifiers, or None
    item_name : str or None
        Column of the identifiers.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...] | None = None
    items: NDArray[Any] | None = None
    item_name: str | None = None

    @property
    def source_names(self) -> tuple[str, ...]:
        return shown_names(self.names, self.values.shape[1])

    def matched_to(self, names: tuple[str, ...] | None, n_sources: int) -> Scores:
        """Return scores in the order of the sources of an earlier fit; missing sources have no scores."""
        if names is None or self.names is None:
            if self.values.shape[1] != n_sources:
                raise IncompatibleError(
                    f"`scores` must have the {format_count(n_sources, 'source')} of the fitted model; got "
                    f"{self.values.shape[1]}."
                )
            return self
        unknown = [name for name in self.names if name not in names]
        if unknown:
            raise IncompatibleError(
                f"`scores` must come from sources of the fitted model, such as {format_list(names, 3)}; got "
                f"{format_list(unknown, 3)}."
            )
        if self.names == names:
            return self
        position = {name: at for at, name in enumerate(names)}
        values = np.full((len(self.values), n_sources, self.values.shape[2]), np.nan)
        values[:, [position[name] for name in self.names]] = self.values
        return Scores(values, names, self.items, self.item_name)


def read_score_table(
    scores: Any, names: Iterable[str] | None = None, fitted: Sequence[str] | None = None
) -> Scores:
    """Return scores in memory as :class:`Scores`.

    Parameters
    ----------
    scores : array of shape (n, m) or (n, m, r), table, or mapping of columns
        A table with columns for items, sources and scores is in long form; any other has one column per
        source, apart from item identifiers.
    names : names of the sources of an array
    fitted : names of the sources of an earlier fit; other columns of a wide table are left out
    """
    if issparse(scores) or on_cluster(scores):
        raise VotesError(
            f"`scores` must be a dense array or a table in memory; got {type(scores).__name__}.",
            parameter="scores",
        )
    if frames.is_frame(scores) or frames.is_lazy(scores) or isinstance(scores, Mapping):
        if names is not None:
            raise VotesError("`names` is supported only for arrays; a table has column names.")
        return _read_columns(*_columns_of(scores), fitted=fitted)
    if isinstance(scores, Scores):
        return scores
    array = read_array(scores, "scores", "a rectangular array")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise VotesError(
            "`scores` must have one row per item and one column per source, (n, m), or repeats as a third "
            f"dimension, (n, m, r), each at least 1; got shape {array.shape}.",
            parameter="scores",
        )
    values = _as_floats(array, lambda at: f"scores{list(at)}")
    values = values if values.ndim == 3 else values[:, :, None]
    return Scores(values, read_names(names, values.shape[1]))


def _as_floats(array: NDArray[Any], locate: Any) -> NDArray[np.float64]:
    """Return finite floats of the same shape, NaN for missing scores."""
    values = np.array(score_array(array, locate), np.float64)
    wrong = ~(np.abs(values) <= LARGEST_SCORE) & ~np.isnan(values)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise VotesError(
            f"{locate(at)}: scores must be finite and at most {LARGEST_SCORE:g} in absolute value; got "
            f"{format_value(values[at].item())}.",
            parameter="scores",
        )
    return values


# ---------------------------------------------------------------------- tables


def _columns_of(scores: Any) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the columns of a table or mapping, and the index of a pandas table unless it is 0, 1, 2, ..."""
    if isinstance(scores, Mapping):
        columns: dict[str, Any] = {str(name): list(cells) for name, cells in scores.items()}
        if len({len(cells) for cells in columns.values()}) > 1:
            raise VotesError("Columns of `scores` must have equal lengths.", parameter="scores")
        return columns, None
    return frames.score_columns(scores)


def _read_columns(
    columns: dict[str, Any], index: NDArray[Any] | None, fitted: Sequence[str] | None
) -> Scores:
    long = _find_long(list(columns))
    if long is not None and not set(columns) <= set(fitted or ()):
        return _read_long(columns, *long)
    item = _find_item(columns, fitted or ())
    names = list(columns)
    chosen = [name for name in names if name != item and not is_row_number(name, names, item)]
    if fitted is not None and set(fitted) & set(chosen):
        chosen = [name for name in chosen if name in fitted]
    gold = [name for name in chosen if is_gold_name(name) and name not in (fitted or ())]
    if gold:
        raise VotesError(
            f"Column {format_value(gold[0])} looks like gold labels; leave it out of `scores`.",
            parameter="scores",
        )
    if not chosen or not len(columns[chosen[0]]):
        raise VotesError("`scores` must have at least one item and one source.", parameter="scores")
    values = np.stack([_parse(columns[name], name) for name in chosen], axis=1)
    items = index if item is None else frames.as_identifiers(list(columns[item]), item)
    return Scores(values[:, :, None], tuple(chosen), items, item)


def _find_item(columns: dict[str, Any], fitted: Sequence[str]) -> str | None:
    """Return the column of identifiers: by its name, or the first one if it holds distinct strings."""
    others = [name for name in columns if name not in fitted]
    named, _ = find_item_column(others, others, None)
    if named is not None or not others:
        return named
    cells = columns[others[0]]
    is_id = others[0].strip().lower().endswith("_id")
    is_text = all(isinstance(cell, str) and isinstance(_parsed(cell), str) for cell in cells)
    try:
        distinct = len(set(cells)) == len(cells)
    except TypeError:
        return None
    return others[0] if distinct and len(columns) > 1 and (is_id or is_text) else None


def _parse(cells: Any, name: str) -> NDArray[np.float64]:
    """Return a column as floats; strings are numbers, as in files, or words for missing scores."""
    array = cells
    if not isinstance(cells, np.ndarray):
        array = np.empty(len(cells), object)
        array[:] = [_parsed(cell) for cell in cells]
    return _as_floats(array, lambda at: f"row {at[0]}, column {format_value(name)}")


def _parsed(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    try:
        return float(cell)
    except ValueError:
        return None if is_missing_text(cell) else cell


def _find_long(names: list[str]) -> tuple[str, str, str, str | None] | None:
    """Return the columns of items, sources, scores and repeats, if there are the first three."""
    item, source, score, repeat = find_roles(names, (ITEM_NAMES, SOURCE_NAMES, SCORE_NAMES, REPEAT_NAMES))
    return None if item is None or source is None or score is None else (item, source, score, repeat)


def _read_long(columns: dict[str, Any], item: str, source: str, score: str, repeat: str | None) -> Scores:
    """Return scores of a table with one row per score. Rows of one item and source are repeats."""
    if not len(columns[item]):
        raise VotesError("`scores` must have at least one item and one source.", parameter="scores")
    items, rows = _numbered(list(columns[item]), item)
    sources, at = _numbered([str(cell) if not is_null(cell) else None for cell in columns[source]], source)
    values = _parse(columns[score], score)
    keys = [None] * len(rows) if repeat is None else list(columns[repeat])
    seen: dict[tuple[int, int], list[Any]] = {}
    order = np.empty(len(rows), np.intp)
    for k, cell in enumerate(zip(rows, at, strict=True)):
        earlier = seen.setdefault(cell, [])
        if repeat is not None and keys[k] in earlier:
            raise VotesError(
                f"row {k}: item {format_value(items[cell[0]])} and source {format_value(sources[cell[1]])} "
                f"must have different values in column {format_value(repeat)}; got {format_value(keys[k])} "
                "twice.",
                parameter="scores",
            )
        order[k] = len(earlier)
        earlier.append(keys[k])
    table = np.full((len(items), len(sources), int(order.max()) + 1), np.nan)
    table[rows, at, order] = values
    return Scores(table, tuple(sources), frames.as_identifiers(items, item), item)


def _numbered(cells: list[Any], name: str) -> tuple[list[Any], list[int]]:
    """Return the distinct values in the order of their first occurrence, and the number of each cell."""
    missing = next((k for k, cell in enumerate(cells) if is_null(cell)), None)
    if missing is not None:
        raise VotesError(f"row {missing}: column {format_value(name)} must not be empty.", parameter="scores")
    position: dict[Any, int] = {}
    try:
        numbers = [position.setdefault(cell, len(position)) for cell in cells]
    except TypeError as error:
        raise VotesError(
            f"Column {format_value(name)} must contain strings or numbers.", parameter="scores"
        ) from error
    return list(position), numbers
