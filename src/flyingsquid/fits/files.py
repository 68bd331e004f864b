"""Parts of fits as plain arrays, and back with checks: files are untrusted input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.units import UnitTable
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.files import cut_tables

Array = NDArray[np.float64]
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
