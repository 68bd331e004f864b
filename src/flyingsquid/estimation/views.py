"""Decomposition of triples of votes into three views: tables, class balance and the order of classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.agreement import EMVotes
from flyingsquid.estimation.errors import pool_tables
from flyingsquid.estimation.gold import ManyGold
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import OneHot, VoteFeatures

Array = NDArray[np.float64]
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
    cast = OneHot.of(votes.codes, n_classes)
    share = np.ones(votes.n_items) if weights is None else np.asarray(weights, np.float64)
    total = float(share.sum())
    share = share / total
    places = split_views(cast.vote_sums(share).T, groups)
    features = [cast.features(place) for place in places]
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
_WORTH = 0.1


def by_views(moments: Moments, passes: EMVotes, gold: ManyGold | None) -> tuple[Array, Array]:
    """Estimate tables P(vote | Y), no vote last, shape (m, K, K + 1), and the balance.

    With gold labels both are means, in which the three views count as a tenth of all items.
    """
    votes_known = None
    if gold is not None:
        votes_known = gold.votes.to_array().transpose(0, 2, 1)
    views = three_views(passes.votes, passes.weights, np.arange(moments.n_sources), known=votes_known)
    if gold is None or votes_known is None:
        return views.tables, views.balance
    worth = _WORTH * float(moments.n_items)
    unseen = gold.classes[:, None] - votes_known.sum(axis=2)[:, :, None]
    counts = np.concatenate([votes_known, np.maximum(unseen, 0.0)], axis=2)
    return pool_tables(views.tables, worth * views.balance, counts), gold.balance(views.balance, worth)
