"""Votes on dependent tasks by dependent sources, with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.datasets.simulator import Simulation, simulate
from flyingsquid.estimate.drawing import draw_truths
from flyingsquid.estimate.proportional import tables_from_edges
from flyingsquid.estimate.task_pairs import joint_table
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes import ABSTAIN, Votes


@dataclass(frozen=True, slots=True)
class GraphSimulation(Simulation):
    """Simulated votes on the tasks of a graph, and the truths behind them.

    Attributes
    ----------
    votes, class_balance : as in :class:`Simulation`
    y : int8 array of shape (n, D)
        True classes of every task, 0 or 1.
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
    correlation: float = 0.8,
    copying: float = 0.5,
    rng: np.random.Generator,
) -> GraphSimulation:
    """Draw votes on a dependency graph.

    Parameters
    ----------
    n_items : int
    graph : DependencyGraph
    accuracies, coverage : arrays of shape (m,), or numbers
        Of each source when it votes by itself.
    class_balance : None for uniform, or P(Y=0), P(Y=1) of every task
    correlation : float in (-1, 1)
        Of the truths of tasks that an edge joins.
    copying : float in [0, 1)
        How often a source repeats the vote, or the silence, of an earlier source that an edge joins it to.
    rng : numpy.random.Generator

    Examples
    --------
    >>> graph = DependencyGraph.chain(3, 4, source_edges=[(0, 1)])
    >>> clips = simulate_graph(1000, graph, 0.75, coverage=0.8, rng=np.random.default_rng(0))
    >>> clips.votes
    Votes(1,000 items x 12 sources, classes 0, 1, 80% voted, dense int8)
    >>> clips.y.shape
    (1000, 3)
    """
    if not isinstance(graph, DependencyGraph):
        raise OptionError(f"graph={graph!r} is none; pass a DependencyGraph")
    for name, share, least in (("correlation", correlation, -1), ("copying", copying, 0)):
        is_number = isinstance(share, (int, float, np.integer, np.floating)) and not isinstance(share, bool)
        if not is_number or not least <= share < 1 or share == -1:
            raise OptionError(f"{name}={share!r}; a number above {least} and below 1 is needed")
    right = np.broadcast_to(np.asarray(accuracies, np.float64), graph.n_sources)
    alone = simulate(n_items, right, coverage=coverage, class_balance=class_balance, rng=rng)
    balance = alone.class_balance
    table = joint_table(correlation * 4 * balance.prod(), balance, balance, np.inf)
    tables = tables_from_edges(
        graph.task_tree,
        graph.task_edges,
        np.array([table] * len(graph.task_edges)).reshape(-1, 2, 2),
        np.tile(balance, (graph.n_tasks, 1)),
    ).tables
    truths = draw_truths(n_items, graph.task_tree, tables, graph.n_tasks, rng)
    truth = truths[:, graph.source_task]
    codes = np.asarray(alone.votes.codes)
    votes = np.where(codes == alone.y[:, None], truth, 1 - truth)
    votes = np.where(codes == ABSTAIN, ABSTAIN, votes).astype(np.int8)
    covered, correct = _copy(votes, graph, alone.coverage * alone.accuracies, alone.coverage, copying, rng)
    accuracy = np.divide(correct, covered, out=np.full(len(covered), 0.5), where=covered > 0)
    return GraphSimulation(
        Votes.from_classes(votes, classes=(0, 1)), truths, accuracy, covered, balance, graph
    )


def _copy(
    votes: NDArray[np.int8],
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
