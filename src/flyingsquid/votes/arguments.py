"""Arguments that come with votes: gold labels, sample weights and lengths of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.encode import Convention, as_column, encode


def read_task_gold(y: Any, classes: tuple[Label, ...], shape: tuple[int, int], what: str) -> NDArray[Any]:
    """Codes of known labels, shape (n, D), negative where unknown; ``y`` is (n, D), or (n,) for one task."""
    n_items, n_tasks = shape
    if n_tasks == 1:
        column = y[:, 0] if getattr(y, "shape", None) == (n_items, 1) else y
        return read_gold(column, classes, n_items, what)[:, None]
    try:
        table = np.asanyarray(y)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"{what} is no table of {n_items} items and {n_tasks} tasks: {error}") from error
    if table.shape != shape:
        raise VotesError(
            f"{what} has shape {table.shape}; one label for each of {n_items} items and {n_tasks} tasks, "
            f"{shape}"
        )
    return read_gold(table.reshape(-1), classes, n_items * n_tasks, what).reshape(shape)


def read_gold(y: Any, classes: tuple[Label, ...], n_items: int, what: str) -> NDArray[Any]:
    """Codes of known labels, shape (n,), negative where unknown."""
    gold = as_column(y, f"true classes {what}")
    if len(gold) != n_items:
        raise VotesError(f"{what} has {len(gold)} labels; one for each of {n_items} items is needed")
    unknown = None if ABSTAIN in classes else ABSTAIN
    convention = Convention(unknown, classes, advice=f"{what} holds true classes, as the votes have them")
    codes, _ = encode(gold[:, None], convention, lambda row, _: f"{what}[{row}]")
    return np.asarray(codes[:, 0])


# ---------------------------------------------------------------------- sample weights


LARGEST_COUNT = 2**53
"""Counts stay below: beyond it float64 skips integers."""


def read_weights(sample_weight: ArrayLike, n_items: int) -> NDArray[Any]:
    """Weights of shape (n,): int64 for whole numbers, float64 for floats.

    Raises
    ------
    VotesError
        If they are not one finite number, 0 or more, for each item, or sum to nothing.
    """
    try:
        given = np.asanyarray(sample_weight)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"sample_weight is no sequence of numbers: {error}") from error
    if given.dtype.kind not in "iufb" or np.ma.is_masked(given):
        raise VotesError(f"sample_weight has type {given.dtype}, or masked cells; numbers are needed")
    weights = np.asarray(given).astype(np.float64 if given.dtype.kind == "f" else np.int64)
    if weights.ndim == 0:
        weights = np.full(n_items, weights)
    if weights.shape != (n_items,):
        raise VotesError(
            f"sample_weight has shape {weights.shape}; one weight for each of {n_items} items is needed"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise VotesError(
            f"sample_weight[{at}] is {told(weights[at].item())}; a weight says how often an item counts, "
            "so it is finite and not negative"
        )
    with np.errstate(over="ignore"):  # infinity is refused below
        total = float(weights.sum(dtype=np.float64))
    if not 0 < total < LARGEST_COUNT:
        raise VotesError(
            f"sample_weight sums to {total:g}; the sum is the number of items, so it must be above 0 "
            "and below 2**53"
        )
    return weights


# ---------------------------------------------------------------------- lengths of sequences


def read_lengths(lengths: Any, n_rows: int) -> NDArray[np.intp]:
    """Rows of each sequence, in order, shape (sequences,); None is one sequence of all rows.

    Raises
    ------
    VotesError
        If they are not whole numbers above 0 that add up to ``n_rows``.

    Examples
    --------
    >>> read_lengths([2, 3], 5), read_lengths(None, 5)
    (array([2, 3]), array([5]))
    """
    if lengths is None:
        return np.array([n_rows], np.intp)
    try:
        given = np.asanyarray(lengths)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"lengths is no list of whole numbers: {error}") from error
    if given.ndim != 1 or not given.size:
        raise VotesError(
            f"lengths is {type(lengths).__name__} of shape {given.shape}; pass a list with the number of "
            f"rows of each sequence, or None for one sequence of {n_rows:,} rows"
        )
    _refuse_labels(given, n_rows)
    if given.dtype.kind not in "iu" or np.ma.is_masked(given):
        raise VotesError(
            f"lengths holds {told(given[:3].tolist())}, ... of type {given.dtype}; whole numbers are needed, "
            "the rows of each sequence"
        )
    if (given < 1).any():
        at = int(np.flatnonzero(given < 1)[0])
        raise VotesError(
            f"lengths[{at}] is {given[at]}; a sequence has at least one row. Leave empty sequences out"
        )
    total = int(given.sum(dtype=object))  # as Python integers, which do not wrap
    if total != n_rows:
        raise VotesError(
            f"lengths add up to {total:,}, and there are {n_rows:,} rows of votes; every row belongs to one "
            "sequence, in order"
        )
    return given.astype(np.intp)


def _refuse_labels(given: NDArray[Any], n_rows: int) -> None:
    """True labels in the place of lengths: as many as there are rows, and no lengths of them."""
    if len(given) != n_rows or n_rows == 1 or (given.dtype.kind in "iu" and (given == 1).all()):
        return
    raise VotesError(
        f"lengths has {n_rows:,} entries, as many as there are rows, and they are not all 1. If these are "
        "true labels: lengths come second, as in fit(votes, lengths), and labels are no part of a fit; "
        "score(votes, y, lengths) takes them"
    )


def starts_of(lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first row of each sequence, shape (sequences,).

    >>> starts_of(np.array([2, 3, 1]))
    array([0, 2, 5])
    """
    return np.asarray(np.cumsum(lengths) - lengths)
