"""Training sets from soft labels: rows, labels and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import facts_table
from flyingsquid._values import format_value, is_number
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.votes import as_votes
from flyingsquid.votes.tallies import has_votes

# Labels below this probability get no row: they would have almost no weight and cost as much as any other.
_LEAST_WEIGHT = 1e-6
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Training set for an end model.

    Attributes
    ----------
    X : array, sparse matrix, table or list
        The rows that are kept, in the type that was given.
    proba : array of shape (r, K)
        Their labels, P(Y = k).
    rows : array of shape (r,)
        Their positions.
    classes : array of shape (K,)
    """

    X: Any
    proba: NDArray[np.float64]
    rows: NDArray[np.intp]
    classes: NDArray[Any]

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``X, y, sample_weight = training_set``, see :meth:`expanded`."""
        return iter(self.expanded())

    def _repr_html_(self) -> str:
        shares = self.proba.mean(axis=0)
        confidence = float(self.proba.max(axis=1).mean())
        facts: dict[str, Any] = {"rows": len(self.rows), "mean confidence": confidence}
        facts |= {f"share of {label}": float(s) for label, s in zip(self.classes, shares, strict=True)}
        return facts_table("Training set", facts)._repr_html_()

    def hard(self) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
        """Return ``(X, y, confidence)``: the most probable class of each row, and its probability."""
        best = self.proba.argmax(axis=1)
        return self.X, self.classes[best], self.proba[np.arange(len(best)), best]

    def expanded(self) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
        """Return ``(X, y, sample_weight)``: each row once per class, weighted by the class probability.

        A weighted loss on these rows is the expected loss of the soft labels.
        """
        at, label = np.nonzero(self.proba > _LEAST_WEIGHT)
        return select_rows(self.X, at), self.classes[label], self.proba[at, label]


def to_training_set(
    X: Any,
    proba: ArrayLike,
    *,
    min_confidence: float = 0.0,
    drop_uncovered: bool = True,
    votes: Any = None,
    classes: ArrayLike | None = None,
) -> TrainingSet:
    """Select the rows to train an end model on.

    Parameters
    ----------
    X : array, sparse matrix, table or list of n rows
    proba : array of shape (n, K)
        Result of ``predict_proba`` of a label model.
    min_confidence : float
        Rows whose most probable class is less probable than this are left out.
    drop_uncovered : bool
        Whether rows without votes are left out. Without ``votes``, rows whose classes are all equally
        probable are treated as rows without votes.
    votes : as in ``LabelModel.fit``, optional
    classes : array of K labels, optional
        ``classes_`` of the label model. Default: 0 to K - 1.

    Examples
    --------
    >>> import numpy as np
    >>> X, votes = np.arange(3.0).reshape(3, 1), [[1, 1, -1], [-1, -1, -1], [0, 1, 0]]
    >>> chosen = to_training_set(X, [[0.1, 0.9], [0.5, 0.5], [0.7, 0.3]], votes=votes)
    >>> chosen.rows
    array([0, 2])
    >>> rows, y, sample_weight = chosen.expanded()
    >>> rows.ravel(), y, sample_weight
    (array([0., 0., 2., 2.]), array([0, 1, 0, 1]), array([0.1, 0.9, 0.7, 0.3]))
    """
    labels = _read_labels(proba)
    n_rows = _count_rows(X)
    if n_rows != len(labels):
        raise IncompatibleError(f"`proba` must have one row per row of `X` ({n_rows}); got {len(labels)}.")
    confidence = labels.max(axis=1)
    keep = confidence >= _read_confidence(min_confidence)
    if drop_uncovered and votes is not None:
        voted = has_votes(as_votes(votes, check=False).codes)
        if len(voted) != len(labels):
            raise IncompatibleError(
                f"`votes` must have one row per row of `proba` ({len(labels)}); got {len(voted)}."
            )
        keep &= voted
    elif drop_uncovered:
        keep &= confidence > 1 / labels.shape[1] + _ROUNDING
    if not keep.any():
        raise VotesError(
            "No row is left to train on: no row has votes, or no label reaches "
            f"`min_confidence`={min_confidence:g}."
        )
    rows = np.flatnonzero(keep)
    names = np.arange(labels.shape[1]) if classes is None else np.asarray(classes)
    if names.shape != (labels.shape[1],):
        raise IncompatibleError(
            f"`classes` must have one label per column of `proba` ({labels.shape[1]}); got shape "
            f"{names.shape}."
        )
    return TrainingSet(select_rows(X, rows), labels[rows], rows, names)


def select_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of an array, sparse matrix, table or list, by position."""
    from sklearn.utils import _safe_indexing  # scikit-learn is slow to import

    return _safe_indexing(X, rows)


def _read_labels(proba: ArrayLike) -> NDArray[np.float64]:
    try:
        labels = np.asarray(proba, np.float64)
    except Exception as error:  # conversions of user objects may raise anything
        raise IncompatibleError(
            f"`proba` must be an array of probabilities of shape (n, K); reading it failed: {error}"
        ) from error
    if labels.ndim != 2 or labels.shape[1] < 2:
        raise IncompatibleError(
            f"`proba` must have shape (n, K), one column per class; got {labels.shape}. Make one training "
            "set per task if there are several."
        )
    sums_to_1 = np.allclose(labels.sum(axis=1), 1, rtol=0, atol=1e-3)  # False for NaN
    if not (sums_to_1 and (labels >= 0).all()):
        raise IncompatibleError("`proba` must have rows of numbers >= 0 that sum to 1.")
    return labels


def _count_rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    try:
        return int(shape[0]) if isinstance(shape, tuple) and shape else len(X)
    except TypeError as error:
        raise IncompatibleError(f"`X` must have rows; reading it failed: {error}") from error


def _read_confidence(min_confidence: Any) -> float:
    if not is_number(min_confidence) or not 0 <= min_confidence <= 1:
        raise OptionError(f"`min_confidence` must be a float in [0, 1]; got {format_value(min_confidence)}.")
    # The tolerance keeps labels whose probability equals `min_confidence` up to rounding.
    return float(min_confidence) - 1e-12
