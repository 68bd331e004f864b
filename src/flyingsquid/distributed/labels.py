"""What a chunk is turned into where it is: labels by a model, or votes by labeling functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.distributed.chunks import Reader
from flyingsquid.exceptions import OptionError
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label

# What a fit keeps and labelling does not read: counts grow with the square of the sources.


class Work(Protocol):
    """What an engine does to every chunk of a dataframe, in a form that goes to workers."""

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """Columns that are read; None for all."""

    @property
    def keep(self) -> tuple[Any, ...]:
        """Columns that stand before the new ones."""

    @property
    def kinds(self) -> dict[str, str]:
        """The new columns, and their types: float64, float32, int64, boolean or string, as pandas says."""

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """The new columns of a chunk of n rows, each of shape (n,), None where there is nothing."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """Labels by a fitted model.

    Attributes
    ----------
    estimator : a fitted model without its counts
    method : ``"predict_proba"`` or ``"predict"``
    options : of that method
    columns, keep, kinds : as :class:`Work` has them
        ``p_spam`` is a probability, ``label`` a label; of task 3 of several ``p_3_spam`` and ``label_3``.
    example : array of shape (0, ...)
        Labels of no items, for their shape and type.
    """

    estimator: Any
    method: str
    options: dict[str, Any]
    columns: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    kinds: dict[str, str]
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
        slim = estimator.for_labeling()
        schema = slim.vote_schema_
        silent = np.full((1, len(schema.source_names)), -1, np.int8)
        example = getattr(slim, method)(Votes(silent, schema.classes, schema.names), **options)[:0]
        kind = kind_of(schema.classes) if method == "predict" else example.dtype.name
        fields = _fields(method, slim.classes_, example.shape[1:])
        kinds = dict.fromkeys(fields, kind)
        if len(kinds) < len(fields):
            raise OptionError(
                f"classes {', '.join(map(repr, schema.classes[:6]))} look alike as names of columns"
            )
        require_free(kinds, keep)
        return cls(slim, method, options, columns, keep, kinds, example)

    def __call__(self, chunk: Any) -> NDArray[Any]:
        """Labels of a chunk of n items, shape (n, K), (n, D, K), (n,) or (n, D)."""
        if not len(chunk):
            return self.example
        schema = self.estimator.vote_schema_
        read = Reader(self.columns, schema.classes, schema.tasks)
        labels: NDArray[Any] = getattr(self.estimator, self.method)(read(chunk), **self.options)
        return labels

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """Labels of a chunk of n items, each of shape (n,)."""
        flat = self(chunk).reshape(len(chunk), len(self.kinds))
        return dict(zip(self.kinds, flat.T, strict=True))


def kind_of(classes: tuple[Label, ...]) -> str:
    """The type of a column of class labels."""
    for kind, name in ((bool, "boolean"), (int, "int64"), (str, "string")):
        if all(type(label) is kind for label in classes):
            return name
    raise OptionError(
        f"classes {', '.join(map(repr, classes[:6]))} have no column type; a dataframe holds texts, "
        "whole numbers or booleans, and predict_proba needs none of them"
    )


def require_free(kinds: dict[str, str], keep: tuple[Any, ...]) -> None:
    """Refuse columns of one name."""
    taken = set(kinds) & set(map(str, keep))
    if taken:
        raise OptionError(f"keep= names the column {told(min(taken))}, which is written here; rename it")


def _fields(method: str, classes: NDArray[Any], tail: tuple[int, ...]) -> tuple[str, ...]:
    if method == "predict":
        return ("label",) if not tail else tuple(f"label_{task}" for task in range(tail[0]))
    if len(tail) == 1:
        return tuple(f"p_{label}" for label in classes)
    return tuple(f"p_{task}_{label}" for task in range(tail[0]) for label in classes)
