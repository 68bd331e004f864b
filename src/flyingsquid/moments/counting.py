"""Counting of votes: which pairs and joint votes a graph needs, and kernels that give the same integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count
from flyingsquid.exceptions import GraphError, IncompatibleError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.kernels import kernels_for, pair_counts
from flyingsquid.moments.pairs import (
    DensePairs,
    PairCounts,
    are_pairs_sparse,
    is_sparse_enough,
    pair_counts_of,
)
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import Codes, OneHot, dense_codes, rows_of_entries
from flyingsquid.votes.grid import CountedRows, one_hot_patterns
from flyingsquid.votes.patterns import all_patterns, n_patterns, packed_chunks

# Groups of sources on one task that suffice to estimate each other without help from other tasks.
_ENOUGH_GROUPS = 3


@dataclass(frozen=True, slots=True)
class CountPlan:
    """The pairs and joint votes that are counted, as sets of sources.

    All pairs inside a set are counted, which is one matrix product per set. Without a graph there is one set
    of all sources. A chain of D tasks has D - 1 sets of a fixed size, so counting is linear in D.

    Attributes
    ----------
    n_sources : int
    graph : DependencyGraph, or None for one task of independent sources
    pair_sets : tuple of tuples of int
        The sources of each set, ascending.
    task_sets : tuple of D int
        Number of the set that the sources of each task are estimated from.
    edge_sets : tuple of int
        Number of the set that holds both tasks of each task edge.
    units : tuple of tuples of int
        Dependent sources whose joint votes are counted.
    unit_sets : tuple of int
        Number of the set whose sources each unit is counted with.
    """

    n_sources: int
    graph: DependencyGraph | None
    pair_sets: tuple[tuple[int, ...], ...]
    task_sets: tuple[int, ...]
    edge_sets: tuple[int, ...] = ()
    units: tuple[tuple[int, ...], ...] = ()
    unit_sets: tuple[int, ...] = ()

    @classmethod
    @lru_cache
    def all_pairs(cls, n_sources: int) -> CountPlan:
        """Return the plan without a graph: one set of all sources."""
        return cls(n_sources, None, (tuple(range(n_sources)),), (0,))

    @classmethod
    def of(cls, graph: DependencyGraph) -> CountPlan:
        """Return the sets that a graph needs.

        A task with three groups of its own is estimated from them. One with fewer also needs the sources of
        its neighbors, and those of two adjacent neighbors.
        """
        if graph.is_trivial:
            return cls.all_pairs(graph.n_sources)
        sets: dict[tuple[int, ...], int] = {}
        homes = {}
        for task in range(graph.n_tasks):
            own, near = graph.sources_of(task), graph.neighbors(task)
            if len(set(graph._groups[list(own)].tolist())) < _ENOUGH_GROUPS or not near:
                columns = {*own, *(i for other in near for i in graph.sources_of(other))}
                homes[task] = sets.setdefault(tuple(sorted(columns)), len(sets))
        helped = set(homes)  # their sets hold all neighbors, so all their edges too
        edge_sets = []
        for edge in graph.task_edges:
            at = next((homes[task] for task in edge if task in helped), -1)
            if at < 0:
                columns = {i for task in edge for i in graph.sources_of(task)}
                at = sets.setdefault(tuple(sorted(columns)), len(sets))
            edge_sets.append(at)
            for task in edge:
                homes.setdefault(task, at)
        units = tuple(clique for tree in graph._units for clique in tree.cliques)
        unit_sets = tuple(homes[graph.source_task[unit[0]]] for unit in units)
        task_sets = tuple(homes[task] for task in range(graph.n_tasks))
        return cls(graph.n_sources, graph, tuple(sets), task_sets, tuple(edge_sets), units, unit_sets)

    @property
    def largest_set(self) -> int:
        """Number of sources in the largest set."""
        return max(len(sources) for sources in self.pair_sets)

    def positions(self, number: int, sources: tuple[int, ...]) -> tuple[int, ...]:
        """Return the positions of sources in a set that contains them."""
        return tuple(int(i) for i in np.searchsorted(self.pair_sets[number], sources))

    def set_with(self, sources: tuple[int, ...]) -> int:
        """Return the number of a set that holds all of some sources.

        Raises
        ------
        IncompatibleError
            If there is none.
        """
        for number in self._likely_sets(sources):
            if set(sources) <= set(self.pair_sets[number]):
                return number
        raise IncompatibleError(
            f"Pairs of the sources {', '.join(map(str, sources[:6]))} are not counted because the graph does "
            "not need them. Count the votes without a graph."
        )

    def _likely_sets(self, sources: tuple[int, ...]) -> list[int]:
        """Return numbers of sets, those that the graph assigns to the tasks of the sources first."""
        first: list[int] = []
        if self.graph is not None:
            tasks = tuple(sorted({self.graph.source_task[i] for i in sources}))
            if len(tasks) == 1:
                first.append(self.task_sets[tasks[0]])
            if tasks in self.graph.task_edges:
                first.append(self.edge_sets[self.graph.task_edges.index(tasks)])
            if sources in self.pair_sets:
                first.append(self.pair_sets.index(sources))
        return first + [number for number in range(len(self.pair_sets)) if number not in first]

    def shapes(self, n_classes: int) -> list[tuple[int, ...]]:
        """Return the shapes of the dense counts of all pair sets, then of all units."""
        k = n_classes
        shapes: list[tuple[int, ...]] = [(k, k, len(s), len(s)) for s in self.pair_sets]
        for unit, number in zip(self.units, self.unit_sets, strict=True):
            shapes.append(((k + 1) ** len(unit), 1 + k * len(self.pair_sets[number])))
        return shapes


# ---------------------------------------------------------------------- sizes


def check_plan_size(plan: CountPlan, n_classes: int) -> None:
    """Raise an error for counts that would not fit into memory."""
    limits, together = LIMITS.get(), 0
    for unit, number in zip(plan.units, plan.unit_sets, strict=True):
        states = (n_classes + 1) ** len(unit)
        size = states * (1 + n_classes * len(plan.pair_sets[number])) * 8
        if size > limits.unit_bytes:
            raise GraphError(
                f"Sources {', '.join(map(str, unit))} depend on each other, and their joint votes on "
                f"{n_classes:,} classes have {states:,} states; counting them would need {size / 1e9:,.0f} "
                "GB. Remove edges between them, or declare fewer classes."
            )
        together += size
    if together > limits.all_units_bytes:
        raise GraphError(
            f"{len(plan.units):,} groups of sources depend on each other; counting the joint votes of all of "
            f"them on {n_classes:,} classes would need {together / 1e9:,.0f} GB. Declare fewer edges, or "
            "fewer classes."
        )
    largest = plan.largest_set
    if are_pairs_sparse(largest, n_classes):
        return
    size = (largest * n_classes) ** 2 * 8
    if size > limits.pair_bytes:
        raise VotesError(
            f"Counts of all pairs of {largest:,} sources and {n_classes:,} classes would need "
            f"{size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use "
            "MajorityVote."
        )


def check_sequence_size(n_sources: int, n_classes: int) -> None:
    """Raise an error for counts of neighboring items that would not fit into memory."""
    size = (n_sources * n_classes) ** 2 * 8
    if size > LIMITS.get().pair_bytes:
        raise VotesError(
            f"Counts of neighboring items for {format_count(n_sources, 'source')} and {n_classes:,} classes "
            f"would need {size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use "
            "LabelModel."
        )


def check_frequencies(weights: NDArray[Any]) -> None:
    """Raise an error for weights that are probabilities instead of numbers of items."""
    total = float(weights.sum())
    if weights.dtype.kind == "f" and len(weights) > 1 and total < 1 + 1e-6:
        raise VotesError(
            f"`sample_weight` must sum to the number of items; got a sum of {total:g} for "
            f"{format_count(len(weights), 'item')}. Multiply probabilities by the number of items."
        )


# ---------------------------------------------------------------------- kernels

# With a smaller share of votes than this, counting vote by vote beats the matrix product.
_FEW_VOTES = 0.05
_SAMPLE_CELLS = 1 << 20
_BUFFER_BYTES = 1 << 26
# Below 2**24, up to which float32 counts exactly, and large enough for BLAS.
_CHUNK_ROWS = 1 << 13
_SPARSE_CHUNK_PAIRS = 1 << 22


def count_pairs(
    codes: Codes,
    n_classes: int,
    weights: NDArray[Any] | None = None,
    units: Sequence[tuple[int, ...]] = (),
    rows: CountedRows | None = None,
) -> tuple[PairCounts, list[NDArray[Any]]]:
    """Count pairs of votes, and the joint votes of ``units`` of sources.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes
    weights : array of shape (n,), optional
        How often each item counts.
    units : sequence of tuples of columns
    rows : CountedRows, optional
        How often each row occurs, if it has been counted already.

    Returns
    -------
    pairs : PairCounts
        Integers, unless the weights are floats; the same holds for the units.
    units : list of arrays of shape ((K+1)^s, 1 + K m), for units of s sources
        Row r is the state whose votes are row r of ``all_patterns(s, K)``. Column 0 counts the items in
        that state, column 1 + v m + j those of them in which source j votes v.
    """
    m = codes.shape[1]
    is_exact = weights is None or weights.dtype.kind == "i"
    counts: Any
    if are_pairs_sparse(m, n_classes):
        counts = _by_sparse_product(codes, n_classes, weights)
        joint = _count_units(codes, n_classes, weights, units) if units else []
    elif (found := rows or CountedRows.of(codes, n_classes, weights)) is not None:
        counts = found.grid.pair_counts(found.counts)
        joint = [_unit_of_histogram(found.counts, m, n_classes, unit) for unit in units]
    else:
        by_product = isinstance(codes, csr_array) or _are_few(codes)
        counts = (_by_sparse_product if by_product else _by_bits)(codes, n_classes, weights)
        joint = _count_units(codes, n_classes, weights, units) if units else []
    if is_exact:
        joint = [np.rint(unit).astype(np.int64) for unit in joint]
    if isinstance(counts, csr_array):
        if is_exact:
            counts.data = np.rint(counts.data).astype(np.int64)
        return pair_counts_of(counts, n_classes), joint
    if is_exact and counts.dtype != np.int64:
        counts = np.rint(counts).astype(np.int64)
    return DensePairs(np.ascontiguousarray(counts)), joint


def _are_few(codes: NDArray[Any]) -> bool:
    """Return whether few cells contain a vote, estimated from evenly spaced items."""
    sample = codes[:: max(1, codes.size // _SAMPLE_CELLS)]
    return bool(np.count_nonzero(sample >= 0) < _FEW_VOTES * sample.size)


def _unit_of_histogram(
    histogram: NDArray[np.float64], m: int, n_classes: int, unit: tuple[int, ...]
) -> NDArray[np.float64]:
    """Count the patterns of a unit, separately and together with the votes of all sources."""
    others = [j for j in range(m) if j not in unit]
    radix, size = n_classes + 1, n_patterns(len(unit), n_classes)
    # The first source of a pattern is the fastest axis, the last one of the reshaped histogram.
    axes = [m - 1 - j for j in (*reversed(unit), *reversed(others))]
    table = histogram.reshape((radix,) * m).transpose(axes).reshape(size, -1)
    total = table.sum(axis=1)
    counts = np.empty((size, n_classes, m))
    votes = table @ one_hot_patterns(len(others), n_classes)
    counts[:, :, others] = votes.reshape(size, n_classes, len(others))
    inside = all_patterns(len(unit), n_classes)[:, None, :] == np.arange(n_classes)[:, None]
    counts[:, :, list(unit)] = total[:, None, None] * inside
    return np.column_stack([total, counts.reshape(size, n_classes * m)])


def _by_bits(codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None) -> NDArray[Any]:
    """Count common bits if compiled loops are available and all weights are 1, otherwise by products."""
    kernels = None if weights is not None else kernels_for(codes, n_classes, "bits")
    if kernels is None:
        return _by_gram(codes, n_classes, weights)
    m = codes.shape[1]
    counts = pair_counts(kernels, codes, n_classes)
    return counts.reshape(n_classes, m, n_classes, m).transpose(0, 2, 1, 3)


def _by_gram(
    codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None, buffer_bytes: int = _BUFFER_BYTES
) -> NDArray[np.float64]:
    n, m = codes.shape
    # Unweighted counts of a chunk are exact in float32, at half the cost of float64.
    dtype = np.dtype(np.float32 if weights is None else np.float64)
    width = n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, buffer_bytes // (width * dtype.itemsize)))
    buffer = np.empty((rows, n_classes, m), dtype)
    counts = np.zeros((width, width))
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        hot = buffer[: len(chunk)]
        for k in range(n_classes):
            hot[:, k] = chunk == k
        flat = hot.reshape(len(chunk), width)
        if weights is None:
            counts += flat.T @ flat
        else:
            counts += flat.T @ (flat * weights[start : start + len(chunk), None])
    return counts.reshape(n_classes, m, n_classes, m).transpose(0, 2, 1, 3)


def _by_sparse_product(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None
) -> NDArray[Any] | csr_array:
    """Count vote by vote, as a sparse matrix of shape (K m, K m) unless the first items fill an array."""
    m, products = codes.shape[1], _sparse_products(codes, n_classes, weights)
    first = next(products, csr_array((n_classes * m, n_classes * m)))
    if is_sparse_enough(first, n_classes):
        return csr_array(sum(products, start=first))
    # Integers in the final order from the start: most cells stay 0, and a copy would touch them all.
    counts = np.zeros(n_classes**2 * m**2, np.int64 if weights is None else np.float64)
    for product in chain([first], products):
        part = product.tocoo()
        (a, i), (b, j) = (np.divmod(at.astype(np.int64), m) for at in (part.row, part.col))
        counts[((a * n_classes + b) * m + i) * m + j] += part.data.astype(counts.dtype)
    return counts.reshape(n_classes, n_classes, m, m)


def _sparse_products(codes: Codes, n_classes: int, weights: NDArray[Any] | None) -> Iterator[csr_array]:
    """Yield counts of pairs for one chunk of items after the other."""
    cast = OneHot.of(codes, n_classes).matrix
    for rows in slices_by_cost(np.diff(cast.indptr).astype(np.int64) ** 2):
        part = cast[rows]
        right = part if weights is None else part.multiply(weights[rows, None]).tocsr()
        yield csr_array(part.T @ right)


def slices_by_cost(cost: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of rows whose sparse products fit into memory; ``cost`` bounds the entries of each row."""
    total, start = np.cumsum(cost), 0
    while start < len(total):
        reached = (total[start - 1] if start else 0) + _SPARSE_CHUNK_PAIRS
        stop = max(start + 1, int(np.searchsorted(total, reached, side="right")))
        yield slice(start, stop)
        start = stop


def _count_units(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None, units: Sequence[tuple[int, ...]]
) -> list[NDArray[np.float64]]:
    n, m = codes.shape
    dtype = np.dtype(np.float32 if weights is None else np.float64)
    sizes = [n_patterns(len(unit), n_classes) for unit in units]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width = 1 + n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, _BUFFER_BYTES // ((width + int(starts[-1])) * dtype.itemsize)))
    votes, states = np.ones((rows, width), dtype), np.empty((rows, int(starts[-1])), dtype)
    counts = np.zeros((int(starts[-1]), width))
    step = max(1, _BUFFER_BYTES // (width * dtype.itemsize))
    for start in range(0, n, rows):
        chunk = dense_codes(codes[start : start + rows])
        hot, state = votes[: len(chunk)], states[: len(chunk)]
        for k in range(n_classes):
            hot[:, 1 + k * m : 1 + (k + 1) * m] = chunk == k
        for unit, low, size in zip(units, starts, sizes, strict=False):
            for part, numbers in packed_chunks(chunk[:, unit], n_classes):
                state[part, low : low + size] = numbers[:, None] == np.arange(size)
        if weights is not None:
            state *= weights[start : start + len(chunk), None]
        for low in range(0, len(counts), step):  # in parts, to avoid a second table of that size
            counts[low : low + step] += state[:, low : low + step].T @ hot
    return [counts[low : low + size] for low, size in zip(starts, sizes, strict=False)]


# ---------------------------------------------------------------------- all counts of a plan


def count_tables(
    codes: Codes,
    n_classes: int,
    plan: CountPlan,
    weights: NDArray[Any] | None = None,
    rows: CountedRows | None = None,
) -> tuple[list[PairCounts], list[NDArray[Any]]]:
    """Count the pair sets and units of a plan; integers unless the weights are floats.

    ``rows`` is how often each row of ``codes`` occurs, if it has been counted already.
    """
    table: Any = codes
    inside: list[list[int]] = [[] for _ in plan.pair_sets]
    for unit, number in enumerate(plan.unit_sets):
        inside[number].append(unit)
    pairs: list[PairCounts] = []
    units: list[NDArray[Any]] = [np.empty(0)] * len(plan.units)
    for number, (sources, members) in enumerate(zip(plan.pair_sets, inside, strict=True)):
        whole = len(sources) == table.shape[1]
        columns = [plan.positions(number, plan.units[unit]) for unit in members]
        part = table if whole else table[:, list(sources)]
        counts, joint = count_pairs(part, n_classes, weights, columns, rows if whole else None)
        pairs.append(counts)
        for unit, states in zip(members, joint, strict=True):
            units[unit] = states
    return pairs, units


def count_missing(codes: Codes, weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Count refused, unparseable, failed and unasked votes of each source, shape (m, 4)."""
    is_exact = weights is None or weights.dtype.kind == "i"
    missing = np.zeros((codes.shape[1], len(REASONS) - 1), np.int64 if is_exact else np.float64)
    if isinstance(codes, csr_array):
        row = rows_of_entries(codes)
        column, values = codes.indices, codes.data
    elif codes.min() >= -1:
        return missing
    else:
        row, column = np.nonzero(codes < -1)
        values = codes[row, column]
    stated = values < -1
    share = 1 if weights is None else weights[row[stated]]
    np.add.at(missing, (column[stated], -2 - values[stated].astype(np.intp)), share)
    return missing
