"""What the simulations of theorems share: tables of sources, rates, and Gaussian classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.models import LabelModel, to_training_set
from flyingsquid.votes import Votes

Array = NDArray[np.float64]


def tables_of(accuracies: ArrayLike, coverage: float) -> Array:
    """μ: P(vote, Y) of symmetric sources of two equally frequent classes, shape (m, 2, 3), no vote last."""
    right = coverage * np.asarray(accuracies, np.float64)
    wrong, silent = coverage - right, np.full(right.shape, 1 - coverage)
    rows = [[right, wrong, silent], [wrong, right, silent]]
    return np.asarray(np.moveaxis(np.array(rows), 2, 0) / 2)


def table_error(votes: Votes, truth: Array) -> float:
    """‖μ̂ - μ‖₂ of the mean over all triplets."""
    model = LabelModel(method="triplet", class_balance="uniform").fit(votes)
    return float(np.linalg.norm(model.confusion_ / 2 - truth))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent b of y = a xᵇ, by least squares of logarithms.

    >>> round(slope([1, 10, 100], [3, 30, 300]), 6)
    1.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def rounded(values: Sequence[float]) -> list[float]:
    """Four significant digits, so that files do not change with the last bits of a library."""
    return [float(f"{value:.4g}") for value in values]


def gaussian_excess(model: Any, mean: Array) -> float:
    """Error rate of a linear classifier beyond the best, for classes N(±mean, I) equally often: exact."""
    weights, offset = model.coef_[0], float(model.intercept_[0])
    length, reach = np.linalg.norm(weights), float(weights @ mean)
    error = (ndtr(-(reach + offset) / length) + ndtr(-(reach - offset) / length)) / 2
    return float(error - ndtr(-np.linalg.norm(mean)))


def end_model() -> LogisticRegression:
    """A logistic regression that is all but unpenalised."""
    return LogisticRegression(C=1e4, max_iter=1_000)


def on_labels(X: Array, proba: Array) -> Any:
    """An end model trained on soft labels (n, 2)."""
    rows, y, weight = to_training_set(X, proba, drop_uncovered=False).expanded()
    return end_model().fit(rows, y, sample_weight=weight)


def labels_by_triplets(votes: Votes, method: Any = "triplet") -> Array:
    """Soft labels (n, 2) of the votes they are learned from; even ones where the votes do not suffice."""
    try:
        model = LabelModel(method=method, class_balance="uniform").fit(votes)
    except NotIdentifiableError:
        return np.full((votes.n_items, 2), 0.5)
    return np.asarray(model.predict_proba(votes))
