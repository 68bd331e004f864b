"""Counts as plain states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.exceptions import GraphError, ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State, decode_labels, encode_labels
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.storage import is_kept_sparse, tidy

if TYPE_CHECKING:
    from flyingsquid.moments.moments import Moments

KIND = "Moments"


def to_state(moments: Moments) -> State:
    """Arrays and JSON that hold everything."""
    names = None if moments.names is None else list(moments.names)
    meta: dict[str, Any] = {
        "n_items": moments.n_items,
        "classes": encode_labels(moments.classes),
        "names": names,
    }
    arrays = {"missing": moments.missing}
    if moments.graph is None and isinstance(moments.blocks[0], csr_array):
        pairs = moments.blocks[0]
        arrays |= {"pairs_data": pairs.data, "pairs_indices": pairs.indices, "pairs_indptr": pairs.indptr}
    elif moments.graph is None:
        arrays["pair_counts"] = moments.pair_counts
    else:
        # One array for all blocks: their shapes follow from the graph.
        meta["graph"] = moments.graph.to_dict()
        for name, tables in (("blocks", moments.blocks), ("units", moments.units)):
            flat = [table.ravel() for table in tables]
            arrays[name] = np.concatenate(flat) if flat else np.zeros(0, moments.missing.dtype)
    return State(KIND, meta, arrays)


def _are_names(names: Any, n_sources: int) -> bool:
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_list and len(names) == len(set(names)) == n_sources


def fields_of(state: State) -> dict[str, Any]:
    """The fields of :class:`Moments`, checked for agreeing with each other.

    Raises
    ------
    ModelFileError
        If they do not: a file that was written by something else.
    """
    try:
        n_items, names = state.meta["n_items"], state.meta["names"]
        classes, missing = decode_labels(state.meta["classes"]), state.arrays["missing"]
        n_classes, n_sources = len(classes), len(missing)
        if n_sources < 1 or n_classes < 2:
            raise ModelFileError("the counts in the file are of no sources, or of fewer than two classes")
        cover = Cover.everything(n_sources)
        if state.meta.get("graph") is not None:
            cover = Cover.of(DependencyGraph.from_dict(state.meta["graph"]))
        shapes, units = shapes_of(cover, n_classes), list[NDArray[Any]]()
        if cover.graph is None and is_kept_sparse(n_sources, n_classes):
            blocks = [_sparse_block(state, n_sources * n_classes)]
            shapes = [(n_sources * n_classes, n_sources * n_classes)]
        elif cover.graph is None:
            blocks = [state.arrays["pair_counts"]]
        else:
            blocks = cut_tables(state.arrays["blocks"], shapes[: len(cover.blocks)])
            units = cut_tables(state.arrays["units"], shapes[len(cover.blocks) :])
    except KeyError as error:
        raise ModelFileError(f"counts lack {error}; the file is no file of counts") from error
    except GraphError as error:
        raise ModelFileError(f"the graph in the file is none: {error}") from error
    tables = [*blocks, *units]
    fits = (
        type(n_items) in (int, float)
        and n_items >= 0
        and cover.n_sources == n_sources
        and [table.shape for table in tables] == shapes
        and missing.shape == (n_sources, 3)
        and {str(table.dtype) for table in (*tables, missing)} in ({"int64"}, {"float64"})
        and all(bool((_values(table) >= 0).all()) for table in (*tables, missing))
        and len(set(classes)) == n_classes
        and (names is None or _are_names(names, n_sources))
    )
    if not fits:
        raise ModelFileError("the counts in the file do not agree with each other")
    return {
        "n_items": n_items,
        "blocks": tuple(blocks),
        "units": tuple(units),
        "missing": missing,
        "classes": classes,
        "names": None if names is None else tuple(names),
        "cover": cover,
    }


def _values(table: Any) -> NDArray[Any]:
    return np.asarray(table.data if isinstance(table, csr_array) else table)


def _sparse_block(state: State, width: int) -> csr_array:
    """A sparse block whose parts agree; what does not is refused before any index is followed."""
    data, indices, indptr = (state.arrays[f"pairs_{part}"] for part in ("data", "indices", "indptr"))
    fits = (
        indices.dtype.kind == indptr.dtype.kind == "i"
        and data.ndim == indices.ndim == indptr.ndim == 1
        and len(data) == len(indices)
        and len(indptr) == width + 1
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and bool((np.diff(indptr) >= 0).all())
        and (not len(indices) or bool(indices.min() >= 0 and indices.max() < width))
    )
    if not fits:
        raise ModelFileError("the sparse counts in the file do not agree with each other")
    return tidy(csr_array((data, indices, indptr), shape=(width, width)))


def shapes_of(cover: Cover, n_classes: int) -> list[tuple[int, ...]]:
    """Shapes of all blocks, then of all units."""
    blocks: list[tuple[int, ...]] = [(n_classes, n_classes, len(b), len(b)) for b in cover.blocks]
    for unit, block in zip(cover.units, cover.unit_blocks, strict=True):
        blocks.append(((n_classes + 1) ** len(unit), 1 + n_classes * len(cover.blocks[block])))
    return blocks


def cut_tables(flat: NDArray[Any], shapes: list[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Tables of the given shapes that stand one after the other in a flat array."""
    sizes = [math.prod(shape) for shape in shapes]
    if flat.shape != (sum(sizes),):
        raise ModelFileError("numbers in the file do not agree with the graph in it")
    parts = np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
