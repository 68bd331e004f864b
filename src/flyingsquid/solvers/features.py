"""Features added to the fit of any solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.features import fit_features
from flyingsquid.exceptions import OptionError
from flyingsquid.fits.base import Fit
from flyingsquid.fits.features import FeatureFit
from flyingsquid.solvers.base import FitData
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import keep_sources
from flyingsquid.votes.features import Features
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


def votes_with_features(data: FitData) -> Votes:
    """Return the votes on all items; raise OptionError if the data does not support features."""
    if data.votes is None or data.rows != "all":
        raise OptionError(
            "`features` is not supported with VoteChunks and clusters; pass the votes as an array.",
            parameter="features",
        )
    graph = data.moments.graph
    if graph is not None and graph.n_tasks > 1:
        raise OptionError(
            f"`features` is not supported with several tasks; got a graph with {graph.n_tasks} tasks.",
            parameter="features",
        )
    return data.votes


def add_features(fit: Fit, data: FitData, features: Features) -> Fit:
    """Return a fit of votes to which features add evidence.

    Parameters
    ----------
    fit : Fit
        Fit of the votes by any solver, with one task.
    data : FitData
        Data with the votes on all items.
    features : Features of the same items
    """
    codes = votes_with_features(data).codes

    def posterior_of(kept: NDArray[np.bool_], items: NDArray[np.intp]) -> Array:
        return np.asarray(fit.posterior(keep_sources(codes[items], kept))[:, 0])

    weights, effect = fit_features(
        features,
        posterior_of,
        np.asarray(fit.posterior(codes)[:, 0]),
        item_votes(codes).cast > 0,
        np.asarray(data.moments.vote_counts, np.float64).sum(axis=1),
        fit.source_groups,
        weights=None if data.weights is None else np.asarray(data.weights, np.float64),
        gold=None if data.gold is None else np.asarray(data.gold[:, 0], np.intp),
    )
    combined = FeatureFit.of(fit, weights, effect)
    reason = "; ".join(part for part in (fit.reason, effect.sentence()) if part)
    return replace(combined, reason=reason)
