"""Simulation of items from a fitted graph, with a fixed seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.binary import BinaryTasks
from flyingsquid.estimation.errors import draw_votes
from flyingsquid.estimation.units import UnitTable, state_numbers
from flyingsquid.graph import DependencyGraph, JunctionTree
from flyingsquid.votes.codes import smallest_dtype
from flyingsquid.votes.patterns import all_patterns

Array = NDArray[np.float64]
Codes = NDArray[Any]


def draw_items(
    n_items: int,
    graph: DependencyGraph,
    task_tables: tuple[Array, ...],
    tables: Array,
    units: tuple[UnitTable, ...],
    rng: np.random.Generator,
) -> tuple[Codes, Codes]:
    """Draw votes, shape (n, m), and truths, shape (n, D), from the parameters of a graph.

    Parameters
    ----------
    task_tables : one per clique of ``graph._task_tree``, shape (K,) * c
        P(Y_C).
    tables : array of shape (m, K, K + 1)
        P(vote | Y = k) of each source; not read for those in ``units``.
    """
    truths = draw_truths(n_items, graph._task_tree, task_tables, graph.n_tasks, rng)
    n_classes = tables.shape[1]
    votes = np.empty((n_items, graph.n_sources), smallest_dtype(n_classes))
    for source, task in enumerate(graph.source_task):
        steps = np.cumsum(tables[source], axis=1)[truths[:, task]]
        drawn = (rng.random((n_items, 1)) * steps[:, -1:] > steps).sum(axis=1)
        votes[:, source] = np.where(drawn >= n_classes, -1, drawn)
    for unit in units:
        given = truths[:, graph.source_task[unit.sources[0]]]
        votes[:, list(unit.sources)] = _draw_unit(unit, votes[:, list(unit.separator)], given, rng)
    return votes, truths


def draw_around_task(fit: BinaryTasks, task: int) -> Array | None:
    """Draw signed votes of the sources around a task, shape (rows, columns); None if all are independent.

    Helpers on neighboring tasks are drawn as independent given the truth of this one.
    """
    place = fit.tasks[task]
    units = [unit for unit in fit.units if unit.sources[0] in place.own]
    if not units:
        return None
    signed, y = draw_votes(place.fit.tables, place.fit.balance)
    codes = np.where(signed == 0, -1, signed > 0).astype(np.int8)
    rng = np.random.default_rng(1)  # differs from the seed of the single votes
    for unit in units:
        columns = [place.columns.index(source) for source in unit.sources]
        shared = [place.columns.index(source) for source in unit.separator]
        codes[:, columns] = _draw_unit(unit, codes[:, shared], y.astype(np.int8), rng)
    return np.asarray(np.where(codes < 0, 0.0, 2.0 * codes - 1))


def draw_truths(
    n_items: int, tree: JunctionTree, tables: tuple[Array, ...], n_tasks: int, rng: np.random.Generator
) -> Codes:
    """Draw truths of tasks that depend on each other, shape (n, D)."""
    n_classes = tables[0].shape[0]
    truths = np.zeros((n_items, n_tasks), smallest_dtype(n_classes))
    for clique, separator, table in zip(tree.cliques, tree.separators, tables, strict=True):
        flat = table.ravel()
        states = np.array(np.unravel_index(np.arange(len(flat)), table.shape)).T
        shared = [clique.index(task) for task in separator]
        truths[:, list(clique)] = _draw_states(
            flat[None], states, shared, truths[:, list(separator)], None, rng, n_classes
        )
    return truths


def _draw_unit(unit: UnitTable, shared_votes: Codes, truth: Codes, rng: np.random.Generator) -> Codes:
    """Draw votes of a unit, shape (n, s), given those of its separator."""
    n_classes = len(unit.table)
    states = all_patterns(len(unit.sources), n_classes)
    shared = [unit.sources.index(source) for source in unit.separator]
    return _draw_states(unit.table, states, shared, shared_votes, truth, rng, n_classes)


def _draw_states(
    table: Array,
    states: NDArray[Any],
    shared: list[int],
    fixed: Codes,
    truth: Codes | None,
    rng: np.random.Generator,
    n_classes: int,
) -> Codes:
    """Draw a state for every row, among those that agree with the fixed variables, shape (n, variables)."""
    result = np.empty((len(fixed), states.shape[1]), smallest_dtype(n_classes))
    columns = tuple(shared)
    row_class = np.zeros(len(fixed), np.intp) if truth is None else truth.astype(np.intp)
    key = state_numbers(fixed, columns, columns, n_classes)
    known = state_numbers(states[:, shared], columns, columns, n_classes)
    for number in np.unique(key):
        allowed = np.flatnonzero(known == number)
        for k in range(len(table)):
            rows = np.flatnonzero((key == number) & (row_class == k))
            steps = np.cumsum(table[k, allowed])
            drawn = np.searchsorted(steps, rng.random(len(rows)) * steps[-1], side="right")
            result[rows] = states[allowed[np.minimum(drawn, len(allowed) - 1)]]
    return result
