"""Votes in long form: crowdsourcing triples and scipy sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from flyingsquid._values import format_count, format_list, format_value, is_null, is_one_of, option_error
from flyingsquid.exceptions import Hint, VotesError
from flyingsquid.votes import _narwhals as nw
from flyingsquid.votes.codes import ABSTAIN, Label, shown_names, smallest_dtype
from flyingsquid.votes.encode import Convention, as_column, encode, in_column

DUPLICATES = ("error", "first", "last", "majority")
"""What to do with several votes of a source on an item."""


def read(
    items: ArrayLike,
    sources: ArrayLike,
    labels: ArrayLike,
    duplicates: str,
    convention: Convention,
    declared: list[Any] | None = None,
) -> tuple[csr_array, tuple[Label, ...], tuple[str, ...], NDArray[Any]]:
    """Return sparse codes, classes, source names and item identifiers of triples."""
    if not is_one_of(duplicates, DUPLICATES):
        raise option_error("duplicates", f"one of {', '.join(DUPLICATES)}", duplicates)
    _require_one_order(items, sources, labels)
    item, source, label = (
        as_column(x, what) for x, what in ((items, "items"), (sources, "sources"), (labels, "labels"))
    )
    if not len(item) == len(source) == len(label):
        raise VotesError(
            "`items`, `sources` and `labels` must have one entry per vote; got "
            f"{len(item)}, {len(source)} and {format_count(len(label), 'entry', 'entries')}."
        )
    if not len(item):
        raise VotesError("`items`, `sources` and `labels` must have at least one entry.")
    item_ids, row = _identify(item, "items")
    source_ids, column = _identify(source, "sources")
    try:
        names = tuple(str(s) for s in source_ids)
    except Exception as error:  # user objects may raise any exception
        raise VotesError("`sources` must be strings or convertible to strings.") from error
    if declared is not None:
        names, column = _declared_sources(names, column, declared)

    def locate(entry: int, _: int) -> str:
        return f"entry {entry}, item {format_value(item[entry])}, source {names[column[entry]]!r}"

    codes, classes = encode(label[:, None], convention, locate)
    matrix = build_codes(row, column, codes[:, 0], len(classes), item_ids, names, duplicates)
    return matrix, classes, names, item_ids


def _require_one_order(*columns: Any) -> None:
    """Raise an error for pandas Series with one index in different orders; positions are matched."""
    indexes = [column.index for column in columns if nw.dependencies.is_pandas_series(column)]
    for index in indexes[1:]:
        if not index.equals(indexes[0]) and set(index) == set(indexes[0]):
            raise VotesError(
                "`items`, `sources` and `labels` must have their entries in the same order; their indexes "
                "have the same values in different orders. Pass one table, as in Votes.from_long(table)."
            )


def declared_names(names: Any) -> list[Any]:
    """Return the declared names of all sources as a list."""
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise VotesError(f"`names` must be a sequence of source names; got {format_value(names)}.")
    try:
        return list(names)
    except Exception as error:  # user objects may raise any exception
        raise VotesError(f"`names` must be a sequence of source names; got {format_value(names)}.") from error


def check_sparse(matrix: Any) -> None:
    """Raise an error unless this is a sparse matrix with at least one cell."""
    if not issparse(matrix):
        raise VotesError(f"`matrix` must be a scipy sparse matrix; got {type(matrix).__name__}.")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise VotesError(f"`matrix` must have at least one row and one column; got shape {matrix.shape}.")


def read_sparse(
    matrix: Any, convention: Convention, names: tuple[str, ...] | None
) -> tuple[csr_array, tuple[Label, ...]]:
    """Return sparse codes and classes of a scipy matrix whose entries are class + 1."""
    triples = matrix.tocoo()
    row, column, values = triples.row, triples.col, triples.data
    if values.dtype.kind not in "iufb":
        raise VotesError(f"Entries of `matrix` must be numbers, class + 1; got type {values.dtype}.")
    most = np.iinfo(np.int16).max if convention.classes is None else len(convention.classes)
    bad = ~((values >= 0) & (values == np.rint(values)) & (values <= most))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        limit = "" if convention.classes is None else f" for the classes {format_list(convention.classes)}"
        raise VotesError(
            f"{in_column(names)(int(row[at]), int(column[at]))}: entries of a sparse matrix must be class "
            f"+ 1, so 1, 2, ...{limit}; got {format_value(values[at].item())}."
        )
    codes = values.astype(np.int64) - 1
    classes = convention.classes or tuple(range(max(2, int(codes.max(initial=0)) + 1)))
    items, sources = range(matrix.shape[0]), shown_names(names, matrix.shape[1])
    return build_codes(row, column, codes, len(classes), items, sources, "error"), classes


def build_codes(
    row: NDArray[Any],
    column: NDArray[Any],
    codes: NDArray[Any],
    n_classes: int,
    items: Sequence[Any] | NDArray[Any],
    names: Sequence[str],
    duplicates: str,
) -> csr_array:
    """Return sparse codes of triples (row, column, code); ``items`` and ``names`` identify them in errors."""
    keep = _without_duplicates(row, column, codes, duplicates, items, names)
    keep = keep[codes[keep] != ABSTAIN]
    row, column, codes = row[keep], column[keep], codes[keep]
    entries = np.where(codes >= 0, codes.astype(np.int64) + 1, codes).astype(smallest_dtype(n_classes + 1))
    matrix = csr_array((entries, (row, column)), shape=(len(items), len(names)))
    matrix.sort_indices()
    return matrix


def _identify(values: NDArray[Any], what: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted distinct identifiers, and for each entry the position of its identifier."""
    missing = np.zeros(len(values), np.bool_)
    if isinstance(values, np.ma.MaskedArray):
        missing, values = np.ma.getmaskarray(values), np.asarray(values.data)
    if values.dtype.kind in "fmM":
        missing = missing | np.isnan(values)
    elif values.dtype.kind in "OT":
        missing = missing | np.array([is_null(v) for v in values])
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        raise VotesError(f"`{what}` must not contain missing values; entry {at} is missing.")
    try:
        return np.unique(values, return_inverse=True)
    except Exception as error:  # mixed types, or user objects that raise
        raise VotesError(f"`{what}` must have one type that can be sorted: {error}") from error


def _declared_sources(
    present: tuple[str, ...], column: NDArray[np.intp], declared: list[Any]
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the declared sources, and for each entry the position of its source among them."""
    names = tuple(str(name) for name in declared)
    position = {name: j for j, name in enumerate(names)}
    unknown = [name for name in present if name not in position]
    if unknown:
        more = f" ({len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        raise VotesError(
            f"`names` must contain all sources that vote; {format_value(unknown[0])} is missing{more}."
        )
    return names, np.array([position[name] for name in present])[column]


def _without_duplicates(
    row: NDArray[Any],
    column: NDArray[Any],
    codes: NDArray[Any],
    policy: str,
    items: Sequence[Any] | NDArray[Any],
    names: Sequence[str],
) -> NDArray[np.intp]:
    """Return positions of the triples to keep, at most one for each item and source."""
    cell = row.astype(np.int64) * len(names) + column
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    if len(starts) == len(cell):
        return order
    ends = np.append(starts[1:], len(cell))
    several = np.flatnonzero(ends - starts > 1)
    if policy == "error":
        at = order[starts[several[0]]]
        raise VotesError(
            f"A source must vote at most once per item; {format_value(names[column[at]])} votes more than "
            f"once on item {format_value(items[row[at]])} "
            f"({format_count(len(cell) - len(starts), 'repeated vote')} in total).",
            hints=[Hint("duplicates", "to keep the 'first', 'last' or 'majority' vote")],
        )
    if policy == "last":
        return order[ends - 1]
    kept = order[starts]
    if policy == "majority":
        for at in several:
            kept[at] = _most_frequent(order[starts[at] : ends[at]], codes)
    return kept


def _most_frequent(positions: NDArray[np.intp], codes: NDArray[Any]) -> np.intp:
    votes = positions[codes[positions] >= 0]
    if not len(votes):
        return positions[0]
    _, first, counts = np.unique(codes[votes], return_index=True, return_counts=True)
    best = np.lexsort((first, -counts))[0]
    return votes[first[best]]
