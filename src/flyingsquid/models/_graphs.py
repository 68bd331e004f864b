"""What label models on graphs share: counts of known labels, what is reported of tasks, and read of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.estimate import GoldCounts, UnitTable
from flyingsquid.exceptions import ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.moments.files import cut_tables
from flyingsquid.votes import Votes
from flyingsquid.votes.gold import read_task_gold

# Margins of tables that were fitted step by step come this close.
_ROUNDING = 1e-4


def stacked_shape(graph: object) -> tuple[int, int] | None:
    """(D, s) where votes may come as arrays (n, D, s)."""
    return graph.stacked_shape if isinstance(graph, DependencyGraph) else None


def count_gold(
    gold: Any, votes: Votes, moments: Moments, weights: NDArray[Any] | None
) -> list[GoldCounts | None] | None:
    """For each task what the sources of its block did on items whose class is known."""
    graph, cover = moments.graph, moments.cover
    n_tasks = 1 if graph is None else graph.n_tasks
    known = read_task_gold(gold, votes.classes, (votes.n_items, n_tasks), "gold")
    if not (known >= 0).any():
        return None
    counts: list[GoldCounts | None] = []
    for task in range(n_tasks):
        if not (known[:, task] >= 0).any():
            counts.append(None)
            continue
        block = cover.homes[task]
        around = votes if graph is None else votes.of_sources(cover.blocks[block])
        counts.append(GoldCounts.of(around, known[:, task], weights, units_on(moments, task)))
    return counts


def units_on(moments: Moments, task: int) -> list[tuple[int, ...]]:
    """The units of a task, as positions in its block."""
    graph, cover = moments.graph, moments.cover
    if graph is None:
        return []
    mine = [unit for unit in cover.units if graph.source_task[unit[0]] == task]
    return [cover.positions(cover.homes[task], unit) for unit in mine]


def excess_by_source(excesses: Sequence[NDArray[np.float64]], graph: DependencyGraph) -> NDArray[np.float64]:
    """How much errors agree with those on neighbouring tasks, averaged over the edges of a source, (m,).

    ``excesses`` has for each task edge one number a detector.
    """
    if graph.stacked_shape is None or not excesses:
        return np.full(graph.n_sources, np.nan)
    total, count = np.zeros(graph.n_sources), np.zeros(graph.n_sources)
    for edge, excess in zip(graph.task_edges, excesses, strict=True):
        for task in edge:
            at, known = np.array(graph.sources_of(task)), np.isfinite(excess)
            total[at[known]] += excess[known]
            count[at[known]] += 1
    return np.divide(total, count, out=np.full(graph.n_sources, np.nan), where=count > 0)


def edge_tables(
    graph: DependencyGraph, clique_tables: tuple[NDArray[np.float64], ...]
) -> NDArray[np.float64]:
    """P(Y_a, Y_b) of every task edge, shape (E, K, K), read off the cliques."""
    home: dict[tuple[int, int], int] = {}
    for number, clique in enumerate(graph._task_tree.cliques):
        for a in clique:
            for b in clique:
                home.setdefault((a, b), number)
    tables = []
    for a, b in graph.task_edges:
        clique, table = graph._task_tree.cliques[home[a, b]], clique_tables[home[a, b]]
        others = tuple(axis for axis, task in enumerate(clique) if task not in (a, b))
        tables.append(table.sum(axis=others))
    n_classes = clique_tables[0].shape[0]
    return np.array(tables).reshape(-1, n_classes, n_classes)


def flat_tables(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Tables one after the other, for a file; their shapes follow from the graph."""
    return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])


def read_units(flat: NDArray[Any], graph: DependencyGraph, n_classes: int) -> tuple[UnitTable, ...]:
    """Tables of dependent sources from a file; refused where they are no probabilities."""
    cliques = [clique for tree in graph._units for clique in tree.cliques]
    separators = [separator for tree in graph._units for separator in tree.separators]
    tables = cut_tables(flat, [(n_classes, (n_classes + 1) ** len(clique)) for clique in cliques])
    if not all(np.abs(table.sum(axis=1) - 1).max() < 1e-6 and (table >= 0).all() for table in tables):
        raise ModelFileError("tables of dependent sources in the file are no probabilities")
    return tuple(UnitTable(*unit) for unit in zip(cliques, separators, tables, strict=True))


def read_task_tables(
    flat: NDArray[Any], graph: DependencyGraph, balance: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Tables of tasks from a file; refused where they disagree, or with ``balance`` of shape (D, K)."""
    tables = cut_tables(flat, [(balance.shape[1],) * len(clique) for clique in graph._task_tree.cliques])
    whole = all(abs(table.sum() - 1) < 1e-6 and bool((table > 0).all()) for table in tables)
    if not whole or not _agree(tables, graph, balance):
        raise ModelFileError("tables of tasks in the file are no probabilities, or do not agree")
    return tuple(tables)


def read_temper(temper: Any) -> float:
    """The power in a file that evidence of other tasks is taken to; refused where it is none."""
    if type(temper) is not float or not 0 < temper <= 1:
        raise ModelFileError(f"the file has temper {told(temper)}, which is no power above 0 and up to 1")
    return temper


def _agree(
    tables: Sequence[NDArray[np.float64]], graph: DependencyGraph, balance: NDArray[np.float64]
) -> bool:
    """Whether cliques of tasks agree with the class balance, and on what they share."""
    tree = graph._task_tree
    for clique, parent, shared, table in zip(
        tree.cliques, tree.parents, tree.separators, tables, strict=True
    ):
        for axis, task in enumerate(clique):
            others = tuple(a for a in range(len(clique)) if a != axis)
            if np.abs(table.sum(axis=others) - balance[task]).max() > _ROUNDING:
                return False
        if len(shared) > 1:
            ours = table.sum(axis=tuple(a for a, task in enumerate(clique) if task not in shared))
            up = tree.cliques[parent]
            theirs = tables[parent].sum(axis=tuple(a for a, task in enumerate(up) if task not in shared))
            if np.abs(ours - theirs).max() > 1e-6:
                return False
    return True
