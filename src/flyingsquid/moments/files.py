"""Counts as arrays and JSON values, for files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.exceptions import GraphError, ModelFileError
from flyingsquid.files.state import (
    LABELS,
    TEXT,
    State,
    check_fields,
    decode_labels,
    encode_labels,
    finite,
    integer,
    list_of,
    optional,
)
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments.class_counts import read_csr
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.pairs import pair_counts_of
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
    if moments.graph is not None:
        meta["graph"] = moments.graph.to_dict()
    arrays = {"missing": moments.missing}
    for number, pairs in enumerate(moments._pairs):
        arrays |= pairs.to_arrays(f"pairs_{number}")
    arrays |= {f"unit_{number}": unit for number, unit in enumerate(moments._units)}
    return State(KIND, meta, arrays)


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
        pairs, units = _read_tables(state.arrays, plan, n_classes)
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


def _read_tables(
    arrays: Mapping[str, NDArray[Any]], plan: CountPlan, n_classes: int
) -> tuple[list[Any], list[NDArray[Any]]]:
    """Return counts of pairs, dense or sparse as in the file, and counts of units."""
    shapes, n_sets = plan.shapes(n_classes), len(plan.pair_sets)
    pairs, tables = [], []
    for number, (sources, shape) in enumerate(zip(plan.pair_sets, shapes, strict=False)):
        side = len(sources) * n_classes
        if f"pairs_{number}_data" in arrays:
            pairs.append(read_csr(arrays, f"pairs_{number}", (side, side)))
        else:
            tables.append((arrays[f"pairs_{number}"], shape))
            pairs.append(tables[-1][0])
    units = [arrays[f"unit_{number}"] for number in range(len(plan.units))]
    tables += zip(units, shapes[n_sets:], strict=True)
    if any(table.shape != shape for table, shape in tables):
        raise ModelFileError("The counts in the file are inconsistent.")
    return pairs, units


def _values(table: Any) -> NDArray[Any]:
    return np.asarray(table.data if isinstance(table, csr_array) else table)
