"""Declared fields of states: the values of a file are checked before they are used.

Files are untrusted input. Each reader declares the fields that it expects, and :func:`check_fields` checks
them:

>>> declared = {"n_items": integer(0, 9), "names": optional(list_of(TEXT))}
>>> check_fields({"n_items": 3, "names": None}, declared)
>>> check_fields({"n_items": [], "names": None}, declared)
Traceback (most recent call last):
    ...
flyingsquid.exceptions.ModelFileError: `n_items` in the file must be an integer in [0, 9]; got [].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import State

# Counts up to here are exact in floats.
_LARGEST = 1 << 53
_WIDEST = 1e300


@dataclass(frozen=True, slots=True)
class Field:
    """Constraint on a value of a file: its description and a test that accepts any JSON value."""

    must: str
    test: Callable[[Any], bool]


TEXT = Field("a string", lambda value: type(value) is str)
BOOLEAN = Field("true or false", lambda value: type(value) is bool)
OBJECT = Field("an object", lambda value: type(value) is dict)
LABELS = Field(
    "a list of different class labels",
    lambda value: type(value) is list and _are_distinct(value),
)


def _are_distinct(values: list[Any]) -> bool:
    plain = all(type(value) in (str, int, bool, float) for value in values)
    return plain and len(set(values)) == len(values)


def integer(low: int = 0, high: int = _LARGEST) -> Field:
    """Return a field of integers."""
    return Field(f"an integer in [{low}, {high}]", lambda value: type(value) is int and low <= value <= high)


def finite(low: float = -_WIDEST, high: float = _WIDEST) -> Field:
    """Return a field of finite numbers."""

    def test(value: Any) -> bool:
        return type(value) in (int, float) and low <= value <= high and math.isfinite(value)

    return Field(f"a number in [{low:g}, {high:g}]", test)


def one_of(*values: str) -> Field:
    """Return a field of these strings."""
    return Field(f"one of {format_list(values)}", lambda value: type(value) is str and value in values)


def optional(field: Field) -> Field:
    """Return a field that may be null."""
    return Field(f"{field.must} or null", lambda value: value is None or field.test(value))


def list_of(field: Field, least: int = 0) -> Field:
    """Return a field of lists whose entries all satisfy one field."""

    def test(value: Any) -> bool:
        return type(value) is list and least <= len(value) and all(map(field.test, value))

    return Field(f"a list, each entry {field.must}", test)


def sequence_of(*fields: Field) -> Field:
    """Return a field of lists with one entry for each of ``fields``."""

    def test(value: Any) -> bool:
        if type(value) is not list or len(value) != len(fields):
            return False
        return all(field.test(entry) for field, entry in zip(fields, value, strict=True))

    return Field(f"a list of {', '.join(field.must for field in fields)}", test)


def check_fields(meta: Any, declared: Mapping[str, Field], what: str = "") -> None:
    """Raise ModelFileError unless ``meta`` has all declared fields with valid values.

    Fields that are not declared are ignored; ``what`` precedes the names in messages.
    """
    if type(meta) is not dict:
        name = what.rstrip(".") or "meta"
        raise ModelFileError(f"`{name}` in the file must be an object; got {format_value(meta)}.")
    for name, field in declared.items():
        if name not in meta:
            raise ModelFileError(f"`{what}{name}` is missing in the file.")
        if not field.test(meta[name]):
            shown = format_value(meta[name])
            raise ModelFileError(f"`{what}{name}` in the file must be {field.must}; got {shown}.")


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
