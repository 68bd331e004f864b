"""Simulated votes with their true classes: independent sources, drift, sequences and dependency graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import (
    RandomState,
    format_count,
    format_value,
    is_number,
    is_one_of,
    option_error,
    read_integer,
    read_random_state,
)
from flyingsquid.estimation.balance import resolve_balance
from flyingsquid.estimation.proportional import tables_from_edges
from flyingsquid.estimation.transition import joint_table
from flyingsquid.estimation.units import draw_truths
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.arguments import read_lengths, starts_of
from flyingsquid.votes.codes import smallest_dtype

Array = NDArray[np.float64]
DriftKind = Literal["none", "sudden", "gradual", "periodic"]
_MAX_VOTES = 1 << 40


# ---------------------------------------------------------------------- independent sources


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated votes and their true classes.

    Attributes
    ----------
    votes : Votes of shape (n, m)
    y : int8 array of shape (n,)
        True classes, 0 or 1.
    accuracies : array of shape (m,), or (n, m) if sources change
        P(vote is right | source votes).
    coverage : array of shape (m,)
        P(source votes).
    class_balance : array of shape (2,)
    """

    votes: Votes
    y: NDArray[np.int8]
    accuracies: Array
    coverage: Array
    class_balance: Array

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.votes})"


def simulate(
    n_items: int,
    accuracies: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    random_state: RandomState = None,
) -> Simulation:
    """Draw votes on one binary task from sources that are independent given the class.

    Parameters
    ----------
    n_items : int
    accuracies : array-like of shape (m,)
        P(vote is right | source votes), equal for both classes.
    coverage : float or array-like of shape (m,), default=1.0
        P(source votes), equal for both classes.
    class_balance : array-like of shape (2,), mapping or None, default=None
        P(Y=0), P(Y=1); None is uniform.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None uses a new seed on every call.

    Examples
    --------
    >>> sample = simulate(1000, [0.9, 0.7, 0.6], coverage=0.5, random_state=0)
    >>> sample.votes
    Votes(1,000 items x 3 sources, classes 0, 1, 50% voted, dense int8)
    """
    right, votes_at = _read_sources(n_items, accuracies, coverage)
    rng = read_random_state(random_state)
    balance = _read_balance(class_balance, 2)
    y = (rng.random(n_items) < balance[1]).astype(np.int8)
    shape = (n_items, len(right))
    is_right = rng.random(shape) < right
    votes = _binary_votes(is_right, rng.random(shape) >= votes_at, y)
    return Simulation(votes, y, right, votes_at, balance)


def _binary_votes(is_right: NDArray[np.bool_], is_missing: NDArray[np.bool_], y: NDArray[Any]) -> Votes:
    votes = np.where(is_missing, ABSTAIN, np.where(is_right, y[:, None], 1 - y[:, None]))
    return Votes.from_classes(votes.astype(np.int8), classes=(0, 1))


def _read_balance(class_balance: Any, n_classes: int) -> Array:
    """Return P(Y = k) to draw from, shape (K,); uniform for None."""
    balance = resolve_balance("uniform" if class_balance is None else class_balance, tuple(range(n_classes)))
    if not isinstance(balance, np.ndarray):
        raise option_error("class_balance", "None or one probability per class", class_balance)
    return balance


def _read_sources(n_items: int, accuracies: ArrayLike, coverage: ArrayLike) -> tuple[Array, Array]:
    """Return accuracies and coverage, both of shape (m,)."""
    n_items = read_integer("n_items", n_items, 1)
    right = np.atleast_1d(_read_probabilities("accuracies", accuracies))
    votes_at = _read_probabilities("coverage", coverage)
    if right.ndim != 1:
        raise option_error("accuracies", "one probability per source", accuracies)
    if n_items * right.size > _MAX_VOTES:
        raise OptionError(
            f"{format_value(n_items, 30)} items x {right.size:,} sources do not fit into memory; "
            "`n_items` must be smaller.",
            parameter="n_items",
        )
    if votes_at.ndim == 0:
        votes_at = np.full(right.shape, votes_at)
    if votes_at.shape != right.shape:
        sources = format_count(len(right), "source")
        raise option_error("coverage", f"one probability, or one for each of {sources}", coverage)
    return right, votes_at


def _read_probabilities(name: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise option_error(name, "probabilities in [0, 1]", values) from error
    if not ((array >= 0) & (array <= 1)).all():
        raise option_error(name, "probabilities in [0, 1]", values)
    return array


# ---------------------------------------------------------------------- drift


def simulate_drift(
    n_items: int,
    before: ArrayLike,
    after: ArrayLike,
    *,
    kind: DriftKind = "sudden",
    at: float = 0.5,
    period: int | None = None,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    random_state: RandomState = None,
) -> Simulation:
    """Draw a stream of votes on one binary task from sources whose accuracies change.

    Parameters
    ----------
    n_items : int
    before : array-like of shape (m,)
        Accuracies at the start.
    after : array-like of shape (m,)
        Accuracies that the sources drift to.
    kind : {"none", "sudden", "gradual", "periodic"}, default="sudden"
        "none" stays at ``before``; "sudden" changes to ``after`` at the share ``at`` of the stream; "gradual"
        changes linearly; "periodic" alternates between the two as a cosine.
    at : float, default=0.5
        Position of the sudden change, in (0, 1).
    period : int or None, default=None
        Items per period of "periodic"; None is a fifth of the stream.
    coverage, class_balance, random_state
        As in :func:`simulate`.

    Examples
    --------
    >>> stream = simulate_drift(1000, [0.9, 0.7], [0.6, 0.7], kind="gradual", random_state=0)
    >>> stream.accuracies[[0, 500, 999]].round(2).tolist()
    [[0.9, 0.7], [0.75, 0.7], [0.6, 0.7]]
    """
    if not is_one_of(kind, get_args(DriftKind)):
        raise option_error("kind", f"one of {', '.join(get_args(DriftKind))}", kind)
    if not is_number(at) or not 0 < at < 1:
        raise option_error("at", "a number in (0, 1)", at)
    if period is not None:
        period = read_integer("period", period, 2)
    first, last = (
        np.atleast_1d(_read_probabilities(name, ends))
        for name, ends in (("before", before), ("after", after))
    )
    if first.shape != last.shape:
        raise option_error("after", f"an array of the shape of `before`, {first.shape}", after)
    rng = read_random_state(random_state)
    stable = simulate(n_items, first, coverage=coverage, class_balance=class_balance, random_state=rng)
    progress = _progress(np.arange(n_items), kind, at, period)
    accuracies = first + progress[:, None] * (last - first)
    is_missing = np.asarray(stable.votes.codes) == ABSTAIN
    votes = _binary_votes(rng.random(is_missing.shape) < accuracies, is_missing, stable.y)
    return Simulation(votes, stable.y, accuracies, stable.coverage, stable.class_balance)


def _progress(item: NDArray[np.intp], kind: DriftKind, at: float, period: int | None) -> Array:
    """Return the weight of ``after`` in the accuracies of each item, shape (n,)."""
    n_items = len(item)
    if kind == "none":
        return np.zeros(n_items)
    if kind == "sudden":
        return (item >= at * n_items).astype(np.float64)
    if kind == "gradual":
        return item / max(1, n_items - 1)
    return np.asarray((1 - np.cos(2 * np.pi * item / (period or max(2, n_items // 5)))) / 2)


# ---------------------------------------------------------------------- sequences


@dataclass(frozen=True, slots=True, repr=False)
class SequenceSimulation(Simulation):
    """Simulated votes on the items of sequences, and the true classes.

    Attributes
    ----------
    votes, y, accuracies, coverage, class_balance : as in :class:`Simulation`
    lengths : integer array of shape (sequences,)
    transition : array of shape (2, 2)
        P(next = l | now = k).
    """

    lengths: NDArray[np.intp]
    transition: Array


def simulate_sequence(
    n_items: int,
    accuracies: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    persistence: float = 0.9,
    lengths: Any = None,
    error_persistence: float = 0.0,
    random_state: RandomState = None,
) -> SequenceSimulation:
    """Draw votes on sequences of one binary task from sources that are independent given the classes.

    Parameters
    ----------
    n_items : int
        Items of all sequences together.
    accuracies, coverage, class_balance, random_state
        As in :func:`simulate`.
    persistence : float, default=0.9
        Correlation of consecutive classes, in [0, 1): the probability that an item repeats the class before
        it; otherwise its class is a new draw.
    lengths : list of int or None, default=None
        Items of each sequence, with sum ``n_items``; None is one sequence.
    error_persistence : float, default=0.0
        Probability in [0, 1) that a vote is right or wrong like the previous vote of the source in the
        sequence. Values above 0 violate the assumptions of the model.

    Examples
    --------
    >>> video = simulate_sequence(
    ...     1000, [0.9, 0.7], coverage=0.5, persistence=0.8, lengths=[600, 400], random_state=0)
    >>> video.votes
    Votes(1,000 items x 2 sources, classes 0, 1, 49% voted, dense int8)
    >>> video.transition
    array([[0.9, 0.1],
           [0.1, 0.9]])
    """
    for name, value in (("persistence", persistence), ("error_persistence", error_persistence)):
        if not is_number(value) or not 0 <= value < 1:
            raise option_error(name, "a number in [0, 1)", value)
    rng = read_random_state(random_state)
    fresh = simulate(n_items, accuracies, coverage=coverage, class_balance=class_balance, random_state=rng)
    sequences = read_lengths(lengths, n_items)
    starts = starts_of(sequences)
    y = fresh.y[_find_last_draws(rng.random(n_items) < persistence, starts)]
    is_right = rng.random((n_items, len(fresh.accuracies))) < fresh.accuracies
    if error_persistence > 0:
        repeats = rng.random(is_right.shape) < error_persistence
        columns = zip(is_right.T, repeats.T, strict=True)
        is_right = np.stack([right[_find_last_draws(repeat, starts)] for right, repeat in columns], axis=1)
    votes = _binary_votes(is_right, np.asarray(fresh.votes.codes) == ABSTAIN, y)
    transition = persistence * np.eye(2) + (1 - persistence) * fresh.class_balance
    return SequenceSimulation(
        votes, y, fresh.accuracies, fresh.coverage, fresh.class_balance, sequences, transition
    )


def _find_last_draws(repeats: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each item the latest item, up to itself, that does not repeat another one; shape (n,)."""
    repeats[starts] = False
    return np.maximum.accumulate(np.where(repeats, 0, np.arange(len(repeats))))


# ---------------------------------------------------------------------- graphs


@dataclass(frozen=True, slots=True, repr=False)
class GraphSimulation(Simulation):
    """Simulated votes on the tasks of a graph, and the true classes.

    Attributes
    ----------
    votes, class_balance : as in :class:`Simulation`
    y : integer array of shape (n, D)
        True classes of every task, 0 to K - 1.
    accuracies, coverage : arrays of shape (m,)
        P(vote is right | source votes), P(source votes), including copied votes.
    graph : DependencyGraph
    """

    graph: DependencyGraph


def simulate_graph(
    n_items: int,
    graph: DependencyGraph,
    accuracies: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    n_classes: int = 2,
    correlation: float = 0.8,
    copying: float = 0.5,
    random_state: RandomState = None,
) -> GraphSimulation:
    """Draw votes on dependent tasks from dependent sources.

    Parameters
    ----------
    n_items : int
    graph : DependencyGraph
    accuracies : float or array-like of shape (m,)
        P(vote is right | source votes) of each source without copying.
    coverage : float or array-like of shape (m,), default=1.0
        P(source votes) of each source without copying.
    class_balance : array-like of shape (K,), mapping or None, default=None
        P(Y=k) of every task; None is uniform.
    n_classes : int, default=2
        The number K of classes. A wrong vote is for each of the other classes with equal probability.
    correlation : float, default=0.8
        Correlation of the classes of tasks that an edge joins, in (-1, 1); for more than two classes in
        [0, 1).
    copying : float, default=0.5
        Probability in [0, 1) that a source repeats the vote, or the missing vote, of an earlier source that
        an edge joins it to.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None uses a new seed on every call.

    Examples
    --------
    >>> graph = DependencyGraph.chain(3, 4, source_edges=[(0, 1)])
    >>> clips = simulate_graph(1000, graph, 0.75, coverage=0.8, random_state=0)
    >>> clips.votes
    Votes(1,000 items x 12 sources, classes 0, 1, 80% voted, dense int8)
    >>> clips.y.shape
    (1000, 3)
    """
    if not isinstance(graph, DependencyGraph):
        raise option_error("graph", "a DependencyGraph", graph)
    n_classes = read_integer("n_classes", n_classes, 2)
    if not is_number(correlation) or not -1 < correlation < 1 or (n_classes > 2 and correlation < 0):
        allowed = "(-1, 1)" if n_classes == 2 else "[0, 1) for more than two classes"
        raise option_error("correlation", f"a number in {allowed}", correlation)
    if not is_number(copying) or not 0 <= copying < 1:
        raise option_error("copying", "a number in [0, 1)", copying)
    rng = read_random_state(random_state)
    right, votes_at = _read_sources(
        n_items, np.broadcast_to(_read_probabilities("accuracies", accuracies), graph.n_sources), coverage
    )
    balance = _read_balance(class_balance, n_classes)
    votes, y = _draw_votes(n_items, graph, right, votes_at, balance, correlation, rng)
    covered, correct = _copy_votes(votes, graph, votes_at * right, votes_at, copying, rng)
    accuracy = np.divide(correct, covered, out=np.full(len(covered), 0.5), where=covered > 0)
    coded = Votes.from_classes(votes, classes=tuple(range(n_classes)))
    return GraphSimulation(coded, y, accuracy, covered, balance, graph)


def _draw_votes(
    n_items: int,
    graph: DependencyGraph,
    right: Array,
    votes_at: Array,
    balance: Array,
    correlation: float,
    rng: np.random.Generator,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return votes (n, m) of sources that do not copy, and classes (n, D)."""
    n_classes = len(balance)
    if n_classes == 2:  # where the correlation may be negative, as far as the balance allows
        table = joint_table(correlation * 4 * balance.prod(), balance, balance, np.inf)
    else:
        table = correlation * np.diag(balance) + (1 - correlation) * np.outer(balance, balance)
    # Which votes are right or missing does not depend on the classes.
    one_task = simulate(n_items, right, coverage=votes_at, random_state=rng)
    codes = np.asarray(one_task.votes.codes)
    y = _draw_classes(n_items, graph, table, balance, rng)
    own = y[:, graph.source_task].astype(np.int64)
    wrong = (own + rng.integers(1, n_classes, own.shape)) % n_classes
    votes = np.where(codes == one_task.y[:, None], own, wrong)
    return np.where(codes == ABSTAIN, ABSTAIN, votes).astype(smallest_dtype(n_classes)), y


def _draw_classes(
    n_items: int, graph: DependencyGraph, table: Array, balance: Array, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw classes of all tasks, shape (n, D), with ``table`` of shape (K, K) on every edge."""
    edges = np.array([table] * len(graph.task_edges)).reshape(-1, *table.shape)
    balances = np.tile(balance, (graph.n_tasks, 1))
    tables = tables_from_edges(graph._task_tree, graph.task_edges, edges, balances).tables
    return draw_truths(n_items, graph._task_tree, tables, graph.n_tasks, rng)


def _copy_votes(
    votes: NDArray[Any],
    graph: DependencyGraph,
    correct: Array,
    covered: Array,
    copying: float,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Copy votes between sources in place; return P(votes) and P(votes and is right) with the copies."""
    covered, correct = covered.copy(), correct.copy()
    for source in range(graph.n_sources):
        earlier = [a for a, b in graph.source_edges if b == source]
        if not earlier:
            continue
        copies = np.flatnonzero(rng.random(len(votes)) < copying)
        chosen = rng.choice(earlier, len(copies))
        votes[copies, source] = votes[copies, chosen]
        for mass in (covered, correct):
            mass[source] = (1 - copying) * mass[source] + copying * mass[earlier].mean()
    return covered, correct
