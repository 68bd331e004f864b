"""Class labels as JSON."""

from __future__ import annotations

import math
import reprlib
from typing import Any, TypeAlias

import numpy as np

from flyingsquid.exceptions import ModelFileError

Scalar: TypeAlias = str | int | bool | float


def encode_labels(labels: tuple[Any, ...]) -> list[Scalar]:
    """Class labels as a list that JSON gives back with the same types.

    JSON as written here keeps ``true``, ``1``, ``1.0`` and ``"1"`` apart. NumPy scalars become
    the Python values that they equal.

    Examples
    --------
    >>> encode_labels(("ham", 1, 1.0, True))
    ['ham', 1, 1.0, True]
    """
    return [_check(_plain(label), f"class {at}") for at, label in enumerate(labels)]


def decode_labels(values: Any) -> tuple[Scalar, ...]:
    """The labels that :func:`encode_labels` was given.

    >>> decode_labels(["ham", 1, 1.0, True])
    ('ham', 1, 1.0, True)
    """
    if type(values) is not list:
        raise ModelFileError(f"class labels are {reprlib.repr(values)}; a list is needed")
    return tuple(_check(value, f"class {at}") for at, value in enumerate(values))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _check(label: Any, where: str) -> Scalar:
    # Exact types: an enumeration is an int or a str too, and would come back as a bare one.
    kept = type(label) in (str, int, bool) or (type(label) is float and math.isfinite(label))
    if not kept:
        raise ModelFileError(
            f"{where} is {reprlib.repr(label)} of type {type(label).__name__}; a model file keeps labels "
            "that are str, int, bool or finite float. Rename the classes before fitting"
        )
    return label
