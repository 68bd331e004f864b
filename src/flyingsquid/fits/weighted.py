"""Fit by weighted votes, optionally mixed with confusion tables, for any number of classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.independence import FitTest, independence_of
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.estimation.sources import Separation, SignedMoments, flag_sources
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.state import State
from flyingsquid.fits.base import (
    DOUBLE,
    Array,
    Fit,
    ItemScores,
    PosteriorParameters,
    read_common,
)
from flyingsquid.fits.diagnostics import Diagnostics, names_in, names_in_groups, recommend, without_triplets
from flyingsquid.fits.explanation import Explanation, contribution, next_best_and_best, put_together
from flyingsquid.fits.files import read_array
from flyingsquid.fits.independent import SINGLE_TASK, gain_on_drawn_items
from flyingsquid.inference import Emissions, Opinion, opinion_posterior
from flyingsquid.inference.weighted import EVEN_VOTE, hot_posterior
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.votes.codes import Codes, OneHot

# Steps along which votes grow in an explanation, how far a vote is moved to see what it adds, and limits for
# items of many votes.
_STEPS, _NUDGE = 32, 1e-4
_FEWEST_STEPS, _MOST_ROWS = 4, 4_096
# Sources beyond which independence is not tested: the test compares all pairs.
_MOST_TESTED = 300
# Beyond what any fit gives; larger values in a file are refused.
_HEAVIEST, _LEAST_LOG = 1e3, -1e3


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedFit(Fit):
    """Weights of votes, optionally mixed with tables.

    Attributes
    ----------
    weighting : Opinion
        How votes become labels.
    groups : integer array of shape (m,)
        Near-copies have equal numbers.
    gain : float
        Expected accuracy less that of majority vote, as the labels themselves imply; NaN if only counts were
        available.
    """

    TAG = "weighted"

    weighting: Opinion
    groups: NDArray[np.intp]
    gain: float

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        return opinion_posterior(codes, self.weighting, dtype)

    def evidence(self, codes: Codes) -> Array:
        return np.asarray(np.log(self.posterior(codes)) - np.log(self.weighting.without_votes))

    def likelihoods(self, codes: Codes) -> Array:
        return self.confusion.logs().evidence(codes)[:, None, :]

    def log_likelihood(self, codes: Codes) -> Array:
        return self.confusion.log_likelihood(codes, self.class_balance[0])

    def explain(self, codes_row: NDArray[Any], task: int = 0) -> Explanation:
        """Explain one item by the share of each vote in the log odds of the best class.

        Votes share what they say, so a vote has no value by itself. Its share is what it adds while all votes
        grow together from nothing to what they are (Aumann and Shapley 1974); shares add up.
        """
        posterior = self.posterior(codes_row[None, :])[0, 0]
        second, best = next_best_and_best(posterior)
        adds = np.zeros(len(codes_row))
        voting = np.flatnonzero(codes_row >= 0)
        balance = self.weighting.without_votes
        if len(voting):
            prior = float(np.log(balance[best]) - np.log(balance[second]))
            total = float(np.log(posterior[best]) - np.log(posterior[second])) - prior
            parts = _parts(codes_row[voting], _of_sources(self.weighting, voting), best, second)
            # What the steps are short of is spread, so that the sum is exact.
            adds[voting] = parts + (total - parts.sum()) / len(voting)
        cells = zip(self.source_names, codes_row, [self.classes] * len(adds), adds, strict=True)
        said = [contribution(*cell) for cell in cells]
        return put_together(self.classes, second, best, posterior, balance, said, codes_row)

    def parameters(self) -> PosteriorParameters:
        weighting = self.weighting
        if weighting.logs is not None:
            raise OptionError(
                f"method={format_value(self.method)} labels by weights and tables together; use predict_proba"
            )
        everyone = (tuple(range(len(self.source_names))),)
        silent = np.zeros((*weighting.weights.shape, len(weighting.balance) + 1))
        return PosteriorParameters(
            Emissions(everyone, silent), SINGLE_TASK, (weighting.balance,), 1.0, weighting
        )

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        weighting = self.weighting
        if weighting.logs is not None or len(self.classes) != 2:
            return None
        settled = weighting.balance if balance is None else balance
        leans = weighting.given or balance is not None
        first_prior, second_prior = settled.tolist() if leans else (0.5, 0.5)
        even = EVEN_VOTE / 2
        adds = np.zeros((len(self.source_names), 3, 2))
        adds[:, (0, 1), (0, 1)] = weighting.weights

        def finish(first: float, second: float) -> tuple[float, float]:
            if not (first or second):
                return first_prior, second_prior
            no, yes = first + even, second + even
            if leans:
                no, yes = no * first_prior, yes * second_prior
            return no / (no + yes), yes / (no + yes)

        return ItemScores(adds, finish)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        names, test = moments.source_names, _test_independence(moments)
        gain = self.gain
        if np.isnan(gain):
            gain = gain_on_drawn_items(
                self.confusion, self.class_balance[0], lambda codes: self.posterior(codes)[:, 0]
            )
        # A source is useless or adversarial by how well it tells the classes apart. How often it is right
        # depends on the class balance too, which sources of mostly one class miss.
        skill, error = balanced_accuracies(self.confusion, self.class_balance[0], float(moments.n_items))
        chance, reach = 1 / moments.n_classes, NORMAL_95 * np.nan_to_num(error, nan=np.inf)
        several = (np.asarray(moments.vote_counts) > 0).sum(axis=1) > 1
        return without_triplets(
            moments,
            method=self.method,
            reason=self.reason,
            class_balance=self.balance_note,
            identical=names_in_groups(names, self.groups),
            useless=names_in(names, several & (np.abs(skill - chance) <= reach)),
            adversarial=names_in(names, several & (skill < chance - reach)),
            fit_test=test,
            verdict=recommend(gain, self.accuracies, moments.coverage, test=test),
        )

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        weighting = self.weighting
        meta = {
            "trust": float(weighting.trust),
            "given": bool(weighting.given),
            "gain": None if np.isnan(self.gain) else float(self.gain),
        }
        arrays: dict[str, NDArray[Any]] = {
            "vote_weights": weighting.weights,
            "one_sided": weighting.one_sided.astype(np.int8),
            "groups": self.groups.astype(np.int64),
        }
        if weighting.logs is not None:
            arrays["logs"] = np.ascontiguousarray(weighting.logs)
        return meta, arrays

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        m, k = moments.n_sources, moments.n_classes
        common, meta = read_common(state, moments), state.meta
        trust, gain, given = float(meta["trust"]), meta["gain"], meta["given"]
        logs = None
        if "logs" in state.arrays:
            logs = read_array(state, "logs", (m, k, k), low=_LEAST_LOG, high=0.0)
        if type(given) is not bool or not 0 <= trust <= 1 or (logs is None) != (trust == 0):
            raise ModelFileError("`trust` and `given` in the file do not describe weighted votes")
        if gain is not None and not (isinstance(gain, float) and -1 <= gain <= 1):
            raise ModelFileError("`gain` in the file must be a number in [-1, 1] or null")
        weights = read_array(state, "vote_weights", (m, k), low=0.0, high=_HEAVIEST)
        one_sided = read_array(state, "one_sided", (m,), "int8", low=0, high=1).astype(np.bool_)
        groups = read_array(state, "groups", (m,), "int64", low=0, high=m - 1).astype(np.intp)
        weighting = Opinion(weights, one_sided, common["class_balance"][0], given, logs, trust)
        return cls(**common, weighting=weighting, groups=groups, gain=float("nan") if gain is None else gain)


def balanced_accuracies(
    tables: Array | ConfusionTables, balance: Array, n_items: float
) -> tuple[Array, Array]:
    """Return the mean over the classes of how often a source is right there, and its standard error.

    Random votes reach 1/K, however many of them are for which class. The class balance does not matter, so a
    wrong one does not make a source look good or bad. A source of one class reaches 1/K too.

    Parameters
    ----------
    tables : ConfusionTables, or an array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    n_items : float
        How many items were fitted.

    Returns
    -------
    accuracies, errors : arrays of shape (m,)

    Examples
    --------
    >>> table = np.array([[[0.9, 0.1, 0.0], [0.4, 0.6, 0.0]], [[0.2, 0.8, 0.0], [0.2, 0.8, 0.0]]])
    >>> skill, error = balanced_accuracies(table, np.array([0.5, 0.5]), 100)
    >>> skill.round(3), error.round(3)
    (array([0.75, 0.5 ]), array([0.041, 0.041]))
    """
    whole = ConfusionTables.of(tables)
    right, voting = whole.right(), whole.voting()
    cast = voting * balance * n_items
    # One vote each way, so that two votes of one kind are not taken for certainty.
    share = (right * cast + 1) / (cast + 2)
    variance = share * (1 - share) / np.maximum(cast, 1.0)
    return right.mean(axis=1), np.sqrt(variance.sum(axis=1)) / len(balance)


def _test_independence(moments: Moments) -> FitTest | None:
    """Test whether the sources are independent given the truth, for two classes and not too many sources."""
    if moments.n_classes > 2 or moments.n_sources > _MOST_TESTED:
        return None
    flags = flag_sources(SignedMoments.of(moments))
    return independence_of(moments, flags, Separation.independent(moments.n_sources))


def _parts(codes: NDArray[Any], weighting: Opinion, best: int, second: int) -> Array:
    """Return the share of each of s votes in the log odds, shape (s,), by steps along their growth."""
    n_classes, s = weighting.weights.shape[1], len(codes)
    steps = max(_FEWEST_STEPS, min(_STEPS, _MOST_ROWS // s))
    grown = np.repeat((np.arange(steps) + 0.5) / steps, s)  # each step, once for each vote
    columns = codes.astype(np.int64) * s + np.arange(s)
    odds = []
    for side in (-_NUDGE, _NUDGE):
        strength = np.repeat(grown[:, None], s, axis=1)
        strength[np.arange(len(grown)), np.tile(np.arange(s), steps)] += side
        cast = np.zeros((len(grown), n_classes * s))
        cast[:, columns] = strength
        labels = hot_posterior(OneHot.of_strengths(cast, n_classes), weighting)
        odds.append(np.log(labels[:, best]) - np.log(labels[:, second]))
    slopes = (odds[1] - odds[0]) / (2 * _NUDGE)
    return np.asarray(slopes.reshape(steps, s).mean(axis=0))


def _of_sources(weighting: Opinion, sources: NDArray[np.intp]) -> Opinion:
    """Return the weighting of some sources; a label depends only on those that vote on the item."""
    logs = None if weighting.logs is None else weighting.logs[sources]
    return replace(
        weighting, weights=weighting.weights[sources], one_sided=weighting.one_sided[sources], logs=logs
    )
