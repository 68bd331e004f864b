"""Confusion tables for any number of classes: agreement, EM, three views, one class against the rest.

On a dependency graph, EM starts from three views.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.agreement import PASSES, EMVotes
from flyingsquid.estimation.balance import UNIFORM_NOTE
from flyingsquid.estimation.confusion import ManyFit, fit_many
from flyingsquid.estimation.graph_tables import (
    ManyGraphFit,
    expected_tables,
    expected_units,
    fit_many_graph,
    with_task_tables,
)
from flyingsquid.estimation.standard_errors import group_errors
from flyingsquid.estimation.units import with_units
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.fits.base import Array, Assessment, Fit
from flyingsquid.fits.graph import GraphFit, emissions_from_tables, resolve_temper
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.fits.summary import silent_sources_concern
from flyingsquid.inference import sum_product, with_own_evidence
from flyingsquid.moments import ConfusionTables, Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.closed_form import Covariance, Marginal, Quadratic, Triplet
from flyingsquid.votes import Votes

_BINARY_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (Triplet, Covariance, Quadratic, Marginal)
}

_BY_PASSES = "by the labels of ten passes over the votes"


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

    def checked_for(self, data: FitData) -> Solver:
        if data.n_classes == 2 and isinstance(self.base, Solver):
            return self.base.checked_for(data)
        return super().checked_for(data)

    def solve(self, data: FitData) -> Fit:
        return solve_tables(data, self.name, one_vs_rest=self.base)  # type: ignore[arg-type]


def solve_tables(
    data: FitData, name: str, *, reason: str = "", one_vs_rest: Solver | None = None
) -> IndependentFit:
    """Fit confusion tables of one task; ``name`` is "agreement", "em", "decomposition" or "one_vs_rest"."""
    moments, by_task = data.moments, data.gold_by_task
    gold = None if by_task is None else by_task[0]
    if "estimated_balance" in data.needs and data.rows == "distinct":
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
    over = None
    if data.votes is not None:
        over = EMVotes(data.votes, data.weights, None if data.gold is None else data.gold[:, 0])
    found = fit_many(moments, data.balance.tasks[0], over, gold=gold, **options)
    assessment = Assessment()
    # Standard errors compare groups of items, which distinct rows do not provide.
    if over is not None and data.rows == "all":
        assessment = RefitAssessment(moments=moments, found=found, over=over, options=options)
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
        uses_gold=gold is not None,
        silence_counts=name == Decomposition.name,
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
    options: dict[str, Any]

    @cached_property
    def computed(self) -> Assessment:
        """The results, without the votes."""
        found, over, moments = self.found, self.over, self.moments
        # A learned balance is learned again; others are kept.
        balance = None if found.learned_balance else found.balance

        def refit(rows: NDArray[np.intp]) -> Array:
            part = over.select(rows)
            counts = Moments.of(part.votes, sample_weight=part.weights)
            return fit_many(counts, balance, part, gold=part.gold, **self.options).accuracies

        try:
            errors = group_errors(refit, over.votes.n_items)
        except NotIdentifiableError:  # fewer items may not determine what all items barely determine
            return Assessment()
        n_votes = np.asarray(moments.vote_counts).sum(axis=1)
        return Assessment(np.where(n_votes > 1, errors, np.nan))

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self.computed.widened(self.widening),)


# ---------------------------------------------------------------------- dependency graphs


def solve_tables_on_graph(data: FitData, start: str, *, passes: bool | None = None) -> GraphFit:
    """Fit K classes on a graph.

    Parameters
    ----------
    data : FitData
    start : {"decomposition", "em", "em_if_dense"}
        Start if three views fail on a task: the first raises an error, the others use agreement with EM
        passes, the last only if there are enough votes.
    passes : bool, optional
        Whether to make EM passes from there; by default unless ``start`` is "decomposition".
    """
    moments, balance = data.moments, data.balance
    if data.votes is None:
        raise OptionError(
            f"A graph with {moments.n_classes} classes needs the votes themselves, and only counts are "
            "available; call fit(votes)."
        )
    passes = start != "decomposition" if passes is None else passes
    if "gold" in data.needs and not passes:
        raise OptionError(
            '`gold` is not supported by method="decomposition" on a graph with more than two classes; use '
            'method="auto" or "em".'
        )
    found = fit_many_graph(data.votes, data.weights, moments, balance, method=start)
    temper = resolve_temper(data.temper, found.excess, found.graph, moments.coverage)
    reason = found.reason
    if passes:
        found = refine_on_graph(found, data.votes, data, temper)
    return GraphFit(
        classes=moments.classes,
        source_names=moments.source_names,
        method=found.method,
        reason=reason,
        balance_note=found.balance_note,
        class_balance=found.balance,
        accuracies=found.accuracies,
        confusion=ConfusionTables.of(found.tables),
        concerns=silent_sources_concern(moments),
        uses_gold="gold" in data.needs and found.method == EM.name,
        graph=found.graph,
        temper=temper,
        units=found.units,
        clique_tables=found.task_tables,
        silence_counts=True,
        edge_excess=found.excess,
        mismatch=found.mismatch,
    )


def refine_on_graph(fit: ManyGraphFit, votes: Votes, data: FitData, temper: float) -> ManyGraphFit:
    """Return the fit after EM passes over the votes, with other tasks' evidence tempered.

    Gold labels stay fixed during the passes.
    """
    graph, n_classes, balance = fit.graph, votes.n_classes, data.balance
    weights = np.ones(votes.n_items) if data.weights is None else np.asarray(data.weights, np.float64)
    by_views = np.array([route == "views" for route in fit.routes])
    spared = np.array([route == "agreement" for route in fit.routes])
    kept = spared[list(graph.source_task)]
    given = isinstance(balance.tasks[0], np.ndarray)
    gold = np.full((votes.n_items, graph.n_tasks), -1) if data.gold is None else data.gold
    known = gold >= 0
    if spared.all():
        return replace(fit, method="agreement", balance_note=fit.balance_note if given else UNIFORM_NOTE)
    for _ in range(PASSES):
        emissions = emissions_from_tables(graph, fit.tables, fit.balance, fit.units, silence_counts=True)
        evidence = emissions.evidence(votes.codes)
        posterior, _ = sum_product(temper * evidence, graph._task_tree, fit.task_tables)
        posterior = with_own_evidence(posterior, evidence, temper)
        posterior[known] = np.eye(n_classes)[gold[known]]
        posterior = posterior * weights[:, None, None]
        as_voted = (posterior.sum(axis=0) + 1) / (weights.sum() + n_classes)
        as_voted[spared] = fit.balance[spared]
        settled = [
            known if isinstance(known, np.ndarray) else row
            for known, row in zip(balance.tasks, as_voted, strict=True)
        ]
        tables = expected_tables(votes.codes, posterior, graph, by_views)
        tables[kept] = fit.tables[kept]
        units = expected_units(votes.codes, posterior, graph, tables, by_views)
        units = tuple(
            old if spared[graph.source_task[old.sources[0]]] else new
            for old, new in zip(fit.units, units, strict=True)
        )
        fit = replace(fit, balance=np.stack(settled), tables=with_units(tables, units), units=units)
        # Not from the labels, because those of neighbors share the errors that persist from task to task.
        fit = with_task_tables(fit, data.moments, as_voted, balance.joint)
    return replace(fit, method="em", balance_note=fit.balance_note if given else _BY_PASSES)
