"""Counts of votes on gold labels, which determine signs, improve the class balance, and correct tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
from flyingsquid.moments import VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot, dense_codes

Array = NDArray[np.float64]


# A table of this many classes by as many takes half a gigabyte.
_MOST_CLASSES = 8_192
UNIFORM_LABELS = 20.0
"""A uniform default balance counts as this many gold labels, so that a few labels do not replace it."""


@dataclass(frozen=True, slots=True, eq=False)
class GoldCounts:
    """Votes on items with gold labels, for any number of classes.

    Attributes
    ----------
    votes : VotesByClass
        Votes on items with gold labels.
    classes : array of shape (K,)
        Number of gold labels of each class.
    shared_votes : array of shape (K, K)
        Number of items with vote v and gold label k, as ``shared_votes[v, k]``; each item is shared equally
        among its votes.
    units : tuple of arrays of shape (K, (K + 1)^s)
        For each unit of dependent sources, the number of gold labels of each class for each state, in the
        order of ``all_patterns(s, K)``.
    """

    votes: VotesByClass
    classes: Array
    shared_votes: Array
    units: tuple[Array, ...] = ()

    @classmethod
    def of(
        cls,
        votes: Votes,
        gold: NDArray[Any],
        weights: NDArray[Any] | None = None,
        units: Sequence[tuple[int, ...]] = (),
    ) -> GoldCounts:
        """Count ``votes`` on the items whose code in ``gold``, shape (n,), is not negative.

        ``weights`` of shape (n,) are the weights of the items; ``units`` are columns of dependent sources.

        >>> gold = GoldCounts.of(Votes.from_classes([[0, 0], [1, -1], [2, 2]]), np.array([0, 2, -1]))
        >>> gold.classes, gold.shared_votes
        (array([1., 0., 1.]), array([[1., 0., 0.],
               [0., 0., 1.],
               [0., 0., 0.]]))
        """
        known = np.flatnonzero(gold >= 0)
        n_classes = votes.n_classes
        if n_classes > _MOST_CLASSES:
            raise OptionError(
                f"`gold` is supported for at most {_MOST_CLASSES:,} classes; got {n_classes:,}. Leave it "
                "out, or declare fewer classes."
            )
        share = np.ones(len(known)) if weights is None else np.asarray(weights, np.float64)[known]
        one_hot, labels = OneHot.of(votes[known].codes, n_classes), gold[known]
        classes = np.asarray(np.bincount(labels, share, minlength=n_classes), np.float64)
        shared_votes = VotesByClass.of(one_hot.evenly_shared(), labels, share).over_sources()
        joint = []
        for unit in units:
            codes = np.maximum(dense_codes(votes.codes[known][:, list(unit)]), -1).astype(np.intp)
            states = (codes + 1) @ (n_classes + 1) ** np.arange(len(unit))
            of_class = (share * (labels == k) for k in range(n_classes))
            size = (n_classes + 1) ** len(unit)
            joint.append(np.array([np.bincount(states, each, size) for each in of_class]))
        return cls(VotesByClass.of(one_hot, labels, share), classes, shared_votes, tuple(joint))

    def of_sources(self, sources: Sequence[int]) -> GoldCounts:
        """Return the counts of some sources."""
        return replace(self, votes=self.votes.of_sources(sources))

    @property
    def tables(self) -> Array:
        """Number of items of class k with vote v of each source, no vote last, shape (m, K, K + 1)."""
        votes = self.votes.to_array().transpose(0, 2, 1)
        missing = np.maximum(self.classes[:, None] - votes.sum(axis=2)[:, :, None], 0.0)
        return np.concatenate([votes, missing], axis=2)

    @property
    def right(self) -> Array:
        """Right votes of each source, shape (m,)."""
        return np.asarray(self.votes.right().sum(axis=1))

    @property
    def n_votes(self) -> Array:
        """Votes of each source, shape (m,)."""
        return np.asarray(self.votes.by_vote().sum(axis=1))

    @property
    def meaning(self) -> NDArray[np.intp]:
        """Return the class that a vote for each class stands for, shape (K,).

        This is the class itself, unless gold labels clearly contradict it: sources that swap classes, or
        number them from 1, agree with each other.
        """
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # slow to import

        itself = np.arange(len(self.classes))
        renamed = linear_sum_assignment(-self.shared_votes)[1]
        gain = self.shared_votes[itself, renamed].sum() - self.shared_votes.trace()
        # One standard error plus one item per choice, because the best of many permutations fits some items
        # by chance.
        chance = np.sqrt(self.classes.sum()) + np.count_nonzero(renamed != itself)
        return renamed if gain > chance else itself

    def balance(self, prior: Array, worth: float) -> Array:
        """Return P(Y = k) from gold labels and a balance that counts as ``worth`` gold labels, (K,)."""
        return np.asarray((self.classes + worth * prior) / (self.classes.sum() + worth))

    def balance_with_uniform(self) -> Array:
        """Return P(Y = k) from gold labels and a uniform balance that counts as 20 gold labels, shape (K,).

        It is shrunk by the deviation that is expected by chance (James and Stein), so that a few labels do
        not make a class look rare.
        """
        n, n_classes = float(self.classes.sum()), len(self.classes)
        uniform = np.full(n_classes, 1 / n_classes)
        spread = float(((self.classes - n * uniform) ** 2).sum() * n_classes / n)  # chi squared
        kept = max(0.0, 1 - 2 * (n_classes - 1) / spread) if spread > 0 else 0.0
        return np.asarray(uniform + kept * (self.balance(uniform, UNIFORM_LABELS) - uniform))

    # ------------------------------------------------------------------ two classes

    def preference(self, accuracies: Array, rates: Array) -> float:
        """Return the log likelihood of votes on gold labels with these signs, minus that with all flipped.

        A source is better than random if it votes for the true class more often than it does overall; how
        often it is right also depends on the class balance. So the votes are modeled as aᵢ(Y - E[Y]) plus
        noise around their mean, for ``accuracies`` a of shape (m,) and observed ``rates`` of shape (m, 2).
        """
        mean, coverage = rates[:, 1] - rates[:, 0], rates.sum(axis=1)
        expected = float((self.classes[1] - self.classes[0]) / (self.classes.sum() + 2))
        away = np.array([-1.0, 1.0]) - expected  # Y - E[Y] for both classes
        votes = self.tables
        leaning = (votes[:, :, 1] - votes[:, :, 0] - mean[:, None] * self.classes) @ away
        variance = np.maximum(coverage - mean**2, 0)
        # Bounded, so that a few gold labels can still overrule a source.
        noise = np.maximum(variance - accuracies**2, 0.2 * variance)
        pull = np.divide(accuracies, noise, out=np.zeros_like(noise), where=noise > 0)
        return float(2 * pull @ leaning)

    def expected_truth(self, expected: float, error: float, prior_items: float = 2.0) -> tuple[float, float]:
        """Return E[Y] of two classes and its error, pooled from ``expected`` ± ``error`` and the gold labels.

        A uniform balance counts as ``prior_items`` additional items.
        """
        n, ones = float(self.classes.sum()), float(self.classes[1])
        p = (ones + prior_items / 2) / (n + prior_items)
        own = 4 * p * (1 - p) / (n + prior_items + 1)  # variance of E[Y] from the gold labels alone
        if not np.isfinite(error):
            return 2 * p - 1, float(np.sqrt(own))
        weight = own / (own + error**2)
        pooled = weight * expected + (1 - weight) * (2 * p - 1)
        return pooled, float(np.sqrt(own * error**2 / (own + error**2)))
