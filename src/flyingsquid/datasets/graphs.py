"""Votes on dependent tasks by dependent sources, with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import is_number, is_whole, told
from flyingsquid.datasets.simulator import Simulation, read_balance, read_sources, simulate
from flyingsquid.estimation.drawing import draw_truths
from flyingsquid.estimation.proportional import tables_from_edges
from flyingsquid.estimation.task_pairs import joint_table
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.codes import smallest_dtype


@dataclass(frozen=True, slots=True)
class GraphSimulation(Simulation):
    """Simulated votes on the tasks of a graph, and the truths behind them.

    Attributes
    ----------
    votes, class_balance : as in :class:`Simulation`
    y : integer array of shape (n, D)
        True classes of every task, 0 to K - 1.
    accuracies, coverage : arrays of shape (m,)
        P(vote is right | source votes), P(source votes), copied votes included.
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
    """Draw votes on a dependency graph.

    Parameters
    ----------
    n_items : int
    graph : DependencyGraph
    accuracies, coverage : arrays of shape (m,), or numbers
        Of each source when it votes by itself.
    class_balance : None for uniform, or P(Y=k) of every task, K numbers
    n_classes : int
        The number K of classes. A wrong vote is for any of the others alike.
    correlation : float in (-1, 1), not below 0 for more than two classes
        Of the truths of tasks that an edge joins: so often the two are one, beyond chance.
    copying : float in [0, 1)
        How often a source repeats the vote, or the silence, of an earlier source that an edge joins it to.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None draws differently every time.

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
        raise OptionError(f"graph={told(graph)} is none; pass a DependencyGraph")
    for name, share, least in (("correlation", correlation, -1), ("copying", copying, 0)):
        if not is_number(share) or not least <= share < 1 or share == -1:
            raise OptionError(f"{name}={told(share)}; a number above {least} and below 1 is needed")
    if not is_whole(n_classes) or n_classes < 2 or (n_classes > 2 and correlation < 0):
        raise OptionError(
            f"n_classes={told(n_classes)}, correlation={correlation}; two classes or more are needed, and "
            "more than two have no correlation below 0"
        )
    rng = read_random_state(random_state)
    right = np.broadcast_to(np.asarray(accuracies, np.float64), graph.n_sources)
    if n_classes == 2:
        alone = _two_classes(n_items, graph, right, coverage, class_balance, correlation, rng)
    else:
        alone = _many_classes(n_items, graph, right, coverage, class_balance, correlation, rng, n_classes)
    covered, correct = _copy(
        alone.votes, graph, alone.coverage * alone.accuracies, alone.coverage, copying, rng
    )
    accuracy = np.divide(correct, covered, out=np.full(len(covered), 0.5), where=covered > 0)
    votes = Votes.from_classes(alone.votes, classes=tuple(range(n_classes)))
    return GraphSimulation(votes, alone.truths, accuracy, covered, alone.balance, graph)


@dataclass(frozen=True, slots=True)
class _Alone:
    """Votes of sources that do not copy, with what they were drawn from."""

    votes: NDArray[Any]
    truths: NDArray[Any]
    accuracies: NDArray[np.float64]
    coverage: NDArray[np.float64]
    balance: NDArray[np.float64]


def _draw_truths(
    n_items: int,
    graph: DependencyGraph,
    table: NDArray[np.float64],
    balance: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Truths of all tasks, shape (n, D), with ``table`` of shape (K, K) on every edge."""
    edges = np.array([table] * len(graph.task_edges)).reshape(-1, *table.shape)
    everywhere = np.tile(balance, (graph.n_tasks, 1))
    tables = tables_from_edges(graph._task_tree, graph.task_edges, edges, everywhere).tables
    return draw_truths(n_items, graph._task_tree, tables, graph.n_tasks, rng)


def _two_classes(
    n_items: int,
    graph: DependencyGraph,
    right: NDArray[np.float64],
    coverage: ArrayLike,
    class_balance: Any,
    correlation: float,
    rng: np.random.Generator,
) -> _Alone:
    alone = simulate(n_items, right, coverage=coverage, class_balance=class_balance, random_state=rng)
    balance = alone.class_balance
    table = joint_table(correlation * 4 * balance.prod(), balance, balance, np.inf)
    truths = _draw_truths(n_items, graph, table, balance, rng)
    truth = truths[:, graph.source_task]
    codes = np.asarray(alone.votes.codes)
    votes = np.where(codes == alone.y[:, None], truth, 1 - truth)
    votes = np.where(codes == ABSTAIN, ABSTAIN, votes).astype(np.int8)
    return _Alone(votes, truths, alone.accuracies, alone.coverage, balance)


def _many_classes(
    n_items: int,
    graph: DependencyGraph,
    right: NDArray[np.float64],
    coverage: ArrayLike,
    class_balance: Any,
    correlation: float,
    rng: np.random.Generator,
    n_classes: int,
) -> _Alone:
    accuracies, votes_at = read_sources(n_items, right, coverage)
    balance = read_balance(class_balance, n_classes)
    table = correlation * np.diag(balance) + (1 - correlation) * np.outer(balance, balance)
    truths = _draw_truths(n_items, graph, table, balance, rng)
    truth = truths[:, graph.source_task].astype(np.int64)
    shape = truth.shape
    wrong = (truth + rng.integers(1, n_classes, shape)) % n_classes
    votes = np.where(rng.random(shape) < accuracies, truth, wrong)
    votes = np.where(rng.random(shape) < votes_at, votes, ABSTAIN).astype(smallest_dtype(n_classes))
    return _Alone(votes, truths, accuracies, votes_at, balance)


def _copy(
    votes: NDArray[Any],
    graph: DependencyGraph,
    correct: NDArray[np.float64],
    covered: NDArray[np.float64],
    copying: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Let sources copy in place; return P(votes) and P(votes and is right) of each, copies included."""
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
