"""Conversion of ``random_state`` to a generator."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from flyingsquid._values import is_integer, option_error

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
