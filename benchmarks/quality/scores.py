"""Scores of probabilities against gold labels: the only ones that pages of quality use.

Ties and items without votes get the expected score of a random choice, for the model and for majority vote.
This rule is that of the package (``flyingsquid.votes.decisions``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.comparison import score_labels
from flyingsquid.votes.decisions import best_classes, expected_credit

CLIP = 1e-4
METRICS = ("accuracy", "f1", "log_loss")
_BINS = 15
Array = NDArray[np.float64]
Codes = NDArray[np.integer]


def log_loss(posterior: Array, y: Codes) -> float:
    """Return the mean negative log probability of the gold labels, in nats."""
    # One item at probability 0 would make the mean infinite and hide every other item.
    return float(-np.log(np.clip(posterior[np.arange(len(y)), y], CLIP, 1 - CLIP)).mean())


def calibration_error(posterior: Array, y: Codes) -> float:
    """Return the expected calibration error of the probabilities of labels, in 15 bins of equal width."""
    top = posterior.max(axis=1)
    gaps = np.bincount(_bins(top), expected_credit(posterior, y) - top, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(y))


def least_calibration_error(posterior: Array) -> float:
    """Return the calibration error to expect if all probabilities are correct: that of finite samples.

    The sum of independent errors in a bin is about normal, so its mean absolute value is sqrt(2 / pi) times
    its standard deviation. A label of t tied classes is worth 1/t if one of them is correct.
    """
    top, tied = posterior.max(axis=1), best_classes(posterior).sum(axis=1)
    is_one = np.minimum(tied * top, 1.0)
    variance = np.bincount(_bins(top), is_one * (1 - is_one) / tied**2, minlength=_BINS)
    return float(np.sqrt(2 / np.pi * variance).sum() / len(top))


def _bins(top: Array) -> NDArray[np.intp]:
    return np.minimum((top * _BINS).astype(np.intp), _BINS - 1)


def f1(posterior: Array, y: Codes) -> float:
    """Return F1 of class 1 for two classes, and the mean over the classes for more, from expected counts."""
    return score_labels(posterior, y).f1


def scores_of(posterior: Array, y: Codes) -> dict[str, float]:
    """Return all of METRICS."""
    found = score_labels(posterior, y)
    return dict(zip(METRICS, (found.accuracy, found.f1, log_loss(posterior, y)), strict=True))


def score_known(posterior: Array, y: Codes) -> tuple[float, float, float, float]:
    """Return accuracy, F1, log loss and calibration error on the items whose class is known (not -1)."""
    posterior, truth = posterior[y >= 0], y[y >= 0].astype(np.intp)
    accuracy, f1, loss = scores_of(posterior, truth).values()
    return accuracy, f1, loss, calibration_error(posterior, truth)


def add_one_shares(votes: NDArray[np.int8], n_classes: int = 2) -> Array:
    """Return majority vote as probabilities, shape (n, K): vote shares with one vote added per class."""
    counts = np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1) + 1.0
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def cell(result: dict[str, float] | str) -> str:
    """Format accuracy, F1 and log loss for a table; a string is the reason why there are none."""
    if isinstance(result, str):
        return "refused"
    return f"{100 * result['accuracy']:.1f} / {100 * result['f1']:.1f} / {result['log_loss']:.3f}"
