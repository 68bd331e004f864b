"""Fit of votes with features: the fit of the votes, and the evidence of features."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.features import FeatureEffect, fit_features
from flyingsquid.exceptions import IncompatibleError, ModelFileError
from flyingsquid.files.fields import OBJECT, TEXT, check_fields, finite, integer
from flyingsquid.files.state import State
from flyingsquid.fits.base import DOUBLE, Array, Fit, ItemScores, PosteriorParameters
from flyingsquid.fits.corrected import CorrectedFit
from flyingsquid.fits.diagnostics import Diagnostics
from flyingsquid.fits.explanation import Explanation
from flyingsquid.fits.files import read_array
from flyingsquid.fits.graph import GraphFit
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.features import FeatureWeights, Learner
from flyingsquid.moments import Moments
from flyingsquid.votes.codes import Codes, keep_sources
from flyingsquid.votes.feature_items import FeatureItems
from flyingsquid.votes.features import MOST_COLUMNS, N_FOLDS, Features
from flyingsquid.votes.tallies import item_votes

_BASES: dict[str, type[Fit]] = {fit.TAG: fit for fit in (IndependentFit, WeightedFit, CorrectedFit, GraphFit)}
# Larger values in a file are rejected; no fit produces them.
_LARGEST = 1e6
_COUNTS = ("n_items", "n_columns", "n_changed", "n_labeled", "n_gold", "n_seen")
_EFFECT = {
    **dict.fromkeys(_COUNTS, integer()),
    "weight": finite(0, 3),
    "contradiction": finite(0, 1),
    **dict.fromkeys(("votes_gain", "features_gain", "both_gain", "z"), finite()),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureFit(Fit):
    """Fit of votes to which features add evidence.

    All methods except :meth:`feature_log_odds` delegate to the fit of the votes. Labels without features are
    therefore the same as if the model had been fitted without features.

    Attributes
    ----------
    base : Fit
        The fit of the votes.
    by_features : FeatureWeights
    effect : FeatureEffect
        Contribution of the features.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> data = fs.datasets.load_breast_cancer()
    >>> fit = fs.LabelModel().fit(data.votes, features=data.features).fit_
    >>> type(fit).__name__, type(fit.base).__name__, fit.effect.n_columns
    ('FeatureFit', 'WeightedFit', 30)
    """

    TAG = "features"

    base: Fit
    by_features: FeatureWeights
    effect: FeatureEffect

    @classmethod
    def of(cls, base: Fit, by_features: FeatureWeights, effect: FeatureEffect) -> Self:
        """Return a fit of votes with features."""
        kept = {each.name: getattr(base, each.name) for each in fields(Fit)}
        return cls(**kept, base=base, by_features=by_features, effect=effect)

    @classmethod
    def learn(cls, base: Fit, items: FeatureItems, votes_on: Array) -> Self:
        """Learn from features of items with votes, and add them to the fit of the votes.

        ``base`` must have one task. ``votes_on`` (m,) is the number of votes of each source.
        """
        codes = items.votes.codes

        def posterior_of(kept: NDArray[np.bool_], at: NDArray[np.intp]) -> Array:
            return np.asarray(base.posterior(keep_sources(codes[at], kept))[:, 0])

        weights, effect = fit_features(
            items.features,
            posterior_of,
            np.asarray(base.posterior(codes)[:, 0]),
            item_votes(codes).cast > 0,
            votes_on,
            base.source_groups,
            weights=items.weights,
            gold=items.gold,
            n_seen=items.n_seen,
        )
        reason = "; ".join(part for part in (base.reason, effect.sentence()) if part)
        return replace(cls.of(base, weights, effect), reason=reason)

    def feature_log_odds(self, codes: Codes, features: Features) -> Array:
        if features.n_columns != self.effect.n_columns:
            raise IncompatibleError(
                f"`features` must have {self.effect.n_columns:,} columns, as in the fit; got "
                f"{features.n_columns:,}."
            )
        if not self.effect.is_used:
            return np.zeros((features.n_items, len(self.classes)))
        posterior = np.asarray(self.base.posterior(codes)[:, 0])
        return self.by_features.log_odds(posterior, item_votes(codes).cast > 0, features)

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        return self.base.posterior(codes, dtype)

    def evidence(self, codes: Codes) -> Array:
        return self.base.evidence(codes)

    def likelihoods(self, codes: Codes) -> Array:
        return self.base.likelihoods(codes)

    def log_likelihood(self, codes: Codes) -> Array:
        return self.base.log_likelihood(codes)

    def explain(self, codes_row: NDArray[Any], task: int = 0, adds: Array | None = None) -> Explanation:
        return self.base.explain(codes_row, task, adds)

    def parameters(self) -> PosteriorParameters:
        return self.base.parameters()

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        return self.base.item_scores(balance)

    @property
    def source_groups(self) -> NDArray[np.intp]:
        return self.base.source_groups

    def diagnose(self, moments: Moments) -> Diagnostics:
        return replace(self.base.diagnose(moments), reason=self.reason, features=self.effect)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        return self.diagnose(moments)

    def to_state(self, moments: Moments) -> State:
        base = replace(self.base, reason=self.reason).to_state(moments)
        extra_meta, extra_arrays = self._extra_state()
        return State(
            self.TAG, {**base.meta, "base": base.kind, **extra_meta}, {**base.arrays, **extra_arrays}
        )

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {**self.by_features.learner._asdict(), "offsets": self.by_features.offsets}
        meta = {"effect": asdict(self.effect), "slope": arrays.pop("slope")}
        return meta, {f"feature_{name}": np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        check_fields(state.meta, {"base": TEXT, "effect": OBJECT, "slope": finite(0, 1)}, "fit.")
        check_fields(state.meta["effect"], _EFFECT, "fit.effect.")
        if state.meta["base"] not in _BASES:
            raise ModelFileError("`fit.base` in the file must be the tag of a fit of votes.")
        if not state.meta["slope"] > 0:
            raise ModelFileError("`fit.slope` in the file must be > 0.")
        base = _BASES[state.meta["base"]].from_state(state, moments)
        effect = FeatureEffect(**{name: state.meta["effect"][name] for name in _EFFECT})
        width, k = min(effect.n_columns, MOST_COLUMNS), moments.n_classes

        def read(name: str, shape: tuple[int, ...], low: float = -_LARGEST, high: float = _LARGEST) -> Array:
            return read_array(state, f"feature_{name}", shape, low=low, high=high)

        learner = Learner(
            means=read("means", (width,), -1e308, 1e308),
            scales=read("scales", (width,), 0.0, 1e308),
            intercepts=read("intercepts", (N_FOLDS, k)),
            coefficients=read("coefficients", (N_FOLDS, width, k)),
            balance=read("balance", (k,), 0.0, 1.0),
            slope=float(state.meta["slope"]),
        )
        offsets = read("offsets", (2, k))
        return cls.of(base, FeatureWeights(learner, float(effect.weight), offsets), effect)
