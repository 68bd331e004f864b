"""What is a function of a row of votes is computed once a pattern, where patterns are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.kernels import kernels_for
from flyingsquid.kernels.patterns import look_up
from flyingsquid.votes.distinct import distinct_codes, is_repetitive
from flyingsquid.votes.packing import all_patterns, n_patterns, packed_chunks
from flyingsquid.votes.states import Codes

Array = NDArray[np.float64]
# A table of all patterns is used while it is small, and pays for itself.
_TABLE_PATTERNS = 1 << 16
_ITEMS_PER_PATTERN = 4
_DOUBLE = np.dtype(np.float64)


def by_pattern(
    codes: Codes, compute: Callable[[Any], Array], n_classes: int = 2, dtype: np.dtype[Any] = _DOUBLE
) -> NDArray[Any]:
    """``compute(codes)`` of shape (n, ...), through a table of all patterns where that is faster.

    ``dtype`` is the type of what is looked up in a table; what is computed anew is float64.
    """
    if isinstance(codes, csr_array):
        return compute(codes)
    n, m = codes.shape
    size = n_patterns(m, n_classes)
    if size > _TABLE_PATTERNS or n < size * _ITEMS_PER_PATTERN:
        if not is_repetitive(codes, n_classes):
            return compute(codes)
        distinct, _, inverse = distinct_codes(codes, n_classes)
        return np.asarray(compute(distinct).astype(dtype, copy=False)[inverse])
    table = compute(all_patterns(m, n_classes)).astype(dtype, copy=False)
    result = np.empty((n, *table.shape[1:]), dtype)
    kernels = kernels_for(codes, n_classes, "patterns")
    if kernels is not None:
        look_up(kernels, codes, n_classes, table, result)
        return result
    for rows, numbers in packed_chunks(codes, n_classes):
        np.take(table, numbers, axis=0, out=result[rows], mode="clip")
    return result
