"""EM over the votes: labels from tables, tables from labels (Dawid and Skene 1979).

From a good starting point, a few passes suffice. Tables have a weak prior, so that a source with few votes
does not look more accurate than its votes support.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import prior_table, smoothed_tables
from flyingsquid.estimation.gold import ManyGold
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]
PASSES = 10


@dataclass(frozen=True, slots=True)
class Refined:
    """Result of the EM passes.

    Attributes
    ----------
    tables : array of shape (m, K, K), axes source, truth, vote
    balance : array of shape (K,)
    """

    tables: Array
    balance: Array


@dataclass(frozen=True, slots=True)
class EMVotes:
    """Votes that the EM passes read, with weights and gold labels.

    Attributes
    ----------
    votes : Votes of shape (n, m), or None if only counts are available
    weights : array of shape (n,), or None
        How often each item counts.
    known : array of shape (n,), or None
        Codes of gold labels, negative if unknown.
    """

    votes: Votes | None
    weights: NDArray[Any] | None = None
    known: NDArray[Any] | None = None


def refine(
    over: EMVotes,
    tables: Array,
    balance: Array,
    *,
    learn_balance: bool,
    passes: int = PASSES,
    gold: ManyGold | None = None,
) -> Refined:
    """Refine ``tables`` and ``balance`` by passes over the votes. Items with gold labels keep their class."""
    if over.votes is None:
        return Refined(tables, balance)
    votes, n_classes = over.votes, tables.shape[1]
    cast, prior = OneHot.of(votes.codes, n_classes), prior_table(n_classes, gold)
    share = None if over.weights is None else np.asarray(over.weights, np.float64)[:, None]
    for _ in range(passes):
        posterior = _posterior(cast, tables, balance)
        if over.known is not None:
            set_gold(posterior, over.known)
        counted = posterior if share is None else posterior * share
        expected = cast.vote_sums(counted)  # vote, source, truth
        tables = smoothed_tables(expected.transpose(1, 2, 0), prior)
        if learn_balance:
            balance = (counted.sum(axis=0) + 1) / (counted.sum() + n_classes)
    return Refined(tables, balance)


def set_gold(posterior: Array, known: NDArray[Any]) -> None:
    """Set the posterior of items with gold labels to their class, in place."""
    at = np.flatnonzero(known >= 0)
    posterior[at] = 0.0
    posterior[at, known[at]] = 1.0


def _posterior(cast: OneHot, tables: Array, balance: Array) -> Array:
    """Return P(Y = k | votes), shape (n, K), for one-hot votes."""
    logs = np.log(tables).transpose(2, 0, 1).reshape(-1, tables.shape[1])  # (K m, K): vote and source, truth
    scores = cast @ logs + np.log(balance)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
