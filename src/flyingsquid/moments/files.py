"""Counts as plain states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import State, decode_labels, encode_labels

if TYPE_CHECKING:
    from flyingsquid.moments.moments import Moments

KIND = "Moments"


def to_state(moments: Moments) -> State:
    """Arrays and JSON that hold everything."""
    names = None if moments.names is None else list(moments.names)
    meta = {"n_items": moments.n_items, "classes": encode_labels(moments.classes), "names": names}
    return State(KIND, meta, {"pair_counts": moments.pair_counts, "missing": moments.missing})


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
        classes = decode_labels(state.meta["classes"])
        counts, missing = state.arrays["pair_counts"], state.arrays["missing"]
    except KeyError as error:
        raise ModelFileError(f"counts lack {error}; the file is no file of counts") from error
    n_classes, n_sources = len(classes), len(missing)
    fits = (
        type(n_items) in (int, float)
        and n_items >= 0
        and counts.shape == (n_classes, n_classes, n_sources, n_sources)
        and missing.shape == (n_sources, 3)
        and n_sources > 0
        and n_classes > 1
        and str(counts.dtype) == str(missing.dtype)
        and str(counts.dtype) in ("int64", "float64")
        and bool((counts >= 0).all() and (missing >= 0).all())
        and len(set(classes)) == n_classes
        and (names is None or _are_names(names, n_sources))
    )
    if not fits:
        raise ModelFileError("the counts in the file do not agree with each other")
    names = None if names is None else tuple(names)
    return {"n_items": n_items, "pair_counts": counts, "missing": missing, "classes": classes, "names": names}
