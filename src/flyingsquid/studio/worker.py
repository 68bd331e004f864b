"""Application of patterns and of Python functions to all items, in a separate process that can be killed.

The server never runs a pattern of the user itself: a pattern that backtracks catastrophically holds the lock
of the interpreter. One process works on one chunk at a time. If a chunk takes too long, the process is killed
and started again, and the rule gets an error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import multiprocessing.connection
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
PATTERN_SECONDS, FUNCTION_SECONDS, START_SECONDS = 5.0, 60.0, 60.0


@dataclass(eq=False)
class Job:
    """Application of one source to all items.

    Attributes
    ----------
    key : str
        Identifies the result.
    source : description of the source
    chunk_of : callable
        Returns the values of items start..stop: strings, or mappings for functions.
    codes : int16 array of shape (n,)
        1 on matches and -1 elsewhere; for functions the classes. Complete up to ``done``.
    """

    key: str
    source: dict[str, Any]
    chunk_of: Callable[[int, int], list[Any]]
    codes: NDArray[np.int16]
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
        self._pipe: Any = None
        self._sent: set[tuple[Any, ...]] = set()
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
        self._kill()
        self._thread.join(timeout=10)
        self._kill()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C is for the server; the process inherits this
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
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
            job.error = (
                f"Stopped: the {'pattern' if job.classes == () else 'function'} took more than "
                f"{job.seconds:g} seconds on {format_count(stop - start, 'item')}."
            )
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
        job.codes[start:stop] = np.frombuffer(answer, np.int16)
        job.done = stop

    def _ask(self, job: Job, start: int, stop: int) -> bytes | str | list[str]:
        self._ensure()
        if job.source["kind"] == "list":
            self._pipe.send(("list", job.source))
            return self._receive(job.seconds)
        place = (job.source.get("column") if job.classes == () else "", start)
        values = None if place in self._sent else job.chunk_of(start, stop)
        self._pipe.send(("apply", job.source, job.classes, place, values))
        self._sent.add(place)
        return self._receive(job.seconds)

    def _receive(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return self._pipe.recv()

    def _ensure(self) -> None:
        """Start the process if there is none."""
        if self._closed or (self._process is not None and self._process.is_alive()):
            return
        # Not "fork": the server has threads.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._sent = set()
        deadline = time.monotonic() + START_SECONDS
        while not self._pipe.poll(0.1):
            if self._closed or time.monotonic() > deadline or not self._process.is_alive():
                raise OSError("the process did not start")
        self._pipe.recv()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join(timeout=5)


# ---------------------------------------------------------------------- the process

_Modules: TypeAlias = dict[tuple[str, float], dict[str, LabelingFunction]]


def _serve(pipe: multiprocessing.connection.Connection) -> None:
    """Answer requests until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    known: dict[Any, list[Any]] = {}
    modules: _Modules = {}
    pipe.send("ready")
    while True:
        try:
            command, *arguments = pipe.recv()
        except (EOFError, OSError):
            return
        if command == "apply":
            source, classes, place, values = arguments
            if values is not None:
                known[place] = values
            pipe.send(_answer(source, classes, known[place], place[1], modules))
        elif command == "list":
            pipe.send(_list(arguments[0], modules))


def _answer(
    source: dict[str, Any],
    classes: tuple[str, ...],
    values: list[Any],
    start: int,
    modules: _Modules,
) -> bytes | str:
    """Return int16 codes as bytes, or the message of an error."""
    try:
        if classes == ():
            codes = match(source, values)
        else:
            codes = _call_function(source, classes, values, start, modules)
    except Exception as error:
        return _message(error)
    return np.asarray(codes, np.int16).tobytes()


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


def _list(source: dict[str, Any], modules: _Modules) -> list[str] | str:
    try:
        return sorted(_functions_of(source, modules))
    except Exception as error:
        return _message(error)


def match(source: dict[str, Any], values: Sequence[str | None]) -> NDArray[np.int16]:
    """Return 1 for strings that a keyword or regex rule matches, -1 for others.

    >>> match({"kind": "regex", "pattern": "a+", "ignore_case": True}, ["Aa", "b", None]).tolist()
    [1, -1, -1]
    """
    votes = pattern_function(source)(list(values))
    return np.array([ABSTAIN if vote is None else 1 for vote in votes], np.int16)


def read_functions_of_file(path: str) -> dict[str, LabelingFunction]:
    """Execute a Python file, which is trusted code, and return its labeling functions by name."""
    spec = importlib.util.spec_from_file_location("flyingsquid_studio_functions", path)
    if spec is None or spec.loader is None:
        raise LabelingError(f"{path} must be a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
) -> NDArray[np.int16]:
    function = _functions_of(source, modules).get(source["function"])
    if function is None:
        raise LabelingError(f"no labeling function {format_value(source['function'])} in {source['file']}.")
    votes = label_chunk([function], values, first_item=start).to_votes(classes)
    return np.asarray(votes.codes[:, 0], np.int16)
