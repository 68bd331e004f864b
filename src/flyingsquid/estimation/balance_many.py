"""The balance of many classes from votes alone, with its standard error.

Tables and balance together are determined by triples of votes. They are found by passes over the votes until
the balance stands still (Dawid and Skene's maximum likelihood), or by three views. The error is that of the
delete-a-group jackknife; an estimate that says too little is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import agreement_tables
from flyingsquid.estimation.errors_many import gold_of, group_errors, part_of
from flyingsquid.estimation.gold_many import ManyGold
from flyingsquid.estimation.gold_views import by_views
from flyingsquid.estimation.refine import Passes, Refined, refine
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments
from flyingsquid.votes.states import Label
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
# With a larger standard error of some class the estimate says too little; as for two classes.
_TOO_WIDE = 0.075
# Passes end when no class moves by more, or after so many rounds of ten.
_STANDS_STILL, _ROUNDS = 1e-4, 20
# Items with three votes, for each class, below which triples of votes determine nothing. With known labels
# the error decides, unless there are fewer items than classes: then it is known without asking.
_TRIPLES_A_CLASS = 10.0
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class ManyBalance:
    """P(Y = k) from votes.

    Attributes
    ----------
    balance : array of shape (K,)
    errors : array of shape (K,)
        Standard errors, infinite where nothing is known.
    from_gold : whether known labels had a part in it
    """

    balance: Array
    errors: Array
    from_gold: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether no class has a standard error above 0.075."""
        return bool(self.errors.max() <= _TOO_WIDE)

    def settled(self, classes: tuple[Label, ...]) -> tuple[Array, str]:
        """The balance to use, and where it comes from in words."""
        if not self.is_usable:
            even = np.full(len(classes), 1 / len(classes))
            return even, f"even, because the votes leave it open (P ± {self.errors.max():.2g})"
        origin = "votes and known labels" if self.from_gold else "votes"
        named = [
            f"{label} {p:.3f} ± {error:.2g}"
            for label, p, error in zip(classes, self.balance, self.errors, strict=True)
        ]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return self.balance, f"estimated from {origin}: {', '.join(named[:_MOST_NAMED])}{more}"


def estimate_many_balance(moments: Moments, over: Passes, method: str, gold: ManyGold | None) -> ManyBalance:
    """Estimate P(Y = k) by passes over the votes; by three views first for ``method="decomposition"``."""
    n_classes = moments.n_classes
    if over.votes is None or _telling(over, gold) < n_classes:
        return ManyBalance(np.full(n_classes, 1 / n_classes), np.full(n_classes, np.inf))
    if method == "decomposition":
        try:
            found = _with_errors(moments, over, gold, lambda *part: by_views(*part)[1])
        except NotIdentifiableError:  # what all items barely determine, fewer do not
            found = None
        if found is not None and found.is_usable:
            return found
    whole = _until_it_stands_still(moments, over, gold)

    def from_there(moments: Moments, over: Passes, gold: ManyGold | None) -> Array:
        return _until_it_stands_still(moments, over, gold, whole).balance

    return _with_errors(moments, over, gold, from_there)


def _with_errors(
    moments: Moments,
    over: Passes,
    gold: ManyGold | None,
    balance_of: Callable[[Moments, Passes, ManyGold | None], Array],
) -> ManyBalance:
    def without_a_group(rows: NDArray[np.intp]) -> Array:
        part = part_of(over, rows)
        return balance_of(Moments.of(part.votes, sample_weight=part.weights), part, gold_of(part))

    balance = balance_of(moments, over, gold)
    # Ten groups may agree by luck, but votes do not tell more than labels on all items would.
    least = np.sqrt(balance * (1 - balance) / float(moments.n_items))
    n_items = 0 if over.votes is None else over.votes.n_items
    return ManyBalance(balance, np.maximum(group_errors(without_a_group, n_items), least), gold is not None)


def _until_it_stands_still(
    moments: Moments, over: Passes, gold: ManyGold | None, start: Refined | None = None
) -> Refined:
    even = np.full(moments.n_classes, 1 / moments.n_classes)
    at = Refined(agreement_tables(moments, gold), even) if start is None else start
    for _ in range(_ROUNDS):
        before = at.balance
        at = refine(over, at.tables, at.balance, learn_balance=True, passes=10, gold=gold)
        if np.abs(at.balance - before).max() < _STANDS_STILL:
            break
    return at


def _telling(over: Passes, gold: ManyGold | None) -> float:
    """How many classes there may be, by the items that say something about their balance."""
    if gold is None or over.known is None:
        return _triples(over) / _TRIPLES_A_CLASS
    return _triples(over) + float((over.known >= 0).sum())


def _triples(over: Passes) -> float:
    """How many items have three votes or more."""
    if over.votes is None:
        return 0.0
    voted = item_votes(over.votes.codes).cast >= 3
    return float(voted.sum() if over.weights is None else np.asarray(over.weights)[voted].sum())
