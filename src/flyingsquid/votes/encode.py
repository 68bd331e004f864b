"""Encode raw labels of any type as integer codes; errors name and locate every bad value."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import (
    format_count,
    format_list,
    format_value,
    is_integer,
    is_null,
    is_one_of,
    option_error,
    plain_value,
)
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.codes import (
    ABSTAIN,
    MOST_CLASSES,
    REASONS,
    Label,
    code_of_reason,
    read_array,
    smallest_dtype,
)
from flyingsquid.votes.conventions import infer_integer_classes, is_missing_text, normalize_label


@dataclass(frozen=True, slots=True)
class Convention:
    """Rules for reading raw labels: the classes, and the values that mean "no vote".

    Attributes
    ----------
    abstain : object
        The raw value that means "no vote"; None, NaN and masked cells always do.
    classes : tuple of K labels or None
        The class labels in order; None infers them (integers: 0..max or 1..max, strings: sorted).
    reasons : mapping
        Raw values that mean that a vote is missing for a reason of :data:`REASONS`.
    advice : str
        The end of errors about values outside the classes: options of the function that was called.
    normalize : bool
        Whether strings that differ only in case or spaces are one label.
    """

    abstain: Any = ABSTAIN
    classes: tuple[Label, ...] | None = None
    reasons: Mapping[Label, str] = field(default_factory=dict)
    advice: str = "Pass `classes` to declare the classes, or `abstain` for a value that means no vote"
    normalize: bool = False

    @classmethod
    def read(
        cls,
        abstain: Any,
        classes: Iterable[Label] | None,
        reasons: Mapping[Label, str] | None,
        *,
        normalize: bool = False,
        **more: str,
    ) -> Convention:
        """Check arguments of a user; a collection of ``abstain`` values means each of them."""
        if reasons is not None and not isinstance(reasons, Mapping):
            raise option_error("reasons", "a mapping from values to reasons", reasons)
        for value, reason in (reasons or {}).items():
            if not is_one_of(reason, REASONS):
                known = ", ".join(REASONS)
                raise OptionError(
                    f"`reasons` must map to one of {known}; got {format_value(reason)} for the value "
                    f"{format_value(value)}.",
                    parameter="reasons",
                )
        if isinstance(abstain, (list, tuple, set, frozenset)):
            try:
                reasons = {**dict.fromkeys(abstain, REASONS[0]), **(reasons or {})}
            except TypeError as error:  # not hashable
                raise option_error("abstain", "a value or a list of strings or numbers", abstain) from error
            abstain = None
        labels = None
        if classes is not None:
            labels = _as_tuple(classes)
            labels = tuple(map(normalize_label, labels)) if normalize else labels
            _check_classes(labels, (abstain, *(reasons or ())))
        return cls(abstain, labels, reasons or {}, normalize=bool(normalize), **more)

    @classmethod
    def declared(
        cls,
        classes: Iterable[Label] | None,
        reasons: Mapping[Label, str] | None = None,
        *,
        abstain: Any = ABSTAIN,
        normalize: bool = False,
        **more: str,
    ) -> Convention:
        """Return the convention in which -1 means no vote by default, unless it is one of the classes."""
        classes = None if classes is None else _as_tuple(classes)
        if is_integer(abstain) and abstain == ABSTAIN and classes is not None and ABSTAIN in classes:
            abstain = None
        return cls.read(abstain, classes, reasons, normalize=normalize, **more)

    @property
    def has_standard_abstain(self) -> bool:
        """True if -1 means no vote."""
        return is_integer(self.abstain) and self.abstain == ABSTAIN

    @property
    def is_plain(self) -> bool:
        """True if integer labels are their own codes."""
        if self.reasons or not self.has_standard_abstain:
            return False
        return self.classes is None or (
            all(is_integer(c) for c in self.classes) and self.classes == tuple(range(len(self.classes)))
        )

    def missing_code(self, value: Any) -> int | None:
        """Return the negative code of a value that means a missing vote, otherwise None."""
        missing = is_null(value)
        reason = self.reasons.get(None if missing else value)
        if reason is not None:
            return code_of_reason(reason)
        if missing or (not isinstance(value, bool) and equal(value, self.abstain)):
            return ABSTAIN
        return None


def equal(value: Any, other: Any) -> bool:
    """Return whether two values are equal; False if they cannot be compared."""
    try:
        return bool(value == other)
    except Exception:  # user objects may raise any exception
        return False


def _check_classes(labels: tuple[Label, ...], missing: Iterable[Any]) -> None:
    """Raise OptionError unless the classes are unique, at least two, and none of them is a missing vote."""
    if len(labels) < 2:
        raise option_error("classes", "a list of at least two labels", list(labels))
    if len(set(labels)) < len(labels):
        raise option_error("classes", "unique", list(labels))
    for value in missing:
        if value is not None and any(equal(value, label) for label in labels):
            advice = " Use Votes.from_signed for votes of -1, 0 (no vote) and +1."
            raise OptionError(
                f"`classes` must not contain the value for no vote; got {format_value(value)} in "
                f"{format_value(list(labels))}.{advice if equal(value, ABSTAIN) else ''}",
                parameter="classes",
            )


def _as_tuple(classes: Iterable[Label]) -> tuple[Label, ...]:
    try:
        labels = tuple(map(plain_value, classes))
        hash(labels)
    except Exception as error:  # user objects may raise any exception
        raise OptionError(
            f"`classes` must be a sequence of class labels; got {format_value(classes)}: {error}",
            parameter="classes",
        ) from error
    if isinstance(classes, str):
        raise option_error("classes", "a list of labels, not a string", classes)
    return labels


# ---------------------------------------------------------------------- encoding


Locate = Callable[[int, int], str]
"""Describes the location of the cell (row, column) for a message."""

# Integer labels in a range of at most this size are translated by a lookup table.
_LOOKUP_RANGE = 1 << 16
# Cells that are read at a time to find the distinct integers.
_DISTINCT_CELLS = 1 << 16


def in_column(names: Sequence[str] | None) -> Locate:
    """Return a function that locates cells of a matrix whose columns are sources."""

    def locate(row: int, column: int) -> str:
        source = f"source {names[column]!r}" if names is not None else f"source {column}"
        return f"row {row}, {source}"

    return locate


def as_matrix(values: Any, what: str = "votes") -> NDArray[Any]:
    """Return a matrix of shape (n, m), n and m at least 1."""
    array = read_array(values, what, "a rectangular matrix")
    if array.ndim == 0:
        files = " Read files with fs.files.open_votes." if isinstance(values, (str, os.PathLike)) else ""
        raise VotesError(
            f"`{what}` must be an array or a table with one row per item and one column per source; got "
            f"{format_value(values)}.{files}"
        )
    if array.ndim != 2:
        raise VotesError(
            f"`{what}` must have one row per item and one column per source, (n, m); got shape {array.shape}."
        )
    n, m = array.shape
    if m == 0:
        raise VotesError(f"`{what}` must have at least one column, one per source.")
    if n == 0:
        raise VotesError(f"`{what}` must have at least one item; got 0 items x {format_count(m, 'source')}.")
    return array


def as_column(values: Any, what: str) -> NDArray[Any]:
    """Return a flat sequence of labels or identifiers, shape (n,), missing ones as None, NaN or masked."""
    if hasattr(values, "to_pylist"):  # pyarrow; its NumPy conversion loses nulls of dictionaries
        values = values.to_pylist()
    array = read_array(values, what, "one-dimensional")
    if array.ndim != 1:
        raise VotesError(f"`{what}` must be one-dimensional; got shape {array.shape}.")
    return array


def without_mask(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects with None for masked cells; other arrays unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    objects = np.array(values.data, object)
    objects[np.ma.getmaskarray(values)] = None
    return objects


def encode(
    labels: NDArray[Any], convention: Convention, locate: Locate
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    """Encode raw ``labels`` of shape (n, m).

    Returns
    -------
    codes : signed integers of shape (n, m), in the smallest type; the input itself if it has that type
    classes : tuple of K labels; code k stands for ``classes[k]``
    """
    if labels.dtype.names is None:
        labels = without_mask(labels)
    kind = labels.dtype.kind
    if kind in "iu" and convention.is_plain:
        return _check_plain(labels, convention, locate)
    if kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):  # NaN, and numbers beyond float64
            labels = labels.astype(np.float64, copy=False)
        return _encode_floats(labels, convention, locate)
    if kind == "T":
        labels = labels.astype(object)
    if kind in "iubUSOT":
        return _translate(labels, convention, locate)
    raise VotesError(
        f"Votes must be integers, floats with NaN for no vote, strings, booleans or Python objects; got type "
        f"{labels.dtype}."
    )


def _check_plain(
    labels: NDArray[Any], convention: Convention, locate: Locate
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    lowest, highest = int(labels.min()), int(labels.max())
    if convention.classes is None and lowest >= ABSTAIN and 1 < highest < MOST_CLASSES:
        classes = _class_numbers(_distinct_integers(labels, highest), labels.dtype)
        if classes[0] != 0 or len(classes) != highest + 1:
            return _translate(labels, replace(convention, classes=classes), locate)
    n_classes = max(2, highest + 1) if convention.classes is None else len(convention.classes)
    if lowest < ABSTAIN:
        bad = labels < ABSTAIN
        _refuse(labels[bad][0], bad, convention, locate)
    if convention.classes is not None and highest >= n_classes:
        bad = labels >= n_classes
        _refuse(labels[bad][0], bad, convention, locate)
    if n_classes > MOST_CLASSES:
        raise VotesError(
            f"Votes must be for at most {MOST_CLASSES:,} classes, counted from 0; got {highest}. "
            f"{convention.advice}."
        )
    return labels.astype(smallest_dtype(n_classes), copy=False), tuple(range(n_classes))


def _distinct_integers(labels: NDArray[Any], highest: int) -> list[int]:
    """Return the distinct votes >= 0, increasing. Reads as many rows as it takes to find all of them."""
    present = np.zeros(highest + 2, np.bool_)
    step = max(1, _DISTINCT_CELLS // labels.shape[1])
    for start in range(0, len(labels), step):
        block = labels[start : start + step].astype(np.intp) + 1  # a byte would overflow
        present[block.ravel()] = True
        if present[1:].all():
            break
    return np.flatnonzero(present[1:]).tolist()


def _class_numbers(found: list[int], dtype: np.dtype[Any] | None = None) -> tuple[int, ...]:
    """Return the classes of integer votes; ``found`` are the distinct ones, increasing."""
    classes = infer_integer_classes(found)
    if classes is not None:
        return tuple(classes)
    highest = found[-1]
    missing = f"`abstain={highest}` if {highest} means no vote"
    if dtype is not None and dtype.kind == "u" and highest == np.iinfo(dtype).max:
        missing = f"`abstain={highest}` if {highest} is -1, stored as {dtype}"
    raise VotesError(
        f"The votes would have {highest + 1:,} classes, of which only {len(found):,} occur: "
        f"{format_list(found)}. Use Votes.from_classes and pass {missing}, or `classes` with all classes."
    )


def _encode_floats(
    labels: NDArray[Any], convention: Convention, locate: Locate
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    missing = np.isnan(labels)
    if convention.classes is None or convention.is_plain:
        _refuse_fractions(labels, missing, locate)
        whole = np.where(missing, ABSTAIN, labels)
        # Beyond 2**53, float64 cannot represent all integers.
        if convention.is_plain and np.abs(whole).max() < 2**53:
            return _check_plain(whole.astype(np.int64), convention, locate)
    return _translate(labels, convention, locate)


def _refuse_fractions(labels: NDArray[Any], missing: NDArray[np.bool_], locate: Locate) -> None:
    for bad, what in ((np.isinf(labels), "infinite"), (labels != np.rint(labels), "fractional")):
        found = np.argwhere(bad & ~missing)
        if len(found):
            row, column = (int(x) for x in found[0])
            raise VotesError(
                f"{locate(row, column)}: votes must be classes 0, 1, ..., with -1 or NaN for no vote; got "
                f"{format_value(labels[row, column].item())}, which is {what}. Use Votes.from_scores for "
                "scores."
            )


def _translate(
    labels: NDArray[Any], convention: Convention, locate: Locate
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    """Translate each distinct value once, then every cell by lookup."""
    if labels.dtype.kind == "O":
        return encode_values(*_factorize_objects(labels, locate), convention, locate)
    return encode_values(*factorize(labels), convention, locate)


def encode_values(
    values: list[Any], index: NDArray[np.integer], convention: Convention, locate: Locate
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    """Encode a matrix of labels whose cell (i, j) has the value ``values[index[i, j]]``."""
    if convention.normalize:
        values = [normalize_label(value) for value in values]
    missing = [convention.missing_code(v) for v in values]
    if convention.classes is None:
        votes = [at for at, code in enumerate(missing) if code is None]
        classes = tuple(_infer_classes(values, votes, index, convention, locate))
    else:
        classes = convention.classes
    position = {label: k for k, label in enumerate(classes)}
    table = np.empty(len(values), smallest_dtype(len(classes)))
    for at, (value, code) in enumerate(zip(values, missing, strict=True)):
        found = _found(position, value) if code is None else code
        if found is None:
            known = Convention(convention.abstain, classes, advice=convention.advice)
            _refuse(value, index == at, known, locate)
        table[at] = found
    return table[index], classes


def classes_of(columns: Sequence[Sequence[Any]], convention: Convention, locate: Locate) -> tuple[Label, ...]:
    """Return the classes of votes, from the distinct values of each source.

    ``locate(at, j)`` describes where source j has the value ``columns[j][at]``.
    """
    table = np.full((max(1, *map(len, columns)), len(columns)), None, object)
    for j, column in enumerate(columns):
        table[: len(column), j] = column
    return encode(table, convention, locate)[1]


def _found(position: dict[Label, int], value: Any) -> int | None:
    try:
        return position.get(value)
    except Exception:  # `==` of user objects may raise: then it is not one of the classes
        return None


def factorize(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the distinct values as sorted Python values, and for each cell the position of its value."""
    if labels.dtype.kind in "iu" and int(labels.max()) - int(labels.min()) < _LOOKUP_RANGE:
        # Faster than sorting: mark the values that occur, number them, look every cell up.
        offset = np.subtract(labels, labels.min(), dtype=np.intp, casting="unsafe")  # a byte would overflow
        present = np.flatnonzero(np.bincount(offset.ravel()))
        rank = np.zeros(int(present[-1]) + 1, np.intp)
        rank[present] = np.arange(len(present))
        return [int(labels.min()) + int(v) for v in present], rank[offset]
    values, index = np.unique(labels, return_inverse=True)
    return values.tolist(), index.reshape(labels.shape)


def _factorize_objects(labels: NDArray[Any], locate: Locate) -> tuple[list[Any], NDArray[np.intp]]:
    seen: dict[Any, int] = {}
    index = np.empty(labels.size, np.intp)
    for at, value in enumerate(labels.flat):
        plain = None if is_null(value) else plain_number(value)
        try:
            index[at] = seen.setdefault(plain, len(seen))
        except Exception:  # not hashable, or user objects that raise
            raise VotesError(
                f"{locate(*divmod(at, labels.shape[1]))}: votes must be numbers, strings or booleans; got a "
                f"value of type {type(value).__name__}."
            ) from None
    return list(seen), index.reshape(labels.shape)


def _infer_classes(
    values: list[Any], votes: list[int], index: NDArray[np.integer], convention: Convention, locate: Locate
) -> list[Label]:
    """Return class labels for values without declared classes; ``votes`` are the positions of votes."""
    labels = [values[at] for at in votes]
    if labels and all(isinstance(v, bool) for v in labels):
        return [False, True]
    if all(_is_number(v) for v in labels):
        return _infer_numbers(values, votes, index, convention, locate)
    if all(isinstance(v, str) for v in labels):
        return _infer_strings(list(dict.fromkeys(labels)), convention)
    odd = next((at for at in votes if type(values[at]) is not type(labels[0])), votes[0])
    row, column = (int(x) for x in np.argwhere(index == odd)[0])
    if odd == votes[0]:
        raise VotesError(
            f"{locate(row, column)}: votes must be numbers, strings or booleans; got "
            f"{format_value(values[odd])} of type {type(values[odd]).__name__}."
        )
    raise VotesError(
        f"{locate(row, column)}: votes must have one type; got {format_value(values[odd])} of type "
        f"{type(values[odd]).__name__} next to {type(labels[0]).__name__}. Convert them to one type."
    )


def as_float(number: Any) -> float:
    """Return a number as a float; infinity for integers beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _infer_numbers(
    values: list[Any], votes: list[int], index: NDArray[np.integer], convention: Convention, locate: Locate
) -> list[Label]:
    numbers = np.array([as_float(values[at]) for at in votes])
    fractions = numbers != np.rint(numbers)
    if fractions.any():
        odd = votes[int(np.argmax(fractions))]
        cells = np.where(index == odd, float(values[odd]), 0.0)
        _refuse_fractions(cells, np.isnan(cells), locate)
    if len(votes) and (numbers.min() < 0 or numbers.max() >= MOST_CLASSES):
        outside = (numbers < 0) | (numbers >= MOST_CLASSES)
        row, column = (int(x) for x in np.argwhere(index == votes[int(np.argmax(outside))])[0])
        raise VotesError(
            f"{locate(row, column)}: votes must be classes 0, 1, ... unless others are declared; got "
            f"{format_value(values[index[row, column]])}. {convention.advice}."
        )
    classes = _class_numbers(sorted({int(number) for number in numbers}))
    return [k for k in classes if convention.missing_code(k) is None]


def _infer_strings(labels: list[str], convention: Convention) -> list[Label]:
    doubtful = sorted(v for v in labels if is_missing_text(v))
    if doubtful:
        abstain = doubtful[0] if len(doubtful) == 1 else doubtful
        raise VotesError(
            f"Votes must be classes; {format_value(doubtful[0])} looks like a missing vote. "
            f"{convention.advice}, such as abstain={format_value(abstain)}."
        )
    if len(labels) < 2:
        raise VotesError(
            f"Votes must be for at least two classes; all are for {format_value(labels[0])}. "
            f"{convention.advice}."
        )
    return [*sorted(labels)]


def _refuse(value: Any, bad: NDArray[np.bool_], convention: Convention, locate: Locate) -> NoReturn:
    """Raise an error for a value; ``bad`` are the cells with this value, or with similar values later on."""
    row, column = (int(x) for x in np.argwhere(bad)[0])
    more = int(bad.sum()) - 1
    tail = f" (and in {format_count(more, 'other cell')})" if more else ""
    none = "" if convention.abstain is None else f", or {format_value(convention.abstain)} for no vote"
    known = "0, 1, ..." if convention.classes is None else format_list(convention.classes)
    raise VotesError(
        f"{locate(row, column)}: the label must be one of the classes {known}{none}; got "
        f"{format_value(value)}{tail}. {convention.advice}."
    )


def plain_number(value: Any) -> Any:
    """Return a Python value for a NumPy scalar, and a number for a Decimal."""
    value = plain_value(value)
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
