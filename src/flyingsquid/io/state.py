"""A plain state: arrays and JSON. What a model file holds, and what it refuses."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError

Json: TypeAlias = Any
"""str, int, bool, None, finite float, list of these, dict of these by str."""

DTYPES = {
    np.dtype(name).newbyteorder("<"): name
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
"""Every type of array that a file may hold, with its name there. No objects, no texts."""

MAX_DEPTH = 64
MAX_DIMENSIONS = 32  # the most that every supported NumPy has
# Far above any label or count; below the length at which Python refuses to read a number.
MAX_INT_BITS = 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_NAME = 100


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is left of a value when its class is taken away.

    :func:`~flyingsquid.io.write_state` checks it: a state that cannot be read back exactly is
    refused there.

    Attributes
    ----------
    kind : str
        What the state describes, such as ``"Moments"``. Identifiers, joined by dots.
    meta : dict of JSON values
        str, int, bool, None, finite float, lists of these and dicts of these by str. Files sort
        the keys of a dict, so an order that matters goes into a list.
    arrays : dict of arrays of any shape
        Booleans, integers of 8 to 64 bits, floats of 16 to 64 bits. Texts go into ``meta``.
        Names are identifiers, joined by dots: ``"moments.pair_counts"``.
    """

    kind: str
    meta: dict[str, Json]
    arrays: dict[str, NDArray[Any]]


def check_state(state: State) -> None:
    """Refuse what a file could not give back exactly."""
    check_name(state.kind, "kind")
    check_meta(state.meta)
    if type(state.arrays) is not dict:
        raise ModelFileError(f"arrays is {type(state.arrays).__name__}; a dict of arrays is needed")
    for name, array in state.arrays.items():
        check_name(name, "the name of an array")
        _check_array(name, array)


def check_name(name: object, what: str) -> None:
    """Refuse a name that is not identifiers joined by dots: it becomes part of an entry's name."""
    if type(name) is not str or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ModelFileError(
            f"{what} is {reprlib.repr(name)}; use ASCII letters, digits and underscores, in parts "
            f"joined by dots, at most {_MAX_NAME} characters"
        )


def check_meta(meta: object) -> None:
    """Refuse what JSON would not give back with the same types and values."""
    if type(meta) is not dict:
        raise ModelFileError(f"meta is {type(meta).__name__}; a dict of JSON values is needed")
    problem = _problem(meta, MAX_DEPTH)
    if problem:
        raise ModelFileError(f"meta{problem}")


def check_bits(name: str, array: NDArray[Any]) -> None:
    """Refuse booleans whose byte is neither 0 nor 1: operations on them are undefined."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"array {told(name)} holds booleans that are neither 0 nor 1")


def _check_array(name: str, array: object) -> None:
    # A subclass carries more than its bytes, such as a mask.
    if type(array) is not np.ndarray:
        raise ModelFileError(f"array {told(name)} is {type(array).__name__}; pass it through numpy.array")
    if array.dtype.kind not in "biuf" or array.dtype.newbyteorder("<") not in DTYPES:
        raise ModelFileError(
            f"array {told(name)} has type {array.dtype}; a file holds {', '.join(DTYPES.values())}. "
            "Texts go into meta"
        )
    if array.ndim > MAX_DIMENSIONS:
        raise ModelFileError(f"array {told(name)} has {array.ndim} dimensions; at most {MAX_DIMENSIONS}")
    check_bits(name, array)


def _problem(value: object, levels: int) -> str:
    """What is wrong and where, as ``['key'][3] is ...``; empty if nothing is."""
    if type(value) is not dict and type(value) is not list:
        return _scalar_problem(value)
    if not levels:
        return f" is nested deeper than {MAX_DEPTH} levels"
    pairs: Iterable[tuple[Any, object]] = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        if type(value) is dict and (type(key) is not str or not _is_encodable(key)):
            return f" has the key {reprlib.repr(key)}; keys are texts that UTF-8 can encode"
        if problem := _problem(item, levels - 1):
            return f"[{reprlib.repr(key)}]{problem}"
    return ""


def _scalar_problem(value: object) -> str:
    # Exact types: a tuple, an enumeration or a NumPy scalar would come back as something else.
    if value is None or type(value) is bool:
        return ""
    if type(value) is int:
        too_long = value.bit_length() > MAX_INT_BITS
        return f" is an integer of {value.bit_length()} bits; at most {MAX_INT_BITS}" if too_long else ""
    if type(value) is float:
        return "" if math.isfinite(value) else f" is {value}, which JSON does not have; use an array or None"
    if type(value) is str:
        return "" if _is_encodable(value) else f" is {reprlib.repr(value)}, which UTF-8 cannot encode"
    return (
        f" is {reprlib.repr(value)} of type {type(value).__name__}; use str, int, bool, None, float, "
        "list or dict"
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
