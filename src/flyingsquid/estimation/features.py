"""Evidence of features: regression of class probabilities on features, weighted by held-out sources.

The features of an item are treated as an additional source. A regression learns the posterior given the
votes, and then the posterior given votes and features. Predictions for an item come from other folds only.
The weight of features is estimated without gold labels: features and some of the sources predict the votes of
the other sources, and the weight with the most likely predictions is chosen. If it is below 1, features
repeat a part of the votes, and both count less. Finally, the class balance given the votes is restored,
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

from flyingsquid.inference.features import FeatureWeights, Learner, combine, standardized, weighted_evidence
from flyingsquid.votes.features import N_FOLDS, Features

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Items = NDArray[np.intp]
PosteriorOf = Callable[[Mask, Items], Array]
# Weights of features relative to votes. With 1, both count fully, and evidence never counts more than fully.
_WEIGHTS = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
# Features are used if held-out votes support them by this many standard errors; with 2, noise was used in one
# of six simulations (docs/design/0017-features.md).
_LEAST_Z = 3.0
# The same for support by gold labels alone.
_LEAST_GOLD_Z = 2.0
# Maximum number of groups in which sources are held out.
_MOST_GROUPS = 8
# Maximum number of items on which the weight and the class balance are estimated; more change neither.
_MOST_ITEMS = 20_000
# All held-out votes together count as this many gold labels.
_VOTES_AS_GOLD = 20.0


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """Contribution of features, measured without gold labels.

    Attributes
    ----------
    n_items : int
        Items with features.
    n_columns : int
    weight : float in [0, 3]
        Weight of features relative to votes; 0 means that features are not used. From 1 on, features count
        fully: with 2, the evidence of votes counts half. Below 1, both count less than fully.
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

    def __repr__(self) -> str:
        return self.sentence()

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
    masks = _split(votes_on, groups)
    parts = [_HeldOut.of(posterior_of, mask, chosen, prior, counts[chosen]) for mask in masks]
    parts = [part for part in parts if part.rest.has_votes.any() and part.has_own.any()]
    # Gold labels measure directly how much features help, and have corrected the class balance.
    doubt = 0.0 if gold is not None and (gold >= 0).any() else _contradiction(parts)
    means, scales = column_statistics(features, counts)
    every = _Voted(posterior, has_votes, counts)
    (learner,) = _learn_twice(features, means, scales, [every])
    evidence, present = learner.evidence(features)
    some = features.take(chosen)
    learners = _learn_twice(some, means, scales, [part.rest for part in parts]) if parts else []
    gains, mean_gains, (votes_gain, features_gain) = _predict_held_out(some, parts, learners, every.balance)
    strength = features_gain / votes_gain if votes_gain > 0 else np.inf
    at = chosen[present[chosen] & (counts[chosen] > 0)]
    known = every.take(at)
    has_gold = np.zeros(len(at), bool) if gold is None else gold[at] >= 0
    gold_gains = np.zeros((int(has_gold.sum()), len(_WEIGHTS)))
    if gold is not None and has_gold.any():
        for number, weight in enumerate(_WEIGHTS):
            shares = _shares(weight, strength)
            found = known.combined(evidence[at], shares, known.offsets(evidence[at], shares, doubt))
            right = found[has_gold, gold[at][has_gold]]
            gold_gains[:, number] = np.log(np.maximum(right, 1e-12))
        gold_gains -= gold_gains[:, :1]
    weight, z = _choose_weight(gains, gold_gains)
    weight *= 1 - doubt
    shares = _shares(weight, strength)
    offsets = known.offsets(evidence[at], shares, doubt)
    combined = every.combined(evidence, shares, offsets)
    changed = present & (combined.argmax(axis=1) != posterior.argmax(axis=1))
    effect = FeatureEffect(
        n_items=int(present.sum()),
        n_columns=features.n_columns,
        weight=float(weight),
        votes_gain=float(votes_gain),
        features_gain=float(features_gain),
        both_gain=float(votes_gain + np.interp(weight, _WEIGHTS, mean_gains)),
        z=z,
        n_changed=int(np.count_nonzero(changed & has_votes)),
        n_labeled=int(np.count_nonzero(present & ~has_votes)) if weight else 0,
        n_gold=int(has_gold.sum()),
        contradiction=doubt,
        n_seen=max(n_seen, n),
    )
    return FeatureWeights(learner, shares, offsets), effect


class _Voted(NamedTuple):
    """Posteriors (n, K) of items by some sources, whether any of them votes (n,), and item weights (n,)."""

    posterior: Array
    has_votes: Mask
    counts: Array

    def take(self, at: Items | Mask) -> _Voted:
        """Return some of the items."""
        return _Voted(self.posterior[at], self.has_votes[at], self.counts[at])

    @property
    def balance(self) -> Array:
        """Mean posterior of items with votes, shape (K,)."""
        often = self.counts * self.has_votes
        return np.asarray(often @ self.posterior / max(often.sum(), 1e-300))

    def offsets(self, evidence: Array, shares: Array, doubt: float) -> Array:
        """Return offsets (2, K) to the log probabilities of items without votes, and with votes.

        For items with votes, the class balance given the votes is restored. For items without votes, it may
        differ, and is restored to the extent of ``doubt``, in [0, 1], about the votes that the features were
        learned from.
        """
        offsets = np.zeros((2, evidence.shape[1]))
        adds = weighted_evidence(self.posterior, evidence, self.has_votes, shares, offsets)
        for row, among, extent in ((0, ~self.has_votes, doubt), (1, self.has_votes, float(shares[1] > 0))):
            if extent and among.any():
                kept = self.take(among)
                offsets[row] = extent * restoring_offsets(kept.posterior, adds[among], kept.counts)
        return offsets

    def combined(self, evidence: Array, shares: Array, offsets: Array) -> Array:
        """Return posteriors (n, K) given votes and features."""
        adds = weighted_evidence(self.posterior, evidence, self.has_votes, shares, offsets)
        return combine(self.posterior, adds)


def _learn_twice(features: Features, means: Array, scales: Array, views: list[_Voted]) -> list[Learner]:
    """Return one learner of the class per view: of the posteriors by its votes, then by votes and features.

    Labels by votes and features are better to learn from, and items without votes have them, too.
    """
    counts = views[0].counts
    # Items without votes in a view get the mean, so that all views share a matrix.
    targets = [np.where(each.has_votes[:, None], each.posterior, each.balance) for each in views]
    voted = np.any([each.has_votes for each in views], axis=0)
    learners = learn(features, means, scales, targets, counts * voted, by_votes=True)
    fully = np.ones(2)
    for number, (view, learner) in enumerate(zip(views, learners, strict=True)):
        evidence, _ = learner.evidence(features)
        targets[number] = view.combined(evidence, fully, np.zeros((2, evidence.shape[1])))
    return learn(features, means, scales, targets, counts)


def restoring_offsets(posterior: Array, adds: Array, counts: Array) -> Array:
    """Return offsets (K,) to log probabilities with which ``adds`` (n, K) keep the mean of posteriors."""
    offsets, share = np.zeros(posterior.shape[1]), counts / counts.sum()
    balance = share @ posterior
    for _ in range(100):
        mean = share @ combine(posterior, adds + offsets)
        step = np.log(np.maximum(balance, 1e-12)) - np.log(np.maximum(mean, 1e-12))
        offsets += step
        if np.abs(step).max() < 1e-6:
            break
    return offsets - offsets.mean()


# ---------------------------------------------------------------------- weight


def _shares(weight: float, strength: float) -> Array:
    """Return how much of the evidence of votes and of features counts, in [0, 1], with ratio ``weight``.

    ``strength`` is that of features relative to votes, each alone. A weight below 1 shows that features
    repeat a part r of the votes. The best linear combination of two such pieces of evidence with
    strengths 1 and s (Fisher's discriminant) has the weights (1 - r s) / (1 - r^2 s) and
    (1 - r) / (1 - r^2 s): votes count a little less, too. The ratio of the two determines r.
    """
    if weight >= 1:
        return np.array([1 / weight, 1.0])
    # Features that count less than votes are at most as strong; a strength of 1 would be divided by 0.
    s = min(max(strength, 0.0), 1 - 1e-9)
    repeated = (1 - weight) / (1 - s * weight)
    return np.array([1.0, weight]) * (1 - repeated * s) / (1 - repeated**2 * s)


class _HeldOut(NamedTuple):
    """Items with posteriors by all but some held-out sources, and the votes of these.

    Attributes
    ----------
    rest : _Voted
        By the other sources.
    likelihood, has_own : arrays of shape (n, K) and (n,)
        Likelihood of the held-out votes up to a constant, and whether there are any.
    """

    rest: _Voted
    likelihood: Array
    has_own: Mask

    @classmethod
    def of(cls, posterior_of: PosteriorOf, part: Mask, at: Items, prior: Array, counts: Array) -> _HeldOut:
        rest, own = posterior_of(~part, at), posterior_of(part, at)
        has_rest, has_own = (np.abs(each - prior).max(axis=1) > 0 for each in (rest, own))
        return cls(_Voted(rest, has_rest, counts), own / prior, has_own)

    def gain(self, posterior: Array) -> Array:
        """Return log P(held-out votes), shape (n,), above that by the class balance; 0 without such votes."""
        by_class, by_balance = (np.sum(each * self.likelihood, axis=1) for each in (posterior, self.flat))
        return np.asarray(np.log(by_class / by_balance) * self.has_own)

    @property
    def flat(self) -> Array:
        """Class balance of items with held-out votes, for each item, shape (n, K)."""
        balance = self.rest._replace(has_votes=self.has_own).balance
        return np.broadcast_to(balance, self.likelihood.shape)


def _contradiction(parts: list[_HeldOut]) -> float:
    """Return the confidence, in [0, 1], that sources contradict each other.

    They do if the votes of some predict those of others worse than the class balance does.
    """
    gains = np.sum([part.rest.counts * part.gain(part.rest.posterior) for part in parts], axis=0)
    error = _standard_error(gains[gains != 0])
    return max(0.0, 2 * float(ndtr(-gains.sum() / error)) - 1) if error > 0 else 0.0


def _predict_held_out(
    features: Features, parts: list[_HeldOut], learners: list[Learner], balance: Array
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
    gains, totals, n_votes = np.zeros((features.n_items, len(_WEIGHTS))), np.zeros(2), 1e-300
    for part, learner in zip(parts, learners, strict=True):
        (evidence, present), rest = learner.evidence(features), part.rest
        often = rest.counts * present * part.has_own
        by_votes = part.gain(rest.posterior)
        for number, weight in enumerate(_WEIGHTS):
            # Errors that sources share keep held-out votes from showing that both should count less.
            shares = np.array([min(1.0, 1 / max(weight, 1e-12)), min(1.0, weight)])
            # Votes that count less move posteriors toward the class balance.
            offsets = np.outer([0.0, 1 - shares[0]], np.log(np.maximum(balance, 1e-12)))
            both = rest.combined(evidence, shares, offsets)
            gains[:, number] += often * (part.gain(both) - by_votes)
        totals += often @ np.column_stack([by_votes, part.gain(combine(part.flat, evidence))])
        n_votes += often.sum()
    return gains, gains.sum(axis=0) / n_votes, totals / n_votes


def _choose_weight(gains: Array, gold_gains: Array) -> tuple[float, float]:
    """Return the weight of features, and the standard errors by which it is better than 0.

    ``gains`` (n, W) and ``gold_gains`` (g, W) are log likelihoods relative to weight 0. Without gold labels
    the weight is the most likely one. With gold labels it is the mean of its posterior, with held-out votes
    as the prior.
    """
    heard = gains[np.abs(gains).max(axis=1, initial=0.0) > 0]
    (best, z), (_, z_by_gold) = _best_weight(heard), _best_weight(gold_gains)
    supported = z > _LEAST_Z
    if not len(gold_gains):
        return float(_WEIGHTS[best]) if supported else 0.0, z
    if not supported and z_by_gold <= _LEAST_GOLD_Z:
        return 0.0, max(z, z_by_gold)
    # Unlike gold labels, held-out votes share errors with the other votes, so they count as a few labels.
    share = min(1.0, _VOTES_AS_GOLD / max(len(heard), 1))
    return float(softmax(share * heard.sum(axis=0) + gold_gains.sum(axis=0)) @ _WEIGHTS), max(z, z_by_gold)


def _best_weight(gains: Array) -> tuple[int, float]:
    """Return the number of the most likely weight, and its gain in standard errors."""
    best = int(np.argmax(gains.sum(axis=0)))
    error = _standard_error(gains[:, best])
    return best, float(gains[:, best].sum() / error) if error > 0 else 0.0


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


# Ridge penalties relative to the mean variance of the columns; one is chosen by cross-validation.
_PENALTIES = np.logspace(-3, 2, 11)
# Scale of a constant column, whose standardized values are then 0.
_CONSTANT = 1e300


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


def learn(
    features: Features,
    means: Array,
    scales: Array,
    targets: list[Array],
    weights: Array,
    *,
    by_votes: bool = False,
) -> list[Learner]:
    """Return one learner per target of shape (n, K). All of them share the penalty of the first.

    If targets are posteriors given votes and features, the prediction is P(Y | features), by the law of total
    expectation. If they are posteriors ``by_votes`` alone, P(Y | features) is between two bounds. If features
    explain the errors of votes, it is the prediction. If errors are independent of features given the class,
    the prediction is P(Y | features) times s plus a constant, where s is the variance of the targets relative
    to that of certain labels. Only gold labels show how much features explain, so the geometric mean of both
    bounds is used.
    """
    n_classes = targets[0].shape[1]
    sums = Folded.of(features, means, scales, np.column_stack(targets), weights)
    intercepts, coefficients = sums.solve(n_classes)
    total = max(weights.sum(), 1e-300)
    learners = []
    for at, target in enumerate(targets):
        own = slice(at * n_classes, (at + 1) * n_classes)
        balance, slope = weights @ target / total, 1.0
        certain = float(np.sum(balance * (1 - balance)))
        if by_votes and certain > 0:
            variance = float(np.sum(weights @ (target - balance) ** 2 / total))
            # Nothing can be learned from labels without variance; the bound avoids a division by 0.
            slope = float(np.sqrt(min(1.0, max(variance / certain, 1e-6))))
        learners.append(Learner(means, scales, intercepts[:, own], coefficients[:, :, own], balance, slope))
    return learners


def column_statistics(features: Features, weights: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column, shape (d,); a huge one for constant columns.

    ``weights`` (n,) count how often each item occurs.
    """
    d = features.width
    largest, n = np.zeros(d), np.zeros(d)
    for _, rows, _ in features.chunks():
        largest = np.maximum(largest, np.nan_to_num(np.abs(rows)).max(axis=0, initial=0.0))
    # Numbers are divided by the largest one first, because squares of huge numbers overflow.
    unit = np.where(largest > 0, largest, 1.0)
    sums, squares = np.zeros(d), np.zeros(d)
    for at, rows, _ in features.chunks():
        n += weights[at] @ ~np.isnan(rows)
        sums += weights[at] @ np.nan_to_num(rows / unit)
    means = sums / np.maximum(n, 1e-300)
    for at, rows, _ in features.chunks():
        squares += weights[at] @ np.nan_to_num(rows / unit - means) ** 2
    deviations = np.sqrt(squares / np.maximum(n, 1e-300))
    scales = np.where(deviations > 1e-12, deviations * unit, _CONSTANT)
    return means * unit, scales
