"""Votes on gold labels: counts that settle signs, help the class balance, and correct tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from flyingsquid.exceptions import OptionError
from flyingsquid.moments import VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GoldCounts:
    """What the sources said on items whose class is known.

    Attributes
    ----------
    votes : array of shape (m, 2, 3)
        ``votes[i, y, v]`` known items of class y had source i vote v; no vote last.
    units : tuple of arrays of shape (2, 3^s)
        For each unit of dependent sources on the task, how often known items of each class had it in each
        state, in the order of ``all_patterns(s, 2)``.
    """

    votes: Array
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

        ``weights`` of shape (n,) say how often each item counts; ``units`` are columns of dependent sources.
        """
        known = np.flatnonzero(gold >= 0)
        codes = np.maximum(votes[known].to_dense().codes, -1)
        share = np.ones(len(known)) if weights is None else weights[known].astype(np.float64)
        counts = np.zeros((votes.n_sources, 2, 3))
        for y in (0, 1):
            items = gold[known] == y
            for column, vote in enumerate((0, 1, -1)):
                counts[:, y, column] = share[items] @ (codes[items] == vote)
        joint = []
        for unit in units:
            states = (codes[:, list(unit)].astype(np.intp) + 1) @ 3 ** np.arange(len(unit))
            of_class = [gold[known] == y for y in (0, 1)]
            size = 3 ** len(unit)
            counted = [np.bincount(states[y], share[y], minlength=size) for y in of_class]
            joint.append(np.asarray(counted, np.float64))
        return cls(counts, tuple(joint))

    @property
    def classes(self) -> Array:
        """How many known items each class has, shape (2,)."""
        return np.asarray(self.votes[0].sum(axis=1))

    @property
    def right(self) -> Array:
        """Right votes of each source, shape (m,)."""
        return np.asarray(np.einsum("mkk->m", self.votes[:, :, :2]))

    @property
    def cast(self) -> Array:
        """Votes of each source, shape (m,)."""
        return np.asarray(self.votes[:, :, :2].sum(axis=(1, 2)))

    def preference(self, accuracies: Array, rates: Array) -> float:
        """Log likelihood of the votes on known items with these signs, less that with all flipped.

        A source is better than random if it leans to the true class more than it does overall; how often
        it is right depends on the class balance too. So the votes are taken as aᵢ(Y - E[Y]) plus noise
        around their mean, for ``accuracies`` a of shape (m,) and observed ``rates`` of shape (m, 2).
        """
        mean, coverage = rates[:, 1] - rates[:, 0], rates.sum(axis=1)
        expected = float((self.classes[1] - self.classes[0]) / (self.classes.sum() + 2))
        away = np.array([-1.0, 1.0]) - expected  # Y - E[Y] for both classes
        leaning = (self.votes[:, :, 1] - self.votes[:, :, 0] - mean[:, None] * self.classes) @ away
        variance = np.maximum(coverage - mean**2, 0)
        # No source is taken to be so sure that a few labels could not object.
        noise = np.maximum(variance - accuracies**2, 0.2 * variance)
        pull = np.divide(accuracies, noise, out=np.zeros_like(noise), where=noise > 0)
        return float(2 * pull @ leaning)

    def balance(self, expected: float, error: float, believed: float = 2.0) -> tuple[float, float]:
        """E[Y] and its error, pooled from ``expected`` ± ``error`` and the known items.

        An even balance counts as ``believed`` items besides.
        """
        n, ones = float(self.classes.sum()), float(self.classes[1])
        p = (ones + believed / 2) / (n + believed)
        own = 4 * p * (1 - p) / (n + believed + 1)  # variance of E[Y] from the known items alone
        if not np.isfinite(error):
            return 2 * p - 1, float(np.sqrt(own))
        weight = own / (own + error**2)
        pooled = weight * expected + (1 - weight) * (2 * p - 1)
        return pooled, float(np.sqrt(own * error**2 / (own + error**2)))


# A table of classes by classes takes half a gigabyte then.
_MOST_CLASSES = 8_192
# An even balance that nobody asked for is worth so many known items.
_EVEN_WORTH = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class ManyGold:
    """What the sources said on items whose class is known.

    Attributes
    ----------
    votes : VotesByClass
        Votes on known items.
    classes : array of shape (K,)
        Known items of each class.
    said : array of shape (K, K)
        ``said[v, k]`` known items of class k had the vote v, each item shared evenly among its votes.
    """

    votes: VotesByClass
    classes: Array
    said: Array

    @classmethod
    def of(cls, votes: Votes, gold: NDArray[Any], weights: NDArray[Any] | None = None) -> ManyGold:
        """Count ``votes`` on the items whose code in ``gold``, shape (n,), is not negative.

        >>> gold = ManyGold.of(Votes.from_classes([[0, 0], [1, -1], [2, 2]]), np.array([0, 2, -1]))
        >>> gold.classes, gold.said
        (array([1., 0., 1.]), array([[1., 0., 0.],
               [0., 0., 1.],
               [0., 0., 0.]]))
        """
        known = np.flatnonzero(gold >= 0)
        n_classes = votes.n_classes
        if n_classes > _MOST_CLASSES:
            raise OptionError(
                f"gold= is for {_MOST_CLASSES:,} classes at most, and the votes have {n_classes:,}: a table "
                "of classes by classes is kept for it. Leave it out, or declare fewer classes"
            )
        share = np.ones(len(known)) if weights is None else np.asarray(weights, np.float64)[known]
        cast, labels = OneHot.of(votes[known].codes, n_classes), gold[known]
        classes = np.asarray(np.bincount(labels, share, minlength=n_classes), np.float64)
        said = VotesByClass.of(cast.evenly_shared(), labels, share).over_sources()
        return cls(VotesByClass.of(cast, labels, share), classes, said)

    @property
    def meaning(self) -> NDArray[np.intp]:
        """Which class a vote for each class stands for, shape (K,): itself, unless that is clearly wrong.

        Sources that swap classes, or count them from 1, agree with each other; only gold labels can tell.
        """
        itself = np.arange(len(self.classes))
        renamed = linear_sum_assignment(-self.said)[1]
        gain = self.said[itself, renamed].sum() - self.said.trace()
        # A standard error, and one item for each choice: the best of many names fits some items by chance.
        chance = np.sqrt(self.classes.sum()) + np.count_nonzero(renamed != itself)
        return renamed if gain > chance else itself

    def balance(self, believed: Array, worth: float) -> Array:
        """P(Y = k) from known items, and a balance that is worth so many of them, shape (K,)."""
        return np.asarray((self.classes + worth * believed) / (self.classes.sum() + worth))

    def balance_beside_even(self) -> Array:
        """P(Y = k) from known items and a uniform balance worth 20 of them, shape (K,).

        Less what chance alone makes of an even balance (James and Stein): classes that nobody knows to be
        rarer are not made so by the luck of a few labels.
        """
        n, n_classes = float(self.classes.sum()), len(self.classes)
        even = np.full(n_classes, 1 / n_classes)
        spread = float(((self.classes - n * even) ** 2).sum() * n_classes / n)  # chi squared
        kept = max(0.0, 1 - 2 * (n_classes - 1) / spread) if spread > 0 else 0.0
        return np.asarray(even + kept * (self.balance(even, _EVEN_WORTH) - even))
