"""Sparse votes: crowdsourcing triples and scipy matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.encode import Convention, encode, is_null, place
from flyingsquid.votes.states import ABSTAIN, Label, smallest_dtype

_POLICIES = ("error", "first", "last", "majority")


def read(
    items: ArrayLike,
    sources: ArrayLike,
    labels: ArrayLike,
    duplicates: str,
    convention: Convention,
) -> tuple[csr_array, tuple[Label, ...], tuple[str, ...], NDArray[Any]]:
    """Triples to sparse codes, classes, source names and item identifiers."""
    if duplicates not in _POLICIES:
        raise OptionError(f"duplicates={duplicates!r} is unknown; one of {', '.join(_POLICIES)}")
    columns = [
        _as_column(x, what) for x, what in ((items, "items"), (sources, "sources"), (labels, "labels"))
    ]
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise VotesError(
            f"items, sources and labels have {lengths[0]}, {lengths[1]} and {lengths[2]} entries; "
            "they need one of each a vote"
        )
    if not lengths[0]:
        raise VotesError("votes are empty: no triples were given")
    item_ids, row = _identify(columns[0], "items")
    source_ids, column = _identify(columns[1], "sources")
    names = tuple(str(s) for s in source_ids)
    codes, classes = encode(columns[2][:, None], convention)
    keep = _without_duplicates(row, column, codes[:, 0], duplicates, item_ids, names)
    return (
        _build(row[keep], column[keep], codes[keep, 0], classes, (len(item_ids), len(names))),
        classes,
        names,
        item_ids,
    )


def read_sparse(
    matrix: Any, convention: Convention, names: Sequence[str] | None
) -> tuple[csr_array, tuple[Label, ...]]:
    """A scipy matrix whose entries are class + 1 to sparse codes and classes."""
    if not issparse(matrix):
        raise VotesError(f"a scipy sparse matrix is needed, not {type(matrix).__name__}")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise VotesError(f"votes are empty or not a matrix: shape {matrix.shape}")
    triples = matrix.tocoo()
    row, column = triples.row, triples.col
    values = triples.data
    if values.dtype.kind not in "iufb":
        raise VotesError(f"sparse votes of type {values.dtype} cannot be read; entries are class + 1")
    bad = ~((values >= 0) & (values == np.rint(values)) & (values < np.iinfo(np.int16).max))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise VotesError(
            f"{place(int(row[at]), int(column[at]), names)}: the entry {values[at].item()!r} is no "
            "vote; an entry of a sparse matrix is class + 1, so 1, 2, ..."
        )
    codes = values.astype(np.int64) - 1
    plain = Convention(ABSTAIN, None if convention.classes is None else range(len(convention.classes)))
    _, numbers = encode(codes[:, None], plain) if len(codes) else (codes, plain.classes or (0, 1))
    classes = tuple(numbers if convention.classes is None else convention.classes)
    ids = np.arange(matrix.shape[0])
    shown = names or tuple(str(j) for j in range(matrix.shape[1]))
    keep = _without_duplicates(row, column, codes, "error", ids, shown)
    return _build(row[keep], column[keep], codes[keep], classes, matrix.shape), classes


def _build(
    row: NDArray[Any],
    column: NDArray[Any],
    codes: NDArray[Any],
    classes: tuple[Label, ...],
    shape: tuple[int, int],
) -> csr_array:
    stored = codes != ABSTAIN
    row, column, codes = row[stored], column[stored], codes[stored]
    entries = np.where(codes >= 0, codes.astype(np.int64) + 1, codes)
    entries = entries.astype(smallest_dtype(len(classes) + 1))
    matrix = csr_array((entries, (row, column)), shape=shape)
    matrix.sort_indices()
    return matrix


def _as_column(values: ArrayLike, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if isinstance(values, (list, tuple)) and array.dtype.kind in "US":
        array = np.array(values, dtype=object)
    if array.ndim != 1:
        raise VotesError(f"{what} have shape {array.shape}; one flat sequence is needed")
    return array


def _identify(values: NDArray[Any], what: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Sorted distinct identifiers, and for each entry the position of its own."""
    if values.dtype.kind == "O" and any(is_null(v) for v in values):
        raise VotesError(f"{what} hold a missing identifier; every vote needs one")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise VotesError(f"{what} hold a missing identifier (NaN); every vote needs one")
    try:
        distinct, index = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise VotesError(f"{what} mix types that cannot be sorted together: {error}") from error
    return distinct, index


def _without_duplicates(
    row: NDArray[Any],
    column: NDArray[Any],
    codes: NDArray[Any],
    policy: str,
    item_ids: NDArray[Any],
    names: Sequence[str],
) -> NDArray[np.intp]:
    """Positions of the triples to keep, at most one for each (item, source)."""
    cell = row.astype(np.int64) * len(names) + column
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(cell[order]) != 0]) if len(cell) else np.empty(0, np.intp)
    if len(starts) == len(cell):
        return order
    ends = np.r_[starts[1:], len(cell)]
    if policy == "error":
        at = order[starts[np.flatnonzero(ends - starts > 1)[0]]]
        item = item_ids[row[at]]
        item = item.item() if isinstance(item, np.generic) else item
        raise VotesError(
            f"source {names[column[at]]!r} votes more than once on item {item!r} "
            f"({int((ends - starts > 1).sum()):,} such cells); pass duplicates='first', 'last' or 'majority'"
        )
    if policy == "first":
        return order[starts]
    if policy == "last":
        return order[ends - 1]
    kept = [_most_frequent(order[s:e], codes) for s, e in zip(starts, ends, strict=True)]
    return np.array(kept, np.intp)


def _most_frequent(positions: NDArray[np.intp], codes: NDArray[Any]) -> np.intp:
    votes = positions[codes[positions] >= 0]
    if not len(votes):
        return positions[0]
    _, first, counts = np.unique(codes[votes], return_index=True, return_counts=True)
    best = np.lexsort((first, -counts))[0]
    return votes[first[best]]
