"""Reading ahead and writing behind: files wait on a thread of their own while votes are worked on.

pyarrow decodes and encodes without Python's lock, so both gain a core. Where threads are limited to one,
everything happens in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from flyingsquid.kernels import n_threads

T = TypeVar("T")
_END = object()


def ahead(parts: Iterator[T]) -> Iterator[T]:
    """The same parts, each made while the one before is used; at most one is held.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    if n_threads() == 1:
        yield from parts
        return
    # Leaving the block, at the end or early, waits for the part that is being made.
    with ThreadPoolExecutor(1, "flyingsquid-ahead") as pool:
        upcoming: Future[Any] = pool.submit(next, parts, _END)
        while (part := upcoming.result()) is not _END:
            upcoming = pool.submit(next, parts, _END)
            yield part


class Behind:
    """Calls in the order they are made, on a thread of their own, at most one of them waiting.

    What a call raises is raised by the next one, or by :meth:`finish`.

    >>> written = []
    >>> behind = Behind()
    >>> for part in "abc":
    ...     behind.call(written.append, part)
    >>> behind.finish()
    >>> written
    ['a', 'b', 'c']
    """

    def __init__(self) -> None:
        self._pool = None if n_threads() == 1 else ThreadPoolExecutor(1, "flyingsquid-behind")
        self._last: Future[Any] | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function when the one before has ended; its arguments must not change until then."""
        if self._pool is None:
            function(*arguments)
            return
        self._wait()
        self._last = self._pool.submit(function, *arguments)

    def finish(self) -> None:
        """Wait for the last call, and raise what it raised."""
        try:
            self._wait()
        finally:
            self.drop()

    def drop(self) -> None:
        """Wait for the last call, whatever came of it."""
        if self._pool is not None:
            self._pool.shutdown()

    def _wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()
