"""Confusion tables of one task with any number of classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count, format_value
from flyingsquid.estimation.agreement import (
    EMVotes,
    Refined,
    agreement_tables,
    refine,
    sparse_agreement_tables,
)
from flyingsquid.estimation.binary import Balance, Evidence, Options, fit_binary
from flyingsquid.estimation.errors import group_errors
from flyingsquid.estimation.gold import ManyGold
from flyingsquid.estimation.views import by_views
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes.codes import Label
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


def fit_one_vs_rest(moments: Moments, balance: Array, *, method: str, screen: float) -> Array:
    """Estimate P(vote = v | Y = k), no vote last, shape (m, K, K + 1), by K binary fits.

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
            fit = fit_binary(Evidence(moments.one_vs_rest(k)), two, Options(method, screen=screen))
        except NotIdentifiableError as error:
            raise NotIdentifiableError(f"Class {format_value(label)} against the rest: {error}") from error
        of_class = fit.tables[:, 1]  # P(another vote, vote k, no vote | Y = k)
        others = np.delete(rates, k, axis=1)
        total = others.sum(axis=1, keepdims=True)
        spread = np.divide(others, total, out=np.full_like(others, 1 / (n_classes - 1)), where=total > 0)
        tables[:, k, [v for v in range(n_classes) if v != k]] = of_class[:, :1] * spread
        tables[:, k, k], tables[:, k, -1] = of_class[:, 1], of_class[:, 2]
    return tables


# With a larger standard error of some class the estimate is not used, as for two classes.
_TOO_WIDE = 0.075
# Passes end when no class changes by more than this, or after this many rounds of ten.
_STANDS_STILL, _ROUNDS = 1e-4, 20
# With fewer items that have three votes, per class, triples of votes determine nothing. With gold labels the
# standard error decides, unless there are fewer items than classes, which cannot be enough.
_TRIPLES_A_CLASS = 10.0
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class ManyBalance:
    """Estimate of P(Y = k) from votes.

    Attributes
    ----------
    balance : array of shape (K,)
    errors : array of shape (K,)
        Standard errors, infinite if unknown.
    from_gold : bool
        Whether gold labels were used.
    """

    balance: Array
    errors: Array
    from_gold: bool = False

    @property
    def is_usable(self) -> bool:
        """True if no class has a standard error above 0.075."""
        return bool(self.errors.max() <= _TOO_WIDE)

    def settled(self, classes: tuple[Label, ...]) -> tuple[Array, str]:
        """Return the balance to use and its origin, for messages."""
        if not self.is_usable:
            uniform = np.full(len(classes), 1 / len(classes))
            return uniform, f"uniform, because the votes do not determine it (P ± {self.errors.max():.2g})"
        origin = "votes and gold labels" if self.from_gold else "votes"
        named = [
            f"{label} {p:.3f} ± {error:.2g}"
            for label, p, error in zip(classes, self.balance, self.errors, strict=True)
        ]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return self.balance, f"estimated from {origin}: {', '.join(named[:_MOST_NAMED])}{more}"


def estimate_many_balance(moments: Moments, over: EMVotes, method: str, gold: ManyGold | None) -> ManyBalance:
    """Estimate P(Y = k) by passes over the votes; by three views first for ``method="decomposition"``."""
    n_classes = moments.n_classes
    if over.votes is None or _count_supported_classes(over, gold) < n_classes:
        return ManyBalance(np.full(n_classes, 1 / n_classes), np.full(n_classes, np.inf))
    if method == "decomposition":
        try:
            found = _with_errors(moments, over, gold, lambda *part: by_views(*part)[1])
        except NotIdentifiableError:  # fewer items may not determine what all items barely determine
            found = None
        if found is not None and found.is_usable:
            return found
    whole = _iterate_to_convergence(moments, over, gold)

    def refit(moments: Moments, over: EMVotes, gold: ManyGold | None) -> Array:
        return _iterate_to_convergence(moments, over, gold, whole).balance

    return _with_errors(moments, over, gold, refit)


def _with_errors(
    moments: Moments,
    over: EMVotes,
    gold: ManyGold | None,
    balance_of: Callable[[Moments, EMVotes, ManyGold | None], Array],
) -> ManyBalance:
    def without_a_group(rows: NDArray[np.intp]) -> Array:
        part = over.select(rows)
        return balance_of(Moments.of(part.votes, sample_weight=part.weights), part, part.gold)

    balance = balance_of(moments, over, gold)
    # Ten groups may agree by chance, but votes are never more informative than gold labels of all items.
    least = np.sqrt(balance * (1 - balance) / float(moments.n_items))
    n_items = 0 if over.votes is None else over.votes.n_items
    return ManyBalance(balance, np.maximum(group_errors(without_a_group, n_items), least), gold is not None)


def _iterate_to_convergence(
    moments: Moments, over: EMVotes, gold: ManyGold | None, start: Refined | None = None
) -> Refined:
    uniform = np.full(moments.n_classes, 1 / moments.n_classes)
    at = Refined(agreement_tables(moments, gold), uniform) if start is None else start
    for _ in range(_ROUNDS):
        before = at.balance
        at = refine(over, at.tables, at.balance, learn_balance=True, passes=10, gold=gold)
        if np.abs(at.balance - before).max() < _STANDS_STILL:
            break
    return at


def _count_supported_classes(over: EMVotes, gold: ManyGold | None) -> float:
    """Return the largest number of classes whose balance the informative items can determine."""
    if gold is None or over.known is None:
        return _triples(over) / _TRIPLES_A_CLASS
    return _triples(over) + float((over.known >= 0).sum())


def _triples(over: EMVotes) -> float:
    """Return the number of items with at least three votes."""
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
        Whether a missing vote is evidence about the truth.
    method : str
        The method that was used.
    silent : mask of shape (m,)
        Sources that never vote.
    learned_balance : bool
        Whether the method estimated the balance together with the tables.
    """

    balance: Array
    balance_note: str
    tables: ConfusionTables
    silence_counts: bool
    method: str
    silent: NDArray[np.bool_]
    learned_balance: bool = False

    @property
    def accuracies(self) -> Array:
        """P(vote is right | source votes), shape (m,); one half for sources that never vote."""
        return np.where(self.silent, 0.5, self.tables.accuracies(self.balance))


def fit_many(
    moments: Moments,
    balance: Balance,
    over: EMVotes,
    *,
    method: str,
    screen: float | None = None,
    gold: ManyGold | None = None,
) -> ManyFit:
    """Estimate the tables and the balance of K classes.

    Parameters
    ----------
    moments : Moments of K classes
    balance : array of shape (K,), "estimate" or None
        P(Y = k); None for the default of the method.
    over : EMVotes
        The votes that were counted, with gold labels, if they are available.
    method : "agreement", "em" or "decomposition"; or a binary method, for each class against the rest
    screen : float, optional
        Option of the binary method.
    gold : ManyGold or None
        Votes on items with gold labels.
    """
    require_dense(moments, balance, method)
    silent = np.asarray(moments.vote_counts).sum(axis=1) == 0
    if silent.all():
        raise NotIdentifiableError(
            "At least one source must vote; all sources abstain on all "
            f"{format_count(moments.n_items, 'item')}."
        )
    if screen is None:
        return _fit_native(moments, balance, method, over, gold, silent)
    given, note = _initial_balance(
        moments, balance if isinstance(balance, np.ndarray) else None, method, None
    )
    tables = ConfusionTables.of(fit_one_vs_rest(moments, given, method=method, screen=screen))
    return ManyFit(given, note, tables, False, method, silent)


def is_huge(moments: Moments) -> bool:
    """Return whether tables with all cells would not fit into memory."""
    return moments.n_sources * moments.n_classes**2 > LIMITS.get().table_cells


def require_dense(moments: Moments, balance: Balance, method: str) -> None:
    """Raise OptionError if the method needs all cells of all tables and they do not fit into memory."""
    if not is_huge(moments) or (method == "agreement" and not isinstance(balance, str)):
        return
    cells = moments.n_sources * moments.n_classes**2
    raise OptionError(
        "`method` must be 'agreement', with `class_balance` as numbers or None: confusion tables of "
        f"{format_count(moments.n_sources, 'source')} and {moments.n_classes:,} classes have {cells:,} "
        "cells, which do not fit into memory."
    )


def _fit_native(
    moments: Moments,
    balance: Balance,
    method: str,
    over: EMVotes,
    gold: ManyGold | None,
    silent: NDArray[np.bool_],
) -> ManyFit:
    given = balance if isinstance(balance, np.ndarray) else None
    if over.votes is None and (method != "agreement" or isinstance(balance, str)):
        what = f'method="{method}"' if method != "agreement" else 'class_balance="estimate"'
        raise OptionError(
            f"{what} needs the votes themselves, and only counts are available; call fit(votes)."
        )
    origin = ""
    if isinstance(balance, str):
        given, origin = estimate_many_balance(moments, over, method, gold).settled(moments.classes)
    if method == "decomposition":
        tables, settled = by_views(moments, over, gold)
        note = "by three views" if gold is None else "by three views and gold labels"
        if given is not None:
            settled, note = given, origin or "as given"
        return ManyFit(settled, note, ConfusionTables.of(tables), True, method, silent, given is None)
    settled, note = _initial_balance(moments, given, method, gold)
    cells = moments.n_sources * moments.n_classes**2
    if method == "agreement" and cells > LIMITS.get().dense_table_cells:
        sparse = sparse_agreement_tables(moments, gold)
        return ManyFit(settled, origin or note, sparse, False, method, silent)
    tables, learn = agreement_tables(moments, gold), False
    if method == "em":
        learn = given is None and not (gold is not None and _is_mostly_one_sided(moments))
        refined = refine(over, tables, settled, learn_balance=learn, gold=gold)
        tables, settled = refined.tables, refined.balance
    if learn:
        note = "by the labels of ten passes over the votes" + (", gold labels among them" if gold else "")
    full = ConfusionTables.of(with_coverage(tables, moments))
    return ManyFit(settled, origin or note, full, False, method, silent, learn)


def _initial_balance(
    moments: Moments, given: Array | None, method: str, gold: ManyGold | None
) -> tuple[Array, str]:
    """Return the balance to start from, and its origin."""
    if given is not None:
        return given, "as given"
    uniform = np.full(moments.n_classes, 1 / moments.n_classes)
    if gold is None:
        return uniform, "uniform, the default of the method"
    if _is_mostly_one_sided(moments):
        return uniform, "uniform, because most votes are of sources that vote for one class only"
    if method == "em":
        return uniform, "uniform at the start"
    return gold.balance_with_uniform(), f"by {gold.classes.sum():,.10g} gold labels and a uniform balance"


def _is_mostly_one_sided(moments: Moments) -> bool:
    """Return whether most votes are of sources that vote for one class only.

    The votes of such a source carry little information, so that any imbalanced balance would outweigh them.
    """
    cast = np.asarray(moments.vote_counts, np.float64)
    return bool(cast[(cast > 0).sum(axis=1) == 1].sum() > cast.sum() / 2)


def with_coverage(tables: Array, moments: Moments) -> Array:
    """Return tables of sources with the same coverage on all classes, no vote last, shape (m, K, K + 1)."""
    coverage = np.minimum(moments.coverage, 1.0)[:, None, None]
    return np.concatenate([coverage * tables, np.broadcast_to(1 - coverage, (*tables.shape[:2], 1))], axis=2)
