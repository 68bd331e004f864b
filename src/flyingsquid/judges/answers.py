"""Parsers that turn answers of judges into classes, and detection of refusals.

A parser is any callable that takes the raw answer and returns a class, None or ``flyingsquid.ABSTAIN`` to
abstain, or a member of :class:`Missing`. A judge takes its classes from the parsers of this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, get_args

from flyingsquid._values import can_be_iterated, option_error
from flyingsquid.exceptions import OptionError
from flyingsquid.votes import conventions
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.encode import as_float
from flyingsquid.votes.scores import Bins, Threshold, read_scores

Pick: TypeAlias = Literal["only", "first", "last"]


class Missing(Enum):
    """Reason why an answer is not a vote. A judge or a parser may return a member instead of an answer.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> fs.judges.answers.yes_no()("I cannot tell.")
    <Missing.UNPARSEABLE: 'unparseable'>
    """

    ABSTAINED = "abstained"
    REFUSED = "refused"
    UNPARSEABLE = "unparseable"
    FAILED = "failed"


ABSTAINED, REFUSED, UNPARSEABLE, FAILED = Missing


@dataclass(frozen=True, slots=True)
class Parser:
    """Parser with the classes that it can return.

    Attributes
    ----------
    read : callable
        Takes the raw answer; returns a class, None, ABSTAIN or a member of :class:`Missing`.
    classes : tuple of labels
        Empty if the parser does not restrict the classes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> parser = fs.judges.answers.yes_no()
    >>> parser.classes, parser("Yes, certainly.")
    ((0, 1), 1)
    """

    read: Callable[[Any], Any]
    classes: tuple[Label, ...] = ()

    def __call__(self, answer: Any) -> Any:
        return self.read(answer)


# ---------------------------------------------------------------------- parsers

# A hyphen or underscore within a word is part of it: "spam" matches "_spam_", but not "non-spam".
_BEFORE = r"(?<![^\W_])(?<![^\W_][-_])"
_AFTER = r"(?![^\W_])(?![-_][^\W_])"
# A name that is a number matches complete numbers only: not the 0 of "0.9", nor the 1 of "-1" or "1,000".
_BEFORE_DIGIT = r"(?<![.–-])(?<!\d,)"
_AFTER_DIGIT = r"(?![.,]\d)"


def class_name(names: Iterable[Label] | Mapping[str, Any], *, pick: Pick = "only") -> Parser:
    """Find the names of classes in an answer, as whole words, ignoring case.

    Parameters
    ----------
    names : iterable of labels, or mapping from str to label
        The classes, or a mapping from words in the answer to classes. In a mapping, None or
        ``flyingsquid.ABSTAIN`` abstains: ``{"yes": 1, "no": 0, "unsure": None}``. A longer name takes
        precedence over a shorter one that it contains, as "not spam" over "spam". The answer "-1" abstains,
        unless it is a name.
    pick : {"only", "first", "last"}, default="only"
        What to do if an answer names several classes: ``"only"`` makes it unparseable, ``"first"`` and
        ``"last"`` select one. Negations are not understood: "not ham, but spam" names both.

    Examples
    --------
    >>> parse = class_name(["ham", "spam"])
    >>> parse("I would say: **Spam**.")
    'spam'
    >>> parse("ham or spam"), parse("no idea")
    (<Missing.UNPARSEABLE: 'unparseable'>, <Missing.UNPARSEABLE: 'unparseable'>)
    >>> class_name(["ham", "spam"], pick="last")("It has a bit of ham, but it is spam")
    'spam'
    """
    if isinstance(names, str) or not can_be_iterated(names):
        raise option_error("names", "a list of classes, or a mapping from words to classes", names)
    given = dict(names) if isinstance(names, Mapping) else {str(label): label for label in names}
    by_name = {_normalize(str(name)): label for name, label in given.items()}
    if not by_name or "" in by_name or len(by_name) < len(given):
        raise option_error("names", "non-empty strings that differ in more than case", list(given))
    _check_pick(pick)
    longest_first = sorted(by_name, key=len, reverse=True)
    words = re.compile(f"{_BEFORE}(?:{'|'.join(map(_word_pattern, longest_first))}){_AFTER}")

    def read(answer: Any) -> Any:
        if not isinstance(answer, str):
            return by_name.get(_normalize(str(answer)), answer)
        text = _normalize(answer)
        if text == str(ABSTAIN):
            return by_name.get(text, ABSTAIN)
        return _pick([by_name[found] for found in words.findall(text)], pick)

    return Parser(read, _list_classes(by_name.values()))


def yes_no(yes: Any = 1, no: Any = 0, *, pick: Pick = "first") -> Parser:
    """Read "yes" and "no" as whole words, or True and False.

    Parameters
    ----------
    yes, no : label
        The classes, default 1 and 0.
    pick : {"only", "first", "last"}, default="first"
        As in :func:`class_name`.

    Examples
    --------
    >>> parse = yes_no()
    >>> parse("Yes, no doubt."), parse("No."), parse(True)
    (1, 0, 1)
    >>> parse("Perhaps")
    <Missing.UNPARSEABLE: 'unparseable'>
    """
    words = class_name({"no": no, "yes": yes}, pick=pick)

    def read(answer: Any) -> Any:
        if isinstance(answer, bool):
            return yes if answer else no
        return words(answer)

    return Parser(read, words.classes)


def pattern(regex: str, then: Callable[[Any], Any] | None = None, *, pick: Pick = "only") -> Parser:
    """Read the match of a regular expression: its first group, or the whole match if it has no group.

    Parameters
    ----------
    regex : str
        Answers are untrusted input, so avoid patterns that can take very long, such as nested repetitions.
    then : callable, optional
        A parser for the match. Default: the match is the name of a class.
    pick : {"only", "first", "last"}, default="only"
        As in :func:`class_name`, for several matches.

    Examples
    --------
    >>> parse = pattern(r"Verdict:\\s*(\\w+)")
    >>> parse("It tries to sell something. Verdict: spam")
    'spam'
    >>> pattern(r"Score:\\s*(\\S+)", then=score(0.5))("Score: 0.8, of 1")
    1
    """
    _check_pick(pick)
    compiled = _compile("regex", regex)

    def read(answer: Any) -> Any:
        matches = list(compiled.finditer(str(answer)))
        found = _pick([m[1] if compiled.groups else m[0] for m in matches], pick)
        return found if then is None or isinstance(found, Missing) else then(found)

    return Parser(read, tuple(getattr(then, "classes", ())))


def json_field(field: str | Sequence[str], then: Callable[[Any], Any] | None = None) -> Parser:
    """Read a field of the first JSON object in the answer, ignoring other text.

    Parameters
    ----------
    field : str or sequence of str
        The name of the field, or names that lead into nested objects. A field that is null abstains; an
        answer without the field is unparseable.
    then : callable, optional
        A parser for the value. Default: the value is a class or the name of one.

    Examples
    --------
    >>> parse = json_field("label", then=yes_no())
    >>> parse('Here it is: {"reason": "a link", "label": "yes"}')
    1
    >>> parse('{"label": null}') is None, parse('{"label": "yes"')
    (True, <Missing.UNPARSEABLE: 'unparseable'>)
    """
    path = (field,) if isinstance(field, str) else tuple(field)
    if not path:
        raise OptionError("`field` must be one or more names; got none.")

    def read(answer: Any) -> Any:
        value = answer if isinstance(answer, dict) else _first_object(str(answer))
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return UNPARSEABLE
            value = value[name]
        return value if then is None or value is None else then(value)

    return Parser(read, tuple(getattr(then, "classes", ())))


def score(
    thresholds: Threshold | None = None,
    bins: Bins | None = None,
    *,
    classes: Sequence[Label] | None = None,
    low: float = -math.inf,
    high: float = math.inf,
    pick: Pick = "only",
) -> Parser:
    """Read a number, and convert it to a class like ``flyingsquid.Votes.from_scores``.

    Parameters
    ----------
    thresholds, bins : optional
        As in ``Votes.from_scores``, for one source.
    classes : sequence of K labels, optional
        From lowest to highest. Default: 0..K-1.
    low, high : float
        The ends of the scale. A number outside it is unparseable.
    pick : {"only", "first", "last"}, default="only"
        Which number to read from an answer with several different ones.

    Examples
    --------
    >>> parse = score(bins=[4, 8], classes=["bad", "ok", "good"], low=0, high=10)
    >>> parse(9), parse("I give it 7/10."), parse("11"), parse("between 3 and 5")
    ('good', 'ok', <Missing.UNPARSEABLE: 'unparseable'>, <Missing.UNPARSEABLE: 'unparseable'>)
    """
    _check_pick(pick)
    labels = read_scores([[0.0]], thresholds, bins, classes, None)[1]

    def read(answer: Any) -> Any:
        value = number(answer, pick=pick)
        if math.isnan(value):
            return None if not isinstance(answer, str) else UNPARSEABLE
        if not low <= value <= high:
            return UNPARSEABLE
        code = int(read_scores([[value]], thresholds, bins, None, None)[0][0, 0])
        return ABSTAINED if code < 0 else labels[code]

    return Parser(read, labels)


# "7/10" and "7 out of 10" are 7. The 4 of "GPT-4", ranges such as "3-5", "7.5kg" and "1,000" are ignored.
# Atomic groups (?>...) match all digits of a number or none, so that "0.8-0.9" does not contain 0.
_DIGITS = r"(?>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_NUMBER = re.compile(
    rf"(?<![\w.+–-])(?:[-+]?{_DIGITS}(?<!\.)\s*[-–]\s*[-+]?{_DIGITS}|\d{{1,3}}(?:,\d{{3}})+(?!\d)"
    rf"|([-+]?{_DIGITS})(?!\w|\.\d|\s*[-–]\s*\d)(?:\s*(?:/|out of)\s*\d+(?:\.\d+)?)?)"
)


def number(answer: Any, *, pick: Pick = "only") -> float:
    """Return the number in an answer; NaN if there is none, or several different ones with ``pick="only"``.

    Parameters
    ----------
    answer : object
    pick : {"only", "first", "last"}, default="only"

    Examples
    --------
    >>> number("Score: 8/10"), number(0.25), number("GPT-4 agrees")
    (8.0, 0.25, nan)
    """
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        return as_float(answer)
    if not isinstance(answer, str):
        return math.nan
    texts = _NUMBER.findall(answer.replace("−", "-"))
    found = _pick([float(text) for text in texts if text], pick)
    return math.nan if isinstance(found, Missing) else float(found)


# ---------------------------------------------------------------------- refusals

REFUSAL_PATTERNS = conventions.REFUSAL_PATTERNS
"""Regular expressions that match the beginning of refusals, in lower case with straight apostrophes.

All of them are about "I": "it violates the content policy" is a verdict and not a refusal.
"""


def refusal(patterns: Iterable[str] = REFUSAL_PATTERNS, *, within: int = 200) -> Callable[[str], bool]:
    """Return a function that detects refusals.

    Parameters
    ----------
    patterns : iterable of str
        Regular expressions as in :data:`REFUSAL_PATTERNS`, the default.
    within : int, default=200
        An answer is a refusal if a match begins within this many characters.

    Returns
    -------
    callable from str to bool

    Examples
    --------
    >>> refuses = refusal()
    >>> refuses("I'm sorry, but I can't help with that."), refuses("I am sorry to say that it is spam")
    (True, False)
    >>> refusal([*REFUSAL_PATTERNS, "^pass$"])("Pass")
    True
    """
    if isinstance(patterns, str) or not can_be_iterated(patterns):
        raise option_error("patterns", "a list of regular expressions", patterns)
    compiled = [_compile("patterns", p) for p in patterns]

    def test(text: str) -> bool:
        head = _normalize(text[: within + 200]).replace("’", "'")
        return any((m := p.search(head)) is not None and m.start() <= within for p in compiled)

    return test


# ---------------------------------------------------------------------- helpers


def _normalize(text: str) -> str:
    """Normalize case, spaces and minus signs, to compare names and phrases."""
    return " ".join(text.casefold().replace("−", "-").split())


def _compile(parameter: str, regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except (re.error, TypeError) as error:
        raise option_error(parameter, f"a regular expression ({error})", regex) from error


def _word_pattern(name: str) -> str:
    """Return a pattern for a name as a whole word."""
    before = _BEFORE_DIGIT if name[0].isdigit() else ""
    return before + re.escape(name) + (_AFTER_DIGIT if name[-1].isdigit() else "")


def _list_classes(values: Iterable[Any]) -> tuple[Label, ...]:
    kept = (v for v in values if v is not None and not isinstance(v, Missing) and v != ABSTAIN)
    found = tuple(dict.fromkeys(kept))
    # Numbers are sorted, so that code k means class k if the classes are 0..K-1.
    return tuple(sorted(found)) if all(isinstance(v, (int, float)) for v in found) else found


def _pick(found: list[Any], pick: Pick) -> Any:
    if not found or (pick == "only" and any(value != found[0] for value in found)):
        return UNPARSEABLE
    return found[-1] if pick == "last" else found[0]


def _check_pick(pick: str) -> None:
    if pick not in get_args(Pick):
        raise option_error("pick", f"one of {', '.join(get_args(Pick))}", pick)


def _first_object(text: str) -> Any:
    """Return the first JSON object in a string, or None."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    # Each attempt may read to the end; a malicious answer could otherwise cause thousands of attempts.
    for _ in range(50):
        if at < 0:
            break
        try:
            return decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
    return None
