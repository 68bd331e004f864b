"""Judges: calls, parsing of answers, and retries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from flyingsquid._values import can_be_iterated, format_list, format_value, is_null, option_error
from flyingsquid.exceptions import OptionError
from flyingsquid.judges.answers import ABSTAINED, REFUSED, UNPARSEABLE, Missing, class_name, refusal
from flyingsquid.votes.codes import ABSTAIN, Label, code_of_reason
from flyingsquid.votes.encode import Convention

# Errors of a program, which another attempt would repeat.
_PROGRAM_ERRORS = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, SyntaxError)
# The client errors (status 4xx) that may pass: timeout, conflict, too early, too many requests.
_TRANSIENT_STATUS = (408, 409, 425, 429)

_is_refusal = refusal()


def is_transient(error: BaseException) -> bool:
    """Return whether to ask again after ``error``: not after program errors and permanent client errors.

    A client error has a status from 400 to 499: ``status_code`` or ``code`` of the error or of its
    ``response``, as HTTP clients provide it.

    >>> is_transient(ConnectionResetError()), is_transient(TypeError())
    (True, False)
    """
    if isinstance(error, _PROGRAM_ERRORS):
        return False
    holders = (error, getattr(error, "response", None))
    found = [getattr(holder, name, None) for holder in holders for name in ("status_code", "code")]
    status = next((s for s in found if isinstance(s, int)), 500)
    return not 400 <= status < 500 or status in _TRANSIENT_STATUS


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """A prompt, a model or a person as a source of votes. :func:`ask_judges` asks it.

    Parameters
    ----------
    name : str
        Name of the source. Cached answers are stored under it.
    ask : callable or coroutine function
        Takes one item; returns a string, a number, None to abstain, JSON data, or a member of
        ``answers.Missing``, such as ``answers.REFUSED`` if the client reports a refusal. Raises if it fails.
    parse : callable, optional
        Takes an answer and returns a class; see ``flyingsquid.judges.answers``. Default:
        ``class_name(classes)``.
    classes : sequence of labels, optional
        Classes it can vote for. Default: those of ``parse``, or those of the other judges.
    version : str or JSON data
        Everything that answers depend on besides the item: prompt, model, temperature. Cached answers of
        other versions are ignored. The parser is not part of it, because cached answers are parsed again.
    retries : int, default=2
        Number of further attempts after an error.
    backoff : float, default=1.0
        Seconds before the first retry. They double with each retry, and are multiplied by a random factor
        between 1/2 and 1. An error with ``retry_after`` or a ``Retry-After`` header in seconds takes
        precedence, and pauses all calls of this judge.
    max_wait : float, default=60.0
        The longest wait in seconds. If an error requests a longer one, the item fails at once.
    timeout : float, optional
        Seconds for one attempt. A coroutine is then cancelled. A plain function cannot be stopped: its
        thread continues and its result is ignored, so set a slightly shorter timeout in your client.
    concurrency : int, optional
        How many calls of this judge may run at once. Default: as many as the run allows.
    refuses : callable from str to bool, or None
        Detects refusals before ``parse`` is called. Default: ``answers.refusal()``.
    retry_if : callable from an error to bool
        Whether to ask again. Default: not after program errors and permanent HTTP client errors.

    Examples
    --------
    >>> from flyingsquid.judges import answers
    >>> judge = Judge("polite", lambda text: "Yes" if "please" in text else "No", parse=answers.yes_no())
    >>> judge.read("Yes"), judge.read("I cannot judge that"), judge.read("Perhaps")
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
            raise option_error("name", "a non-empty string", self.name)
        for option in ("ask", "parse", "refuses", "retry_if"):
            optional = option in ("parse", "refuses")
            self._check(option, "callable", callable, optional)
        is_list = lambda value: can_be_iterated(value) and not isinstance(value, str)  # noqa: E731
        self._check("classes", "a sequence of labels", is_list, optional=True)
        for option, lowest in (("retries", 0), ("concurrency", 1)):
            integer = lambda value, low=lowest: type(value) is int and value >= low  # noqa: E731
            self._check(option, f"an integer >= {lowest}", integer, option == "concurrency")
        for option in ("backoff", "max_wait"):
            self._check(option, "a finite number of seconds >= 0", _is_duration)
        positive = lambda value: _is_duration(value) and value > 0  # noqa: E731
        self._check("timeout", "a finite number of seconds > 0", positive, optional=True)
        classes = self.classes if self.classes is not None else getattr(self.parse, "classes", None) or None
        object.__setattr__(self, "classes", None if classes is None else tuple(classes))

    def _check(
        self, option: str, constraint: str, is_valid: Callable[[Any], bool], optional: bool = False
    ) -> None:
        value = getattr(self, option)
        if not is_valid(value) and not (optional and value is None):
            raise OptionError(
                f"`{option}` of judge {format_value(self.name)} must be {constraint}; got "
                f"{format_value(value)}."
            )

    def read(self, answer: Any) -> Any:
        """Return the class of an answer, or a member of ``answers.Missing``. Requires ``classes``."""
        if isinstance(answer, Missing):
            return answer
        if is_null(answer):
            return ABSTAINED
        if isinstance(answer, str) and not answer.strip():
            return UNPARSEABLE
        if isinstance(answer, str) and self.refuses is not None and self.refuses(answer):
            return REFUSED
        parse = class_name(self.classes or ()) if self.parse is None else self.parse
        return self._read_class(parse(answer))

    def _read_class(self, value: Any) -> Any:
        """Return the class for the result of a parser."""
        value = value.item() if isinstance(value, np.generic) else value
        classes = tuple(self.classes or ())
        if isinstance(value, Missing):
            return value
        try:
            if value in classes:
                return classes[classes.index(value)]
        except (TypeError, ValueError):  # such as an array, whose comparison is not a boolean
            return UNPARSEABLE
        if is_null(value) or (value == ABSTAIN and not isinstance(value, bool)):
            return ABSTAINED
        if isinstance(value, str):
            named = [label for label in classes if str(label).casefold() == value.strip().casefold()]
            return named[0] if len(named) == 1 else UNPARSEABLE
        return UNPARSEABLE


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """Final answer of a judge about one item."""

    raw: Any  # raw answer of the judge; ``FAILED`` if the last attempt raised an error
    error: str | None = None  # error of the last attempt
    attempts: int = 1
    # The class, or the reason why there is none; None before the answer is parsed.
    outcome: Any = None
    parse_error: Exception | None = None  # error of the parser; the answer is then unparseable

    def parse(self, judge: Judge) -> Answer:
        """Return the answer with its outcome."""
        try:
            return replace(self, outcome=judge.read(self.raw))
        except Exception as error:  # an answer that may have been paid for is kept
            return replace(self, outcome=UNPARSEABLE, parse_error=error)

    def code(self, labels: tuple[Label, ...]) -> int:
        """Return the code of the vote, or of the reason why it is missing."""
        outcome = self.outcome
        return code_of_reason(outcome.value) if isinstance(outcome, Missing) else labels.index(outcome)


def with_classes(
    judges: Sequence[Judge], classes: Iterable[Label] | None
) -> tuple[list[Judge], tuple[Label, ...]]:
    """Return the judges with all classes, and the classes: given ones, or those that the judges declare."""
    labels = None if classes is None else Convention.read(None, classes, None).classes
    for judge in judges:
        if judge.classes is None:
            continue
        if labels is None:
            labels = Convention.read(None, judge.classes, None).classes
        unknown = tuple(c for c in judge.classes if c not in (labels or ()))
        if unknown or (classes is None and len(judge.classes) < len(labels or ())):
            raise OptionError(
                f"`classes` of judge {format_value(judge.name)} must be {format_list(labels or ())}, as for "
                f"other judges; got {format_list(judge.classes)}. Pass `classes` to ask_judges if some "
                "judges use only some of them."
            )
    if labels is None:
        raise OptionError("`classes` must be a sequence of labels, because no judge declares any; got None.")
    if ABSTAIN in labels:
        raise OptionError(
            f"`classes` must not contain {ABSTAIN}, which means to abstain; got {format_list(labels)}."
        )
    return [
        replace(judge, classes=labels, parse=judge.parse or class_name(labels)) for judge in judges
    ], labels


# ---------------------------------------------------------------------- retries


def wait_before_retry(
    judge: Judge, attempt: int, error: BaseException, rng: np.random.Generator
) -> float | None:
    """Return the seconds to wait after failed ``attempt`` (1, 2, ...), or None if it was the last one.

    >>> rng = np.random.default_rng(0)
    >>> judge = Judge("a", str, retries=2, backoff=1)
    >>> [wait_before_retry(judge, k, OSError(), rng) for k in (1, 2, 3)]
    [0.8184808436607272, 1.2697867137638703, None]
    """
    if attempt > judge.retries or not judge.retry_if(error):
        return None
    requested = retry_after(error)
    if requested is not None:
        return requested if requested <= judge.max_wait else None
    # The random factor keeps calls that failed together from being repeated together.
    longest = min(judge.backoff * 2.0 ** min(attempt - 1, 60), judge.max_wait)
    return longest * (0.5 + rng.random() / 2)


def retry_after(error: BaseException) -> float | None:
    """Return the seconds to wait that an error requests, or None.

    >>> error = OSError()
    >>> error.retry_after = 3
    >>> retry_after(error)
    3.0
    """
    requested = getattr(error, "retry_after", None)
    for holder in (error, getattr(error, "response", None)):
        headers: Any = getattr(holder, "headers", None)
        if requested is None and hasattr(headers, "get"):
            requested = headers.get("Retry-After")
    try:
        seconds = float(requested)  # type: ignore[arg-type]  # None, a date or nonsense raises
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < math.inf else None
