"""Every judge on every item: kept answers first, the rest asked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling.answers import Missing
from flyingsquid.labeling.judge import Judge, with_classes
from flyingsquid.labeling.judge_calls import Calls, Clock, OnError, Result, read_answer
from flyingsquid.labeling.judge_file import AnswerFile, Kept
from flyingsquid.labeling.judge_items import canonical, digest, fingerprints, read_ids, read_items
from flyingsquid.labeling.judge_result import JudgeRun, count_outcomes
from flyingsquid.labeling.progress import progress_bar
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label, code_of_reason, read_names, smallest_dtype

Reason = Literal["abstained", "refused", "unparseable", "failed"]


def ask_judges(
    judges: Iterable[Judge] | Judge,
    items: Any,
    *,
    ids: Iterable[str | int] | None = None,
    classes: Sequence[Label] | None = None,
    cache: str | os.PathLike[str] | None = None,
    ask_again: Iterable[Reason] = ("failed",),
    fingerprint: Callable[[Any], Any] | None = None,
    concurrency: int = 8,
    on_error: OnError = "abstain",
    progress: bool = False,
    random_state: RandomState = None,
) -> JudgeRun:
    """Ask every judge about every item.

    Parameters
    ----------
    judges : one or more :class:`Judge` of different names
    items : sequence or other finite iterable, or a pandas, polars or pyarrow table
        Each item goes to ``ask`` as it is; rows of a table as dicts.
    ids : one text or whole number an item, optional
        Identifiers, each once. They are part of the fingerprint of an item.
    classes : sequence of K labels, optional
        Default: those of the judges.
    cache : path, optional
        A file of answers, made where there is none. Answers in it are not asked for again, and new ones are
        added as they come, so a run that was killed is resumed by the same call. Two runs cannot share it at
        the same time.
    ask_again : reasons
        Kept answers that are read as one of these are asked for again. Default: only the failed ones.
    fingerprint : callable from an item to plain data, optional
        What an item's kept answers depend on. Default: all of its content.
    concurrency : int
        How many calls may run at once. A call that timed out counts no more, though its thread may still
        wait.
    on_error : ``"abstain"`` or ``"raise"``
        Whether an item that failed after its last attempt is a missing vote with the reason ``failed``, or
        ends the run with its error. The same holds for a parser that raises; its answer is unparseable.
    progress : bool
        Whether to draw a progress bar on standard error.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the random part of the waits before retries.

    Returns
    -------
    JudgeRun
        ``.votes``, ``.answers`` and counts; prints as a table.

    Notes
    -----
    An answer is written to ``cache`` by the thread that received it, as soon as ``parse`` has read it.
    Only an answer that was on its way, or not yet written, when the process was killed is asked for again. On
    KeyboardInterrupt calls under way are left behind and everything answered is in the file.

    All coroutines of a run share one event loop, which ends with it: make an asynchronous client for each
    run.

    Examples
    --------
    >>> from flyingsquid.labeling import answers
    >>> shouts = Judge("shouts", lambda text: "yes" if text.isupper() else "no", parse=answers.yes_no())
    >>> clicks = lambda text: "yes!" if "click" in text.lower() else "hard to say"
    >>> begs = Judge("begs", clicks, parse=answers.yes_no())
    >>> run = ask_judges([shouts, begs], ["CLICK HERE", "nice song"])
    >>> run.votes.codes
    array([[ 1,  1],
           [ 0, -3]], dtype=int8)
    >>> print(run)
    judge   answered  abstained  refused  unparseable  failed  asked  kept  retries  timeouts
    shouts         2          0        0            0       0      2     0        0         0
    begs           1          0        0            1       0      2     0        0         0
    begs, first unparseable: hard to say
    """
    panel, labels = with_classes(_read_judges(judges), classes)
    again = _read_options(concurrency, on_error, ask_again)
    found = read_items(items)
    names = read_ids(ids, len(found))
    keys = [] if cache is None else _keys(panel, found, names, fingerprint)
    file = None if cache is None else AnswerFile(cache)

    def keep(j: int, i: int, kept: Kept, outcome: Any) -> None:
        if file is not None:
            file.write(panel[j].name, i if names is None else names[i], keys[j][i], kept, outcome)

    try:
        known = {} if file is None else _known(panel, keys, file, again, on_error)
        cells = [(j, i) for i in range(len(found)) for j in range(len(panel)) if (j, i) not in known]
        rng = read_random_state(random_state)
        calls = Calls(
            panel, found, cells, concurrency=concurrency, keep=keep, on_error=on_error, rng=rng, clock=Clock()
        )
        _run(calls, len(found) * len(panel), progress)
    finally:
        if file is not None:
            file.close()
    return _gathered(panel, labels, len(found), names, known, calls)


# ---------------------------------------------------------------------- before


def _read_judges(judges: Iterable[Judge] | Judge) -> list[Judge]:
    found = [judges] if isinstance(judges, Judge) else list(judges)
    wrong = next((judge for judge in found if not isinstance(judge, Judge)), None)
    if wrong is not None or not found:
        raise OptionError(f"judges={told(found)}: pass one Judge or more")
    read_names([judge.name for judge in found], len(found))
    return found


def _read_options(concurrency: Any, on_error: Any, ask_again: Any) -> frozenset[str]:
    if type(concurrency) is not int or concurrency < 1:
        raise OptionError(f"concurrency={told(concurrency)} is no whole number from 1 on")
    if on_error not in get_args(OnError):
        raise OptionError(f"on_error={told(on_error)} is unknown; known: {', '.join(get_args(OnError))}")
    again = frozenset([ask_again] if isinstance(ask_again, str) else ask_again)
    if not again <= set(get_args(Reason)):
        raise OptionError(f"ask_again={told(sorted(again))}: known reasons are {', '.join(get_args(Reason))}")
    return again


def _keys(
    judges: list[Judge],
    items: list[Any],
    ids: list[str | int] | None,
    fingerprint: Callable[[Any], Any] | None,
) -> list[list[str]]:
    """For each judge the fingerprint of its version and each item."""
    prints = fingerprints(items, ids, fingerprint)
    versions = [canonical(judge.version, f"the version of judge {judge.name!r}") for judge in judges]
    return [[digest(version + item) for item in prints] for version in versions]


def _known(
    judges: list[Judge], keys: list[list[str]], file: AnswerFile, again: frozenset[str], on_error: OnError
) -> dict[tuple[int, int], Result]:
    """Kept answers, read anew: the parser may be another one by now."""
    known = {}
    for j, judge in enumerate(judges):
        for i, key in enumerate(keys[j]):
            kept = file.kept.get((judge.name, key))
            if kept is None:
                continue
            result = read_answer(judge, kept)
            if result.parse_error is not None and on_error == "raise":
                result.parse_error.add_note(f"judge {judge.name!r}, item {i}, a kept answer")
                raise result.parse_error
            if not (isinstance(result.outcome, Missing) and result.outcome.value in again):
                known[j, i] = result
    return known


# ---------------------------------------------------------------------- meanwhile


def _run(calls: Calls, n_cells: int, progress: bool) -> None:
    """Run the calls in a thread of their own.

    An interrupt reaches the main thread only. Here it waits, so that no decision and no line is cut in two.
    """
    errors: list[BaseException] = []

    def work() -> None:
        try:
            calls.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True, name="judges")
    with progress_bar(progress, n_cells, "judges") as advance:
        thread.start()
        left = n_cells
        try:
            while thread.is_alive():
                thread.join(0.2)
                now = calls.left  # read once: the thread goes on meanwhile
                advance(left - now)
                left = now
        except BaseException:
            calls.stop()
            thread.join(10)
            raise
    if errors:
        raise errors[0]


# ---------------------------------------------------------------------- after


def _gathered(
    judges: list[Judge],
    labels: tuple[Label, ...],
    n_items: int,
    ids: list[str | int] | None,
    known: dict[tuple[int, int], Result],
    calls: Calls,
) -> JudgeRun:
    results = known | calls.results
    table = [[results[j, i] for j in range(len(judges))] for i in range(n_items)]
    codes = np.empty((n_items, len(judges)), smallest_dtype(len(labels)))
    answers = np.full(codes.shape, None, object)
    unparseable: list[str | None] = [None] * len(judges)
    for i, row in enumerate(table):
        for j, result in enumerate(row):
            outcome, answer = result.outcome, result.kept.answer
            missing = isinstance(outcome, Missing)
            codes[i, j] = code_of_reason(outcome.value) if missing else labels.index(outcome)
            answers[i, j] = None if isinstance(answer, Missing) else answer
            if outcome is Missing.UNPARSEABLE and unparseable[j] is None:
                error = result.parse_error
                why = "" if error is None else f" ({type(error).__name__} in its parser)"
                unparseable[j] = f"{answer!s:.200}{why}"
    counts = count_outcomes([[result.outcome for result in row] for row in table])
    counts["kept"] = np.bincount(np.array([j for j, _ in known], np.intp), minlength=len(judges)).astype(
        np.int64
    )
    for name in ("asked", "retries", "timeouts"):
        counts[name] = np.array([tally.counts[name] for tally in calls.tallies], np.int64)
    errors = [tally.first_error for tally in calls.tallies]
    for (j, _), result in known.items():
        errors[j] = errors[j] or result.kept.error
    votes = Votes(codes, labels, tuple(judge.name for judge in judges), _as_items(ids))
    return JudgeRun(votes, answers, counts, tuple(errors), tuple(unparseable))


def _as_items(ids: list[str | int] | None) -> NDArray[Any] | None:
    if ids is None:
        return None
    mixed = len({type(i) for i in ids}) > 1
    return np.array(ids, dtype=object if mixed else None)
