"""The JSON of WRENCH: ``{"id": {"label": 1, "weak_labels": [1, -1], "data": {...}}}``; -1 is no vote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError

_UNKNOWN = -1
_MOST_CLASSES = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class WrenchItems:
    """The items of one file.

    Attributes
    ----------
    ids : tuple of n texts
    weak_labels : integer array of shape (n, m)
        Classes from 0 on, -1 for no vote.
    labels : integer array of shape (n,)
        True classes, -1 where unknown.
    data : tuple of n dicts
        What the items are: ``{"text": ...}`` or ``{"feature": [...]}``, as the file has it.
    """

    ids: tuple[str, ...]
    weak_labels: NDArray[np.int16]
    labels: NDArray[np.int16]
    data: tuple[dict[str, Any], ...]


def read_items(path: Path) -> WrenchItems:
    """The items of a file such as ``train.json``."""
    return items_of(read_document(path), path.name)


def read_class_names(path: Path) -> tuple[str, ...]:
    """The names of the classes 0, 1, ... from ``label.json``."""
    return class_names_of(read_document(path), path.name)


def class_names_of(document: Any, where: str) -> tuple[str, ...]:
    """The names in ``{"0": "ham", "1": "spam"}``."""
    try:
        names = {int(number): str(name) for number, name in document.items()}
    except (ValueError, AttributeError):
        names = {}
    if len(names) < 2 or sorted(names) != list(range(len(names))) or len(set(names.values())) < len(names):
        raise VoteFileError(
            f"{where} does not name the classes 0, 1, ... differently; it looks like "
            '{"0": "ham", "1": "spam"}'
        )
    return tuple(names[k] for k in range(len(names)))


def read_document(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object, no key of which occurs twice."""
    try:
        document = json.loads(path.read_text("utf-8"), object_pairs_hook=without_repetition)
    except (ValueError, RecursionError) as error:
        raise VoteFileError(f"{path.name} cannot be read as JSON: {error}") from error
    if not isinstance(document, dict) or not document:
        raise VoteFileError(f"{path.name} holds no items; it looks like {{'0': {{'weak_labels': [...]}}}}")
    return document


def items_of(document: dict[str, Any], where: str) -> WrenchItems:
    """Items of a document, every bad one named.

    >>> items_of({"a": {"label": 1, "weak_labels": [1, -1]}}, "train.json").weak_labels
    array([[ 1, -1]], dtype=int16)
    """
    rows: list[list[int]] = []
    labels: list[int] = []
    data: list[dict[str, Any]] = []
    for key, entry in document.items():
        votes = entry.get("weak_labels") if isinstance(entry, dict) else None
        if not isinstance(votes, list) or not votes:
            raise VoteFileError(f"{where}, item {told(key)}: there is no list 'weak_labels'")
        if rows and len(votes) != len(rows[0]):
            raise VoteFileError(
                f"{where}, item {told(key)}: {len(votes)} weak labels, and {len(rows[0])} in the items before"
            )
        for source, vote in enumerate(votes):
            _require_class(vote, f"{where}, item {key!r}, source {source}: the weak label")
        label = entry.get("label", _UNKNOWN)
        label = _UNKNOWN if label is None else label
        _require_class(label, f"{where}, item {key!r}: the label")
        rows.append(votes)
        labels.append(label)
        content = entry.get("data", {})
        data.append(content if isinstance(content, dict) else {"data": content})
    return WrenchItems(tuple(document), np.array(rows, np.int16), np.array(labels, np.int16), tuple(data))


def _require_class(value: Any, what: str) -> None:
    if isinstance(value, list):
        raise VoteFileError(
            f"{what} is a list. Sequences of tokens are not read here; flyingsquid.SequenceLabelModel takes "
            "their votes, one row a token"
        )
    if type(value) is not int or not _UNKNOWN <= value < _MOST_CLASSES:
        raise VoteFileError(f"{what} is {told(value)}; classes are 0, 1, ..., and -1 is none")


class RepeatedKeyError(ValueError):
    """An object of JSON has a key twice. Never leaves the package."""


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object that these pairs of JSON make, where no key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"the key {told(twice)} occurs twice in one object")
    return found
