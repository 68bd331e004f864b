"""A judge: somebody or something that is asked about each item, and how its answers are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from flyingsquid._values import is_null, listed, told
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling.answers import ABSTAINED, REFUSED, UNPARSEABLE, Missing, class_name, refusal
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.encode import Convention

# Asking once more does not mend a program.
_PROGRAM_ERRORS = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, SyntaxError)
# Of the answers "your request is wrong" (4xx) only these may turn out otherwise the next time: time out,
# conflict, too early, too many requests.
_PASSING_STATUS = (408, 409, 425, 429)


def is_transient(error: BaseException) -> bool:
    """Whether to ask again after ``error``: not after program errors, nor after a lasting status 400 to 499.

    The status is the error's ``status_code`` or ``code``, or its response's ``status_code``, as HTTP clients
    have it.

    >>> is_transient(ConnectionResetError()), is_transient(TypeError())
    (True, False)
    """
    if isinstance(error, _PROGRAM_ERRORS):
        return False
    holders = (error, getattr(error, "response", None))
    found = [getattr(h, name, None) for h in holders for name in ("status_code", "code")]
    status = next((s for s in found if isinstance(s, int)), 500)
    return not 400 <= status < 500 or status in _PASSING_STATUS


_is_refusal = refusal()


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """A prompt, a model or a person as a source of votes. :func:`ask_judges` asks it.

    Parameters
    ----------
    name : text
        The name of the source; answers are kept under it.
    ask : callable, plain or ``async``
        Takes one item; returns a text, a number, None to abstain, plain JSON data, or one of
        ``answers.Missing``, such as ``answers.REFUSED`` where a client says so. It raises where it failed.
    parse : callable from an answer to a class, optional
        See ``flyingsquid.labeling.answers``. Default: ``class_name(classes)``.
    classes : sequence of labels, optional
        What it may say. Default: those of ``parse``, or those of the other judges.
    version : text or plain JSON data
        What answers depend on besides the item: prompt, model, temperature. Kept answers of another version
        are not taken. The parser is no part of it, because kept answers are always read anew.
    retries : int
        How often to ask again after an error. Default 2: three attempts.
    backoff : float
        Seconds before the first retry, twice as many before each one after it, times a random factor between
        1/2 and 1. An error with ``retry_after`` (or a ``Retry-After`` header in seconds) is obeyed: the whole
        judge waits.
    max_wait : float
        The longest wait in seconds. Where the other side asks for more, the item fails at once.
    timeout : float, optional
        Seconds for one attempt. A plain function cannot be stopped: its thread is left behind, and what it
        still returns is thrown away. A coroutine is cancelled. Give your client a timeout of its own, a
        little shorter.
    concurrency : int, optional
        How many of its calls may run at once. Default: as many as the run allows.
    refuses : callable from a text to bool, or None
        Whether a text is a refusal; asked before ``parse``. Default ``answers.refusal()``.
    retry_if : callable from an error to bool
        Whether to ask again. Default :func:`is_transient`.

    Examples
    --------
    >>> from flyingsquid.labeling import answers
    >>> judge = Judge("polite", lambda text: "Yes" if "please" in text else "No", parse=answers.yes_no())
    >>> judge.outcome("Yes"), judge.outcome("I cannot judge that"), judge.outcome("Perhaps")
    (1, <Missing.REFUSED: 'refused'>, <Missing.UNPARSEABLE: 'unparseable'>)
    """

    name: str
    ask: Callable[[Any], Any]
    _: KW_ONLY
    parse: Callable[[Any], Any] | None = None
    classes: Sequence[Label] | None = None
    version: Any = ""
    retries: int = 2
    backoff: float = 1.0
    max_wait: float = 60.0
    timeout: float | None = None
    concurrency: int | None = None
    refuses: Callable[[str], bool] | None = _is_refusal
    retry_if: Callable[[BaseException], bool] = is_transient

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise OptionError(f"name={told(self.name)}: a judge is named by a text")
        for option in ("ask", "parse", "refuses", "retry_if"):
            value = getattr(self, option)
            if not callable(value) and (value is not None or option in ("ask", "retry_if")):
                raise OptionError(f"judge {told(self.name)}: {option}={told(value)} cannot be called")
        for option, lowest in (("retries", 0), ("concurrency", 1)):
            value = getattr(self, option)
            if value is not None and not (type(value) is int and value >= lowest):
                raise OptionError(
                    f"judge {told(self.name)}: {option}={told(value)} is no whole number from {lowest} on"
                )
        for option in ("backoff", "max_wait", "timeout"):
            value = getattr(self, option)
            known = isinstance(value, (int, float)) and 0 <= value < math.inf
            if value is not None and not (known and (value or option != "timeout")):
                raise OptionError(f"judge {told(self.name)}: {option}={told(value)} is no time in seconds")
        found = self.classes if self.classes is not None else getattr(self.parse, "classes", None) or None
        object.__setattr__(self, "classes", None if found is None else tuple(found))

    def outcome(self, answer: Any) -> Any:
        """The class that ``answer`` stands for, or one of ``answers.Missing``. Needs ``classes``."""
        if isinstance(answer, Missing):
            return answer
        if is_null(answer):
            return ABSTAINED
        if isinstance(answer, str) and not answer.strip():
            return UNPARSEABLE
        if isinstance(answer, str) and self.refuses is not None and self.refuses(answer):
            return REFUSED
        parse = class_name(self.classes or ()) if self.parse is None else self.parse
        return self._label(parse(answer))

    def _label(self, value: Any) -> Any:
        """What a parser returned, as a class."""
        value = value.item() if isinstance(value, np.generic) else value
        classes = tuple(self.classes or ())
        if isinstance(value, Missing):
            return value
        try:
            if value in classes:
                return classes[classes.index(value)]
        except (TypeError, ValueError):  # such as an array, which is neither equal nor unequal
            return UNPARSEABLE
        if is_null(value) or (value == ABSTAIN and not isinstance(value, bool)):
            return ABSTAINED
        if isinstance(value, str):
            named = [label for label in classes if str(label).casefold() == value.strip().casefold()]
            return named[0] if len(named) == 1 else UNPARSEABLE
        return UNPARSEABLE


def wait_before_retry(
    judge: Judge, attempt: int, error: BaseException, rng: np.random.Generator
) -> float | None:
    """Seconds to wait after failed ``attempt`` (1, 2, ...), or None where there is no other.

    >>> rng = np.random.default_rng(0)
    >>> judge = Judge("a", str, retries=2, backoff=1)
    >>> [wait_before_retry(judge, k, OSError(), rng) for k in (1, 2, 3)]
    [0.8184808436607272, 1.2697867137638703, None]
    """
    if attempt > judge.retries or not judge.retry_if(error):
        return None
    asked = retry_after(error)
    if asked is not None:
        return asked if asked <= judge.max_wait else None
    # The random factor keeps calls that failed together from coming back together.
    longest = min(judge.backoff * 2.0 ** min(attempt - 1, 60), judge.max_wait)
    return longest * (0.5 + rng.random() / 2)


def retry_after(error: BaseException) -> float | None:
    """How long the other side asked us to wait, in seconds, or None.

    >>> error = OSError()
    >>> error.retry_after = 3
    >>> retry_after(error)
    3.0
    """
    said = getattr(error, "retry_after", None)
    for holder in (error, getattr(error, "response", None)):
        headers: Any = getattr(holder, "headers", None)
        if said is None and hasattr(headers, "get"):
            said = headers.get("Retry-After")
    try:
        seconds = float(said)  # type: ignore[arg-type]  # a date, None or nonsense is no number
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < math.inf else None


def with_classes(
    judges: Iterable[Judge], classes: Iterable[Label] | None
) -> tuple[list[Judge], tuple[Label, ...]]:
    """The judges, each with all of the classes; those that none declares are refused."""
    judges = list(judges)
    known = None if classes is None else Convention.read(None, classes, None).classes
    for judge in judges:
        if judge.classes is None:
            continue
        if known is None:
            known = Convention.read(None, judge.classes, None).classes
        extra = tuple(c for c in judge.classes if c not in (known or ()))
        if extra or (classes is None and len(judge.classes) < len(known or ())):
            raise OptionError(
                f"judge {told(judge.name)} votes on {listed(judge.classes)}, others on "
                f"{listed(known or ())}. Pass classes= with all of them if some judges know only a few"
            )
    if known is None:
        raise OptionError("no judge says which classes there are; pass classes=")
    if ABSTAIN in known:
        raise OptionError("-1 cannot be a class of judges, because it means an abstain; rename it")
    return [replace(judge, classes=known, parse=judge.parse or class_name(known)) for judge in judges], known
