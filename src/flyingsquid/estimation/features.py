"""Evidence of features: ridge regression of the posterior on features, weighted by held-out sources.

The features of an item are treated as an additional source. The regression is trained on the posterior given
the votes, and predictions for an item come from items of other folds only. The weight of features is
estimated without gold labels: features and some of the sources predict the votes of the other sources, and
the weight with the most likely predictions is chosen. Finally, the class balance given the votes is restored,
because a regression on uncertain labels should distinguish items, not change the class balance. Features may
change it only for items without votes, unless sources contradict each other. See
docs/design/0017-features.md for the reasons and the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from flyingsquid.inference.features import FeatureWeights, Learner, combine, standardized
from flyingsquid.votes.features import N_FOLDS, Features

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Items = NDArray[np.intp]
PosteriorOf = Callable[[Mask, Items], Array]
# Ridge penalties relative to the mean variance of the columns; one is chosen by cross-validation.
_PENALTIES = np.logspace(-3, 2, 11)
# Weights of the features relative to Bayes' rule for features that are independent of the votes given the
# class, which is 1. Larger weights would count the same evidence more than once.
_WEIGHTS = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0])
# Features are used if held-out votes support them by this many standard errors; with 2, noise was used once.
_LEAST_Z = 3.0
# The same for support by gold labels alone.
_LEAST_GOLD_Z = 2.0
# Maximum number of groups in which sources are held out.
_MOST_GROUPS = 8
# Maximum number of items on which the weight and the class balance are estimated; more change neither.
_MOST_ITEMS = 20_000
# All held-out votes together count as this many gold labels.
_VOTES_AS_GOLD = 20.0
# Scale of a constant column, whose standardized values are then 0.
_CONSTANT = 1e300
# Fewer items without votes do not show whether their features differ from those of other items.
_FEW_ITEMS = 20


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """Contribution of features, measured without gold labels.

    Attributes
    ----------
    n_items : int
        Items with features.
    n_columns : int
    weight : float in [0, 1]
        Weight of features relative to votes: 1 is Bayes' rule for features that are independent of the votes
        given the class, and 0 means that features are not used.
    votes_gain, features_gain, both_gain : float
        Log likelihood per held-out vote, in nats, predicted from other sources, from features, and from both,
        relative to a prediction by the class balance.
    z : float
        Gain of both over votes alone, in standard errors.
    n_changed : int
        Number of items with votes whose most probable class is changed by features.
    n_labeled : int
        Number of items without votes that are labeled by features.
    n_gold : int
        Number of gold labels used to choose the weight.
    """

    n_items: int
    n_columns: int
    weight: float
    votes_gain: float
    features_gain: float
    both_gain: float
    z: float
    n_changed: int
    n_labeled: int
    n_gold: int = 0

    @property
    def is_used(self) -> bool:
        """True if the features change labels."""
        return self.weight > 0

    def sentence(self) -> str:
        """Return the effect in one sentence."""
        gains = (
            f"{self.both_gain:.3f} nats per vote with both, {self.votes_gain:.3f} with votes only, "
            f"{self.features_gain:.3f} with features only"
        )
        if not self.is_used:
            return f"features are not used, because they do not help to predict held-out votes ({gains})"
        return (
            f"features count with weight {self.weight:g}, because they help to predict held-out votes "
            f"({gains}); they change the label of {self.n_changed:,} items with votes and label "
            f"{self.n_labeled:,} items without votes"
        )


class Folded(NamedTuple):
    """Sums of products of features and targets by fold. Sums over parts of the data can be added.

    Attributes
    ----------
    squares : array of shape (F, d + 1, d + 1)
        Of standardized columns, the first of which is 1.
    products : array of shape (F, d + 1, t)
        With targets.
    """

    squares: Array
    products: Array

    @classmethod
    def of(cls, features: Features, means: Array, scales: Array, targets: Array, weights: Array) -> Folded:
        """Sum over items; ``targets`` are (n, t) and ``weights`` (n,), 0 for items to leave out."""
        d, t = features.width + 1, targets.shape[1]
        squares, products = np.zeros((N_FOLDS, d, d)), np.zeros((N_FOLDS, d, t))
        for at, rows, folds in features.chunks():
            present = ~np.isnan(rows).all(axis=1)
            values = np.column_stack([np.ones(len(rows)), standardized(rows, means, scales)])
            weight = weights[at] * present
            for fold in range(N_FOLDS):
                items = np.flatnonzero((folds == fold) & (weight > 0))
                weighted = values[items] * weight[items, None]
                squares[fold] += weighted.T @ values[items]
                products[fold] += weighted.T @ targets[at][items]
        return cls(squares, products)

    def solve(self, n_choosing: int) -> tuple[Array, Array]:
        """Return intercepts (F, t) and coefficients (F, d, t) with the penalty of least squared error.

        The error is that of the first ``n_choosing`` targets on the fold that is left out.
        """
        shape = (len(_PENALTIES), N_FOLDS, *self.products.shape[1:])
        solutions, errors = np.zeros(shape), np.zeros(len(_PENALTIES))
        all_squares, all_products = self.squares.sum(axis=0), self.products.sum(axis=0)
        for fold in range(N_FOLDS):
            squares, products = all_squares - self.squares[fold], all_products - self.products[fold]
            total = squares[0, 0]
            if total <= 0:
                continue
            centers, mean = squares[0] / total, products[0] / total
            covariance = (squares / total - np.outer(centers, centers))[1:, 1:]
            against = (products / total - np.outer(centers, mean))[1:]
            spectrum, basis = np.linalg.eigh(covariance)
            rotated, scale = basis.T @ against, max(np.trace(covariance) / max(len(spectrum), 1), 1e-12)
            for at, penalty in enumerate(_PENALTIES):
                shrunk = np.maximum(spectrum, 0.0) + penalty * scale
                coefficients = basis @ (rotated / shrunk[:, None])
                solutions[at, fold] = np.vstack([mean - centers[1:] @ coefficients, coefficients])
                own = solutions[at, fold, :, :n_choosing]
                # Squared error without the sum of squared targets, which all penalties share.
                errors[at] += np.sum(
                    own * (self.squares[fold] @ own - 2 * self.products[fold, :, :n_choosing])
                )
        best = solutions[int(np.argmin(errors))]
        return best[:, 0], best[:, 1:]


def fit_features(
    features: Features,
    posterior_of: PosteriorOf,
    posterior: Array,
    has_votes: Mask,
    votes_on: Array,
    groups: Items,
    *,
    weights: Array | None = None,
    gold: Items | None = None,
) -> tuple[FeatureWeights, FeatureEffect]:
    """Learn the posterior from features, and estimate the weight of features.

    Parameters
    ----------
    features : Features of n items
    posterior_of : callable
        Returns the posterior (r, K) of r items by the votes of the sources in a mask of shape (m,).
    posterior : array of shape (n, K)
        By all votes.
    has_votes : bool array of shape (n,)
    votes_on : array of shape (m,)
        Number of votes of each source.
    groups : integer array of shape (m,)
        Dependent sources have the same number and are held out together.
    weights : array of shape (n,), optional
        Item weights.
    gold : integer array of shape (n,), optional
        Codes of gold labels, negative if unknown.

    Returns
    -------
    FeatureWeights, FeatureEffect
    """
    n = len(posterior)
    counts = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    means, scales = _column_statistics(features)
    training = counts * has_votes
    learner = _learn(features, means, scales, [posterior], training)[0]
    evidence, present = learner.evidence(features)
    # At most _MOST_ITEMS items, evenly spread, and all items with gold labels.
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_ITEMS)).astype(np.intp))
    if gold is not None:
        chosen = np.union1d(chosen, np.flatnonzero(gold >= 0))
    prior = posterior_of(np.zeros(len(votes_on), bool), chosen[:1])[0]
    parts = _split(votes_on, groups)
    study = _hold_out(
        features.take(chosen),
        means,
        scales,
        posterior_of,
        prior,
        parts,
        training[chosen],
        counts[chosen],
        chosen,
    )
    every = _Items(posterior, evidence, has_votes, counts, prior)
    at = chosen[present[chosen] & (counts[chosen] > 0)]
    known = every._replace(
        posterior=posterior[at], evidence=evidence[at], has_votes=has_votes[at], counts=counts[at]
    )
    has_gold = np.zeros(len(at), bool) if gold is None else gold[at] >= 0
    # With gold labels, the class balance is already corrected.
    doubt = 1.0 if has_gold.any() else float(ndtr(-study.votes_z))
    gold_gains = np.zeros((int(has_gold.sum()), len(_WEIGHTS)))
    if gold is not None and has_gold.any():
        for number, weight in enumerate(_WEIGHTS):
            found = known.combined(weight, known.offsets(weight, doubt))
            right = found[has_gold, gold[at][has_gold]]
            gold_gains[:, number] = np.log(np.maximum(right, 1e-12))
        gold_gains -= gold_gains[:, :1]
    weight, z = _choose_weight(study.gains, gold_gains)
    offsets = known.offsets(weight, doubt)
    combined = every.combined(weight, offsets)
    changed = present & (combined.argmax(axis=1) != posterior.argmax(axis=1))
    used = weight > 0
    effect = FeatureEffect(
        n_items=int(present.sum()),
        n_columns=features.n_columns,
        weight=float(weight),
        votes_gain=study.votes_gain,
        features_gain=study.features_gain,
        both_gain=study.votes_gain + float(np.interp(weight, _WEIGHTS, study.mean_gains)),
        z=z,
        n_changed=int(np.count_nonzero(changed & has_votes)),
        n_labeled=int(np.count_nonzero(present & ~has_votes)) if used else 0,
        n_gold=int(has_gold.sum()),
    )
    return FeatureWeights(learner, float(weight), offsets), effect


# ---------------------------------------------------------------------- class balance


def restoring_offsets(posterior: Array, adds: Array, balance: Array, counts: Array) -> Array:
    """Return offsets (K,) to log probabilities with which the mean of ``combine`` is the ``balance``."""
    offsets, share = np.zeros(len(balance)), counts / counts.sum()
    for _ in range(100):
        mean = share @ combine(posterior, adds + offsets)
        step = np.log(np.maximum(balance, 1e-12)) - np.log(np.maximum(mean, 1e-12))
        offsets += step
        if np.abs(step).max() < 1e-6:
            break
    return offsets - offsets.mean()


class _Items(NamedTuple):
    """Items on which the class balance is restored: arrays with one row per item, and their prior (K,)."""

    posterior: Array
    evidence: Array
    has_votes: Mask
    counts: Array
    prior: Array

    def offsets(self, weight: float, doubt: float) -> Array:
        """Return offsets (2, K) to the log probabilities of items without votes, and with votes.

        For items with votes, the class balance given the votes is restored. For items without votes, it may
        differ, and is restored to the extent of ``doubt``, in [0, 1], about the votes that the features were
        learned from.
        """
        offsets = np.zeros((2, len(self.prior)))
        adds, voted = weight * self.evidence, self.has_votes
        if not weight or not len(adds):
            return offsets
        if voted.any():
            kept, counts = self.posterior[voted], self.counts[voted]
            balance = counts @ kept / counts.sum()
            offsets[1] = restoring_offsets(kept, adds[voted], balance, counts)
        # Few items without votes are assumed to have features like those of all items.
        among = ~voted if np.count_nonzero(~voted) >= _FEW_ITEMS else np.ones(len(voted), bool)
        flat = np.broadcast_to(self.prior, adds[among].shape)
        offsets[0] = doubt * restoring_offsets(flat, adds[among], self.prior, self.counts[among])
        return offsets

    def combined(self, weight: float, offsets: Array) -> Array:
        """Return posteriors (n, K) given votes and features."""
        return combine(self.posterior, weight * self.evidence + offsets[self.has_votes.astype(np.intp)])


# ---------------------------------------------------------------------- weight


class _Study(NamedTuple):
    """Log likelihoods of held-out votes.

    Attributes
    ----------
    gains : array of shape (n, W)
        With each weight of features above that of votes alone, by item.
    mean_gains : array of shape (W,)
        The same per vote.
    votes_gain, features_gain : float
        Of votes alone and of features alone per vote, above that of the class balance.
    votes_z : float
        The gain of votes alone in standard errors; negative if sources contradict each other.
    """

    gains: Array
    mean_gains: Array
    votes_gain: float
    features_gain: float
    votes_z: float


def _hold_out(
    features: Features,
    means: Array,
    scales: Array,
    posterior_of: PosteriorOf,
    prior: Array,
    parts: list[Mask],
    training: Array,
    times: Array,
    items: Items,
) -> _Study:
    """Predict the votes of each part of the sources by the other sources and features.

    ``features``, ``training`` and ``times`` are those of ``items`` only; ``training`` has the weights of
    items with votes, ``times`` those of all.
    """
    nothing = _Study(np.zeros((len(items), len(_WEIGHTS))), np.zeros(len(_WEIGHTS)), 0.0, 0.0, 0.0)
    targets, held_out, voted = [], [], []
    for part in parts:
        rest, own = posterior_of(~part, items), posterior_of(part, items)
        has_rest, has_own = np.abs(rest - prior).max(axis=1) > 0, np.abs(own - prior).max(axis=1) > 0
        if not has_rest.any() or not has_own.any():
            continue
        # Items on which no other source votes get the mean, so that all regressions share one matrix.
        filled = np.where(has_rest[:, None], rest, times[has_rest] @ rest[has_rest] / times[has_rest].sum())
        targets.append((filled, rest))
        held_out.append(own / prior)
        voted.append(has_own)
    if not targets:
        return nothing
    learners = _learn(features, means, scales, [filled for filled, _ in targets], training)
    gains = np.zeros((len(items), len(_WEIGHTS)))
    totals, by_votes, n_pairs = np.zeros(2), np.zeros(len(items)), 0.0
    for learner, (_, rest), likelihood, has_own in zip(learners, targets, held_out, voted, strict=True):
        evidence, present = learner.evidence(features)
        at = np.flatnonzero(has_own & present)
        own, known, often = evidence[at], rest[at], times[at]
        logs = np.stack([_log_likelihood(known, w * own, likelihood[at]) for w in _WEIGHTS], axis=1)
        gains[at] += (logs - logs[:, :1]) * often[:, None]
        balance = np.broadcast_to(often @ known / max(often.sum(), 1e-300), known.shape)
        flat = _log_likelihood(balance, np.zeros_like(own), likelihood[at])
        alone = _log_likelihood(balance, own, likelihood[at])
        by_votes[at] += often * (logs[:, 0] - flat)
        totals += often @ np.column_stack([logs[:, 0] - flat, alone - flat])
        n_pairs += often.sum()
    if not n_pairs:
        return nothing
    votes_gain, features_gain = totals / n_pairs
    error = _standard_error(by_votes[by_votes != 0])
    return _Study(
        gains=gains,
        mean_gains=gains.sum(axis=0) / n_pairs,
        votes_gain=float(votes_gain),
        features_gain=float(features_gain),
        votes_z=float(by_votes.sum() / error) if error > 0 else 0.0,
    )


def _log_likelihood(posterior: Array, adds: Array, likelihood: Array) -> Array:
    """Return log P(held-out votes), shape (n,), from P(votes | Y = k) up to a constant, (n, K)."""
    return np.asarray(np.log(np.sum(combine(posterior, adds) * likelihood, axis=1)))


def _choose_weight(gains: Array, gold_gains: Array) -> tuple[float, float]:
    """Return the weight of features, and the standard errors by which it is better than 0.

    ``gains`` (n, W) and ``gold_gains`` (g, W) are log likelihoods relative to weight 0. Without gold labels
    the weight is the smallest one within one standard error of the best. With gold labels it is the mean of
    its posterior, with held-out votes as the prior.
    """
    heard = gains[np.abs(gains).max(axis=1, initial=0.0) > 0]
    weight, z = _supported_weight(heard, _LEAST_Z)
    if not len(gold_gains):
        return weight, z
    by_gold, z_by_gold = _supported_weight(gold_gains, _LEAST_GOLD_Z)
    if not weight and not by_gold:
        return 0.0, max(z, z_by_gold)
    # Unlike gold labels, held-out votes share errors with the other votes, so they count as a few labels.
    share = min(1.0, _VOTES_AS_GOLD / max(len(heard), 1))
    return float(softmax(share * heard.sum(axis=0) + gold_gains.sum(axis=0)) @ _WEIGHTS), max(z, z_by_gold)


def _supported_weight(gains: Array, least_z: float) -> tuple[float, float]:
    """Return the smallest weight within one standard error of the best, 0 if below ``least_z``, and z."""
    if len(gains) < 2:
        return 0.0, 0.0
    total = gains.sum(axis=0)
    best = int(np.argmax(total))
    short = [
        total[best] - total[at] <= _standard_error(gains[:, best] - gains[:, at]) for at in range(best + 1)
    ]
    chosen = short.index(True)
    at = chosen or best  # for weight 0, report z of the best weight
    error = _standard_error(gains[:, at])
    z = float(total[at] / error) if error > 0 else 0.0
    return (float(_WEIGHTS[chosen]), z) if z > least_z else (0.0, z)


def _standard_error(values: Array) -> float:
    """Return the standard error of a sum."""
    return float(np.std(values) * np.sqrt(len(values))) if len(values) else 0.0


def _split(votes_on: Array, groups: Items) -> list[Mask]:
    """Return masks of sources that are held out together, with similar numbers of votes.

    >>> [part.astype(int).tolist() for part in _split(np.array([5, 3, 2, 0]), np.arange(4))]
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    """
    names, at = np.unique(groups, return_inverse=True)
    size = np.bincount(at, votes_on, len(names))
    active = np.flatnonzero(size > 0)
    load = np.zeros(min(_MOST_GROUPS, len(active)))
    part_of = np.full(len(names), -1)
    for group in active[np.argsort(-size[active], kind="stable")]:
        part_of[group] = int(np.argmin(load))
        load[part_of[group]] += size[group]
    return [part_of[at] == part for part in range(len(load))]


# ---------------------------------------------------------------------- regression


def _learn(
    features: Features, means: Array, scales: Array, targets: list[Array], weights: Array
) -> list[Learner]:
    """Return one learner per target of shape (n, K). All of them share the penalty of the first."""
    n_classes = targets[0].shape[1]
    sums = Folded.of(features, means, scales, np.column_stack(targets), weights)
    intercepts, coefficients = sums.solve(n_classes)
    total = max(weights.sum(), 1e-300)
    learners = []
    for at, target in enumerate(targets):
        own = slice(at * n_classes, (at + 1) * n_classes)
        balance = weights @ target / total
        certain = float(np.sum(balance * (1 - balance)))
        variance = float(np.sum(weights @ (target - balance) ** 2 / total))
        # Nothing can be learned from labels without variance; the bound avoids a division by 0.
        separation = min(1.0, max(variance / certain, 1e-6)) if certain > 0 else 1.0
        learners.append(
            Learner(means, scales, intercepts[:, own], coefficients[:, :, own], balance, separation)
        )
    return learners


def _column_statistics(features: Features) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column, shape (d,); a huge one for constant columns."""
    d = features.width
    largest, n = np.zeros(d), np.zeros(d)
    for _, rows, _ in features.chunks():
        largest = np.maximum(largest, np.nan_to_num(np.abs(rows)).max(axis=0, initial=0.0))
    # Numbers are divided by the largest one first, because squares of huge numbers overflow.
    unit = np.where(largest > 0, largest, 1.0)
    sums, squares = np.zeros(d), np.zeros(d)
    for _, rows, _ in features.chunks():
        n += (~np.isnan(rows)).sum(axis=0)
        sums += np.nan_to_num(rows / unit).sum(axis=0)
    means = sums / np.maximum(n, 1)
    for _, rows, _ in features.chunks():
        squares += (np.nan_to_num(rows / unit - means) ** 2).sum(axis=0)
    deviations = np.sqrt(squares / np.maximum(n, 1))
    scales = np.where(deviations > 1e-12, deviations * unit, _CONSTANT)
    return means * unit, scales
