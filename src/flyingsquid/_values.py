"""Values as users pass them: of which kind they are, and how a message tells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python or of NumPy.

    True is 1 to Python, and a span of time an integer to NumPy; nobody who passes one of them means a number.

    >>> is_whole(3), is_whole(np.int8(3)), is_whole(True), is_whole(np.timedelta64(3, "s")), is_whole(3.0)
    (True, True, False, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> bool:
    """Whether a value is a number, whole or not; NaN and infinity are.

    >>> is_number(0.5), is_number(np.float32(0.5)), is_number(2), is_number("2"), is_number(None)
    (True, True, True, False, False)
    """
    return is_whole(value) or isinstance(value, (float, np.floating))


def is_null(value: Any) -> bool:
    """Whether a Python value means "nothing": None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  # NaN of any type
    except Exception:
        # pandas.NA answers neither yes nor no; an array here is refused later as unhashable.
        return type(value).__name__ == "NAType"


def is_one_of(value: Any, known: Iterable[str]) -> bool:
    """Whether an option is one of the known words; arrays and others are none, whatever they compare to."""
    return isinstance(value, str) and value in known


def can_be_iterated(data: Any) -> bool:
    """Whether there is something to go through; an array without dimensions says so, and cannot."""
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    # NumPy's numbers have the second method too.
    return isinstance(data, Iterable) or (hasattr(data, "__getitem__") and not isinstance(data, np.generic))


def told(value: Any, most: int = 80) -> str:
    """A value for a message: cut short, and harmless where it cannot be written down.

    >>> told("spam"), told(np.int8(3)), told("x" * 200)[:9], told(10**5000)
    ("'spam'", '3', "'xxxxxxxx", 'a value of type int')
    """
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except Exception:  # whatever a stranger's class does
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listed(labels: Sequence[Any], most: int = 6) -> str:
    """Labels for a message, the rest of a long list left out.

    >>> listed(("ham", "spam"))
    "'ham', 'spam'"
    """
    return ", ".join(told(label) for label in labels[:most]) + (", ..." if len(labels) > most else "")
