"""Correction of tables by gold labels, each weighted by the number of items behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.binary import BinaryFit, Evidence
from flyingsquid.estimation.conditional import CONDITIONAL
from flyingsquid.estimation.errors import accuracy_errors
from flyingsquid.estimation.sources import SignedMoments, vote_weights
from flyingsquid.estimation.symmetric import triplet_pairs
from flyingsquid.estimation.triplets import all_triplets_mean

Array = NDArray[np.float64]
# An estimate without a standard error counts as this many votes.
_UNKNOWN_WORTH = 5.0


def with_gold(fit: BinaryFit, evidence: Evidence, *, method: str, screen: float) -> BinaryFit:
    """Return the fit with every table moved toward the votes of the source on gold labels.

    An accuracy with standard error s counts as A(1-A)/s² votes. The result is the mean of its table, with
    that many votes, and of the votes on gold labels.
    """
    if evidence.gold is None:
        return fit
    gold, coverage = evidence.gold, np.maximum(evidence.moments.coverage, 1e-12)
    accuracy = np.clip((1 + fit.mean_parameters / coverage) / 2, 0.0, 1.0)
    # The estimate already contains the items with gold labels; their votes count once. At least one vote of
    # the estimate remains, so that votes that do not occur on gold labels are rare, not impossible.
    unseen = max(1 - float(gold.classes.sum() / evidence.moments.n_items), 0.0)
    worth = np.maximum(unseen * _effective_votes(fit, evidence, accuracy, method, screen), 1.0)
    # The number of items of each class that a table counts as.
    items = (worth / coverage)[:, None] * fit.balance
    tables = pool_tables(fit.tables, items, gold.votes)
    accuracy = (accuracy * worth + gold.right) / (worth + gold.cast)
    weights = vote_weights(tables, absence_counts=method in CONDITIONAL)
    # Both sides contain the items with gold labels, so the smaller one adds less information than it has.
    informed = np.maximum(worth, gold.cast) + unseen**2 * np.minimum(worth, gold.cast)
    return replace(
        fit,
        tables=tables,
        weights=np.where(fit.flags.silent[:, None], 0.0, weights),
        mean_parameters=(2 * accuracy - 1) * coverage,
        errors=np.where(fit.flags.silent, np.nan, np.sqrt(accuracy * (1 - accuracy) / (informed + 1))),
        worth=items,
    )


def pool_tables(tables: Array, worth: Array, known: Array) -> Array:
    """Return tables of S states, shape (..., 2, S), moved toward the votes on gold labels.

    ``worth`` of shape (..., 2) is the number of items of each class that a table counts as; ``known`` of
    shape (..., 2, S) counts items with gold labels.
    """
    return np.asarray((tables * worth[..., None] + known) / (worth + known.sum(axis=-1))[..., None])


def _effective_votes(
    fit: BinaryFit, evidence: Evidence, accuracy: Array, method: str, screen: float
) -> Array:
    """Return the number of votes that each estimate counts as, shape (m,).

    Methods without a standard error use that of the most similar method, and sources without one use that of
    the other sources.
    """
    route = {"quadratic": "covariance", "median": "mean", "best": "mean"}
    moments = evidence.moments
    if method == "best":
        pairs = triplet_pairs(moments, SignedMoments.of(moments), fit.flags, fit.separation, screen)
        fit = replace(fit, triplets_used=all_triplets_mean(pairs).used)
    errors = accuracy_errors(moments, fit, method=route.get(method, method), screen=screen, by_hand=False)
    spread = np.maximum(accuracy * (1 - accuracy), 0.25 / moments.n_items)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = spread / errors**2
    known = np.isfinite(worth)
    typical = float(np.median(worth[known])) if known.any() else _UNKNOWN_WORTH
    return np.clip(np.where(known, worth, typical), _UNKNOWN_WORTH, moments.n_items)
