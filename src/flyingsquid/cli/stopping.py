"""Ctrl-C and SIGTERM: temporary files are removed, and the exit code names the signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedBySignalError(BaseException):
    """A signal asked to stop. Not an Exception, so that no code treats it as a failure and continues."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM with ``handler`` inside the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def raise_stopped(number: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising :class:`StoppedBySignalError`, so that temporary files are removed."""
    # A second signal during the cleanup must not interrupt it.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise StoppedBySignalError(number)


def leave_closed_pipe(ctx: click.Context) -> NoReturn:
    """Exit without a message after writing to a pipe that nobody reads."""
    # Python would complain when it flushes standard output at exit, so that is redirected.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(128 + 13)  # SIGPIPE, by its number: Windows has no such signal
