"""Known labels of some items, for any number of classes: what sources did on them, and what votes mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from flyingsquid.exceptions import OptionError
from flyingsquid.moments import VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.one_hot import OneHot

Array = NDArray[np.float64]
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

        Sources that swap classes, or count them from 1, agree with each other; only known labels can tell.
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
        """P(Y = k) from known items beside an even balance worth 20 of them, shape (K,).

        Less what chance alone makes of an even balance (James and Stein): classes that nobody knows to be
        rarer are not made so by the luck of a few labels.
        """
        n, n_classes = float(self.classes.sum()), len(self.classes)
        even = np.full(n_classes, 1 / n_classes)
        spread = float(((self.classes - n * even) ** 2).sum() * n_classes / n)  # chi squared
        kept = max(0.0, 1 - 2 * (n_classes - 1) / spread) if spread > 0 else 0.0
        return np.asarray(even + kept * (self.balance(even, _EVEN_WORTH) - even))
