"""Streams of items with votes and features, and an end model that passes over them once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from flyingsquid.datasets import simulate_sequence
from flyingsquid.models import to_training_set
from flyingsquid.reproduce.real_sets import RealSet
from flyingsquid.reproduce.scores import f1

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
CHUNK = 20
_ACCURACIES = (0.9, 0.85, 0.85, 0.8, 0.75)


@dataclass(frozen=True, slots=True)
class StreamTask:
    """A train part and a test part, in order: features (n, p), votes (n, m), and gold of the test part.

    ``seed`` is for the end model; ``balance`` is what label models are told.
    """

    X: tuple[Any, Any]
    votes: tuple[Codes, Codes]
    y: Codes
    balance: Array
    seed: int

    def chunks(self, *, test: bool) -> Iterator[Codes]:
        """The votes of one part, a chunk at a time."""
        votes = self.votes[test]
        return (votes[at : at + CHUNK] for at in range(0, len(votes), CHUNK))

    def gold_chunks(self) -> Iterator[Codes]:
        """The gold of the test part, a chunk at a time."""
        return (self.y[at : at + CHUNK] for at in range(0, len(self.y), CHUNK))

    def run(self, train: Iterator[Array] | None, test: Iterator[Array]) -> float:
        """F1 on the test part: each of its chunks is asked, then learned, after the train part, if given."""
        model = SGDClassifier(loss="log_loss", alpha=1e-4, random_state=self.seed)
        if train is not None:
            for place, labels in enumerate(train):
                _learn(model, self.X[0], self.votes[0], place, labels)
        answers = []
        for place, labels in enumerate(test):
            rows = self.X[1][CHUNK * place : CHUNK * place + len(labels)]
            known = hasattr(model, "classes_")
            answers.append(model.predict_proba(rows) if known else np.full((len(labels), 2), 0.5))
            _learn(model, self.X[1], self.votes[1], place, labels)
        return f1(np.concatenate(answers), self.y)


def _learn(model: Any, X: Any, votes: Codes, place: int, labels: Array) -> None:
    """One step for each item that somebody votes on, on both classes by their probabilities."""
    rows = slice(CHUNK * place, CHUNK * place + len(labels))
    chosen = to_training_set(X[rows], labels, votes=votes[rows])
    if len(chosen.rows):
        features, y, weight = chosen.expanded()
        model.partial_fit(features, y, classes=[0, 1], sample_weight=weight)


def text_stream(real: RealSet, rng: np.random.Generator) -> StreamTask:
    """Comments in a random order, as hashed words and pairs of words."""
    words = HashingVectorizer(n_features=2**18, ngram_range=(1, 2), alternate_sign=False)
    X, votes, y = [], [], real.test.y
    for split in (real.train, real.test):
        order = rng.permutation(len(split.y))
        X.append(words.transform(split.texts or [])[order])
        votes.append(split.votes[order])
        y = split.y[order]
    balance = (real.valid or real.test).balance
    return StreamTask((X[0], X[1]), (votes[0], votes[1]), y, balance, int(rng.integers(2**31)))


def video_stream(n_items: int, rng: np.random.Generator) -> StreamTask:
    """Frames of a chain, seven eighths to train: ten features, five sources that vote on 80% of frames."""
    balance = np.array([0.7, 0.3])
    video = simulate_sequence(
        n_items, _ACCURACIES, coverage=0.8, class_balance=balance, persistence=0.9, random_state=rng
    )
    X = rng.normal(size=(n_items, 10)) + 0.5 * (2 * video.y[:, None] - 1)
    cut = 7 * n_items // 8
    votes = np.asarray(video.votes.codes)
    return StreamTask(
        (X[:cut], X[cut:]), (votes[:cut], votes[cut:]), video.y[cut:], balance, int(rng.integers(2**31))
    )
