"""Tables corrected by gold labels, each side weighted by how much it has seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.binary import BinaryFit, Evidence
from flyingsquid.estimation.conditional import CONDITIONAL
from flyingsquid.estimation.errors import accuracy_errors
from flyingsquid.estimation.sources import SignedMoments
from flyingsquid.estimation.symmetric import triplet_pairs
from flyingsquid.estimation.tables import vote_weights
from flyingsquid.estimation.triplets import all_triplets_mean
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# What an estimate without a standard error is worth, in votes.
_UNKNOWN_WORTH = 5.0


def with_gold(fit: BinaryFit, evidence: Evidence, *, method: str, screen: float) -> BinaryFit:
    """The fit, with every table pulled towards what the source did on known items.

    An accuracy with standard error s is worth A(1-A)/s² votes. Its table counts as that many votes,
    the known items count as the votes that they are, and the mean of the two is taken.
    """
    if evidence.gold is None:
        return fit
    gold, coverage = evidence.gold, np.maximum(evidence.moments.coverage, 1e-12)
    accuracy = np.clip((1 + fit.mean_parameters / coverage) / 2, 0.0, 1.0)
    # Known items are among those that the estimate was made of; their votes count once. One vote of the
    # estimate stays in any case, so that what never happened on known items is rare, not impossible.
    unseen = max(1 - float(gold.classes.sum() / evidence.moments.n_items), 0.0)
    worth = np.maximum(unseen * _worth_in_votes(fit, evidence, accuracy, method, screen), 1.0)
    items = (worth / coverage)[:, None] * fit.balance  # what a table is worth, in items of each class
    known = gold.votes.sum(axis=2)
    tables = (fit.tables * items[:, :, None] + gold.votes) / (items + known)[:, :, None]
    accuracy = (accuracy * worth + gold.right) / (worth + gold.cast)
    weights = vote_weights(tables, absence_counts=method in CONDITIONAL)
    # The two sides share the known items, so the smaller one adds less than it holds.
    informed = np.maximum(worth, gold.cast) + unseen**2 * np.minimum(worth, gold.cast)
    return replace(
        fit,
        tables=tables,
        weights=np.where(fit.flags.silent[:, None], 0.0, weights),
        mean_parameters=(2 * accuracy - 1) * coverage,
        errors=np.where(fit.flags.silent, np.nan, np.sqrt(accuracy * (1 - accuracy) / (informed + 1))),
        worth=items,
    )


def unit_with_gold(table: Array, worth: Array, known: Array) -> Array:
    """The table of a unit, shape (2, 3^s), pulled towards what its sources did on known items.

    ``worth`` of shape (2,) is what the table counts as, in items of each class; ``known`` of shape (2, 3^s)
    counts known items.
    """
    return np.asarray((table * worth[:, None] + known) / (worth + known.sum(axis=1))[:, None])


def _worth_in_votes(fit: BinaryFit, evidence: Evidence, accuracy: Array, method: str, screen: float) -> Array:
    """How many votes each estimate is worth, shape (m,).

    Methods without a standard error borrow that of their nearest relative, sources without one that of
    the others.
    """
    route = {"quadratic": "covariance", "median": "mean", "best": "mean"}
    moments = evidence.moments
    nearest = replace(fit, triplets_used=_all_triplets(fit, moments, screen)) if method == "best" else fit
    errors = accuracy_errors(moments, nearest, method=route.get(method, method), screen=screen, by_hand=False)
    spread = np.maximum(accuracy * (1 - accuracy), 0.25 / moments.n_items)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = spread / errors**2
    known = np.isfinite(worth)
    typical = float(np.median(worth[known])) if known.any() else _UNKNOWN_WORTH
    return np.clip(np.where(known, worth, typical), _UNKNOWN_WORTH, moments.n_items)


def _all_triplets(fit: BinaryFit, moments: Moments, screen: float) -> NDArray[np.int64]:
    signed = SignedMoments.of(moments)
    return all_triplets_mean(triplet_pairs(moments, signed, fit.flags, fit.separation, screen)).used
