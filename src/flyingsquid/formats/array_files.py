"""Votes to npy, npz and WRENCH. Arrays say how large they are before they begin, so votes are collected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.arrays import MARK
from flyingsquid.formats.output import TextFile, output
from flyingsquid.formats.text_files import plain_ids, text_of
from flyingsquid.formats.wrench import GOLD, WEAK
from flyingsquid.io import encode_labels
from flyingsquid.votes.states import is_sparse, stack_codes

if TYPE_CHECKING:
    from flyingsquid.formats.opening import VoteChunk
    from flyingsquid.formats.writing import Layout


class ArrayVotesWriter:
    """npy: the codes, reasons as -1. npz: ``L`` with the codes, names, classes, ids and ``Y``."""

    def __init__(self, file: BinaryIO, format: str, layout: Layout) -> None:  # as in open_votes
        self._file, self._format, self._layout = file, format, layout
        self._codes: list[Any] = []
        self._ids: list[Any] = []
        self._gold: list[NDArray[Any]] = []

    def write(self, chunk: VoteChunk) -> None:
        """Collect a chunk."""
        self._codes.append(chunk.votes.codes)
        if self._layout.has_ids:
            self._ids += plain_ids(chunk.ids)
        if chunk.gold_codes is not None:
            self._gold.append(chunk.gold_codes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            (self._write_npy if self._format == "npy" else self._write_npz)()

    def _write_npy(self) -> None:
        if is_sparse(self._codes[0]):
            raise VoteFileError("sparse votes are written as npz, not npy")
        np.lib.format.write_array(self._file, np.maximum(np.concatenate(self._codes), -1), allow_pickle=False)

    def _write_npz(self) -> None:
        arrays: dict[str, Any] = {MARK: np.array("votes 1")}
        if is_sparse(self._codes[0]):
            whole: Any = stack_codes(self._codes)
            arrays |= {"format": np.array("csr"), "shape": np.array(whole.shape), "data": whole.data}
            arrays |= {"indices": whole.indices, "indptr": whole.indptr}
            if self._gold:
                raise VoteFileError("known labels do not fit into a sparse npz")
        else:
            arrays["L"] = np.concatenate(self._codes)
        if self._layout.names is not None:
            arrays["names"] = _text_array(list(self._layout.names), "a source")
        arrays["classes"] = np.array(json.dumps(encode_labels(self._layout.classes)))
        if self._layout.has_ids:
            whole_ids = all(type(i) is int and abs(i) < 1 << 62 for i in self._ids)
            arrays["ids"] = np.array(self._ids, np.int64) if whole_ids else _text_array(self._ids, "an item")
        if self._gold:
            arrays["Y"] = np.concatenate(self._gold)
        np.savez_compressed(self._file, **arrays)


def _text_array(values: list[Any], what: str) -> NDArray[Any]:
    texts = [str(value) for value in values]
    longest = max(map(len, texts), default=0)
    if any(text.endswith("\0") for text in texts):
        raise VoteFileError(f"{what} has a name that ends with a NUL character, which npz loses")
    if longest * len(texts) > 1 << 28:
        raise VoteFileError(
            f"{what} has a name of {longest:,} characters, too long for npz; parquet keeps it"
        )
    return np.array(texts, f"U{max(1, longest)}")


class WrenchWriter:
    """WRENCH in one file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = TextFile(file)
        self._row = 0

    def __enter__(self) -> Self:
        self._file.write("{")
        return self

    def write(self, chunk: VoteChunk) -> None:
        """Append the items of a chunk."""
        votes = np.maximum(np.asarray(chunk.votes.to_dense().codes), -1).tolist()
        n = len(votes)
        ids = range(self._row, self._row + n) if chunk.ids is None else plain_ids(chunk.ids)
        gold = [-1] * n if chunk.gold_codes is None else chunk.gold_codes.tolist()
        for at, (identity, weak, label) in enumerate(zip(ids, votes, gold, strict=True), self._row):
            entry = json.dumps({GOLD: label, WEAK: weak, "data": {}})
            self._file.write(f"{',' * (at > 0)}\n{json.dumps(str(identity))}: {entry}")
        self._row += n

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._file.write("\n}\n")


def write_folder(
    path: str | os.PathLike[str], chunks: Iterable[VoteChunk], *, force: bool, part: str = "train"
) -> None:
    """A folder of WRENCH: ``label.json`` with the names of classes, and one split."""
    folder = os.fspath(path)
    os.makedirs(folder, exist_ok=True)
    names = None
    target = os.path.join(folder, f"{part}.json")
    with output(target, force=force) as file, WrenchWriter(file) as writer:
        for chunk in chunks:
            if names is None:
                names = {str(k): text_of(label) for k, label in enumerate(chunk.votes.classes)}
                with output(os.path.join(folder, "label.json"), force=force) as labels:
                    TextFile(labels).write(json.dumps(names) + "\n")
            writer.write(chunk)
