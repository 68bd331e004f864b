"""Labels of one chunk, as an array or as columns of a frame."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
from flyingsquid.votes import Votes
from flyingsquid.votes.frames import is_frame

# What a fit keeps and labelling does not read: counts grow with the square of the sources.
_LEFT_BEHIND = ("moments_", "_pending", "_passes", "_gold", "_diagnostics", "_tally")


@dataclass(frozen=True, slots=True)
class Labelling:
    """How chunks are labelled, in a form that goes to workers.

    Attributes
    ----------
    estimator : a fitted model without its counts
    method : ``"predict_proba"`` or ``"predict"``
    options : of that method
    columns : tuple of column names, or None for all columns of a chunk
    keep : tuple of column names that stand before the labels
    fields : tuple of texts
        Names of the columns of labels: ``p_spam`` for a probability, ``label`` for a label; of task 3 of
        several ``p_3_spam`` and ``label_3``.
    example : array of shape (0, ...)
        Labels of no items, for their shape and type.
    """

    estimator: Any
    method: str
    options: dict[str, Any]
    columns: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    fields: tuple[str, ...]
    example: NDArray[Any]

    @classmethod
    def by(
        cls,
        estimator: Any,
        method: str,
        options: dict[str, Any],
        columns: tuple[Any, ...] | None,
        keep: tuple[Any, ...],
    ) -> Labelling:
        """Leave behind what labelling does not read, and name the columns."""
        if options.get("tie_break") == "random":
            raise OptionError(
                "tie_break='random' has no part in labelling on a cluster, where a task may run twice; use "
                "'first' or 'abstain'"
            )
        slim = copy.copy(estimator)
        for name in _LEFT_BEHIND:
            if name in vars(slim):
                setattr(slim, name, None)
        slim._interval = np.empty((0, 2))  # so that a copy does not compute it
        silent = np.full((1, slim.n_features_in_), -1, np.int8)
        example = getattr(slim, method)(Votes(silent, slim._classes, slim._names), **options)[:0]
        fields = _fields(method, slim.classes_, example.shape[1:])
        taken = set(fields) & set(map(str, keep))
        if taken:
            raise OptionError(
                f"keep= names the column {min(taken)!r}, which labels are written to; rename it"
            )
        return cls(slim, method, options, columns, keep, fields, example)

    @property
    def is_text(self) -> bool:
        """Whether labels are texts."""
        return self.example.dtype.kind in "OU" and all(isinstance(c, str) for c in self.estimator.classes_)

    def __call__(self, chunk: Any) -> NDArray[Any]:
        """Labels of a chunk of n items, shape (n, K), (n, D, K), (n,) or (n, D)."""
        if not len(chunk):
            return self.example
        if is_frame(chunk):
            chunk = Votes.from_frame(chunk, self.columns, classes=self.estimator._classes)
        elif -1 in self.estimator._classes and not isinstance(chunk, Votes):
            chunk = Votes.from_classes(chunk, None, self.estimator._classes)
        labels: NDArray[Any] = getattr(self.estimator, self.method)(chunk, **self.options)
        return labels

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """Labels of a chunk, one array of shape (n,) for each of ``fields``."""
        flat = self(chunk).reshape(len(chunk), len(self.fields))
        return dict(zip(self.fields, flat.T, strict=True))


def _fields(method: str, classes: NDArray[Any], tail: tuple[int, ...]) -> tuple[str, ...]:
    if method == "predict":
        return ("label",) if not tail else tuple(f"label_{task}" for task in range(tail[0]))
    if len(tail) == 1:
        return tuple(f"p_{label}" for label in classes)
    return tuple(f"p_{task}_{label}" for task in range(tail[0]) for label in classes)
