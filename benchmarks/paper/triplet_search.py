"""Search of the class balance and the triplets on the valid split, as the paper tunes them.

"We use class balance from the dev set, or tune the class balance ourselves with a grid search. We also tune
which triplets we use for parameter recovery on the dev set" (appendix on end models). Nothing else is tuned.
All signs are taken to be positive. ``LabelModel`` would refuse many of these triplets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.data import Array, Codes, Dataset, Split
from benchmarks.quality.scores import f1
from flyingsquid.inference import forward_backward

GRID = tuple(round(0.05 * step, 2) for step in range(1, 20))
# From five sources on there are too many choices of one triplet per source to list; this many are drawn.
DRAWS = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting: the log odds that a vote is right (m,), the triplets they came from, and P(class 1)."""

    triplets: str
    weights: Array
    balance: float


@dataclass(frozen=True, slots=True)
class Search:
    """F1 of all candidates; the first candidate is the mean with the class balance of the valid split."""

    candidates: tuple[Candidate, ...]
    valid: Array
    test: Array

    @property
    def chosen(self) -> int:
        """Position of the best candidate on the valid split; the first if several are equal."""
        return int(np.argmax(self.valid))


def signed(votes: Codes) -> Array:
    """Return votes as -1, 0 and +1 for class 0, no vote and class 1, shape (n, m)."""
    return np.where(votes < 0, 0, 2 * votes.astype(np.float64) - 1)


def second_moments(votes: Codes) -> Array:
    """Return E[λᵢλⱼ], shape (m, m)."""
    values = signed(votes)
    return np.asarray(values.T @ values / len(votes))


def triplet_estimate(second: Array, i: int, j: int, k: int) -> float:
    """Return |E[λᵢY]| = √|E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]|, and 0 if the denominator is 0."""
    if second[j, k] == 0:
        return 0.0
    return float(np.sqrt(abs(second[i, j] * second[i, k] / second[j, k])))


def all_triplets(votes: Codes) -> Array:
    """Estimate |E[λᵢY]| from every pair of other sources, shape (m, (m - 1)(m - 2) / 2)."""
    second, m = second_moments(votes), votes.shape[1]
    pairs = ([(i, j, k) for j, k in combinations([j for j in range(m) if j != i], 2)] for i in range(m))
    return np.array([[triplet_estimate(second, *triplet) for triplet in row] for row in pairs])


def log_odds(accuracies: Array, votes: Codes) -> Array:
    """Return the log odds that a vote is right, shape (m,), for |E[λᵢY]| of shape (m,)."""
    coverage = np.maximum((votes >= 0).mean(axis=0), 1 / len(votes))
    right = np.clip((1 + accuracies / coverage) / 2, 0.5, 0.99)  # one triplet may exceed 1
    return np.asarray(np.log(right / (1 - right)))


def posterior(votes: Codes, candidate: Candidate, chain: int, stickiness: float) -> Array:
    """Return P(class) of each item, shape (n, 2), in clips of ``chain`` frames.

    A frame has the class of the one before with probability ``stickiness``, and a new draw otherwise.
    """
    return _in_clips(signed(votes), clip_lengths(len(votes), chain), candidate, stickiness)


def clip_lengths(n_frames: int, length: int) -> NDArray[np.intp]:
    """Return the frames of each clip; the last clip may be shorter.

    >>> clip_lengths(7, 3).tolist()
    [3, 3, 1]
    """
    full, rest = divmod(n_frames, length)
    return np.array([length] * full + [rest] * (rest > 0), np.intp)


def search(dataset: Dataset, *, draws: int = DRAWS) -> Search:
    """Score every candidate on the valid and the test split. Only the valid split decides."""
    if dataset.valid is None:
        raise ValueError("`dataset` must have a valid split with gold labels.")
    candidates = tuple(_candidates(dataset.train.votes, float(dataset.valid.balance[1]), draws))
    splits = (dataset.valid, dataset.test)
    # Both splits in one call, because a call costs more than its rows.
    votes = np.concatenate([signed(split.votes) for split in splits])
    lengths = np.concatenate([clip_lengths(len(split.y), dataset.chain) for split in splits])
    stickiness, scores = dataset.stickiness, np.empty((len(candidates), 2))
    for at, candidate in enumerate(candidates):
        proba = _in_clips(votes, lengths, candidate, stickiness)
        parts = np.split(proba, [len(dataset.valid.y)])
        scores[at] = [f1_of(part, split) for split, part in zip(splits, parts, strict=True)]
    return Search(candidates, scores[:, 0], scores[:, 1])


def f1_of(proba: Array, split: Split) -> float:
    """Return F1 on the items of a split that have a gold label."""
    known = split.y >= 0
    return f1(proba[known], split.y[known])


def _in_clips(votes: Array, lengths: NDArray[np.intp], candidate: Candidate, stickiness: float) -> Array:
    half = votes @ candidate.weights / 2
    prior = np.array([1 - candidate.balance, candidate.balance])
    transition = stickiness * np.eye(2) + (1 - stickiness) * prior
    return forward_backward(np.stack([-half, half], axis=1), lengths, prior, transition)[0]


def _candidates(votes: Codes, valid_balance: float, draws: int) -> list[Candidate]:
    estimates = all_triplets(votes)
    m, pairs = estimates.shape
    choices = [("mean", estimates.mean(axis=1)), ("median", np.median(estimates, axis=1))]
    rng = np.random.default_rng(0)
    picks = product(range(pairs), repeat=m) if pairs**m <= draws else rng.integers(0, pairs, (draws, m))
    choices += [("one per source", estimates[np.arange(m), np.asarray(pick)]) for pick in picks]
    return [
        Candidate(name, log_odds(accuracies, votes), balance)
        for name, accuracies in choices
        for balance in (valid_balance, *GRID)
    ]
