"""A few passes over the votes: labels by the tables, tables by the labels (Dawid and Skene 1979).

From a good start a few passes gain what there is to gain. Tables keep a weak prior, so that a source with few
votes is not believed more than it has shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.estimate.agreement import smoothed_tables
from flyingsquid.votes import Votes
from flyingsquid.votes.one_hot import one_hot

Array = NDArray[np.float64]
PASSES = 10


@dataclass(frozen=True, slots=True)
class Refined:
    """Where the passes ended.

    Attributes
    ----------
    tables : array of shape (m, K, K), axes source, truth, vote
    balance : array of shape (K,)
    """

    tables: Array
    balance: Array


def refine(
    votes: Votes,
    weights: NDArray[Any] | None,
    tables: Array,
    balance: Array,
    *,
    learn_balance: bool,
    passes: int = PASSES,
) -> Refined:
    """Pass over the votes, starting from ``tables`` and ``balance``.

    ``weights`` of shape (n,) say how often each item counts.
    """
    cast, (n_sources, n_classes) = one_hot(votes.codes, votes.n_classes), tables.shape[:2]
    share = None if weights is None else np.asarray(weights, np.float64)[:, None]
    for _ in range(passes):
        posterior = _posterior(cast, tables, balance)
        counted = posterior if share is None else posterior * share
        expected = np.asarray(cast.T @ counted).reshape(
            n_classes, n_sources, n_classes
        )  # vote, source, truth
        tables = smoothed_tables(expected.transpose(1, 2, 0))
        if learn_balance:
            balance = (counted.sum(axis=0) + 1) / (counted.sum() + n_classes)
    return Refined(tables, balance)


def _posterior(cast: csr_array, tables: Array, balance: Array) -> Array:
    """P(Y = k | votes), shape (n, K), for one-hot votes."""
    logs = np.log(tables).transpose(2, 0, 1).reshape(cast.shape[1], -1)  # (K m, K): vote and source, truth
    scores = np.asarray(cast @ logs) + np.log(balance)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
