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

from flyingsquid.estimation.shares import NORMAL_95, wilson
from flyingsquid.inference.correction import Correction, log_probabilities, log_shares, mean_votes
from flyingsquid.votes.codes import OneHot
from flyingsquid.votes.decisions import expected_credit

Array = NDArray[np.float64]
FEWEST_LABELS = 5
"""Fewer gold labels than this are not used."""
# Prior standard deviations of the coefficients of the posterior, the vote share and the intercepts, and of
# those of votes and the confusion: one candidate for each pair. With six values for votes, learning curves on
# design datasets change by less than 0.1 points and 0.001 nats; a third value of 3 for the first raises the
# log loss by 0.01 at 20 labels (docs/design/0009-default.md).
_CALIBRATION, _VOTES = (0.3, 1.0), (0.0, 0.1, 0.4, 1.6)
# Floating-point operations of one pass, and cells of the features: they bound the number of coefficients.
_MOST_OPERATIONS, _MOST_CELLS = 1 << 29, 1 << 24
_MOST_PASSES, _TOLERANCE, _LEAST_STEP = 50, 1e-7, 1e-6
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
    labels: Array, cast: OneHot, gold: NDArray[np.intp], weights: Array | None = None
) -> GoldCorrection:
    """Estimate the correction of label-free posteriors by gold labels.

    Parameters
    ----------
    labels : array of shape (n, K)
        Label-free posteriors of the items with gold labels.
    cast : OneHot
        Their votes.
    gold : integer array of shape (n,)
        Their classes.
    weights : array of shape (n,), optional
        How often each item counts.

    Notes
    -----
    Newton's method on the penalized likelihood. The log evidence is its value at the optimum minus half of
    the log determinant of its curvature there, in units of the prior (MacKay 1992).

    Scores of the gold labels leave out one of them at a time. Without item i, its logits are, by one Newton
    step, z + J (I - S J)^-1 (p - y), where J is the covariance of the logits z by the curvature at the
    optimum, and S = diag(p) - p p' (Rad and Maleki 2020). If there are more coefficients than logits, the
    features are replaced by coordinates in the space that they span, which does not change the penalty.
    """
    share = np.ones(len(gold)) if weights is None else np.asarray(weights, np.float64)
    features = _Features.of(labels, cast)
    start = features.start()
    unchanged = features.values @ start
    grid = product(_CALIBRATION, _VOTES if features.has_votes else _VOTES[:1])
    found = [
        _Candidate(start, unchanged, -float(share @ _log_loss(unchanged, gold))),
        *(_fit(features.values, gold, share, features.scales(*scales), start) for scales in grid),
    ]
    evidence = np.array([each.evidence for each in found])
    mean = _softmax(evidence) @ np.array([each.coefficients for each in found])
    # Without one label, the log evidence is smaller by the log probability of that label given the others.
    left_out = np.array([each.left_out for each in found])
    losses = share * np.array([_log_loss(z, gold) for z in left_out])
    crossed = np.einsum("nc,cnk->nk", _softmax((evidence[:, None] + losses).T), left_out)
    counts = cast.class_sums(np.ones((cast.n_sources, labels.shape[1])))
    effect = _effect(crossed, unchanged, counts, gold, share)
    return GoldCorrection(features.correction(mean), effect)


# ---------------------------------------------------------------------- features


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Features of g items and K classes, shape (g, K, d), and the meaning of their coefficients.

    Columns: posterior, vote share, K intercepts (if ``has_intercepts``), votes of ``sources`` class by class,
    K^2 cells of the confusion table (if ``has_confusion``).
    """

    values: Array
    n_sources: int
    sources: NDArray[np.intp]
    has_intercepts: bool
    has_confusion: bool

    @classmethod
    def of(cls, labels: Array, cast: OneHot) -> _Features:
        n, n_classes = labels.shape
        counts = cast.class_sums(np.ones((cast.n_sources, n_classes)))
        logits = n * n_classes
        most = _MOST_CELLS // logits
        if logits**3 > _MOST_OPERATIONS:
            most = min(most, int(np.sqrt(_MOST_OPERATIONS / logits)))
        left = max(most - 2, 0)
        blocks = [log_probabilities(labels)[:, :, None], log_shares(counts)[:, :, None]]
        has_intercepts = n_classes <= left
        identity = np.eye(n_classes if has_intercepts else 0)[None]
        if has_intercepts:
            blocks.append(np.broadcast_to(identity, (n, n_classes, n_classes)))
            left -= n_classes
        # For two classes, the votes of single sources determine the confusion.
        has_confusion = n_classes > 2 and 2 * n_classes**2 <= left
        left -= n_classes**2 if has_confusion else 0
        sources = _most_active(cast, left // n_classes)
        if len(sources):
            votes = np.stack([cast.dense_votes(k)[:, sources] for k in range(n_classes)], axis=1)
            own = identity[:, :, :, None] * votes[:, :, None, :]
            blocks.append(own.reshape(n, n_classes, -1))
        if has_confusion:
            by_vote = (
                identity[:, :, None, :] * mean_votes(counts)[:, None, :, None]
            )  # axes item, truth, vote, truth
            blocks.append(by_vote.reshape(n, n_classes, -1))
        values = np.concatenate(blocks, axis=2)
        return cls(values, cast.n_sources, sources, has_intercepts, has_confusion)

    @property
    def has_votes(self) -> bool:
        return len(self.sources) > 0 or self.has_confusion

    @property
    def _n_calibration(self) -> int:
        return 2 + (self.values.shape[1] if self.has_intercepts else 0)

    def start(self) -> Array:
        """Return the coefficients that change nothing."""
        start = np.zeros(self.values.shape[2])
        start[0] = 1.0
        return start

    def scales(self, calibration: float, votes: float) -> Array:
        """Return the prior standard deviations of the coefficients."""
        scales = np.full(self.values.shape[2], votes)
        scales[: self._n_calibration] = calibration
        return scales

    def correction(self, coefficients: Array) -> Correction:
        """Return coefficients as a correction of all sources."""
        n_classes, at = self.values.shape[1], self._n_calibration
        weights = np.zeros((self.n_sources, n_classes))
        size = n_classes * len(self.sources)
        weights[self.sources] = coefficients[at : at + size].reshape(n_classes, -1).T
        confusion = coefficients[at + size :].reshape(n_classes, n_classes) if self.has_confusion else None
        return Correction(
            of_posterior=float(coefficients[0]),
            of_share=float(coefficients[1]),
            intercepts=coefficients[2:at] if self.has_intercepts else np.zeros(n_classes),
            weights=weights,
            confusion=confusion,
        )


def _most_active(cast: OneHot, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` sources with most votes; equally active ones are all kept or all left out."""
    votes = cast.vote_sums(np.ones(cast.n_items)).sum(axis=0)
    ordered = np.sort(votes)[::-1]
    least = ordered[most] if most < len(ordered) else 0.0
    return np.flatnonzero(votes > least)


# ---------------------------------------------------------------------- regression


class _Candidate(NamedTuple):
    """A fit: coefficients (d,), logits (n, K) of every item by a fit without it, and the log evidence."""

    coefficients: Array
    left_out: Array
    evidence: float


def _fit(features: Array, gold: NDArray[np.intp], share: Array, scales: Array, start: Array) -> _Candidate:
    """Fit the coefficients whose prior standard deviations ``scales`` are not 0."""
    n, n_classes, _ = features.shape
    used = scales > 0
    offset = features @ start
    scaled = (features[:, :, used] * scales[used]).reshape(n * n_classes, -1)
    back = None
    if scaled.shape[1] > len(scaled):
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        kept = values > 1e-10 * values[-1]
        values, vectors = np.sqrt(values[kept]), vectors[:, kept]
        back = scaled.T @ (vectors / values)
        scaled = vectors * values
    moved = _newton(scaled.reshape(n, n_classes, -1), offset, gold, share)
    coefficients = start.copy()
    coefficients[used] += scales[used] * (moved.coefficients if back is None else back @ moved.coefficients)
    return moved._replace(coefficients=coefficients)


def _newton(features: Array, offset: Array, gold: NDArray[np.intp], share: Array) -> _Candidate:
    """Minimize the log loss plus half of the squared coefficients."""
    _, n_classes, d = features.shape
    truth = np.zeros_like(offset)
    truth[np.arange(len(gold)), gold] = 1.0
    theta, logits = np.zeros(d), offset
    value = float(share @ _log_loss(logits, gold))
    for _ in range(_MOST_PASSES):
        p = _softmax(logits)
        slope = np.einsum("nk,nkd->d", share[:, None] * (p - truth), features) + theta
        step = np.linalg.solve(_curvature(features, p, share), slope)
        expected, size = float(slope @ step), 1.0
        if expected < _TOLERANCE:
            break
        while size > _LEAST_STEP:
            tried = theta - size * step
            moved = offset + features @ tried
            new = float(share @ _log_loss(moved, gold) + tried @ tried / 2)
            if new <= value - size * expected / 4:
                break
            size /= 2
        theta, logits, value = tried, moved, new
    p = _softmax(logits)
    residuals = share[:, None] * (p - truth)
    curvature = _curvature(features, p, share)
    evidence = -value - float(np.linalg.slogdet(curvature)[1]) / 2
    inverse = np.linalg.inv(curvature)
    if d < n_classes:  # the same computation in the smaller space
        means = np.einsum("nk,nkd->nd", p, features)
        own = np.swapaxes(features, 1, 2) @ (p[:, :, None] * features) - means[:, :, None] * means[:, None, :]
        own *= share[:, None, None]
        pulled = np.einsum("nk,nkd->nd", residuals, features) @ inverse
        back = np.linalg.solve(np.eye(d) - inverse @ own, pulled[:, :, None])
        return _Candidate(theta, logits + (features @ back)[:, :, 0], evidence)
    spread = share[:, None, None] * (p[:, :, None] * np.eye(n_classes) - p[:, :, None] * p[:, None, :])
    covariance = (features @ inverse) @ np.swapaxes(features, 1, 2)
    pulled = np.linalg.solve(np.eye(n_classes) - spread @ covariance, residuals[:, :, None])
    return _Candidate(theta, logits + (covariance @ pulled)[:, :, 0], evidence)


def _curvature(features: Array, p: Array, share: Array) -> Array:
    """Return the second derivative of the penalized log loss, shape (d, d)."""
    d = features.shape[2]
    weighted = (features * np.sqrt(share[:, None] * p)[:, :, None]).reshape(-1, d)
    means = np.einsum("nk,nkd->nd", p, features) * np.sqrt(share)[:, None]
    return np.asarray(weighted.T @ weighted - means.T @ means + np.eye(d))


def _softmax(scores: Array) -> Array:
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def _log_loss(logits: Array, gold: NDArray[np.intp]) -> Array:
    """Return the log loss of each item, shape (n,)."""
    top = logits.max(axis=1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return np.asarray(total - logits[np.arange(len(gold)), gold])


# ---------------------------------------------------------------------- effect


def _effect(crossed: Array, before: Array, votes: Array, gold: NDArray[np.intp], share: Array) -> GoldEffect:
    losses = [_log_loss(z, gold) for z in (crossed, before)]
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
