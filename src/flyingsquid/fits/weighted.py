"""Fit by weighted votes mixed with confusion tables, for any number of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.dependence import SECOND_FACTOR
from flyingsquid.estimation.independence import FitTest, independence_of_votes
from flyingsquid.estimation.mixture import Gain
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.estimation.transition import (
    Transition,
    excess_correlations,
    fit_transition_many,
    share_of_neighbors,
    transition_by_agreement,
)
from flyingsquid.estimation.trust import p_value_of_chance
from flyingsquid.files.state import BOOLEAN, State, check_fields, finite, optional, read_array, sequence_of
from flyingsquid.fits.base import (
    DOUBLE,
    Array,
    Fit,
    ItemScores,
    RowEvidence,
    probabilities_of,
    read_common,
)
from flyingsquid.fits.diagnostics import (
    LEAST_GAIN,
    UNTESTED,
    Diagnostics,
    Verdict,
    dependence_doubts,
    names_in,
    names_in_groups,
    random_accuracies,
    recommend,
)
from flyingsquid.fits.explanation import Contribution, contributions_of
from flyingsquid.fits.independent import draw_items, gain_on_drawn_items
from flyingsquid.inference import Mixture, mixture_posterior
from flyingsquid.inference.weighted import EVEN_VOTE, LEAST_PRIOR, TableTerm, one_hot_posterior
from flyingsquid.moments import ConfusionTables, Moments, SequenceMoments
from flyingsquid.votes.codes import Codes, OneHot
from flyingsquid.votes.patterns import by_pattern
from flyingsquid.votes.tallies import has_votes

# Steps along which votes grow in an explanation, how far a vote is moved to see what it adds, and limits for
# items of many votes.
_STEPS, _NUDGE = 32, 1e-4
_FEWEST_STEPS, _MOST_ROWS = 4, 4_096
# Agreement with a p-value above this may be chance.
_BY_CHANCE = 0.05
_NO_SIGNAL = (
    "No signal: chance could explain how often the sources agree, so nothing shows that the labels are "
    "better than guesses."
)
_CONTRADICTORY = (
    "Contradictory: two groups of sources disagree, and the votes do not show which group is right. Labels "
    "follow the majority vote; only gold labels can decide. fs.suggest_items(model, votes, 10) lists the "
    "items that distinguish the two."
)
# Beyond what any fit gives; larger values in a file are refused.
_HEAVIEST, _MOST_LOG, _WIDEST_GAIN = 1e3, 1e3, 4.0
_SHARES = ("trust", "anchored_share", "majority")
_FIELDS = {
    **dict.fromkeys(_SHARES, finite(0, 1)),
    "gain": optional(sequence_of(*3 * [finite(-_WIDEST_GAIN, _WIDEST_GAIN)])),
    "is_tested": BOOLEAN,
    "second_factor": finite(),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedFit(Fit):
    """Weights of votes, mixed with tables.

    Attributes
    ----------
    mixture : Mixture
        Parameters that turn votes into probabilities.
    groups : integer array of shape (m,)
        Near-copies have equal numbers.
    is_tested : bool
        Whether the independence of the sources could be tested.
    second_factor : float
        Share of the agreement of the sources that the classes do not explain, relative to the explained
        share.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> fit = fs.LabelModel().fit(votes).fit_
    >>> type(fit).__name__, bool(fit.gain > 0)
    ('WeightedFit', True)
    """

    TAG = "weighted"
    tempers_paths: ClassVar[bool] = False

    mixture: Mixture
    groups: NDArray[np.intp]
    is_tested: bool
    second_factor: float

    @property
    def has_several_explanations(self) -> bool:
        """True if another factor explains the votes about as well as the truth."""
        return self.mixture.majority >= 0.5 or self.second_factor >= SECOND_FACTOR

    @property
    def gain(self) -> float:
        """Expected accuracy minus that of majority vote, as the labels imply; NaN if it is unknown."""
        found = self.assessment.computed.gain
        return float("nan") if found is None else found.value

    @property
    def gain_interval(self) -> tuple[float, float] | None:
        """95% interval of the gain under every plausible model."""
        found = self.assessment.computed.gain
        return None if found is None else found.interval

    @cached_property
    def pattern_tables(self) -> dict[np.dtype[Any], NDArray[Any]]:
        """Posteriors of all patterns of votes; kept because files are labeled in chunks."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "pattern_tables"}

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        # The table of all rows must not come from a grid: its sums differ in the last bit from those of rows.
        return by_pattern(codes, self._label_rows, len(self.classes), dtype, self.pattern_tables)

    def _label_rows(self, codes: Codes) -> Array:
        """Return P(Y = k | votes), shape (n, 1, K)."""
        return mixture_posterior(codes, self.mixture)[:, None]

    def evidence(self, codes: Codes) -> Array:
        return np.asarray(np.log(self.posterior(codes)) - np.log(self.without_votes))

    def _contributions(
        self, codes_row: NDArray[Any], task: int, best: int, second: int, posterior: Array
    ) -> list[Contribution]:
        """Return the share of each vote in the log odds.

        The effect of a vote depends on the other votes, so each vote gets its Aumann-Shapley value (1974):
        its contribution while the weights of all votes increase together from 0 to 1. The values add up.
        """
        parts = np.zeros(len(codes_row))
        voting = np.flatnonzero(codes_row >= 0)
        if len(voting):
            parts[voting] = self.vote_parts(codes_row, voting, best, second)
        return contributions_of(self.source_names, codes_row, self.classes, parts)

    def _without_votes(self, task: int) -> Array:
        return self.without_votes

    @property
    def source_groups(self) -> NDArray[np.intp]:
        return self.groups

    @property
    def without_votes(self) -> Array:
        """P(Y = k) of an item without votes, shape (K,)."""
        return self.mixture.without_votes

    def vote_parts(self, codes_row: NDArray[Any], voting: NDArray[np.intp], best: int, second: int) -> Array:
        """Return the contributions of the sources ``voting`` to the log odds of two classes."""
        codes, mixture = codes_row[voting], self.mixture.of_sources(voting)
        labels = mixture_posterior(codes[None, :], mixture)[0]
        log_odds = np.log(labels) - np.log(mixture.without_votes)
        parts = _parts(codes, mixture, best, second)
        # What the steps are short of is spread, so that the sum is exact.
        return np.asarray(parts + (log_odds[best] - log_odds[second] - parts.sum()) / len(voting))

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        if len(self.classes) != 2:
            return None
        ratio = 1.0
        if balance is not None:
            now, fitted = balance, self.class_balance[0]
            ratio = float(now[1] / fitted[1] * fitted[0] / now[0])
        return _item_scores(self.mixture, ratio)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        names, test = moments.source_names, independence_of_votes(moments)
        # A source is useless or adversarial by how well it tells the classes apart. How often it is right
        # depends on the class balance too, which sources of mostly one class miss.
        # No source can be right about a class that nobody votes for.
        has_votes = np.asarray(moments.vote_counts) > 0
        voted = np.flatnonzero(has_votes.any(axis=0))
        n_items = float(moments.n_items)
        skill, error = balanced_accuracies(self.confusion, self.class_balance[0], n_items, voted)
        chance, reach = 1 / len(voted), NORMAL_95 * np.nan_to_num(error, nan=np.inf)
        several = has_votes.sum(axis=1) > 1
        by_chance = random_accuracies(np.asarray(moments.vote_counts), self.class_balance[0])
        low, high = self.accuracy_intervals().T
        is_apart = (low > by_chance) | (high < by_chance)
        return replace(
            self._without_triplets(moments, self._verdict(moments, test)),
            identical=names_in_groups(names, self.groups),
            unidentified=names_in(names, self._unidentified(moments)),
            useless=names_in(names, several & (np.abs(skill - chance) <= reach) & ~is_apart),
            adversarial=names_in(names, several & (skill < chance - reach)),
            fit_test=test,
        )

    def _verdict(self, moments: Moments, test: FitTest | None) -> Verdict:
        """Recommend the model or majority vote; ``test`` is a test of independence from counts of pairs."""
        interval = self.gain_interval
        if interval is None:  # from counts alone
            gain, is_certain = gain_on_drawn_items(self), self.is_tested and self.mixture.trust > 0.5
        else:
            gain, is_certain = self.gain, interval[0] > LEAST_GAIN
        if p_value_of_chance(moments) > _BY_CHANCE:
            return Verdict("no signal", _NO_SIGNAL, gain, interval)
        if self.mixture.majority >= 0.5:
            return Verdict("contradictory", _CONTRADICTORY, gain, interval)
        doubts = []
        if not is_certain and not self.is_tested:
            doubts = dependence_doubts(test) or [UNTESTED]
        elif not is_certain:
            doubts = ["under other plausible models it may be less than half a point"]
        if self.second_factor >= SECOND_FACTOR:
            doubts.append("groups of sources agree for a reason that may not be the truth")
        known = np.where(self._unidentified(moments), np.nan, self.accuracies)
        return recommend(gain, known, moments.coverage, doubts, interval)

    def _unidentified(self, moments: Moments) -> NDArray[np.bool_]:
        """Return a mask of voting sources whose accuracy the votes do not determine, shape (m,)."""
        voting = np.asarray(moments.vote_counts).sum(axis=1) > 0
        reach = self.assessment.accuracy_reach()
        return voting & (False if reach is None else np.isnan(reach).any(axis=1))

    # ------------------------------------------------------------------ rows of sequences

    def mean_label(self, codes: Codes | None) -> Array:
        """Return the mean label of rows with votes and one added row of each class, shape (K,).

        Relative to the mean label, the evidence of a row is a likelihood: its mean over all rows is 1 for
        every class. Relative to another balance, neighbors would add evidence that is typical of all rows.
        """
        if codes is None:
            codes = draw_items(self.confusion, self.class_balance[0])[0]
        labels = self.posterior(codes)[has_votes(codes), 0]
        mass = labels.sum(axis=0) + 1
        return np.asarray(mass / mass.sum())

    def row_evidence(self, codes: Codes, balance: Array) -> RowEvidence:
        # Many sources that agree leave 0 for the other classes.
        alone = np.log(np.maximum(self.posterior(codes)[:, 0], LEAST_PRIOR))
        voted = has_votes(codes)
        return RowEvidence(alone, np.where(voted[:, None], alone - np.log(balance), 0.0))

    def transition(self, moments: SequenceMoments, balance: Array) -> Transition:
        tables = np.asarray(self.confusion)
        if len(self.classes) > 2:
            return fit_transition_many(moments, tables, balance)
        several = ~self.mixture.one_sided
        usable = np.outer(several, several) & (self.groups[:, None] != self.groups)
        found = transition_by_agreement(moments, balance, self.accuracies, usable)
        return replace(found, excess_correlation=excess_correlations(moments, tables, found.joint))

    def neighbor_share(self, moments: Moments, persistence: float) -> float:
        n_votes = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
        several = n_votes * ~self.mixture.one_sided
        trust = (
            self.mixture.trust * (1 - self.mixture.majority) * float(several.sum() / max(n_votes.sum(), 1.0))
        )
        return share_of_neighbors(trust, persistence, int((several > 0).sum()))

    # ------------------------------------------------------------------ files

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        mixture = self.mixture
        meta = {
            "trust": float(mixture.trust),
            "anchored_share": float(mixture.anchored_share),
            "majority": float(mixture.majority),
            "gain": None if self.gain_interval is None else [self.gain, *self.gain_interval],
            "is_tested": self.is_tested,
            "second_factor": self.second_factor,
        }
        arrays: dict[str, NDArray[Any]] = {
            "vote_weights": mixture.weights,
            "one_sided": mixture.one_sided.astype(np.int8),
            "without_votes": mixture.without_votes,
            "groups": self.groups.astype(np.int64),
        }
        if mixture.prior is not None:
            arrays["prior"] = mixture.prior
        for name, term in (("tables", mixture.tables), ("anchored", mixture.anchored)):
            if term is not None:
                arrays[f"{name}.logs"] = np.ascontiguousarray(term.logs)
                arrays[f"{name}.weights"] = term.weights
                arrays[f"{name}.balance"] = term.balance
        return meta, arrays

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        m, k = moments.n_sources, moments.n_classes
        common, meta = read_common(state, moments), state.meta
        check_fields(meta, _FIELDS, "fit.")
        if meta["gain"] is not None:
            value, *interval = meta["gain"]
            common["assessment"] = replace(common["assessment"], gain=Gain(value, (interval[0], interval[1])))
        shares = {name: float(meta[name]) for name in _SHARES}
        mixture = Mixture(
            weights=read_array(state, "vote_weights", (m, k), low=0.0, high=_HEAVIEST),
            one_sided=read_array(state, "one_sided", (m,), "int8", low=0, high=1).astype(np.bool_),
            without_votes=read_array(state, "without_votes", (k,), low=0.0, high=1.0),
            prior=read_array(state, "prior", (k,), low=0.0, high=1.0) if "prior" in state.arrays else None,
            tables=_read_term(state, "tables", m, k),
            anchored=_read_term(state, "anchored", m, k),
            **shares,
        )
        groups = read_array(state, "groups", (m,), "int64", low=0, high=m - 1).astype(np.intp)
        return cls(
            **common,
            mixture=mixture,
            groups=groups,
            is_tested=meta["is_tested"],
            second_factor=float(meta["second_factor"]),
        )


def _read_term(state: State, name: str, m: int, n_classes: int) -> TableTerm | None:
    if f"{name}.logs" not in state.arrays:
        return None
    return TableTerm(
        read_array(state, f"{name}.logs", (m, n_classes, n_classes), low=-_MOST_LOG, high=_MOST_LOG),
        read_array(state, f"{name}.weights", (m, n_classes), low=0.0, high=_HEAVIEST),
        read_array(state, f"{name}.balance", (n_classes,), low=LEAST_PRIOR, high=1.0),
    )


def _item_scores(mixture: Mixture, ratio: float) -> ItemScores:
    """Return the contribution of each vote to the sums behind the posterior of one item of two classes.

    ``ratio`` multiplies the posterior odds, for items with a class balance of their own.
    """
    m, one_sided = len(mixture.weights), mixture.one_sided[:, None]
    terms = [term for term in (mixture.tables, mixture.anchored) if term is not None]
    # The sums: votes, weights for each class, and log odds by each term. Only if they are used: votes for the
    # second class, votes of sources of several classes, and one-sided weights for each class and term.
    majority, has_one_sided = mixture.majority, bool(one_sided.any())
    second, several = 3 + len(terms), 3 + len(terms) + bool(majority)
    adds = np.zeros((m, 3, several + has_one_sided * (1 + 2 * len(terms))))
    adds[:, :2, 0] = 1.0
    adds[:, (0, 1), (1, 2)] = mixture.weights
    for number, term in enumerate(terms):
        adds[:, :2, 3 + number] = term.logs[:, 1] - term.logs[:, 0]
    if majority:
        adds[:, 1, second] = 1.0
    if has_one_sided:
        adds[:, :2, several] = ~one_sided
        for number, term in enumerate(terms):
            at = several + 1 + 2 * number
            adds[:, (0, 1), (at, at + 1)] = np.where(one_sided, term.weights, 0.0)
    even, nobody = EVEN_VOTE / 2, float(mixture.without_votes[1])
    added = even if mixture.prior is None else EVEN_VOTE * float(mixture.prior[1])
    odds = [log(term.balance[1] / term.balance[0]) for term in terms]
    use_tables, use_anchored = mixture.tables is not None, mixture.anchored is not None
    trust, anchored_share = mixture.trust, mixture.anchored_share

    def by_term(sums: Sequence[float], number: int) -> float:
        log_odds = sums[3 + number] + odds[number]
        if has_one_sided:
            at = several + 1 + 2 * number
            log_odds += log((sums[at + 1] + even) / (sums[at] + even))
        return probabilities_of(log_odds)[1]

    def answer(p: float) -> tuple[float, float]:
        p = p if ratio == 1.0 else p * ratio / (p * ratio + 1 - p)
        return 1 - p, p

    def finish(sums: Sequence[float]) -> tuple[float, float]:
        n_votes = sums[0]
        if not n_votes:
            return answer(nobody)
        p = (sums[2] + added) / (sums[1] + sums[2] + EVEN_VOTE)
        if use_anchored:
            held = (n_votes * by_term(sums, int(use_tables)) + added) / (n_votes + EVEN_VOTE)
            p = (1 - anchored_share) * p + anchored_share * held
        if use_tables:
            share = trust * sums[several] / n_votes if has_one_sided else trust
            p = share * by_term(sums, 0) + (1 - share) * p
        if majority:
            p = (1 - majority) * p + majority * (sums[second] + added) / (n_votes + EVEN_VOTE)
        return answer(p)

    return ItemScores(adds, finish)


def balanced_accuracies(
    tables: Array | ConfusionTables, balance: Array, n_items: float, classes: NDArray[Any] | None = None
) -> tuple[Array, Array]:
    """Return the balanced accuracy of each source, and its standard error.

    Random votes have a balanced accuracy of 1/K for any frequencies of the classes, and so does a source that
    votes for one class only. The result does not depend on the class balance.

    Parameters
    ----------
    tables : ConfusionTables, or an array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    n_items : float
        How many items were fitted.
    classes : integer array, optional
        Codes of the classes to average over; all by default.

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
    right, n_votes = whole.right(), whole.voting() * balance * n_items
    if classes is not None:
        right, n_votes = right[:, classes], n_votes[:, classes]
    # One vote each way, so that two votes of one kind are not taken for certainty.
    share = (right * n_votes + 1) / (n_votes + 2)
    variance = share * (1 - share) / np.maximum(n_votes, 1.0)
    return right.mean(axis=1), np.sqrt(variance.sum(axis=1)) / right.shape[1]


def _parts(codes: NDArray[Any], mixture: Mixture, best: int, second: int) -> Array:
    """Return the share of each of s votes in the log odds, shape (s,), by steps along their growth."""
    n_classes, s = mixture.weights.shape[1], len(codes)
    steps = max(_FEWEST_STEPS, min(_STEPS, _MOST_ROWS // s))
    grown = np.repeat((np.arange(steps) + 0.5) / steps, s)  # each step, once for each vote
    columns = codes.astype(np.int64) * s + np.arange(s)
    odds = []
    for side in (-_NUDGE, _NUDGE):
        strength = np.repeat(grown[:, None], s, axis=1)
        strength[np.arange(len(grown)), np.tile(np.arange(s), steps)] += side
        strengths = np.zeros((len(grown), n_classes * s))
        strengths[:, columns] = strength
        labels = one_hot_posterior(OneHot.of_strengths(strengths, n_classes), mixture)
        odds.append(np.log(labels[:, best]) - np.log(labels[:, second]))
    slopes = (odds[1] - odds[0]) / (2 * _NUDGE)
    return np.asarray(slopes.reshape(steps, s).mean(axis=0))
