"""Weighted votes, alone or mixed with confusion tables, for any number of classes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.estimation.gold_regression import FEWEST_LABELS, fit_correction
from flyingsquid.estimation.mixture import (
    Complete,
    Gain,
    MixtureFit,
    fit_mixture,
    fit_weights,
    gain_over_majority,
)
from flyingsquid.estimation.shares import looks_random
from flyingsquid.estimation.source_estimates import SourceErrors, SourceEstimates, estimate_by_gold
from flyingsquid.estimation.tied_em import rows_of
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.assessment import Assessment
from flyingsquid.fits.base import Array, Fit
from flyingsquid.fits.concerns import silent_sources_concern
from flyingsquid.fits.corrected import CorrectedFit
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.weighted import hot_posterior
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.explanations import MAJORITY_FOLLOWED, choose_by_gold
from flyingsquid.votes.codes import NOT_ASKED, OneHot, marked_cells

# With fewer items, labels of one class only are not suspicious, and complete items are not treated apart.
_FEW_ITEMS = 20
# More cells of votes than this are not kept for an assessment on demand.
_MOST_KEPT = 1 << 22
# If more than this share of the pairs is dependent, no gain is recommended, also if the tables fit after the
# dependence is discounted: with that exception, 1 of 2,500 random panels of LLMBar is recommended with a
# loss.
_FEW_DEPENDENT = 0.05
# A class is reported if it gets fewer labels than this part of their expected number; at most so many are
# named.
_RARELY, _MOST_NAMED = 0.2, 3


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
    balance = given_balance(data)
    rows = None if data.votes is None else rows_of(data.votes, data.weights, data.counted)
    if not with_tables:
        found = fit_weights(data.moments, rows, balance)
    else:
        is_adaptive = data.votes is not None and data.moments.missing[:, -1].any()
        found = fit_mixture(data.moments, rows, balance, _complete(data) if is_adaptive else None)
    reason, concerns = describe_mixture(found) if with_tables else ("", ())
    return weighted_fit(found, name, reason, concerns, found.dependence.groups)


def no_votes_error(moments: Moments) -> NotIdentifiableError:
    """Return the error that nobody votes."""
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
    if found.only_class is not None and moments.n_items >= _FEW_ITEMS:
        label = format_value(moments.classes[found.only_class])
        if np.count_nonzero(np.asarray(moments.vote_counts).sum(axis=0)) < 2:
            every = f"All votes are for class {label}, so items of other classes cannot be found."
        else:
            every = (
                f"Every item with votes is labeled {label}; the votes for other classes are always "
                "outweighed."
            )
        concerns = (every, *concerns)
    many_pairs = _FEW_DEPENDENT * moments.n_sources * (moments.n_sources - 1) / 2
    return WeightedFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=name,
        reason=reason,
        balance_note="estimated from the labels" if found.balance is None else "as given",
        **_described_sources(found.sources, MixtureAssessment.of(found)),
        concerns=(*silent_sources_concern(moments), *concerns),
        mixture=found.mixture,
        groups=np.arange(moments.n_sources) if groups is None else groups,
        is_tested=found.trust.is_tested and found.dependence.n_pairs <= many_pairs,
        second_factor=found.dependence.second_factor,
    )


def _complete(data: FitData) -> Complete | None:
    """Return the items whose votes were all asked for; None if they are few."""
    votes = data.votes
    if votes is None:
        return None
    is_complete = data.complete
    if is_complete is None:
        item, _, code = marked_cells(votes.codes)
        is_complete = np.ones(votes.n_items, np.bool_)
        is_complete[item[code == NOT_ASKED]] = False
    if is_complete.sum() < _FEW_ITEMS:
        return None
    weights = None if data.weights is None else data.weights[is_complete]
    whole = votes[is_complete]
    return Complete(Moments.of(whole, sample_weight=weights), rows_of(whole, weights))


def solve_corrected(data: FitData, name: str, plain: WeightedFit | None = None) -> WeightedFit:
    """Fit votes without gold labels, unless ``plain`` is that fit, then correct the log odds by these."""
    plain, votes, items = plain or solve_mixture(data, name), data.votes, data.labeled
    if items is None or len(items) < FEWEST_LABELS:
        n_gold = 0 if items is None else len(items)
        are = "1 gold label is" if n_gold == 1 else f"{n_gold} gold labels are"
        unused = f"{are} too few to be used; at least {FEWEST_LABELS} are needed."
        return replace(plain, concerns=(*plain.concerns, unused))
    truth, codes = items.labels[:, 0], items.votes.codes
    cast = OneHot.of(codes, data.n_classes)
    own = plain.posterior(codes)[:, 0]
    if plain.has_several_explanations:
        plain, own = choose_by_gold(plain, data, own)
    by_gold = fit_correction(own, cast, truth, items.weights)
    rows = None if votes is None else rows_of(votes, data.weights, data.counted)
    before = None if rows is None else hot_posterior(rows.cast, plain.mixture)
    if rows is not None and before is not None and not _is_representative(own, before, rows.counts):
        by_gold = replace(by_gold, effect=replace(by_gold.effect, is_representative=False))
    corrected = replace(
        CorrectedFit.of(plain, by_gold),
        reason=f"{plain.reason}; {by_gold.effect.sentence()}",
        concerns=(*plain.concerns, *_gold_classes_concern(truth, data)),
    )
    if rows is None or before is None:
        return corrected  # the sources are those of the label-free fit
    labels = by_gold.correction.apply(before, rows.cast)
    sources, errors = estimate_by_gold(data.moments, rows, labels, given_balance(data))
    assessment = _assessment(errors, gain_over_majority(labels, [before], rows))
    voted = rows.voted > 0
    rare = _rarely_labeled_concern(labels[voted], rows.counts[voted], truth, data)
    return replace(
        corrected,
        **_described_sources(sources, assessment),
        concerns=(*corrected.concerns, *rare),
    )


def _described_sources(found: SourceEstimates, assessment: Assessment) -> dict[str, Any]:
    """Return the fields of a fit that describe the sources."""
    return {
        "class_balance": found.balance[None, :],
        "accuracies": found.accuracies,
        "confusion": found.confusion,
        "assessment": assessment,
    }


def _assessment(errors: SourceErrors, gain: Gain | None) -> Assessment:
    balance = None if errors.balance is None else errors.balance[None, :]
    return Assessment(errors.accuracies, reach=errors.reach, balance=balance, gain=gain)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureAssessment(Assessment):
    """Uncertainty of the sources and gain over majority vote, computed on demand.

    Copies and pickles hold the results instead of the votes.

    Attributes
    ----------
    found : MixtureFit
    widening : float
        Factor of the standard errors.
    """

    found: MixtureFit
    widening: float = 1.0

    @classmethod
    def of(cls, found: MixtureFit) -> Assessment:
        """Return the assessment of a fit. If its votes are many, it is computed now, and they are dropped."""
        lazy = cls(found=found)
        cells = 0 if found.rows is None else len(found.rows.counts) * found.moments.n_sources
        return lazy._computed if cells > _MOST_KEPT else lazy

    @cached_property
    def _computed(self) -> Assessment:
        return _assessment(self.found.errors, self.found.gain).widened(self.widening)

    def standard_errors(self, n_sources: int) -> Array:
        return self._computed.standard_errors(n_sources)

    def accuracy_reach(self) -> Array | None:
        return self._computed.reach

    def balance_intervals(self, balance: Array) -> Array:
        return self._computed.balance_intervals(balance)

    def gain_over_majority(self) -> Gain | None:
        return self._computed.gain

    def widened(self, factor: float) -> Assessment:
        return replace(self, widening=factor * self.widening)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self._computed,)


def _is_representative(own: Array, every: Array, counts: Array) -> bool:
    """Test whether posteriors of items with gold labels, (g, K), look like those of all rows, (u, K)."""
    sample, values = (np.column_stack([labels, labels.max(axis=1)]) for labels in (own, every))
    share = counts / counts.sum()
    mean = share @ values
    return looks_random(sample, mean, share @ (values - mean) ** 2, int(counts.sum()))


def given_balance(data: FitData) -> Array | None:
    """Return the class balance if it was given, shape (K,)."""
    if data.class_balance is None:
        return None
    given = data.balance.tasks[0]
    return given if isinstance(given, np.ndarray) else None


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
    parts.insert(0, f"several explanations fit; {mixture.majority:.0%} plain majority vote")
    return "; ".join(parts), (MAJORITY_FOLLOWED,)


def _gold_classes_concern(truth: NDArray[np.intp], data: FitData) -> tuple[str, ...]:
    """Return a sentence if all gold labels have one class, in a tuple; empty if not."""
    if len(np.unique(truth)) > 1:
        return ()
    label = format_value(data.moments.classes[truth[0]])
    return (f"All {len(truth):,} gold labels have the class {label}; they should be a random sample.",)


def _rarely_labeled_concern(
    labels: Array, counts: Array, truth: NDArray[np.intp], data: FitData
) -> tuple[str, ...]:
    """Return a sentence if few labels are for a class with gold labels, given its share, in a tuple.

    ``labels`` of shape (u, K) are corrected posteriors of rows, and ``counts`` of shape (u,) their items.
    """
    if data.moments.n_items < _FEW_ITEMS or not counts.sum():
        return ()
    share = counts / counts.sum()
    expected = share @ labels
    found = np.bincount(labels.argmax(axis=1), share, minlength=data.n_classes)
    has_gold = np.bincount(truth, minlength=data.n_classes) >= FEWEST_LABELS
    rare = np.flatnonzero(has_gold & (found < _RARELY * expected))
    if not len(rare):
        return ()
    each = [
        f"{format_value(data.moments.classes[k])} (expected {expected[k]:.1%}, labeled {found[k]:.1%})"
        for k in rare[:_MOST_NAMED]
    ]
    more = f" and {len(rare) - _MOST_NAMED:,} more" if len(rare) > _MOST_NAMED else ""
    return (
        f"With the gold labels, votes rarely make these classes the most probable: {', '.join(each)}{more}. "
        "To find their items, rank items by `predict_proba`, or add sources for these classes.",
    )
