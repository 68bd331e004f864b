"""Is it better than majority vote here? The model's own account, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.emissions import emissions_of
from flyingsquid.analysis.fit_test import FitTest
from flyingsquid.estimate import GraphFit
from flyingsquid.estimate.drawing import draw_items
from flyingsquid.estimate.intervals import draw_votes
from flyingsquid.infer import binary_posterior, sum_product, vote_shares

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Below this many points the two are equally good for any practical purpose.
_WORTH_HAVING = 0.005
_ALIKE = 0.08
_CLEARLY_DEPENDENT = 1e-3
# Real votes have never been seen to gain this much.
_TOO_GOOD = 0.3
_DRAWN_CELLS = 1 << 20
# Errors that persist less than this change hardly a label.
PERSISTENT = 0.1


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


def judge(fit: GraphFit, test: FitTest | None, accuracies: Array, coverage: Array) -> Verdict:
    """Compare the model with majority vote on items drawn from its own parameters."""
    clipped = fit.gather([task.fit.clipped for task in fit.tasks])
    doubts = []
    excess = np.concatenate([np.zeros(1), *(pair.excess for pair in fit.pairs)])
    persistence = float(np.mean(np.clip(np.nan_to_num(excess[1:]), 0, 1))) if len(excess) > 1 else 0.0
    if persistence > PERSISTENT:
        doubts.append(errors_persist(persistence, "task to task"))
    return put_into_words(_gain(fit), clipped, test, accuracies, coverage, doubts)


def errors_persist(persistence: float, steps: str) -> str:
    """The doubt that errors persist."""
    return (
        f"errors persist from {steps} (excess correlation {persistence:.2f} on average), so it is more sure "
        "than it should be unless temper= says otherwise"
    )


def accuracy_gain(posterior: Array, shares: Array, y: NDArray[Any]) -> float:
    """Accuracy of posteriors of class 1 less that of vote shares, all of one shape."""
    return float(_accuracy(posterior, y) - _accuracy(shares, y))


def put_into_words(
    gain: float,
    clipped: Mask,
    test: FitTest | None,
    accuracies: Array,
    coverage: Array,
    further_doubts: Sequence[str] = (),
) -> Verdict:
    """What a gain over majority vote is worth, given what speaks against it.

    ``clipped``, shape (m,), are sources that do not fit the balance.
    """
    if gain < _WORTH_HAVING:
        return Verdict(
            f"Majority vote is as good here, because {_reason(accuracies, coverage)}.", gain, use_model=False
        )
    claim = f"by its own account it labels {100 * gain:.1f} points more right than majority vote"
    doubts = [*_doubts(clipped, test, gain), *further_doubts]
    if doubts:
        words = f"Unproven: {claim}, but {' and '.join(doubts)}. Check it on some known labels before use."
        return Verdict(words, gain, use_model=False)
    caution = "" if test is not None else " There is too little to test whether the sources are independent."
    return Verdict(f"Use it: {claim}.{caution}", gain, use_model=True)


def _gain(fit: GraphFit) -> float:
    """How much more often the model is right than majority vote on items drawn from it, all tasks counted."""
    if fit.graph is None:
        only = fit.tasks[0].fit
        signed, y = draw_votes(only.tables, only.balance)
        codes = np.where(signed == 0, -1, signed > 0).astype(np.int8)
        posterior = binary_posterior(codes, only.balance, only.weights)[:, 0, 1]
        return accuracy_gain(posterior, vote_shares(codes, 2)[:, 0, 1], y)
    tables = fit.gather([task.fit.tables for task in fit.tasks])
    weights = fit.gather([task.fit.weights for task in fit.tasks])
    n = int(np.clip(_DRAWN_CELLS // len(tables), 500, 20_000))
    codes, truths = draw_items(n, fit.graph, fit.tables, tables, fit.units, np.random.default_rng(0))
    tasks = tuple(task.own for task in fit.tasks)
    emissions = emissions_of(tasks, tables, weights, fit.balance, fit.units)
    all_posteriors, _ = sum_product(emissions.evidence(codes), fit.graph._task_tree, fit.tables)
    shares = np.stack([vote_shares(codes[:, list(sources)], 2)[:, 0, 1] for sources in tasks], axis=1)
    return accuracy_gain(all_posteriors[:, :, 1], shares, truths)


def _accuracy(score: Array, y: NDArray[Any]) -> float:
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


def _doubts(clipped: Mask, test: FitTest | None, gain: float) -> list[str]:
    """What speaks against the assumptions that the account rests on."""
    doubts = []
    if test is not None and test.p_value < _CLEARLY_DEPENDENT:
        p = f"p = {test.p_value:.1g}" if test.p_value > 0 else "p < 1e-300"
        doubts.append(f"the sources are not independent given the truth ({p})")
    if gain > _TOO_GOOD:
        doubts.append(
            "so large a gain is more often a sign that the good and the bad are taken for each other"
        )
    if 2 * clipped.sum() > len(clipped):
        doubts.append("the class balance does not fit the votes")
    return doubts
