"""Interface of fitted parameters: everything a fitted model can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import exp
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.binary import BinaryFit
from flyingsquid.estimation.features import FeatureEffect, fit_features
from flyingsquid.estimation.intervals import intervals_around
from flyingsquid.estimation.mixture import Gain
from flyingsquid.estimation.transition import Transition, fit_transition, fit_transition_many
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.state import (
    BOOLEAN,
    OBJECT,
    TEXT,
    State,
    check_fields,
    finite,
    integer,
    list_of,
    optional,
    read_array,
)
from flyingsquid.fits.diagnostics import Diagnostics, Verdict, names_in
from flyingsquid.fits.explanation import Contribution, Explanation, build_explanation, next_best_and_best
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference.features import FeatureWeights, Learner, combine
from flyingsquid.moments import ConfusionTables, Moments, SequenceMoments
from flyingsquid.votes.codes import Codes, Label, keep_sources
from flyingsquid.votes.features import MOST_COLUMNS, N_FOLDS, FeatureItems, Features
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class ItemScores:
    """Lookup tables that label one item of two classes quickly.

    Attributes
    ----------
    adds : array of shape (m, 3, r)
        Contribution of each vote, no vote last, to r sums.
    finish : callable
        Turns the r sums into the two probabilities.
    """

    adds: Array
    finish: Callable[[Sequence[float]], tuple[float, float]]


def probabilities_of(log_odds: float) -> tuple[float, float]:
    """Return the probabilities of two classes from the log odds of the second.

    >>> probabilities_of(0.0)
    (0.5, 0.5)
    """
    # From the smaller probability, which rounding of the larger one would lose.
    small = exp(-abs(log_odds))
    unlikely, likely = small / (1 + small), 1 / (1 + small)
    return (likely, unlikely) if log_odds < 0 else (unlikely, likely)


class RowEvidence(NamedTuple):
    """Evidence of the rows of sequences, each array of shape (T, K), up to a constant per row.

    Attributes
    ----------
    alone : array
        log P(Y(t) = k | votes on the row itself).
    shared : array
        log P(votes on the row | Y(t) = k): the evidence that the row provides for its neighbors.
    """

    alone: Array
    shared: Array


@dataclass(frozen=True, eq=False)
class Assessment:
    """Standard errors and diagnostics of a fit that cannot be computed from its parameters alone.

    Solvers subclass this and override :attr:`computed` to compute them on demand.

    Attributes
    ----------
    errors : array of shape (m,), optional
        Standard errors of the accuracies from sampling; unknown by default.
    reach : array of shape (m, 2), optional
        Largest distance of the true accuracies below and above the estimates if the model is wrong; NaN if
        the votes do not determine them.
    balance : array of shape (D, K, 2), optional
        95% intervals of the class balance; unknown by default.
    gain : Gain, optional
        Gain over majority vote that the labels imply; unknown by default.
    widening : float, default=1.0
        Factor of the standard errors, above 1 if the errors of sources persist from item to item.
    diagnostics : Diagnostics, optional
        By default they are computed from the parameters and the counts.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> fs.fits.Assessment(errors=np.array([0.1, 0.2])).standard_errors(2)
    array([0.1, 0.2])
    """

    errors: Array | None = None
    diagnostics: Diagnostics | None = None
    reach: Array | None = field(default=None, kw_only=True)
    balance: Array | None = field(default=None, kw_only=True)
    gain: Gain | None = field(default=None, kw_only=True)
    widening: float = field(default=1.0, kw_only=True)

    is_recorded: ClassVar[bool] = False
    """Whether model files must keep the diagnostics, because the parameters do not determine them."""

    @property
    def computed(self) -> Assessment:
        """These values, or those of a subclass that computes them on demand."""
        return self

    def standard_errors(self, n_sources: int) -> Array:
        """Return standard errors of the accuracies, shape (m,); NaN if unknown."""
        errors = self.computed.errors
        return np.full(n_sources, np.nan) if errors is None else self.widening * errors

    def accuracy_reach(self) -> Array | None:
        """Return how far the accuracies may be below and above because the model is wrong, shape (m, 2)."""
        return self.computed.reach

    def accuracy_intervals(self, accuracies: Array) -> Array:
        """Return 95% intervals of the accuracies (m,), shape (m, 2); NaN if unknown."""
        return intervals_around(accuracies, self.standard_errors(len(accuracies)), self.accuracy_reach())

    def balance_intervals(self, balance: Array) -> Array:
        """Return 95% intervals of the class balance (D, K), shape (D, K, 2); NaN if unknown."""
        known = self.computed.balance
        return np.full((*balance.shape, 2), np.nan) if known is None else known

    def widened(self, factor: float) -> Assessment:
        """Return an assessment with standard errors multiplied by ``factor``."""
        return replace(self, widening=factor * self.widening)

    def diagnose(self, fit: Fit, moments: Moments) -> Diagnostics:
        """Return the diagnostics of a fit."""
        return fit.own_diagnostics(moments) if self.diagnostics is None else self.diagnostics


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit(ABC):
    """Estimated parameters, and everything that can be computed from them. Immutable.

    Attributes
    ----------
    classes : tuple of K labels
    source_names : tuple of m str
    method : str
        The solver that produced the fit.
    reason : str
        Reason for the choice of the method, and other remarks; empty if it was requested by name.
    balance_note : str
        Origin of the class balance.
    class_balance : array of shape (D, K)
    accuracies : array of shape (m,)
        P(vote is right | source votes); one half for a source that always abstains.
    confusion : ConfusionTables of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last. An array is wrapped.
    concerns : tuple of str
        Sentences about suspicious sources, for a warning.
    uses_gold : bool
        Whether gold labels took part in the fit.
    findings : BinaryFit or None
        For closed forms of two classes; not kept in files.
    assessment : Assessment
    graph : DependencyGraph or None
        None for one task of independent sources.
    temper : float
        Exponent of the evidence of other tasks.
    by_features : FeatureEvidence or None
        What features add to the votes; None for a fit without features.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> fit = fs.LabelModel().fit(votes).fit_
    >>> fit.method, fit.class_balance.shape, len(fit.accuracies)
    ('auto', (1, 2), 7)
    """

    TAG: ClassVar[str]
    tempers_paths: ClassVar[bool] = True
    """Whether ``temper`` applies to all evidence on the most probable path of a sequence."""

    classes: tuple[Label, ...]
    source_names: tuple[str, ...]
    method: str
    balance_note: str
    class_balance: Array
    accuracies: Array
    confusion: ConfusionTables
    reason: str = ""
    concerns: tuple[str, ...] = ()
    uses_gold: bool = False
    findings: BinaryFit | None = None
    assessment: Assessment = field(default_factory=Assessment)
    graph: DependencyGraph | None = None
    temper: float = 1.0
    by_features: FeatureEvidence | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confusion", ConfusionTables.of(self.confusion))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()  # in one step, because another thread may add a cached property

    # ------------------------------------------------------------------ inference

    @abstractmethod
    def evidence(self, codes: Codes) -> Array:
        """Return log P(votes on task d | Y_d = k) up to a constant per item, shape (n, D, K)."""

    @abstractmethod
    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        """Return P(Y_d = k | votes), shape (n, D, K); in ``dtype`` if that saves work, else in float64."""

    def likelihoods(self, codes: Codes) -> Array:
        """Return log P(votes on task d | Y_d = k) by the confusion tables, shape (n, D, K)."""
        return self.confusion.logs().evidence(codes)[:, None, :]

    def log_likelihood(self, codes: Codes) -> Array:
        """Return log P(votes of an item), shape (n,), by the confusion tables."""
        return self.confusion.log_likelihood(codes, self.class_balance[0])

    def explain(self, codes_row: NDArray[Any], task: int = 0, adds: Array | None = None) -> Explanation:
        """Explain the label of one item on one task; ``codes_row`` are dense codes of shape (m,).

        ``adds`` of shape (K,) is what features add to the log probabilities.
        """
        own = self.posterior(codes_row[None, :])[0, task]
        posterior = own if adds is None else combine(own[None, :], adds[None, :])[0]
        second, best = next_best_and_best(posterior)
        said = self._contributions(codes_row, task, best, second, own)
        if adds is not None:
            said.append(Contribution("features", "", "", float(adds[best] - adds[second])))
        asked = codes_row if self.graph is None else codes_row[list(self.graph.sources_of(task))]
        return build_explanation(self.classes, posterior, self._without_votes(task), said, asked)

    @abstractmethod
    def _contributions(
        self, codes_row: NDArray[Any], task: int, best: int, second: int, posterior: Array
    ) -> list[Contribution]:
        """Return what each vote adds to the log odds of two classes; ``posterior`` has shape (K,)."""

    def _without_votes(self, task: int) -> Array:
        """Return P(Y_d = k) of an item without votes, shape (K,)."""
        return np.asarray(self.class_balance[task])

    @property
    def source_groups(self) -> NDArray[np.intp]:
        """Numbers of groups of dependent sources, shape (m,)."""
        return np.arange(len(self.source_names))

    def feature_log_odds(self, codes: Codes, features: Features) -> Array:
        """Return what features add to the log probabilities, shape (n, K); 0 for items without features.

        Raises
        ------
        OptionError
            If the model was fitted without features.
        """
        if self.by_features is None:
            raise OptionError(
                "`features` requires a model that was fitted with them; call fit(votes, features=...) first.",
                parameter="features",
            )
        return self.by_features.log_odds(np.asarray(self.posterior(codes)[:, 0]), codes, features)

    def with_features(self, items: FeatureItems, votes_on: Array) -> Self:
        """Return the fit, which must have one task, with what features of items with votes add to it.

        ``votes_on`` (m,) is the number of votes of each source. Labels without features do not change.
        """
        learned = FeatureEvidence.learn(
            lambda codes: np.asarray(self.posterior(codes)[:, 0]), items, votes_on, self.source_groups
        )
        used = "votes and features" if learned.effect.is_used else "features are not used"
        reason = "; ".join(part for part in (self.reason, used) if part)
        return replace(self, by_features=learned, reason=reason)

    def joint_labels(self, codes: Codes) -> NDArray[np.intp]:
        """Return the most probable classes of all tasks together, shape (n, D)."""
        return np.asarray(self.posterior(codes).argmax(axis=2), np.intp)

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        """Return tables that label single items of two classes quickly; None if there are none.

        ``balance`` of shape (2,) replaces the class balance of the fit.
        """
        return None

    # ------------------------------------------------------------------ what is known of tasks

    @property
    def task_tables(self) -> Array:
        """P(Y_a, Y_b) of each task edge, shape (E, K, K)."""
        return np.empty((0, len(self.classes), len(self.classes)))

    @property
    def excess_correlation(self) -> Array:
        """Correlation of errors on neighboring tasks that the truths do not explain, shape (m,)."""
        return np.full(len(self.source_names), np.nan)

    # ------------------------------------------------------------------ rows of sequences

    def mean_label(self, codes: Codes | None) -> Array:
        """Return P(Y = k) that the evidence of rows is relative to, shape (K,).

        ``codes`` are the rows that were fitted, or None if only counts are available.
        """
        return np.asarray(self.class_balance[0])

    def row_evidence(self, codes: Codes, balance: Array) -> RowEvidence:
        """Return the evidence of rows; ``balance`` of shape (K,) comes from :meth:`mean_label`."""
        shared = self.evidence(codes)[:, 0]
        return RowEvidence(shared + np.log(balance), shared)

    def transition(self, moments: SequenceMoments, balance: Array) -> Transition:
        """Estimate how truths of neighboring rows follow each other, with ``balance`` as margins."""
        if self.findings is not None:
            return fit_transition(moments, balance, self.findings)
        return fit_transition_many(moments, np.asarray(self.confusion), balance)

    def neighbor_share(self, moments: Moments, persistence: float) -> float:
        """Return the weight of neighboring rows, in [0, 1]; 1 for methods that do not test their model."""
        return 1.0

    # ------------------------------------------------------------------ assessment

    def standard_errors(self) -> Array:
        """Return standard errors of the accuracies from sampling, shape (m,); NaN if unknown."""
        return self.assessment.standard_errors(len(self.source_names))

    def accuracy_intervals(self) -> Array:
        """Return 95% intervals of the accuracies, shape (m, 2); NaN if unknown.

        All outputs with intervals use this method.
        """
        return self.assessment.accuracy_intervals(self.accuracies)

    def balance_intervals(self) -> Array:
        """Return 95% intervals of the class balance, shape (D, K, 2); NaN if it was given, or unknown."""
        return self.assessment.balance_intervals(self.class_balance)

    def diagnose(self, moments: Moments) -> Diagnostics:
        """Return diagnostics of the sources and of the fit; ``moments`` are the counts that were fitted."""
        found = self.assessment.diagnose(self, moments)
        if self.by_features is None:
            return found
        effect, verdict = self.by_features.effect, found.verdict
        if effect.is_used:
            verdict = replace(verdict, text=f"Votes without features: {verdict.text}")
        return replace(found, reason=self.reason, features=effect, verdict=verdict)

    @abstractmethod
    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        """Return the diagnostics that are computed from the parameters and the counts."""

    def _without_triplets(self, moments: Moments, verdict: Verdict) -> Diagnostics:
        """Return diagnostics of a method that compares no triplets of sources."""
        names, seen = moments.source_names, (np.asarray(moments.vote_counts) > 0).sum(axis=1)
        none = np.zeros(len(names), np.int64)
        return Diagnostics(
            method=self.method,
            reason=self.reason,
            class_balance=self.balance_note,
            silent=names_in(names, seen == 0),
            one_sided=names_in(names, seen == 1),
            triplets_used=none,
            triplets_skipped=none,
            verdict=verdict,
        )

    # ------------------------------------------------------------------ files

    def to_state(self, moments: Moments) -> State:
        """Return the complete state as arrays and JSON values; the caller stores ``moments``."""
        meta: dict[str, Any] = {
            "method": self.method,
            "reason": self.reason,
            "balance_note": self.balance_note,
            "uses_gold": self.uses_gold,
            "diagnostics": None,
        }
        arrays: dict[str, NDArray[Any]] = {
            "class_balance": self.class_balance,
            "accuracies": self.accuracies,
            "errors": np.asarray(self.standard_errors(), np.float64),
        }
        reach = self.assessment.accuracy_reach()
        if reach is not None:
            arrays["reach"] = np.asarray(reach, np.float64)
        balance_interval = self.balance_intervals()
        if np.isfinite(balance_interval).any():
            arrays["balance_interval"] = balance_interval
        if self.assessment.is_recorded or self.assessment.diagnostics is not None:
            found = self.diagnose(moments)
            meta["diagnostics"] = found.to_meta()
            arrays |= {"triplets_used": found.triplets_used, "triplets_skipped": found.triplets_skipped}
        arrays |= self.confusion.to_arrays()
        extra = [self._extra_state(), *([] if self.by_features is None else [self.by_features.to_state()])]
        for more_meta, more_arrays in extra:
            meta, arrays = meta | more_meta, arrays | more_arrays
        return State(self.TAG, meta, arrays)

    @abstractmethod
    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the additional state of this kind of fit."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        """Return the fit that :meth:`to_state` described; raise ModelFileError for damaged states."""


def read_common(state: State, moments: Moments, n_tasks: int = 1) -> dict[str, Any]:
    """Return the fields that every fit has from a state, checked."""
    m, k = moments.n_sources, moments.n_classes
    texts = dict.fromkeys(("method", "reason", "balance_note"), TEXT)
    check_fields(state.meta, {**texts, "uses_gold": BOOLEAN, "diagnostics": optional(OBJECT)}, "fit.")
    balance = read_array(state, "class_balance", (n_tasks, k))
    if not ((balance > 0).all() and np.abs(balance.sum(axis=1) - 1).max() < 1e-9):
        raise ModelFileError("The class balance in the file must be positive and sum to 1.")
    diagnostics = None
    if state.meta["diagnostics"] is not None:
        used, skipped = (
            read_array(state, f"triplets_{which}", (m,), "int64", low=0) for which in ("used", "skipped")
        )
        diagnostics = Diagnostics.from_meta(state.meta["diagnostics"], used, skipped, moments.source_names)
    errors = read_array(state, "errors", (m,), low=0.0, may_be_nan=True)
    reach, balance_interval = None, None
    if "reach" in state.arrays:
        reach = read_array(state, "reach", (m, 2), low=0.0, may_be_nan=True)
    if "balance_interval" in state.arrays:
        balance_interval = read_array(
            state, "balance_interval", (n_tasks, k, 2), low=0.0, high=1.0, may_be_nan=True
        )
    return {
        "classes": moments.classes,
        "source_names": moments.source_names,
        **{name: state.meta[name] for name in texts},
        "class_balance": balance,
        "accuracies": read_array(state, "accuracies", (m,), low=0.0, high=1.0),
        "confusion": ConfusionTables.from_arrays(state.arrays, k, np.minimum(moments.coverage, 1.0)),
        "uses_gold": state.meta["uses_gold"],
        "assessment": Assessment(errors, diagnostics, reach=reach, balance=balance_interval),
        "by_features": FeatureEvidence.from_state(state, k),
    }


# ---------------------------------------------------------------------- evidence of features


# Larger values in a file are rejected; no fit produces them.
_LARGEST = 1e6
_NAMES = optional(list_of(TEXT))
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
    names : tuple of str, or None
        Columns of a table of features.
    """

    weights: FeatureWeights
    effect: FeatureEffect
    names: tuple[str, ...] | None = None

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

        weights, effect = fit_features(
            items.features,
            posterior_of,
            label(codes),
            item_votes(codes).n_votes > 0,
            votes_on,
            source_groups,
            weights=items.weights,
            gold=items.gold,
            n_seen=items.n_seen,
        )
        return cls(weights, effect, items.features.names)

    def log_odds(self, posterior: Array, codes: Codes, features: Features) -> Array:
        """Return what features add to the log probabilities, shape (n, K)."""
        features = features.matched_to(self.names, self.effect.n_columns)
        if not self.effect.is_used:
            return np.zeros(posterior.shape)
        return self.weights.log_odds(posterior, item_votes(codes).n_votes > 0, features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return JSON values and arrays, for the state of a fit."""
        arrays = {**self.weights.learner._asdict(), **self.weights._asdict()}
        del arrays["learner"]
        names = None if self.names is None else list(self.names)
        meta = {"effect": asdict(self.effect), "slope": arrays.pop("slope"), "feature_names": names}
        return meta, {f"feature_{name}": np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, state: State, n_classes: int) -> Self | None:
        """Return the evidence from the state of a fit, checked; None for a fit without features."""
        if "effect" not in state.meta:
            return None
        check_fields(state.meta, {"effect": OBJECT, "slope": finite(0, 1), "feature_names": _NAMES}, "fit.")
        check_fields(state.meta["effect"], _EFFECT, "fit.effect.")
        if not state.meta["slope"] > 0:
            raise ModelFileError("`fit.slope` in the file must be > 0.")
        effect = FeatureEffect(**{name: state.meta["effect"][name] for name in _EFFECT})
        names = state.meta["feature_names"]
        if names is not None and not len(set(names)) == len(names) == effect.n_columns:
            raise ModelFileError(
                "`fit.feature_names` in the file must have a different name for each column."
            )
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
        return cls(FeatureWeights(learner, shares, offsets), effect, None if names is None else tuple(names))
