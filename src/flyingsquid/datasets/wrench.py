"""Directories of the WRENCH benchmark as votes, gold labels and texts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.exceptions import VoteFileError, VotesError
from flyingsquid.files.datasets import WrenchItems, read_class_names, read_items
from flyingsquid.votes import Votes

_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True, eq=False)
class WrenchSplit:
    """One split of a WRENCH dataset.

    Attributes
    ----------
    votes : Votes of shape (n, m)
        Classes 0..K-1.
    y : integer array of shape (n,)
        True classes, -1 for unknown ones.
    ids : tuple of n str
    data : tuple of n dict
        The content of the items, as in the file.
    """

    votes: Votes
    y: NDArray[Any]
    ids: tuple[str, ...]
    data: tuple[dict[str, Any], ...]

    @property
    def texts(self) -> list[str]:
        """The text of every item."""
        for key, content in zip(self.ids, self.data, strict=True):
            if not isinstance(content.get("text"), str):
                keys = ", ".join(map(repr, content)) or "nothing"
                raise VotesError(f"Item {format_value(key)} has no text; its `data` contains {keys}.")
        return [content["text"] for content in self.data]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Wrench:
    """A WRENCH dataset.

    Attributes
    ----------
    splits : mapping of str to WrenchSplit
        The splits "train", "valid" and "test", if they have a file.
    class_names : tuple of K str
        The name of each class; its number if there is no ``label.json``.
    """

    splits: Mapping[str, WrenchSplit]
    class_names: tuple[str, ...]

    def __getitem__(self, split: str) -> WrenchSplit:
        if split not in self.splits:
            raise VotesError(f"`split` must be one of {', '.join(self.splits)}; got {format_value(split)}.")
        return self.splits[split]

    @property
    def train(self) -> WrenchSplit:
        return self["train"]

    @property
    def valid(self) -> WrenchSplit:
        return self["valid"]

    @property
    def test(self) -> WrenchSplit:
        return self["test"]


def load_wrench(directory: str | os.PathLike[str]) -> Wrench:
    """Read a directory of the WRENCH benchmark: train.json, valid.json, test.json and label.json.

    Parameters
    ----------
    directory : path-like
        Splits without a file are left out. Without ``label.json`` the classes are those that occur.

    Returns
    -------
    Wrench

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import flyingsquid as fs
    >>> item = {"label": 1, "weak_labels": [1, -1, 0], "data": {"text": "win a prize"}}
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = pathlib.Path(directory, "train.json").write_text(json.dumps({"0": item}))
    ...     _ = pathlib.Path(directory, "label.json").write_text('{"0": "ham", "1": "spam"}')
    ...     spam = fs.datasets.load_wrench(directory)
    >>> spam.train.votes
    Votes(1 item x 3 sources, classes 0, 1, 67% voted, dense int8)
    >>> spam.train.y, spam.train.texts, spam.class_names
    (array([1], dtype=int16), ['win a prize'], ('ham', 'spam'))
    """
    home = Path(directory)
    files = {split: home / f"{split}.json" for split in _SPLITS}
    found = {split: read_items(path) for split, path in files.items() if path.is_file()}
    if not found:
        raise VoteFileError(
            "The directory contains none of train.json, valid.json and test.json.", path=str(home)
        )
    widths = {split: items.weak_labels.shape[1] for split, items in found.items()}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{width} in {split}" for split, width in widths.items())
        raise VoteFileError(f"The splits have different numbers of weak labels: {shown}.", path=str(home))
    label_file = home / "label.json"
    n_classes = 1 + max(int(max(items.weak_labels.max(), items.labels.max())) for items in found.values())
    names = (
        read_class_names(label_file)
        if label_file.is_file()
        else tuple(str(k) for k in range(max(2, n_classes)))
    )
    if n_classes > len(names):
        raise VoteFileError(
            f"label.json names {len(names)} classes, counted from 0, but class {n_classes - 1} occurs.",
            path=str(home),
        )
    splits = {split: _split(items, len(names)) for split, items in found.items()}
    return Wrench(MappingProxyType(splits), names)


def _split(items: WrenchItems, n_classes: int) -> WrenchSplit:
    votes = Votes.from_classes(items.weak_labels, classes=tuple(range(n_classes)))
    return WrenchSplit(votes, np.asarray(items.labels), items.ids, items.data)
