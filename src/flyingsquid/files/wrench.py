"""Read WRENCH: ``{"id": {"label": 1, "weak_labels": [1, -1], "data": {...}}}``, in a file or a directory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.arrays import MatrixVotes
from flyingsquid.files.columns import ColumnSpec, Roles
from flyingsquid.files.inputs import located, open_input
from flyingsquid.files.text_tables import read_json
from flyingsquid.votes.codes import MOST_CLASSES, Label

WEAK, GOLD = "weak_labels", "label"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class WrenchItems:
    """The items of one file.

    Attributes
    ----------
    ids : tuple of n str
    weak_labels : integer array of shape (n, m)
        Classes from 0 on, -1 for no vote.
    labels : integer array of shape (n,)
        True classes, -1 if unknown.
    data : tuple of n dicts
        The items themselves, as in the file: ``{"text": ...}`` or ``{"feature": [...]}``.
    """

    ids: tuple[str, ...]
    weak_labels: NDArray[np.int16]
    labels: NDArray[np.int16]
    data: tuple[dict[str, Any], ...]


def read_items(path: Path) -> WrenchItems:
    """Read the items of a file such as ``train.json``."""
    with located(str(path)):
        return items_of(read_json(open_input(path)))


def read_class_names(path: Path) -> tuple[str, ...]:
    """Read the names of the classes 0, 1, ... from ``label.json``: ``{"0": "ham", "1": "spam"}``."""
    with located(str(path)):
        document = read_json(open_input(path))
        try:
            names = {int(number): str(name) for number, name in document.items()}
        except (ValueError, AttributeError):
            names = {}
        unique = len(set(names.values())) == len(names)
        if len(names) < 2 or sorted(names) != list(range(len(names))) or not unique:
            raise VoteFileError(
                'The file must give the classes 0, 1, ... different names, as in {"0": "ham", "1": "spam"}.'
            )
        return tuple(names[k] for k in range(len(names)))


def items_of(document: Any) -> WrenchItems:
    """Read the items of a JSON document.

    >>> items_of({"a": {"label": 1, "weak_labels": [1, -1]}}).weak_labels
    array([[ 1, -1]], dtype=int16)
    """
    if not isinstance(document, dict) or not document:
        raise VoteFileError('The file must be an object of items, as in {"0": {"weak_labels": [1, -1]}}.')
    rows: list[list[int]] = []
    labels: list[int] = []
    data: list[dict[str, Any]] = []
    for key, entry in document.items():
        votes = entry.get(WEAK) if isinstance(entry, dict) else None
        if not isinstance(votes, list) or not votes:
            raise VoteFileError(f"Item {format_value(key)} has no list {format_value(WEAK)}.")
        if rows and len(votes) != len(rows[0]):
            raise VoteFileError(
                f"Item {format_value(key)} has {len(votes)} weak labels, but earlier items have "
                f"{len(rows[0])}."
            )
        for source, vote in enumerate(votes):
            _require_class(vote, f"item {format_value(key)}, source {source}")
        label = entry.get(GOLD)
        label = _UNKNOWN if label is None else label
        _require_class(label, f"item {format_value(key)}, {GOLD!r}")
        rows.append(votes)
        labels.append(label)
        content = entry.get("data", {})
        data.append(content if isinstance(content, dict) else {"data": content})
    return WrenchItems(tuple(document), np.array(rows, np.int16), np.array(labels, np.int16), tuple(data))


def _require_class(value: Any, where: str) -> None:
    if isinstance(value, list):
        raise VoteFileError(
            f"Lists of labels are not supported ({where}). For sequences of tokens, pass the votes with one "
            "row per token to SequenceLabelModel."
        )
    if type(value) is not int or not _UNKNOWN <= value < MOST_CLASSES:
        raise VoteFileError(
            f"Labels must be integers >= 0, or -1 for no vote; got {format_value(value)} ({where})."
        )


# ---------------------------------------------------------------------- as votes


def is_wrench(document: Any) -> bool:
    """Return whether a JSON document has this format."""
    if not isinstance(document, dict) or not document:
        return False
    first = next(iter(document.values()))
    return isinstance(first, dict) and WEAK in first


def read_directory(directory: Path, spec: ColumnSpec, part: str | None) -> tuple[Roles, MatrixVotes]:
    """Read one split of a directory, with the names of classes from ``label.json``."""
    splits = [p.stem for p in sorted(directory.glob("*.json")) if p.stem not in ("label", "meta")]
    if not splits:
        raise VoteFileError(
            "The directory contains no parquet files and no train.json, valid.json or test.json."
        )
    chosen = part or ("train" if "train" in splits else splits[0] if len(splits) == 1 else None)
    if chosen not in splits:
        raise VoteFileError(
            f"The splits are {', '.join(splits)}.", hints=[Hint("part", "to choose one of them")]
        )
    names = directory / "label.json"
    classes = read_class_names(names) if names.exists() else None
    path = directory / f"{chosen}.json"
    with located(str(path)):
        roles, votes = read_wrench(read_json(open_input(path)), spec, classes)
    others = [split for split in splits if split != chosen]
    if part is None and others:
        note = Note(f"{chosen}.json was read.", (Hint("part", f"to read {' or '.join(others)} instead"),))
        roles = replace(roles, notes=(*roles.notes, note))
    return roles, votes


def read_wrench(
    document: Any, spec: ColumnSpec, classes: tuple[Label, ...] | None
) -> tuple[Roles, MatrixVotes]:
    """Read all items of a document; ``classes`` are the names of 0, 1, ..."""
    if spec.form == "long" or spec.long is not None or spec.sources is not None or spec.ignore:
        raise VoteFileError("WRENCH files have no source names and no long form.")
    if spec.gold not in (None, GOLD):
        raise VoteFileError(
            f"WRENCH files have no field {format_value(spec.gold)}.",
            hints=[Hint("gold", "to use the gold labels", GOLD)],
        )
    items = items_of(document)
    gold = items.labels if spec.gold else None
    ids = None if spec.item is False else list(items.ids)

    notes: tuple[Note, ...] = ()
    if not spec.gold and any(GOLD in entry for entry in document.values()):
        notes = (Note("Gold labels are not read.", (Hint("gold", "to use them", GOLD),)),)
    # Identifiers need no check: keys of one object are unique.
    roles = Roles("wide", None if ids is None else "id", gold=spec.gold, notes=notes)
    return roles, MatrixVotes(items.weak_labels, ids=ids, gold=gold, labels=classes)
