"""Confusion tables by EM with shrinkage, from distinct rows of votes or from counts of pairs.

Pseudo-votes shrink every table toward the accuracy of its source, and that toward the average accuracy. So
few votes change little, and no hard threshold is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from flyingsquid.estimation.weighted import VoteWeights
from flyingsquid.inference.weighted import (
    LEAST_PRIOR,
    TableTerm,
    best_class,
    row_tops,
    shares_of,
    table_posterior,
    table_scores,
)
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot, n_votes_in, share_of_odds
from flyingsquid.votes.grid import CountedRows, PatternGrid
from flyingsquid.votes.patterns import compressed

Array = NDArray[np.float64]
MOST_CELLS = 1 << 24
"""Tables with more cells than this are not estimated; only weights are."""
# Number of pseudo-votes that shrink a row of a table toward its source's accuracy (plateau: 20 to 400),
# number that shrinks that toward the average accuracy, and the initial value of the average.
ROW_VOTES, SOURCE_VOTES, _AVERAGE = 100.0, 40.0, 0.7
# Anchored passes stay close to the weighted votes anyway, so their rows need fewer pseudo-votes (plateau: 5
# to 20).
_ANCHORED_ROW_VOTES, _ANCHORED_PASSES, _ANCHOR = 10.0, 10, 0.1
_WORST, _BEST = 0.05, 0.98
# A uniform class balance counts as this many items.
UNIFORM_ITEMS = 20.0
# Accelerated cycles of three passes each; 3 to 30 are used.
_MOST_CYCLES, _TOLERANCE, _LONGEST_STEP, _LEAST_LOG = 60, 1e-5, 16.0, -12.0
# Tables that change less than this in a pass are almost constant (.01 to .1: no wrong decision about
# abstentions in 4,000 simulations; crowd_adult needs three passes less than with .01).
_ALMOST = 0.05
# EM reads at most this many votes; beyond, evenly spaced items represent all.
_MOST_VOTES = 1 << 23
MOST_PAIR_CELLS = 1 << 24
"""EM on counts of pairs takes m^2 K^3 operations, at most this many."""
# Number of pseudo-items that shrink the coverage in a class toward the coverage in all classes (plateau: 60
# to 150).
_COVERAGE_ITEMS, _LEAST_COVERAGE = 100.0, 1e-4


# ---------------------------------------------------------------------- rows


class Expected(NamedTuple):
    """Expected numbers of items and votes, by true class.

    Attributes
    ----------
    votes : array of shape (m, K, K)
        Number of votes, axes source, truth, vote.
    voted, items : arrays of shape (K,)
        Number of items of each class that have votes, and of all items of each class.
    """

    votes: Array
    voted: Array
    items: Array


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Votes that EM reads. :func:`rows_of` returns them.

    Attributes
    ----------
    one_hot : OneHot or PatternGrid of u rows
    counts : array of shape (u,)
        Number of items with each row.
    voted : array of shape (u,)
        The same, without rows that have no votes.
    votes : array of shape (m, K)
        Votes of each source for each class.
    n_items, n_voted : float
        Number of items, and of those that have votes.
    """

    one_hot: OneHot | PatternGrid
    counts: Array
    voted: Array
    votes: Array
    n_items: float
    n_voted: float

    def count(self, labels: Array) -> Expected:
        """Return the numbers that labels imply: probabilities of the classes of each row, shape (u, K)."""
        if labels.shape[1] > 2:
            votes = self.one_hot.vote_sums(labels * self.counts[:, None]).transpose(1, 2, 0)
        else:  # one class suffices
            votes = np.empty((2, *self.votes.T.shape))
            votes[1] = self.one_hot.vote_sums(labels[:, 1] * self.counts)
            np.maximum(self.votes.T - votes[1], 0.0, out=votes[0])
            votes = votes.transpose(2, 0, 1)
        return Expected(votes, self.voted @ labels, self.counts @ labels)


def rows_of(votes: Votes, weights: NDArray[Any] | None, counted: CountedRows | None = None) -> Rows:
    """Return all possible or all distinct rows if they are few, otherwise all items.

    If there are very many votes, evenly spaced items represent all. ``counted`` is how often each row of
    ``votes`` occurs, if it has been counted already.
    """
    codes, n_classes = votes.codes, votes.n_classes
    counted = counted or CountedRows.of(codes, n_classes, weights)
    one_hot: OneHot | PatternGrid
    if counted is not None and counted.are_dense:
        one_hot, counts = counted.grid, counted.counts
    elif (few := compressed(codes, n_classes, weights)) is not None:
        one_hot, counts = OneHot.of(few[0], n_classes, repeated=True), few[1].astype(np.float64)
    else:
        counts = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
        step = max(1, -(-n_votes_in(codes) // _MOST_VOTES))
        at = np.flatnonzero(counts > 0)[::step] if step > 1 else slice(None)
        one_hot, counts = OneHot.of(codes[at], n_classes, repeated=True).distinct(counts[at])
    voted = np.where(one_hot.totals > 0, counts, 0.0)
    return Rows(one_hot, counts, voted, one_hot.vote_sums(counts).T, float(counts.sum()), float(voted.sum()))


# ---------------------------------------------------------------------- tables


class Tables(NamedTuple):
    """Confusion tables and class balance.

    Attributes
    ----------
    tables : array of shape (m, K, K)
        P(vote v | Y = k, the source votes), axes source, truth, vote.
    balance : array of shape (K,)
    coverage : array of shape (m, K) or None
        P(the source votes | Y = k), if it was estimated.
    """

    tables: Array
    balance: Array
    coverage: Array | None = None

    def flat(self) -> Array:
        """Return all parameters in one array, in the order of the tables in memory."""
        parts = [self.tables.transpose(1, 2, 0).ravel(), self.balance]
        return np.concatenate(parts if self.coverage is None else [*parts, self.coverage.T.ravel()])

    def term(self, weights: VoteWeights, abstention: float = 0.0) -> TableTerm:
        """Return the tables as part of a mixture; ``abstention`` in [0, 1] is the weight of abstentions."""
        counts = weights.discounts[:, None]
        logs = counts[:, :, None] * np.log(self.tables)
        if self.coverage is None or not abstention:
            return TableTerm(logs, weights.weights, self.balance)
        counts = abstention * counts
        silent = counts * np.log1p(-self.coverage)
        logs += (counts * np.log(self.coverage) - silent)[:, :, None]
        prior = np.log(self.balance) + silent.sum(axis=0)
        prior = np.exp(prior - prior.max())
        return TableTerm(logs, weights.weights, np.maximum(prior / prior.sum(), LEAST_PRIOR))


def shrunken_tables(expected: Array, row_votes: float) -> Array:
    """Return tables from expected counts of votes, both shape (m, K, K) with axes source, truth, vote.

    The sources are last in memory, so that sums over classes add long rows instead of summing short ones.
    """
    counts = np.ascontiguousarray(expected.transpose(1, 2, 0))
    n_classes, _, m = counts.shape
    diagonal = slice(None, None, n_classes + 1)
    # A pass is mostly calls of NumPy on few numbers, and `np.add.reduce` is half of the call of a sum.
    right, by_truth = counts.reshape(-1, m)[diagonal], np.add.reduce(counts, axis=1)
    hits, n_votes = np.add.reduce(right), np.add.reduce(by_truth)
    average = float(np.add.reduce(hits)) + SOURCE_VOTES * _AVERAGE
    average /= float(np.add.reduce(n_votes)) + SOURCE_VOTES
    own = hits + SOURCE_VOTES * average
    own /= n_votes + SOURCE_VOTES
    own = np.minimum(np.maximum(own, _WORST, out=own), _BEST, out=own)
    own *= row_votes
    tables = counts + (row_votes - own) / (n_classes - 1)
    np.add(right, own, out=tables.reshape(-1, m)[diagonal])
    by_truth += row_votes
    tables /= by_truth[:, None]
    return tables.transpose(2, 0, 1)


def _balance_of(mass: Array) -> Array:
    mass = mass + UNIFORM_ITEMS / len(mass)
    return np.asarray(mass / np.add.reduce(mass))


def _coverage_by_class(voted: Array, mass: Array) -> Array:
    """Return P(the source votes | Y = k), shape (m, K), from expected numbers of its votes and of items.

    Both have one row per class: shape (K, m), and (K, 1) if all sources have the same items.
    """
    overall = np.add.reduce(voted) / np.maximum(np.add.reduce(mass), 1e-9)
    coverage = (voted + _COVERAGE_ITEMS * overall) / (mass + _COVERAGE_ITEMS)
    return np.minimum(np.maximum(coverage, _LEAST_COVERAGE), 1 - _LEAST_COVERAGE).T


Pass: TypeAlias = Callable[[Tables], Tables]


@dataclass(frozen=True, eq=False)
class RowEM:
    """EM passes over rows of votes.

    Attributes
    ----------
    rows : Rows
    weights : VoteWeights
        Weights of the votes, which are the start, and all that is used of one-sided sources.
    balance : array of shape (K,) or None
        The class balance, if it is known.
    """

    rows: Rows
    weights: VoteWeights
    balance: Array | None

    @cached_property
    def by_votes(self) -> Array:
        """Labels by weighted votes, shape (u, K)."""
        return shares_of(self.rows.one_hot.class_sums(self.weights.weights))

    @cached_property
    def _of_one_sided(self) -> Array | None:
        """Log of the shares of classes in one-sided votes, shape (u, K); None without such votes."""
        weights, one_sided = self.weights.weights, self.weights.one_sided[:, None]
        if not one_sided.any():
            return None
        return np.log(shares_of(self.rows.one_hot.class_sums(np.where(one_sided, weights, 0.0))))

    def start(self) -> Tables:
        """Return the tables that weighted votes imply."""
        return self._maximize(*self.rows.count(self.by_votes)[:2], ROW_VOTES)

    def passes(self, abstention: float = 0.0) -> Pass:
        """Return a function that makes one pass; ``abstention`` is that of :meth:`Tables.term`."""

        def step(now: Tables) -> Tables:
            votes, voted, items = self._expect(now, abstention)
            if not abstention:
                return self._maximize(votes, voted, ROW_VOTES)
            found = self._maximize(votes, voted + abstention * (items - voted), ROW_VOTES)
            by_truth = np.add.reduce(votes.transpose(1, 2, 0), axis=1)
            return Tables(found.tables, found.balance, _coverage_by_class(by_truth, items[:, None]))

        return step

    def anchored(self) -> Tables:
        """Return tables by ten passes whose labels are held close to weighted votes."""
        votes, voted, _ = self.rows.count(self.by_votes)
        tables = self._maximize(votes, voted, _ANCHORED_ROW_VOTES)
        for _ in range(_ANCHORED_PASSES - 1):
            # Numbers are linear in the labels, so they are mixed instead of the labels.
            now = self._expect(tables, 0.0)
            tables = self._maximize(
                (1 - _ANCHOR) * now.votes + _ANCHOR * votes,
                (1 - _ANCHOR) * now.voted + _ANCHOR * voted,
                _ANCHORED_ROW_VOTES,
            )
        return tables

    def posterior(self, tables: Tables, abstention: float = 0.0) -> Array:
        """Return P(Y = k | votes) of the rows by tables, shape (u, K)."""
        term = tables.term(self.weights, abstention)
        return table_posterior(self.rows.one_hot, term, self.weights.one_sided, self._of_one_sided)

    def moved_share(self, tables: Tables) -> float:
        """Return the share of items that tables move from one class to another, relative to weighted votes.

        Items that move in opposite directions cancel.
        """
        moved = self.rows.voted @ (best_class(self.posterior(tables)) - best_class(self.by_votes))
        return float(np.abs(moved).sum() / 2 / max(self.rows.n_voted, 1e-12))

    def likelihood_gain(self, tables: Tables) -> float:
        """Return the mean log-likelihood of an item, relative to tables of the labels by weighted votes."""
        votes, voted, _ = self.rows.count(best_class(self.by_votes))
        unmoved = replace(self, balance=None)._maximize(votes, voted, _ANCHORED_ROW_VOTES)
        gain = self._log_likelihood(tables) - self._log_likelihood(unmoved)
        return float(self.rows.voted @ gain / max(self.rows.n_voted, 1e-12))

    def _log_likelihood(self, tables: Tables) -> Array:
        """Return the log-likelihood of each row, shape (u,)."""
        scores = table_scores(self.rows.one_hot, tables.term(self.weights), self._of_one_sided)
        top = row_tops(scores)
        return np.asarray(top[:, 0] + np.log(np.exp(scores - top).sum(axis=1)))

    def _expect(self, now: Tables, abstention: float) -> Expected:
        """Return the numbers that tables imply."""
        rows = self.rows
        if len(now.balance) > 2:
            return rows.count(self.posterior(now, abstention))
        # For two classes, one of them suffices. The log odds of the first are differences of logarithms of
        # `Tables.term`: one number per vote, and one for an item without votes.
        of_first, of_second = now.tables.transpose(1, 2, 0)
        weights = np.log(of_first / of_second)
        weights *= self.weights.discounts
        offset = float(np.log(now.balance[0] / now.balance[1]))
        if now.coverage is not None and abstention:
            counted, voting = abstention * self.weights.discounts, now.coverage.T
            silent = 1 - voting
            without = counted * np.log(silent[0] / silent[1])
            weights += counted * np.log(voting[0] / voting[1]) - without
            offset += float(np.add.reduce(without))
        if self._of_one_sided is None:
            second = rows.one_hot.share_of_second(weights.ravel(), offset, rows.counts)
        else:
            odds = rows.one_hot @ weights.ravel()
            odds += self._of_one_sided[:, 0] - self._of_one_sided[:, 1] + offset
            second = share_of_odds(odds, rows.counts)
        # A dot product would wait for a second thread, long on a busy machine.
        items = float(np.add.reduce(second))
        voted = items - (rows.n_items - rows.n_voted) * float(expit(-offset))
        votes = np.empty((2, *rows.votes.T.shape))
        votes[1] = rows.one_hot.vote_sums(second)
        np.subtract(rows.votes.T, votes[1], out=votes[0])
        return Expected(
            votes.transpose(2, 0, 1),
            np.array([rows.n_voted - voted, voted]),
            np.array([rows.n_items - items, items]),
        )

    def _maximize(self, votes: Array, voted: Array, row_votes: float) -> Tables:
        """Return the most likely tables for expected numbers of votes and of items of each class."""
        if self._of_one_sided is not None:
            votes = np.where(self.weights.one_sided[:, None, None], 0.0, votes)
        balance = _balance_of(voted) if self.balance is None else self.balance
        return Tables(shrunken_tables(votes, row_votes), balance)


# ---------------------------------------------------------------------- counts of pairs


@dataclass(frozen=True, eq=False)
class PairEM:
    """EM passes on the pairwise likelihood, from counts of pairs, with less weight for dependent pairs.

    Attributes
    ----------
    moments : Moments
    weights : VoteWeights
    shared : array of shape (m, m)
        That of :class:`~flyingsquid.estimation.dependence.Dependence`.
    balance : array of shape (K,) or None
        The class balance, if it is known.
    """

    moments: Moments
    weights: VoteWeights
    shared: Array
    balance: Array | None

    @cached_property
    def _counted(self) -> Array:
        """Weight of each pair of sources, shape (m, m)."""
        several = ~self.weights.one_sided
        counted = (1 - self.shared) * self.weights.discounts * np.outer(several, several)
        np.fill_diagonal(counted, 0.0)
        return np.asarray(counted)

    def start(self) -> Tables:
        """Return tables by how often other sources agree with each source."""
        n_classes = self.moments.n_classes
        counts = self.moments.pair_counts * self._counted
        met, agreeing = counts.sum(axis=(1, 3)).T, np.einsum("uuij->iu", counts)
        share = np.divide(agreeing, met, out=np.full_like(agreeing, 0.5), where=met > 0)
        right = np.clip(share.sum(axis=1) / n_classes, 1 / n_classes + 0.02, 0.95)[:, None, None]
        same = np.eye(n_classes)
        votes = np.asarray(self.moments.vote_counts, np.float64)[~self.weights.one_sided].sum(axis=0) + 1
        start = Tables(
            right * same + (1 - right) / (n_classes - 1) * (1 - same),
            votes / votes.sum() if self.balance is None else self.balance,
        )
        return self.passes()(start)

    def passes(self, abstention: float = 0.0) -> Pass:
        """Return a function that makes one pass.

        With ``abstention``, not voting is an additional vote, and pairs with it have that weight.
        """
        moments, balance, n_classes = self.moments, self.balance, self.moments.n_classes
        m, overall = moments.n_sources, moments.coverage.clip(_LEAST_COVERAGE, 1 - _LEAST_COVERAGE)
        vote_counts = np.asarray(moments.vote_counts, np.float64)
        if abstention:
            counts = _pairs_with_abstention(moments, abstention) * self._counted
            vote_counts = np.column_stack(
                [vote_counts, np.maximum(moments.n_items - vote_counts.sum(axis=1), 0.0)]
            )
        else:
            counts = moments.pair_counts * self._counted
        met = counts.sum(axis=(1, 3)).T  # of each source, votes of each kind on items with another's vote
        scale = np.divide(vote_counts, met, out=np.zeros_like(vote_counts), where=met > 0).T.ravel()
        n_votes, items = len(counts), float(vote_counts.sum() / m)
        # Counts of pairs that sum to the votes of the first source, by vote and source of both.
        of_pairs = counts.transpose(0, 2, 1, 3).reshape(n_votes * m, n_votes * m) * scale[:, None]

        def step(now: Tables) -> Tables:
            by_vote = now.tables.transpose(1, 2, 0)  # P(vote | Y = y), axes truth, vote, source
            if abstention:
                coverage = np.tile(overall, (n_classes, 1)) if now.coverage is None else now.coverage.T
                voting, silent = coverage[:, None], 1 - coverage[:, None]
                if abstention < 1:
                    voting, silent = voting**abstention, silent**abstention
                by_vote = np.concatenate([by_vote * voting, silent], axis=1)
            by_vote = by_vote.reshape(n_classes, n_votes * m)
            joint = now.balance[:, None] * by_vote
            # Shrinkage keeps all probabilities above 0.
            ratio = of_pairs / (joint.T @ by_vote)
            answers = joint * (by_vote @ ratio.T)
            # As in `shrunken_tables`, calls of NumPy take most of the time.
            mass = np.add.reduce(answers, axis=1)
            mass *= items / max(float(np.add.reduce(mass)), 1e-9)
            answers = answers.reshape(n_classes, n_votes, m)
            votes = answers[:, :n_classes]
            found = Tables(
                shrunken_tables(votes.transpose(2, 0, 1), ROW_VOTES),
                _balance_of(mass) if balance is None else balance,
            )
            if not abstention:
                return found
            voted, met = np.add.reduce(votes, axis=1), np.add.reduce(answers, axis=1)
            return Tables(found.tables, found.balance, _coverage_by_class(voted, met))

        return step


def _pairs_with_abstention(moments: Moments, factor: float) -> Array:
    """Return counts of pairs of votes, shape (K + 1, K + 1, m, m); abstention is last, with less weight."""
    pairs = moments.pair_counts.astype(np.float64)
    vote_counts = np.asarray(moments.vote_counts, np.float64).T[:, :, None]  # (K, m, 1)
    one_votes = np.maximum(vote_counts - pairs.sum(axis=1), 0.0)  # i votes and j does not
    silent = moments.n_items - vote_counts.sum(axis=0) - one_votes.sum(axis=0).T  # neither votes
    answers = np.zeros((len(pairs) + 1, len(pairs) + 1, *pairs.shape[2:]))
    answers[:-1, :-1] = pairs
    answers[:-1, -1] = factor * one_votes
    answers[-1, :-1] = factor * one_votes.transpose(0, 2, 1)
    answers[-1, -1] = factor * np.maximum(silent, 0.0)
    return answers


# ---------------------------------------------------------------------- acceleration


def converge(step: Pass, now: Tables, is_enough: Callable[[Tables], bool] | None = None) -> Tables:
    """Iterate passes to a fixed point with SQUAREM (Varadhan and Roland 2008) on the logarithms.

    ``is_enough`` is asked once, when the tables are almost constant, whether they need to be more exact.
    """
    for _ in range(_MOST_CYCLES):
        first = step(now)
        second = step(first)
        values = np.array([now.flat(), first.flat(), second.flat()])
        change = np.maximum.reduce(np.abs(values[2] - values[1]))
        if change < _TOLERANCE:
            return second
        if is_enough is not None and change < _ALMOST:
            if is_enough(second):
                return second
            is_enough = None
        start, middle, end = np.log(values, out=values)
        slope = middle - start
        curve = end - middle - slope
        # A dot product would wait for a second thread, long on a busy machine.
        squares = [float(np.add.reduce(each * each)) for each in (slope, curve)]
        length = min(max(float(np.sqrt(squares[0] / max(squares[1], 1e-24))), 1.0), _LONGEST_STEP)
        start += 2 * length * slope + length**2 * curve
        now = step(_normalized(np.exp(np.minimum(np.maximum(start, _LEAST_LOG), 0.0)), now))
    return now


def _normalized(values: Array, like: Tables) -> Tables:
    m, n_classes = like.tables.shape[:2]
    cells = like.tables.size
    tables, balance = values[:cells].reshape(n_classes, n_classes, m), values[cells : cells + n_classes]
    coverage = None
    if like.coverage is not None:
        coverage = np.minimum(values[cells + n_classes :], 1 - _LEAST_COVERAGE).reshape(n_classes, m).T
    tables /= np.add.reduce(tables, axis=1, keepdims=True)
    return Tables(tables.transpose(2, 0, 1), balance / np.add.reduce(balance), coverage)
