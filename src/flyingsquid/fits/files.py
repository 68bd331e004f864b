"""Parts of fits as plain arrays, and back with checks: files are untrusted input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.gold import GoldCounts, ManyGold
from flyingsquid.estimation.gold_regression import GoldCorrection
from flyingsquid.estimation.units import UnitTable
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments, VotesByClass
from flyingsquid.moments.files import cut_tables

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
# Tolerance for the margins of tables that were fitted iteratively.
_ROUNDING = 1e-4


def read_array(
    state: State,
    name: str,
    shape: tuple[int, ...],
    dtype: str = "float64",
    *,
    low: float = -np.inf,
    high: float = np.inf,
    may_be_nan: bool = False,
) -> NDArray[Any]:
    """Return an array of a state; raise ModelFileError for another shape or type, or values out of range."""
    array = state.arrays[name]
    if array.shape != shape or str(array.dtype) != dtype:
        raise ModelFileError(
            f"The array {format_value(name)} in the file must have shape {shape} and type {dtype}; got "
            f"{array.shape} and {array.dtype}."
        )
    values = array[~np.isnan(array)] if may_be_nan else array
    if not (np.isfinite(values).all() and (values >= low).all() and (values <= high).all()):
        raise ModelFileError(f"The array {format_value(name)} in the file must be in [{low:g}, {high:g}].")
    return array


# ---------------------------------------------------------------------- gold labels


def gold_to_arrays(gold: tuple[GoldCounts | None, ...] | ManyGold | GoldCorrection | None) -> Arrays:
    """Return counts of votes on gold labels as plain arrays; a correction is stored with its fit."""
    if gold is None or isinstance(gold, GoldCorrection):
        return {}
    if isinstance(gold, ManyGold):
        arrays = {"gold_classes": gold.classes, "gold_said": gold.shared_votes}
        return arrays | gold.votes.to_arrays("gold_votes")
    arrays = {}
    for task, counts in enumerate(gold):
        if counts is not None:
            arrays |= {f"gold_{task}": counts.votes, f"gold_units_{task}": flatten_tables(counts.units)}
    return arrays


def gold_from_arrays(arrays: Arrays, moments: Moments) -> tuple[GoldCounts | None, ...] | ManyGold | None:
    """Return the counts that :func:`gold_to_arrays` described; they must match the votes."""
    if "gold_classes" in arrays:
        return _many_gold(arrays, moments)
    found = list[GoldCounts | None]()
    for task in range(1 if moments.graph is None else moments.graph.n_tasks):
        counts = arrays.get(f"gold_{task}")
        if counts is None:
            found.append(None)
            continue
        shapes: list[tuple[int, ...]] = [(2, 3 ** len(unit)) for unit in units_on(moments, task)]
        units = cut_tables(arrays[f"gold_units_{task}"], shapes)
        fits = (
            counts.shape == (len(moments.sources_around(task)), 2, 3)
            and bool((counts >= 0).all() and counts[0].sum() <= moments.n_items * (1 + 1e-9))
            and all((unit >= 0).all() for unit in units)
        )
        if not fits:
            raise ModelFileError("The counts on gold labels in the file do not match its sources.")
        found.append(GoldCounts(counts.astype(np.float64), tuple(units)))
    return tuple(found) if any(counts is not None for counts in found) else None


def _many_gold(arrays: Arrays, moments: Moments) -> ManyGold:
    m, k = moments.n_sources, moments.n_classes
    classes, said = arrays["gold_classes"], arrays["gold_said"]
    votes = VotesByClass.from_arrays(arrays, "gold_votes", m, k)
    fits = classes.shape == (k,) and said.shape == (k, k) and {classes.dtype.kind, said.dtype.kind} == {"f"}
    if not (fits and (classes >= 0).all() and (said >= 0).all() and np.isfinite(classes.sum() + said.sum())):
        raise ModelFileError("The counts on gold labels in the file do not match its sources.")
    if not (votes.by_vote() <= moments.vote_counts * (1 + 1e-9)).all():
        raise ModelFileError("The counts on gold labels in the file exceed its votes.")
    return ManyGold(votes, classes, said)


def units_on(moments: Moments, task: int) -> list[tuple[int, ...]]:
    """Return the units of dependent sources of a task, as positions among the sources around the task."""
    graph, around = moments.graph, moments.sources_around(task)
    if graph is None:
        return []
    units = [unit for tree in graph._units for unit in tree.cliques if graph.source_task[unit[0]] == task]
    return [tuple(around.index(source) for source in unit) for unit in units]


# ---------------------------------------------------------------------- graphs


def flatten_tables(tables: Sequence[Array]) -> Array:
    """Return tables as one flat array; their shapes follow from the graph."""
    return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])


def read_units(flat: NDArray[Any], graph: DependencyGraph, n_classes: int) -> tuple[UnitTable, ...]:
    """Return the tables of dependent sources; raise an error for those that are not probabilities."""
    cliques = [clique for tree in graph._units for clique in tree.cliques]
    separators = [separator for tree in graph._units for separator in tree.separators]
    tables = cut_tables(flat, [(n_classes, (n_classes + 1) ** len(clique)) for clique in cliques])
    if not all(np.abs(table.sum(axis=1) - 1).max() < 1e-6 and (table >= 0).all() for table in tables):
        raise ModelFileError("The tables of dependent sources in the file must be probabilities.")
    return tuple(UnitTable(*unit) for unit in zip(cliques, separators, tables, strict=True))


def read_task_tables(flat: NDArray[Any], graph: DependencyGraph, balance: Array) -> tuple[Array, ...]:
    """Return the tables of tasks; they must agree with each other and with ``balance``, shape (D, K)."""
    tables = cut_tables(flat, [(balance.shape[1],) * len(clique) for clique in graph._task_tree.cliques])
    sums_to_1 = all(abs(table.sum() - 1) < 1e-6 and bool((table > 0).all()) for table in tables)
    if not sums_to_1 or not _agree(tables, graph, balance):
        raise ModelFileError(
            "The tables of tasks in the file must be probabilities that agree with each other."
        )
    return tuple(tables)


def _agree(tables: Sequence[Array], graph: DependencyGraph, balance: Array) -> bool:
    """Return whether cliques of tasks agree with the class balance, and on the tasks that they share."""
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
