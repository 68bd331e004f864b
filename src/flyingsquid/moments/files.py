"""Counts as arrays and JSON values, for files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.exceptions import GraphError, ModelFileError
from flyingsquid.files.fields import LABELS, TEXT, check_fields, finite, integer, list_of, optional
from flyingsquid.files.state import State, decode_labels, encode_labels
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.class_counts import read_csr
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.pairs import DensePairs, PairCounts, SparsePairs, pair_counts_of
from flyingsquid.votes import REASONS

if TYPE_CHECKING:
    from flyingsquid.moments.moments import Moments

KIND = "Moments"
# Counts are exact up to here.
_MOST = 1 << 53
_FIELDS = {"n_items": finite(0, _MOST), "classes": LABELS, "names": optional(list_of(TEXT))}


def to_state(moments: Moments) -> State:
    """Return the complete state as arrays and JSON values."""
    names = None if moments.names is None else list(moments.names)
    meta: dict[str, Any] = {
        "n_items": moments.n_items,
        "classes": encode_labels(moments.classes),
        "names": names,
    }
    arrays = {"missing": moments.missing}
    if moments.graph is None:
        arrays |= pairs_to_arrays(moments._pairs[0], "pairs")
    else:
        # One array for all dense tables: their shapes follow from the graph.
        meta["graph"] = moments.graph.to_dict()
        dense = [pairs.array for pairs in moments._pairs if isinstance(pairs, DensePairs)]
        for number, pairs in enumerate(moments._pairs):
            if isinstance(pairs, SparsePairs):
                arrays |= pairs_to_arrays(pairs, f"pairs_{number}")
        for name, tables in (("blocks", dense), ("units", moments._units)):
            flat = [table.ravel() for table in tables]
            arrays[name] = np.concatenate(flat) if flat else np.zeros(0, moments.missing.dtype)
    return State(KIND, meta, arrays)


def pairs_to_arrays(pairs: PairCounts, name: str) -> dict[str, NDArray[Any]]:
    """Return counts of pairs as plain arrays."""
    if isinstance(pairs, SparsePairs):
        matrix = pairs.matrix
        return {
            f"{name}_data": matrix.data, f"{name}_indices": matrix.indices, f"{name}_indptr": matrix.indptr,
        }  # fmt: skip
    return {"pair_counts": pairs.to_dense().array}


def _are_names(names: Any, n_sources: int) -> bool:
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_list and len(names) == len(set(names)) == n_sources


def fields_of(state: State) -> dict[str, Any]:
    """Return the fields of :class:`Moments`, checked.

    Raises
    ------
    ModelFileError
        If they do not agree with each other.
    """
    check_fields(state.meta, _FIELDS)
    try:
        n_items, names = state.meta["n_items"], state.meta["names"]
        classes, missing = decode_labels(state.meta["classes"]), state.arrays["missing"]
        if missing.ndim != 2 or missing.shape[1] != len(REASONS) - 1 or not missing.size or len(classes) < 2:
            raise ModelFileError("The counts in the file must have at least one source and two classes.")
        n_classes, n_sources = len(classes), len(missing)
        plan = CountPlan.all_pairs(n_sources)
        if state.meta.get("graph") is not None:
            plan = CountPlan.of(graph_from_meta(state.meta["graph"], n_sources))
        pairs, units = _read_tables(state, plan, n_classes)
    except KeyError as error:
        raise ModelFileError(f"The counts in the file are incomplete: {error} is missing.") from error
    tables = [*(_values(part) for part in pairs), *units, missing]
    fits = (
        plan.n_sources == n_sources
        and {str(table.dtype) for table in tables} in ({"int64"}, {"float64"})
        and all(bool((table >= 0).all() and (table <= _MOST).all()) for table in tables)
        and len(set(classes)) == n_classes
        and (names is None or _are_names(names, n_sources))
    )
    if not fits:
        raise ModelFileError("The counts in the file are inconsistent.")
    return {
        "n_items": n_items,
        "missing": missing,
        "classes": classes,
        "names": None if names is None else tuple(names),
        "_plan": plan,
        "_pairs": tuple(pair_counts_of(part, n_classes) for part in pairs),
        "_units": tuple(units),
    }


def graph_from_meta(data: Any, most_sources: int) -> DependencyGraph:
    """Return the graph in a file; raise an error if it declares more sources than the file has."""
    limited = {name: integer(1, most_sources) for name in ("n_sources", "n_tasks")}
    check_fields(data, limited, "graph.")
    try:
        return DependencyGraph.from_dict(data)
    except GraphError as error:
        raise ModelFileError(f"The graph in the file is invalid: {error}") from error


def _read_tables(state: State, plan: CountPlan, n_classes: int) -> tuple[list[Any], list[NDArray[Any]]]:
    """Return counts of pairs, dense or sparse as in the file, and counts of units."""
    shapes, at = plan.shapes(n_classes), len(plan.pair_sets)

    def shape_of(n_sources: int) -> tuple[int, int]:
        return n_sources * n_classes, n_sources * n_classes

    if plan.graph is None:
        if "pairs_data" in state.arrays:
            return [read_csr(state.arrays, "pairs", shape_of(plan.n_sources))], []
        counts = state.arrays["pair_counts"]
        if counts.shape != shapes[0]:
            raise ModelFileError("The counts in the file are inconsistent.")
        return [counts], []
    dense = [number for number in range(at) if f"pairs_{number}_data" not in state.arrays]
    tables = iter(cut_tables(state.arrays["blocks"], [shapes[number] for number in dense]))
    pairs = [
        next(tables) if number in dense else read_csr(state.arrays, f"pairs_{number}", shape_of(len(sources)))
        for number, sources in enumerate(plan.pair_sets)
    ]
    return pairs, cut_tables(state.arrays["units"], shapes[at:])


def _values(table: Any) -> NDArray[Any]:
    return np.asarray(table.data if isinstance(table, csr_array) else table)


def cut_tables(flat: NDArray[Any], shapes: list[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Split a flat array into tables of the given shapes."""
    sizes = [math.prod(shape) for shape in shapes]
    if flat.shape != (sum(sizes),):
        raise ModelFileError("The tables in the file do not match its graph.")
    parts = np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
