"""How truths of many classes follow each other, from votes alone.

For different sources i and j, P(i votes a, j votes b in the next row) = Σ A_i[a, k] J[k, l] A_j[b, l], with A
the tables of the sources and J = P(now = k, next = l). That is linear in J: least squares over all pairs of
different sources, then the nearest table with the class balance on both margins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.margins import fit_margins
from flyingsquid.estimation.transition import Transition
from flyingsquid.exceptions import OptionError
from flyingsquid.moments import SequenceMoments

Array = NDArray[np.float64]
# The system has K² unknowns, all coupled.
MOST_CLASSES = 40
# How far the class balance may be from that of the truths which the lagged votes imply, in total variation.
_MOST_AT_ODDS = 0.1


def require_few_classes(n_classes: int) -> None:
    """Refuse more classes than a chain is learned of, before anything is counted."""
    if n_classes > MOST_CLASSES:
        raise OptionError(
            f"SequenceLabelModel learns how {MOST_CLASSES} classes at most follow each other, and the votes "
            f"have {n_classes:,}; use LabelModel on the rows"
        )


def fit_transition_many(moments: SequenceMoments, tables: Array, balance: Array) -> Transition:
    """The chain of truths that the lagged votes imply.

    Where these do not fit the class balance, rows are taken to be independent.

    Parameters
    ----------
    moments : SequenceMoments of K classes
    tables : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    """
    m, n_classes = len(tables), len(balance)
    require_few_classes(n_classes)
    apart = np.outer(balance, balance)
    pairs = int((np.asarray(moments.lagged).sum(axis=(0, 1)) > 0).sum() - _own_pairs(moments))
    if not pairs:
        return Transition(apart, 0.0, np.inf, 0, np.zeros(m))
    votes = tables[:, :, :-1].transpose(0, 2, 1)  # (m, vote, truth)
    seen = np.asarray(moments.lagged / moments.n_pairs, np.float64)  # (now, next, i, j)
    pull = np.einsum("iak,abij,jbl->kl", votes, seen, votes, optimize=True)
    pull -= np.einsum("iak,abii,ibl->kl", votes, seen, votes, optimize=True)
    squares = np.einsum("iak,ial->ikl", votes, votes)
    total = squares.sum(axis=0)
    system = np.kron(total, total) - np.einsum("ikp,ilq->klpq", squares, squares).reshape(n_classes**2, -1)
    found = np.linalg.lstsq(system, pull.ravel(), rcond=1e-9)[0].reshape(n_classes, n_classes)
    if max(np.abs(found.sum(axis=axis) - balance).sum() / 2 for axis in (0, 1)) > _MOST_AT_ODDS:
        # The lagged votes speak of other truths than the balance does; neither can be trusted with the other.
        return Transition(apart, 0.0, np.inf, pairs, np.zeros(m))
    joint = with_margins(found, balance, float(moments.n_pairs))
    alike, chance = float(np.trace(joint)), float((balance**2).sum())
    return Transition(joint, (alike - chance) / (1 - chance), np.nan, pairs, np.zeros(m))


def _own_pairs(moments: SequenceMoments) -> int:
    """How many sources vote in two rows in a row."""
    return int((np.einsum("abii->i", np.asarray(moments.lagged)) > 0).sum())


def with_margins(joint: Array, balance: Array, n_pairs: float) -> Array:
    """A positive table with ``balance`` on both margins, near ``joint``; all of shape (K, K) and (K,).

    No cell is below half a pair, because no probability can be seen to be smaller.

    >>> with_margins(np.array([[0.5, -0.1], [0.1, 0.5]]), np.array([0.5, 0.5]), 50).round(2)
    array([[0.47, 0.03],
           [0.03, 0.47]])
    """
    floor = np.minimum(0.5 / n_pairs, np.outer(balance, balance) / 2)
    return fit_margins(np.maximum(joint, floor), balance, balance)
