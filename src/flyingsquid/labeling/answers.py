"""What a judge answered, as a class: parsers for texts, numbers and JSON, and what a refusal looks like.

A parser is any callable that takes the raw answer and returns a class, None or ``flyingsquid.ABSTAIN`` for an
abstain, or one of :class:`Missing`. Those made here know their classes, so that a judge need not repeat them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.scores import Bins, Threshold, read_scores

Pick: TypeAlias = Literal["only", "first", "last"]


class Missing(Enum):
    """Why an answer is no vote. A judge, or a parser, may return one of these instead of an answer."""

    ABSTAINED = "abstained"
    REFUSED = "refused"
    UNPARSEABLE = "unparseable"
    FAILED = "failed"


ABSTAINED, REFUSED, UNPARSEABLE, FAILED = Missing


@dataclass(frozen=True, slots=True)
class Parser:
    """A way to read answers that knows which classes it can give.

    Attributes
    ----------
    read : callable from the raw answer to a class, None, ABSTAIN or :class:`Missing`
    classes : tuple of labels; empty where it gives whatever it finds
    """

    read: Callable[[Any], Any]
    classes: tuple[Label, ...] = ()

    def __call__(self, answer: Any) -> Any:
        return self.read(answer)


# ---------------------------------------------------------------------- parsers

# A hyphen or underscore inside a word joins it: "non-spam" and "not_spam" do not hold "spam", "_spam_" does.
_BEFORE = r"(?<![^\W_])(?<![^\W_][-_])"
_AFTER = r"(?![^\W_])(?![-_][^\W_])"
# A name that is a number is all of one: the 0 of "0.9", the 1 of "-1" and that of "1,000" are none.
_BEFORE_DIGIT = r"(?<![.–-])(?<!\d,)"
_AFTER_DIGIT = r"(?![.,]\d)"


def class_name(names: Iterable[Label] | Mapping[str, Any], *, pick: Pick = "only") -> Parser:
    """Look for the names of classes in a text, as whole words, in any case.

    Parameters
    ----------
    names : the classes, or a mapping from what the text says to a class
        In a mapping None or ``flyingsquid.ABSTAIN`` is an abstain: ``{"yes": 1, "no": 0, "unsure": None}``.
        A longer name wins where it holds a shorter one: with "not spam" and "spam" both are told apart.
        A text that is "-1" and nothing else abstains as the number does, unless that is a name.
    pick : what to do when a text names several classes
        ``"only"`` makes such an answer unparseable; ``"first"`` and ``"last"`` take that one. A negation is
        not understood: "not ham, but spam" names both.

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
    given = dict(names) if isinstance(names, Mapping) else {str(label): label for label in names}
    by_name = {_spaced(str(name)): label for name, label in given.items()}
    if not by_name or "" in by_name or len(by_name) < len(given):
        raise OptionError(
            f"names={told(list(given))}: names of classes are texts that differ in more than case"
        )
    _check_pick(pick)
    longest_first = sorted(by_name, key=len, reverse=True)
    words = re.compile(f"{_BEFORE}(?:{'|'.join(map(_whole_word, longest_first))}){_AFTER}")

    def read(answer: Any) -> Any:
        if not isinstance(answer, str):
            return by_name.get(_spaced(str(answer)), answer)
        text = _spaced(answer)
        if text == str(ABSTAIN):
            return by_name.get(text, ABSTAIN)
        return _picked([by_name[found] for found in words.findall(text)], pick)

    return Parser(read, _classes_among(by_name.values()))


def yes_no(yes: Any = 1, no: Any = 0, *, pick: Pick = "first") -> Parser:
    """Read "yes" and "no" as whole words, or True and False. By default the first of them decides.

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
    """Read what ``regex`` finds: its first group, or all of the match where it has no group.

    ``then`` reads what was found; without it, it must be the name of a class. Use no pattern that can take
    for ever on a strange text, such as nested repetitions: answers come from a model.

    >>> parse = pattern(r"Verdict:\\s*(\\w+)")
    >>> parse("It tries to sell something. Verdict: spam")
    'spam'
    >>> pattern(r"Score:\\s*(\\S+)", then=score(0.5))("Score: 0.8, of 1")
    1
    """
    _check_pick(pick)
    compiled = re.compile(regex)

    def read(answer: Any) -> Any:
        matches = list(compiled.finditer(str(answer)))
        found = _picked([m[1] if compiled.groups else m[0] for m in matches], pick)
        return found if then is None or isinstance(found, Missing) else then(found)

    return Parser(read, tuple(getattr(then, "classes", ())))


def json_field(field: str | Sequence[str], then: Callable[[Any], Any] | None = None) -> Parser:
    """Read a field of the first JSON object in the answer, whatever stands around it.

    ``field`` is a name, or a sequence of names that leads into nested objects. ``then`` reads the value;
    without it, the value must be a class or the name of one. null is an abstain, an absent field is
    unparseable.

    >>> parse = json_field("label", then=yes_no())
    >>> parse('Here it is: {"reason": "a link", "label": "yes"}')
    1
    >>> parse('{"label": null}') is None, parse('{"label": "yes"')
    (True, <Missing.UNPARSEABLE: 'unparseable'>)
    """
    path = (field,) if isinstance(field, str) else tuple(field)
    if not path:
        raise OptionError("field=(): name the field that holds the answer")

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
    """Read a number, and make it a class as ``flyingsquid.Votes.from_scores`` does.

    Parameters
    ----------
    thresholds, bins : as in ``Votes.from_scores``, for this one judge
    classes : K labels, lowest first; default 0..K-1
    low, high : the ends of the scale; a number beyond them is unparseable
    pick : which number of a text that holds several different ones

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


# "7/10" and "7 out of 10" are 7; the 4 of "GPT-4" is no number, and neither is any of a range, "3-5", nor
# "7.5kg" or "1,000". Groups (?>...) take all of a number or nothing: "0.8-0.9" holds no 0.
_DIGITS = r"(?>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_NUMBER = re.compile(
    rf"(?<![\w.+–-])(?:[-+]?{_DIGITS}(?<!\.)\s*[-–]\s*[-+]?{_DIGITS}|\d{{1,3}}(?:,\d{{3}})+(?!\d)"
    rf"|([-+]?{_DIGITS})(?!\w|\.\d|\s*[-–]\s*\d)(?:\s*(?:/|out of)\s*\d+(?:\.\d+)?)?)"
)


def number(answer: Any, *, pick: Pick = "only") -> float:
    """The number in an answer, NaN where there is none, or several different ones and ``pick="only"``.

    >>> number("Score: 8/10"), number(0.25), number("GPT-4 says so")
    (8.0, 0.25, nan)
    """
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        return float(answer)
    if not isinstance(answer, str):
        return math.nan
    texts = _NUMBER.findall(answer.replace("−", "-"))
    found = _picked([float(text) for text in texts if text], pick)
    return math.nan if isinstance(found, Missing) else float(found)


# ---------------------------------------------------------------------- refusals

REFUSAL_PATTERNS = (
    r"\bsorry,? (?:but )?i(?:'m| am)? (?:can't|cannot|can not|won't|will not|unable|not able|must decline)",
    r"\bi (?:can't|cannot|can not|won't|will not) (?:assist|help|comply|provide|answer|respond|judge|rate"
    r"|assess|evaluate|classify|label|discuss|engage|fulfil|continue|do th|participate|make (?:a|th))",
    r"\bi(?:'m| am) (?:unable|not able|not allowed|not permitted|not comfortable) ",
    r"\bi (?:must |have to |respectfully )*(?:decline|refuse)\b",
    r"\bas an ai(?: language)?(?: model| assistant)?,? i\b",
    r"\bagainst my (?:guidelines|policy|policies|programming)\b",
)
"""What a refusal begins with, as regular expressions on the text in lower case with straight apostrophes.

They are about "I" throughout: "it violates the content policy" is a verdict, no refusal.
"""


def refusal(patterns: Iterable[str] = REFUSAL_PATTERNS, *, within: int = 200) -> Callable[[str], bool]:
    """A test whether a text is a refusal: one of ``patterns`` begins in its first ``within`` characters.

    >>> refuses = refusal()
    >>> refuses("I'm sorry, but I can't help with that."), refuses("I am sorry to say that it is spam")
    (True, False)
    >>> refusal([*REFUSAL_PATTERNS, "^pass$"])("Pass")
    True
    """
    compiled = [re.compile(p) for p in patterns]

    def test(text: str) -> bool:
        head = _spaced(text[: within + 200]).replace("’", "'")
        return any((m := p.search(head)) is not None and m.start() <= within for p in compiled)

    return test


# ---------------------------------------------------------------------- helpers


def _spaced(text: str) -> str:
    """In one case, with single spaces and one kind of minus: how names and phrases are compared."""
    return " ".join(text.casefold().replace("−", "-").split())


def _whole_word(name: str) -> str:
    """A pattern for a name."""
    before = _BEFORE_DIGIT if name[0].isdigit() else ""
    return before + re.escape(name) + (_AFTER_DIGIT if name[-1].isdigit() else "")


def _classes_among(values: Iterable[Any]) -> tuple[Label, ...]:
    kept = (v for v in values if v is not None and not isinstance(v, Missing) and v != ABSTAIN)
    found = tuple(dict.fromkeys(kept))
    # Numbers in their order, so that code k stands for class k where classes are 0..K-1.
    return tuple(sorted(found)) if all(isinstance(v, (int, float)) for v in found) else found


def _picked(found: list[Any], pick: Pick) -> Any:
    if not found or (pick == "only" and any(value != found[0] for value in found)):
        return UNPARSEABLE
    return found[-1] if pick == "last" else found[0]


def _check_pick(pick: str) -> None:
    if pick not in get_args(Pick):
        raise OptionError(f"pick={told(pick)} is unknown; known: {', '.join(get_args(Pick))}")


def _first_object(text: str) -> Any:
    """The first JSON object in ``text``, or None."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    # Each try can read to the end of the text; a hostile one would make us try thousands of times.
    for _ in range(50):
        if at < 0:
            break
        try:
            return decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
    return None


def plain(answer: Any) -> Any:
    """An answer as JSON keeps it: texts, numbers, booleans, None, lists and dicts of them. NaN is None.

    A reason of :class:`Missing` stays one.

    >>> plain(np.float32(0.5)), plain(float("nan"))
    (0.5, None)
    """
    if isinstance(answer, np.generic):
        answer = answer.item()
    if answer is None or isinstance(answer, (str, bool, int, Missing)):
        # A lone surrogate has no UTF-8; it comes of a byte that was no text.
        return answer.encode("utf-8", "replace").decode() if isinstance(answer, str) else answer
    if isinstance(answer, float):
        # JSON has no infinity; the largest number reaches the same thresholds.
        largest = np.finfo(np.float64).max
        return None if math.isnan(answer) else float(min(max(answer, -largest), largest))
    if isinstance(answer, (list, tuple)):
        return [plain(part) for part in answer]
    if isinstance(answer, dict) and all(isinstance(key, str) for key in answer):
        return {key: plain(value) for key, value in answer.items()}
    raise TypeError(
        f"the answer is a {type(answer).__name__}; a judge returns a text, a number, None or JSON data. "
        "Return the text that the client's response holds"
    )
