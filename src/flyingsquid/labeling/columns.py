"""Votes of one labeling function: its return values, checked and encoded, and its failures."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_integer, is_null
from flyingsquid.exceptions import LabelingError, VotesError
from flyingsquid.votes.codes import ABSTAIN, code_of_reason
from flyingsquid.votes.encode import as_column, factorize, without_mask

FAILED = code_of_reason("failed")
_ADVICE = "Return an integer, a string or a boolean, and None or fs.ABSTAIN to abstain."


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed calls of one labeling function.

    Attributes
    ----------
    count : int
        Number of items on which the function failed.
    item : int
        Position of the first of them.
    error : str
        The error of that item on one line.
    traceback : str
        The error of that item with all frames.
    """

    count: int
    item: int
    error: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.count:,} failed, first on item {self.item:,}: {self.error}"

    @classmethod
    def merge(cls, parts: Sequence[Failure | None]) -> Failure | None:
        """Add the failures of several chunks, and keep the details of the first one."""
        present = [part for part in parts if part is not None]
        if not present:
            return None
        first = min(present, key=lambda part: part.item)
        return replace(first, count=sum(part.count for part in present))


class FailureRecorder:
    """Record the failures of one function on one chunk, or raise an error at the first.

    Parameters
    ----------
    name : str
        Name of the labeling function.
    first_item : int
        Position of the first item of the chunk.
    raises : bool
        Whether to raise.
    """

    def __init__(self, name: str, first_item: int, raises: bool) -> None:
        self.name = name
        self.first_item = first_item
        self.raises = raises
        self.failure: Failure | None = None

    def call_failed(self, at: int, error: Exception, count: int = 1) -> None:
        """Record that a call on item ``at`` of the chunk raised; ``count`` is for vectorized functions."""
        item = self.first_item + at
        summary = _summarize_error(error)
        if self.raises:
            where = f"item {item}" if count == 1 else f"items {item} to {item + count - 1}"
            raise LabelingError(
                f"{where}, function {format_value(self.name)}: {summary}. Fix the function, or pass "
                "on_error='abstain' to count such items as missing votes.",
                function=self.name,
            ) from error
        self._record(item, summary, lambda: _format_traceback(error), count)

    def vote_invalid(self, at: int, problem: str) -> None:
        """Record that the function returned an invalid vote on item ``at`` of the chunk."""
        item = self.first_item + at
        message = f"item {item}, function {format_value(self.name)} {problem}"
        if self.raises:
            raise LabelingError(message, function=self.name)
        self._record(item, problem, lambda: f"{message}\n", 1)

    def _record(self, item: int, error: str, trace: Callable[[], str], count: int) -> None:
        known = self.failure
        if known is not None and known.item <= item:
            # Only the count changes, because formatting a traceback takes long and failures may be many.
            self.failure = replace(known, count=known.count + count)
        else:
            self.failure = Failure(count + (0 if known is None else known.count), item, error, trace())


def _format_traceback(error: Exception) -> str:
    """Format the traceback from the user's function on, without the frames that called it."""
    start = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, start or error.__traceback__))


def _summarize_error(error: Exception) -> str:
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ---------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Votes of one function on n items.

    Attributes
    ----------
    index : int32 array of shape (n,)
        Position of the vote in ``values``; -1 for an abstention, -4 for a failed call.
    values : tuple
        The distinct votes: all int, all str or all bool.
    failure : Failure or None
    """

    index: NDArray[np.int32]
    values: tuple[Any, ...]
    failure: Failure | None = None

    @property
    def kind(self) -> str | None:
        """``"int"``, ``"str"`` or ``"bool"``; None if there are no votes."""
        return type(self.values[0]).__name__ if self.values else None

    def find(self, value: Any) -> int:
        """Return the position of the first item with this vote."""
        return int(np.argmax(self.index == self.values.index(value)))

    @classmethod
    def merge(cls, parts: Sequence[Column], name: str, first_item: int) -> Column:
        """Concatenate columns of consecutive items of the function ``name``."""
        values: dict[Any, int] = {}
        indices, start = [], first_item
        for part in parts:
            for value in part.values:
                first = next(iter(values), value)
                if type(value) is not type(first):  # checked here because True == 1 in a dict
                    raise LabelingError(
                        f"item {start + part.find(value)}, function {format_value(name)} "
                        f"{_mixed(value, first)}"
                    )
                values.setdefault(value, len(values))
            # Negative codes of missing votes index the end of the table.
            table = np.array([*(values[value] for value in part.values), -4, -3, -2, -1], np.int32)
            indices.append(table[part.index])
            start += len(part.index)
        return cls(np.concatenate(indices), tuple(values), Failure.merge([part.failure for part in parts]))


class _FailedCall:
    """Placeholder for the return value of a call that failed."""


FAILED_CALL = _FailedCall()
_VOTE_TYPES = {int, bool, str, type(None), _FailedCall}


def encode_votes(returned: list[Any], failures: FailureRecorder) -> Column:
    """Encode the return values for single items; :data:`FAILED_CALL` marks a call that failed."""
    if not set(map(type, returned)) <= _VOTE_TYPES:
        returned = [_read_vote(value, at, failures) for at, value in enumerate(returned)]
    return _encode_values(returned, failures)


def encode_column(returned: Any, n_items: int, failures: FailureRecorder) -> Column:
    """Encode a column that a vectorized function returned."""
    array = without_mask(_read_column(returned, n_items))
    if array.dtype.kind in "biu":
        return _encode_integers(array)
    if array.dtype.kind == "f":
        return _encode_floats(array, failures)
    if array.dtype.kind not in "OUT":
        raise LabelingError(f"the returned column must not have type {array.dtype}. {_ADVICE}")
    objects = array.tolist()
    if not set(map(type, objects)) <= _VOTE_TYPES:
        objects = [_read_cell(value, at, failures) for at, value in enumerate(objects)]
    return _encode_values(objects, failures)


def _read_column(returned: Any, n_items: int) -> NDArray[Any]:
    if returned is None or isinstance(returned, (str, bytes, int, float)):
        raise LabelingError(
            f"a vectorized function must return one value per item; got {format_value(returned)}."
        )
    try:
        array = as_column(returned if hasattr(returned, "__len__") else list(returned), "returned values")
    except (VotesError, TypeError) as error:
        raise LabelingError(f"a vectorized function must return a column: {error}") from error
    if len(array) != n_items:
        raise LabelingError(
            "a vectorized function must return one value per item; "
            f"got {format_count(len(array), 'value')} for {format_count(n_items, 'item')}."
        )
    return array


def _read_vote(value: Any, at: int, failures: FailureRecorder) -> Any:
    """Return a vote as int, bool, str or None, even if it is an enumeration or a NumPy scalar."""
    if value is None or value is FAILED_CALL:
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if is_integer(value):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)  # str(value) of an enumeration is the name of the member
    failures.vote_invalid(
        at, f"returned {format_value(value)}, a value of type {type(value).__name__}. {_ADVICE}"
    )
    return FAILED_CALL


def _read_cell(value: Any, at: int, failures: FailureRecorder) -> Any:
    """Return a vote in a column, where NaN is an abstention and may have turned integers into floats."""
    if is_null(value):
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    return _read_vote(value, at, failures)


def _encode_values(returned: list[Any], failures: FailureRecorder) -> Column:
    """Encode a list of int, bool, str, None and FAILED_CALL."""
    if len(set(map(type, returned)) & {int, bool, str}) > 1:
        returned = _check_one_type(returned, failures)
    codes: dict[Any, int] = {None: ABSTAIN, FAILED_CALL: FAILED, ABSTAIN: ABSTAIN}
    distinct = dict.fromkeys(returned)  # unlike a set, in the same order in every run
    values = [value for value in distinct if value not in codes]
    codes.update((value, at) for at, value in enumerate(values))
    return Column(np.fromiter(map(codes.__getitem__, returned), np.int32, len(returned)), tuple(values))


def _check_one_type(returned: list[Any], failures: FailureRecorder) -> list[Any]:
    """Record votes of another type than the first one; -1 among strings and booleans is an abstention."""
    first: Any = None
    checked = []
    for at, value in enumerate(returned):
        is_vote = value is not None and value is not FAILED_CALL
        is_vote = is_vote and not (type(value) is int and value == ABSTAIN)
        if is_vote and first is None:
            first = value
        if is_vote and type(value) is not type(first):
            failures.vote_invalid(at, _mixed(value, first))
            value = FAILED_CALL  # noqa: PLW2901
        checked.append(value)
    return checked


def _mixed(value: Any, first: Any) -> str:
    now, earlier = format_value(value), format_value(first)
    return f"returned {now}, and {earlier} on an earlier item. Return classes of one type."


def _encode_integers(array: NDArray[Any]) -> Column:
    """Encode a column of integers or booleans."""
    if not len(array):
        return Column(np.empty(0, np.int32), ())
    found, index = factorize(array[:, None])
    votes = [value for value in found if value != ABSTAIN]
    position = {value: at for at, value in enumerate(votes)}
    table = np.array([position.get(value, ABSTAIN) for value in found], np.int32)
    return Column(table[index[:, 0]], tuple(votes))


def _encode_floats(array: NDArray[Any], failures: FailureRecorder) -> Column:
    """Encode a column of floats that are integers, with NaN for abstentions."""
    numbers = np.where(np.isnan(array), ABSTAIN, array)
    invalid = (numbers != np.rint(numbers)) | (np.abs(numbers) >= 2**53)
    for at in np.flatnonzero(invalid).tolist():
        failures.vote_invalid(at, f"returned {float(array[at])!r}, which is not an integer. {_ADVICE}")
    column = _encode_integers(np.where(invalid, ABSTAIN, numbers).astype(np.int64))
    column.index[invalid] = FAILED
    return column
