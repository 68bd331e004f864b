"""Labels from scores of classes: which class wins, and how much credit a label gets if classes tie.

Everything that compares a model with majority vote uses one rule: a tie counts as the share of the tied
classes that is correct, which is the expected accuracy of a tie that is broken at random. An item without
votes is a tie of all classes for majority vote. So no side gains from the order of the classes.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_one_of, option_error
from flyingsquid.votes.codes import ABSTAIN, FEW_CLASSES, Label

TieBreak: TypeAlias = Literal["first", "abstain", "random"]
TIE_BREAKS: tuple[str, ...] = get_args(TieBreak)
# Probabilities closer than this are a tie, because equal evidence may be summed in different orders.
_TIE = 1e-9


def best_classes(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each class has the highest score of its item, shape (..., K); several on a tie."""
    if scores.shape[-1] > FEW_CLASSES:
        return np.asarray(scores >= scores.max(axis=-1, keepdims=True) - _TIE)
    # Class by class, because NumPy reduces a short axis twenty times as slowly.
    least = reduce(np.maximum, np.moveaxis(scores, -1, 0)) - _TIE
    return np.asarray(scores >= least[..., None])


def is_tied(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether several classes share the highest score, shape (n,) for scores of shape (n, K).

    >>> is_tied(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]))
    array([ True, False])
    """
    if scores.shape[-1] == 2:
        return np.asarray(np.abs(scores[..., 0] - scores[..., 1]) <= _TIE)
    best = best_classes(scores)
    if scores.shape[-1] > FEW_CLASSES:
        return np.asarray(best.sum(axis=-1) > 1)
    return np.asarray(sum(np.moveaxis(best.view(np.int8), -1, 0)) > 1)


def label_shares(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability of each label if ties are broken at random, shape (..., K).

    >>> label_shares(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]))
    array([[0.5, 0.5, 0. ],
           [0. , 1. , 0. ]])
    """
    best = best_classes(scores)
    return np.asarray(best / best.sum(axis=-1, keepdims=True))


def expected_credit(scores: NDArray[Any], gold: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that each label is correct if ties are broken at random, shape of ``gold``.

    Parameters
    ----------
    scores : array of shape (..., K)
        Probabilities, log odds or shares of votes.
    gold : integer array of shape (...)
        Codes of the true classes. Unknown ones, which are negative, get no credit.

    Examples
    --------
    >>> scores = np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1], [0.2, 0.7, 0.1]])
    >>> expected_credit(scores, np.array([1, 1, 0]))
    array([0.5, 1. , 0. ])
    """
    known = np.maximum(gold, 0).astype(np.intp)
    credit = np.take_along_axis(label_shares(scores), known[..., None], axis=-1)[..., 0]
    return np.where(gold >= 0, credit, 0.0)


def winners(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the class with the highest score, shape (n,), for scores of shape (n, K); the first on a tie."""
    return np.asarray(decide(scores, tuple(range(scores.shape[1])), "first", None), np.intp)


def decide(
    posterior: NDArray[np.float64],
    classes: tuple[Label, ...],
    tie_break: str,
    rng: np.random.Generator | None,
) -> NDArray[Any]:
    """Return the most probable class of each item, shape (n,), for ``posterior`` of shape (n, K).

    ``tie_break``: ``"first"`` takes the first of the tied classes, ``"random"`` draws one with
    ``rng``, ``"abstain"`` returns -1 (0 if -1 is a class, None if classes are not integers).
    """
    if not is_one_of(tie_break, TIE_BREAKS):
        raise option_error("tie_break", f"one of {', '.join(map(repr, TIE_BREAKS))}", tie_break)
    labels = as_label_array(classes)
    if tie_break == "first" and len(classes) == 2:  # the usual case, ten times as fast
        return labels[(posterior[:, 0] < posterior[:, 1] - _TIE).view(np.int8)]
    tied = best_classes(posterior)
    winner = np.argmax(tied, axis=1)
    if tie_break == "first":
        return labels[winner]
    rows = np.flatnonzero(tied.sum(axis=1) > 1)
    if tie_break == "random" and rng is not None:
        winner[rows] = np.argmax(rng.random((len(rows), len(classes))) * tied[rows], axis=1)
        return labels[winner]
    marker = abstain_marker(classes)
    answer = labels[winner]
    if marker is None:
        answer = answer.astype(object)
    answer[rows] = marker
    return answer


def as_label_array(classes: tuple[Label, ...]) -> NDArray[Any]:
    """Return class labels as a one-dimensional array, shape (K,)."""
    array = np.array(classes)
    if array.ndim == 1 and array.tolist() == list(classes):
        return array
    # NumPy would turn mixed labels into strings, and tuples into a second axis.
    array = np.empty(len(classes), object)
    array[:] = classes
    return array


def abstain_marker(classes: tuple[Label, ...]) -> int | None:
    """Return the value that means "no label" among ``classes``.

    >>> abstain_marker((0, 1)), abstain_marker((-1, 1)), abstain_marker(("ham", "spam"))
    (-1, 0, None)
    """
    if as_label_array(classes).dtype.kind != "i":
        return None
    return next((marker for marker in (ABSTAIN, 0) if marker not in classes), None)
