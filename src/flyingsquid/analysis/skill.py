"""How well a source tells the classes apart, whatever their balance is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.sparse_tables import SparseTables

Array = NDArray[np.float64]


def balanced_accuracies(
    tables: Array | SparseTables, balance: Array, n_items: float, coverage: Array
) -> tuple[Array, Array]:
    """Mean over the classes of how often a source is right there, and its standard error, shapes (m,).

    Votes at random reach 1/K, however many of them are for which class; and the class balance has no part in
    it, so that a wrong one does not make a source look good or bad. A source of one class reaches 1/K too.

    Parameters
    ----------
    tables : array of shape (m, K, K + 1), or SparseTables
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    n_items : how many items were fitted
    coverage : array of shape (m,)
        P(source votes).

    Examples
    --------
    >>> table = np.array([[[0.9, 0.1, 0.0], [0.4, 0.6, 0.0]], [[0.2, 0.8, 0.0], [0.2, 0.8, 0.0]]])
    >>> skill, error = balanced_accuracies(table, np.array([0.5, 0.5]), 100, np.ones(2))
    >>> skill.round(3), error.round(3)
    (array([0.75, 0.5 ]), array([0.041, 0.041]))
    """
    if isinstance(tables, SparseTables):
        right = tables.right()
        voting = np.broadcast_to(coverage[:, None], right.shape)
    else:
        voting = tables[:, :, :-1].sum(axis=2)
        hits = np.einsum("mkk->mk", tables[:, :, :-1])
        right = np.divide(hits, voting, out=np.full_like(hits, 1 / len(balance)), where=voting > 0)
    cast = voting * balance * n_items
    # One vote each way keeps two votes of one kind from being taken for certainty.
    share = (right * cast + 1) / (cast + 2)
    variance = share * (1 - share) / np.maximum(cast, 1.0)
    return right.mean(axis=1), np.sqrt(variance.sum(axis=1)) / len(balance)
