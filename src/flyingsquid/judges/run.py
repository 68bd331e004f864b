"""Asking judges about items: ``ask_judges`` and its result."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular, progress_bar
from flyingsquid._values import RandomState, format_count, format_value, option_error, read_random_state
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.judges.answer_file import AnswerFile
from flyingsquid.judges.answers import UNPARSEABLE, Missing, Pick, number
from flyingsquid.judges.asking import AdaptiveCalls, Asking, read_gold_codes
from flyingsquid.judges.calls import Calls, Clock, OnError
from flyingsquid.judges.judge import Answer, Judge, with_classes
from flyingsquid.judges.planner import Planner
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import Items, item_ids, join_labels
from flyingsquid.votes.codes import NOT_ASKED, REASONS, Label, read_names, smallest_dtype
from flyingsquid.votes.encode import as_column
from flyingsquid.votes.frames import is_frame, is_lazy

Reason = Literal["abstained", "refused", "unparseable", "failed"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeRun(Tabular):
    """Result of :func:`ask_judges`. Prints as a table of counts.

    Attributes
    ----------
    votes : Votes of shape (n, m)
        Missing votes have a reason: abstained, refused, unparseable, failed or not_asked.
    answers : object array of shape (n, m)
        Raw answer of each judge, before parsing; None if there is no answer.
    counts : dict from str to int array of shape (m,)
        ``answered`` and the five reasons add up to n. ``asked``: items asked about in this run. ``kept``:
        items whose answer was in the cache. ``retries`` and ``timeouts``: attempts of this run.
    first_errors, first_unparseable : tuple of m str or None
        The first error, and the first answer that could not be parsed, of each judge.
    asking : Asking or None
        With ``stop_at`` or ``budget``: what was asked for, why items were stopped, and their labels.
    """

    votes: Votes
    answers: NDArray[np.object_]
    counts: dict[str, NDArray[np.int64]]
    first_errors: tuple[str | None, ...]
    first_unparseable: tuple[str | None, ...]
    asking: Asking | None = None

    def table(self) -> Table:
        """Return one row per judge, and its first error and unparseable answer as footnotes."""
        reasons = [r for r in REASONS if r != "not_asked" or self.counts[r].any()]
        columns = ("answered", *reasons, "asked", "kept", "retries", "timeouts")
        rows: list[tuple[Scalar, ...]] = []
        notes = []
        for j, name in enumerate(self.votes.source_names):
            rows.append((name, *(int(self.counts[column][j]) for column in columns)))
            for kind, text in (("error", self.first_errors[j]), ("unparseable", self.first_unparseable[j])):
                if text is not None:
                    notes.append(f"{name}, first {kind}: {text if len(text) <= 100 else text[:97] + '...'}")
        formats = ("", *[",d"] * len(columns))
        return Table(("judge", *columns), tuple(rows), footnotes=tuple(notes), formats=formats)

    def scores(self, *, pick: Pick = "only") -> NDArray[np.float64]:
        """Return the number in each answer, shape (n, m), for ``fs.score_bins``; NaN if there is none.

        Parameters
        ----------
        pick : {"only", "first", "last"}, default="only"
            As in ``answers.number``.
        """
        flat = [number(answer, pick=pick) for answer in self.answers.ravel()]
        return np.array(flat, np.float64).reshape(self.answers.shape)


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
    stop_at: float | None = None,
    budget: float | None = None,
    costs: Mapping[str, float] | None = None,
    pilot: int | None = None,
    gold: Any = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> JudgeRun:
    """Ask every judge about every item, or only as many judges as an item needs.

    Parameters
    ----------
    judges : Judge or iterable of Judge
        Judges with unique names.
    items : finite iterable, or pandas, polars or pyarrow table
        Each item is passed to ``ask`` unchanged; rows of a table are passed as dicts.
    ids : iterable of str or int, optional
        One unique identifier per item, which becomes a part of its fingerprint.
    classes : sequence of K labels, optional
        Default: the classes of the judges.
    cache : str or path, optional
        A file of answers, created if it does not exist. Judges are not asked for answers in it. New answers
        are added as they arrive, so the same call resumes a run that was killed. Only one run at a time can
        use the file.
    ask_again : iterable of {"abstained", "refused", "unparseable", "failed"}, default=("failed",)
        Outcomes of cached answers for which to ask again.
    fingerprint : callable, optional
        Takes an item; returns JSON data that its cached answers depend on. Default: its whole content.
    concurrency : int, default=8
        How many calls may run at once. Calls that timed out do not count, although their threads may run.
    on_error : {"abstain", "raise"}, default="abstain"
        What happens if the last attempt for an item fails. ``"abstain"``: the vote is missing with the reason
        ``failed``. ``"raise"``: the error ends the run. The same applies to a parser that raises, whose
        answer is unparseable.
    stop_at : float above 0.5 and at most 1, optional
        Ask adaptively: all judges about a pilot, then one judge at a time about each other item, until asking
        the others would hardly improve its label. By the probabilities of the label model, the accuracy is at
        most ``(1 - stop_at) / 10`` below that of asking all judges; the pilot may be misleading, so replay
        some recorded votes with :func:`simulate_asking` first. At least two judges are asked about every
        item, unless they have fewer than 20 votes in the pilot. Default: ask every judge about every item,
        unless there is a ``budget``.
    budget : float, optional
        The highest number of calls, or the highest cost if there are ``costs``; retries count, and so do all
        calls that ``cache`` records for these judges and items, whose answers are used regardless. Judges are
        asked adaptively, and most valuable calls first.
    costs : mapping from str to float, optional
        Cost of one call for the name of each judge. Default: 1.
    pilot : int, optional
        Number of items that all judges are asked about first, spread evenly over the items. Default: 200, or
        a fifth of the items if that is less, but at least 30.
    gold : gold labels, optional
        For the label model of an adaptive run, as in ``LabelModel.fit``; helps if judges share a bias.
    progress : bool, default=False
        Whether to show a progress bar on standard error.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator for the random part of waiting times.

    Returns
    -------
    JudgeRun

    Notes
    -----
    Answers are written to ``cache`` as they arrive, so a run that was killed requests only those again that
    had not been received. An adaptive run asks in rounds, with at most one new call per item, and its
    decisions depend only on the answers. All coroutines share one event loop, which ends with the run. See
    ``docs/guides/judges.md``.

    Examples
    --------
    >>> from flyingsquid.judges import answers
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
    reasons = _read_options(concurrency, on_error, ask_again)
    found = _read_items(items)
    names = _read_ids(join_labels(ids, items, Items(len(found)), "ids"), len(found))
    planner, adaptive = None, None
    if stop_at is not None or budget is not None:
        available = np.ones((len(found), len(panel)), np.bool_)
        named = Items(len(found)) if names is None else Items.of(names)
        known = None
        if gold is not None:
            known = read_gold_codes(gold, item_ids(items, named, gold), labels, len(found), "gold")
        planner = Planner(
            labels,
            tuple(judge.name for judge in panel),
            available,
            stop_at=stop_at,
            budget=budget,
            costs=costs,
            pilot=pilot,
            gold=known,
        )
    else:
        _refuse_adaptive(costs=costs, pilot=pilot, gold=gold)
    with AnswerFile(cache, panel, found, names, fingerprint) as file:
        kept = file.find_answers(reasons, raises=on_error == "raise")
        cells = [(j, i) for i in range(len(found)) for j in range(len(panel)) if (j, i) not in kept]
        if planner is not None:
            record = None if budget is None else file.write_attempt
            adaptive = AdaptiveCalls(planner, kept, file.find_attempts(), record)
        calls = Calls(
            panel,
            found,
            cells if adaptive is None else (),
            concurrency=concurrency,
            store=file.write,
            on_error=on_error,
            rng=read_random_state(random_state),
            clock=Clock(),
            adaptive=adaptive,
        )
        with progress_bar("judges", len(cells), enabled=progress) as advance:
            _run(calls, advance)
    return _collect(calls, kept, labels, names, adaptive)


# ---------------------------------------------------------------------- arguments


def _read_judges(judges: Iterable[Judge] | Judge) -> list[Judge]:
    found = [judges] if isinstance(judges, Judge) else list(judges)
    if not found or not all(isinstance(judge, Judge) for judge in found):
        raise option_error("judges", "one or more Judge objects", found)
    read_names([judge.name for judge in found], len(found))
    return found


def _read_options(concurrency: Any, on_error: Any, ask_again: Any) -> frozenset[str]:
    if type(concurrency) is not int or concurrency < 1:
        raise option_error("concurrency", "an integer >= 1", concurrency)
    if on_error not in get_args(OnError):
        raise option_error("on_error", "'abstain' or 'raise'", on_error)
    reasons = frozenset([ask_again] if isinstance(ask_again, str) else ask_again)
    allowed = get_args(Reason)
    if not reasons <= set(allowed):
        raise OptionError(
            f"`ask_again` must contain only {', '.join(allowed)}; got {format_value(sorted(reasons))}."
        )
    return reasons


def _read_items(items: Any) -> list[Any]:
    """Return the items as a list; rows of a table as dicts.

    >>> _read_items(item for item in ("a", "b"))
    ['a', 'b']
    """
    if is_lazy(items):
        raise VotesError("`items` must not be a lazy table; pass frame.collect().")
    if is_frame(items):
        return list(nw.from_native(items, eager_only=True).iter_rows(named=True))
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise VotesError(f"`items` must be a table or an iterable of items; got {format_value(items)}.")
    found = list(items)
    if not found:
        raise VotesError("`items` must contain at least one item; got none.")
    return found


def _read_ids(ids: Any, n_items: int) -> list[str | int] | None:
    if ids is None:
        return None
    found = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(found) != n_items:
        raise VotesError(
            f"`ids` must have one identifier per item; got {len(found)} for {format_count(n_items, 'item')}."
        )
    for at, identifier in enumerate(found):
        if type(identifier) not in (str, int):
            raise VotesError(f"`ids[{at}]` must be a string or an integer; got {format_value(identifier)}.")
    repeated = next((i for i, count in Counter(found).items() if count > 1), None)
    if repeated is not None:
        raise VotesError(f"`ids` must be unique; got {format_value(repeated)} more than once.")
    return found


def _refuse_adaptive(**options: Any) -> None:
    """Raise an error for an option that only an adaptive run has."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"`{name}` applies only with `stop_at` or `budget`; got {format_value(value)}.")


# ---------------------------------------------------------------------- steps of a run


def _run(calls: Calls, advance: Callable[[int], None]) -> None:
    """Run the calls in another thread.

    A KeyboardInterrupt is raised in the main thread, which only waits here. So it never interrupts a decision
    or the writing of an answer.
    """
    errors: list[BaseException] = []

    def work() -> None:
        try:
            calls.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True, name="judges")
    n_done, is_running = 0, True
    thread.start()
    try:
        while is_running:
            thread.join(0.2)
            is_running = thread.is_alive()  # before the rest is counted, so that all of it is
            now = calls.n_done  # read once, because the thread changes it
            advance(now - n_done)
            n_done = now
    except BaseException:
        calls.stop()
        thread.join(10)
        raise
    if errors:
        raise errors[0]


def _collect(
    calls: Calls,
    kept: dict[tuple[int, int], Answer],
    labels: tuple[Label, ...],
    ids: list[str | int] | None,
    adaptive: AdaptiveCalls | None,
) -> JudgeRun:
    judges, n_items = calls.judges, len(calls.items)
    asking = None
    if adaptive is not None:
        kept, asking = adaptive.used, adaptive.report()
    codes = np.full((n_items, len(judges)), NOT_ASKED, smallest_dtype(len(labels)))
    raw = np.full(codes.shape, None, object)
    unparseable: list[str | None] = [None] * len(judges)
    for (j, i), answer in sorted((kept | calls.answers).items()):
        outcome = answer.outcome
        codes[i, j] = answer.code(labels)
        raw[i, j] = None if isinstance(answer.raw, Missing) else answer.raw
        if outcome is UNPARSEABLE and unparseable[j] is None:
            error = answer.parse_error
            why = "" if error is None else f" ({type(error).__name__} in its parser)"
            unparseable[j] = f"{answer.raw!s:.200}{why}"
    votes = Votes(
        codes, labels, tuple(judge.name for judge in judges), None if ids is None else as_column(ids, "ids")
    )
    counts = {reason: np.asarray(n, np.int64) for reason, n in votes.missing_counts().items()}
    counts["answered"] = n_items - np.sum(list(counts.values()), axis=0)
    for name in ("asked", "retries", "timeouts"):
        counts[name] = np.array([each[name] for each in calls.counts], np.int64)
    counts["kept"] = np.bincount([j for j, _ in kept], minlength=len(judges)).astype(np.int64)
    errors = list(calls.first_errors)
    for (j, _), answer in kept.items():
        errors[j] = errors[j] or answer.error
    return JudgeRun(votes, raw, counts, tuple(errors), tuple(unparseable), asking)
