"""Datasets of other projects: WRENCH in files and directories, and directories of Hugging Face datasets.

A file of WRENCH is ``{"id": {"label": 1, "weak_labels": [1, -1], "data": {...}}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.arrays import MatrixVotes
from flyingsquid.files.columns import ReadOptions, Roles
from flyingsquid.files.inputs import HUGGING_FACE, located, open_input, read_json
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


def read_directory(directory: Path, options: ReadOptions) -> tuple[Roles, MatrixVotes]:
    """Read one split of a directory, with the names of classes from ``label.json``."""
    splits = [p.stem for p in sorted(directory.glob("*.json")) if p.stem not in ("label", "meta")]
    if not splits:
        raise VoteFileError(
            "The directory contains no parquet files and no train.json, valid.json or test.json."
        )
    chosen, notes = _choose_split(splits, options.part)
    names = directory / "label.json"
    classes = read_class_names(names) if names.exists() else None
    path = directory / f"{chosen}.json"
    with located(str(path)):
        roles, votes = read_wrench(read_json(open_input(path)), options, classes)
    return replace(roles, notes=(*roles.notes, *notes)), votes


def read_wrench(
    document: Any, options: ReadOptions, classes: tuple[Label, ...] | None = None
) -> tuple[Roles, MatrixVotes]:
    """Read all items of a document; ``classes`` are the names of 0, 1, ..."""
    if options.is_long or options.sources is not None or options.ignore:
        raise VoteFileError("WRENCH files have no source names and no long form.")
    if options.gold not in (None, GOLD):
        raise VoteFileError(
            f"WRENCH files have no field {format_value(options.gold)}.",
            hints=[Hint("gold", "to use the gold labels", GOLD)],
        )
    items = items_of(document)
    gold = items.labels if options.gold else None
    ids = None if options.item is False else list(items.ids)

    notes: tuple[Note, ...] = ()
    if not options.gold and any(GOLD in entry for entry in document.values()):
        notes = (Note("Gold labels are not read.", (Hint("gold", "to use them", GOLD),)),)
    # Identifiers need no check: keys of one object are unique.
    roles = Roles("wide", None if ids is None else "id", gold=options.gold, notes=notes)
    return roles, MatrixVotes(items.weak_labels, ids=ids, gold=gold, labels=classes)


def _choose_split(splits: Sequence[str], part: str | None) -> tuple[str, tuple[Note, ...]]:
    """Return the split ``part``, by default "train" or the only one, and a note if there are others."""
    chosen = part or ("train" if "train" in splits else splits[0] if len(splits) == 1 else None)
    if chosen is None or chosen not in splits:
        raise VoteFileError(
            f"The splits are {', '.join(splits)}.", hints=[Hint("part", "to choose one of them")]
        )
    others = [split for split in splits if split != chosen]
    if part is not None or not others:
        return chosen, ()
    hint = Hint("part", f"to read {' or '.join(others)} instead")
    return chosen, (Note(f"The split {format_value(chosen)} was read.", (hint,)),)


# ---------------------------------------------------------------------- Hugging Face


def find_split(path: Path, part: str | None) -> tuple[Path, tuple[Note, ...]]:
    """Return the directory of one split, if ``DatasetDict.save_to_disk`` wrote several."""
    index = path / HUGGING_FACE[1]
    if not path.is_dir() or not index.exists():
        return path, ()
    found = read_json(open_input(index))
    splits = found.get("splits") if isinstance(found, dict) else None
    names = [s for s in splits if isinstance(s, str)] if isinstance(splits, list) else []
    chosen, notes = _choose_split([s for s in names if Path(s).name == s and (path / s).is_dir()], part)
    return path / chosen, notes


def arrow_parts(directory: Path) -> list[Path]:
    """Return the arrow files of a directory, sorted by name."""
    parts = sorted(directory.glob("*.arrow"))
    if not parts:
        raise VoteFileError("The directory contains no arrow files.")
    return parts


def class_names_in(schema: Any) -> dict[str, tuple[str, ...]]:
    """Return the class names of each column, which Hugging Face datasets store in the schema."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about["info"]["features"]
        declared = {name: tuple(features[name]["names"]) for name in features if "names" in features[name]}
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return {
        name: names
        for name, names in declared.items()
        if name in schema.names
        and str(schema.field(name).type).startswith("int")
        and len(set(names)) == len(names)
        and all(isinstance(label, str) for label in names)
    }


def name_classes(pyarrow: Any, batch: Any, class_names: Mapping[str, tuple[str, ...]]) -> Any:
    """Replace class codes in a record batch by class names; -1 is a missing label."""
    for name, classes in class_names.items():
        at = batch.schema.get_field_index(name)
        if at < 0:
            continue
        values = np.asarray(batch.column(at).fill_null(-1))
        if len(values) and not (values.min() >= -1 and values.max() < len(classes)):
            wrong = values.min() if values.min() < -1 else values.max()
            raise VoteFileError(
                f"Column {format_value(name)} must contain codes of its {len(classes)} classes; got {wrong}."
            )
        indices = pyarrow.array(values.astype(np.int32), mask=values < 0)
        batch = batch.set_column(at, name, pyarrow.DictionaryArray.from_arrays(indices, list(classes)))
    return batch
