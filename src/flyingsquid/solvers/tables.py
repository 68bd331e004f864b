"""Confusion tables for any number of classes: agreement, EM, three views, one class against the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.agreement import EMVotes
from flyingsquid.estimation.confusion import ManyFit, fit_many
from flyingsquid.estimation.errors import agreement_errors, group_errors
from flyingsquid.estimation.gold import ManyGold
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.fits.base import Array, Assessment, Fit
from flyingsquid.fits.concerns import silent_sources_concern
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.closed_form import Covariance, Marginal, Quadratic, Triplet
from flyingsquid.solvers.graph_tables import solve_tables_on_graph

_BINARY_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (Triplet, Covariance, Quadratic, Marginal)
}


@dataclass(frozen=True)
class Agreement(Solver):
    """Confusion tables from the agreement of each source with other votes. Needs only counts.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Agreement()).fit(votes)
    >>> model.method_
    'agreement'
    """

    name: ClassVar[str] = "agreement"
    requires: ClassVar[Requires] = Requires(rows="optional", gold=True, estimated_balance=True)

    def solve(self, data: FitData) -> Fit:
        return solve_tables(data, self.name)


@dataclass(frozen=True)
class EM(Solver):
    """Ten passes of expectation maximization (Dawid and Skene 1979), started from agreement.

    On a dependency graph the passes start from three views if these suffice.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.EM()).fit(votes)
    >>> model.method_
    'em'
    """

    name: ClassVar[str] = "em"
    requires: ClassVar[Requires] = Requires(rows="required", graph=True, gold=True, estimated_balance=True)

    def solve(self, data: FitData) -> Fit:
        if data.moments.graph is not None:
            return solve_tables_on_graph(data, "em")
        return solve_tables(data, self.name)


@dataclass(frozen=True)
class Decomposition(Solver):
    """Tensor decomposition of three views of the votes: exact for any independent sources.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Decomposition()).fit(votes)
    >>> model.method_
    'decomposition'
    """

    name: ClassVar[str] = "decomposition"
    requires: ClassVar[Requires] = EM.requires

    def solve(self, data: FitData) -> Fit:
        if data.moments.graph is not None:
            return solve_tables_on_graph(data, "decomposition")
        return solve_tables(data, self.name)


@dataclass(frozen=True)
class OneVsRest(Solver):
    """Binary solver applied to each class against the rest: the paper's reduction to two classes.

    For two classes this is the binary solver itself.

    Parameters
    ----------
    base : Solver or str, default="triplet"
        A solver for two classes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> graph = fs.DependencyGraph(5)
    >>> sample = fs.datasets.simulate_graph(2_000, graph, 0.7, n_classes=3, random_state=0)
    >>> model = fs.LabelModel(method=fs.solvers.OneVsRest("covariance")).fit(sample.votes)
    >>> model.accuracies_.round(1)
    array([0.7, 0.7, 0.7, 0.7, 0.7])
    """

    name: ClassVar[str] = "one_vs_rest"
    requires: ClassVar[Requires] = Requires()

    base: Solver | str = "triplet"

    def __post_init__(self) -> None:
        base = self.base
        if isinstance(base, str) and base in _BINARY_SOLVERS:
            base = _BINARY_SOLVERS[base]()
        if not isinstance(base, tuple(_BINARY_SOLVERS.values())):
            known = ", ".join(_BINARY_SOLVERS)
            raise OptionError(
                f"`base` must be a solver for two classes ({known}); got {format_value(self.base)}."
            )
        if isinstance(base, Triplet) and (base.triplets is not None or base.cliques != "instrument"):
            raise OptionError("`triplets` and `cliques` of `base` are not supported by OneVsRest.")
        object.__setattr__(self, "base", base)

    def for_classes(self, n_classes: int) -> Solver:
        return self.base if n_classes == 2 and isinstance(self.base, Solver) else self

    def solve(self, data: FitData) -> Fit:
        return solve_tables(data, self.name, one_vs_rest=self.base)  # type: ignore[arg-type]


def solve_tables(
    data: FitData, name: str, *, reason: str = "", one_vs_rest: Solver | None = None
) -> IndependentFit:
    """Fit confusion tables of one task; ``name`` is "agreement", "em", "decomposition" or "one_vs_rest"."""
    moments, gold = data.moments, data.gold_counts
    if data.estimates_balance and data.rows == "distinct":
        raise OptionError(
            "`class_balance` must be numbers or None for more than two classes if only distinct rows are "
            "available; got 'estimate'. Pass the votes as an array to estimate it."
        )
    options: dict[str, Any] = {"method": name}
    if one_vs_rest is not None:
        options = {
            "method": one_vs_rest.aggregate if isinstance(one_vs_rest, Triplet) else one_vs_rest.name,
            "screen": float(getattr(one_vs_rest, "screen", 1.0)),
        }
        reason, gold = reason or "one class against the rest", None
    over = EMVotes(data.votes, data.weights, None if data.gold is None else data.gold[:, 0])
    found = fit_many(moments, data.balance.tasks[0], over, gold=gold, **options)
    assessment = Assessment()
    # Standard errors compare groups of items, which distinct rows do not provide.
    if over.votes is not None and (data.rows == "all" or name == "agreement"):
        assessment = RefitAssessment(moments=moments, found=found, over=over, gold=gold, options=options)
    return IndependentFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=name,
        reason=reason,
        balance_note=found.balance_note,
        class_balance=found.balance[None, :],
        accuracies=found.accuracies,
        confusion=found.tables,
        concerns=silent_sources_concern(moments),
        gold=gold,
        silence_counts=found.silence_counts,
        assessment=assessment,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class RefitAssessment(Assessment):
    """Standard errors by fitting the votes again, computed on demand.

    Copies and pickles hold the standard errors instead of the votes.
    """

    moments: Moments
    found: ManyFit
    over: EMVotes
    gold: ManyGold | None
    options: dict[str, Any]

    @cached_property
    def _errors(self) -> Array:
        found, over, moments = self.found, self.over, self.moments
        unknown = np.full(moments.n_sources, np.nan)
        if over.votes is None:
            return unknown
        if found.method == "agreement" and self.gold is None:
            return agreement_errors(moments, over, found.balance)
        # A learned balance is learned again; others are kept.
        balance = None if found.learned_balance else found.balance

        def refit(rows: NDArray[np.intp]) -> Array:
            part = over.select(rows)
            counts = Moments.of(part.votes, sample_weight=part.weights)
            return fit_many(counts, balance, part, gold=part.gold, **self.options).accuracies

        try:
            errors = group_errors(refit, over.votes.n_items)
        except NotIdentifiableError:  # fewer items may not determine what all items barely determine
            return unknown
        cast = np.asarray(moments.vote_counts).sum(axis=1)
        return np.where(cast > 1, errors, np.nan)

    def standard_errors(self, n_sources: int) -> Array:
        return self._errors

    def __reduce__(self) -> tuple[Any, ...]:
        return Assessment, (self._errors,)
