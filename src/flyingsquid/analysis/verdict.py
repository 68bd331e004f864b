"""Is it better than majority vote here? The model's own account, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.fit_test import FitTest
from flyingsquid.estimate import BinaryFit
from flyingsquid.estimate.intervals import draw_votes
from flyingsquid.infer import binary_posterior, vote_shares

Array = NDArray[np.float64]
# Below this many points the two are equally good for any practical purpose.
_WORTH_HAVING = 0.005
_ALIKE = 0.08
_CLEARLY_DEPENDENT = 1e-3
# Real votes have never been seen to gain this much.
_TOO_GOOD = 0.3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a fit.

    Attributes
    ----------
    words : str
    gain : float
        Accuracy of the model less that of majority vote on items drawn from the fitted model: its own
        account, right only as far as its assumptions are.
    use_model : bool
        Whether the gain is worth having and nothing speaks against the assumptions.
    """

    words: str
    gain: float
    use_model: bool

    def __str__(self) -> str:
        return self.words


def judge(fit: BinaryFit, test: FitTest | None, accuracies: Array, coverage: Array) -> Verdict:
    """Compare the model with majority vote on items drawn from its own tables."""
    signed, y = draw_votes(fit.tables, fit.balance)
    codes = np.where(signed == 0, -1, signed > 0).astype(np.int8)
    posterior = binary_posterior(codes, fit.balance, fit.weights)[:, 0, 1]
    shares = vote_shares(codes, 2)[:, 0, 1]
    return put_into_words(accuracy_gain(posterior, shares, y), fit, test, accuracies, coverage)


def accuracy_gain(posterior: Array, shares: Array, y: NDArray[np.intp]) -> float:
    """Accuracy of posteriors of class 1 less that of vote shares, all of shape (n,)."""
    return float(_accuracy(posterior, y) - _accuracy(shares, y))


def put_into_words(
    gain: float,
    fit: BinaryFit,
    test: FitTest | None,
    accuracies: Array,
    coverage: Array,
    further_doubts: Sequence[str] = (),
) -> Verdict:
    """What a gain over majority vote is worth, given what speaks against it."""
    if gain < _WORTH_HAVING:
        return Verdict(
            f"Majority vote is as good here, because {_reason(accuracies, coverage)}.", gain, use_model=False
        )
    claim = f"by its own account it labels {100 * gain:.1f} points more right than majority vote"
    doubts = [*_doubts(fit, test, gain), *further_doubts]
    if doubts:
        words = f"Unproven: {claim}, but {' and '.join(doubts)}. Check it on some known labels before use."
        return Verdict(words, gain, use_model=False)
    caution = "" if test is not None else " There is too little to test whether the sources are independent."
    return Verdict(f"Use it: {claim}.{caution}", gain, use_model=True)


def _accuracy(score: Array, y: NDArray[np.intp]) -> float:
    """Accuracy of "class 1 if above one half"; a tie is right half of the time."""
    sure = np.abs(score - 0.5) > 1e-9
    return float(np.mean(np.where(sure, (score > 0.5) == y, 0.5)))


def _reason(accuracies: Array, coverage: Array) -> str:
    voting = accuracies[coverage > 0]
    if coverage.sum() < 1.5:
        return f"an item has {coverage.sum():.1f} votes on average, so there is little to weigh"
    if np.ptp(voting) < _ALIKE:
        low, high = voting.min(), voting.max()
        return f"the sources are about equally good ({low:.0%} to {high:.0%})"
    return "the weights of the sources rarely change which class wins"


def _doubts(fit: BinaryFit, test: FitTest | None, gain: float) -> list[str]:
    """What speaks against the assumptions that the account rests on."""
    doubts = []
    if test is not None and test.p_value < _CLEARLY_DEPENDENT:
        voting = int((~fit.flags.silent).sum())
        few = test.effective_sources < voting - 0.1
        worth = f"; {voting} of them are worth {test.effective_sources:.1f}" if few else ""
        doubts.append(f"the sources are not independent given the truth (p = {test.p_value:.1g}{worth})")
    if gain > _TOO_GOOD:
        doubts.append(
            "so large a gain is more often a sign that the good and the bad are taken for each other"
        )
    if 2 * fit.clipped.sum() > len(fit.clipped):
        doubts.append("the class balance does not fit the votes")
    return doubts
