"""Worker process of the studio, which applies patterns and Python functions and can be killed.

The server process never runs user patterns, because a pattern with catastrophic backtracking holds the global
interpreter lock. One process works on one chunk at a time. If a chunk takes too long, the process is killed
and started again, and the rule gets an error.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import LabelingError
from flyingsquid.labeling import LabelingFunction, label_chunk
from flyingsquid.studio.rules import pattern_function
from flyingsquid.votes.codes import ABSTAIN

CHUNK = 5_000
"""Items per chunk, and the unit of progress."""
PATTERN_SECONDS, FUNCTION_SECONDS, START_SECONDS = 5.0, 60.0, 120.0


@dataclass(eq=False)
class Job:
    """Application of one source to all items."""

    key: str  # identifies the result
    source: dict[str, Any]
    # Returns the values of items start..stop: strings, or mappings for functions.
    chunk_of: Callable[[int, int], list[Any]]
    # 1 on matches and -1 elsewhere; for functions the classes. Complete up to ``done``; shape (n,).
    codes: NDArray[np.int8]
    classes: tuple[str, ...] = ()
    seconds: float = PATTERN_SECONDS
    urgent: bool = False
    done: int = 0
    error: str | None = None
    canceled: bool = False
    listed: list[str] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def total(self) -> int:
        return len(self.codes)

    @property
    def status(self) -> Literal["working", "ready", "error"]:
        if self.error is not None:
            return "error"
        return "ready" if self.done == self.total else "working"


class Worker:
    """Process that applies jobs, and the thread that feeds it.

    Parameters
    ----------
    on_progress : callable
        Called with a job, from the thread, after every chunk.
    """

    def __init__(self, on_progress: Callable[[Job], None]) -> None:
        self._on_progress = on_progress
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._process: Any = None
        self._pipe: Connection | None = None
        self._sent: set[tuple[Any, ...]] = set()
        self._is_ready = False
        self._thread = threading.Thread(target=self._run, name="flyingsquid-studio-worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> Job:
        """Queue a job; urgent ones (previews) go first."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Drop a job that is not needed anymore."""
        with self._changed:
            job.canceled = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the process and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._process is not None:
                self._process.kill()  # the thread may be reading from the pipe, which is closed afterwards
        self._thread.join(timeout=10)
        self._kill()
        for job in self._jobs:
            job.finished.set()  # nobody should wait for a job that will not run

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        with contextlib.suppress(OSError, EOFError):  # tried again for the first job
            self._ensure()
        while True:
            with self._changed:
                while not self._closed and not self._jobs:
                    self._changed.wait()
                if self._closed:
                    return
                self._jobs = [job for job in self._jobs if not job.canceled]
                if not self._jobs:
                    continue
                job = next((each for each in self._jobs if each.urgent), self._jobs[0])
            self._advance(job)
            if job.status != "working":
                with self._changed:
                    self._jobs = [each for each in self._jobs if each is not job]
                job.finished.set()
            if not self._closed:
                self._on_progress(job)

    def _advance(self, job: Job) -> None:
        """Apply a job to its next chunk."""
        start, stop = job.done, min(job.done + CHUNK, job.total)
        try:
            answer = self._ask(job, start, stop)
        except TimeoutError:
            self._kill()
            what = {"list": "file", "function": "function"}.get(job.source["kind"], "pattern")
            where = "" if what == "file" else f" on {format_count(stop - start, 'item')}"
            job.error = f"Stopped: the {what} took more than {job.seconds:g} seconds{where}."
            return
        except (EOFError, OSError) as error:
            self._kill()
            if not self._closed:
                job.error = f"The process that applies rules ended unexpectedly: {type(error).__name__}."
            return
        if isinstance(answer, str):
            job.error = answer
            return
        if isinstance(answer, list):
            job.listed, job.done = answer, stop
            return
        job.codes[start:stop] = np.frombuffer(answer, np.int8)
        job.done = stop

    def _ask(self, job: Job, start: int, stop: int) -> bytes | str | list[str]:
        pipe = self._ensure()
        if not self._is_ready:  # importing takes seconds on a busy machine, which no rule should pay for
            _exchange(pipe, None, START_SECONDS)
            self._is_ready = True
        place, values = None, None
        if job.source["kind"] != "list":
            place = (job.source.get("column") if job.classes == () else "", start)
            values = None if place in self._sent else job.chunk_of(start, stop)
            self._sent.add(place)
        answer: bytes | str | list[str] = _exchange(
            pipe, (job.source, job.classes, place, values), job.seconds
        )
        return answer

    def _ensure(self) -> Connection:
        """Return the pipe to the process, which is started if there is none."""
        with self._changed:  # so that close() finds every process
            if self._closed:
                raise EOFError
            if self._process is not None and not self._process.is_alive():
                self._kill()
            if self._pipe is None:
                context = get_context("spawn")  # a fork would copy locks that other threads hold
                self._pipe, theirs = context.Pipe()
                self._process = context.Process(target=serve, args=(theirs,), daemon=True)
                self._process.start()
                theirs.close()  # so that reading ends with the process
                self._sent, self._is_ready = set(), False
            return self._pipe

    def _kill(self) -> None:
        with self._changed:
            process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if process is not None and pipe is not None:
            process.kill()
            process.join()
            pipe.close()


def _exchange(pipe: Connection, request: Any, seconds: float) -> Any:
    """Send a request and return the answer.

    Raises
    ------
    TimeoutError
        If there is no answer in time.
    EOFError, OSError
        If the process ended.
    """
    pipe.send(request)
    if not pipe.poll(seconds):
        raise TimeoutError
    return pipe.recv()


# ---------------------------------------------------------------------- the process

_Modules: TypeAlias = dict[tuple[str, float], dict[str, LabelingFunction]]


def serve(pipe: Connection) -> None:
    """Answer requests until the pipe is closed. What user code prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    sys.stdout = sys.stderr
    known: dict[Any, list[Any]] = {}
    modules: _Modules = {}
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        answer: Any = None
        if request is not None:  # None asks only whether the process is ready
            source, classes, place, values = request
            if values is not None:
                known[place] = values
            answer = _answer(source, classes, known.get(place, []), place[1] if place else 0, modules)
        pipe.send(answer)


def _answer(
    source: dict[str, Any], classes: tuple[str, ...], values: list[Any], start: int, modules: _Modules
) -> bytes | list[str] | str:
    """Return int8 codes as bytes, the names of the functions in a file, or the message of an error."""
    try:
        if source["kind"] == "list":
            return sorted(_functions_of(source, modules))
        codes = _call_function(source, classes, values, start, modules) if classes else match(source, values)
        return codes.tobytes()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


def match(source: dict[str, Any], values: Sequence[str | None]) -> NDArray[np.int8]:
    """Return 1 for strings that a keyword or regex rule matches, -1 for others.

    >>> match({"kind": "regex", "pattern": "a+", "ignore_case": True}, ["Aa", "b", None]).tolist()
    [1, -1, -1]
    """
    codes = np.full(len(values), ABSTAIN, np.int8)
    present = [i for i, value in enumerate(values) if value is not None]
    if present:
        votes = pattern_function(source)([values[i] for i in present])
        codes[present] = [ABSTAIN if vote is None else 1 for vote in votes]
    return codes


def read_functions_of_file(path: str) -> dict[str, LabelingFunction]:
    """Execute a Python file, which is trusted code, and return its labeling functions by name."""
    # Not importlib, which writes bytecode and reuses it for a file that changed within a second.
    module = types.ModuleType(Path(path).stem)
    module.__file__ = path
    exec(compile(Path(path).read_bytes(), path, "exec"), vars(module))
    found = vars(module).items()
    return {name: value for name, value in found if isinstance(value, LabelingFunction)}


def _functions_of(source: dict[str, Any], modules: _Modules) -> dict[str, LabelingFunction]:
    version = (source["path"], source["version"])
    if version not in modules:
        modules.clear()  # keep one version
        modules[version] = read_functions_of_file(source["path"])
    return modules[version]


def _call_function(
    source: dict[str, Any],
    classes: tuple[str, ...],
    values: list[Any],
    start: int,
    modules: _Modules,
) -> NDArray[np.int8]:
    function = _functions_of(source, modules).get(source["function"])
    if function is None:
        raise LabelingError(
            f"{source['file']} does not define the labeling function {format_value(source['function'])}."
        )
    votes = label_chunk([function], values, first_item=start).to_votes(classes)
    return np.asarray(votes.codes[:, 0], np.int8)
