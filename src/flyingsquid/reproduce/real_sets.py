"""The paper's tasks whose votes can be had, from files or from folders of WRENCH."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.datasets import load_wrench
from flyingsquid.exceptions import VotesError

Codes = NDArray[np.int8]
WRENCH = "github.com/JieyuZ2/wrench"
# Frames in a chain, as the paper has them.
CHAINS = {"commercial": 6, "tennis": 14, "basketball": 8}
# Items to fit, to tune on and to score, of a pool without splits: the paper's sizes.
_CUTS = {"weather": (187, 50, 50)}
DOWNLOADS = {
    "spouse": f"the spouse set of {WRENCH}",
    "youtube": f"the youtube set of {WRENCH}",
    "weather": "the crowdsourcing tutorial of github.com/snorkel-team/snorkel-extraction, as weather.npz "
    "with L (287, 102) and Y (287,)",
    "commercial": f"the commercial set of {WRENCH}",
    "tennis": f"the tennis set of {WRENCH}",
    "basketball": f"the basketball set of {WRENCH}",
}


@dataclass(frozen=True, slots=True)
class Split:
    """Votes (n, m), gold (n,) with -1 where unknown, and texts where there are any."""

    votes: Codes
    y: Codes
    texts: list[str] | None = None

    @property
    def balance(self) -> NDArray[np.float64]:
        """Shares of the two classes among known labels."""
        counts = np.bincount(self.y[self.y >= 0], minlength=2)
        return np.asarray(counts / counts.sum())


@dataclass(frozen=True, slots=True)
class RealSet:
    """One task. ``valid`` is None where no labels but those of the test split are at hand."""

    name: str
    train: Split
    valid: Split | None
    test: Split

    @property
    def chain(self) -> int:
        """Frames in a chain; 1 for items without order."""
        return CHAINS.get(self.name, 1)


def available(folder: Path | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of ``names`` that are in the folder."""
    return tuple(name for name in names if folder is not None and _place(folder, name) is not None)


def advice(missing: tuple[str, ...]) -> str:
    """Where to get what is missing, and how to lay it out."""
    lines = [f"  {name}: {DOWNLOADS[name]}" for name in missing]
    layout = (
        "  Each goes into a folder of its name, as NAME/NAME.npz or as WRENCH has it, NAME/train.json ..."
    )
    return "\n".join([*lines, layout])


def load(folder: Path, name: str) -> RealSet:
    """One task by name."""
    place = _place(folder, name)
    if place is None:
        raise VotesError(_absent(name))
    splits = _of_file(place) if place.suffix == ".npz" else _of_wrench(place)
    if "all" in splits:
        splits = _cut(splits["all"], _CUTS.get(name))
    test = splits["test"]
    return RealSet(name, splits.get("train", test), splits.get("valid"), test)


def load_whole(folder: Path, name: str) -> tuple[Codes, Codes, Codes]:
    """Votes to fit on, votes to score, and their gold; a pool without splits is not cut."""
    place = _place(folder, name)
    if place is None:
        raise VotesError(_absent(name))
    splits = _of_file(place) if place.suffix == ".npz" else _of_wrench(place)
    test = splits.get("all") or splits["test"]
    return splits.get("train", test).votes, test.votes, test.y


def _absent(name: str) -> str:
    return f"there is no {name}/{name}.npz and no {name}/test.json in the data folder"


def _place(folder: Path, name: str) -> Path | None:
    file = folder / name / f"{name}.npz"
    if file.is_file():
        return file
    return folder / name if (folder / name / "test.json").is_file() else None


def _of_file(path: Path) -> dict[str, Split]:
    texts = _texts(path.with_name("texts.jsonl.gz"))
    with np.load(path) as data:
        keys = {"all": ""} if "L" in data else {s: f"_{s}" for s in ("train", "valid", "test")}
        return {
            split: Split(data[f"L{key}"], data[f"Y{key}"], texts.get(split))
            for split, key in keys.items()
            if f"L{key}" in data and f"Y{key}" in data
        }


def _texts(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record: dict[str, Any] = json.loads(line)
                found.setdefault(record["split"], []).append(record["text"])
    return found


def _of_wrench(folder: Path) -> dict[str, Split]:
    found = load_wrench(folder)
    splits = {}
    for name, part in found.splits.items():
        has_text = all(isinstance(content.get("text"), str) for content in part.data)
        codes = np.asarray(part.votes.to_dense().codes if part.votes.is_sparse else part.votes.codes)
        splits[name] = Split(codes.astype(np.int8), part.y.astype(np.int8), part.texts if has_text else None)
    return splits


def _cut(pool: Split, sizes: tuple[int, int, int] | None) -> dict[str, Split]:
    """Splits of a pool, by a fixed shuffle."""
    if sizes is None or sum(sizes) > len(pool.y):
        return {"test": pool}
    order = np.random.default_rng(0).permutation(len(pool.y))
    ends = np.cumsum(sizes)
    rows = dict(zip(("train", "valid", "test"), np.split(order, ends)[:3], strict=True))
    return {
        name: Split(pool.votes[at], pool.y[at], pool.texts and [pool.texts[i] for i in at])
        for name, at in rows.items()
    }
