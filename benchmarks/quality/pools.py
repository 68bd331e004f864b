"""The real sets as votes to fit on and votes to score, by two protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.data_directory import find
from benchmarks.quality.halves import RealSet
from benchmarks.quality.peers import Question

Protocol: TypeAlias = Literal["split", "merged"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
SPLITS = ("_train", "_valid", "_test", "")


class Pool(NamedTuple):
    """Votes (n, m) to fit on, votes (k, m) to score and their gold (k,), -1 where there is none.

    ``score`` is ``fit`` where the fitted items are the scored ones.
    """

    real: RealSet
    fit: NDArray[np.int8]
    score: NDArray[np.int8]
    y: NDArray[np.int8]

    @property
    def is_one(self) -> bool:
        """True if the fitted items are the scored ones."""
        return self.score is self.fit

    @property
    def question(self) -> Question:
        """The input of a peer."""
        score = self.score[:0] if self.is_one else self.score
        return Question(self.real.name, self.fit, score, self.real.n_classes)


def load(folder: Path, real: RealSet, protocol: Protocol) -> Pool:
    """``"split"`` fits the train split and scores the test split, or one pool; ``"merged"`` does both on all
    items of all splits that anyone votes on."""
    splits = read_splits(folder, real.name)
    if real.kind == "sequences":
        # Outside a span these rules say "no entity", which the data set leaves blank.
        splits = {s: (np.maximum(votes, 0), y) for s, (votes, y) in splits.items()}
    return _merged(real, splits) if protocol == "merged" else _split(real, splits)


def read_splits(directory: Path, name: str) -> dict[str, tuple[NDArray[np.int8], NDArray[np.int8]]]:
    """Return votes (n, m) and gold labels (n,) of each split, -1 if there is none."""
    with np.load(find(directory, name)) as data:
        return {s: (data[f"L{s}"], data[f"Y{s}"]) for s in SPLITS if f"L{s}" in data and f"Y{s}" in data}


def _split(real: RealSet, splits: dict[str, tuple[NDArray[np.int8], NDArray[np.int8]]]) -> Pool:
    score, y = splits.get("_test") or splits[""]
    fit = splits["_train"][0] if "_train" in splits else score
    return Pool(real, fit, score, y)


def _merged(real: RealSet, splits: dict[str, tuple[NDArray[np.int8], NDArray[np.int8]]]) -> Pool:
    votes, y = (np.concatenate(parts) for parts in zip(*splits.values(), strict=True))
    covered = (votes >= 0).any(axis=1)
    kept = votes[covered]
    return Pool(real, kept, kept, y[covered])
