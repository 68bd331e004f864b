"""Corrections of the label-free fit by gold labels: the log odds, and the choice among several factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from flyingsquid._values import format_value
from flyingsquid.estimation.factors import Factors, direction_by_gold, fit_factors
from flyingsquid.estimation.gold_regression import FEWEST_LABELS, GoldEffect, fit_correction
from flyingsquid.estimation.mixture import gain_over_majority
from flyingsquid.estimation.shares import NORMAL_95, looks_random
from flyingsquid.estimation.source_estimates import SourceErrors, SourceEstimates, estimate_by_gold
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.fits.base import Array
from flyingsquid.fits.corrected import CorrectedFit
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.posterior import log_probabilities
from flyingsquid.inference.weighted import Mixture, TableTerm, one_hot_posterior
from flyingsquid.solvers.base import FitData
from flyingsquid.solvers.weighted import (
    CONSISTENT_FOLLOWED,
    FEW_ITEMS,
    MAJORITY_FOLLOWED,
    assessment_of,
    solve_mixture,
)
from flyingsquid.votes.codes import OneHot

# A class is reported if it gets fewer labels than this part of their expected number; at most this many are
# named.
_RARELY, _MOST_NAMED = 0.2, 3
# Gold labels contradict the votes if labels of the votes alone agree with them less than the probabilities
# imply, by this much and by this many standard errors, and less than this many standard errors above chance:
# - if few are compared, far below chance; fewer than the first number are not compared at all;
# - if classes may be exchanged, below chance: votes separate the classes, but not as these labels;
# - if items may be in another order, so that votes are unrelated to them, near chance. This takes at
#   least this many sources, because three that share their errors agree like three accurate ones.
_FEWEST_COMPARED, _MANY_COMPARED, _MANY_SOURCES = 20, 50, 4
_FAR_BELOW, _BELOW, _NEAR, _SHORTFALL = -3.0, -1.0, 1.0, (0.15, 3.0)


def solve_corrected(data: FitData, name: str, plain: WeightedFit | None = None) -> WeightedFit:
    """Fit votes without gold labels, unless ``plain`` is that fit, then correct the log odds by these."""
    plain, votes, items = plain or solve_mixture(data, name), data.votes, data.labeled
    if items is None or len(items) < FEWEST_LABELS:
        n_gold = 0 if items is None else len(items)
        are = "1 gold label is" if n_gold == 1 else f"{n_gold} gold labels are"
        unused = f"{are} too few to be used; at least {FEWEST_LABELS} are needed."
        return replace(plain, concerns=(*plain.concerns, unused))
    truth, codes = items.labels[:, 0], items.votes.codes
    one_hot = OneHot.of(codes, data.n_classes)
    own = plain.posterior(codes)[:, 0]
    if plain.has_several_explanations:
        plain, own = choose_by_gold(plain, data, own)
    by_gold = fit_correction(own, one_hot, truth, items.weights)
    rows = None if votes is None else rows_of(votes, data.weights, data.counted)
    before = None if rows is None else one_hot_posterior(rows.one_hot, plain.mixture)
    if rows is not None and before is not None and not _is_representative(own, before, rows.counts):
        by_gold = replace(by_gold, effect=replace(by_gold.effect, is_representative=False))
    doubts = _gold_classes_concern(truth, data)
    # Votes on items that were chosen because they are difficult may be wrong.
    if by_gold.effect.is_representative:
        doubts += _contradiction_concern(own, truth, by_gold.effect, data.moments.n_sources)
    corrected = replace(
        CorrectedFit.of(plain, by_gold),
        reason=f"{plain.reason}; {by_gold.effect.sentence()}",
        concerns=(*plain.concerns, *doubts),
    )
    if rows is None or before is None:
        return corrected  # the sources are those of the label-free fit
    labels = by_gold.correction.apply(before, rows.one_hot)
    sources, errors = estimate_by_gold(data.moments, rows, labels, data.given_balance)
    errors = _no_wider(errors, sources, plain)
    assessment = assessment_of(errors, gain_over_majority(labels, [before], rows, is_tested=plain.is_tested))
    voted = rows.voted > 0
    rare = _rarely_labeled_concern(labels[voted], rows.counts[voted], truth, data)
    return replace(
        corrected,
        class_balance=sources.balance[None, :],
        accuracies=sources.accuracies,
        confusion=sources.confusion,
        assessment=assessment,
        concerns=(*corrected.concerns, *rare),
    )


def _no_wider(errors: SourceErrors, sources: SourceEstimates, plain: WeightedFit) -> SourceErrors:
    """Limit intervals to the width without gold labels, plus how far these moved the estimates.

    So the limits contain the interval without gold labels.
    """
    if errors.balance is not None:
        limits = plain.assessment.balance_intervals(plain.class_balance)[0]
        moved = sources.balance - plain.class_balance[0]
        limits = limits + np.stack([moved - np.abs(moved), moved + np.abs(moved)], axis=1)
        low, high = np.fmax(errors.balance[:, 0], limits[:, 0]), np.fmin(errors.balance[:, 1], limits[:, 1])
        errors = replace(errors, balance=np.stack([low, high], axis=1))
    reach, sampling = plain.assessment.accuracy_reach(), NORMAL_95 * errors.accuracies[:, None]
    if reach is None or errors.reach is None:
        return errors
    before = np.hypot(NORMAL_95 * plain.assessment.standard_errors(len(sampling))[:, None], reach)
    moved = np.abs(sources.accuracies - plain.accuracies)[:, None]
    total = np.fmin(np.hypot(sampling, errors.reach), before + moved)
    limited = np.sqrt(np.maximum(total**2 - sampling**2, 0.0))
    return replace(errors, reach=np.where(np.isnan(limited), errors.reach, limited))


def _is_representative(own: Array, every: Array, counts: Array) -> bool:
    """Test whether posteriors of items with gold labels, (g, K), look like those of all rows, (u, K)."""
    sample, values = (np.column_stack([labels, labels.max(axis=1)]) for labels in (own, every))
    share = counts / counts.sum()
    mean = share @ values
    return looks_random(sample, mean, share @ (values - mean) ** 2, int(counts.sum()))


def _gold_classes_concern(truth: NDArray[np.intp], data: FitData) -> tuple[str, ...]:
    """Return a sentence if all gold labels have one class, in a tuple; empty if not."""
    if len(np.unique(truth)) > 1:
        return ()
    label = format_value(data.moments.classes[truth[0]])
    return (f"All {len(truth):,} gold labels have the class {label}; they should be a random sample.",)


def _contradiction_concern(
    own: Array, truth: NDArray[np.intp], effect: GoldEffect, n_sources: int
) -> tuple[str, ...]:
    """Return a sentence if labels of the votes alone, (g, K), agree with the gold labels (g,) only by chance.

    Gold labels in another order, of other items or with exchanged classes look like this.
    """
    certainty = own.max(axis=1)
    compared = certainty > own.min(axis=1)
    n, labels, gold = int(compared.sum()), own.argmax(axis=1)[compared], truth[compared]
    if n < _FEWEST_COMPARED or len(np.unique(gold)) == 1:
        return ()
    agreement, expected = float(np.mean(labels == gold)), float(certainty[compared].mean())
    shares = (np.bincount(each, minlength=own.shape[1]) / n for each in (labels, gold))
    chance = float(np.dot(*shares))
    margin, errors = _SHORTFALL
    limit = _FAR_BELOW
    if n >= _MANY_COMPARED:
        by_class = np.bincount(truth) / len(truth)
        is_related = effect.log_loss.value < float(entr(by_class).sum())
        limit = _BELOW if is_related else _NEAR if n_sources >= _MANY_SOURCES else _FAR_BELOW
    if (
        agreement - chance > limit * np.sqrt(chance * (1 - chance) / n)
        or expected - agreement < margin
        or expected - agreement < errors * np.sqrt(expected * (1 - expected) / n)
    ):
        return ()
    return (
        f"Without gold labels, {agreement:.0%} of the labels agree with them, no more than by chance. Check "
        "that `gold` has the items and classes in the order of the votes. If it has, most votes are wrong.",
    )


def _rarely_labeled_concern(
    labels: Array, counts: Array, truth: NDArray[np.intp], data: FitData
) -> tuple[str, ...]:
    """Return a sentence if few labels are for a class with gold labels, given its share, in a tuple.

    ``labels`` of shape (u, K) are corrected posteriors of rows, and ``counts`` of shape (u,) their items.
    """
    if data.moments.n_items < FEW_ITEMS or not counts.sum():
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


# ---------------------------------------------------------------------- several factors


def follow_direction(mixture: Mixture, factors: Factors, toward: Array, intercept: float = 0.0) -> Mixture:
    """Return a mixture whose log odds follow a direction ``toward`` of the factors, shape (r,)."""
    per_vote = factors.coefficients @ toward
    adds = per_vote[:, None] * (np.array([-1.0, 1.0]) - factors.means[:, None])  # sources, votes
    logs = np.stack([-adds / 2, adds / 2], axis=1)
    second = float(expit(intercept))
    return replace(
        mixture,
        one_sided=np.zeros(len(adds), np.bool_),
        tables=TableTerm(logs, np.ones_like(mixture.weights), np.array([1 - second, second])),
        trust=1.0,
        anchored=None,
        anchored_share=0.0,
        majority=0.0,
    )


def choose_by_gold(plain: WeightedFit, data: FitData, own: Array) -> tuple[WeightedFit, Array]:
    """Choose among factors that explain the votes by the likelihood of gold labels.

    Parameters
    ----------
    plain : WeightedFit
        The label-free fit.
    data : FitData
        Data with gold labels.
    own : array of shape (g, K)
        Label-free posteriors of the items with gold labels.

    Returns
    -------
    WeightedFit, array of shape (g, K)
        The fit along the direction that gold labels favor, and the posterior of each item by a direction that
        was estimated without it. Both are unchanged if one factor suffices or gold labels favor them.
    """
    items, factors = data.labeled, fit_factors(data.moments)
    if items is None or factors is None or factors.rank < 2:
        return plain, own
    codes = items.votes.codes if data.votes is None else data.votes.codes
    gold, labels = items.labels[:, 0], plain.posterior(codes)[:, 0, 1]
    found = direction_by_gold(
        factors.scores(codes), labels, factors.scores(items.votes.codes), gold, items.weights
    )
    left_out = np.stack([expit(-found.left_out), expit(found.left_out)], axis=1)
    at = np.arange(len(gold))
    gains = log_probabilities(left_out)[at, gold] - log_probabilities(own)[at, gold]
    if float(items.weights @ gains) <= 0:
        return plain, own
    chosen = follow_direction(plain.mixture, factors, found.coefficients, found.intercept)
    reason = f"gold labels choose among {factors.rank} factors of the votes; {plain.reason}"
    concerns = tuple(each for each in plain.concerns if each not in (MAJORITY_FOLLOWED, CONSISTENT_FOLLOWED))
    return replace(plain, mixture=chosen, reason=reason, concerns=concerns), left_out
