"""Confusion tables of one task with any number of classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_value
from flyingsquid.estimation.agreement import agreement_tables, sparse_agreement_tables
from flyingsquid.estimation.binary import Balance, Evidence, fit_binary
from flyingsquid.estimation.em import Passes, Refined, refine
from flyingsquid.estimation.errors import gold_of, group_errors, part_of
from flyingsquid.estimation.gold import ManyGold
from flyingsquid.estimation.views import by_views
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import ConfusionTables, Moments, VoteLogs
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


def fit_one_vs_rest(moments: Moments, balance: Array, *, method: str, screen: float) -> Array:
    """P(vote = v | Y = k), no vote last, shape (m, K, K + 1), by K binary fits.

    Raises
    ------
    NotIdentifiableError
        If the votes for and against some class do not determine its binary fit.
    """
    n_classes = moments.n_classes
    rates = np.asarray(moments.vote_counts / moments.n_items, np.float64)
    tables = np.empty((moments.n_sources, n_classes, n_classes + 1))
    for k, label in enumerate(moments.classes):
        two = np.array([1 - balance[k], balance[k]])
        try:
            fit = fit_binary(
                Evidence(moments.one_vs_rest(k)),
                two,
                method=method,
                anchors={},
                screen=screen,
                triplets=None,
            )
        except NotIdentifiableError as error:
            raise NotIdentifiableError(f"class {format_value(label)} against the rest: {error}") from error
        of_class = fit.tables[:, 1]  # P(another vote, vote k, no vote | Y = k)
        others = np.delete(rates, k, axis=1)
        total = others.sum(axis=1, keepdims=True)
        spread = np.divide(others, total, out=np.full_like(others, 1 / (n_classes - 1)), where=total > 0)
        tables[:, k, [v for v in range(n_classes) if v != k]] = of_class[:, :1] * spread
        tables[:, k, k], tables[:, k, -1] = of_class[:, 1], of_class[:, 2]
    return tables


# With a larger standard error of some class the estimate says too little; as for two classes.
_TOO_WIDE = 0.075
# Passes end when no class moves by more, or after so many rounds of ten.
_STANDS_STILL, _ROUNDS = 1e-4, 20
# Items with three votes, for each class, below which triples of votes determine nothing. With gold labels
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
    from_gold : whether gold labels had a part in it
    """

    balance: Array
    errors: Array
    from_gold: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether no class has a standard error above 0.075."""
        return bool(self.errors.max() <= _TOO_WIDE)

    def settled(self, classes: tuple[Label, ...]) -> tuple[Array, str]:
        """Return the balance to use and its origin, for messages."""
        if not self.is_usable:
            even = np.full(len(classes), 1 / len(classes))
            return even, f"even, because the votes leave it open (P ± {self.errors.max():.2g})"
        origin = "votes and gold labels" if self.from_gold else "votes"
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


@dataclass(frozen=True, slots=True)
class ManyFit:
    """Parameters of one task with K classes.

    Attributes
    ----------
    balance : array of shape (K,)
    balance_note : origin of the balance, for messages
    tables : ConfusionTables
        P(vote = v | Y = k), no vote last.
    silence_counts : bool
        Whether no vote says something about the truth.
    method : the method that was used
    reason : why, where it was chosen; otherwise empty
    silent, one_class : masks of shape (m,)
        Sources that never vote, and that vote for one class only.
    gold : what the sources did on items whose class is known, or None
    learned_balance : whether the method found the balance together with the tables
    """

    balance: Array
    balance_note: str
    tables: ConfusionTables
    silence_counts: bool
    method: str
    reason: str
    silent: NDArray[np.bool_]
    one_class: NDArray[np.bool_]
    gold: ManyGold | None = None
    learned_balance: bool = False

    @property
    def accuracies(self) -> Array:
        """P(vote is right | source votes), shape (m,); one half where it never votes."""
        return np.where(self.silent, 0.5, self.tables.accuracies(self.balance))

    @property
    def logs(self) -> VoteLogs:
        """What each vote adds to the evidence; 0 for what says nothing."""
        return self.tables.logs(silent=self.silent, silence_counts=self.silence_counts)


def fit_many(
    moments: Moments,
    balance: Balance,
    *,
    method: str,
    multiclass: str,
    screen: float,
    votes: Votes | None = None,
    sample_weight: NDArray[Any] | None = None,
    gold: ManyGold | None = None,
    known: NDArray[Any] | None = None,
) -> ManyFit:
    """Solve for K classes.

    Parameters
    ----------
    moments : Moments of K classes
    balance : P(Y = k), "estimate", or None for what suits the method
    method : "agreement", "em" or "decomposition"; or a binary route if ``multiclass`` is "one_vs_rest"
    multiclass : "native" or "one_vs_rest"
    votes, sample_weight : what was counted, if available
    gold : what the sources did on items whose class is known, or None
    known : codes of those classes, shape (n,), negative where unknown; if the votes are available
    """
    n_classes = moments.n_classes
    require_dense(moments, balance, method)
    cast = np.asarray(moments.vote_counts)
    silent, one_class = cast.sum(axis=1) == 0, (cast > 0).sum(axis=1) == 1
    if silent.all():
        raise NotIdentifiableError(
            f"no source votes on any of the {moments.n_items:,.0f} items; there is nothing to learn from"
        )
    even = np.full(n_classes, 1 / n_classes)
    if multiclass == "one_vs_rest":
        given = balance if isinstance(balance, np.ndarray) else even
        tables = ConfusionTables.of(fit_one_vs_rest(moments, given, method=method, screen=screen))
        note = "as given" if isinstance(balance, np.ndarray) else "even, the default of the method"
        return ManyFit(given, note, tables, False, method, "one class against the rest", silent, one_class)
    fit = _native(moments, balance, method, Passes(votes, sample_weight, known), gold)
    return replace(fit, silent=silent, one_class=one_class, gold=gold)


def is_huge(moments: Moments) -> bool:
    """Whether tables of all cells would not fit into memory."""
    return moments.n_sources * moments.n_classes**2 > LIMITS.get().table_cells


def require_dense(moments: Moments, balance: Balance, method: str) -> None:
    """Refuse what needs all cells of all tables where they would not fit into memory."""
    if not is_huge(moments) or (method == "agreement" and not isinstance(balance, str)):
        return
    cells = moments.n_sources * moments.n_classes**2
    raise OptionError(
        f"Confusion tables of {moments.n_sources:,} sources and {moments.n_classes:,} classes have {cells:,} "
        'cells, which do not fit into memory; use method="agreement" with `class_balance` as numbers or None.'
    )


def _native(
    moments: Moments, balance: Balance, method: str, passes: Passes, gold: ManyGold | None
) -> ManyFit:
    none = np.zeros(moments.n_sources, np.bool_)
    given = balance if isinstance(balance, np.ndarray) else None
    if passes.votes is None and (method != "agreement" or isinstance(balance, str)):
        what = f'method="{method}"' if method != "agreement" else 'class_balance="estimate"'
        raise OptionError(
            f"{what} needs the votes themselves, and only counts are available; call fit(votes)."
        )
    origin = ""
    if isinstance(balance, str):
        given, origin = estimate_many_balance(moments, passes, method, gold).settled(moments.classes)
    if method == "decomposition":
        tables, settled = by_views(moments, passes, gold)
        note = "by three views" if gold is None else "by three views and gold labels"
        if given is not None:
            settled, note = given, origin or "as given"
        whole = ConfusionTables.of(tables)
        return ManyFit(settled, note, whole, True, method, "", none, none, learned_balance=given is None)
    settled, note = _before_any_pass(moments, given, method, gold)
    cells = moments.n_sources * moments.n_classes**2
    if method == "agreement" and cells > LIMITS.get().dense_table_cells:
        sparse = sparse_agreement_tables(moments, gold)
        return ManyFit(settled, origin or note, sparse, False, method, "", none, none)
    tables, learn = agreement_tables(moments, gold), False
    if method == "em":
        learn = given is None and not (gold is not None and _names_one_class(moments))
        refined = refine(passes, tables, settled, learn_balance=learn, gold=gold)
        tables, settled = refined.tables, refined.balance
    if learn:
        note = "by the labels of ten passes over the votes" + (", gold labels among them" if gold else "")
    full = ConfusionTables.of(with_coverage(tables, moments))
    return ManyFit(settled, origin or note, full, False, method, "", none, none, learned_balance=learn)


def _before_any_pass(
    moments: Moments, given: Array | None, method: str, gold: ManyGold | None
) -> tuple[Array, str]:
    """The balance before labels say more, and where it comes from."""
    if given is not None:
        return given, "as given"
    even = np.full(moments.n_classes, 1 / moments.n_classes)
    if gold is None:
        return even, "even, the default of the method"
    if _names_one_class(moments):
        return even, "even, because most votes are of sources that vote for one class only"
    if method == "em":
        return even, "even to begin with"
    return gold.balance_beside_even(), f"by {gold.classes.sum():,.10g} gold labels and a uniform balance"


def _names_one_class(moments: Moments) -> bool:
    """Whether most votes are of sources that vote for one class only.

    Given that it votes such a source says little, so that any imbalanced balance would outvote it.
    """
    cast = np.asarray(moments.vote_counts, np.float64)
    return bool(cast[(cast > 0).sum(axis=1) == 1].sum() > cast.sum() / 2)


def with_coverage(tables: Array, moments: Moments) -> Array:
    """Tables of sources that vote equally often on all classes, no vote last, shape (m, K, K + 1)."""
    coverage = np.minimum(moments.coverage, 1.0)[:, None, None]
    return np.concatenate([coverage * tables, np.broadcast_to(1 - coverage, (*tables.shape[:2], 1))], axis=2)
