"""Many calls at once: limits, timeouts, retries. One thread decides, a thread a call waits for the answer.

An answer is kept by the thread that received it, before anybody else hears of it.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Literal

import numpy as np

from flyingsquid.labeling.answers import FAILED, UNPARSEABLE, plain
from flyingsquid.labeling.judge import Judge, retry_after, wait_before_retry
from flyingsquid.labeling.judge_file import Kept

OnError = Literal["abstain", "raise"]
Keep = Callable[[int, int, Kept, Any], None]
"""Keeps the final answer of (judge, item), with its outcome."""


@dataclass(slots=True)
class Tally:
    """What happened to the calls of one judge."""

    counts: Counter[str] = field(default_factory=Counter)
    first_error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A final answer and how it was read.

    Attributes
    ----------
    outcome : a class, or one of ``answers.Missing``
    parse_error : what the parser raised, if it did; the answer is then unparseable
    """

    kept: Kept
    outcome: Any
    parse_error: Exception | None = None


def read_answer(judge: Judge, kept: Kept) -> Result:
    """Read an answer; a parser that raises makes it unparseable."""
    try:
        return Result(kept, judge.outcome(kept.answer))
    except Exception as error:  # a paid answer is not lost to a parser that stumbles over it
        return Result(kept, UNPARSEABLE, error)


class Clock:
    """Time as a run sees it; tests pass one that does not wait."""

    def now(self) -> float:
        """Seconds from some beginning."""
        return time.monotonic()

    def get(self, events: SimpleQueue[Any], wait: float) -> Any:
        """The next event, or None after ``wait`` seconds."""
        try:
            return events.get(timeout=wait)
        except Empty:
            return None


class _Call:
    """One attempt under way. Whoever claims it first decides: the answer, or the clock."""

    __slots__ = ("_claimed", "attempt", "future", "item", "judge")

    def __init__(self, judge: int, item: int, attempt: int) -> None:
        self.judge, self.item, self.attempt = judge, item, attempt
        self.future: Future[Any] | None = None
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        return self._claimed.acquire(blocking=False)

    @property
    def is_claimed(self) -> bool:
        return self._claimed.locked()


class Calls:
    """Ask about all ``cells``, pairs (judge, item), and gather one :class:`Result` for each.

    Parameters
    ----------
    concurrency : how many calls may run at once, in all
    keep : called once for each final answer, from the thread that has it
    on_error : whether an item that failed ends the run
    """

    def __init__(
        self,
        judges: list[Judge],
        items: list[Any],
        cells: Iterable[tuple[int, int]],
        *,
        concurrency: int,
        keep: Keep,
        on_error: OnError,
        rng: np.random.Generator,
        clock: Clock,
    ) -> None:
        self.judges, self.items = judges, items
        self.results: dict[tuple[int, int], Result] = {}
        self.tallies = [Tally() for _ in judges]
        self.stopped = threading.Event()
        self._fresh: list[deque[int]] = [deque() for _ in judges]
        for j, i in cells:
            self._fresh[j].append(i)
        self.left = sum(map(len, self._fresh))
        self._again: list[list[tuple[float, int, int]]] = [[] for _ in judges]  # (when, item, attempt)
        self._paused = [-np.inf] * len(judges)
        self._running = [0] * len(judges)
        self._deadlines: list[tuple[float, int, _Call]] = []
        self._order = itertools.count()
        self._turn = 0
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._concurrency, self._keep, self._on_error = concurrency, keep, on_error
        self._rng, self._clock = rng, clock
        self._loop = _Loop()

    def run(self) -> None:
        """Ask until every cell has its result, or until :meth:`stop`."""
        try:
            while self.left and not self.stopped.is_set():
                self._start()
                event = self._clock.get(self._events, self._wait())
                while event is not None:
                    self._settle(*event)
                    event = None if self._events.empty() else self._events.get()
                self._expire()  # last, because the last cell may run out of time
        finally:
            self._loop.close()

    def stop(self) -> None:
        """End :meth:`run` soon. Calls under way are left behind."""
        self.stopped.set()
        self._events.put(None)

    # ------------------------------------------------------------------ what starts when

    def _start(self) -> None:
        """Start all that may start now, judges in turn."""
        now, idle = self._clock.now(), 0
        while sum(self._running) < self._concurrency and idle < len(self.judges):
            j = self._turn = (self._turn + 1) % len(self.judges)
            idle = 0 if self._start_one(j, now) else idle + 1

    def _start_one(self, j: int, now: float) -> bool:
        if self._ready_at(j, now) > now:
            return False
        again = self._again[j]
        if again and again[0][0] <= now:
            _, item, attempt = heapq.heappop(again)
            self.tallies[j].counts["retries"] += 1
        else:
            item, attempt = self._fresh[j].popleft(), 1
            self.tallies[j].counts["asked"] += 1
        call = _Call(j, item, attempt)
        self._running[j] += 1
        timeout = self.judges[j].timeout
        if timeout is not None:
            heapq.heappush(self._deadlines, (now + timeout, next(self._order), call))
        # A daemon: a call that never returns must not keep the program from ending.
        threading.Thread(
            target=self._ask, args=(call,), daemon=True, name=f"judge {self.judges[j].name}"
        ).start()
        return True

    def _ready_at(self, j: int, now: float) -> float:
        """When judge j can be asked next; infinite where that is not a question of time."""
        limit = self.judges[j].concurrency
        if limit is not None and self._running[j] >= limit:
            return np.inf
        if self._fresh[j]:
            return max(self._paused[j], now)
        return max(self._paused[j], self._again[j][0][0]) if self._again[j] else np.inf

    def _wait(self) -> float:
        """Seconds until something is due, if no answer comes before."""
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][2].is_claimed:
            heapq.heappop(self._deadlines)
        due = [self._deadlines[0][0]] if self._deadlines else []
        if sum(self._running) < self._concurrency:
            due += [self._ready_at(j, now) for j in range(len(self.judges))]
        return max(0.0, min([*due, now + 60]) - now)

    # ------------------------------------------------------------------ in the thread of a call

    def _ask(self, call: _Call) -> None:
        try:
            answer = self.judges[call.judge].ask(self.items[call.item])
            if inspect.isawaitable(answer):
                call.future = self._loop.submit(answer, lambda future: self._receive(call, future.result))
                if call.is_claimed and call.future is not None:  # too late already
                    call.future.cancel()
                return
        except BaseException as error:
            self._lost(call, error)
        else:
            self._receive(call, lambda: answer)

    def _receive(self, call: _Call, result: Callable[[], Any]) -> None:
        """Keep an answer, unless its time was over."""
        try:
            kept = Kept(plain(result()), None, call.attempt)
        except BaseException as error:
            self._lost(call, error)
            return
        if not call.claim():
            return
        found = read_answer(self.judges[call.judge], kept)
        try:
            self._keep(call.judge, call.item, kept, found.outcome)
        except Exception as error:  # the disk is full: nothing to be retried
            self._events.put((call, error, True))
        else:
            self._events.put((call, found, False))

    def _lost(self, call: _Call, error: BaseException) -> None:
        if call.claim():
            self._events.put((call, error, not isinstance(error, Exception)))

    # ------------------------------------------------------------------ what comes back

    def _expire(self) -> None:
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][0] <= now:
            call = heapq.heappop(self._deadlines)[2]
            if call.claim():
                if call.future is not None:
                    call.future.cancel()
                timeout = self.judges[call.judge].timeout
                self._settle(call, TimeoutError(f"no answer within {timeout:g} s"), False)

    def _settle(self, call: _Call, found: Result | BaseException, ends: bool) -> None:
        self._running[call.judge] -= 1
        if isinstance(found, Result):
            self._finish(call, found, found.parse_error)
        elif ends:
            raise found
        else:
            self._failed(call, found)

    def _failed(self, call: _Call, error: BaseException) -> None:
        tally, judge, j = self.tallies[call.judge], self.judges[call.judge], call.judge
        tally.counts["timeouts"] += _is_timeout(error)
        if tally.first_error is None:
            tally.first_error = _shown(error)
        wait = wait_before_retry(judge, call.attempt, error, self._rng)
        if wait is None:
            result = Result(Kept(FAILED, _shown(error), call.attempt), FAILED)
            self._keep(j, call.item, result.kept, FAILED)
            self._finish(call, result, error)
            return
        when = self._clock.now() + wait
        heapq.heappush(self._again[j], (when, call.item, call.attempt + 1))
        if retry_after(error) is not None:
            self._paused[j] = max(self._paused[j], when)

    def _finish(self, call: _Call, result: Result, error: BaseException | None) -> None:
        self.results[call.judge, call.item] = result
        self.left -= 1
        if error is not None and self._on_error == "raise":
            name = self.judges[call.judge].name
            error.add_note(
                f"judge {name!r}, item {call.item}, attempt {call.attempt}; on_error='abstain' goes on"
            )
            raise error


def _is_timeout(error: BaseException | None) -> bool:
    """Whether it, or what caused it, is a TimeoutError; urllib has that as its reason."""
    seen: list[Any] = [error, getattr(error, "reason", None), getattr(error, "__cause__", None)]
    return any(isinstance(e, TimeoutError) for e in seen)


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


class _Loop:
    """One event loop in a thread of its own, started when the first coroutine comes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, answer: Awaitable[Any], done: Callable[[Future[Any]], Any]) -> Future[Any] | None:
        """Await ``answer`` and then call ``done``; None where the run is over."""

        async def wait() -> Any:
            return await answer

        with self._guard:
            if self._closed:
                if inspect.iscoroutine(answer):
                    answer.close()
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="judges")
                self._thread.start()
            future: Future[Any] = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        future.add_done_callback(done)
        return future

    def close(self) -> None:
        """Cancel what is under way, and end the thread if no coroutine blocks it."""
        with self._guard:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        ended = asyncio.run_coroutine_threadsafe(_cancel_others(), loop)
        try:
            ended.result(timeout=1)
        except TimeoutError:
            return  # some coroutine blocks the loop; its thread is a daemon and dies with the program
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
