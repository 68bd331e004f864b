"""Fit of one task whose sources are independent given the truth: confusion tables and a class balance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.sources import vote_weights
from flyingsquid.files.state import BOOLEAN, State, check_fields
from flyingsquid.fits.base import (
    DOUBLE,
    Array,
    Fit,
    ItemScores,
    probabilities_of,
    read_common,
)
from flyingsquid.fits.diagnostics import UNTESTED, Diagnostics, accuracy_gain, recommend
from flyingsquid.fits.explanation import Contribution, contributions_of
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.inference import (
    binary_evidence,
    binary_posterior,
    class_posterior,
    vote_shares,
)
from flyingsquid.moments import ConfusionTables, DenseLogs, Moments, VoteLogs
from flyingsquid.votes.codes import Codes

SINGLE_TASK = JunctionTree(cliques=((0,),), parents=(-1,), separators=((),))
# Cells of votes drawn to estimate the gain over majority vote, and the most items.
_DRAWN_CELLS, _MOST_ITEMS = 1 << 20, 20_000


@dataclass(frozen=True, eq=False, kw_only=True)
class IndependentFit(Fit):
    """Confusion tables of independent sources and a class balance, for any number of classes.

    Attributes
    ----------
    silence_counts : bool
        Whether a missing vote is evidence; otherwise it is ignored.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> fit = fs.LabelModel(method="covariance").fit(votes).fit_
    >>> type(fit).__name__, fit.confusion.shape
    ('IndependentFit', (7, 2, 3))
    """

    TAG = "independent"

    silence_counts: bool = False

    @property
    def _prior(self) -> Array:
        return np.asarray(self.class_balance[0])

    @cached_property
    def _weights(self) -> Array:
        """log P(vote | Y=1) - log P(vote | Y=0) of two classes, no vote last, shape (m, 3)."""
        return vote_weights(np.asarray(self.confusion), absence_counts=self.silence_counts)

    @cached_property
    def vote_scores(self) -> VoteLogs:
        """Contribution of each vote to the log score of each class, no vote last."""
        if len(self.classes) == 2:
            return DenseLogs(np.stack([np.zeros_like(self._weights), self._weights], axis=1))
        silent = self.confusion.voting().max(axis=1) == 0
        return self.confusion.logs(silent=silent, abstention_counts=self.silence_counts)

    def evidence(self, codes: Codes) -> Array:
        if len(self.classes) > 2:
            return self.vote_scores.evidence(codes)[:, None, :]
        log_odds = binary_evidence(codes, self._weights)
        # Class by class, so that the columns are contiguous.
        evidence = np.zeros((2, len(log_odds)))
        evidence[1] = log_odds
        return evidence.T[:, None, :]

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        if len(self.classes) == 2:
            return binary_posterior(codes, self._prior, self._weights, dtype)
        return class_posterior(codes, self._prior, self.vote_scores)

    def _contributions(
        self, codes_row: NDArray[Any], task: int, best: int, second: int, posterior: Array
    ) -> list[Contribution]:
        scores = self.vote_scores.of_votes(codes_row)
        adds = scores[:, best] - scores[:, second]
        return contributions_of(self.source_names, codes_row, self.classes, adds)

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        if len(self.classes) != 2:
            return None
        prior = self._prior if balance is None else balance
        offset = log(prior[1]) - log(prior[0])
        return ItemScores(self._weights[:, :, None], lambda sums: probabilities_of(sums[0] + offset))

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        verdict = recommend(gain_on_drawn_items(self), self.accuracies, moments.coverage, [UNTESTED])
        return self._without_triplets(moments, verdict)

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"silence_counts": bool(self.silence_counts)}, {}

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        check_fields(state.meta, {"silence_counts": BOOLEAN}, "fit.")
        return cls(**read_common(state, moments), silence_counts=state.meta["silence_counts"])


def gain_on_drawn_items(fit: Fit) -> float:
    """Return the accuracy minus that of majority vote, on items drawn from the tables with a fixed seed."""
    balance = fit.class_balance[0]
    codes, y = draw_items(fit.confusion, balance)
    return accuracy_gain(fit.posterior(codes)[:, 0], vote_shares(codes, len(balance))[:, 0], y)


def draw_items(tables: ConfusionTables, balance: Array) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return codes of items drawn from the tables with a fixed seed, shape (n, m), and their classes."""
    rng = np.random.default_rng(0)
    m, n_classes, _ = tables.shape
    n = int(np.clip(_DRAWN_CELLS // (m * n_classes), 200, _MOST_ITEMS))
    y = rng.choice(n_classes, n, p=balance)
    return tables.draw(y, rng), y
