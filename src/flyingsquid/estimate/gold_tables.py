"""Tables corrected by known labels, each side weighted by how much it has seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate.binary import BinaryFit, Evidence
from flyingsquid.estimate.intervals import accuracy_errors
from flyingsquid.estimate.tables import vote_weights

Array = NDArray[np.float64]
# What an estimate without a standard error is worth, in votes.
_UNKNOWN_WORTH = 5.0


def with_gold(fit: BinaryFit, evidence: Evidence, *, method: str, screen: float, by_hand: bool) -> BinaryFit:
    """The fit, with every table pulled towards what the source did on known items.

    An accuracy with standard error s is worth A(1-A)/s² votes. Its table counts as that many votes,
    the known items count as the votes that they are, and the mean of the two is taken.
    """
    if evidence.gold is None:
        return fit
    gold, coverage = evidence.gold, np.maximum(evidence.moments.coverage, 1e-12)
    accuracy = np.clip((1 + fit.mean_parameters / coverage) / 2, 0.0, 1.0)
    route = {"quadratic": "covariance", "triplet_median": "triplet_mean"}.get(method, method)
    errors = accuracy_errors(evidence.moments, fit, method=route, screen=screen, by_hand=by_hand)
    spread = np.maximum(accuracy * (1 - accuracy), 0.25 / evidence.moments.n_items)
    with np.errstate(divide="ignore"):
        worth = np.where(np.isfinite(errors), spread / errors**2, _UNKNOWN_WORTH)
    worth = np.clip(worth, _UNKNOWN_WORTH, evidence.moments.n_items)
    items = (worth / coverage)[:, None] * fit.balance  # what a table is worth, in items of each class
    known = gold.votes.sum(axis=2)
    tables = (fit.tables * items[:, :, None] + gold.votes) / (items + known)[:, :, None]
    accuracy = (accuracy * worth + gold.right) / (worth + gold.cast)
    absence = bool((fit.weights[:, 2] != 0).any())
    return replace(
        fit,
        tables=tables,
        weights=vote_weights(tables, absence_counts=absence),
        mean_parameters=(2 * accuracy - 1) * coverage,
        errors=np.where(
            fit.flags.silent, np.nan, np.sqrt(accuracy * (1 - accuracy) / (worth + gold.cast + 1))
        ),
    )
