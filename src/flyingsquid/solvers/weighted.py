"""Weighted votes, alone or mixed with confusion tables, for any number of classes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid.estimation.mixture import (
    Complete,
    Gain,
    MixtureFit,
    fit_mixture,
    fit_weights,
)
from flyingsquid.estimation.source_estimates import SourceErrors
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.base import Assessment, Fit
from flyingsquid.fits.summary import silent_sources_concern
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.votes.codes import NOT_ASKED, marked_cells

FEW_ITEMS = 20
"""With fewer items, shares of labels are not suspicious, and complete items are not treated apart."""
# More votes than this are not kept for an assessment on demand.
_MOST_KEPT = 1 << 22
MAJORITY_FOLLOWED = (
    "Two groups of sources contradict each other, and the votes do not show which group is right; labels "
    "follow the majority vote."
)
"""Concern reported if two explanations fit the votes equally well."""
CONSISTENT_FOLLOWED = (
    "Two groups of judges contradict each other; the labels are based on the judges that give the "
    "same answer in both orders. To check whether this is right, label the items that fs.suggest_items lists."
)
"""Concern reported if two explanations fit the votes of judges that were asked in several orders."""


@dataclass(frozen=True)
class Weighted(Solver):
    """Weights of votes by how often other sources agree with them.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Weighted()).fit(votes)
    >>> model.method_
    'weighted'
    """

    name: ClassVar[str] = "weighted"
    requires: ClassVar[Requires] = Requires(rows="optional", confusion=False)

    def solve(self, data: FitData) -> Fit:
        return solve_mixture(data, self.name, with_tables=False)


def solve_mixture(data: FitData, name: str, *, with_tables: bool = True) -> WeightedFit:
    """Mix weighted votes with tables, or weight votes only, without gold labels."""
    if not np.asarray(data.moments.vote_counts).any():
        raise no_votes_error(data.moments)
    balance = data.given_balance
    rows = None if data.votes is None else rows_of(data.votes, data.weights, data.counted)
    if not with_tables:
        found = fit_weights(data.moments, rows, balance)
    else:
        is_adaptive = data.votes is not None and data.moments.missing[:, -1].any()  # votes not asked for
        found = fit_mixture(data.moments, rows, balance, _complete_items(data) if is_adaptive else None)
    reason, concerns = describe_mixture(found) if with_tables else ("", ())
    return weighted_fit(found, name, reason, concerns, found.dependence.groups)


def no_votes_error(moments: Moments) -> NotIdentifiableError:
    """Return the error for votes in which all sources abstain."""
    items = format_count(moments.n_items, "item")
    return NotIdentifiableError(f"At least one source must vote; all sources abstain on all {items}.")


def weighted_fit(
    found: MixtureFit,
    name: str,
    reason: str,
    concerns: tuple[str, ...],
    groups: NDArray[np.intp] | None,
) -> WeightedFit:
    """Return estimated parameters as a fit of the method ``name``."""
    moments = found.moments
    concerns = (*_missing_classes_concern(found), *concerns)
    assessment = MixtureAssessment(found=found)
    is_large = False
    if found.labels is not None:
        rows = found.labels.rows
        n_cells = len(rows.counts) * moments.n_sources
        is_large = n_cells > _MOST_KEPT and rows.one_hot.n_votes.sum() > _MOST_KEPT
    return WeightedFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=name,
        reason=reason,
        balance_note="estimated from the labels" if found.balance is None else "as given",
        class_balance=found.sources.balance[None, :],
        accuracies=found.sources.accuracies,
        confusion=found.sources.confusion,
        assessment=assessment.computed if is_large else assessment,
        concerns=(*silent_sources_concern(moments), *concerns),
        mixture=found.mixture,
        groups=np.arange(moments.n_sources) if groups is None else groups,
        is_tested=found.is_tested,
        second_factor=found.dependence.second_factor,
    )


def _missing_classes_concern(found: MixtureFit) -> tuple[str, ...]:
    """Return a concern if all items with votes get one class, or most items no vote and a class none."""
    moments, labels = found.moments, found.labels
    if labels is None or moments.n_items < FEW_ITEMS:
        return ()
    has_votes = np.asarray(moments.vote_counts).sum(axis=0) > 0
    if has_votes.sum() > 1 and not has_votes.all() and 2 * labels.rows.n_voted < labels.rows.n_items:
        names = format_list([label for label, has in zip(moments.classes, has_votes, strict=True) if not has])
        return (
            f"Most items have no votes, and no source votes for class {names}, so its items cannot be found. "
            "If a missing vote means this class, use Votes.fill_abstains.",
        )
    if found.only_class is None:
        return ()
    label = format_value(moments.classes[found.only_class])
    if has_votes.sum() < 2:
        return (f"All votes are for class {label}, so items of other classes cannot be found.",)
    return (f"Every item with votes is labeled {label}; the votes for other classes are always outweighed.",)


def _complete_items(data: FitData) -> Complete | None:
    """Return the items for which all votes were asked for; None if they are few."""
    votes = data.votes
    if votes is None:
        return None
    is_complete = data.complete
    if is_complete is None:
        item, _, code = marked_cells(votes.codes)
        is_complete = np.ones(votes.n_items, np.bool_)
        is_complete[item[code == NOT_ASKED]] = False
    if is_complete.sum() < FEW_ITEMS:
        return None
    weights = None if data.weights is None else data.weights[is_complete]
    whole = votes[is_complete]
    return Complete(Moments.of(whole, sample_weight=weights), rows_of(whole, weights))


def assessment_of(errors: SourceErrors, gain: Gain | None) -> Assessment:
    """Return the uncertainty of the sources, and the gain over majority vote, as an assessment."""
    balance = None if errors.balance is None else errors.balance[None, :]
    return Assessment(errors.accuracies, reach=errors.reach, balance=balance, gain=gain)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureAssessment(Assessment):
    """Uncertainty of the sources and gain over majority vote, computed on demand.

    Copies and pickles hold the results instead of the votes.

    Attributes
    ----------
    found : MixtureFit
    """

    found: MixtureFit

    @cached_property
    def computed(self) -> Assessment:
        """The results, without the votes."""
        return assessment_of(self.found.errors, self.found.gain)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self.computed.widened(self.widening),)


def describe_mixture(found: MixtureFit) -> tuple[str, tuple[str, ...]]:
    """Return the reason for the fit, and concerns about its sources."""
    trust, dependence, mixture = found.trust, found.dependence, found.mixture
    parts = []
    if mixture.tables is None:
        parts.append("too many classes and sources for confusion tables; weighted votes only")
    else:
        parts.append(f"{trust.share:.0%} confusion tables, {1 - trust.share:.0%} weighted votes")
        if not trust.n_tested:
            parts.append("too few pairs of sources to test the tables")
        else:
            often = "less often" if trust.shared_errors >= 0 else "more often"
            off = f"{abs(trust.shared_errors):.1%} {often}"
            parts.append(f"pairs of sources disagree {off} than the tables predict")
    if dependence.n_pairs:
        pairs = "1 dependent pair" if dependence.n_pairs == 1 else f"{dependence.n_pairs:,} dependent pairs"
        parts.append(f"{pairs} of sources discounted")
    if mixture.majority < 0.5:
        return "; ".join(parts), ()
    parts.insert(0, f"two groups of sources contradict each other; {mixture.majority:.0%} majority vote")
    return "; ".join(parts), (MAJORITY_FOLLOWED,)
