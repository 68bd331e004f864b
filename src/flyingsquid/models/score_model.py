"""Model of numeric scores by judges that differ in bias, scale and noise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from flyingsquid._table import Table, Tabular
from flyingsquid._values import format_count, format_list, format_value, is_number, is_one_of
from flyingsquid._warnings import warn_about_sources
from flyingsquid.estimation.scores import ScoreParameters, TruthScale, fit_scores
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.exceptions import IncompatibleError, ModelFileError, OptionError, VotesError
from flyingsquid.files.state import (
    OBJECT,
    TEXT,
    Field,
    State,
    check_fields,
    finite,
    list_of,
    one_of,
    optional,
    write_state,
)
from flyingsquid.files.vote_files import read_score_file
from flyingsquid.fits.diagnostics import format_names, names_in
from flyingsquid.inference.scores import LevelShares, probability_best, robust_posterior
from flyingsquid.inference.weighted import to_probabilities
from flyingsquid.models._estimator import Estimator, not_fitted
from flyingsquid.moments.scores import KIND as SUMS
from flyingsquid.moments.scores import ScoreMoments, mean_over_repeats
from flyingsquid.votes.arguments import join_labels
from flyingsquid.votes.decisions import Output, to_output
from flyingsquid.votes.encode import as_column
from flyingsquid.votes.scores import Scores, find_missing_scores, read_score_table

Array: TypeAlias = NDArray[np.float64]
_AUTO = one_of("auto")
_SHARE = finite(0, 1)
# A source whose reliability is certainly below this is reported: often, it is a column of numbers that are
# not scores, such as the position of an answer.
_UNRELATED = 0.1
_FIELDS = {
    "names": optional(list_of(TEXT)),
    "sums": OBJECT,
    "shrinkage": Field(f"{_AUTO.must} or {_SHARE.must}", lambda v: _AUTO.test(v) or _SHARE.test(v)),
}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BestOf(Tabular):
    """The best candidate of each group.

    Attributes
    ----------
    groups : array of shape (g,)
        Labels of the groups, or their positions.
    chosen : int array of shape (g,)
        Position of the chosen candidate within its group; -1 if a group has no scores.
    probabilities : array of shape (g, c)
        Probability that each candidate is the best of its group, 0 or NaN for missing candidates.
    scores : array of shape (g, c)
        Expected true score of each candidate, NaN for missing ones.
    items : array of shape (g,) or None
        Identifiers of the chosen candidates; None if the scores have no identifiers.
    """

    groups: NDArray[Any]
    chosen: NDArray[np.intp]
    probabilities: Array
    scores: Array
    items: NDArray[Any] | None = None

    @property
    def probability(self) -> Array:
        """Probability that the chosen candidate is the best, shape (g,); NaN without scores."""
        at = np.maximum(self.chosen, 0)[:, None]
        return np.where(self.chosen >= 0, np.take_along_axis(self.probabilities, at, axis=1)[:, 0], np.nan)

    def table(self) -> Table:
        """Return one row per group."""
        at = np.maximum(self.chosen, 0)[:, None]
        scores = np.take_along_axis(self.scores, at, axis=1)[:, 0]
        chosen = [int(k) if k >= 0 else None for k in self.chosen]
        item: dict[str, tuple[Sequence[Any], str]] = (
            {} if self.items is None else {"item": (self.items.tolist(), "")}
        )
        return Table.of_columns(
            {
                "group": (self.groups.tolist(), ""),
                "chosen": (chosen, "d"),
                **item,
                "probability": (self.probability.tolist(), ".2f"),
                "score": (scores.tolist(), ".4g"),
            }
        )


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreFit:
    """Parameters of one fit and what follows from them.

    Every method of the model reads one such value once, so that a fit in another thread cannot mix two fits.
    """

    names: tuple[str, ...] | None
    moments: ScoreMoments
    parameters: ScoreParameters
    truth: TruthScale

    @classmethod
    def of(cls, names: tuple[str, ...] | None, moments: ScoreMoments, share: float | None) -> Self:
        parameters = fit_scores(moments, share)
        return cls(names, moments, parameters, TruthScale.of(parameters, moments))

    @property
    def source_names(self) -> tuple[str, ...]:
        return self.names or tuple(f"source {j}" for j in range(self.moments.n_sources))

    @property
    def reliability(self) -> Array:
        return self.parameters.loadings**2 / self.parameters.single

    @property
    def reliability_interval(self) -> Array:
        reach = NORMAL_95 * self.parameters.square_errors / self.parameters.single
        return np.clip(_stack_interval(self.reliability, reach), 0.0, 1.0)

    @property
    def bias_interval(self) -> Array:
        return _stack_interval(self.truth.bias, NORMAL_95 * self.truth.bias_errors)

    @property
    def scale_interval(self) -> Array:
        scale = self.truth.scale
        return _stack_interval(scale, NORMAL_95 * np.abs(scale) * self.parameters.scale_errors)

    @property
    def noise(self) -> Array:
        fit = self.parameters
        return fit.spreads * np.sqrt(fit.noise + fit.repeat_noise)

    @property
    def noise_interval(self) -> Array:
        fit = self.parameters
        variances = _stack_interval(fit.noise + fit.repeat_noise, NORMAL_95 * fit.noise_errors)
        return fit.spreads[:, None] * np.sqrt(np.maximum(variances, 0.0))

    @property
    def retest(self) -> Array:
        fit = self.parameters
        return np.where(self.moments.repeat_freedom > 0, 1 - fit.repeat_noise / fit.single, np.nan)

    @property
    def weights(self) -> Array:
        weights = self.parameters.weights_of(np.ones(self.moments.n_sources, np.int64))
        return np.asarray(weights / np.abs(weights).sum())

    def read(self, scores: Any) -> Scores:
        """Read scores of the fitted judges, matched by name."""
        return _read(scores, None, self.names).matched_to(self.names, self.moments.n_sources)

    def posterior(self, read: Scores) -> tuple[Array, Array]:
        """Return mean and variance of the truth of each item, on the scale of the judges."""
        fit, truth = self.parameters, self.truth
        scores, repeats = mean_over_repeats(read.values)
        usable = fit.usable
        z = (scores[:, usable] - fit.means[usable]) / fit.spreads[usable]
        repeats = repeats.astype(np.int64)
        noise, weights = fit.noise_of(repeats)[:, usable], fit.weights_of(repeats)[:, usable]
        mean, variance = robust_posterior(
            z, fit.loadings[usable], noise, weights, fit.shared, fit.tails[usable]
        )
        return truth.center + truth.spread * mean, truth.spread**2 * variance

    def level_shares(self, read: Scores, levels: Array) -> Array:
        """Return the probability of each level of an ordinal scale, shape (n, K)."""
        fit, truth, moments = self.parameters, self.truth, self.moments
        usable = fit.usable
        scores = mean_over_repeats(read.values)[0][:, usable]
        edges = (levels[1:] + levels[:-1]) / 2
        cells = np.where(np.isnan(scores), -1, np.searchsorted(edges, scores, side="left"))
        expected = truth.center + truth.bias + truth.scale * (levels[:, None] - truth.center)
        noise = fit.spreads * np.sqrt(np.maximum(1 - fit.loadings**2, fit.noise))
        shares = LevelShares.of(expected[:, usable], noise[usable], levels)
        bounds = np.concatenate([[-np.inf], edges, [np.inf]])
        balance = np.diff(ndtr((bounds - truth.center) / truth.spread))
        at = np.ix_(usable, usable)
        share_of_any = shares.share_of_any(moments.pairs[at], moments.equal[at], balance)
        return to_probabilities(shares.evidence(cells, share_of_any))

    def concerns(self) -> list[str]:
        """Return what users should know about the judges."""
        fit, (low, high) = self.parameters, self.reliability_interval.T
        constant, is_unrelated = np.isnan(fit.spreads), fit.usable & (high < _UNRELATED)
        reverses = fit.usable & (fit.loadings < 0) & (low > 0) & ~is_unrelated
        found = (
            (
                "These sources have fewer than three scores, or always the same score, and are ignored",
                constant,
            ),
            ("These sources share too few items with others and are ignored", ~fit.usable & ~constant),
            ("These sources rank items in reverse", reverses),
            ("These sources have almost nothing in common with the others", is_unrelated),
        )
        names = self.source_names
        concerns = [f"{what}: {format_names(names_in(names, mask))}." for what, mask in found if mask.any()]
        if fit.equal:
            concerns.append(
                "No triplet of sources determines their reliabilities, so all are assumed to be equal."
            )
        return concerns


class ScoreModel(Estimator):
    """Model of scores: estimates bias, scale and noise of every judge, and the true score of every item.

    A judge j gives item i the score ``center_ + bias_j + scale_j * (truth_i - center_) + noise``. All
    parameters follow in closed form from the covariances of triplets of judges, without gold labels. The true
    scores are on the common scale of the judges, weighted by how much the model relies on each of them.

    Parameters
    ----------
    shrinkage : "auto" or float in [0, 1], default="auto"
        Share of equal weights. With 1, items are ranked by the mean of standardized scores, with 0 by the
        posterior of the Gaussian model. By default it is large if the model does not fit, or if better
        weights would change little; and a score far from the others counts less if the noise of its judge
        has heavier tails than a Gaussian.

    Attributes
    ----------
    reliability_, reliability_interval_ : arrays of shape (m,) and (m, 2)
        Squared correlation of single scores with the truth, and its 95% interval; NaN if not determined.
    bias_, bias_interval_ : arrays of shape (m,) and (m, 2)
        Difference between the mean score of a judge and that of the panel, for items of average truth.
    scale_, scale_interval_ : arrays of shape (m,) and (m, 2)
        Change of the score per change of the truth; negative for a judge that reverses the order.
    noise_, noise_interval_ : arrays of shape (m,) and (m, 2)
        Standard deviation of the noise of single scores.
    retest_ : array of shape (m,)
        Expected correlation of two scores of one judge on the same items; NaN without repeats.
    weights_ : array of shape (m,)
        Share of each standardized score in the estimated truth; absolute values sum to 1.
    center_, spread_ : float
        Mean and standard deviation of the truth.
    shrinkage_ : float
        Share of equal weights that was used.
    misfit_ : float
        Correlation between judges that the model does not explain (root mean square).
    n_items_ : int
    n_features_in_ : int
    source_names_ : tuple of m str

    Notes
    -----
    Scores that are missing for reasons unrelated to the truth do not bias the estimates. Intervals include
    sampling error and errors that some judges share, but not a bias that all judges have in common: no method
    without gold labels can distinguish it from the truth. See ``docs/guides/scores.md``.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(6, 1.5, 500)
    >>> scores = truth[:, None] + [0, 1, -1, 0] + rng.normal(0, [0.5, 1, 1, 3], (500, 4))
    >>> model = fs.ScoreModel().fit(scores)
    >>> model.noise_.round(1)
    array([0.5, 0.9, 1. , 3. ])
    >>> model.predict(scores[:2]).round(1), truth[:2].round(1)
    (array([6.1, 6.2]), array([6.2, 5.8]))
    """

    _estimator_type = "regressor"
    _fit: _ScoreFit
    # Names and sums that do not determine the parameters yet.
    _pending: tuple[tuple[str, ...] | None, ScoreMoments] | None

    def __init__(self, *, shrinkage: Literal["auto"] | float = "auto") -> None:
        self.shrinkage = shrinkage

    # ------------------------------------------------------------------ fitting

    def fit(self, scores: Any, y: object = None, *, names: Iterable[str] | None = None) -> Self:
        """Estimate bias, scale and noise of every judge.

        Parameters
        ----------
        scores : array of shape (n, m) or (n, m, r), table, mapping or path
            One row per item and one column per judge, NaN for missing scores (a number such as -1 is a score,
            with a warning if the other judges contradict it); repeated scores of one judge
            are a third dimension. A table of pandas, polars or pyarrow, a mapping of columns or a file has
            one column per judge and possibly one of item identifiers, or it is in long form with columns such
            as ``item``, ``judge``, ``score`` and optionally ``repeat``.
        y : ignored
        names : sequence of m str, optional
            Names of the judges of an array.

        Raises
        ------
        NotIdentifiableError
            If fewer than two judges have scores that vary and are correlated.
        """
        share = self._read_shrinkage()
        read = _read(scores, names)
        _warn_about_codes(read)
        return self._keep(read.names, ScoreMoments.of(read.values), share)

    def partial_fit(self, scores: Any, y: object = None) -> Self:
        """Add scores of further items, by the same judges, and estimate all parameters again.

        The scores are kept even if they do not determine the parameters yet and
        :class:`~flyingsquid.exceptions.NotIdentifiableError` is raised, so that a stream can continue.
        """
        share = self._read_shrinkage()
        with self._lock:
            if self.__dict__.get("_pending") is not None:
                pending = self._pending
            else:
                pending = (self._fit.names, self._fit.moments) if hasattr(self, "_fit") else None
            if pending is None:
                read = _read(scores, None)
                names, moments = read.names, ScoreMoments.of(read.values)
            else:
                names, before = pending
                read = _read(scores, None, names).matched_to(names, before.n_sources)
                moments = before + ScoreMoments.of(read.values)
            _warn_about_codes(read)
            self._pending = names, moments
            return self._keep(names, moments, share)

    def merge(self, other: ScoreModel) -> Self:
        """Add the items of another fitted model of the same judges, and estimate all parameters again.

        Up to rounding, the result equals one fit to the items of both models.
        """
        if not isinstance(other, ScoreModel):
            raise OptionError(f"`other` must be a ScoreModel; got {type(other).__name__}.")
        share, theirs = self._read_shrinkage(), other._fitted
        with self._lock:
            ours = self._fitted
            if ours.names != theirs.names:
                raise IncompatibleError(
                    "`other` must be fitted to scores of the same judges, in the same order."
                )
            return self._keep(ours.names, ours.moments + theirs.moments, share)

    def _keep(self, names: tuple[str, ...] | None, moments: ScoreMoments, share: float | None) -> Self:
        fit = _ScoreFit.of(names, moments, share)
        with self._lock:
            self._fit, self._pending = fit, None
        concerns = fit.concerns()
        if concerns:
            warn_about_sources(" ".join(concerns), stacklevel=3)
        return self

    # ------------------------------------------------------------------ prediction

    def predict(self, scores: Any, *, output: Output = "numpy") -> Any:
        """Return the expected true score of every item, shape (n,).

        Parameters
        ----------
        scores : as in :meth:`fit`
            Named judges are matched by name; an item without scores gets the mean of the truth.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` is a Series indexed by item identifier.
        """
        fit = self._fitted
        read = fit.read(scores)
        mean, _ = fit.posterior(read)
        return to_output(mean, output, _ids(read), ["score"])

    def predict_interval(self, scores: Any, *, confidence: float = 0.95, output: Output = "numpy") -> Any:
        """Return an interval of the true score of every item, shape (n, 2).

        On a short scale such as one to five stars, no judge can err beyond its ends. Estimates there are too
        close to the middle, and 95% intervals of these items contain the truth less often (77% in simulations
        with five levels; 93% of the other items). :meth:`predict_proba` takes the levels into account.

        Parameters
        ----------
        scores : as in :meth:`predict`
        confidence : float in (0, 1), default=0.95
        output : {"numpy", "pandas", "polars"}, default="numpy"

        Examples
        --------
        >>> model = ScoreModel().fit([[1, 2, 1], [2, 2, 3], [3, 3, 4], [5, 4, 5], [4, 5, 4]])
        >>> low, high = model.predict_interval([[4, 4, 4]])[0]
        >>> bool(low < 4 < high)
        True
        """
        if not (is_number(confidence) and 0 < confidence < 1):
            raise OptionError(f"`confidence` must be a float in (0, 1); got {format_value(confidence)}.")
        fit = self._fitted
        read = fit.read(scores)
        mean, variance = fit.posterior(read)
        reach = float(ndtri((1 + confidence) / 2)) * np.sqrt(variance)
        ends = np.stack([mean - reach, mean + reach], axis=1)
        return to_output(ends, output, _ids(read), ["low", "high"])

    def predict_proba(self, scores: Any, levels: Sequence[float], *, output: Output = "numpy") -> Any:
        """Return the probability of each level of an ordinal scale, shape (n, K).

        Use it for judges who give stars or grades. A score is modeled as the nearest level of the truth plus
        bias and noise, clipped to the ends of the scale. All levels have equal prior probabilities.

        Parameters
        ----------
        scores : as in :meth:`predict`
        levels : increasing sequence of K numbers
            The grades on the scale of the judges, such as ``[1, 2, 3, 4, 5]``.
        output : {"numpy", "pandas", "polars"}, default="numpy"
        """
        fit = self._fitted
        read, marks = fit.read(scores), _read_levels(levels)
        return to_output(fit.level_shares(read, marks), output, _ids(read), marks.tolist())

    def predict_class(self, scores: Any, levels: Sequence[float], *, output: Output = "numpy") -> Any:
        """Return the most probable level of an ordinal scale for every item, shape (n,).

        Parameters
        ----------
        scores : as in :meth:`predict`
        levels : as in :meth:`predict_proba`
        output : {"numpy", "pandas", "polars"}, default="numpy"

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> stars = rng.integers(1, 6, 500)
        >>> noise = rng.normal([0.5, 0, 0], [0.5, 0.7, 1.2], (500, 3))
        >>> scores = np.clip(np.rint(stars[:, None] + noise), 1, 5)
        >>> model = ScoreModel().fit(scores)
        >>> right = model.predict_class(scores, [1, 2, 3, 4, 5]) == stars
        >>> bool(right.mean() > (np.median(scores, axis=1) == stars).mean())
        True
        """
        fit = self._fitted
        read, marks = fit.read(scores), _read_levels(levels)
        best = np.asarray(levels)[fit.level_shares(read, marks).argmax(axis=1)]
        return to_output(best, output, _ids(read), ["class"])

    def best_of(self, scores: Any, groups: Any = None) -> BestOf:
        """Choose the best of several candidates, such as answers to one question.

        Parameters
        ----------
        scores : array of shape (g, c, m) or (g, c, m, r), or as in :meth:`predict`
            Scores of c candidates in each of g groups; NaN for candidates that a group does not have. With
            ``groups``, one row per candidate.
        groups : sequence of n labels, mapping or Series, optional
            The group of each row of ``scores``. A mapping or Series is joined by item identifier.

        Returns
        -------
        BestOf
            The chosen candidate of each group, with the probability that it is the best.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> quality = rng.normal(size=(200, 4))
        >>> scores = quality[:, :, None] + rng.normal(0, [0.3, 0.5, 1.0], (200, 4, 3))
        >>> model = ScoreModel().fit(scores.reshape(-1, 3))
        >>> found = model.best_of(scores)
        >>> bool((found.chosen == quality.argmax(axis=1)).mean() > 0.8)
        True
        >>> model.best_of(scores[0], groups=["q1"] * 4).probabilities.shape
        (1, 4)
        """
        fit = self._fitted
        if groups is None:
            array = _read_candidates(scores)
            keys, rows = np.arange(len(array)), np.arange(array.shape[0] * array.shape[1])
            rows = rows.reshape(array.shape[:2])
            read = fit.read(array.reshape(rows.size, *array.shape[2:]))
        else:
            read = fit.read(scores)
            keys, rows = _group_rows(join_labels(groups, scores, read, "groups"), read.n_items)
        mean, variance = fit.posterior(read)
        present = (rows >= 0) & np.asarray(np.isfinite(read.values).any(axis=(1, 2)))[rows]
        means = np.where(present, mean[rows], np.nan)
        shares = np.full(means.shape, np.nan)
        some = present.any(axis=1)
        shares[some] = probability_best(means[some], np.where(present, variance[rows], np.nan)[some])
        chosen = np.where(some, np.argmax(np.where(present, means, -np.inf), axis=1), -1)
        items = None
        if read.items is not None:
            items = np.full(len(keys), None)
            items[some] = read.items[rows[some, chosen[some]]]
        return BestOf(keys, chosen, shares, means, items)

    # ------------------------------------------------------------------ fitted attributes

    @property
    def _fitted(self) -> _ScoreFit:
        if not hasattr(self, "_fit"):
            raise not_fitted(f"This {type(self).__name__} is not fitted yet; call fit or partial_fit first.")
        return self._fit

    @property
    def source_names_(self) -> tuple[str, ...]:
        """Names of the m judges."""
        return self._fitted.source_names

    @property
    def n_features_in_(self) -> int:
        """Number of judges."""
        return self._fitted.moments.n_sources

    @property
    def n_items_(self) -> int:
        return self._fitted.moments.n_items

    @property
    def reliability_(self) -> Array:
        return self._fitted.reliability

    @property
    def reliability_interval_(self) -> Array:
        return self._fitted.reliability_interval

    @property
    def bias_(self) -> Array:
        return self._fitted.truth.bias

    @property
    def bias_interval_(self) -> Array:
        return self._fitted.bias_interval

    @property
    def scale_(self) -> Array:
        return self._fitted.truth.scale

    @property
    def scale_interval_(self) -> Array:
        return self._fitted.scale_interval

    @property
    def noise_(self) -> Array:
        return self._fitted.noise

    @property
    def noise_interval_(self) -> Array:
        return self._fitted.noise_interval

    @property
    def retest_(self) -> Array:
        return self._fitted.retest

    @property
    def weights_(self) -> Array:
        return self._fitted.weights

    @property
    def center_(self) -> float:
        return self._fitted.truth.center

    @property
    def spread_(self) -> float:
        return self._fitted.truth.spread

    @property
    def shrinkage_(self) -> float:
        return self._fitted.parameters.shrinkage

    @property
    def misfit_(self) -> float:
        return self._fitted.parameters.misfit

    def summary(self) -> Table:
        """Return one row per judge with reliability, bias, scale, noise and weight.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> scores = rng.normal(6, 2, (400, 1)) + rng.normal([0, 0.5, -1], [0.5, 1, 2], (400, 3))
        >>> ScoreModel().fit(scores, names=["large", "small", "tiny"]).summary()
        3 sources, 400 items
        source  reliability  low  high   bias  scale  noise  weight  scored
        large           95%  90%  100%  0.138   0.99  0.465    0.46  100.0%
        small           78%  73%   84%  0.585   0.99   1.06    0.30  100.0%
        tiny            55%  48%   63%  -1.16   1.03   1.86    0.25  100.0%
        """
        fit = self._fitted
        moments, names = fit.moments, fit.source_names
        columns = {
            "reliability": fit.reliability,
            "low": fit.reliability_interval[:, 0],
            "high": fit.reliability_interval[:, 1],
            "bias": fit.truth.bias,
            "scale": fit.truth.scale,
            "noise": fit.noise,
            "retest": fit.retest,
            "weight": fit.weights,
            "scored": moments.counts / max(1, moments.n_items),
        }
        formats = ("", ".0%", ".0%", ".0%", ".3g", ".2f", ".3g", ".2f", ".2f", ".1%")
        rows = zip(names, *(column.tolist() for column in columns.values()), strict=True)
        size = f"{format_count(len(names), 'source')}, {format_count(moments.n_items, 'item')}"
        return Table(("source", *columns), tuple(rows), size, formats=formats)

    # ------------------------------------------------------------------ files and helpers

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file atomically; ``flyingsquid.load`` reads it."""
        write_state(path, self._to_state())

    def _to_state(self) -> State:
        fit = self._fitted
        names, moments = fit.names, fit.moments
        share = self._read_shrinkage()
        meta = {
            "names": None if names is None else list(names),
            "shrinkage": "auto" if share is None else share,
            "sums": moments.to_state().meta,
        }
        return State(type(self).__name__, meta, moments.to_state().arrays)

    @classmethod
    def _from_state(cls, state: State) -> Self:
        check_fields(state.meta, _FIELDS)
        moments = ScoreMoments.from_state(State(SUMS, state.meta["sums"], state.arrays))
        names = state.meta["names"]
        if names is not None and not len(names) == len(set(names)) == moments.n_sources:
            raise ModelFileError("`names` in the file must contain one distinct name per source.")
        model = cls(shrinkage=state.meta["shrinkage"])
        names = None if names is None else tuple(names)
        model._fit = _ScoreFit.of(names, moments, model._read_shrinkage())
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "regressor", None
        return tags

    def _read_shrinkage(self) -> float | None:
        """Return the share of equal weights; None to choose it in the fit."""
        share: Any = self.shrinkage
        if is_one_of(share, ("auto",)):
            return None
        if is_number(share) and 0 <= share <= 1:
            return float(share)
        raise OptionError(f'`shrinkage` must be "auto" or a float in [0, 1]; got {format_value(share)}.')


def _read(scores: Any, names: Iterable[str] | None, fitted: Sequence[str] | None = None) -> Scores:
    if isinstance(scores, (str, os.PathLike)):
        return read_score_file(scores, fitted=fitted)
    return read_score_table(scores, names, fitted)


def _warn_about_codes(read: Scores) -> None:
    """Issue a warning if a number such as -1 probably means no score."""
    found = find_missing_scores(read.values)
    if found is None:
        return
    code, names = f"{found[0]:g}", [read.source_names[j] for j in found[1]]
    warn_about_sources(
        f"The score {code} of {format_list(names)} is unrelated to the scores of other judges on these "
        "items, so it probably means no score. Use NaN, or leave the cell empty.",
        stacklevel=3,
    )


def _read_candidates(scores: Any) -> NDArray[Any]:
    array = np.asanyarray(scores) if isinstance(scores, (np.ndarray, list, tuple)) else None
    if array is None or array.ndim not in (3, 4) or 0 in array.shape:
        raise VotesError(
            "`scores` must be an array of groups, candidates and judges, (g, c, m) or (g, c, m, r); for "
            "one row per candidate, pass `groups`.",
            parameter="groups",
        )
    return array


def _ids(read: Scores) -> list[Any] | None:
    return None if read.items is None else list(read.items.tolist())


def _read_levels(levels: Any) -> Array:
    try:
        marks = np.asarray(levels, dtype=np.float64)
    except Exception as error:  # user objects may raise any exception
        raise OptionError(f"`levels` must be increasing numbers; got {format_value(levels)}.") from error
    if marks.ndim != 1 or len(marks) < 2 or not (np.isfinite(marks).all() and (np.diff(marks) > 0).all()):
        raise OptionError(f"`levels` must be at least two increasing numbers; got {format_value(levels)}.")
    return marks


def _stack_interval(values: Array, reach: Array) -> Array:
    return np.stack([values - reach, values + reach], axis=1)


def _group_rows(groups: Any, n_items: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct groups in order of occurrence, and their rows (g, c), padded with -1."""
    labels = as_column(groups, "groups").tolist()
    if len(labels) != n_items:
        raise VotesError(
            f"`groups` must have one label for each of {format_count(n_items, 'row')} of `scores`; got "
            f"{len(labels)}.",
            parameter="groups",
        )
    members: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    rows = np.full((len(members), max(map(len, members.values()))), -1, np.intp)
    for at, found in enumerate(members.values()):
        rows[at, : len(found)] = found
    keys = np.empty(len(members), object)
    keys[:] = list(members)
    return keys, rows
