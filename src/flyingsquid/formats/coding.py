"""From the values that occur in a file to classes, and from values to codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, listed, told
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.votes.states import ABSTAIN, MOST_CLASSES, REASONS, Label, code_of_reason, smallest_dtype

MISSING_TEXTS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "abstain", "abstained"})
"""Texts that mean "no vote", in any case of letters, unless they are declared to be classes."""
REASON_TEXTS = {f"!{reason}": code_of_reason(reason) for reason in REASONS[1:]}
"""How a missing vote with a reason is written in files of text: ``!refused`` and so on."""
UNKNOWN = -100
"""The code of a value that is neither a class nor "no vote"."""
_WHOLE = re.compile(r" *[+-]?[0-9]{1,19}(\.0*)? *")
_HUGE = re.compile(r" *\+?[0-9]{20,}(\.0*)? *")
_NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)? *")
_PAIRS = (("no", "yes"), ("n", "y"))
Where = Callable[[Any], str]
"""Where in the file a value stands, in words for a message."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user says about values.

    Attributes
    ----------
    classes : class labels in order, or None
    abstain : texts of further values that mean "no vote"
    signed : whether -1 and +1 are the classes and 0 means "no vote"
    reasons : codes by the text of a value that means a missing vote with a reason
    """

    classes: tuple[Label, ...] | None = None
    abstain: frozenset[str] = frozenset()
    signed: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        classes: Iterable[Label] | None,
        abstain: Iterable[Any] | str | float | None,
        signed: bool,
        reasons: Mapping[Any, str] | None,
    ) -> Wish:
        """Check what a user passed."""
        if isinstance(abstain, (str, int, float)):
            abstain = (abstain,)
        texts = frozenset(str(_whole(value)) for value in abstain or ())
        for value, reason in (reasons or {}).items():
            if reason not in REASONS:
                raise OptionError(
                    f"unknown reason {told(reason)} for {told(value)}; known: {', '.join(REASONS)}"
                )
        codes = {str(_whole(value)): code_of_reason(reason) for value, reason in (reasons or {}).items()}
        if isinstance(classes, str):
            raise OptionError(f"classes={told(classes)} is one text; pass a list of labels")
        labels = None if classes is None else tuple(classes)
        if labels is not None and (signed or len(labels) < 2 or len(set(map(str, labels))) < len(labels)):
            what = (
                "signed votes have the classes -1 and 1"
                if signed
                else "two or more different ones are needed"
            )
            raise OptionError(f"classes={told(list(labels))}: {what}")
        both = [label for label in labels or () if str(label) in texts or str(label) in codes]
        if both:
            raise OptionError(f"{told(both[0])} is one of the classes and also means 'no vote'")
        return cls(labels, texts, signed, codes)


@dataclass(frozen=True, slots=True)
class Survey:
    """What values occur in the votes of a file, and in its known labels.

    Attributes
    ----------
    values : distinct raw values; of integers perhaps only the smallest and the largest
    plain_text : whether the format has texts only, so that a text may stand for a number
    extremes_only : whether integers between the smallest and the largest may occur too
    classes : the classes that the file itself names, or None
    """

    values: Sequence[Any]
    plain_text: bool = False
    extremes_only: bool = False
    classes: tuple[Label, ...] | None = None


@dataclass(frozen=True, slots=True)
class Coding:
    """Classes, and the code of every value.

    Attributes
    ----------
    classes : K labels
    codes : code by value; texts of numbers are looked up as numbers where ``plain_text``
    """

    classes: tuple[Label, ...]
    codes: Mapping[Any, int]
    texts: Mapping[str, int]
    plain_text: bool
    minus_one: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of codes."""
        return np.dtype(smallest_dtype(len(self.classes)))

    def code_of(self, value: Any) -> int:
        """The code of one raw value; :data:`UNKNOWN` if it has none."""
        if is_null(value):
            return ABSTAIN
        value = _whole(value)
        kind = bool if isinstance(value, bool) else type(value)
        code = self.codes.get((kind, value))
        if code is None:
            code = self.texts.get(str(value))
        if code is None and isinstance(value, str):
            code = self._code_of_text(value)
        elif code is None and kind is int and value == ABSTAIN and self.minus_one:
            code = ABSTAIN
        return UNKNOWN if code is None else code

    def _code_of_text(self, text: str) -> int | None:
        stripped = text.strip().lower()
        if stripped in MISSING_TEXTS or (self.minus_one and stripped in ("-1", "-1.0")):
            return ABSTAIN
        if text in REASON_TEXTS:
            return REASON_TEXTS[text]
        if not self.plain_text:
            return None
        if stripped in ("true", "false"):
            return self.codes.get((bool, stripped == "true"))
        if _WHOLE.fullmatch(text):
            whole = int(float(text)) if "." in text else int(text)
            return self.texts.get(str(whole), self.codes.get((int, whole)))
        return self.codes.get((str, stripped))  # yes and no, spelled in several ways

    def table(self, values: Sequence[Any]) -> NDArray[np.int16]:
        """Codes of many values, and at the end the code of "nothing", for index -1."""
        codes = np.fromiter((self.code_of(v) for v in values), np.int16, len(values))
        return np.append(codes, np.int16(ABSTAIN))


def decide(survey: Survey, wish: Wish, where: Where) -> tuple[Coding, list[str]]:
    """Classes and codes for the values of a file, and notes on what was assumed.

    Raises
    ------
    VoteFileError
        If the values cannot all be classes of one kind.
    """
    notes: list[str] = []
    declared = wish.classes if wish.classes is not None or wish.signed else survey.classes
    if wish.signed:
        coding = _coding((-1, 1), wish, survey, {"0": ABSTAIN})
        _require_known(survey, coding, where, "signed votes are -1, 0 (no vote) and 1")
        return coding, notes
    if declared is not None:
        coding = _coding(_like_the_values(declared, survey), wish, survey)
        known = f"the classes are {listed(coding.classes)}"
        _require_known(
            survey, coding, where, f"{known}; abstain= (--abstain) or classes= (--classes) gives it one"
        )
        return coding, notes
    bare = _coding((), wish, survey)
    votes = [_whole(v) for v in survey.values if bare.code_of(v) == UNKNOWN]
    _note_missing_texts(survey, wish, notes)
    classes = _infer(votes, survey, where, notes)
    coding = _coding(classes, wish, survey)
    _note_signs(survey, coding, notes)
    return coding, notes


def _coding(
    classes: tuple[Label, ...], wish: Wish, survey: Survey, extra: Mapping[str, int] | None = None
) -> Coding:
    codes = {(bool if isinstance(c, bool) else type(c), c): k for k, c in enumerate(classes)}
    texts = dict.fromkeys(wish.abstain, ABSTAIN) | dict(wish.reasons) | dict(extra or {})
    minus_one = not wish.signed and not any(str(c) == "-1" for c in classes)
    if wish.classes is not None or survey.classes is not None:  # a class that looks like nothing is declared
        texts |= {str(c): k for k, c in enumerate(classes)}
    return Coding(classes, codes, texts, survey.plain_text, minus_one)


def _like_the_values(declared: tuple[Label, ...], survey: Survey) -> tuple[Label, ...]:
    """Declared texts as numbers or booleans, where the file holds such."""
    if not all(isinstance(label, str) for label in declared):
        return declared
    typed_texts = not survey.plain_text and any(isinstance(v, str) for v in survey.values)
    texts = [str(label) for label in declared]
    if all(_WHOLE.fullmatch(t) and "." not in t for t in texts) and not typed_texts:
        return tuple(int(t) for t in texts)
    if {t.lower() for t in texts} == {"true", "false"} and not typed_texts:
        return tuple(t.lower() == "true" for t in texts)
    return declared


def _require_known(survey: Survey, coding: Coding, where: Where, advice: str) -> None:
    for value in survey.values:
        if coding.code_of(value) == UNKNOWN:
            raise VoteFileError(f"{where(value)}: the vote {told(value)} has no meaning; {advice}")


def _infer(votes: list[Any], survey: Survey, where: Where, notes: list[str]) -> tuple[Label, ...]:
    if not votes:
        if survey.extremes_only or not survey.values:
            raise VoteFileError("nobody votes; classes= (--classes) names the classes if that is meant")
        raise VoteFileError(
            f"nobody votes: only {listed(list(survey.values))} occur, which mean 'no vote'; "
            "classes= (--classes) says otherwise"
        )
    kinds = {_kind(v, survey.plain_text) for v in votes}
    if kinds == {"whole"}:
        return _whole_classes(sorted({_as_int(v) for v in votes}), survey, where, notes)
    if kinds == {"truth"}:
        return (False, True)
    if "fraction" in kinds:
        bad = next(v for v in votes if _kind(v, survey.plain_text) == "fraction")
        if isinstance(bad, str) and _HUGE.fullmatch(bad):
            raise _too_large(bad.strip(), where(bad))
        if kinds <= {"fraction", "whole"}:
            raise VoteFileError(
                f"{where(bad)}: {told(bad)} is a score and no class; Votes.from_scores reads scores, "
                "sources= (--sources) picks the columns of votes"
            )
    if "other" in kinds:
        bad = next(v for v in votes if _kind(v, survey.plain_text) == "other")
        raise VoteFileError(
            f"{where(bad)}: {told(bad)} is no vote; votes are texts, whole numbers, true or false"
        )
    if len(kinds) > 1:
        one, other = (next(v for v in votes if _kind(v, survey.plain_text) == k) for k in sorted(kinds)[:2])
        raise VoteFileError(
            f"votes mix types: {told(one)} at {where(one)} and {told(other)} at {where(other)}; "
            "sources= (--sources) picks the columns of votes, classes= (--classes) names all classes"
        )
    return _text_classes([str(v) for v in votes], notes)


def _kind(value: Any, plain_text: bool) -> str:
    if not isinstance(value, str):
        kinds = ((bool, "truth"), (int, "whole"), (float, "fraction"))
        return next((name for kind, name in kinds if isinstance(value, kind)), "other")
    if plain_text and value.strip().lower() in ("true", "false"):
        return "truth"
    if plain_text and _WHOLE.fullmatch(value):
        return "whole"
    return "fraction" if plain_text and _NUMBER.fullmatch(value) else "text"


def _whole_classes(found: list[int], survey: Survey, where: Where, notes: list[str]) -> tuple[Label, ...]:

    def place(number: int) -> str:
        wholes = (v for v in survey.values if _kind(_whole(v), survey.plain_text) == "whole")
        return where(next(v for v in wholes if _as_int(v) == number))

    if found[0] < 0:
        raise VoteFileError(
            f"{place(found[0])}: the vote {found[0]} is no class; classes are 0, 1, ..., -1 means no vote, "
            "and classes= (--classes) names others"
        )
    lowest, highest = found[0], found[-1]
    if highest >= 1 << 63:
        raise _too_large(highest, place(highest))
    if lowest == 1 and 1 < highest <= MOST_CLASSES:
        notes.append(
            f"classes are 1 to {highest}, because nobody votes 0; classes= (--classes) says otherwise"
        )
        return tuple(range(1, highest + 1))
    if lowest > 1 or highest >= MOST_CLASSES:
        if len(found) < 2 or len(found) > MOST_CLASSES:
            raise VoteFileError(f"the votes {listed(found)} are no classes; classes= (--classes) names them")
        notes.append(
            f"classes are the numbers that occur, {listed(found)}; classes= (--classes) says otherwise"
        )
        return tuple(found)
    return tuple(range(max(2, highest + 1)))


def _too_large(number: int | str, where: str) -> VoteFileError:
    text = number if isinstance(number, str) and len(number) <= 60 else told(number)
    return VoteFileError(f"{where}: the vote {text} is no class; it is larger than any number of 64 bits")


def _text_classes(found: list[str], notes: list[str]) -> tuple[Label, ...]:
    folded = {text.strip().lower() for text in found}
    for pair in _PAIRS:
        if folded <= set(pair):
            return _completed(sorted(found), pair)
    if len(found) < 2:
        raise VoteFileError(
            f"only one class occurs, {told(found[0])}, so the others are unknown; "
            "classes= (--classes) names all"
        )
    if len(found) > MOST_CLASSES:
        raise VoteFileError(
            f"{len(found):,} different votes are too many for classes; sources= picks the columns"
        )
    if len(folded) < len(found):
        by_fold: dict[str, list[str]] = {}
        for text in sorted(found):
            by_fold.setdefault(text.strip().lower(), []).append(text)
        near = next(texts for texts in by_fold.values() if len(texts) > 1)
        notes.append(
            f"the classes {near[0]!r} and {near[1]!r} differ only in spaces or case, and were kept apart"
        )
    return tuple(sorted(found))


def _completed(found: list[str], pair: tuple[str, str]) -> tuple[Label, ...]:
    """No and yes, spelled as in the file if it spells them in one way."""
    for spell in (str.lower, str.capitalize, str.upper):
        spelled = tuple(spell(text) for text in pair)
        if set(found) <= set(spelled):
            return spelled
    return pair


def _note_missing_texts(survey: Survey, wish: Wish, notes: list[str]) -> None:
    texts = [v for v in survey.values if isinstance(v, str) and v.strip()]
    words = sorted(v for v in texts if v.strip().lower() in MISSING_TEXTS and v not in wish.abstain)
    others = any(_kind(v, survey.plain_text) == "text" for v in texts if v not in words)
    if others and survey.plain_text:
        words += [v for v in texts if v.strip() == "-1"]
    if words:
        notes.append(f"{listed(words)} was read as 'no vote'; classes= (--classes) says otherwise")


def _note_signs(survey: Survey, coding: Coding, notes: list[str]) -> None:
    if coding.classes != (0, 1) or not coding.minus_one or "-1" in coding.texts:
        return
    if any(_is_minus_one(v, survey.plain_text) for v in survey.values):
        notes.append(
            "-1 was read as 'no vote' and 0, 1 as the classes; signed=True (--signed) reads -1 and 1 as the "
            "classes and 0 as 'no vote'"
        )


def _is_minus_one(value: Any, plain_text: bool) -> bool:
    return _kind(_whole(value), plain_text) == "whole" and _as_int(value) == -1


def _as_int(value: Any) -> int:
    return int(float(value)) if isinstance(value, str) and "." in value else int(value)


def _whole(value: Any) -> Any:
    """1 for 1.0, and Python's values for NumPy's."""
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value
