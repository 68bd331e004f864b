"""Fit on a dependency graph: units of dependent sources, dependent tasks, any number of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.transition import effective_row, persistence_of_errors
from flyingsquid.estimation.units import UnitTable, draw_items
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import BOOLEAN, State, check_fields, finite, read_array
from flyingsquid.fits.base import DOUBLE, Array, Fit, read_common
from flyingsquid.fits.diagnostics import (
    UNTESTED,
    Diagnostics,
    accuracy_gain,
    persistence_doubts,
    recommend,
)
from flyingsquid.fits.explanation import Contribution, contributions_of
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import Emissions, max_product, sum_product, vote_shares, with_own_evidence
from flyingsquid.moments import Moments
from flyingsquid.moments.confusion import LEAST_PROBABILITY
from flyingsquid.votes.codes import Codes
from flyingsquid.votes.patterns import by_pattern

_DRAWN_CELLS, _MOST_ITEMS = 1 << 20, 20_000
# Pairs of tasks that were moved by more than this contradicted each other.
_CONTRADICTORY = 0.01
# Margins of tables that were fitted iteratively agree up to this.
_MARGIN_ERROR = 1e-4
# Log odds this small are rounding.
_ROUNDING = 1e-9

_FIELDS = {
    "temper": finite(np.nextafter(0.0, 1.0), 1),
    "silence_counts": BOOLEAN,
    "mismatch": finite(),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphFit(Fit):
    """Parameters of D tasks with dependent sources or dependent tasks.

    Attributes
    ----------
    graph : DependencyGraph
    units : tuple of UnitTable
        Every clique of dependent sources, after the one it shares sources with.
    clique_tables : tuple of arrays of shape (K,) * c
        P(Y_C) of each clique of ``graph._task_tree``.
    silence_counts : bool
        Whether a missing vote is evidence; otherwise it is ignored.
    edge_excess : tuple of arrays
        For each task edge, the persistence of the errors of each source across the edge; empty arrays if the
        tasks do not have the same sources.
    mismatch : float
        The largest difference between ``clique_tables`` and the estimated pairs, which may contradict each
        other.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    >>> sample = fs.datasets.simulate_graph(2_000, graph, 0.75, random_state=0)
    >>> fit = fs.LabelModel(graph).fit(sample.votes).fit_
    >>> type(fit).__name__, [unit.sources for unit in fit.units]
    ('GraphFit', [(0, 1)])
    """

    TAG = "graph"

    graph: DependencyGraph
    units: tuple[UnitTable, ...]
    clique_tables: tuple[Array, ...]
    silence_counts: bool
    edge_excess: tuple[Array, ...]
    mismatch: float

    @cached_property
    def emissions(self) -> Emissions:
        """log P(votes | truth) of every task."""
        return emissions_from_tables(
            self.graph,
            np.asarray(self.confusion),
            self.class_balance,
            self.units,
            silence_counts=self.silence_counts,
        )

    def evidence(self, codes: Codes) -> Array:
        return self.emissions.evidence(codes)

    def posterior(self, codes: Codes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        def on_graph(rows: Codes) -> Array:
            evidence = self.evidence(rows)
            posterior, _ = sum_product(self.temper * evidence, self.graph._task_tree, self.clique_tables)
            return with_own_evidence(posterior, evidence, self.temper)

        return by_pattern(codes, on_graph, len(self.classes), dtype)

    def joint_labels(self, codes: Codes) -> NDArray[np.intp]:
        evidence = self.temper * self.evidence(codes)
        return max_product(evidence, self.graph._task_tree, self.clique_tables)

    def likelihoods(self, codes: Codes) -> Array:
        # From the tables themselves, which sum to 1 even if the class balance contradicts the votes.
        tables = np.asarray(self.confusion)
        plain = emissions_from_tables(self.graph, tables, self.class_balance, self.units, silence_counts=True)
        return plain.evidence(codes)

    def log_likelihood(self, codes: Codes) -> Array:
        return sum_product(self.likelihoods(codes), self.graph._task_tree, self.clique_tables)[1]

    def _contributions(
        self, codes_row: NDArray[Any], task: int, best: int, second: int, posterior: Array
    ) -> list[Contribution]:
        """Return one contribution for each unit of dependent sources, and one for the other tasks."""
        logs, said = self.emissions.log_tables, []
        units = [unit for unit in self.emissions.units if unit[0][0] in self.emissions.tasks[task]]
        for sources, table in units:
            at, n_states = list(sources), len(self.classes) + 1
            digits = np.maximum(codes_row[at], -1).astype(np.intp) + 1
            state = int(digits @ n_states ** np.arange(len(sources)))
            parts = self._contributions_of(at, codes_row, np.zeros(len(at)))
            words = ", ".join(str(part.shown_vote) for part in parts)
            adds = float(table[best, state] - table[second, state])
            said.append(Contribution(" & ".join(part.source for part in parts), words, "", adds))
        in_units = {source for sources, _ in units for source in sources}
        alone = [source for source in self.emissions.tasks[task] if source not in in_units]
        scores = logs[alone, :, np.where(codes_row[alone] >= 0, codes_row[alone], len(self.classes))]
        said += self._contributions_of(alone, codes_row, scores[:, best] - scores[:, second])
        if len(self.emissions.tasks) > 1:
            prior, own = self.class_balance[task], math.fsum(c.adds for c in said)
            total = np.log(posterior[best] / posterior[second]) - np.log(prior[best] / prior[second])
            if abs(total - own) > _ROUNDING:
                said.append(Contribution("other tasks", "", "", float(total - own)))
        return said

    def _contributions_of(
        self, at: list[int], codes_row: NDArray[Any], adds: NDArray[Any]
    ) -> list[Contribution]:
        return contributions_of([self.source_names[i] for i in at], codes_row[at], self.classes, adds)

    @cached_property
    def task_tables(self) -> Array:
        return edge_tables(self.graph, self.clique_tables)

    @cached_property
    def excess_correlation(self) -> Array:
        return excess_by_source(self.edge_excess, self.graph)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        doubts = [*persistence_doubts(self.edge_excess), UNTESTED]
        verdict = recommend(gain_on_graph(self), self.accuracies, moments.coverage, doubts)
        reason = "; ".join(note for note in (self.reason, contradiction_note(self.mismatch)) if note)
        return replace(self._without_triplets(moments, verdict), reason=reason)

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta = {
            "silence_counts": bool(self.silence_counts),
            "temper": float(self.temper),
            "mismatch": float(self.mismatch),
        }
        shape = (len(self.graph.task_edges), _excess_width(self.graph))
        arrays = {
            "unit_tables": _flatten_tables([unit.table for unit in self.units]),
            "task_tables": _flatten_tables(self.clique_tables),
            "edge_excess": np.array(self.edge_excess, np.float64).reshape(shape),
        }
        return meta, arrays

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        graph, meta = moments.graph, state.meta
        if graph is None:
            raise ModelFileError("The counts in the file must have been counted with a graph.")
        check_fields(meta, _FIELDS, "fit.")
        common = read_common(state, moments, graph.n_tasks)
        shape = (len(graph.task_edges), _excess_width(graph))
        excess = read_array(state, "edge_excess", shape, low=-1.0, high=1.0, may_be_nan=True)
        return cls(
            **common,
            graph=graph,
            temper=float(meta["temper"]),
            units=_read_units(state.arrays["unit_tables"], graph, moments.n_classes),
            clique_tables=_read_task_tables(state.arrays["task_tables"], graph, common["class_balance"]),
            silence_counts=meta["silence_counts"],
            edge_excess=tuple(np.asarray(row) for row in excess),
            mismatch=float(meta["mismatch"]),
        )


def emissions_from_tables(
    graph: DependencyGraph,
    tables: Array,
    balance: Array,
    units: tuple[UnitTable, ...],
    *,
    silence_counts: bool,
) -> Emissions:
    """Return log P(votes | truth) of every task.

    Parameters
    ----------
    graph : DependencyGraph
    tables : array of shape (m, K, K + 1)
        P(vote | Y = k).
    balance : array of shape (D, K)
    units : tuple of UnitTable
        Dependent sources, whose joint tables replace their single ones.
    silence_counts : bool
        If False, a missing vote has the same probability under all classes.
    """
    log_tables = np.log(np.maximum(tables, LEAST_PROBABILITY))
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    if not silence_counts:
        for task, sources in enumerate(tasks):
            at = list(sources)
            overall = np.log(np.maximum(tables[at, :, -1] @ balance[task], LEAST_PROBABILITY))
            log_tables[at, :, -1] = overall[:, None]
    joint = []
    for unit in units:
        log_tables[list(unit.sources)] = 0.0
        joint.append((unit.sources, np.log(np.maximum(unit.conditional, 1e-300))))
    return Emissions(tasks, log_tables, tuple(joint))


def gain_on_graph(fit: GraphFit) -> float:
    """Return the accuracy minus that of majority vote, on items drawn from the fit, over all tasks."""
    graph, tables = fit.graph, np.asarray(fit.confusion)
    n_classes = len(fit.classes)
    cells = max(tables.shape[0] * n_classes, *(table.size for table in fit.clique_tables))
    n = int(np.clip(_DRAWN_CELLS // cells, 200, _MOST_ITEMS))
    codes, truths = draw_items(n, graph, fit.clique_tables, tables, fit.units, np.random.default_rng(0))
    posterior, _ = sum_product(fit.evidence(codes), graph._task_tree, fit.clique_tables)
    shares = [
        vote_shares(codes[:, list(graph.sources_of(task))], n_classes)[:, 0] for task in range(graph.n_tasks)
    ]
    return accuracy_gain(posterior, np.stack(shares, axis=1), truths)


def contradiction_note(mismatch: float) -> str:
    """Return a remark if the estimated pairs of tasks contradict each other; otherwise an empty string."""
    if mismatch <= _CONTRADICTORY:
        return ""
    return f"the estimated pairs of tasks contradict each other and were weakened by up to {mismatch:.2g}"


def excess_by_source(excesses: Sequence[Array], graph: DependencyGraph) -> Array:
    """Return the correlation of errors with those on neighboring tasks, averaged over edges, shape (m,).

    ``excesses`` has one array per task edge, with one number per source of a task.
    """
    if graph.stacked_shape is None or not excesses:
        return np.full(graph.n_sources, np.nan)
    total, count = np.zeros(graph.n_sources), np.zeros(graph.n_sources)
    for edge, excess in zip(graph.task_edges, excesses, strict=True):
        for task in edge:
            at, known = np.array(graph.sources_of(task)), np.isfinite(excess)
            total[at[known]] += excess[known]
            count[at[known]] += 1
    return np.divide(total, count, out=np.full(graph.n_sources, np.nan), where=count > 0)


def resolve_temper(
    temper: float | str | None, excesses: Sequence[Array], graph: DependencyGraph, coverage: Array
) -> float:
    """Return the exponent of the evidence of other tasks; "auto" uses the persistence of errors."""
    if isinstance(temper, str):
        by_source = np.nan_to_num(excess_by_source(excesses, graph))
        return effective_row(persistence_of_errors(by_source, coverage))
    return 1.0 if temper is None else float(temper)


def edge_tables(graph: DependencyGraph, clique_tables: tuple[Array, ...]) -> Array:
    """Return P(Y_a, Y_b) of every task edge, shape (E, K, K), from the tables of cliques."""
    home: dict[tuple[int, int], int] = {}
    for number, clique in enumerate(graph._task_tree.cliques):
        for a in clique:
            for b in clique:
                home.setdefault((a, b), number)
    tables = []
    for a, b in graph.task_edges:
        clique, table = graph._task_tree.cliques[home[a, b]], clique_tables[home[a, b]]
        others = tuple(axis for axis, task in enumerate(clique) if task not in (a, b))
        tables.append(table.sum(axis=others))
    n_classes = clique_tables[0].shape[0]
    return np.array(tables).reshape(-1, n_classes, n_classes)


def _excess_width(graph: DependencyGraph) -> int:
    """Return the number of sources per task if the excess is known, else 0."""
    return 0 if graph.stacked_shape is None or not graph.task_edges else graph.stacked_shape[1]


# ---------------------------------------------------------------------- files


def _flatten_tables(tables: Sequence[Array]) -> Array:
    """Return tables as one flat array; their shapes follow from the graph."""
    return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])


def _read_units(flat: NDArray[Any], graph: DependencyGraph, n_classes: int) -> tuple[UnitTable, ...]:
    """Return the tables of dependent sources; raise an error for those that are not probabilities."""
    cliques = [clique for tree in graph._units for clique in tree.cliques]
    separators = [separator for tree in graph._units for separator in tree.separators]
    tables = _cut_tables(flat, [(n_classes, (n_classes + 1) ** len(clique)) for clique in cliques])
    if not all(np.abs(table.sum(axis=1) - 1).max() < 1e-6 and (table >= 0).all() for table in tables):
        raise ModelFileError("The tables of dependent sources in the file must be probabilities.")
    return tuple(UnitTable(*unit) for unit in zip(cliques, separators, tables, strict=True))


def _read_task_tables(flat: NDArray[Any], graph: DependencyGraph, balance: Array) -> tuple[Array, ...]:
    """Return the tables of tasks; they must agree with each other and with ``balance``, shape (D, K)."""
    tables = _cut_tables(flat, [(balance.shape[1],) * len(clique) for clique in graph._task_tree.cliques])
    sums_to_1 = all(abs(table.sum() - 1) < 1e-6 and bool((table > 0).all()) for table in tables)
    if not sums_to_1 or not _agree(tables, graph, balance):
        raise ModelFileError(
            "The tables of tasks in the file must be probabilities that agree with each other."
        )
    return tuple(tables)


def _agree(tables: Sequence[Array], graph: DependencyGraph, balance: Array) -> bool:
    """Return whether cliques of tasks agree with the class balance, and on the tasks that they share."""
    tree = graph._task_tree
    for clique, parent, shared, table in zip(
        tree.cliques, tree.parents, tree.separators, tables, strict=True
    ):
        for axis, task in enumerate(clique):
            others = tuple(a for a in range(len(clique)) if a != axis)
            if np.abs(table.sum(axis=others) - balance[task]).max() > _MARGIN_ERROR:
                return False
        if len(shared) > 1:
            ours = table.sum(axis=tuple(a for a, task in enumerate(clique) if task not in shared))
            up = tree.cliques[parent]
            theirs = tables[parent].sum(axis=tuple(a for a, task in enumerate(up) if task not in shared))
            if np.abs(ours - theirs).max() > 1e-6:
                return False
    return True


def _cut_tables(flat: NDArray[Any], shapes: list[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Split a flat array into tables of the given shapes."""
    sizes = [math.prod(shape) for shape in shapes]
    if flat.shape != (sum(sizes),):
        raise ModelFileError("The tables in the file do not match its graph.")
    parts = np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
