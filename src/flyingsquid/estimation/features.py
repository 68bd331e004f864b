"""Evidence of features: regression of class probabilities on features, weighted by held-out sources.

The features of an item are treated as an additional source. A regression learns the posterior given the
votes, and then the posterior given votes and features. Predictions for an item come from other folds only.
The weight of features is estimated without gold labels: features and some of the sources predict the votes of
the other sources, and the weight with the most likely predictions is chosen. Finally, the class balance given
the votes is restored, because a regression on uncertain labels should distinguish items, not change the class
balance. Features may change it only for items without votes, unless sources contradict each other. See
docs/design/0017-features.md for the reasons and the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from flyingsquid.estimation.feature_regression import column_statistics, learn
from flyingsquid.inference.features import FeatureWeights, Learner, combine, weighted_evidence
from flyingsquid.votes.features import Features

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Items = NDArray[np.intp]
PosteriorOf = Callable[[Mask, Items], Array]
# Weights of features relative to votes. With 1, both count fully. Evidence is never counted more than fully:
# above 1, votes count less, because features repeat what they were taught by the same votes.
_WEIGHTS = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
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
    weight : float in [0, 3]
        Weight of features relative to votes; 0 means that features are not used. The larger of the two counts
        fully: with 0.5, the evidence of features counts half, and with 2 that of votes.
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
    contradiction : float in [0, 1]
        Confidence that sources contradict each other, without gold labels. The weight is reduced by it.
    n_seen : int
        Number of items in the data. If it is larger than ``n_items``, the other numbers are those of a sample
        of ``n_items`` items, or some items have no features.
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
    contradiction: float = 0.0
    n_seen: int = 0

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
        reduced = ", reduced because sources contradict each other" if self.contradiction > 0.5 else ""
        return (
            f"features count with weight {self.weight:.2g}{reduced}, because they help to predict held-out "
            f"votes ({gains}); they change the label of {self.n_changed:,} items with votes and label "
            f"{self.n_labeled:,} items without votes"
        )


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
    n_seen: int = 0,
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
    n_seen : int
        Number of items that these were sampled from, for the effect.

    Returns
    -------
    FeatureWeights, FeatureEffect
    """
    n = len(posterior)
    counts = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    # At most _MOST_ITEMS items, evenly spread, and all items with gold labels.
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_ITEMS)).astype(np.intp))
    if gold is not None:
        chosen = np.union1d(chosen, np.flatnonzero(gold >= 0))
    prior = posterior_of(np.zeros(len(votes_on), bool), chosen[:1])[0]
    parts = [_HeldOut.of(posterior_of, part, chosen, prior) for part in _split(votes_on, groups)]
    parts = [part for part in parts if part.is_usable]
    # Gold labels show directly what features are worth, and have corrected the class balance.
    doubt = 0.0 if gold is not None and (gold >= 0).any() else _contradiction(parts, counts[chosen])
    means, scales = column_statistics(features, counts)
    learner = learn(features, means, scales, [posterior], counts * has_votes, by_votes=True)[0]
    evidence, present = learner.evidence(features)
    some, times = features.take(chosen), counts[chosen]
    targets = [part.target(times) for part in parts]
    learners = learn(some, means, scales, targets, times * has_votes[chosen], by_votes=True) if parts else []
    gains, mean_gains, (votes_gain, features_gain) = _predict_held_out(some, parts, learners, times)
    every = _Items(posterior, evidence, has_votes, counts, prior)
    at = chosen[present[chosen] & (counts[chosen] > 0)]
    known = every.take(at)
    has_gold = np.zeros(len(at), bool) if gold is None else gold[at] >= 0
    gold_gains = np.zeros((int(has_gold.sum()), len(_WEIGHTS)))
    if gold is not None and has_gold.any():
        for number, weight in enumerate(_WEIGHTS):
            found = known.combined(weight, known.offsets(weight, doubt))
            right = found[has_gold, gold[at][has_gold]]
            gold_gains[:, number] = np.log(np.maximum(right, 1e-12))
        gold_gains -= gold_gains[:, :1]
    weight, z = _choose_weight(gains, gold_gains)
    weight *= 1 - doubt
    if weight:
        # Labels by votes and features are better to learn from, and items without votes have them, too.
        first = min(weight, 1.0)
        found = every.combined(first, known.offsets(first, doubt))
        learner = learn(features, means, scales, [found], counts)[0]
        evidence, _ = learner.evidence(features)
        every = every._replace(evidence=evidence)
        known = every.take(at)
    offsets = known.offsets(weight, doubt)
    combined = every.combined(weight, offsets)
    changed = present & (combined.argmax(axis=1) != posterior.argmax(axis=1))
    used = weight > 0
    effect = FeatureEffect(
        n_items=int(present.sum()),
        n_columns=features.n_columns,
        weight=float(weight),
        votes_gain=float(votes_gain),
        features_gain=float(features_gain),
        both_gain=float(votes_gain + np.interp(weight, _WEIGHTS, mean_gains)),
        z=z,
        n_changed=int(np.count_nonzero(changed & has_votes)),
        n_labeled=int(np.count_nonzero(present & ~has_votes)) if used else 0,
        n_gold=int(has_gold.sum()),
        contradiction=doubt,
        n_seen=max(n_seen, n),
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

    def take(self, at: Items) -> _Items:
        """Return some of the items."""
        rows = (self.posterior[at], self.evidence[at], self.has_votes[at], self.counts[at])
        return _Items(*rows, self.prior)

    def offsets(self, weight: float, doubt: float) -> Array:
        """Return offsets (2, K) to the log probabilities of items without votes, and with votes.

        For items with votes, the class balance given the votes is restored. For items without votes, it may
        differ, and is restored to the extent of ``doubt``, in [0, 1], about the votes that the features were
        learned from.
        """
        offsets = np.zeros((2, len(self.prior)))
        if not weight or not len(self.evidence):
            return offsets
        voted = self.has_votes
        adds = weighted_evidence(self.posterior, self.evidence, voted, weight)
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
        adds = weighted_evidence(self.posterior, self.evidence, self.has_votes, weight)
        return combine(self.posterior, adds + offsets[self.has_votes.astype(np.intp)])


# ---------------------------------------------------------------------- weight


class _HeldOut(NamedTuple):
    """Posteriors (n, K) of the same items by some held-out sources, and by the other sources.

    Attributes
    ----------
    rest, has_rest : arrays of shape (n, K) and (n,)
        By the other sources, and whether any of them votes.
    likelihood, has_own : arrays of shape (n, K) and (n,)
        Likelihood of the held-out votes up to a constant, and whether there are any.
    """

    rest: Array
    has_rest: Mask
    likelihood: Array
    has_own: Mask

    @classmethod
    def of(cls, posterior_of: PosteriorOf, part: Mask, items: Items, prior: Array) -> _HeldOut:
        rest, own = posterior_of(~part, items), posterior_of(part, items)
        has_rest, has_own = (np.abs(each - prior).max(axis=1) > 0 for each in (rest, own))
        return cls(rest, has_rest, own / prior, has_own)

    @property
    def is_usable(self) -> bool:
        return bool(self.has_rest.any() and self.has_own.any())

    def target(self, times: Array) -> Array:
        """Return the target of a learner (n, K).

        Items on which no other source votes get the mean, so that the learners of all parts share a matrix.
        """
        often = times * self.has_rest
        return np.where(self.has_rest[:, None], self.rest, often @ self.rest / max(often.sum(), 1e-300))

    def gain(self, at: Items, times: Array) -> tuple[Array, Array]:
        """Return the log likelihood of held-out votes by the class balance, and the gain by other sources."""
        balance = times[at] @ self.rest[at] / max(times[at].sum(), 1e-300)
        flat = _log_likelihood(np.broadcast_to(balance, self.rest[at].shape), self.likelihood[at])
        return flat, _log_likelihood(self.rest[at], self.likelihood[at]) - flat


def _contradiction(parts: list[_HeldOut], times: Array) -> float:
    """Return the confidence, in [0, 1], that sources contradict each other.

    They do if the votes of some predict those of others worse than the class balance does.
    """
    gains = np.zeros(len(times))
    for part in parts:
        at = np.flatnonzero(part.has_own)
        gains[at] += times[at] * part.gain(at, times)[1]
    error = _standard_error(gains[gains != 0])
    return max(0.0, 2 * float(ndtr(-gains.sum() / error)) - 1) if error > 0 else 0.0


def _predict_held_out(
    features: Features, parts: list[_HeldOut], learners: list[Learner], times: Array
) -> tuple[Array, Array, Array]:
    """Predict held-out votes by the other sources and features that were learned from them.

    Returns
    -------
    gains : array of shape (n, W)
        Log likelihood with each weight of features, above that of votes alone, by item.
    mean_gains : array of shape (W,)
        The same per vote.
    alone : array of shape (2,)
        Log likelihood per vote of votes alone and of features alone, above that of the class balance.
    """
    gains = np.zeros((len(times), len(_WEIGHTS)))
    totals, n_pairs = np.zeros(2), 0.0
    for part, learner in zip(parts, learners, strict=True):
        evidence, present = learner.evidence(features)
        at = np.flatnonzero(part.has_own & present)
        own, rest, likelihood, often = evidence[at], part.rest[at], part.likelihood[at], times[at]
        logs = np.empty((len(at), len(_WEIGHTS)))
        for number, weight in enumerate(_WEIGHTS):
            adds = weighted_evidence(rest, own, part.has_rest[at], weight)
            logs[:, number] = _log_likelihood(combine(rest, adds), likelihood)
        gains[at] += (logs - logs[:, :1]) * often[:, None]
        flat, by_votes = part.gain(at, times)
        balance = often @ rest / max(often.sum(), 1e-300)
        alone = _log_likelihood(combine(np.broadcast_to(balance, rest.shape), own), likelihood)
        totals += often @ np.column_stack([by_votes, alone - flat])
        n_pairs += often.sum()
    n_pairs = max(n_pairs, 1e-300)
    return gains, gains.sum(axis=0) / n_pairs, totals / n_pairs


def _log_likelihood(posterior: Array, likelihood: Array) -> Array:
    """Return log P(held-out votes), shape (n,), from P(votes | Y = k) up to a constant, (n, K)."""
    return np.asarray(np.log(np.sum(posterior * likelihood, axis=1)))


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
