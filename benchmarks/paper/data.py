"""The paper's tasks: the numbers that it prints, and real votes from .npz files or WRENCH directories."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.datasets import load_wrench

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
# Frames per chain, as in the paper.
CHAINS = {"commercial": 6, "tennis": 14, "basketball": 8}
# Items to fit, to tune on and to score for a dataset without splits: the paper's sizes.
_CUTS = {"weather": (187, 50, 50)}
_WRENCH = "github.com/JieyuZ2/wrench"
_DOWNLOADS = {
    "weather": "the crowdsourcing tutorial of github.com/snorkel-team/snorkel-extraction, as weather.npz "
    "with L (287, 102) and Y (287,)",
}


# ---------------------------------------------------------------------- published numbers


class Task(NamedTuple):
    """One row of the paper's Table 1 (Fu et al. 2020): F1 in %, seconds on the paper's machine."""

    title: str
    positives: float
    supervised: float
    majority: float
    programming: float
    sequential: float | None
    end_model: float
    label_model: float
    seconds: float
    programming_seconds: float

    @property
    def speedup(self) -> float:
        """Ratio of the fit time of data programming to that of the paper's method."""
        return self.programming_seconds / self.seconds


TABLE_1 = {
    "spouse": Task("Spouses", 0.07, 20.4, 19.3, 44.7, None, 49.6, 47.0, 0.017, 7.5),
    "youtube": Task("Spam", 0.49, 91.5, 88.3, 91.8, None, 92.3, 89.1, 0.014, 0.76),
    "weather": Task("Weather", 0.53, 74.6, 87.3, 87.3, None, 88.9, 77.6, 0.150, 0.78),
    "commercial": Task("Commercial", 0.32, 90.9, 91.8, 90.5, 89.8, 92.3, 88.4, 0.067, 23.3),
    "tennis": Task("Tennis Rally", 0.34, 57.6, 80.2, 82.5, 80.6, 82.8, 82.0, 0.199, 41.1),
    "basketball": Task("Basketball", 0.12, 26.8, 8.1, 7.7, 38.2, 37.9, 27.9, 0.092, 28.7),
}
# Streaming end models: supervised, majority vote, and the paper's method.
TABLE_2 = {
    "commercial": (56.5, 78.9, 93.0),
    "tennis": (41.5, 81.6, 82.7),
    "basketball": (20.7, 22.0, 26.7),
}
# Spouses, spam and weather.
ABLATIONS = {
    "random votes, end model": (20.9, 64.1, 69.1),
    "all triplets, end model": (49.6, 92.3, 88.9),
    "one triplet, worst": (4.5, 67.0, 0.0),
    "one triplet, average": (37.9, 73.4, 31.0),
    "one triplet, best": (51.2, 83.6, 77.6),
    "all triplets": (47.0, 89.1, 77.6),
}


# ---------------------------------------------------------------------- real votes


@dataclass(frozen=True, slots=True)
class Split:
    """Votes (n, m), gold labels (n,) with -1 for unknown ones, and texts and embeddings if there are any."""

    votes: Codes
    y: Codes
    texts: list[str] | None = None
    embeddings: Array | None = None

    @property
    def balance(self) -> Array:
        """Shares of the two classes among gold labels."""
        counts = np.bincount(self.y[self.y >= 0], minlength=2)
        return np.asarray(counts / counts.sum())


@dataclass(frozen=True, slots=True)
class Dataset:
    """One task. ``valid`` is None without gold labels.

    Without a train split, ``train`` is the valid split without its gold labels, or else ``test``.
    """

    name: str
    train: Split
    valid: Split | None
    test: Split

    @property
    def chain(self) -> int:
        """Frames per chain; 1 for items without order."""
        return CHAINS.get(self.name, 1)

    @property
    def stickiness(self) -> float:
        """Correlation of consecutive labels of the valid split; 0 for items without order."""
        if self.chain == 1 or self.valid is None:
            return 0.0
        y = self.valid.y
        return float(np.clip(np.corrcoef(y[1:], y[:-1])[0, 1], 0.0, 0.999))


def available(directory: Path | None, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` whose votes are in the directory."""
    return tuple(name for name in names if directory is not None and _path(directory, name) is not None)


def download_advice(missing: Iterable[str]) -> str:
    """Describe where to get missing datasets and how to store them."""
    lines = [f"  {name}: {_DOWNLOADS.get(name, f'the {name} dataset of {_WRENCH}')}" for name in missing]
    layout = "  Store each in a directory of its name, as NAME/NAME.npz or as in WRENCH, NAME/train.json ..."
    return "\n".join([*lines, layout])


def load(directory: Path, name: str) -> Dataset:
    """Load one task; a dataset without splits is cut by a fixed shuffle."""
    splits = _read(directory, name)
    if "all" in splits:
        splits = _cut(splits["all"], _CUTS.get(name))
    test, valid = splits["test"], splits.get("valid")
    unlabeled = test if valid is None else replace(valid, y=np.full_like(valid.y, -1))
    return Dataset(name, splits.get("train", unlabeled), valid, test)


def load_uncut(directory: Path, name: str) -> tuple[Codes, Codes, Codes]:
    """Load votes to fit on, votes to score, and their gold labels; a dataset without splits is not cut."""
    splits = _read(directory, name)
    test = splits.get("all") or splits["test"]
    return splits.get("train", test).votes, test.votes, test.y


def in_clips(frames: Codes, length: int) -> Codes:
    """Cut frames into complete clips, shape (clips, length, m); remaining frames are dropped."""
    clips = len(frames) // length
    return frames[: clips * length].reshape(clips, length, frames.shape[1])


def _path(directory: Path, name: str) -> Path | None:
    file = directory / name / f"{name}.npz"
    if file.is_file():
        return file
    return directory / name if (directory / name / "test.json").is_file() else None


def _read(directory: Path, name: str) -> dict[str, Split]:
    path = _path(directory, name)
    if path is None:
        raise FileNotFoundError(f"Neither {name}/{name}.npz nor {name}/test.json exists in {directory}.")
    return _read_npz(path) if path.suffix == ".npz" else _read_wrench(path)


def _read_npz(path: Path) -> dict[str, Split]:
    texts = _read_texts(path.with_name("texts.jsonl.gz"))
    embeddings = _read_embeddings(path.with_name("embeddings.npz"))
    with np.load(path) as data:
        keys = {"all": ""} if "L" in data else {s: f"_{s}" for s in ("train", "valid", "test")}
        return {
            split: Split(data[f"L{key}"], data[f"Y{key}"], texts.get(split), embeddings.get(split))
            for split, key in keys.items()
            if f"L{key}" in data and f"Y{key}" in data
        }


def _read_texts(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record: dict[str, Any] = json.loads(line)
                found.setdefault(record["split"], []).append(record["text"])
    return found


def _read_embeddings(path: Path) -> dict[str, Array]:
    if not path.is_file():
        return {}
    with np.load(path) as data:
        return {key[2:] or "all": data[key].astype(np.float64) for key in data if key[:2] in ("E", "E_")}


def _read_wrench(directory: Path) -> dict[str, Split]:
    splits = {}
    for name, part in load_wrench(directory).splits.items():
        has_text = all(isinstance(content.get("text"), str) for content in part.data)
        codes = np.asarray(part.votes.to_dense().codes if part.votes.is_sparse else part.votes.codes)
        splits[name] = Split(codes.astype(np.int8), part.y.astype(np.int8), part.texts if has_text else None)
    return splits


def _cut(pool: Split, sizes: tuple[int, int, int] | None) -> dict[str, Split]:
    if sizes is None or sum(sizes) > len(pool.y):
        return {"test": pool}
    order = np.random.default_rng(0).permutation(len(pool.y))
    rows = dict(zip(("train", "valid", "test"), np.split(order, np.cumsum(sizes))[:3], strict=True))
    return {
        name: Split(
            pool.votes[at],
            pool.y[at],
            pool.texts and [pool.texts[i] for i in at],
            None if pool.embeddings is None else pool.embeddings[at],
        )
        for name, at in rows.items()
    }
