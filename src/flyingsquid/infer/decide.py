"""Probabilities to one label an item, with a stated policy for ties."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_one_of, told
from flyingsquid.exceptions import OptionError
from flyingsquid.votes.states import ABSTAIN, Label

TieBreak: TypeAlias = Literal["first", "abstain", "random"]
TIE_BREAKS: tuple[str, ...] = get_args(TieBreak)
# Probabilities closer than this are a tie: equal evidence summed in another order.
_TIE = 1e-9


def decide(
    posterior: NDArray[np.float64],
    classes: tuple[Label, ...],
    tie_break: str,
    rng: np.random.Generator | None,
) -> NDArray[Any]:
    """The most probable class of each item, shape (n,), for ``posterior`` of shape (n, K).

    ``tie_break``: ``"first"`` takes the first of the tied classes, ``"random"`` draws one with
    ``rng``, ``"abstain"`` answers -1 (0 where -1 is a class, None where classes are texts).
    """
    if not is_one_of(tie_break, TIE_BREAKS):
        raise OptionError(f"tie_break={told(tie_break)} is unknown; one of {', '.join(TIE_BREAKS)}")
    labels = as_label_array(classes)
    if tie_break == "first" and len(classes) == 2:  # most of the time, and ten times as fast
        return labels[(posterior[:, 0] < posterior[:, 1] - _TIE).view(np.int8)]
    best = posterior.max(axis=1, keepdims=True)
    tied = posterior >= best - _TIE
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
    """Class labels as a one-dimensional array, shape (K,)."""
    array = np.array(classes)
    if array.ndim == 1 and array.tolist() == list(classes):
        return array
    # NumPy would turn mixed labels into texts, and tuples into a second axis.
    array = np.empty(len(classes), object)
    array[:] = classes
    return array


def abstain_marker(classes: tuple[Label, ...]) -> int | None:
    """What "no label" looks like among ``classes``.

    >>> abstain_marker((0, 1)), abstain_marker((-1, 1)), abstain_marker(("ham", "spam"))
    (-1, 0, None)
    """
    if as_label_array(classes).dtype.kind != "i":
        return None
    return next((marker for marker in (ABSTAIN, 0) if marker not in classes), None)
