"""Fit of one task whose sources are independent given the truth: confusion tables and a class balance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flyingsquid.estimation.sparse_tables import SparseTables, scaled_rows
from flyingsquid.estimation.tables import vote_weights
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.fits.base import (
    DOUBLE,
    RAREST_VOTE,
    Array,
    Fit,
    ItemScores,
    PosteriorParameters,
    Tables,
    read_common,
)
from flyingsquid.fits.diagnostics import Diagnostics, accuracy_gain, recommend, without_triplets
from flyingsquid.fits.explanation import Explanation, explain_independent
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.infer import (
    Emissions,
    SparseLogs,
    binary_evidence,
    binary_posterior,
    class_evidence,
    class_posterior,
    vote_shares,
)
from flyingsquid.io import State
from flyingsquid.moments import Moments
from flyingsquid.votes.one_hot import one_hot
from flyingsquid.votes.states import Codes

SINGLE_TASK = JunctionTree(cliques=((0,),), parents=(-1,), separators=((),))
# Cells of votes drawn to estimate the gain over majority vote, and the most items.
_DRAWN_CELLS, _MOST_ITEMS = 1 << 20, 20_000


@dataclass(frozen=True, eq=False, kw_only=True)
class IndependentFit(Fit):
    """Confusion tables of independent sources and a class balance, for any number of classes.

    Attributes
    ----------
    silence_counts : bool
        Whether a missing vote is evidence, as the tables say; otherwise it adds nothing.
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
    def vote_scores(self) -> Array | SparseLogs:
        """What each vote adds to the log score of each class, no vote last, shape (m, K, K + 1)."""
        if len(self.classes) == 2:
            return np.stack([np.zeros_like(self._weights), self._weights], axis=1)
        if isinstance(self.confusion, SparseTables):
            return _sparse_logs(self.confusion, self.confusion.coverage > 0)
        logs = np.log(np.maximum(self.confusion, RAREST_VOTE))
        if not self.silence_counts:
            logs[:, :, -1] = 0.0
        return logs

    def evidence(self, codes: Codes) -> Array:
        if len(self.classes) > 2:
            return class_evidence(codes, self.vote_scores)[:, None, :]
        log_odds = binary_evidence(codes, self._weights)
        # Class by class, so that the columns are contiguous.
        evidence = np.zeros((2, len(log_odds)))
        evidence[1] = log_odds
        return evidence.T[:, None, :]

    def likelihoods(self, codes: Codes) -> Array:
        return table_likelihoods(self.confusion, codes)[:, None, :]

    def log_likelihood(self, codes: Codes) -> Array:
        return np.asarray(logsumexp(self.likelihoods(codes)[:, 0] + np.log(self._prior), axis=1))

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        if len(self.classes) == 2:
            return binary_posterior(codes, self._prior, self._weights, dtype)
        return class_posterior(codes, self._prior, self.vote_scores)

    def explain(self, codes_row: NDArray[Any], task: int = 0) -> Explanation:
        posterior = self.posterior(codes_row[None, :])[0, 0]
        scores = self.vote_scores
        if isinstance(scores, SparseLogs):
            adds = scores.of_votes(codes_row)
        else:
            adds = scores[np.arange(len(codes_row)), :, np.where(codes_row < 0, -1, codes_row)]
        return explain_independent(codes_row, self.classes, self.source_names, self._prior, posterior, adds)

    def parameters(self) -> PosteriorParameters:
        scores = self.vote_scores
        if isinstance(scores, SparseLogs):
            raise OptionError(
                f"confusion tables of {len(self.source_names):,} sources and {len(self.classes):,} classes "
                "are stored sparsely; use predict_proba"
            )
        everyone = (tuple(range(len(self.source_names))),)
        return PosteriorParameters(Emissions(everyone, scores), SINGLE_TASK, (self._prior,), 1.0)

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        if len(self.classes) != 2:
            return None
        prior = self._prior if balance is None else balance
        offset = log(prior[1]) - log(prior[0])
        adds = np.stack([np.zeros_like(self._weights), self._weights], axis=2)

        def finish(first: float, second: float) -> tuple[float, float]:
            log_odds = second - first + offset
            # By the smaller side, which the rounding of the larger one would lose.
            small = exp(-abs(log_odds))
            unlikely, likely = small / (1 + small), 1 / (1 + small)
            return (likely, unlikely) if log_odds < 0 else (unlikely, likely)

        return ItemScores(adds, finish)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        gain = gain_on_drawn_items(self.confusion, self._prior, lambda codes: self.posterior(codes)[:, 0])
        return without_triplets(
            moments,
            method=self.method,
            reason=self.reason,
            class_balance=self.balance_note,
            verdict=recommend(gain, self.accuracies, moments.coverage),
        )

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"silence_counts": bool(self.silence_counts)}, {}

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        if type(state.meta["silence_counts"]) is not bool:
            raise ModelFileError("silence_counts in the file must be true or false")
        return cls(**read_common(state, moments), silence_counts=state.meta["silence_counts"])


def accuracies_from_tables(tables: Tables, balance: Array, silent: NDArray[np.bool_]) -> Array:
    """Return P(vote is right | source votes), shape (m,); one half for sources that always abstain."""
    if isinstance(tables, SparseTables):
        return np.where(silent, 0.5, tables.right() @ balance)
    votes = balance[:, None] * tables[:, :, :-1]
    cast = votes.sum(axis=(1, 2))
    right = np.einsum("mkk->m", votes)
    return np.divide(right, cast, out=np.full(len(cast), 0.5), where=(cast > 0) & ~silent)


def gain_on_drawn_items(tables: Tables, balance: Array, label: Callable[[NDArray[Any]], Array]) -> float:
    """Return the accuracy less that of majority vote, on items drawn from the tables with a fixed seed.

    ``label`` returns posteriors of shape (n, K) for codes of shape (n, m).
    """
    rng = np.random.default_rng(0)
    m, n_classes, _ = tables.shape
    n = int(np.clip(_DRAWN_CELLS // (m * n_classes), 200, _MOST_ITEMS))
    y = rng.choice(n_classes, n, p=balance)
    codes = tables.draw(y, rng) if isinstance(tables, SparseTables) else _draw(tables, y, rng)
    return accuracy_gain(label(codes), vote_shares(codes, n_classes)[:, 0], y)


def _draw(tables: Array, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
    """Return votes on items of classes ``y``, shape (n, m): codes with -1 for no vote."""
    n, (m, n_classes, _) = len(y), tables.shape
    codes = np.empty((n, m), np.int16)
    for i, table in enumerate(tables):
        steps = np.cumsum(table, axis=1)
        drawn = (rng.random((n, 1)) * steps[y, -1:] > steps[y]).sum(axis=1)
        codes[:, i] = np.where(drawn >= n_classes, -1, drawn)
    return codes


def _sparse_logs(tables: SparseTables, voting: NDArray[np.bool_]) -> SparseLogs:
    shared, counts = voting[:, None] * np.ones_like(tables.shared), tables.beyond
    beyond = scaled_rows(counts, shared / tables.shared)
    beyond.data = np.log1p(beyond.data)
    return SparseLogs(
        np.where(voting[:, None], np.log(tables.shared), 0.0).T.ravel(),
        np.where(voting[:, None], -np.log(tables.totals), 0.0),
        beyond,
    )


def table_likelihoods(tables: Tables, codes: Codes) -> Array:
    """Return log P(votes | Y = k) by confusion tables, shape (n, K)."""
    if not isinstance(tables, SparseTables):
        return class_evidence(codes, np.log(np.maximum(tables, RAREST_VOTE)))
    coverage, n_classes = tables.coverage, tables.shape[1]
    evidence = _sparse_logs(tables, np.ones(len(coverage), np.bool_)).evidence(codes)
    voted, silent = (np.log(np.maximum(p, RAREST_VOTE)) for p in (coverage, 1 - coverage))
    adds = np.tile(voted - silent, n_classes)
    return np.asarray(evidence + (one_hot(codes, n_classes) @ adds)[:, None] + silent.sum())
