"""WRENCH: JSON ``{"id": {"label": ..., "weak_labels": [...], "data": {...}}}``, in a file or a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.columns import Roles, Wanted
from flyingsquid.formats.jsonlines import read_json
from flyingsquid.formats.matrices import MatrixVotes
from flyingsquid.formats.streams import open_input
from flyingsquid.formats.wrench_json import class_names_of, items_of
from flyingsquid.votes.states import Label

WEAK, GOLD = "weak_labels", "label"


def is_wrench(document: Any) -> bool:
    """Whether a JSON document is of this kind."""
    if not isinstance(document, dict) or not document:
        return False
    first = next(iter(document.values()))
    return isinstance(first, dict) and WEAK in first


def read_folder(folder: Path, wanted: Wanted, part: str | None) -> tuple[Roles, MatrixVotes]:
    """One split of a folder, with the names of classes from ``label.json``."""
    splits = [p.stem for p in sorted(folder.glob("*.json")) if p.stem not in ("label", "meta")]
    if not splits:
        raise VoteFileError(
            "this folder holds no train.json, valid.json or test.json, so it is none of WRENCH"
        )
    chosen = part or ("train" if "train" in splits else splits[0] if len(splits) == 1 else None)
    if chosen not in splits:
        raise VoteFileError(f"part= (--part) picks one of {', '.join(splits)}")
    labels = folder / "label.json"
    classes = class_names_of(read_json(open_input(labels)), labels.name) if labels.exists() else None
    document = read_json(open_input(folder / f"{chosen}.json"))
    if not is_wrench(document):
        raise VoteFileError(f"{chosen}.json holds no weak_labels")
    roles, votes = read_wrench(document, wanted, classes, f"{chosen}.json")
    others = [split for split in splits if split != chosen]
    if part is None and others:
        note = f"{chosen}.json was read; part= (--part) picks {' or '.join(others)}"
        roles = Roles("wide", roles.item, gold=roles.gold, notes=(*roles.notes, note))
    return roles, votes


def read_wrench(
    document: dict[str, Any], wanted: Wanted, classes: tuple[Label, ...] | None, name: str = "the file"
) -> tuple[Roles, MatrixVotes]:
    """All items of a document called ``name``; ``classes`` are the names of 0, 1, ..."""
    if wanted.form == "long" or wanted.long is not None or wanted.sources is not None or wanted.ignore:
        raise VoteFileError("WRENCH holds a matrix of sources without names; they cannot be picked")
    if wanted.gold not in (None, GOLD):
        raise VoteFileError(f"known labels are called {told(GOLD)} in WRENCH, not {told(wanted.gold)}")
    items = items_of(document, name)
    votes, gold = items.weak_labels, items.labels if wanted.gold else None
    ids = None if wanted.item is False else list(items.ids)

    def rows(size: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        for at in range(0, len(votes), size):
            some = slice(at, at + size)
            yield votes[some], None if ids is None else ids[some], None if gold is None else gold[some]

    notes: tuple[str, ...] = ()
    if not wanted.gold and any(GOLD in entry for entry in document.values()):
        notes = (f"known labels were left out; gold={GOLD!r} (--gold {GOLD}) uses them",)
    n, m = votes.shape
    # Identifiers are keys of one object, so they differ already.
    source = MatrixVotes(rows, (n, m), has_gold=gold is not None, labels=classes)
    source.has_ids = ids is not None
    return Roles("wide", None if ids is None else "id", gold=wanted.gold, notes=notes), source
