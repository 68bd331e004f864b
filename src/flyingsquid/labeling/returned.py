"""What functions returned, checked and numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, is_whole, told
from flyingsquid.exceptions import LabelingError, VotesError
from flyingsquid.votes.codes import ABSTAIN, code_of_reason
from flyingsquid.votes.encode import as_column

FAILED = code_of_reason("failed")
ADVICE = "return an integer, a text or a boolean, and None or fs.ABSTAIN for no vote"
OnBad: TypeAlias = Callable[[int, str], None]
"""Called with the row and what is wrong there; raises, or notes it and lets the vote be missing."""


class _Failure:
    """Stands in a column where the call failed."""


FAILURE = _Failure()
_PLAIN = {int, bool, str, type(None), _Failure}


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The votes of one function on n items.

    Attributes
    ----------
    index : integers of shape (n,)
        The position of the vote in ``values``; -1 abstained, -4 failed.
    values : tuple
        The distinct votes: all int, all str or all bool.
    """

    index: NDArray[np.int32]
    values: tuple[Any, ...]

    @property
    def kind(self) -> str | None:
        """``"int"``, ``"str"`` or ``"bool"``; None where nothing was voted."""
        return type(self.values[0]).__name__ if self.values else None

    def first(self, value: Any) -> int:
        """The first item with this vote."""
        return int(np.argmax(self.index == self.values.index(value)))


def column_of_calls(returned: list[Any], on_bad: OnBad) -> Column:
    """Number what calls on single items returned, :data:`FAILURE` where they failed."""
    kinds = set(map(type, returned))
    if not kinds <= _PLAIN:
        returned = [_plain(value, at, on_bad) for at, value in enumerate(returned)]
        kinds = set(map(type, returned))
    return _numbered(returned, kinds, on_bad)


def column_of_column(returned: Any, n_items: int, on_bad: OnBad) -> Column:
    """Number a column that a vectorised function returned."""
    array = _read_column(returned, n_items)
    if isinstance(array, np.ma.MaskedArray):
        values = np.array(array.data, object)
        values[np.ma.getmaskarray(array)] = None
        array = values
    kind = array.dtype.kind
    if kind in "biu":
        return _of_integers(array)
    if kind == "f":
        return _of_floats(array, on_bad)
    if kind not in "OUT":
        raise LabelingError(f"the returned column must not have type {array.dtype}; {ADVICE}")
    objects = array.tolist()
    kinds = set(map(type, objects))
    if not kinds <= _PLAIN:
        objects = [_plain_of_column(value, at, on_bad) for at, value in enumerate(objects)]
        kinds = set(map(type, objects))
    return _numbered(objects, kinds, on_bad)


def merge_columns(parts: Sequence[Column], on_mixed: Callable[[Any, Any, int], NoReturn]) -> Column:
    """Columns of consecutive items as one."""
    values: dict[Any, int] = {}
    indices, start = [], 0
    for part in parts:
        for value in part.values:
            first = next(iter(values), value)
            if type(value) is not type(first):  # True equals 1, so the table would not tell them apart
                on_mixed(first, value, start + part.first(value))
            values.setdefault(value, len(values))
        table = np.array([values[value] for value in part.values], np.int32)
        indices.append(_look_up(table, part.index))
        start += len(part.index)
    return Column(np.concatenate(indices) if indices else np.empty(0, np.int32), tuple(values))


def _look_up(table: NDArray[np.int32], index: NDArray[np.int32]) -> NDArray[np.int32]:
    """``table[index]`` where the index is a vote; missing votes stay."""
    if not len(table):
        return index
    return np.where(index >= 0, table[np.maximum(index, 0)], index).astype(np.int32, copy=False)


def _numbered(returned: list[Any], kinds: set[type], on_bad: OnBad) -> Column:
    """Number plain values: int, bool, str, None and FAILURE."""
    voted = kinds & {int, bool, str}
    if len(voted) > 1:
        returned = _one_kind(returned, on_bad)
    table: dict[Any, int] = {None: ABSTAIN, FAILURE: FAILED, ABSTAIN: ABSTAIN}
    distinct = dict.fromkeys(returned)  # not a set: its order would vary from run to run
    values = [value for value in distinct if value not in table]
    table.update((value, at) for at, value in enumerate(values))
    return Column(np.fromiter(map(table.__getitem__, returned), np.int32, len(returned)), tuple(values))


def _one_kind(returned: list[Any], on_bad: OnBad) -> list[Any]:
    """Refuse votes of another kind than the first one. -1 beside texts and booleans abstains."""
    first: Any = None
    checked = []
    for at, value in enumerate(returned):
        vote = value is not None and value is not FAILURE and not (type(value) is int and value == ABSTAIN)
        if vote and first is None:
            first = value
        if vote and type(value) is not type(first):
            on_bad(at, f"returned {told(value)}, and {told(first)} on an earlier row; {_kinds(first, value)}")
            checked.append(FAILURE)
        else:
            checked.append(value)
    return checked


def _kinds(one: Any, other: Any) -> str:
    return f"classes are all {type(one).__name__} or all {type(other).__name__}, not both"


def _plain(value: Any, at: int, on_bad: OnBad) -> Any:
    """A vote as int, bool, str or None; subclasses (enumerations) and NumPy's scalars become these."""
    if value is None or value is FAILURE:
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if is_whole(value):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)  # not str(value): an enumeration would give its own name
    on_bad(at, f"returned {told(value)}, a value of type {type(value).__name__}; {ADVICE}")
    return FAILURE


def _plain_of_column(value: Any, at: int, on_bad: OnBad) -> Any:
    """The same in a column, where NaN means nothing and integers may have become floats beside it."""
    if is_null(value):
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    return _plain(value, at, on_bad)


def _read_column(returned: Any, n_items: int) -> NDArray[Any]:
    if returned is None or isinstance(returned, (str, bytes, int, float)):
        raise LabelingError(f"a vectorized function must return one value per row; got {told(returned)}")
    try:
        array = as_column(returned if hasattr(returned, "__len__") else list(returned), "returned values")
    except (VotesError, TypeError) as error:
        raise LabelingError(f"a vectorized function must return a column: {error}") from error
    if len(array) != n_items:
        raise LabelingError(
            f"a vectorized function must return one value per row; got {len(array):,} values for {n_items:,} "
            "rows"
        )
    return array


def _of_integers(array: NDArray[Any]) -> Column:
    """Number a column of integers or booleans without making Python objects of it."""
    if not len(array):
        return Column(np.empty(0, np.int32), ())
    numbers = array.view(np.uint8) if array.dtype == np.bool_ else array
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < 1 << 16:  # no sort: mark what occurs, number it, look every item up
        offset = (numbers - low).astype(np.intp) if low else numbers.astype(np.intp)
        distinct = np.flatnonzero(np.bincount(offset)) + low
        votes = distinct[distinct != ABSTAIN]
        table = np.full(high - low + 1, ABSTAIN, np.int32)
        table[votes - low] = np.arange(len(votes))
        index = table[offset]
    else:
        distinct, inverse = np.unique(numbers, return_inverse=True)
        kept = (distinct != ABSTAIN) if low < 0 else np.ones(len(distinct), bool)
        votes = distinct[kept]
        index = np.where(kept, np.cumsum(kept) - 1, ABSTAIN).astype(np.int32)[inverse]
    return Column(index, tuple(bool(v) if array.dtype == np.bool_ else int(v) for v in votes))


def _of_floats(array: NDArray[Any], on_bad: OnBad) -> Column:
    missing = np.isnan(array)
    whole = np.where(missing, ABSTAIN, array)
    bad = (whole != np.rint(whole)) | (np.abs(whole) >= 2**53)
    for at in np.flatnonzero(bad).tolist():
        on_bad(at, f"returned {float(array[at])!r}, which is no class number; {ADVICE}")
    column = _of_integers(np.where(bad, ABSTAIN, whole).astype(np.int64))
    column.index[bad] = FAILED
    return column
