"""How something goes: it works on for a while and says what to use instead (docs/versioning.md)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, since: str, removed_in: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function or method as going away; calling it warns, at the line of the caller.

    Examples
    --------
    >>> @deprecated(since="1.2", removed_in="1.4", instead="new()")
    ... def old():
    ...     return 1
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     old()
    1
    >>> str(caught[0].message)
    'old() is deprecated since 1.2 and goes in 1.4; use new()'
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        words = (
            f"{function.__qualname__}() is deprecated since {since} and goes in {removed_in}; use {instead}"
        )

        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(words, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        note = f"Deprecated since {since}, goes in {removed_in}: use {instead}."
        warned.__doc__ = f"{function.__doc__.rstrip()}\n\n{note}" if function.__doc__ else note
        return warned

    return mark


def renamed_argument(
    old: str, new: str, *, since: str, removed_in: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept a keyword argument by its old name too, with a warning; both names at once are an error.

    Examples
    --------
    >>> @renamed_argument("colour", "color", since="1.2", removed_in="1.4")
    ... def paint(color):
    ...     return color
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     paint(colour="red")
    'red'
    >>> str(caught[0].message)
    'paint(colour=) is called color= since 1.2, and the old name goes in 1.4'
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        call = function.__qualname__

        @functools.wraps(function)
        def translated(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{call}() got both {old}= and {new}=, which are the same argument")
                words = (
                    f"{call}({old}=) is called {new}= since {since}, and the old name goes in {removed_in}"
                )
                warnings.warn(words, DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return translated

    return mark
