"""Raw labels of any type to integer codes, with every bad value named and located."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.states import ABSTAIN, REASONS, Label, code_of_reason, smallest_dtype

# Integer labels whose range is at most this wide are translated by a lookup table.
_LOOKUP_RANGE = 1 << 16
_MOST_CLASSES = np.iinfo(np.int16).max
# Texts that people use for "no vote". As a class they are more likely a mistake than meant.
_SUSPICIOUS_CLASSES = {"", "-1", "nan", "none", "null", "abstain"}


@dataclass(frozen=True, slots=True)
class Convention:
    """How raw labels are to be read.

    Attributes
    ----------
    abstain : the raw value that means "no vote"; None, NaN and masked cells always do
    classes : the class labels in order; None infers them (integers: 0..max, texts: sorted)
    reasons : raw values that mean a vote is missing for a reason of :data:`REASONS`
    """

    abstain: Any = ABSTAIN
    classes: Sequence[Label] | None = None
    reasons: Mapping[Label, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value, reason in self.reasons.items():
            if reason not in REASONS:
                raise OptionError(
                    f"unknown reason {reason!r} for the value {value!r}; known: {', '.join(REASONS)}"
                )
        if self.classes is None:
            return
        classes = list(self.classes)
        if len(classes) < 2:
            raise OptionError(f"classes={classes!r}: at least two classes are needed")
        if len(set(classes)) < len(classes):
            raise OptionError(f"classes={classes!r} names a class twice")
        for value in (self.abstain, *self.reasons):
            if value is not None and value in classes:
                raise OptionError(
                    f"{value!r} is one of the classes {classes!r} and also means 'no vote'. "
                    "Votes of -1, 0 and +1 where 0 abstains are read by Votes.from_signed; "
                    "otherwise pass abstain= another value"
                )

    @property
    def is_plain(self) -> bool:
        """Whether integer labels already are their codes."""
        if self.reasons or not _is_integer(self.abstain) or self.abstain != ABSTAIN:
            return False
        return self.classes is None or (
            all(_is_integer(c) for c in self.classes) and list(self.classes) == list(range(len(self.classes)))
        )


def place(row: int, column: int, names: Sequence[str] | None) -> str:
    """Where a value stands, for messages."""
    source = f"source {names[column]!r}" if names is not None else f"source {column}"
    return f"row {row}, {source}"


def encode(
    labels: NDArray[Any], convention: Convention, names: Sequence[str] | None = None
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    """Translate raw ``labels`` of shape (n, m) to codes.

    Returns
    -------
    codes : signed integers of shape (n, m), in the smallest type; the input itself, not a
        copy, when it already is that
    classes : tuple of K labels; code k stands for ``classes[k]``
    """
    if isinstance(labels, np.ma.MaskedArray):
        values = np.array(labels.data, object)
        values[np.ma.getmaskarray(labels)] = None
        return encode(values, convention, names)
    kind = labels.dtype.kind
    if kind in "iu":
        if convention.is_plain:
            return _check_plain(labels, convention, names)
        return _translate(labels, convention, names)
    if kind == "f":
        return _encode_floats(labels, convention, names)
    if kind == "b":
        booleans = convention
        if convention.classes is None:
            booleans = Convention(convention.abstain, (False, True), convention.reasons)
        return _translate(labels, booleans, names)
    if kind in "USOT":
        return _translate(labels, convention, names)
    raise VotesError(
        f"votes of type {labels.dtype} cannot be read; use integers, floats with NaN for "
        "no vote, texts, booleans or Python objects"
    )


def _check_plain(
    labels: NDArray[Any], convention: Convention, names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    lowest, highest = int(labels.min()), int(labels.max())
    n_classes = max(2, highest + 1) if convention.classes is None else len(convention.classes)
    if lowest < ABSTAIN:
        _refuse(labels, labels < ABSTAIN, convention, names)
    if convention.classes is not None and highest >= n_classes:
        _refuse(labels, labels >= n_classes, convention, names)
    if n_classes > _MOST_CLASSES:
        raise VotesError(
            f"the largest vote is {highest}, which would mean {n_classes:,} classes; "
            "pass classes= with the labels that really occur"
        )
    dtype = smallest_dtype(n_classes)
    return labels.astype(dtype, copy=False), tuple(range(n_classes))


def _encode_floats(
    labels: NDArray[Any], convention: Convention, names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    missing = np.isnan(labels)
    if convention.classes is None:
        for bad, what in ((np.isinf(labels), "infinite"), (labels != np.rint(labels), "fractional")):
            if (bad & ~missing).any():
                row, column = np.argwhere(bad & ~missing)[0]
                raise VotesError(
                    f"{place(row, column, names)}: the vote {labels[row, column]!r} is {what}; "
                    "votes are class numbers 0, 1, ... with -1 or NaN for no vote"
                )
        if convention.is_plain:
            whole = np.where(missing, ABSTAIN, labels)
            if np.abs(whole).max() < 2**53:  # beyond, float64 skips integers
                return _check_plain(whole.astype(np.int64), convention, names)
    return _translate(labels, convention, names)


def _translate(
    labels: NDArray[Any], convention: Convention, names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[Label, ...]]:
    """Translate each distinct value once, then every cell by lookup."""
    values, index = _factorize(labels, names)
    votes = [v for v in values if _missing_code(v, convention) is None]
    classes = tuple(_infer_classes(votes) if convention.classes is None else convention.classes)
    position = {label: k for k, label in enumerate(classes)}
    table = np.empty(len(values), smallest_dtype(len(classes)))
    for at, value in enumerate(values):
        code = _missing_code(value, convention)
        if code is None:
            code = position.get(value)
        if code is None:
            # A lookup table spans values that never occur; only those that do are an error.
            found = index == at
            if found.any():
                _refuse(labels, found, Convention(convention.abstain, classes), names)
            code = ABSTAIN
        table[at] = code
    return table[index], classes


def _factorize(labels: NDArray[Any], names: Sequence[str] | None) -> tuple[list[Any], NDArray[np.intp]]:
    """The distinct values as Python objects, and for each cell the position of its value."""
    if labels.dtype.kind in "iub":
        low, high = int(labels.min()), int(labels.max())
        if high - low < _LOOKUP_RANGE:
            kind = bool if labels.dtype.kind == "b" else int
            index = labels.astype(np.intp) - low
            return [kind(v) for v in range(low, high + 1)], index
    if labels.dtype.kind == "O":
        return _factorize_objects(labels, names)
    values, index = np.unique(labels, return_inverse=True)
    return values.tolist(), index.reshape(labels.shape)


def _factorize_objects(
    labels: NDArray[Any], names: Sequence[str] | None
) -> tuple[list[Any], NDArray[np.intp]]:
    seen: dict[Any, int] = {}
    index = np.empty(labels.size, np.intp)
    for at, value in enumerate(labels.flat):
        plain = None if is_null(value) else value.item() if isinstance(value, np.generic) else value
        try:
            index[at] = seen.setdefault(plain, len(seen))
        except TypeError:
            row, column = divmod(at, labels.shape[1])
            raise VotesError(
                f"{place(row, column, names)}: a vote of type {type(value).__name__} cannot be a "
                "class; votes are numbers, texts or booleans, one a cell"
            ) from None
    return list(seen), index.reshape(labels.shape)


def _missing_code(value: Any, convention: Convention) -> int | None:
    if is_null(value) or (value == convention.abstain and type(value) is not bool):
        return ABSTAIN
    reason = convention.reasons.get(value)
    return None if reason is None else code_of_reason(reason)


def _infer_classes(votes: list[Any]) -> list[Label]:
    """Class labels for values without a declared list of classes."""
    if all(isinstance(v, bool) for v in votes) and votes:
        return [False, True]
    if all(_is_integer(v) or (isinstance(v, float) and v.is_integer()) for v in votes):
        lowest, highest = min(votes, default=0), max(votes, default=0)
        if lowest < 0 or highest >= _MOST_CLASSES:
            raise VotesError(
                f"votes run from {lowest} to {highest}; integer classes are 0, 1, ... unless "
                "classes= lists them"
            )
        return list(range(max(2, int(highest) + 1)))
    if all(isinstance(v, str) for v in votes):
        doubtful = sorted(v for v in votes if v.strip().lower() in _SUSPICIOUS_CLASSES)
        if doubtful:
            raise VotesError(
                f"the label {doubtful[0]!r} looks like a missing vote; pass abstain={doubtful[0]!r} "
                "if it is, or list it in classes= if it is a class"
            )
        if len(votes) < 2:
            raise VotesError(
                f"only one label occurs ({votes[0]!r}), so the other classes are unknown; "
                "pass classes= with all of them"
            )
        return sorted(votes)
    kinds = ", ".join(sorted({type(v).__name__ for v in votes}))
    raise VotesError(f"votes mix the types {kinds}; convert them to one type or pass classes=")


def _refuse(
    labels: NDArray[Any],
    bad: NDArray[np.bool_],
    convention: Convention,
    names: Sequence[str] | None,
) -> None:
    row, column = (int(x) for x in np.argwhere(bad)[0])
    value = labels[row, column]
    value = value.item() if isinstance(value, np.generic) else value
    more = int(bad.sum()) - 1
    tail = f" ({more:,} more cells likewise)" if more else ""
    if convention.classes is None:
        known = f"classes are 0, 1, ... and {convention.abstain!r} means no vote"
    else:
        listed = ", ".join(repr(c) for c in list(convention.classes)[:8])
        listed += ", ..." if len(convention.classes) > 8 else ""
        known = f"the classes are {listed}; {convention.abstain!r} means no vote"
    raise VotesError(
        f"{place(row, column, names)}: the vote {value!r} is outside the classes{tail}; {known}. "
        "Pass classes=, abstain= or reasons= if it has a meaning"
    )


def is_null(value: Any) -> bool:
    """Whether a Python value means "nothing": None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  # NaN of any type
    except (TypeError, ValueError):
        # pandas.NA answers neither yes nor no; an array here is refused later as unhashable.
        return type(value).__name__ == "NAType"


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
