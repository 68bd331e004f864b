"""Arguments that accompany votes: gold labels, values by item, sample weights and lengths of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid._warnings import warn_about_votes
from flyingsquid.exceptions import VotesError
from flyingsquid.votes import _narwhals as nw
from flyingsquid.votes.codes import ABSTAIN, Label, read_array
from flyingsquid.votes.encode import Convention, as_column, encode
from flyingsquid.votes.votes import Votes

# With fewer gold labels, chance may explain that all of them are 1.
_FEWEST_SIGNED = 10


def read_task_gold(y: Any, classes: tuple[Label, ...], shape: tuple[int, int], what: str) -> NDArray[Any]:
    """Return codes of gold labels, shape (n, D), negative if unknown; ``y`` is (n, D), or (n,) if D is 1."""
    n_items, n_tasks = shape
    if n_tasks == 1:
        column = y[:, 0] if isinstance(y, np.ndarray) and y.shape == (n_items, 1) else y
        return read_gold(column, classes, n_items, what)[:, None]
    table = read_array(
        y, what, f"an array of {format_count(n_items, 'item')} and {format_count(n_tasks, 'task')}"
    )
    if table.shape != shape:
        raise VotesError(
            f"`{what}` must have one label for each of {format_count(n_items, 'item')} and "
            f"{format_count(n_tasks, 'task')}, shape {shape}; got shape {table.shape}."
        )
    return read_gold(table.reshape(-1), classes, n_items * n_tasks, what).reshape(shape)


def read_gold(y: Any, classes: tuple[Label, ...], n_items: int, what: str) -> NDArray[Any]:
    """Return codes of gold labels, shape (n,), negative if unknown."""
    if nw.dependencies.is_into_dataframe(y):
        raise VotesError(
            f"`{what}` must be one column; got a table. Pass one of its columns.", parameter=what
        )
    gold = as_column(y, what)
    if len(gold) != n_items:
        raise VotesError(
            f"`{what}` must have one label for each of {format_count(n_items, 'item')}; got {len(gold)}."
        )
    unknown = None if ABSTAIN in classes else ABSTAIN
    convention = Convention(unknown, classes, advice="Pass None for items without a label")
    encoded, _ = encode(gold[:, None], convention, lambda row, _: f"{what}[{row}]")
    codes = np.asarray(encoded[:, 0])
    # Gold labels for a fit are few, and may be of one class; a fit reports that.
    if what == "y" and classes == (0, 1) and gold.dtype.kind in "if" and _look_signed(codes, gold):
        warn_about_votes(
            "All labels in `y` are 1, because -1 is read as an unknown label. Use 0 and 1 for the classes."
        )
    return codes


def _look_signed(codes: NDArray[Any], gold: NDArray[Any]) -> bool:
    """Return whether labels of the classes 0 and 1 are probably -1 and 1: all known ones, of many, are 1."""
    n_known = np.count_nonzero(codes >= 0)
    return bool(
        n_known >= max(_FEWEST_SIGNED, len(codes) / 10)
        and codes[codes >= 0].min() == 1
        and (gold == -1).any()
    )


# ---------------------------------------------------------------------- values by item identifier


class HasItems(Protocol):
    """Votes or scores after reading."""

    @property
    def n_items(self) -> int: ...
    @property
    def items(self) -> NDArray[Any] | None: ...


@dataclass(frozen=True, slots=True)
class Items:
    """Items with identifiers, or None, that are not votes."""

    n_items: int
    items: NDArray[Any] | None = None

    @classmethod
    def of(cls, ids: Sequence[Any]) -> Items:
        """Return items with these identifiers."""
        items = np.empty(len(ids), object)
        items[:] = ids
        return cls(len(ids), items)


def item_ids(votes: Any, read: HasItems, values: Any = None) -> list[Any] | None:
    """Return the identifiers of items: those of Votes, or the index of a pandas table; None if absent.

    ``read`` are the same votes after reading. A pandas Series or table of ``values`` is aligned with the
    index of a pandas table, as in pandas, even if a column of the table identifies the items.
    """
    index, keys = index_of(votes), index_of(values)
    if index is not None and len(index) != read.n_items:
        index = None  # in long form
    if read.items is None or (index is not None and keys is not None and set(keys) <= set(index)):
        return index
    return list(read.items.tolist())


def index_of(values: Any) -> list[Any] | None:
    """Return the index of a pandas Series or table, None for other values."""
    if values is None or isinstance(values, (np.ndarray, list, tuple)):
        return None  # without importing narwhals
    is_indexed = nw.dependencies.is_pandas_series(values) or nw.dependencies.is_pandas_dataframe(values)
    return values.index.tolist() if is_indexed else None


def join_by_item(values: Any, ids: Sequence[Any] | None, n_items: int, what: str) -> Any:
    """Return one value per item, None for items without one.

    A mapping from identifiers to values and a pandas Series are joined by identifier; everything else is
    matched by position. If the votes have no identifiers, a Series that is numbered from 0 and has one value
    per item is matched by position, too. Identifiers may repeat in a Series with the index of the votes.

    Raises
    ------
    VotesError
        If an identifier is unknown or occurs twice, or if the votes have none.

    Examples
    --------
    >>> join_by_item({"b": 1}, ["a", "b"], 2, "gold")
    [None, 1]
    """
    in_order = range(n_items) if ids is None else ids
    if nw.dependencies.is_pandas_series(values) and values.index.tolist() == list(in_order):
        return values.tolist()
    by_id = read_keys(values, what)
    if by_id is None:
        return values
    if ids is None:
        raise VotesError(
            f"`{what}` must be a sequence with one value per item, because `votes` have no item identifiers; "
            f"got {type(values).__name__} with identifiers. Pass an array with one value per item in the "
            "order of the votes, or votes from a pandas table with an index or Votes.from_long.",
            parameter=what,
        )
    position = {key: at for at, key in enumerate(ids)}
    if len(position) < len(ids):
        raise VotesError(
            f"`votes` must have unique item identifiers to be joined with `{what}`; got "
            f"{format_value(_repeated(ids))} more than once."
        )
    unknown = [key for key in by_id if key not in position]
    if unknown:
        raise VotesError(
            f"`{what}` must have identifiers of items in `votes`, such as {format_list(ids, 2)}; got "
            f"{format_count(len(unknown), 'other')}: {format_list(unknown, 3)}.",
            parameter=what,
        )
    joined: list[Any] = [None] * n_items
    for key, cell in by_id.items():
        joined[position[key]] = cell
    return joined


def join_labels(y: Any, votes: Any, read: HasItems, what: str = "y") -> Any:
    """Return gold labels or weights in the order of the items, as :func:`join_by_item` does.

    ``read`` are the ``votes`` after reading. Without identifiers a Series is matched by position, as in
    scikit-learn, unless :func:`is_shuffled` finds another order.
    """
    if y is None:
        return None
    ids = item_ids(votes, read, y)
    if ids is None and nw.dependencies.is_pandas_series(y) and not is_shuffled(y, votes, read):
        return y
    return join_by_item(y, ids, read.n_items, what)


def is_shuffled(values: Any, votes: Any, read: HasItems) -> bool:
    """Return whether a pandas Series or table is numbered from 0 in another order than ``votes``.

    ``read`` are the votes after reading. Arrays may have been shuffled together with ``values``; Votes
    without identifiers, tables and files are in the order of their numbers.
    """
    is_array = isinstance(votes, (np.ndarray, list, tuple)) or issparse(votes)
    if is_array or read.items is not None or len(values) != read.n_items:
        return False
    keys, numbers = values.index.tolist(), range(read.n_items)
    return keys != list(numbers) and set(keys) == set(numbers)


def in_item_order(table: Any, votes: Any, read: HasItems, what: str) -> Any:
    """Return a pandas table or Series in the order of the items if its index holds their identifiers.

    ``read`` are the ``votes`` after reading. Other values are returned unchanged, and so is a table that is
    numbered from 0, unless the identifiers are such numbers, too: then they are joined, because the votes are
    shuffled or filtered rows of a numbered table.

    Raises
    ------
    VotesError
        If an index does not match, or if a column of the table has the identifiers in another order.
    """
    keys = index_of(table)
    if keys is None and not nw.dependencies.is_into_dataframe(table):
        return table
    ids = item_ids(votes, read, table)
    if keys is not None and keys != ids and (ids is not None or is_shuffled(table, votes, read)):
        is_numbered = keys == list(range(len(keys)))
        is_joined = ids is not None and set(ids) <= set(keys) and len(set(keys)) == len(keys)
        if is_joined and not (is_numbered and len(set(ids or ())) < read.n_items):
            table = table.reindex(ids)
        elif not is_numbered:
            raise VotesError(
                f"The index of `{what}` must contain each item identifier of `votes` once, or be numbered "
                "from 0.",
                parameter=what,
            )
    _require_ordered_columns(table, read, what)
    return table


def _require_ordered_columns(table: Any, read: HasItems, what: str) -> None:
    """Raise an error if a column of a table has the identifiers of the items in another order."""
    ids = None if read.items is None else read.items.tolist()
    if ids is None or not nw.dependencies.is_into_dataframe(table) or set(ids) == set(range(len(ids))):
        return  # a column of the numbers from 0 may also be a rank
    frame = nw.from_native(table, eager_only=True)
    for name in frame.columns if len(frame) == len(ids) else ():
        column = frame.get_column(name)
        if type(column[0]) is type(ids[0]) and column.to_list() != ids and set(column.to_list()) == set(ids):
            raise VotesError(
                f"`{what}` must have its rows in the order of the items of `votes`; its column "
                f"{format_value(name)} has the identifiers in another order.",
                parameter=what,
            )


def read_keys(values: Any, what: str) -> dict[Any, Any] | None:
    """Return a mapping or a pandas Series as a dictionary by item identifier; None for values by position."""
    if nw.dependencies.is_pandas_series(values):
        keys, cells = values.index.tolist(), values.tolist()
        if len(set(keys)) < len(keys):
            raise VotesError(
                f"`{what}` must have unique item identifiers; got {format_value(_repeated(keys))} more "
                "than once.",
                parameter=what,
            )
        return dict(zip(keys, cells, strict=True))
    return dict(values) if isinstance(values, Mapping) else None


def _repeated(values: Iterable[Any]) -> Any:
    """Return the first value that occurs a second time."""
    seen: set[Any] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]


# ---------------------------------------------------------------------- sample weights


LARGEST_COUNT = 2**53
"""Counts stay below this, because float64 cannot represent all larger integers."""


def join_weights(sample_weight: Any, votes: Any, read: Votes) -> NDArray[Any] | None:
    """Return the weights of :func:`read_weights` in the order of the items; None without weights.

    A pandas Series or a mapping is joined by item identifier, as :func:`join_labels` does.
    """
    if sample_weight is None:
        return None
    return read_weights(join_labels(sample_weight, votes, read, "sample_weight"), read.n_items)


def read_weights(sample_weight: ArrayLike, n_items: int) -> NDArray[Any]:
    """Return weights of shape (n,): int64 for integers, float64 for floats.

    Raises
    ------
    VotesError
        If there is not one finite number >= 0 per item, or the sum is 0.
    """
    given = read_array(sample_weight, "sample_weight", "a sequence of numbers")
    if given.dtype.kind not in "iufb" or np.ma.is_masked(given):
        raise VotesError(
            f"`sample_weight` must be numbers without masked cells; got an array of type {given.dtype}."
        )
    weights = np.asarray(given).astype(np.float64 if given.dtype.kind == "f" else np.int64)
    if weights.ndim == 0:
        weights = np.full(n_items, weights)
    if weights.shape != (n_items,):
        raise VotesError(
            f"`sample_weight` must have one weight for each of {format_count(n_items, 'item')}; got shape "
            f"{weights.shape}."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise VotesError(
            f"`sample_weight` must be finite and >= 0; got {format_value(weights[at].item())} at position "
            f"{at}."
        )
    with np.errstate(over="ignore"):  # infinity is refused below
        total = float(weights.sum(dtype=np.float64))
    if not 0 < total < LARGEST_COUNT:
        raise VotesError(
            f"`sample_weight` must have a sum > 0 and < 2**53, the number of items; got {total:g}."
        )
    return weights


# ---------------------------------------------------------------------- lengths of sequences


def read_lengths(lengths: Any, n_rows: int, votes: Any = None) -> NDArray[np.intp]:
    """Return the number of rows of each sequence, shape (sequences,).

    None is one sequence of all rows, unless ``votes`` are a pandas table whose index has several levels: then
    the last level numbers the rows of a sequence, and the others identify it.

    Raises
    ------
    VotesError
        If they are not integers >= 1 that add up to ``n_rows``, or rows of a sequence are not adjacent or not
        in the order of the numbers of their last level.

    Examples
    --------
    >>> read_lengths([2, 3], 5), read_lengths(None, 5)
    (array([2, 3]), array([5]))
    """
    if lengths is None:
        return np.array([n_rows], np.intp) if _count_levels(votes) < 2 else _lengths_of_index(votes.index)
    keys = index_of(lengths)
    names = list(dict.fromkeys(votes.index.droplevel(-1))) if keys and _count_levels(votes) > 1 else keys
    if keys != names and set(keys or ()) == set(names or ()):
        raise VotesError(
            "`lengths` must be in the order of the sequences of `votes`; its index has them in another "
            "order. Pass groupby(..., sort=False).size().",
            parameter="lengths",
        )
    given = read_array(lengths, "lengths", "a list of integers")
    if given.ndim != 1 or not given.size:
        raise VotesError(
            f"`lengths` must be a list with the number of rows of each sequence, or None for one sequence of "
            f"{format_count(n_rows, 'row')}; got {type(lengths).__name__} of shape {given.shape}."
        )
    _refuse_labels(given, n_rows)
    if given.dtype.kind not in "iu" or np.ma.is_masked(given):
        raise VotesError(
            f"`lengths` must be integers, the number of rows of each sequence; got "
            f"{format_value(given[:3].tolist())}, ... of type {given.dtype}."
        )
    if (given < 1).any():
        at = int(np.flatnonzero(given < 1)[0])
        raise VotesError(
            f"`lengths` must be >= 1; got {given[at]} at position {at}. Leave out empty sequences."
        )
    total = int(given.sum(dtype=object))  # Python integers do not overflow
    if total != n_rows:
        raise VotesError(f"`lengths` must add up to the number of rows, {n_rows:,}; got a sum of {total:,}.")
    return given.astype(np.intp)


def _count_levels(votes: Any) -> int:
    """Return the number of levels of the index of a pandas table, 0 for other votes."""
    return votes.index.nlevels if nw.dependencies.is_pandas_dataframe(votes) else 0


def _lengths_of_index(index: Any) -> NDArray[np.intp]:
    """Return the number of adjacent rows that have the same values in all levels but the last."""
    sequence, names = index.droplevel(-1).factorize()
    starts = np.flatnonzero(np.append(True, np.diff(sequence) != 0))
    if len(starts) > len(names):
        _, first = np.unique(sequence[starts], return_index=True)
        again = starts[np.setdiff1d(np.arange(len(starts)), first)[0]]
        raise VotesError(
            f"The rows of a sequence must be adjacent; those of {format_value(names[sequence[again]])} in "
            "the index are not. Sort the table, or pass `lengths`.",
            parameter="lengths",
        )
    number = index.get_level_values(-1)
    if number.dtype.kind in "iufmM":
        back = np.flatnonzero((number[1:] < number[:-1]) & (np.diff(sequence) == 0))
        if len(back):
            name, (before, after) = names[sequence[back[0]]], number[[back[0], back[0] + 1]]
            raise VotesError(
                f"The rows of a sequence must be in order; in the index, {format_value(after)} comes after "
                f"{format_value(before)} in {format_value(name)}. Sort the table, or pass `lengths`.",
                parameter="lengths",
            )
    return np.diff(np.append(starts, len(sequence)))


def _refuse_labels(given: NDArray[Any], n_rows: int) -> None:
    """Raise an error for labels passed as lengths: as many as there are rows, and not all 1."""
    if len(given) != n_rows or n_rows == 1 or (given.dtype.kind in "iu" and (given == 1).all()):
        return
    raise VotesError(
        f"`lengths` must add up to the number of rows; got {format_count(n_rows, 'entry', 'entries')}, one "
        "per row, not all 1. If these are gold labels, pass them to score(votes, y, lengths). If they name "
        "the sequence of each row, pass the number of rows of each sequence, in the order of the rows."
    )


def starts_of(lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first row of each sequence, shape (sequences,).

    >>> starts_of(np.array([2, 3, 1]))
    array([0, 2, 5])
    """
    return np.asarray(np.cumsum(lengths) - lengths)
