"""Weighted votes, alone or mixed with confusion tables, for any number of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flyingsquid._values import format_value
from flyingsquid.estimation.mixture import MixtureFit, fit_mixture, fit_weights
from flyingsquid.estimation.tied_em import rows_of
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.base import Assessment, Fit
from flyingsquid.fits.diagnostics import silent_sources_concern
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.solvers.base import FitData, Requires, Solver

# With fewer items, one class for all of them is no surprise.
_FEW_ITEMS = 20


@dataclass(frozen=True)
class Weighted(Solver):
    """Weight a vote by how often others agree with it; nothing else is assumed or estimated."""

    name: ClassVar[str] = "weighted"
    requires: ClassVar[Requires] = Requires(rows="optional", confusion=False)

    def solve(self, data: FitData) -> Fit:
        return solve_mixture(data, self.name, with_tables=False)


def solve_mixture(data: FitData, name: str, *, with_tables: bool = True) -> WeightedFit:
    """Mix weighted votes with tables, or weight votes only. Gold labels are held during EM."""
    moments = data.moments
    if not np.asarray(moments.vote_counts).any():
        raise NotIdentifiableError(
            f"No source votes on any of the {moments.n_items:,.0f} items, so nothing can be estimated."
        )
    given = data.balance.tasks[0]
    balance = given if isinstance(given, np.ndarray) else None
    known = None if data.gold is None else data.gold[:, 0]
    rows = None if data.votes is None else rows_of(data.votes, data.weights, known)
    found = (fit_mixture if with_tables else fit_weights)(moments, rows, balance)
    groups = found.dependence.groups
    reason, concerns = _describe(found, data) if with_tables else ("", ())
    return WeightedFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=name,
        reason=reason,
        balance_note=_balance_note(found, data, given=balance is not None),
        class_balance=found.balance[None, :],
        accuracies=found.accuracies,
        confusion=found.confusion,
        concerns=(*silent_sources_concern(moments), *_single_class_concern(found, data), *concerns),
        assessment=Assessment(found.errors),
        gold=data.gold_by_task if moments.n_classes == 2 else data.gold_counts,
        mixture=found.mixture,
        groups=np.arange(moments.n_sources) if groups is None else groups,
        gain=found.gain,
        gain_interval=found.gain_interval,
        is_tested=found.trust.n_tested > 0 or found.trust.share > 0.5,
        second_factor=found.dependence.second_factor,
    )


def _describe(found: MixtureFit, data: FitData) -> tuple[str, tuple[str, ...]]:
    """Return the reason of the fit, and concerns about its sources."""
    trust, dependence, mixture = found.trust, found.dependence, found.mixture
    parts = []
    if mixture.tables is None:
        parts.append("too many classes and sources for confusion tables; weighted votes only")
    else:
        parts.append(f"{trust.share:.0%} confusion tables, {1 - trust.share:.0%} weighted votes")
        if not trust.n_tested:
            parts.append("too few pairs of sources to test whether they are independent")
        else:
            often = "less often" if trust.shared_errors >= 0 else "more often"
            off = f"{abs(trust.shared_errors):.1%} {often}"
            parts.append(f"pairs of sources disagree {off} than the tables predict")
    if dependence.n_pairs:
        pairs = "1 dependent pair" if dependence.n_pairs == 1 else f"{dependence.n_pairs:,} dependent pairs"
        parts.append(f"{pairs} of sources discounted")
    if data.gold is not None:
        n_gold = int(np.count_nonzero(data.gold[:, 0] >= 0))
        parts.append("1 gold label was held" if n_gold == 1 else f"{n_gold:,} gold labels were held")
    if mixture.majority < 0.5:
        return "; ".join(parts), ()
    parts.insert(0, f"several explanations fit; {mixture.majority:.0%} plain majority vote")
    contradiction = (
        "Two groups of sources contradict each other, and the votes cannot tell which group is right; labels "
        "follow the majority vote."
    )
    return "; ".join(parts), (contradiction,)


def _single_class_concern(found: MixtureFit, data: FitData) -> tuple[str, ...]:
    """Return a sentence if all items get one class, in a tuple; empty if not."""
    if found.only_class is None or data.moments.n_items < _FEW_ITEMS:
        return ()
    name = format_value(data.moments.classes[found.only_class])
    if np.count_nonzero(np.asarray(data.moments.vote_counts).sum(axis=0)) < 2:
        return (f"All votes are for class {name}, so nothing shows which items are of another class.",)
    return (f"Every item with votes is labeled {name}; the votes for other classes are always outweighed.",)


def _balance_note(found: MixtureFit, data: FitData, *, given: bool) -> str:
    if given:
        return "as given"
    if data.votes is None and found.mixture.tables is None:
        return "uniform, because only counts are available"
    return "estimated from the labels"
