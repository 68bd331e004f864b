"""Infer classes from the values that occur in a file, and map values to codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, is_null, option_error, plain_value
from flyingsquid.exceptions import Hint, ModelFileError, Note, OptionError, VoteFileError
from flyingsquid.files.columns import CHOOSE_SOURCES
from flyingsquid.files.state import decode_labels
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, REASONS, Label, code_of_reason, smallest_dtype
from flyingsquid.votes.conventions import MISSING_TEXTS, infer_integer_classes, normalize_label
from flyingsquid.votes.encode import Convention, factorize, in_column

REASON_TEXTS = {f"!{reason}": code_of_reason(reason) for reason in REASONS[1:]}
"""Missing votes with a reason in text files: ``!refused`` and so on."""
UNKNOWN = -100
"""The code of a value that is neither a class nor "no vote"."""
_INTEGER = re.compile(r" *[+-]?[0-9]{1,19}(\.0*)? *")
_HUGE = re.compile(r" *\+?[0-9]{20,}(\.0*)? *")
_NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)? *")
_PAIRS = (("no", "yes"), ("n", "y"))
_DECLARE_CLASSES = Hint("classes", "to declare the classes")
Find = Callable[[Any], str]
"""Describe the position of a value in the file, for a message."""


def read_convention(
    classes: Iterable[Label] | None,
    abstain: Iterable[Any] | str | float | None,
    signed: bool,
    reasons: Mapping[Any, str] | None,
    normalize: bool,
) -> Convention:
    """Check the options of :func:`~flyingsquid.files.open_votes` for values; reasons are by text.

    Signed votes are votes for the classes -1 and 1, and 0 means "no vote".
    """
    if classes is not None and signed:
        raise OptionError(
            "`classes` must be None with signed=True; the classes are -1 and 1.", parameter="classes"
        )
    values = [abstain] if isinstance(abstain, (str, int, float)) else list(abstain or ())
    if signed:
        values, classes = [*values, 0], (-1, 1)
    if isinstance(reasons, Mapping):
        reasons = {str(classify(value)[1]): why for value, why in reasons.items()}
    texts = [str(classify(value)[1]) for value in values]
    convention = Convention.read(texts, classes, reasons, normalize=normalize)
    # In a file, 1 and "1" may be written alike.
    names = [str(label) for label in convention.classes or ()]
    if len(set(names)) < len(names):
        raise option_error("classes", "unique", list(convention.classes or ()))
    both = next((name for name in names if name in convention.reasons), None)
    if both is not None:
        raise OptionError(
            f"`classes` must not contain a value that means 'no vote'; got {both}.", parameter="classes"
        )
    return convention


@dataclass(frozen=True, slots=True)
class Survey:
    """The values that occur in the votes and gold labels of a file.

    Attributes
    ----------
    values : sequence of distinct raw values
        For integers, possibly only the smallest and the largest.
    plain_text : bool
        Whether the format has no types, so that a string may represent a number.
    extremes_only : bool
        Whether integers between the smallest and the largest may occur too.
    classes : tuple of labels, or None
        The classes that the file itself declares.
    """

    values: Sequence[Any]
    plain_text: bool = False
    extremes_only: bool = False
    classes: tuple[Label, ...] | None = None


@dataclass(frozen=True, slots=True)
class Coding:
    """The classes, and the code of every value.

    Attributes
    ----------
    classes : tuple of K labels
    codes : mapping of (type, value) to int
    texts : mapping of str to int
        Codes of declared values by their text.
    plain_text : bool
        Whether strings that look like numbers are looked up as numbers.
    minus_one : bool
        Whether -1 means "no vote".
    normalize : bool
        Whether strings are looked up without surrounding spaces and in lower case.
    """

    classes: tuple[Label, ...]
    codes: Mapping[Any, int]
    texts: Mapping[str, int]
    plain_text: bool
    minus_one: bool
    normalize: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of codes."""
        return np.dtype(smallest_dtype(len(self.classes)))

    def code_of(self, value: Any) -> int:
        """Return the code of one raw value; :data:`UNKNOWN` if it has none."""
        if is_null(value):
            return ABSTAIN
        value = classify(value)[1]
        if self.normalize and value not in REASON_TEXTS:
            value = normalize_label(value)
        code = self.codes.get((type(value), value))
        if code is None:
            code = self.texts.get(str(value))
        if code is None and isinstance(value, str):
            code = self._code_of_text(value)
        elif code is None and type(value) is int and value == ABSTAIN and self.minus_one:
            code = ABSTAIN
        return UNKNOWN if code is None else code

    def _code_of_text(self, text: str) -> int | None:
        folded = text.strip().lower()
        if folded in MISSING_TEXTS or (self.minus_one and folded in ("-1", "-1.0")):
            return ABSTAIN
        if text in REASON_TEXTS:
            return REASON_TEXTS[text]
        kind, value = classify(text, plain_text=self.plain_text)
        if kind == "boolean":
            return self.codes.get((bool, value))
        if kind == "integer":
            return self.texts.get(str(value), self.codes.get((int, value)))
        if self.plain_text or any(folded in pair for pair in _PAIRS):  # "Yes" next to "yes"
            return self.codes.get((str, folded))
        return None

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the codes of many values, and at the end the code of "no vote", for index -1."""
        codes = [self.code_of(value) for value in values]
        return np.array([*codes, ABSTAIN], self.dtype)

    def encode(self, votes: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of an array of any shape; :data:`UNKNOWN` for a value without a code."""
        if not votes.size:
            return np.zeros(votes.shape, self.dtype)
        is_plain = votes.dtype.kind in "iu" and self.is_plain
        if is_plain and int(votes.min()) >= ABSTAIN and int(votes.max()) < len(self.classes):
            return votes.astype(self.dtype)
        values, index = factorize(votes)
        return self.table(values)[index]

    @property
    def is_plain(self) -> bool:
        """True if integers are their own codes."""
        numbers = self.classes == tuple(range(len(self.classes))) and type(self.classes[0]) is int
        return numbers and self.minus_one and not self.texts


class Numbering(dict[Any, int]):
    """Numbers of values in order of appearance; a lookup adds a new value."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number

    def of(self, column: Any) -> NDArray[np.int64]:
        """Return the numbers of the values of a sequence or a pyarrow array."""
        if hasattr(column, "dictionary_encode"):
            coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
            values = coded.dictionary.to_pylist()
            numbers = self.of([*values, None] if column.null_count else values)
            return numbers[np.asarray(coded.indices.fill_null(-1))]
        return np.fromiter(map(self.__getitem__, column), np.int64, len(column))


def classify(value: Any, *, plain_text: bool = False) -> tuple[str, Any]:
    """Return the kind of a raw value, and the value as a Python object of that kind.

    With ``plain_text``, strings may represent integers and booleans.

    >>> classify(np.float64(1.0)), classify("1.0", plain_text=True), classify("1.0"), classify(0.5)
    (('integer', 1), ('integer', 1), ('string', '1.0'), ('fraction', 0.5))
    """
    value = plain_value(value)
    if isinstance(value, str):
        if plain_text and value.strip().lower() in ("true", "false"):
            return "boolean", value.strip().lower() == "true"
        if plain_text and _INTEGER.fullmatch(value):
            return "integer", int(float(value)) if "." in value else int(value)
        return ("fraction" if plain_text and _NUMBER.fullmatch(value) else "string"), value
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, float):
        return ("integer", int(value)) if value.is_integer() else ("fraction", value)
    return ("integer" if isinstance(value, int) else "other"), value


def refuse_unknown(
    codes: NDArray[Any],
    gold: NDArray[Any] | None,
    row: int,
    columns: Any,
    names: Sequence[str] | None,
) -> None:
    """Raise VoteFileError for the first vote or gold label without a code.

    ``row`` is the number of the first row, and ``columns`` are the raw votes of each source.
    """
    if codes.size and codes.min() == UNKNOWN:
        i, j = (int(at) for at in np.argwhere(codes == UNKNOWN)[0])
        value, where = columns[j][i], in_column(names)(row + i, j)
        value = value.as_py() if hasattr(value, "as_py") else value
        raise VoteFileError(f"Unknown vote {format_value(value)} ({where}).")
    if gold is not None and gold.size and gold.min() == UNKNOWN:
        raise VoteFileError(f"A gold label at or after row {row} is not one of the classes.")


def read_labels(values: Any) -> tuple[Label, ...]:
    """Return the classes that a file declares in its metadata."""
    try:
        labels = tuple(decode_labels(values))
    except ModelFileError as error:
        raise VoteFileError(f"The classes in the metadata cannot be read: {error.message}") from error
    if len(set(labels)) < max(2, len(labels)):
        raise VoteFileError("The metadata must contain at least two different classes.")
    return labels


def build_coding(survey: Survey, convention: Convention, find: Find) -> tuple[Coding, list[Note]]:
    """Determine the classes and the codes of the values of a file, with notes on the assumptions.

    Every value of the survey has a code.

    Raises
    ------
    VoteFileError
        If the values cannot all be classes of one kind.
    """
    declared = convention.classes if convention.classes is not None else survey.classes
    if declared is not None:
        coding = _coding(_match_types(declared, survey), convention, survey, declared=True)
        for value in survey.values:
            if coding.code_of(value) == UNKNOWN:
                raise VoteFileError(
                    f"Unknown vote {format_value(value)} ({find(value)}); the classes are "
                    f"{format_list(coding.classes)}.",
                    hints=[Hint("abstain", "if it means no vote"), _DECLARE_CLASSES],
                )
        return coding, []
    without_classes = _coding((), convention, survey)
    votes = [v for v in survey.values if without_classes.code_of(v) == UNKNOWN]
    if convention.normalize:
        votes = list(dict.fromkeys(normalize_label(v) for v in votes))
    notes = _notes_on_missing(survey, convention)
    classes = _infer_classes(votes, survey, find, notes)
    coding = _coding(classes, convention, survey)
    if classes == (0, 1) and coding.minus_one and "-1" not in coding.texts:
        kinds = (classify(v, plain_text=survey.plain_text) for v in survey.values)
        if any(kind == ("integer", -1) for kind in kinds):
            hint = Hint("signed", "to read -1 and 1 as the classes and 0 as 'no vote'", True)
            notes.append(Note("-1 is read as 'no vote', and 0 and 1 as the classes.", (hint,)))
    return coding, notes


def _coding(
    classes: tuple[Label, ...], convention: Convention, survey: Survey, *, declared: bool = False
) -> Coding:
    codes = {(type(label), label): k for k, label in enumerate(classes)}
    texts = {str(text): code_of_reason(why) for text, why in convention.reasons.items()}
    if declared:  # a declared class may look like "no vote"
        texts |= {str(label): k for k, label in enumerate(classes)}
    minus_one = not any(str(label) == "-1" for label in classes)
    return Coding(classes, codes, texts, survey.plain_text, minus_one, convention.normalize)


def _match_types(declared: tuple[Label, ...], survey: Survey) -> tuple[Label, ...]:
    """Return declared strings as integers or booleans if the votes of the file are."""
    if not all(isinstance(label, str) for label in declared):
        return declared
    if not survey.plain_text and any(isinstance(v, str) for v in survey.values):
        return declared
    texts = [str(label) for label in declared]
    if all(_INTEGER.fullmatch(text) and "." not in text for text in texts):
        return tuple(int(text) for text in texts)
    if {text.lower() for text in texts} == {"true", "false"}:
        return tuple(text.lower() == "true" for text in texts)
    return declared


# ---------------------------------------------------------------------- classes that are not declared


def _infer_classes(votes: list[Any], survey: Survey, find: Find, notes: list[Note]) -> tuple[Label, ...]:
    if not votes:
        only = (
            "" if survey.extremes_only or not survey.values else f" (only {format_list(list(survey.values))})"
        )
        raise VoteFileError(f"The file contains no votes{only}.", hints=[_DECLARE_CLASSES])
    first = {classify(v, plain_text=survey.plain_text)[0]: v for v in reversed(votes)}
    if first.keys() == {"integer"}:
        return _integer_classes(votes, survey, find, notes)
    if first.keys() == {"boolean"}:
        return (False, True)
    fraction = first.get("fraction")
    if isinstance(fraction, str) and _HUGE.fullmatch(fraction):
        raise _too_large(fraction, find)
    if fraction is not None and first.keys() <= {"fraction", "integer"}:
        raise VoteFileError(
            f"Votes must be classes; got the score {format_value(fraction)} ({find(fraction)}). "
            "ScoreModel and `flyingsquid score` combine scores; Votes.from_scores converts them to classes.",
            hints=[CHOOSE_SOURCES],
        )
    if "other" in first:
        bad = first["other"]
        raise VoteFileError(
            f"Votes must be strings, integers or booleans; got {format_value(bad)} ({find(bad)})."
        )
    if len(first) > 1:
        one, other = (first[kind] for kind in sorted(first)[:2])
        raise VoteFileError(
            f"Votes must have one type; got {format_value(one)} ({find(one)}) and {format_value(other)} "
            f"({find(other)}).",
            hints=[CHOOSE_SOURCES, _DECLARE_CLASSES],
        )
    return _string_classes([str(v) for v in votes])


def _integer_classes(votes: list[Any], survey: Survey, find: Find, notes: list[Note]) -> tuple[Label, ...]:
    raw = {classify(v, plain_text=survey.plain_text)[1]: v for v in reversed(votes)}
    found = sorted(raw)
    lowest, highest = found[0], found[-1]
    if lowest < 0:
        raise VoteFileError(
            f"Classes must be integers >= 0 (-1 means 'no vote'); got {lowest} ({find(raw[lowest])}).",
            hints=[_DECLARE_CLASSES],
        )
    if highest >= 1 << 63:
        raise _too_large(raw[highest], find)
    if survey.extremes_only:
        found = list(range(lowest, min(highest, MOST_CLASSES) + 1))
    classes = infer_integer_classes(found) if highest <= MOST_CLASSES else found
    if classes is None:
        missing = Hint("abstain", f"if {highest} means no vote", highest)
        raise VoteFileError(
            f"The votes would have {highest + 1:,} classes, of which only {len(found):,} occur: "
            f"{format_list(found)}.",
            hints=[missing, _DECLARE_CLASSES],
        )
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise VoteFileError(
            f"The classes cannot be inferred from the votes {format_list(found)}.", hints=[_DECLARE_CLASSES]
        )
    if isinstance(classes, list):
        note = f"The classes are the integers that occur: {format_list(found)}."
        notes.append(Note(note, (_DECLARE_CLASSES,)))
    elif classes[0] == 1:
        notes.append(Note(f"The classes are 1 to {highest}, because 0 does not occur.", (_DECLARE_CLASSES,)))
    return tuple(classes)


def _too_large(value: Any, find: Find) -> VoteFileError:
    shown = value.strip() if isinstance(value, str) and len(value) <= 60 else format_value(value)
    return VoteFileError(f"Classes must fit into 64 bits; got {shown} ({find(value)}).")


def _string_classes(found: list[str]) -> tuple[Label, ...]:
    folded = {text.strip().lower() for text in found}
    for pair in _PAIRS:
        if folded <= set(pair):
            return _match_case(found, pair)
    if len(found) < 2:
        raise VoteFileError(f"Only one class occurs: {format_value(found[0])}.", hints=[_DECLARE_CLASSES])
    if len(found) > MOST_CLASSES:
        raise VoteFileError(
            f"Votes must be for at most {MOST_CLASSES:,} classes; got {len(found):,}.",
            hints=[CHOOSE_SOURCES],
        )
    return tuple(sorted(found))


def _match_case(found: list[str], pair: tuple[str, str]) -> tuple[Label, ...]:
    """Return "no" and "yes", in the case that the file uses if it uses only one."""
    for change_case in (str.lower, str.capitalize, str.upper):
        spelled = tuple(change_case(text) for text in pair)
        if set(found) <= set(spelled):
            return spelled
    return pair


def _notes_on_missing(survey: Survey, convention: Convention) -> list[Note]:
    texts = [v for v in survey.values if isinstance(v, str) and v.strip()]
    words = sorted(v for v in texts if v.strip().lower() in MISSING_TEXTS and v not in convention.reasons)
    others = (v for v in texts if v not in words)
    if survey.plain_text and any(classify(v, plain_text=True)[0] == "string" for v in others):
        words += [v for v in texts if v.strip() == "-1"]
    verb = "is" if len(words) == 1 else "are"
    return [Note(f"{format_list(words)} {verb} read as 'no vote'.", (_DECLARE_CLASSES,))] if words else []
