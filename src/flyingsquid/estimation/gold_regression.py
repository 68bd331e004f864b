"""Correct label-free posteriors by gold labels: Bayesian multinomial logistic regression.

The label-free posterior is the prior: a Gaussian law pulls its coefficient to 1 and everything else to 0.
Candidates differ in how much votes of single sources may change the log odds; one of them changes nothing.
Their coefficients are averaged, weighted by the probability of the gold labels under each candidate before
any label is seen (the evidence, by Laplace's approximation). So a few labels change little, and no candidate
has to be selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.multinomial import (
    Regression,
    fit_multinomial,
    least_operations,
    log_loss,
    softmax,
)
from flyingsquid.estimation.shares import NORMAL_95, wilson
from flyingsquid.inference.posterior import Correction, log_probabilities, log_shares
from flyingsquid.votes.codes import OneHot
from flyingsquid.votes.decisions import expected_credit

Array = NDArray[np.float64]
FEWEST_LABELS = 5
"""Fewer gold labels than this are not used."""
# Prior standard deviations of the coefficients of the posterior, the vote share and the intercepts, and of
# what a vote adds to the log odds of two classes: one candidate for each pair. With six values for votes,
# learning curves on design datasets change by less than 0.1 points and 0.001 nats; a third value of 3 for the
# first raises the log loss by 0.01 at 20 labels (docs/design/0009-default.md).
_CALIBRATION, _VOTES = (0.3, 1.0), (0.0, 0.1, 0.4, 1.6)
# Floating-point operations of one covariance, and cells of an array: they bound the number of coefficients.
# There are six covariances, so a fit takes a few seconds at most.
_MOST_OPERATIONS, _MOST_CELLS = 1 << 30, 1 << 24
# Candidates whose log evidence is smaller than the largest by this much are left out, because their weight is
# a rounding error.
_NEGLIGIBLE_EVIDENCE = 40.0
# A difference in log loss smaller than this does not matter.
_NEGLIGIBLE_LOSS = 0.02


class Estimate(NamedTuple):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GoldEffect:
    """Effect of gold labels, measured by leaving out one of them at a time.

    Attributes
    ----------
    n_gold : int
    accuracy, accuracy_without : Estimate
        With the gold labels, and of the label-free fit, on the same items.
    log_loss, log_loss_without : Estimate
    log_loss_change : Estimate
        Log loss with gold labels minus that without.
    is_representative : bool
        False if votes on the items with gold labels differ from those on all items more than chance explains,
        for example because the items were suggested. The scores are then not those of all items.
    majority_accuracy : Estimate
        Accuracy of majority vote on the same items.
    gain : Estimate
        Accuracy with the gold labels minus that of majority vote.
    """

    n_gold: int
    accuracy: Estimate
    accuracy_without: Estimate
    log_loss: Estimate
    log_loss_without: Estimate
    log_loss_change: Estimate
    majority_accuracy: Estimate
    gain: Estimate
    is_representative: bool = True

    @property
    def is_enough(self) -> bool:
        """True if there are enough labels to measure their effect."""
        change = self.log_loss_change
        return change.high < 0 or change.high - change.low < 2 * _NEGLIGIBLE_LOSS

    def __repr__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """Return the effect in one sentence."""
        now, before = self.accuracy, self.accuracy_without
        more = "" if self.is_enough else "; more gold labels are needed to tell whether they help"
        if not self.is_representative:
            more += "; these items differ from the others, so the scores on all items may be different"
        return (
            f"{self.n_gold:,} gold labels: cross-validated accuracy {now.value:.1%} "
            f"[{now.low:.1%}, {now.high:.1%}] with them and {before.value:.1%} "
            f"[{before.low:.1%}, {before.high:.1%}] without, log loss {self.log_loss.value:.3f} "
            f"[{self.log_loss.low:.3f}, {self.log_loss.high:.3f}] and {self.log_loss_without.value:.3f} "
            f"[{self.log_loss_without.low:.3f}, {self.log_loss_without.high:.3f}]{more}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class GoldCorrection:
    """A correction by gold labels and its effect."""

    correction: Correction
    effect: GoldEffect


def fit_correction(
    labels: Array, one_hot: OneHot, gold: NDArray[np.intp], weights: Array | None = None
) -> GoldCorrection:
    """Estimate the correction of label-free posteriors by gold labels.

    Parameters
    ----------
    labels : array of shape (n, K)
        Label-free posteriors of the items with gold labels.
    one_hot : OneHot
        Their votes.
    gold : integer array of shape (n,)
        Their classes.
    weights : array of shape (n,), optional
        How often each item counts.

    Notes
    -----
    A vote of source i for class v adds C[v] + D[i, v] to the logits. C is the same for all sources, so a few
    labels suffice to learn which classes are confused, and D is what differs between sources. For two
    classes, C is 0.
    """
    share = np.ones(len(gold)) if weights is None else np.asarray(weights, np.float64)
    features = _Features.of(labels, one_hot)
    unchanged = features.shared[:, :, 0]
    none = np.zeros((features.own.shape[1], labels.shape[1]))
    grid = product(_CALIBRATION, _VOTES if features.has_votes else _VOTES[:1])
    found = [
        Regression(np.array([1.0, 0.0]), none, -float(share @ log_loss(unchanged, gold)), lambda: unchanged),
        *(features.fit(gold, share, *deviations) for deviations in grid),
    ]
    evidence = np.array([each.evidence for each in found])
    kept = evidence > evidence.max() - _NEGLIGIBLE_EVIDENCE
    found, evidence = [each for each, is_kept in zip(found, kept, strict=True) if is_kept], evidence[kept]
    weight = softmax(evidence)
    shared, own = (np.tensordot(weight, each, 1) for each in zip(*(each[:2] for each in found), strict=True))
    # Without one label, the log evidence is smaller by the log probability of that label given the others.
    left_out = np.array([each.left_out() for each in found])
    losses = share * np.array([log_loss(z, gold) for z in left_out])
    crossed = np.einsum("nc,cnk->nk", softmax((evidence[:, None] + losses).T), left_out)
    counts = one_hot.class_sums(np.ones((one_hot.n_sources, labels.shape[1])))
    effect = _effect(crossed, unchanged, counts, gold, share)
    return GoldCorrection(features.correction(shared, own), effect)


# ---------------------------------------------------------------------- features


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Features of g items and K classes, and the meaning of their coefficients.

    Attributes
    ----------
    shared : array of shape (g, K, 2)
        Logs of the posterior and of the vote share.
    own : array of shape (g, r)
        A constant, the number of votes for each class (if ``is_pooled``), and the votes in ``columns``. The
        constant is left out if there are too many classes.
    columns : boolean array of shape (K, m)
        Votes with coefficients of their own: ``columns[v, i]`` if source i votes for class v.
    """

    shared: Array
    own: Array
    columns: NDArray[np.bool_]
    is_pooled: bool

    @classmethod
    def of(cls, labels: Array, one_hot: OneHot) -> _Features:
        n, n_classes = labels.shape
        counts = one_hot.class_sums(np.ones((one_hot.n_sources, n_classes)))
        shared = np.stack([log_probabilities(labels), log_shares(counts)], axis=2)
        sums = one_hot.vote_sums(np.ones(n))
        most = _most_columns(n, n_classes, int(np.count_nonzero(sums)))
        if one_hot.n_sources * n_classes**2 > _MOST_CELLS:
            most = min(most, 1)
        constant = np.ones((n, min(most, 1)))
        # For two classes, the vote share is a function of both counts.
        is_pooled = n_classes > 2 and most > 2 * n_classes
        columns = _most_active(sums, most - 1 - (n_classes if is_pooled else 0))
        votes = [one_hot.dense_votes(k)[:, each] for k, each in enumerate(columns) if each.any()]
        own = np.concatenate([constant, *([counts] if is_pooled else []), *votes], axis=1)
        return cls(shared, own, columns, is_pooled)

    @property
    def has_votes(self) -> bool:
        return self.own.shape[1] > 1

    def fit(self, gold: NDArray[np.intp], share: Array, calibration: float, votes: float) -> Regression:
        """Fit the coefficients with these prior standard deviations."""
        scales = np.full(self.own.shape[1], votes / np.sqrt(2))
        scales[:1] = calibration
        used = np.flatnonzero(scales)
        found = fit_multinomial(
            self.shared[:, :, 0], calibration * self.shared, scales[used] * self.own[:, used], gold, share
        )
        own = np.zeros((len(scales), self.shared.shape[1]))
        own[used] = scales[used, None] * found.own
        return found._replace(shared=[1.0, 0.0] + calibration * found.shared, own=own)

    def correction(self, shared: Array, own: Array) -> Correction:
        """Return coefficients as a correction of all sources."""
        n_classes, m = self.columns.shape
        tables = None
        if self.has_votes:
            at = 1 + (n_classes if self.is_pooled else 0)
            tables = np.zeros((n_classes, m, n_classes))
            tables += own[1:at, None] if self.is_pooled else 0.0
            tables[self.columns] += own[at:]
            tables = np.ascontiguousarray(tables.transpose(1, 0, 2))
        return Correction(
            of_posterior=float(shared[0]),
            of_share=float(shared[1]),
            intercepts=own[0] if len(own) else np.zeros(n_classes),
            tables=tables,
        )


def _most_columns(n: int, n_classes: int, wanted: int) -> int:
    """Return the largest number of features of every class, at most ``wanted`` votes and what is added."""
    low, high = 0, 1 + n_classes + wanted
    while low < high:
        middle = (low + high + 1) // 2
        fits = n * (middle + n_classes**2) <= _MOST_CELLS
        if fits and least_operations(n, n_classes, middle) <= _MOST_OPERATIONS:
            low = middle
        else:
            high = middle - 1
    return low


def _most_active(sums: Array, most: int) -> NDArray[np.bool_]:
    """Return the at most ``most`` columns with the largest sums; equal ones are all kept or all left out."""
    ordered = np.sort(sums, axis=None)[::-1]
    least = ordered[max(most, 0)] if most < len(ordered) else 0.0
    return np.asarray(sums > least)


# ---------------------------------------------------------------------- effect


def _effect(crossed: Array, before: Array, votes: Array, gold: NDArray[np.intp], share: Array) -> GoldEffect:
    losses = [log_loss(z, gold) for z in (crossed, before)]
    right = [expected_credit(z, gold) for z in (crossed, before, votes)]
    return GoldEffect(
        len(gold),
        _proportion(right[0], share),
        _proportion(right[1], share),
        _mean(losses[0], share),
        _mean(losses[1], share),
        _mean(losses[0] - losses[1], share),
        _proportion(right[2], share),
        _mean(right[0] - right[2], share, at_least=1.0),
    )


def _mean(values: Array, share: Array, at_least: float = 0.0) -> Estimate:
    """Return a mean with its interval; ``at_least`` is added to the sum of squares, if they may all be 0."""
    mean = float(share @ values / share.sum())
    variance = (float(share**2 @ (values - mean) ** 2) + at_least) / share.sum() ** 2
    reach = NORMAL_95 * float(np.sqrt(variance * len(values) / max(len(values) - 1, 1)))
    return Estimate(mean, mean - reach, mean + reach)


def _proportion(right: Array, share: Array) -> Estimate:
    """Return a proportion with its Wilson interval."""
    mean = float(share @ right / share.sum())
    low, high = wilson(np.array(mean), np.array(share.sum() ** 2 / (share @ share)))
    return Estimate(mean, float(low), float(high))
