"""Is it better than majority vote here? The model's own account, in words."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a fit.

    Attributes
    ----------
    words : str
    gain : float
        Accuracy of the model less that of majority vote on items drawn from the fitted model.
    use_model : bool
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
    gain = _accuracy(posterior, y) - _accuracy(shares, y)
    use_model = gain >= _WORTH_HAVING
    if use_model:
        words = f"Use it: by its own account it labels {100 * gain:.1f} points more right than majority vote."
    else:
        words = f"Majority vote is as good here, because {_reason(accuracies, coverage)}."
    return Verdict(" ".join([words, *_cautions(fit, test)]), float(gain), use_model)


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


def _cautions(fit: BinaryFit, test: FitTest | None) -> list[str]:
    words = []
    if test is not None and test.p_value < _CLEARLY_DEPENDENT:
        m = len(fit.tables)
        worth = (
            f"; {m} sources are worth {test.effective_sources:.1f}"
            if test.effective_sources < m - 0.1
            else ""
        )
        words.append(
            f"Mind that the sources are not independent given the truth (p = {test.p_value:.1g}{worth})."
        )
    if 2 * fit.clipped.sum() > len(fit.clipped):
        words.append("Mind that the class balance does not fit the votes.")
    return words
