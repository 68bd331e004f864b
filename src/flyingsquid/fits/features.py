"""Contribution of features to a fit of votes: learned weights, and their effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.features import FeatureEffect, fit_features
from flyingsquid.exceptions import IncompatibleError, ModelFileError
from flyingsquid.files.fields import OBJECT, check_fields, finite, integer, read_array
from flyingsquid.files.state import State
from flyingsquid.inference.features import FeatureWeights, Learner
from flyingsquid.votes.codes import Codes, keep_sources
from flyingsquid.votes.features import MOST_COLUMNS, N_FOLDS, FeatureItems, Features
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
# Larger values in a file are rejected; no fit produces them.
_LARGEST = 1e6
_COUNTS = ("n_items", "n_columns", "n_changed", "n_labeled", "n_gold", "n_seen")
_EFFECT = {
    **dict.fromkeys(_COUNTS, integer()),
    "weight": finite(0, 3),
    "contradiction": finite(0, 1),
    **dict.fromkeys(("votes_gain", "features_gain", "both_gain", "z"), finite()),
}


@dataclass(frozen=True, slots=True, eq=False)
class FeatureEvidence:
    """Evidence of features, which a fit adds to that of the votes if the features of items are given.

    Attributes
    ----------
    weights : FeatureWeights
    effect : FeatureEffect
        Contribution of the features.
    """

    weights: FeatureWeights
    effect: FeatureEffect

    @classmethod
    def learn(
        cls,
        label: Callable[[Codes], Array],
        items: FeatureItems,
        votes_on: Array,
        source_groups: NDArray[np.intp],
    ) -> Self:
        """Learn from features of items with votes.

        ``label`` returns the posteriors (n, K) of codes by the votes alone; ``votes_on`` (m,) is the number
        of votes of each source.
        """
        codes = items.votes.codes

        def posterior_of(kept: NDArray[np.bool_], at: NDArray[np.intp]) -> Array:
            return label(keep_sources(codes[at], kept))

        return cls(
            *fit_features(
                items.features,
                posterior_of,
                label(codes),
                item_votes(codes).cast > 0,
                votes_on,
                source_groups,
                weights=items.weights,
                gold=items.gold,
                n_seen=items.n_seen,
            )
        )

    def log_odds(self, posterior: Array, codes: Codes, features: Features) -> Array:
        """Return what features add to the log probabilities, shape (n, K)."""
        if features.n_columns != self.effect.n_columns:
            raise IncompatibleError(
                f"`features` must have {self.effect.n_columns:,} columns, as in the fit; got "
                f"{features.n_columns:,}."
            )
        if not self.effect.is_used:
            return np.zeros(posterior.shape)
        return self.weights.log_odds(posterior, item_votes(codes).cast > 0, features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return JSON values and arrays, for the state of a fit."""
        arrays = {**self.weights.learner._asdict(), **self.weights._asdict()}
        del arrays["learner"]
        meta = {"effect": asdict(self.effect), "slope": arrays.pop("slope")}
        return meta, {f"feature_{name}": np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: State, n_classes: int) -> Self | None:
        """Return the evidence from the state of a fit, checked; None for a fit without features."""
        if "effect" not in state.meta:
            return None
        check_fields(state.meta, {"effect": OBJECT, "slope": finite(0, 1)}, "fit.")
        check_fields(state.meta["effect"], _EFFECT, "fit.effect.")
        if not state.meta["slope"] > 0:
            raise ModelFileError("`fit.slope` in the file must be > 0.")
        effect = FeatureEffect(**{name: state.meta["effect"][name] for name in _EFFECT})
        width = min(effect.n_columns, MOST_COLUMNS)

        def read(name: str, shape: tuple[int, ...], low: float = -_LARGEST, high: float = _LARGEST) -> Array:
            return read_array(state, f"feature_{name}", shape, low=low, high=high)

        learner = Learner(
            means=read("means", (width,), -1e308, 1e308),
            scales=read("scales", (width,), 0.0, 1e308),
            intercepts=read("intercepts", (N_FOLDS, n_classes)),
            coefficients=read("coefficients", (N_FOLDS, width, n_classes)),
            balance=read("balance", (n_classes,), 0.0, 1.0),
            slope=float(state.meta["slope"]),
        )
        shares, offsets = read("shares", (2,), 0.0, 1.0), read("offsets", (2, n_classes))
        return cls(FeatureWeights(learner, shares, offsets), effect)
