"""P(Y) of dependent tasks from pairs of them: iterative proportional fitting on the junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.junction import JunctionTree

if TYPE_CHECKING:
    from flyingsquid.estimation.transition import TaskPair

Array = NDArray[np.float64]
Edges = tuple[tuple[int, int], ...]
_CONVERGED = 1e-13
# Convergence is slow if pairs are nearly contradictory. This is well within the sampling error of a million
# items (5e-4).
_GOOD_ENOUGH = 1e-4
_MAX_SWEEPS = 2_000
# A fit that improves by less than this in this many sweeps would not converge within the limit.
_PATIENCE, _GAIN = 50, 0.9
_HALVINGS = 7
# The same for a single table.
_MAX_TABLE_SWEEPS, _TABLE_CONVERGED = 500, 1e-14
# While impossible pairs are tried, cells may shrink to 0 before the sweeps stop.
_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class TaskTables:
    """Distribution of the tasks, one table per clique.

    Attributes
    ----------
    tables : tuple of arrays, one per clique, each of shape (K,) * len(clique)
        P(Y_C): positive, summing to 1, in agreement with each other on separators.
    mismatch : float
        The largest absolute difference between a cell of P(Y_a, Y_b) as given and as in ``tables``. It is
        above 1e-4 only if no distribution with cells clearly above 0 matches all pairs.
    """

    tables: tuple[Array, ...]
    mismatch: float


def tables_of_tasks(
    graph: DependencyGraph, pairs: Sequence[TaskPair], balance: Array, joint: Array | None
) -> TaskTables:
    """Return the distribution of the tasks of a graph: as given by ``joint``, or from one pair per task edge.

    ``balance`` of shape (D, K) is P(Y_d = k); ``joint`` of shape (K,) * D is P(Y), or None.
    """
    if joint is not None:
        return TaskTables(tables_from_joint(graph._task_tree, joint), 0.0)
    n_classes = balance.shape[1]
    tables = np.array([pair.table for pair in pairs]).reshape(-1, n_classes, n_classes)
    return tables_from_edges(graph._task_tree, graph.task_edges, tables, balance)


def tables_from_edges(tree: JunctionTree, edges: Edges, edge_tables: Array, balance: Array) -> TaskTables:
    """Return the distribution of largest entropy with the given pairs: P(Y) ∝ ∏ ψ(Y_a, Y_b) over the edges.

    Parameters
    ----------
    tree : a junction tree of the D tasks; every edge is inside a clique
    edges : tuple of pairs of tasks (a, b), a < b
    edge_tables : array of shape (E, K, K)
        P(Y_a, Y_b), every cell above 0, with margins ``balance[a]`` and ``balance[b]``.
    balance : array of shape (D, K)
        P(Y_d = k).

    Notes
    -----
    Parts of the tree that share one task or none are independent given it, and are fitted separately. A part
    that is one edge is its table, without iteration. Elsewhere each sweep walks once around the cliques,
    rescales each to its edges and propagates the changes (Jiroušek and Přeučil 1995): time O(sum of K^|C|)
    per sweep.

    Noisy pairs may be incompatible with any distribution, for example if three tasks contradict each other.
    In such a part, and only there, all pairs are shrunk toward independence, by the smallest share that makes
    them compatible (to 1 in 128); ``balance`` is kept.

    Examples
    --------
    >>> triangle = JunctionTree(cliques=((0, 1, 2),), parents=(-1,), separators=((),))
    >>> alike = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> edges, balance = ((0, 1), (0, 2), (1, 2)), np.full((3, 2), 0.5)
    >>> fit = tables_from_edges(triangle, edges, np.array([alike] * 3), balance)
    >>> fit.tables[0].round(3)
    array([[[0.35, 0.05],
            [0.05, 0.05]],
           [[0.05, 0.05],
            [0.05, 0.35]]])
    """
    targets = dict(zip(edges, edge_tables, strict=True))
    inside = _edges_by_clique(tree, edges)
    tables = [reduce(np.multiply.outer, balance[list(clique)]) for clique in tree.cliques]
    for block in _blocks(tree):
        wanted = [edge for number in block for edge in inside[number]]
        if [tree.cliques[number] for number in block] == wanted:
            tables[block[0]] = targets[wanted[0]].copy()
        elif wanted:
            _fit_block(tables, tree, block, inside, {edge: targets[edge] for edge in wanted})
    _calibrate(tables, tree)
    return TaskTables(tuple(tables), _mismatch(tables, tree, inside, targets))


def tables_from_joint(tree: JunctionTree, joint: Array) -> tuple[Array, ...]:
    """Return P(Y_C) of each clique from P(Y) of all tasks, ``joint`` of shape (K,) * D.

    Examples
    --------
    >>> chain = JunctionTree(cliques=((0, 1), (1, 2)), parents=(-1, 0), separators=((), (1,)))
    >>> joint = np.arange(1, 9).reshape(2, 2, 2) / 36
    >>> [(36 * table).round().tolist() for table in tables_from_joint(chain, joint)]
    [[[3.0, 7.0], [11.0, 15.0]], [[6.0, 8.0], [10.0, 12.0]]]
    """
    everything = tuple(range(joint.ndim))
    return tuple(joint.sum(axis=_rest(everything, clique)) for clique in tree.cliques)


def fit_margins(table: Array, rows: Array, columns: Array) -> Array:
    """Rescale rows and columns of a positive table until their sums are those given, shape (A, B).

    The odds ratios are kept. A table that already has these margins is unchanged.

    >>> fit_margins(np.array([[4.0, 1.0], [1.0, 4.0]]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    array([[0.4, 0.1],
           [0.1, 0.4]])
    """
    for _ in range(_MAX_TABLE_SWEEPS):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
        if np.abs(table.sum(axis=1) - rows).max() < _TABLE_CONVERGED:
            break
    return table


class _Step(NamedTuple):
    """Rescale a clique so that its margin is ``target``, or that of the clique ``source`` without one.

    ``rest`` and ``source_rest`` are the axes to sum over; ``shape`` is that in which the margin broadcasts.
    """

    clique: int
    rest: tuple[int, ...]
    shape: tuple[int, ...]
    target: Array | None = None
    source: int = -1
    source_rest: tuple[int, ...] = ()

    def apply(self, tables: list[Array]) -> float:
        """Rescale in place; return the largest change of a target."""
        target = tables[self.source].sum(axis=self.source_rest) if self.target is None else self.target
        new, now = target.reshape(self.shape), tables[self.clique].sum(axis=self.rest, keepdims=True)
        tables[self.clique] *= new / np.maximum(now, _TINY)
        return 0.0 if self.target is None else float(np.abs(new - now).max())


def _rest(clique: tuple[int, ...], scope: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of the clique's table that are not in scope."""
    return tuple(axis for axis, task in enumerate(clique) if task not in scope)


def _shape(clique: tuple[int, ...], scope: tuple[int, ...], k: int) -> tuple[int, ...]:
    """Return the shape in which a table over scope broadcasts against the clique's; both are ascending."""
    return tuple(k if task in scope else 1 for task in clique)


def _edges_by_clique(tree: JunctionTree, edges: Edges) -> list[list[tuple[int, int]]]:
    """Return the edges of each clique; an edge is in the first clique that contains it."""
    left, inside = set(edges), []
    for clique in tree.cliques:
        held = left.intersection(combinations(clique, 2))
        inside.append(sorted(held))
        left -= held
    return inside


def _blocks(tree: JunctionTree) -> list[list[int]]:
    """Return cliques joined by separators of two tasks or more; in each block the root comes first."""
    blocks: list[list[int]] = []
    block_of: list[int] = []
    for number, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        if len(separator) < 2:
            block_of.append(len(blocks))
            blocks.append([number])
        else:
            block_of.append(block_of[parent])
            blocks[block_of[parent]].append(number)
    return blocks


def _fit_block(
    tables: list[Array],
    tree: JunctionTree,
    block: list[int],
    inside: list[list[tuple[int, int]]],
    targets: dict[tuple[int, int], Array],
) -> None:
    """Fit the tables of one block in place; shrink the dependence of pairs if no exact fit exists."""
    start = {number: tables[number] for number in block}
    independent = {edge: np.outer(table.sum(axis=1), table.sum(axis=0)) for edge, table in targets.items()}

    def attempt(share: float) -> dict[int, Array] | None:
        mixed = {edge: share * table + (1 - share) * independent[edge] for edge, table in targets.items()}
        trial = list(tables)
        for number in block:
            trial[number] = start[number].copy()
        change = _sweep(trial, _walk_steps(tree, block, inside, mixed))
        found = {number: trial[number] for number in block}
        return found if change < _GOOD_ENOUGH and all((table > 0).all() for table in found.values()) else None

    best = attempt(1.0)
    if best is None:
        best, low, high = start, 0.0, 1.0
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            found = attempt(share)
            if found is None:
                high = share
            else:
                low, best = share, found
    for number in block:
        tables[number] = best[number]


def _walk_steps(
    tree: JunctionTree,
    block: list[int],
    inside: list[list[tuple[int, int]]],
    targets: dict[tuple[int, int], Array],
) -> list[_Step]:
    """Return the steps of one walk around the block: fit each clique when it is first reached.

    The table of the visited clique is always up to date, because changes are propagated along the walk.
    """
    k = len(next(iter(targets.values())))
    root = block[0]
    children: dict[int, list[int]] = {number: [] for number in block}
    for number in block[1:]:
        children[tree.parents[number]].append(number)
    tour: list[_Step] = []
    stack = [(root, False)]
    while stack:
        number, leaving = stack.pop()
        if leaving:
            tour.append(_message(tree, number, tree.parents[number], tree.separators[number], k))
            continue
        if number != root:
            tour.append(_message(tree, tree.parents[number], number, tree.separators[number], k))
            stack.append((number, True))
        clique = tree.cliques[number]
        tour += [
            _Step(number, _rest(clique, edge), _shape(clique, edge, k), targets[edge])
            for edge in inside[number]
        ]
        stack += [(child, False) for child in children[number]]
    return tour


def _message(tree: JunctionTree, source: int, clique: int, separator: tuple[int, ...], k: int) -> _Step:
    """Return the step that gives a clique the separator table of its neighbor."""
    there, here = _rest(tree.cliques[source], separator), tree.cliques[clique]
    return _Step(clique, _rest(here, separator), _shape(here, separator, k), source=source, source_rest=there)


def _sweep(tables: list[Array], tour: Sequence[_Step]) -> float:
    """Repeat the walk until nothing changes; return the largest change of an edge in the last walk."""
    before = np.inf
    for sweep in range(1, _MAX_SWEEPS + 1):
        change = max(step.apply(tables) for step in tour)
        if change < _CONVERGED:
            break
        if sweep % _PATIENCE == 0:
            if change > _GAIN * before:
                break
            before = change
    return change


def _calibrate(tables: list[Array], tree: JunctionTree) -> None:
    """Set the separator table of every clique to that of its parent, parents first."""
    for number, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        if parent >= 0:
            _message(tree, parent, number, separator, tables[number].shape[0]).apply(tables)
        else:
            tables[number] /= tables[number].sum()


def _mismatch(
    tables: list[Array],
    tree: JunctionTree,
    inside: list[list[tuple[int, int]]],
    targets: dict[tuple[int, int], Array],
) -> float:
    return max(
        (
            float(np.abs(tables[number].sum(axis=_rest(tree.cliques[number], edge)) - targets[edge]).max())
            for number, edges in enumerate(inside)
            for edge in edges
        ),
        default=0.0,
    )
