"""Concurrent calls of judges: limits, timeouts and retries.

One thread makes all decisions, and each call waits for its answer in a thread of its own. That thread also
stores the answer before it is processed.
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
from queue import Empty, SimpleQueue
from typing import Any, Literal

import numpy as np

from flyingsquid.judges.answer_file import to_json_data
from flyingsquid.judges.answers import FAILED
from flyingsquid.judges.asking import AdaptiveCalls
from flyingsquid.judges.judge import Answer, Judge, retry_after, wait_before_retry

OnError = Literal["abstain", "raise"]
Store = Callable[[int, int, Answer], None]
"""Stores the final answer of (judge, item)."""


class Clock:
    """Time for a run; tests pass one that does not wait."""

    def now(self) -> float:
        """Return seconds since some moment."""
        return time.monotonic()

    def get(self, events: SimpleQueue[Any], wait: float) -> Any:
        """Return the next event, or None after ``wait`` seconds."""
        try:
            return events.get(timeout=wait)
        except Empty:
            return None


class _Call:
    """One attempt in progress. It ends with its answer or its timeout; the later of the two is ignored."""

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
    """Ask judges about items, and collect one :class:`Answer` for each.

    Parameters
    ----------
    cells : iterable of (int, int)
        The pairs (judge, item) to ask about.
    store : callable
        Called once for each final answer, in the thread that received it.
    concurrency, on_error : as in :func:`~flyingsquid.judges.ask_judges`
    adaptive : AdaptiveCalls, optional
        Adds cells when all others have their final answers, and limits the attempts: without budget, a new
        cell is left without an answer, and no further attempt is made after an error.

    Attributes
    ----------
    answers : dict from (int, int) to Answer
    counts : list of Counter
        Numbers of items asked about, retries and timeouts of each judge.
    first_errors : list of str or None
    n_left : int
        Number of cells without a final answer.
    n_done : int
        Number of cells that are done: with a final answer, or left without one.
    """

    def __init__(
        self,
        judges: list[Judge],
        items: list[Any],
        cells: Iterable[tuple[int, int]],
        *,
        concurrency: int,
        store: Store,
        on_error: OnError,
        rng: np.random.Generator,
        clock: Clock,
        adaptive: AdaptiveCalls | None = None,
    ) -> None:
        self.judges, self.items = judges, items
        self.answers: dict[tuple[int, int], Answer] = {}
        self.counts: list[Counter[str]] = [Counter() for _ in judges]
        self.first_errors: list[str | None] = [None] * len(judges)
        self._new: list[deque[int]] = [deque() for _ in judges]
        self.n_left = self.n_done = 0
        self._add(cells)
        self._retries: list[list[tuple[float, int, int]]] = [[] for _ in judges]  # (when, item, attempt)
        self._paused_until = [-np.inf] * len(judges)
        self._n_running = [0] * len(judges)
        self._deadlines: list[tuple[float, int, _Call]] = []
        self._order = itertools.count()
        self._last_started = 0
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._stopped = threading.Event()
        self._concurrency, self._store, self._on_error = concurrency, store, on_error
        self._rng, self._clock = rng, clock
        self._adaptive = adaptive
        self._loop = _EventLoop()

    def run(self) -> None:
        """Ask until every cell has its final answer and no cells are added, or until :meth:`stop`."""
        try:
            self._run_cells()
            while not self._stopped.is_set() and self._adaptive is not None:
                if not self._add(self._adaptive.more(self.answers)):
                    break
                self._run_cells()
        finally:
            self._loop.close()

    def _run_cells(self) -> None:
        while self.n_left and not self._stopped.is_set():
            self._start_calls()
            if not self.n_left:  # the rest was left without an answer
                return
            event = self._clock.get(self._events, self._wait())
            while event is not None:
                self._settle(*event)
                event = None if self._events.empty() else self._events.get()
            self._expire()  # also after the last event, because the last cell may time out

    def _add(self, cells: Iterable[tuple[int, int]]) -> int:
        """Add cells to ask about, and return how many are left."""
        for j, i in cells:
            self._new[j].append(i)
            self.n_left += 1
        return self.n_left

    def stop(self) -> None:
        """End :meth:`run` soon, without waiting for calls in progress."""
        self._stopped.set()
        self._events.put(None)

    # ------------------------------------------------------------------ starting calls

    def _start_calls(self) -> None:
        """Start all calls that may start now, in turn for each judge."""
        now, n_idle = self._clock.now(), 0
        while sum(self._n_running) < self._concurrency and n_idle < len(self.judges):
            j = self._last_started = (self._last_started + 1) % len(self.judges)
            n_idle = 0 if self._start_call(j, now) else n_idle + 1

    def _start_call(self, j: int, now: float) -> bool:
        if self._ready_at(j, now) > now:
            return False
        retries = self._retries[j]
        if retries and retries[0][0] <= now:
            _, item, attempt = heapq.heappop(retries)
            self.counts[j]["retries"] += 1
        else:
            item, attempt = self._new[j].popleft(), 1
            if not self._begin(j, item):
                self._count_done()
                return True
            self.counts[j]["asked"] += 1
        call = _Call(j, item, attempt)
        self._n_running[j] += 1
        judge = self.judges[j]
        if judge.timeout is not None:
            heapq.heappush(self._deadlines, (now + judge.timeout, next(self._order), call))
        # A daemon thread, so that a call that never returns does not keep the program from ending.
        threading.Thread(target=self._ask, args=(call,), daemon=True, name=f"judge {judge.name}").start()
        return True

    def _begin(self, j: int, item: int) -> bool:
        """Return whether the budget allows an attempt, whose cost is then reserved."""
        return self._adaptive is None or self._adaptive.begin(j, item)

    def _ready_at(self, j: int, now: float) -> float:
        """Return when judge j can be asked next; infinity if that does not depend on time."""
        limit = self.judges[j].concurrency
        if limit is not None and self._n_running[j] >= limit:
            return np.inf
        if self._new[j]:
            return max(self._paused_until[j], now)
        return max(self._paused_until[j], self._retries[j][0][0]) if self._retries[j] else np.inf

    def _wait(self) -> float:
        """Return the seconds until the next event that does not depend on an answer."""
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][2].is_claimed:
            heapq.heappop(self._deadlines)
        due = [self._deadlines[0][0]] if self._deadlines else []
        if sum(self._n_running) < self._concurrency:
            due += [self._ready_at(j, now) for j in range(len(self.judges))]
        return max(0.0, min([*due, now + 60]) - now)

    # ------------------------------------------------------------------ in the thread of a call

    def _ask(self, call: _Call) -> None:
        try:
            answer = self.judges[call.judge].ask(self.items[call.item])
            if inspect.isawaitable(answer):
                call.future = self._loop.submit(answer, lambda future: self._receive(call, future.result))
                if call.is_claimed and call.future is not None:  # it timed out meanwhile
                    call.future.cancel()
                return
        except BaseException as error:
            self._report_error(call, error)
        else:
            self._receive(call, lambda: answer)

    def _receive(self, call: _Call, result: Callable[[], Any]) -> None:
        """Store an answer, unless the call has timed out."""
        try:
            answer = Answer(to_json_data(result()), None, call.attempt)
        except BaseException as error:
            self._report_error(call, error)
            return
        if not call.claim():
            return
        try:
            answer = answer.parse(self.judges[call.judge])
            self._store(call.judge, call.item, answer)
        except BaseException as error:  # a full disk, or SystemExit of a parser: a retry does not help
            self._events.put((call, error, True))
        else:
            self._events.put((call, answer, False))

    def _report_error(self, call: _Call, error: BaseException) -> None:
        if call.claim():
            self._events.put((call, error, not isinstance(error, Exception)))

    # ------------------------------------------------------------------ results of calls

    def _expire(self) -> None:
        now = self._clock.now()
        while self._deadlines and self._deadlines[0][0] <= now:
            call = heapq.heappop(self._deadlines)[2]
            if call.claim():
                if call.future is not None:
                    call.future.cancel()
                timeout = self.judges[call.judge].timeout
                self._settle(call, TimeoutError(f"no answer within {timeout:g} s"), False)

    def _settle(self, call: _Call, result: Answer | BaseException, is_fatal: bool) -> None:
        self._n_running[call.judge] -= 1
        if isinstance(result, Answer):
            self._finish(call, result, result.parse_error)
        elif is_fatal:
            raise result
        else:
            self._retry_or_fail(call, result)

    def _retry_or_fail(self, call: _Call, error: BaseException) -> None:
        j = call.judge
        summary = f"{type(error).__name__}: {error}"[:500]
        self.counts[j]["timeouts"] += _is_timeout(error)
        self.first_errors[j] = self.first_errors[j] or summary
        wait = wait_before_retry(self.judges[j], call.attempt, error, self._rng)
        if wait is None or not self._begin(j, call.item):
            answer = Answer(FAILED, summary, call.attempt, FAILED)
            self._store(j, call.item, answer)
            self._finish(call, answer, error)
            return
        when = self._clock.now() + wait
        heapq.heappush(self._retries[j], (when, call.item, call.attempt + 1))
        if retry_after(error) is not None:
            self._paused_until[j] = max(self._paused_until[j], when)

    def _finish(self, call: _Call, answer: Answer, error: BaseException | None) -> None:
        self.answers[call.judge, call.item] = answer
        self._count_done()
        if error is not None and self._on_error == "raise":
            name = self.judges[call.judge].name
            error.add_note(
                f"judge {name!r}, item {call.item}, attempt {call.attempt}; pass on_error='abstain' to "
                "continue"
            )
            raise error

    def _count_done(self) -> None:
        self.n_left -= 1
        self.n_done += 1


def _is_timeout(error: BaseException) -> bool:
    """Return whether an error, its cause or its reason (urllib) is a TimeoutError."""
    related = (error, getattr(error, "reason", None), error.__cause__)
    return any(isinstance(e, TimeoutError) for e in related)


class _EventLoop:
    """Event loop in a thread of its own, started with the first coroutine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, answer: Awaitable[Any], done: Callable[[Future[Any]], Any]) -> Future[Any] | None:
        """Await ``answer`` and then call ``done``; return None if the loop is closed."""

        async def wait() -> Any:
            return await answer

        with self._lock:
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
        """Cancel coroutines in progress, and end the thread unless a coroutine blocks it."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        cancelled = asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), loop)
        try:
            cancelled.result(timeout=1)
        except TimeoutError:
            return  # a coroutine blocks the loop, whose daemon thread ends with the program
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
