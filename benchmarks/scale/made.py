"""Votes drawn in parts, so that drawing takes no more memory than the votes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PART = 1 << 22  # cells


class Made(NamedTuple):
    """Votes of shape (n, m), C-ordered int8, and the truth (n,)."""

    votes: NDArray[np.int8]
    y: NDArray[np.int8]


def make(n: int, m: int, n_classes: int = 2, *, seed: int = 0) -> Made:
    """Sources that err independently, right 60% to 90% of the time, and vote on 30% of the items to all."""
    rng = np.random.default_rng(seed)
    accuracies = rng.uniform(0.6, 0.9, m).astype(np.float32)
    coverage = rng.uniform(0.3, 1, m).astype(np.float32)
    votes, y = np.empty((n, m), np.int8), np.empty(n, np.int8)
    rows = max(1, PART // m)
    for start in range(0, n, rows):
        part = slice(start, min(n, start + rows))
        size = part.stop - part.start
        y[part] = rng.integers(0, n_classes, size)
        truth = y[part, None]
        wrong = (truth + rng.integers(1, n_classes, (size, m), dtype=np.int8)) % n_classes
        said = np.where(rng.random((size, m), np.float32) < accuracies, truth, wrong)
        votes[part] = np.where(rng.random((size, m), np.float32) < coverage, said, -1)
    return Made(votes, y)
