"""The codes of a vote matrix: classes count up from 0, missing votes count down from -1."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

ABSTAIN = -1
REASONS = ("abstained", "refused", "unparseable", "failed")
"""Why a vote is missing; reason r has the code ``-1 - r``."""

Codes: TypeAlias = NDArray[Any] | csr_array
"""Dense (n, m) codes, or sparse with ``class + 1`` for a vote and the code for a reason."""
Label: TypeAlias = Hashable


def code_of_reason(reason: str) -> int:
    """The negative code that stands for ``reason``.

    >>> code_of_reason("refused")
    -2
    """
    return -1 - REASONS.index(reason)


def smallest_dtype(n_classes: int) -> DTypeLike:
    """The smallest signed integer type that holds the codes of ``n_classes`` classes."""
    return np.min_scalar_type(-max(n_classes, len(REASONS)))
