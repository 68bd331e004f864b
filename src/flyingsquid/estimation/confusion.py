"""Confusion tables of K classes: one class against the rest, passes over the votes, or three views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

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
from flyingsquid.estimation.balance import UNIFORM_NOTE
from flyingsquid.estimation.binary import Balance, Evidence, fit_binary
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.estimation.standard_errors import group_errors, pool_tables
from flyingsquid.estimation.triplets import Options
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot, VoteFeatures
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
_LARGEST_STANDARD_ERROR = 0.075
# Passes end when no class changes by more than this, or after this many rounds of ten; ten passes are not
# enough for weak sources (docs/design/0007-many-classes.md, l).
_TOLERANCE, _ROUNDS = 1e-4, 20
# With fewer items that have three votes, per class, triples of votes determine nothing. With gold labels the
# standard error decides, unless there are fewer items than classes, which cannot be enough.
_TRIPLES_PER_CLASS = 10.0
_MOST_NAMED = 6


def estimate_many_balance(moments: Moments, over: EMVotes, gold: GoldCounts | None) -> tuple[Array, Array]:
    """Estimate P(Y = k) by passes over the votes until they converge.

    Returns
    -------
    balance, errors : arrays of shape (K,)
        The estimate and its standard errors, which are infinite if there are too few votes.
    """
    n_classes = moments.n_classes
    uniform = np.full(n_classes, 1 / n_classes)
    if _count_supported_classes(over, gold) < n_classes:
        return uniform, np.full(n_classes, np.inf)
    start = Refined(agreement_tables(moments, gold), uniform)
    whole = _iterate_to_convergence(over, gold, start)

    def fit_without_group(rows: NDArray[np.intp]) -> Array:
        part = over.select(rows)
        return _iterate_to_convergence(part, part.gold, whole).balance

    # Ten groups may agree by chance, but votes are never more informative than gold labels of all items.
    least = np.sqrt(whole.balance * (1 - whole.balance) / float(moments.n_items))
    return whole.balance, np.maximum(group_errors(fit_without_group, over.votes.n_items), least)


def _iterate_to_convergence(over: EMVotes, gold: GoldCounts | None, start: Refined) -> Refined:
    at = start
    for _ in range(_ROUNDS):
        before = at.balance
        at = refine(over, at.tables, at.balance, learn_balance=True, passes=10, gold=gold)
        if np.abs(at.balance - before).max() < _TOLERANCE:
            break
    return at


def _count_supported_classes(over: EMVotes, gold: GoldCounts | None) -> float:
    """Return the largest number of classes whose balance the informative items can determine."""
    voted = item_votes(over.votes.codes).n_votes >= 3
    triples = float(voted.sum() if over.weights is None else np.asarray(over.weights)[voted].sum())
    if gold is None or over.known is None:
        return triples / _TRIPLES_PER_CLASS
    return triples + float((over.known >= 0).sum())


def _usable_balance(moments: Moments, over: EMVotes, gold: GoldCounts | None) -> tuple[Array, str]:
    """Return the estimated balance, or a uniform one if it is too uncertain, and its origin, for messages."""
    classes = moments.classes
    balance, errors = estimate_many_balance(moments, over, gold)
    if errors.max() > _LARGEST_STANDARD_ERROR:
        uniform = np.full(len(classes), 1 / len(classes))
        return uniform, f"uniform, because the votes do not determine it (P ± {errors.max():.2g})"
    origin = "votes" if gold is None else "votes and gold labels"
    named = [
        f"{label} {p:.3f} ± {error:.2g}" for label, p, error in zip(classes, balance, errors, strict=True)
    ]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return balance, f"estimated from {origin}: {', '.join(named[:_MOST_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class ManyFit:
    """Parameters of one task with K classes.

    Attributes
    ----------
    balance : array of shape (K,)
    balance_note : origin of the balance, for messages
    tables : ConfusionTables
        P(vote = v | Y = k), no vote last.
    silent : mask of shape (m,)
        Sources that never vote.
    learned_balance : bool
        Whether the method estimated the balance together with the tables.
    """

    balance: Array
    balance_note: str
    tables: ConfusionTables
    silent: NDArray[np.bool_]
    learned_balance: bool = False

    @property
    def accuracies(self) -> Array:
        """P(vote is right | source votes), shape (m,); one half for sources that never vote."""
        return np.where(self.silent, 0.5, self.tables.accuracies(self.balance))


def fit_many(
    moments: Moments,
    balance: Balance,
    over: EMVotes | None,
    *,
    method: str,
    screen: float | None = None,
    gold: GoldCounts | None = None,
) -> ManyFit:
    """Estimate the tables and the balance of K classes.

    Parameters
    ----------
    moments : Moments of K classes
    balance : array of shape (K,), "estimate" or None
        P(Y = k); None for the default of the method.
    over : EMVotes or None
        The votes that were counted, with gold labels; None if only counts are available.
    method : "agreement", "em" or "decomposition"; or a binary method, for each class against the rest
    screen : float, optional
        Option of the binary method.
    gold : GoldCounts or None
        Votes on items with gold labels.
    """
    require_dense(moments, balance, method)
    silent = np.asarray(moments.vote_counts).sum(axis=1) == 0
    if silent.all():
        raise NotIdentifiableError(
            "At least one source must vote; all sources abstain on all "
            f"{format_count(moments.n_items, 'item')}."
        )
    given, note = (balance, "as given") if isinstance(balance, np.ndarray) else (None, "")
    if isinstance(balance, str):
        given, note = _usable_balance(moments, _require_votes(over, 'class_balance="estimate"'), gold)
    if method == "decomposition":
        tables, settled = by_views(moments, _require_votes(over, 'method="decomposition"'), gold)
        if given is None:
            note = "by three views" if gold is None else "by three views and gold labels"
        else:
            settled = given
        return ManyFit(settled, note, ConfusionTables.of(tables), silent, given is None)
    if given is None:
        settled, note = _default_balance(moments, method, gold)
    else:
        settled = given
    if screen is not None:
        tables = fit_one_vs_rest(moments, settled, method=method, screen=screen)
        return ManyFit(settled, note, ConfusionTables.of(tables), silent)
    cells = moments.n_sources * moments.n_classes**2
    if method == "agreement" and cells > LIMITS.get().dense_table_cells:
        return ManyFit(settled, note, sparse_agreement_tables(moments, gold), silent)
    tables, learn = agreement_tables(moments, gold), False
    if method == "em":
        learn = given is None and not (gold is not None and _is_mostly_one_sided(moments))
        passes = _require_votes(over, 'method="em"')
        tables, settled = refine(passes, tables, settled, learn_balance=learn, gold=gold)
    if learn:
        note = "by the labels of ten passes over the votes" + (", gold labels among them" if gold else "")
    return ManyFit(settled, note, ConfusionTables.of(with_coverage(tables, moments)), silent, learn)


def _require_votes(over: EMVotes | None, option: str) -> EMVotes:
    if over is None:
        raise OptionError(
            f"{option} needs the votes themselves, and only counts are available; call fit(votes)."
        )
    return over


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


def _default_balance(moments: Moments, method: str, gold: GoldCounts | None) -> tuple[Array, str]:
    """Return the balance to start from if none was given, and its origin."""
    uniform = np.full(moments.n_classes, 1 / moments.n_classes)
    if gold is None:
        return uniform, UNIFORM_NOTE
    if _is_mostly_one_sided(moments):
        return uniform, "uniform, because most votes are of sources that vote for one class only"
    if method == "em":
        return uniform, "uniform at the start"
    return gold.balance_with_uniform(), f"by {gold.classes.sum():,.10g} gold labels and a uniform balance"


def _is_mostly_one_sided(moments: Moments) -> bool:
    """Return whether most votes are of sources that vote for one class only.

    The votes of such a source carry little information, so that any imbalanced balance would outweigh them.
    """
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    return bool(vote_counts[(vote_counts > 0).sum(axis=1) == 1].sum() > vote_counts.sum() / 2)


def with_coverage(tables: Array, moments: Moments) -> Array:
    """Return tables of sources with the same coverage on all classes, no vote last, shape (m, K, K + 1)."""
    coverage = np.minimum(moments.coverage, 1.0)[:, None, None]
    return np.concatenate([coverage * tables, np.broadcast_to(1 - coverage, (*tables.shape[:2], 1))], axis=2)


# ---------------------------------------------------------------------- three views


# The weakest of the K directions must exceed the noise by this factor.
_NEEDED_STRENGTH = 2.0
# Lower bound of probabilities and of the class balance.
_FLOOR = 1e-9
# Upper bound of the evidence of a single vote on a gold label against a class.
_LEAST_SURE = 0.02


class Views(NamedTuple):
    """Parameters estimated by three views.

    Attributes
    ----------
    tables : array of shape (m, K, K + 1), axes source, truth, vote
        P(source i votes v | Y = k), no vote last.
    balance : array of shape (K,)
    """

    tables: Array
    balance: Array


def three_views(
    votes: Votes,
    weights: NDArray[Any] | None,
    groups: NDArray[np.intp],
    own: NDArray[np.bool_] | None = None,
    *,
    known: Array | None = None,
    instead: str = 'use method="agreement"',
) -> Views:
    """Decompose the triples of votes.

    Parameters
    ----------
    votes : Votes of shape (n, m)
    weights : array of shape (n,), or None
        How often each item counts.
    groups : integer array of shape (m,)
        Sources with equal numbers may depend on each other, and stay in one view.
    known : array of shape (m, K, K), axes source, truth, vote, or None
        Votes on gold labels. Without them the classes are assigned such that most votes are correct.
    own : mask of shape (m,), or None for all
        Sources that vote on the task itself. Only they determine the order of the classes, because those of
        other tasks may contradict it.
    instead : str
        Advice for the error message.

    Raises
    ------
    NotIdentifiableError
        If there are no three views that each distinguish all classes.
    """
    try:
        everyone = np.ones(votes.n_sources, np.bool_)
        return _decomposed(votes, weights, groups, everyone if own is None else own, known)
    except NotIdentifiableError as error:
        raise NotIdentifiableError(f"{str(error).rstrip('.')}, or {instead}.") from error


def _decomposed(
    votes: Votes,
    weights: NDArray[Any] | None,
    groups: NDArray[np.intp],
    own: NDArray[np.bool_],
    known: Array | None,
) -> Views:
    m, n_classes = votes.n_sources, votes.n_classes
    one_hot = OneHot.of(votes.codes, n_classes)
    share = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    total = float(share.sum())
    share = share / total
    places = split_views(one_hot.vote_sums(share).T, groups)
    features = [one_hot.features(place) for place in places]
    tables, balances = [], []
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        means = _view_means(features[a], features[b], features[c], share, n_classes, total)
        balance: Array = np.linalg.lstsq(means, features[a].sums(share), rcond=None)[0]
        if not (balance > _FLOOR).all():
            raise NotIdentifiableError(
                f'method="decomposition" found an invalid class balance {np.round(balance, 3).tolist()}: '
                "there are too few items, or sources depend on each other. Add items."
            )
        found = np.empty((m, n_classes, n_classes))  # source, vote, truth
        found[places[a]] = _by_source(means, len(places[a]), n_classes)
        inverse = np.linalg.pinv(means.T) / balance
        for view in (b, c):
            products = features[view].products(features[a], share)
            found[places[view]] = _by_source(products @ inverse, len(places[view]), n_classes)
        order = _names(found[own], None if known is None else known[own])
        tables.append(found[:, :, order].transpose(0, 2, 1))
        balances.append(balance[order])
    mean_balance = np.maximum(np.mean(balances, axis=0), _FLOOR)
    clipped = np.clip(np.mean(tables, axis=0), _FLOOR, 1.0)
    clipped = clipped / np.maximum(clipped.sum(axis=2, keepdims=True), 1.0)
    missing = np.maximum(1 - clipped.sum(axis=2, keepdims=True), 0.0)
    return Views(np.concatenate([clipped, missing], axis=2), mean_balance / mean_balance.sum())


def _names(found: Array, known: Array | None) -> NDArray[np.intp]:
    """Assign classes to the columns of ``found``, shape (m, K, K) with axes source, vote, truth."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # slow to import

    by_votes = found.sum(axis=0)
    if known is None:
        return np.asarray(linear_sum_assignment(-by_votes)[1])
    # By gold labels; for a class without any, most votes should be correct.
    likely = np.einsum("ikv,ivc->kc", known, np.log(np.clip(found, _LEAST_SURE, 1.0)))
    return np.asarray(linear_sum_assignment(-(likely + 1e-3 * by_votes))[1])


def split_views(rates: Array, groups: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Divide groups of sources into three views that all cover the classes well.

    ``rates`` of shape (m, K) are the rates of votes of each source. Groups that vote most are assigned first,
    each to the view with the fewest votes for its classes.

    >>> [view.tolist() for view in split_views(np.ones((6, 3)), np.arange(6))]
    [[0, 3], [1, 4], [2, 5]]
    """
    numbers = np.unique(groups)
    sums = np.stack([rates[groups == g].sum(axis=0) for g in numbers])
    seen, views = np.zeros((3, rates.shape[1])), [[], [], []]  # type: ignore[var-annotated]
    for g in np.argsort(-sums.sum(axis=1), kind="stable"):
        # The gain of a view by a group decreases with the votes that it has already, class by class.
        gain = (np.sqrt(seen + sums[g]) - np.sqrt(seen)).sum(axis=1)
        least = np.array([len(view) for view in views])
        view = int(np.lexsort((least, -np.round(gain, 12)))[0])
        seen[view] += sums[g]
        views[view].append(numbers[g])
    if any(not view for view in views):
        raise NotIdentifiableError(
            'method="decomposition" needs at least three sources that are independent given the truth. '
            "Add sources."
        )
    return [np.flatnonzero(np.isin(groups, view)) for view in views]


def _view_means(
    xa: VoteFeatures, xb: VoteFeatures, xc: VoteFeatures, share: Array, n_classes: int, n_items: float
) -> Array:
    """Return E[x_a | Y = k] as columns, shape (1 + K s, K), in any order."""
    second = xa.products(xb, share)
    left, sizes, right = np.linalg.svd(second, full_matrices=False)
    if len(sizes) < n_classes:
        raise NotIdentifiableError(
            f'method="decomposition" needs votes for at least {n_classes} classes in each of three groups '
            f"of sources; one group has {len(sizes) - 1}. Add sources that vote for more classes."
        )
    strength = float(sizes[n_classes - 1] * np.sqrt(n_items))
    if strength < _NEEDED_STRENGTH:
        raise NotIdentifiableError(
            f'method="decomposition" cannot distinguish the {n_classes} classes: the weakest direction is '
            f"{strength:.2g} standard errors above the noise. Add items or sources."
        )
    left, right = left[:, :n_classes], right[:n_classes].T
    # Different weights for the classes, of similar size, make the eigenvalues differ. They follow the ranks
    # of the classes by votes, so that the order of the classes does not matter.
    often = xc.votes.vote_sums(share).sum(axis=1)
    rank = np.argsort(np.argsort(often))
    by_class = np.cos(np.pi * (rank + 0.5) / n_classes)
    score = xc.votes @ np.repeat(by_class, xc.votes.n_sources)
    third = xa.products(xb, share * score)
    core = left.T @ third @ right @ np.linalg.inv(left.T @ second @ right)
    means = left @ np.real(np.linalg.eig(core)[1])
    if (np.abs(means[0]) < _FLOOR).any():
        raise NotIdentifiableError(
            'method="decomposition" estimated that a class never occurs. Add items or sources.'
        )
    return np.asarray(means / means[0])


def _by_source(means: Array, n_sources: int, n_classes: int) -> Array:
    """Return the rows of a view without its constant, shape (s, K, K) with axes source, vote, truth."""
    return means[1:].reshape(n_classes, n_sources, n_classes).transpose(1, 0, 2)


# Share of the information of gold labels on all items that triples of votes have; a conservative guess.
_SHARE_OF_GOLD = 0.1


def by_views(moments: Moments, passes: EMVotes, gold: GoldCounts | None) -> tuple[Array, Array]:
    """Estimate tables P(vote | Y), no vote last, shape (m, K, K + 1), and the balance.

    With gold labels both are means, in which the three views count as a tenth of all items.
    """
    counts = None if gold is None else gold.tables
    known = None if counts is None else counts[:, :, :-1]
    views = three_views(passes.votes, passes.weights, np.arange(moments.n_sources), known=known)
    if gold is None or counts is None:
        return views.tables, views.balance
    worth = _SHARE_OF_GOLD * float(moments.n_items)
    return pool_tables(views.tables, worth * views.balance, counts), gold.balance(views.balance, worth)
