"""Scores of soft binary labels against gold. Ties get the credit they would get on average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A posterior of exactly one half comes out of floating point within this.
TIE = 1e-9
CLIP = 1e-4


def expected_answer(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often class 1 is answered, shape (n,): 0 or 1, and 1/2 where both classes are as probable."""
    return np.where(np.abs(p - 0.5) <= TIE, 0.5, (p > 0.5).astype(np.float64))


def credit(p: NDArray[np.float64], y: NDArray[np.int8]) -> NDArray[np.float64]:
    """How often each item is answered rightly, shape (n,)."""
    answer = expected_answer(p)
    return np.where(y == 1, answer, 1 - answer)


def f1(p: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """F1 of class 1 from expected counts; 0 where nothing is or is called class 1."""
    answer = expected_answer(p)
    right = answer[y == 1].sum()
    return float(2 * right / max(answer.sum() + (y == 1).sum(), 1))


def log_loss(p: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """Mean negative log probability of the truth, in nats."""
    # One item at probability 0 would make the mean infinite and every other item invisible.
    p = np.clip(p, CLIP, 1 - CLIP)
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def add_one_shares(votes: NDArray[np.int8]) -> NDArray[np.float64]:
    """Majority vote as P(class 1), shape (n,): vote shares with one vote added for each class."""
    ones, zeros = (votes == 1).sum(axis=1), (votes == 0).sum(axis=1)
    return np.asarray((ones + 1) / (ones + zeros + 2))
