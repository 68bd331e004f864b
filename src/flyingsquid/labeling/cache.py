"""Votes kept on disk, one file a function and data set, found again by marks of both."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.io import State, read_state, write_state
from flyingsquid.labeling.chunks import ChunkLabels
from flyingsquid.labeling.fingerprint import CannotMarkError, mark_of_data, mark_of_function
from flyingsquid.labeling.functions import LabelingFunction
from flyingsquid.labeling.intake import is_sized
from flyingsquid.labeling.returned import Column
from flyingsquid.votes.codes import ABSTAIN

KIND = "labeling.Column"


class Cache:
    """Votes of some functions on some data. One without paths keeps nothing."""

    def __init__(self, paths: Mapping[str, Path], not_kept: Mapping[str, str], n_items: int) -> None:
        self.paths = dict(paths)
        self.not_kept = dict(not_kept)
        self.n_items = n_items

    def read(self) -> dict[str, ChunkLabels]:
        """What is kept, by name. A damaged file counts as none, and is written anew."""
        found = {}
        for name, path in self.paths.items():
            column = _read_column(path, self.n_items)
            if column is not None:
                found[name] = ChunkLabels((name,), (column,), (None,))
        return found

    def write(self, labels: Mapping[str, ChunkLabels]) -> dict[str, str]:
        """Keep new votes; returns what could not be kept, with the reason.

        Votes of a function that failed somewhere are not kept: the next run may do better.
        """
        not_kept = dict(self.not_kept)
        for name, part in labels.items():
            path = self.paths.get(name)
            if path is None:
                continue
            if part.failures[0] is not None:
                not_kept[name] = "it failed on some items"
            else:
                column = part.columns[0]
                meta = {"values": list(column.values)}
                write_state(path, State(KIND, meta, {"index": column.index}))
        return not_kept


def open_cache(folder: Any, functions: Sequence[LabelingFunction], data: Any) -> Cache:
    """The cache of these functions on this data; without a folder, one that keeps nothing."""
    if folder is None:
        return Cache({}, {}, 0)
    if not is_sized(data):
        raise OptionError(
            "cache= needs data that can be looked at twice; pass a list or a table, not an iterator"
        )
    try:
        place = Path(folder)
    except TypeError as error:
        raise OptionError(f"cache={told(folder)} is no path of a folder") from error
    try:
        of_data = mark_of_data(data)
    except CannotMarkError as error:
        raise OptionError(f"cache= cannot be used with these items: {error}") from error
    place.mkdir(parents=True, exist_ok=True)
    paths, not_kept = {}, {}
    for function in functions:
        try:
            mark = mark_of_function(function)
        except CannotMarkError as error:
            not_kept[function.name] = str(error)
            continue
        readable = re.sub(r"[^A-Za-z0-9]+", "-", function.name)[:40].strip("-") or "function"
        paths[function.name] = place / f"{readable}-{mark}-{of_data}.fsq"
    return Cache(paths, not_kept, len(data))


def _read_column(path: Path, n_items: int) -> Column | None:
    if not os.path.lexists(path):
        return None
    try:
        state = read_state(path)
    except ModelFileError:
        return None  # damaged, or half copied from elsewhere: compute it again
    values, index = state.meta.get("values"), state.arrays.get("index")
    if state.kind != KIND or not isinstance(values, list) or index is None:
        return None
    sound = index.dtype == np.int32 and index.shape == (n_items,) and len({type(v) for v in values}) <= 1
    if not sound or not all(isinstance(v, (bool, int, str)) for v in values):
        return None
    if index.size and (index.min() < ABSTAIN or index.max() >= len(values)):
        return None
    return Column(index, tuple(values))
