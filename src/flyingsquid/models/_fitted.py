"""Fitted state of the label models: a fit, the counts behind it, and attributes computed from both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._warnings import warn_about_sources
from flyingsquid.fits.base import Fit
from flyingsquid.fits.diagnostics import Diagnostics
from flyingsquid.graph import DependencyGraph
from flyingsquid.models._base import VoteReader, VoteSchema
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import Rows
from flyingsquid.solvers.structure import LearnedGraph
from flyingsquid.votes.features import FeatureItems
from flyingsquid.votes.gold_items import GoldItems


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """A fit and values computed from it. Subclasses also store the counts that were fitted."""

    fit: Fit

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()  # in one step, because another thread may add a cached property

    @property
    def counts(self) -> Moments:
        """Counts of single items."""
        raise NotImplementedError

    @property
    def coverage(self) -> NDArray[np.float64]:
        return np.minimum(self.counts.coverage, 1.0)

    @cached_property
    def interval(self) -> NDArray[np.float64]:
        interval = self.fit.accuracy_intervals()
        interval.flags.writeable = False
        return interval

    @cached_property
    def diagnostics(self) -> Diagnostics:
        return self.fit.diagnose(self.counts)


@dataclass(frozen=True, eq=False)
class Fitted(FittedParameters):
    """A fit, the counts that it was made from, and derived values.

    Attributes
    ----------
    fit : Fit
    moments : Moments
    schema : VoteSchema
    learned_graph : LearnedGraph or None
    rows : {"all", "distinct", "none"}
    n_gold : int
    gold_items : GoldItems or None
        Items with gold labels, for ``partial_fit``.
    feature_items : FeatureItems or None
        A sample of items with features, for ``partial_fit``.
    """

    moments: Moments
    schema: VoteSchema
    learned_graph: LearnedGraph | None = None
    rows: Rows = "none"
    n_gold: int = 0
    gold_items: GoldItems | None = None
    feature_items: FeatureItems | None = None

    @classmethod
    def of(
        cls,
        fit: Fit,
        moments: Moments,
        learned_graph: LearnedGraph | None = None,
        rows: Rows = "none",
        n_gold: int = 0,
    ) -> Fitted:
        """Return a fit with its counts, and with the sources and classes that these have."""
        tasks = (1, moments.n_sources) if fit.graph is None else fit.graph.stacked_shape
        schema = VoteSchema(moments.classes, moments.names, moments.source_names, tasks)
        return cls(fit, moments, schema, learned_graph, rows, n_gold)

    @property
    def counts(self) -> Moments:
        return self.moments

    @cached_property
    def graph(self) -> DependencyGraph:
        plain = self.fit.graph or DependencyGraph(len(self.schema.source_names))
        # A learned graph that had to be left out is not the graph of the fit.
        return self.learned_graph if self.learned_graph == plain else plain


FittedT = TypeVar("FittedT", bound=FittedParameters)
PendingT = TypeVar("PendingT")


class FitState(NamedTuple, Generic[FittedT, PendingT]):
    """The last fit, and later counts that do not determine the accuracies yet."""

    fitted: FittedT | None = None
    pending: PendingT | None = None


class FitAttributes(VoteReader, Generic[FittedT, PendingT]):
    """Attributes of a fitted model, computed from the fit."""

    # Assigned at once, so that an interrupted fit leaves the model as it was.
    _state: FitState[FittedT, PendingT]

    @property
    def _fitted(self) -> FittedT:
        fitted = getattr(self, "_state", FitState()).fitted
        if fitted is None:
            raise self._not_fitted()
        return fitted

    def _warn(self, stacklevel: int = 3) -> Self:
        """Warn about suspicious sources, as if the caller of ``fit`` did."""
        concerns = self._fitted.fit.concerns
        if concerns:
            warn_about_sources(" ".join(concerns), stacklevel=stacklevel)
        return self

    def _joint_codes(self, votes: Any) -> NDArray[np.intp] | None:
        fit = self.fit_
        return None if len(fit.class_balance) == 1 else fit.joint_labels(self.read_votes(votes).codes)

    @property
    def fit_(self) -> Fit:
        """The estimated parameters."""
        return self._fitted.fit

    @property
    def method_(self) -> str:
        return self.fit_.method

    @property
    def reason_(self) -> str:
        return self.fit_.reason

    @property
    def accuracies_(self) -> NDArray[np.float64]:
        return self.fit_.accuracies

    @property
    def accuracies_interval_(self) -> NDArray[np.float64]:
        """95% intervals of ``accuracies_``, shape (m, 2); NaN for a source or method without a formula.

        ``"auto"`` and ``"weighted"`` estimate sources from their own labels. Their intervals also include
        errors that sources share, to the extent that confusion tables do not explain the agreement of the
        sources.

        For more than two classes, the intervals of other methods cover the estimate that the method would
        give for infinitely many items of the same kind, which differs from the truth if the method is
        biased, as ``"agreement"`` is. They need another pass over the votes of ``fit`` (``"agreement"``) or
        ten fits (other methods), with a fixed class balance unless the method estimates it. They are NaN
        after ``fit_moments`` and ``partial_fit``, where only counts are available.

        In sequences, n rows whose errors persist count as n (1 - r)/(1 + r) rows, with r as in ``temper``.
        """
        return self._fitted.interval

    @property
    def confusion_(self) -> NDArray[np.float64]:
        return self.fit_.confusion.values

    @property
    def coverage_(self) -> NDArray[np.float64]:
        return self._fitted.coverage

    @property
    def class_balance_(self) -> NDArray[np.float64]:
        balance = self.fit_.class_balance
        return np.asarray(balance[0] if len(balance) == 1 else balance)

    @property
    def class_balance_interval_(self) -> NDArray[np.float64]:
        """95% intervals of ``class_balance_``; NaN if it was given, or the method has no formula.

        The intervals of ``"auto"`` and ``"weighted"`` take into account that labels may be wrong. Closed
        forms assume that sources are independent given the truth, and have no interval if a test rejects
        that.
        """
        interval = self.fit_.balance_intervals()
        return np.asarray(interval[0] if len(interval) == 1 else interval)

    @property
    def diagnostics_(self) -> Diagnostics:
        """Suspicious sources, a test of independence, and a recommendation; computed on demand."""
        return self._fitted.diagnostics
