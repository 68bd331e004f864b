"""Votes for the tests of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = ("links", "short", "caps", "greeting", "price")


def sample_codes(n_items: int, n_classes: int = 2, seed: int = 0) -> NDArray[Any]:
    """Draw codes of shape (n, 5), of which a fifth is missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, (n_items, 1))
    wrong = (truth + rng.integers(1, n_classes, (n_items, 5))) % n_classes
    votes = np.where(rng.random((n_items, 5)) < [0.9, 0.8, 0.7, 0.65, 0.75], truth, wrong)
    return np.where(rng.random((n_items, 5)) < 0.8, votes, -1).astype(np.int8)


def as_strings(codes: NDArray[Any], labels: tuple[str, ...] = ("ham", "spam")) -> NDArray[Any]:
    """Return the votes as strings, None for no vote."""
    return np.where(codes < 0, np.array(None, object), np.array(labels, object)[codes])
