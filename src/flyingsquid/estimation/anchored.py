"""A few passes over the votes that cannot drift: labels by tables, tables by labels, tied to weighted votes.

Free passes (Dawid and Skene 1979) end far from where they began when votes are few or sources depend on each
other. Here three ropes hold every pass. Labels keep a tenth of the weighted votes. The table of a source is
tied to its own accuracy, the same for all classes, and that to the accuracy of all sources. Half of the
answer is that of the weighted votes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.consensus import VoteWeights
from flyingsquid.infer.weighted import Opinion, table_posterior, weighted_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.distinct import compressed
from flyingsquid.votes.one_hot import OneHot
from flyingsquid.votes.states import n_votes_in

Array = NDArray[np.float64]
PASSES = 10
# Share of the weighted votes in the labels that tables are made of.
_HELD = 0.1
# A row of a table is tied by this many votes to its source's accuracy, and that by so many to everybody's.
_ROW_VOTES, _SOURCE_VOTES = 20.0, 40.0
# Before any vote is seen.
_RIGHT = 0.7
_WORST, _BEST = 0.05, 0.98
# Share of the answer that comes from the tables.
TRUST = 0.5
# An even class balance is worth this many items.
_EVEN_ITEMS = 20.0
# Passes read no more votes than this; beyond, evenly spaced items stand for all.
_MOST_VOTES = 1 << 23


@dataclass(frozen=True, slots=True)
class Rows:
    """The votes that passes read.

    Attributes
    ----------
    cast : OneHot of u rows
    counts : array of shape (u,)
        How many items have each row.
    known : array of shape (g, K)
        What is known of the last g rows: 1 for the true class.
    """

    cast: OneHot
    counts: Array
    known: Array


def rows_of(votes: Votes, weights: NDArray[Any] | None, gold: NDArray[Any] | None = None) -> Rows:
    """Distinct rows where they are few, otherwise all items; evenly spaced ones where votes are very many.

    ``gold`` of shape (n,) holds true classes, negative where unknown; what is known comes last.
    """
    if gold is None or not (gold >= 0).any():
        return _unknown_rows(votes, weights)
    counts = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    at = np.flatnonzero(gold >= 0)
    others = _unknown_rows(votes, np.where(gold < 0, counts, 0.0))
    known = np.zeros((len(at), votes.n_classes))
    known[np.arange(len(at)), gold[at]] = 1.0
    return Rows(
        others.cast.stacked_on(OneHot.of(votes.codes[at], votes.n_classes)),
        np.append(others.counts, counts[at]),
        known,
    )


def _unknown_rows(votes: Votes, weights: NDArray[Any] | None) -> Rows:
    codes, n_classes = votes.codes, votes.n_classes
    nothing = np.empty((0, n_classes))
    few = compressed(codes, n_classes, weights)
    if few is not None:
        return Rows(OneHot.of(few[0], n_classes), few[1].astype(np.float64), nothing)
    counts = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    step = max(1, -(-n_votes_in(codes) // _MOST_VOTES))
    at = np.flatnonzero(counts > 0)[::step] if step > 1 else slice(None)
    return Rows(OneHot.of(codes[at], n_classes), counts[at], nothing)


def anchored_opinion(rows: Rows, weighed: VoteWeights, balance: Array | None) -> Opinion:
    """Pass over the votes, from weighted votes to tables of the sources that use several classes.

    ``balance`` of shape (K,) is P(Y = k) as given; None learns it from the labels.
    """
    n_classes = weighed.weights.shape[1]
    anchor = weighted_shares(rows.cast, weighed.weights)
    several, counts = ~weighed.one_sided[:, None, None], rows.counts[:, None]
    with_votes = rows.counts * (rows.cast.n_votes > 0)
    labels = _with_known(anchor, rows.known)
    opinion = Opinion(weighed.weights, weighed.one_sided, np.full(n_classes, 1 / n_classes))
    for _ in range(PASSES):
        expected = rows.cast.vote_sums(labels * counts).transpose(1, 2, 0)
        tables = _tied_tables(np.where(several, expected, 0.0))
        logs = np.where(several, np.log(tables) / weighed.copies[:, None, None], 0.0)
        settled = _learned_balance(labels, with_votes) if balance is None else balance
        opinion = replace(opinion, balance=settled, given=balance is not None, logs=logs, trust=TRUST)
        labels = _with_known((1 - _HELD) * table_posterior(rows.cast, opinion) + _HELD * anchor, rows.known)
    return opinion


def _with_known(labels: Array, known: Array) -> Array:
    """Labels (u, K) whose last rows are what is known of them."""
    return np.concatenate([labels[: len(labels) - len(known)], known]) if len(known) else labels


def _learned_balance(labels: Array, counts: Array) -> Array:
    """Mean of labels (n, K) of items that count (n,) times, beside an even balance, shape (K,)."""
    mass = counts @ labels + _EVEN_ITEMS / labels.shape[1]
    return np.asarray(mass / mass.sum())


def _tied_tables(expected: Array) -> Array:
    """Tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote."""
    n_classes = expected.shape[1]
    right, cast = np.einsum("mkk->m", expected), expected.sum(axis=(1, 2))
    everybody = (right.sum() + _SOURCE_VOTES * _RIGHT) / (cast.sum() + _SOURCE_VOTES)
    own = np.clip((right + _SOURCE_VOTES * everybody) / (cast + _SOURCE_VOTES), _WORST, _BEST)
    same = np.eye(n_classes)
    tied = own[:, None, None] * same + ((1 - own) / (n_classes - 1))[:, None, None] * (1 - same)
    return np.asarray(
        (expected + _ROW_VOTES * tied) / (expected.sum(axis=2, keepdims=True) + _ROW_VOTES), np.float64
    )
