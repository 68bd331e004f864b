"""Ctrl-C and SIGTERM: what was begun is tidied up, and the exit code says who stopped it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StoppedBySignalError(BaseException):
    """A signal said to stop. No Exception: nobody may take it for a failure and go on."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise :class:`StoppedBySignalError` where SIGINT or SIGTERM comes, so that files are tidied up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hands signals to the main thread only
        return
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    # A second signal while files are tidied up must not leave them behind.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise StoppedBySignalError(number)
