"""Datasets of Hugging Face's ``datasets``: splits in directories, and names of classes in schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import format_value
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.inputs import HUGGING_FACE, open_input
from flyingsquid.files.text_tables import read_json


def find_split(path: Path, part: str | None) -> tuple[Path, tuple[Note, ...]]:
    """Return the directory of one split, if ``DatasetDict.save_to_disk`` wrote several."""
    index = path / HUGGING_FACE[1]
    if not path.is_dir() or not index.exists():
        return path, ()
    found = read_json(open_input(index))
    splits = found.get("splits") if isinstance(found, dict) else None
    names = [s for s in splits if isinstance(s, str)] if isinstance(splits, list) else []
    names = [s for s in names if Path(s).name == s and (path / s).is_dir()]
    chosen = part or ("train" if "train" in names else names[0] if len(names) == 1 else None)
    if chosen not in names:
        raise VoteFileError(
            f"The splits are {', '.join(names)}.", hints=[Hint("part", "to choose one of them")]
        )
    others = [name for name in names if name != chosen]
    if part is not None or not others:
        return path / chosen, ()
    hint = Hint("part", f"to read {' or '.join(others)} instead")
    return path / chosen, (Note(f"The split {format_value(chosen)} was read.", (hint,)),)


def arrow_parts(directory: Path) -> list[Path]:
    """Return the arrow files of a directory, sorted by name."""
    parts = sorted(directory.glob("*.arrow"))
    if not parts:
        raise VoteFileError("The directory contains no arrow files.")
    return parts


def read_class_names(schema: Any) -> dict[str, tuple[str, ...]]:
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
