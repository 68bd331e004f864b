"""Ctrl-C and SIGTERM: what was begun is tidied up, and the exit code says who stopped it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

import click

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedBySignalError(BaseException):
    """A signal said to stop. No Exception: nobody may take it for a failure and go on."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Hand SIGINT and SIGTERM to ``handler`` for as long as this lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hands signals to the main thread only
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def stoppable() -> AbstractContextManager[None]:
    """Raise :class:`StoppedBySignalError` where SIGINT or SIGTERM comes, so that files are tidied up."""
    return handled(_stop)


def leave_closed_pipe(ctx: click.Context) -> NoReturn:
    """Exit as whoever writes to a pipe that nobody reads: no error, and so no message."""
    # Python would complain when it flushes standard output at exit, so that is led nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(128 + 13)  # SIGPIPE, by its number: Windows has no such signal


def _stop(number: int, _frame: FrameType | None) -> None:
    # A second signal while files are tidied up must not leave them behind.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise StoppedBySignalError(number)
