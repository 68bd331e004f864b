"""What a fit of weighted votes noticed, and why one item got its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.analysis.diagnostics import Diagnostics, named, named_groups, without_triplets
from flyingsquid.analysis.explain import Explanation, contribution, next_best_and_best, put_together
from flyingsquid.analysis.fit_test import FitTest, independence_of
from flyingsquid.analysis.many import gain_on_drawn_items
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.analysis.skill import balanced_accuracies
from flyingsquid.analysis.verdict import put_into_words
from flyingsquid.estimation import OpinionFit
from flyingsquid.estimation.flags import flag_sources
from flyingsquid.estimation.separation import Separation
from flyingsquid.estimation.signed import SignedMoments
from flyingsquid.infer import Opinion, opinion_posterior
from flyingsquid.infer.weighted import hot_posterior
from flyingsquid.moments import Moments
from flyingsquid.votes.states import Label

Array = NDArray[np.float64]
# Steps along which votes grow, and how far a vote is moved to see what it adds.
_STEPS, _NUDGE = 32, 1e-4
# Items of many votes take fewer steps.
_FEWEST_STEPS, _MOST_ROWS = 4, 4_096
_MOST_TESTED = 300


def diagnose_opinion(moments: Moments, fit: OpinionFit) -> Diagnostics:
    """Name the sources that a fit of weighted votes flagged, and judge it."""
    names = moments.source_names
    nobody = np.zeros(moments.n_sources, np.bool_)
    gain, test = fit.gain, _test(moments)
    if np.isnan(gain):
        gain = gain_on_drawn_items(
            fit.tables, fit.opinion.balance, lambda codes: opinion_posterior(codes, fit.opinion)[:, 0]
        )
    # A source that leans to the true class less than votes at random do, on clearly more than a few votes.
    # How often it is right depends on the class balance too, which sources of mostly one class miss.
    skill, error = balanced_accuracies(
        fit.tables, fit.opinion.balance, float(moments.n_items), moments.coverage
    )
    chance, reach = 1 / moments.n_classes, NORMAL_95 * np.nan_to_num(error, nan=np.inf)
    judged = ~fit.silent & ~fit.one_sided
    return without_triplets(
        moments,
        method=fit.method,
        reason=fit.reason,
        class_balance=fit.balance_note,
        silent=fit.silent,
        one_sided=fit.one_sided,
        identical=named_groups(names, fit.groups),
        useless=named(names, judged & (np.abs(skill - chance) <= reach)),
        adversarial=named(names, judged & (skill < chance - reach)),
        fit_test=test,
        verdict=put_into_words(gain, nobody, test, fit.accuracies, moments.coverage),
    )


def _test(moments: Moments) -> FitTest | None:
    """Are the sources independent given the truth? For two classes, and not very many sources."""
    if moments.n_classes > 2 or moments.n_sources > _MOST_TESTED:
        return None
    flags = flag_sources(SignedMoments.of(moments))
    return independence_of(moments, flags, Separation.independent(moments.n_sources))


def explain_opinion(
    codes_row: NDArray[Any], classes: tuple[Label, ...], names: Sequence[str], fit: OpinionFit
) -> Explanation:
    """Explain one item: the part of each vote in the log odds of the best class against the next best.

    Votes share what they say, so a vote has no worth by itself. Its part is what it adds while all votes grow
    together from nothing to what they are (Aumann and Shapley 1974); parts add up. ``codes_row`` are dense
    codes of shape (m,).
    """
    posterior = opinion_posterior(codes_row[None, :], fit.opinion)[0, 0]
    second, best = next_best_and_best(posterior)
    adds = np.zeros(len(codes_row))
    voting = np.flatnonzero(codes_row >= 0)
    balance = fit.opinion.without_votes
    prior = float(np.log(balance[best]) - np.log(balance[second])) + 0.0
    if len(voting):
        total = float(np.log(posterior[best]) - np.log(posterior[second])) - prior
        parts = _parts(codes_row[voting], _of_sources(fit.opinion, voting), best, second)
        # What the steps are short of is spread, so that the sum is exact.
        adds[voting] = parts + (total - parts.sum()) / len(voting)
    said = [contribution(*each) for each in zip(names, codes_row, [classes] * len(adds), adds, strict=True)]
    against = classes[second] if len(classes) > 2 else None
    return put_together(classes, best, posterior, balance, prior, said, codes_row, against)


def _parts(codes: NDArray[Any], opinion: Opinion, best: int, second: int) -> Array:
    """The part of each of s votes in the log odds, shape (s,), by steps along their growth."""
    n_classes, s = opinion.weights.shape[1], len(codes)
    steps = max(_FEWEST_STEPS, min(_STEPS, _MOST_ROWS // s))
    grown = np.repeat((np.arange(steps) + 0.5) / steps, s)  # each step, once for each vote
    columns = codes.astype(np.int64) * s + np.arange(s)
    odds = []
    for side in (-_NUDGE, _NUDGE):
        strength = np.repeat(grown[:, None], s, axis=1)
        strength[np.arange(len(grown)), np.tile(np.arange(s), steps)] += side
        cast = np.zeros((len(grown), n_classes * s))
        cast[:, columns] = strength
        labels = hot_posterior(csr_array(cast), opinion)
        odds.append(np.log(labels[:, best]) - np.log(labels[:, second]))
    slopes = (odds[1] - odds[0]) / (2 * _NUDGE)
    return np.asarray(slopes.reshape(steps, s).mean(axis=0))


def _of_sources(opinion: Opinion, sources: NDArray[np.intp]) -> Opinion:
    """The opinion of some sources; an item's label depends on those that vote on it alone."""
    logs = None if opinion.logs is None else opinion.logs[sources]
    return replace(opinion, weights=opinion.weights[sources], one_sided=opinion.one_sided[sources], logs=logs)
