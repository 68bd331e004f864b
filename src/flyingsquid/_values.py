"""Type checks of user input, its formatting in messages, and ``random_state``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from flyingsquid.exceptions import OptionError


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of Python or NumPy.

    Booleans are integers in Python, and time spans are integers in NumPy; neither is accepted as a number.

    >>> is_integer(3), is_integer(np.int8(3)), is_integer(True), is_integer(3.0)
    (True, True, False, False)
    >>> is_integer(np.timedelta64(3, "s"))
    False
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> bool:
    """Return whether a value is a number, including NaN and infinity.

    >>> is_number(0.5), is_number(np.float32(0.5)), is_number(2), is_number("2"), is_number(None)
    (True, True, True, False, False)
    """
    return is_integer(value) or isinstance(value, (float, np.floating))


def is_null(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  # NaN of any type
    except Exception:
        # pandas.NA is neither true nor false; an array here is refused later as unhashable.
        return type(value).__name__ == "NAType"


def plain_value(value: Any) -> Any:
    """Return a NumPy scalar as a Python value; other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def is_one_of(value: Any, known: Iterable[str]) -> bool:
    """Return whether an option is one of the known strings; False for arrays and other types."""
    return isinstance(value, str) and value in known


def can_be_iterated(data: Any) -> bool:
    """Return whether data can be iterated; an array without dimensions has ``__iter__``, but cannot."""
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    # NumPy scalars have __getitem__ too.
    return isinstance(data, Iterable) or (hasattr(data, "__getitem__") and not isinstance(data, np.generic))


def format_value(value: Any, most: int = 80) -> str:
    """Return the ``repr`` of a value for a message, cut to ``most`` characters.

    >>> format_value("spam"), format_value(np.int8(3)), format_value("x" * 200)[:9]
    ("'spam'", '3', "'xxxxxxxx")
    >>> format_value(10**5000)
    'a value of type int'
    """
    try:
        text = repr(plain_value(value))
    except Exception:  # `repr` of user objects may raise
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def option_error(name: str, constraint: str, value: Any) -> OptionError:
    """Return the error for an invalid option.

    >>> print(option_error("n_bins", "an integer >= 2", 1))
    `n_bins` must be an integer >= 2; got 1.
    """
    return OptionError(f"`{name}` must be {constraint}; got {format_value(value)}.", parameter=name)


def read_integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an integer option that is at least ``least`` and at most ``most``.

    >>> read_integer("bins", np.int8(3), 1)
    3
    """
    if is_integer(value) and value >= least and (most is None or value <= most):
        return int(value)
    allowed = f"an integer >= {least}" if most is None else f"an integer from {least} to {most:,}"
    raise option_error(name, allowed, value)


def format_list(labels: Sequence[Any], most: int = 6) -> str:
    """Return labels for a message, at most ``most`` of them.

    >>> format_list(("ham", "spam"))
    "'ham', 'spam'"
    """
    return ", ".join(format_value(label) for label in labels[:most]) + (", ..." if len(labels) > most else "")


def format_count(count: float, singular: str, plural: str = "") -> str:
    """Return a count with its noun, for messages and tables.

    >>> format_count(1, "source"), format_count(12_000.0, "item"), format_count(0, "class", "classes")
    ('1 source', '12,000 items', '0 classes')
    """
    # Weighted items may be fractional: 12.5 items, but 12 items for 12.0.
    shown = f"{count:,.0f}" if float(count).is_integer() else f"{count:,.10g}"
    return f"{shown} {singular if count == 1 else plural or singular + 's'}"


RandomState: TypeAlias = int | np.random.Generator | None


def read_random_state(random_state: Any) -> np.random.Generator:
    """Return the generator for ``random_state``.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        An integer seeds a new generator, so the same integer gives the same numbers. A generator is used
        directly and advances. None seeds a new generator from the operating system.

    Examples
    --------
    >>> bool(read_random_state(0).random() == read_random_state(0).random())
    True
    >>> generator = np.random.default_rng(0)
    >>> read_random_state(generator) is generator
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or (is_integer(random_state) and random_state >= 0):
        return np.random.default_rng(None if random_state is None else int(random_state))
    raise option_error("random_state", "an integer >= 0, a numpy.random.Generator or None", random_state)
