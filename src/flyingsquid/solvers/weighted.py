"""Weighted votes: for sources that need not be independent given the truth, any number of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flyingsquid.estimation.weighted import VoteWeights, fit_opinion
from flyingsquid.fits.base import Assessment, Fit
from flyingsquid.fits.diagnostics import silent_sources_concern
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.solvers.base import FitData, Requires, Solver


@dataclass(frozen=True)
class Weighted(Solver):
    """Weight a vote by how often others agree with it, from counts alone."""

    name: ClassVar[str] = "weighted"
    requires: ClassVar[Requires] = Requires(rows="optional", confusion=False)

    def solve(self, data: FitData) -> Fit:
        return solve_weighted(data, self.name)


@dataclass(frozen=True)
class AnchoredEM(Solver):
    """Ten EM passes over the votes that are held close to the weighted votes they start from."""

    name: ClassVar[str] = "anchored_em"
    requires: ClassVar[Requires] = Requires(rows="required", confusion=False)

    def solve(self, data: FitData) -> Fit:
        return solve_weighted(data, self.name)


def solve_weighted(
    data: FitData, name: str, *, reason: str = "", weights: VoteWeights | None = None
) -> WeightedFit:
    """Weight the votes by "weighted" or "anchored_em", which holds gold labels through its passes.

    ``weights`` are the weights of the votes, if they have been computed already.
    """
    moments = data.moments
    balance = data.balance.tasks[0]
    known = None if data.gold is None else data.gold[:, 0]
    found = fit_opinion(
        moments,
        balance if isinstance(balance, np.ndarray) else None,
        method=name,
        votes=data.votes,
        sample_weight=data.weights,
        gold=known,
        weighed=weights,
    )
    if known is not None and name == "anchored_em":
        held = f"{np.count_nonzero(known >= 0):,} known labels were held"
        reason = f"{reason}; {held}" if reason else held
    return WeightedFit(
        classes=data.moments.classes,
        source_names=data.moments.source_names,
        method=name,
        reason=reason,
        balance_note=found.balance_note,
        class_balance=found.opinion.balance[None, :],
        accuracies=found.accuracies,
        confusion=found.tables,
        concerns=silent_sources_concern(data.moments),
        assessment=Assessment(found.errors),
        weighting=found.opinion,
        groups=found.groups,
        gain=found.gain,
    )
