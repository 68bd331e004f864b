"""Numbers as a user passes them for an option."""

from __future__ import annotations

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
