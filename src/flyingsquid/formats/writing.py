"""Votes to files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import is_null, told
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.formats.array_files import ArrayVotesWriter, WrenchWriter, write_folder
from flyingsquid.formats.columnar_files import ColumnarVotesWriter
from flyingsquid.formats.columns import Form
from flyingsquid.formats.opening import StrPath, VoteChunk, VoteFile
from flyingsquid.formats.output import output, output_format
from flyingsquid.formats.text_files import DelimitedVotesWriter, JsonVotesWriter
from flyingsquid.votes import Votes

WRITABLE = ("csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench")


def write_votes(
    path: StrPath,
    votes: Votes | VoteFile | Iterable[VoteChunk],
    *,
    ids: ArrayLike | None = None,
    gold: ArrayLike | None = None,
    format: str | None = None,  # the word that users know
    form: Form | None = None,
    force: bool = False,
) -> None:
    """Write votes to a file, whole or not at all.

    Parameters
    ----------
    path : path, or "-" for standard output (csv unless ``format`` says otherwise)
        ``.gz`` and ``.zst`` at the end of the name pack csv, tsv and JSON.
    votes : Votes, an open file of votes, or chunks of one
    ids : n identifiers, optional
        For ``Votes`` only; default: those of votes from long form.
    gold : n known labels, None where unknown, optional
        For ``Votes`` only.
    format : one of "csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench", optional
        Default: by the name. "json" is WRENCH in one file, "wrench" a folder.
    form : "wide" or "long", optional
        Default: long for sparse votes, where the format can say so.
    force : replace a file that is there

    Raises
    ------
    VoteFileError
        If there is such a file already, or it cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> votes = Votes.from_classes([["spam", None], ["ham", "ham"]], names=["links", "short"])
    >>> write_votes(path, votes, ids=["a", "b"])
    >>> print(path.read_text(), end="")
    id,links,short
    a,spam,
    b,ham,ham
    """
    chunks = _chunks(votes, ids, gold)
    first = next(chunks, None)
    if first is None:
        raise VoteFileError(f"{os.fspath(path)}: there are no votes to write")
    found = (
        "wrench" if format is None and Path(path).is_dir() else output_format(path, format, WRITABLE, "csv")
    )
    if form not in (None, "wide", "long"):
        raise OptionError(f"form={told(form)} is unknown; 'wide' or 'long'")
    if form == "long" and found in ("npy", "npz", "json", "wrench"):
        raise OptionError(f"{found} has no long form")
    long = form == "long" or (form is None and first.votes.is_sparse)
    # What the first chunk has, every one has.
    whole = chain([first], chunks)
    if found == "wrench":
        write_folder(path, whole, force=force)
        return
    with output(path, force=force) as file:
        layout = Layout(
            first.votes.names, first.votes.classes, _has_ids(votes, first), first.gold_codes is not None, long
        )
        writer: Any
        if found in ("csv", "tsv"):
            writer = DelimitedVotesWriter(file, found, layout)
        elif found == "jsonl":
            writer = JsonVotesWriter(file, layout)
        elif found == "json":
            writer = WrenchWriter(file)
        elif found in ("npy", "npz"):
            writer = ArrayVotesWriter(file, found, layout)
        else:
            writer = ColumnarVotesWriter(file, found, layout, first)
        with writer:
            for chunk in whole:
                writer.write(chunk)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file of votes will hold."""

    names: tuple[str, ...] | None
    classes: tuple[Any, ...]
    has_ids: bool
    has_gold: bool
    long: bool


def _has_ids(votes: Any, first: VoteChunk) -> bool:
    if isinstance(votes, VoteFile):
        return votes.item_name is not None
    return first.ids is not None


def _chunks(votes: Any, ids: ArrayLike | None, gold: ArrayLike | None) -> Iterator[VoteChunk]:
    if not isinstance(votes, Votes):
        if ids is not None or gold is not None:
            raise OptionError("ids= and gold= belong to Votes; chunks have their own")
        yield from votes
        return
    known = votes.items if ids is None else np.asarray(ids)
    if known is not None and known.shape != (votes.n_items,):
        raise OptionError(f"ids have the shape {known.shape}; {votes.n_items} are needed")
    yield VoteChunk(votes, known, None if gold is None else _gold_codes(gold, votes))


def _gold_codes(gold: ArrayLike, votes: Votes) -> NDArray[Any]:
    labels = list(np.asarray(gold, object))
    position = {label: k for k, label in enumerate(votes.classes)}
    if len(labels) != votes.n_items:
        raise OptionError(f"{len(labels)} known labels for {votes.n_items} items")
    codes = []
    for row, label in enumerate(labels):
        unknown = is_null(label) or (label == -1 and -1 not in position)
        if not unknown and label not in position:
            raise OptionError(f"the known label {told(label)} of row {row} is none of the classes")
        codes.append(-1 if unknown else position[label])
    return np.array(codes, np.int64)
