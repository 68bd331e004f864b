"""Lengths of sequences: where rows that follow each other begin and end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VotesError


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
