"""The paper's freedom: class balance and triplets chosen on the labelled valid split.

"We use class balance from the dev set, or tune the class balance ourselves with a grid search. We also tune
which triplets we use for parameter recovery on the dev set" (appendix on end models). Nothing else is tuned.
Triplets go through the bare formula, |E[λᵢY]| = √|E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]|, and 0 where it divides by 0;
all signs are positive. ``LabelModel`` refuses triplets that determine nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference import forward_backward
from flyingsquid.reproduce.clips import clip_lengths
from flyingsquid.reproduce.real_sets import RealSet, Split
from flyingsquid.reproduce.scores import f1

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
GRID = tuple(round(0.05 * step, 2) for step in range(1, 20))
# Single triplets for every source are too many to list from five sources on: so many are drawn.
DRAWS = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting. ``weights`` (m,) are log odds of a vote being right; ``triplets`` says where from."""

    triplets: str
    weights: Array
    balance: float


@dataclass(frozen=True, slots=True)
class Search:
    """Scores of all candidates, in one fixed order; the first is the mean with the balance of valid."""

    candidates: tuple[Candidate, ...]
    valid: Array
    test: Array

    @property
    def chosen(self) -> int:
        """The best on the valid split; the first of equals."""
        return int(np.argmax(self.valid))


def signed(votes: Codes) -> Array:
    """-1, 0 and +1 for class 0, no vote and class 1, shape (n, m)."""
    return np.where(votes < 0, 0, 2 * votes.astype(np.float64) - 1)


def all_triplets(votes: Codes) -> Array:
    """|E[λᵢY]| by every pair of partners, shape (m, (m - 1)(m - 2) / 2)."""
    values = signed(votes)
    second, m = values.T @ values / len(votes), votes.shape[1]
    found = np.zeros((m, (m - 1) * (m - 2) // 2))
    for i in range(m):
        for at, (j, k) in enumerate(combinations([j for j in range(m) if j != i], 2)):
            if second[j, k] != 0:
                found[i, at] = np.sqrt(abs(second[i, j] * second[i, k] / second[j, k]))
    return found


def weights_of(accuracies: Array, votes: Codes) -> Array:
    """Log odds of a vote being right, shape (m,), for |E[λᵢY]| of shape (m,)."""
    coverage = np.maximum((votes >= 0).mean(axis=0), 1 / len(votes))
    right = np.clip((1 + accuracies / coverage) / 2, 0.5, 0.99)  # one triplet may say more than 1
    return np.asarray(np.log(right / (1 - right)))


def posterior(votes: Codes, candidate: Candidate, chain: int, stickiness: float) -> Array:
    """P(class) of each item, shape (n, 2): alone, or in clips of ``chain`` frames.

    A frame repeats the truth of the one before it with probability ``stickiness``, and draws anew otherwise.
    """
    return _in_clips(signed(votes), clip_lengths(len(votes), chain), candidate, stickiness)


def _in_clips(votes: Array, lengths: NDArray[np.intp], candidate: Candidate, stickiness: float) -> Array:
    half = votes @ candidate.weights / 2
    prior = np.array([1 - candidate.balance, candidate.balance])
    transition = stickiness * np.eye(2) + (1 - stickiness) * prior
    return forward_backward(np.stack([-half, half], axis=1), lengths, prior, transition)[0]


def stickiness_of(y: Codes) -> float:
    """Correlation of neighbouring labels, as the class balance of a clip in the valid split says it."""
    return float(np.clip(np.corrcoef(y[1:], y[:-1])[0, 1], 0.0, 0.999))


def search(real: RealSet, *, draws: int = DRAWS) -> Search:
    """Score every candidate on both splits. The test split takes no part in the choice."""
    if real.valid is None:
        raise ValueError("a search needs a labelled valid split")
    sticky = stickiness_of(real.valid.y) if real.chain > 1 else 0.0
    candidates = tuple(_candidates(real.train.votes, float(real.valid.balance[1]), draws))
    splits = (real.valid, real.test)
    # Both at once, because every call costs more than its rows do.
    votes = np.concatenate([signed(split.votes) for split in splits])
    lengths = np.concatenate([clip_lengths(len(split.y), real.chain) for split in splits])
    scores = np.empty((len(candidates), 2))
    for at, each in enumerate(candidates):
        parts = np.split(_in_clips(votes, lengths, each, sticky), [len(real.valid.y)])
        scores[at] = [_score(split, part) for split, part in zip(splits, parts, strict=True)]
    return Search(candidates, scores[:, 0], scores[:, 1])


def _score(split: Split, proba: Array) -> float:
    known = split.y >= 0
    return f1(proba[known], split.y[known])


def _candidates(votes: Codes, known_balance: float, draws: int) -> list[Candidate]:
    estimates = all_triplets(votes)
    m, pairs = estimates.shape
    choices = [("mean", estimates.mean(axis=1)), ("median", np.median(estimates, axis=1))]
    rng = np.random.default_rng(0)
    picks = product(range(pairs), repeat=m) if pairs**m <= draws else rng.integers(0, pairs, (draws, m))
    choices += [("one a source", estimates[np.arange(m), np.asarray(pick)]) for pick in picks]
    return [
        Candidate(name, weights_of(accuracies, votes), balance)
        for name, accuracies in choices
        for balance in (known_balance, *GRID)
    ]
