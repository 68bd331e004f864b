"""Automatic choice of the method: the meaning of ``method="auto"``.

Weighted votes are mixed with confusion tables, with a share that depends on how well the tables explain the
votes. Gold labels correct the log odds of the mixture. Votes with a structure are those of a panel of judges.
Other solvers are used for dependency graphs and known signs. The mixture always estimates the class balance
unless it is given, so ``class_balance="estimate"`` changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from flyingsquid.estimation.triplets import Options
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.base import Fit
from flyingsquid.fits.graph import GraphFit
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.closed_form import Triplet, solve_closed_form
from flyingsquid.solvers.corrected import solve_corrected
from flyingsquid.solvers.panel import Panel
from flyingsquid.solvers.tables import EM, solve_tables_on_graph
from flyingsquid.solvers.weighted import solve_mixture


@dataclass(frozen=True)
class Auto(Solver):
    """Mix weighted votes with confusion tables; ``reason_`` of the model reports the shares.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Auto()).fit(votes)
    >>> model.method_
    'auto'
    """

    name: ClassVar[str] = "auto"
    requires: ClassVar[Requires] = Requires(
        rows="optional", graph=True, gold=True, signs=True, estimated_balance=True
    )

    def solve(self, data: FitData) -> Fit:
        if data.needs & {"graph", "signs"}:
            return _tables_or_triplets(data)
        if data.votes is not None and data.votes.structure is not None:
            return Panel().solve(data)
        if "gold" in data.needs:
            return solve_corrected(data, self.name)
        return solve_mixture(data, self.name)


# ---------------------------------------------------------------------- closed forms and tables


def _tables_or_triplets(data: FitData) -> Fit:
    """Fit confusion tables: two classes by triplets, more on a graph by three views or EM."""
    if data.n_classes > 2:
        return _tables_on_graph(data)
    options = Options("mean", data.anchors, 1.0)
    return solve_closed_form(data, options, Triplet.name, reason="the mean over all triplets")


def _tables_on_graph(data: FitData) -> Fit:
    """Fit more than two classes on a graph.

    A learned graph on which three views fail is dropped with a warning, because the user did not ask for its
    edges, and because such graphs lost accuracy on real rules.
    """
    EM().checked_for(data)
    if data.learned_graph is None:
        start = "em" if "gold" in data.needs else "em_if_dense"  # gold labels take part in the passes
        return _with_passes_noted(solve_tables_on_graph(data, start))
    try:
        return _with_passes_noted(solve_tables_on_graph(data, "decomposition", passes=True))
    except NotIdentifiableError as error:
        dropped = f"The learned dependencies are left out, because they leave too little to estimate: {error}"
        plain = replace(
            data,
            moments=Moments.of(data.votes, sample_weight=data.weights),
            learned_graph=None,
        )
        mixed = solve_mixture(plain, Auto.name)
        return replace(mixed, concerns=(dropped, *mixed.concerns))


def _with_passes_noted(fit: GraphFit) -> GraphFit:
    if fit.method != EM.name:
        return fit
    notes = ("three views and ten passes over the votes", fit.reason)
    return replace(fit, reason="; ".join(note for note in notes if note))
