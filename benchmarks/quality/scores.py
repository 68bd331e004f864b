"""Scores of soft labels against gold labels. Ties get the credit they would get on average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Probabilities that are equal in exact arithmetic differ by less than this.
TIE = 1e-9
CLIP = 1e-4
METRICS = ("accuracy", "f1", "log_loss")


def expected_answers(posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how often each class is predicted, shape (n, K): the most probable one, ties in equal parts."""
    best = posterior >= posterior.max(axis=1, keepdims=True) - TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def credit(posterior: NDArray[np.float64], y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the probability that each item is predicted correctly, shape (n,)."""
    return np.asarray(expected_answers(posterior)[np.arange(len(y)), y])


def f1(posterior: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """Return F1 of class 1 for two classes, the mean F1 of all classes for more, from expected counts.

    A class that is neither true nor predicted scores 0.
    """
    answers, truth = expected_answers(posterior), np.eye(posterior.shape[1])[y]
    right, predicted, actual = (answers * truth).sum(axis=0), answers.sum(axis=0), truth.sum(axis=0)
    by_class = 2 * right / np.maximum(predicted + actual, 1)
    return float(by_class[1] if posterior.shape[1] == 2 else by_class.mean())


def log_loss(posterior: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """Return the mean negative log probability of the gold labels, in nats."""
    # One item at probability 0 would make the mean infinite and hide every other item.
    return float(-np.log(np.clip(posterior[np.arange(len(y)), y], CLIP, 1 - CLIP)).mean())


def scores_of(posterior: NDArray[np.float64], y: NDArray[np.int8]) -> dict[str, float]:
    """Return all of METRICS."""
    values = (credit(posterior, y).mean(), f1(posterior, y), log_loss(posterior, y))
    return dict(zip(METRICS, map(float, values), strict=True))


def add_one_shares(votes: NDArray[np.int8], n_classes: int = 2) -> NDArray[np.float64]:
    """Return majority vote as probabilities, shape (n, K): vote shares with one vote added per class."""
    counts = np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1) + 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def cell(result: dict[str, float] | str) -> str:
    """Format accuracy, F1 and log loss for a table; a string is the reason why there are none."""
    if isinstance(result, str):
        return "refused"
    return f"{100 * result['accuracy']:.1f} / {100 * result['f1']:.1f} / {result['log_loss']:.3f}"
