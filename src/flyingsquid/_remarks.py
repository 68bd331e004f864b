"""What a fit has to say about sources: a warning, unless whoever asked for the fit listens.

``warnings.catch_warnings`` changes the filters of the whole process, so two threads that use it at once leave
the wrong filters behind. Who listens here is known to its own thread alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flyingsquid.exceptions import SourceWarning

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def say(text: str, *, stacklevel: int) -> None:
    """Warn, or tell whoever listens; ``stacklevel`` is that of ``warnings.warn`` in the caller's place."""
    heard = _heard.get()
    if heard is None:
        warnings.warn(text, SourceWarning, stacklevel=stacklevel + 1)
    else:
        heard.append(text)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Hear what is said within, instead of warning.

    >>> with listening() as heard:
    ...     say("source 3 is silent", stacklevel=1)
    >>> heard
    ['source 3 is silent']
    """
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)
