"""Warnings about sources and votes. Warnings about sources can be captured by the caller of a fit.

``warnings.catch_warnings`` changes the filters of the whole process, so two threads that use it at once leave
the wrong filters behind. Capturing here is local to a thread or task.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flyingsquid.exceptions import SourceWarning, VotesWarning

_PACKAGE = __name__.partition(".")[0]
_captured: ContextVar[list[str] | None] = ContextVar("captured", default=None)


def warn_about_sources(message: str, *, stacklevel: int) -> None:
    """Issue a SourceWarning, or hand it to :func:`capture_source_warnings`.

    ``stacklevel`` is that of ``warnings.warn``, counted from the caller.
    """
    captured = _captured.get()
    if captured is None:
        warnings.warn(message, SourceWarning, stacklevel=stacklevel + 1)
    else:
        captured.append(message)


@contextmanager
def capture_source_warnings() -> Iterator[list[str]]:
    """Collect warnings about sources instead of issuing them.

    >>> with capture_source_warnings() as captured:
    ...     warn_about_sources("source 3 always abstains", stacklevel=1)
    >>> captured
    ['source 3 always abstains']
    """
    captured: list[str] = []
    token = _captured.set(captured)
    try:
        yield captured
    finally:
        _captured.reset(token)


def warn_about_votes(message: str) -> None:
    """Issue a VotesWarning that refers to the code that called this package."""
    stacklevel, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        stacklevel, frame = stacklevel + 1, frame.f_back
    warnings.warn(message, VotesWarning, stacklevel=stacklevel)
