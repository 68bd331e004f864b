"""Vote counts: the statistic shared by batch, stream, window and cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._registry import distributed_votes
from flyingsquid._table import Table
from flyingsquid._values import format_count, format_list
from flyingsquid.exceptions import GraphError, IncompatibleError, ModelFileError, VotesError
from flyingsquid.files.state import State, write_state
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import files
from flyingsquid.moments.class_counts import VotesByClass
from flyingsquid.moments.counting import (
    CountPlan,
    check_frequencies,
    check_plan_size,
    count_missing,
    count_tables,
)
from flyingsquid.moments.pairs import DensePairs, PairAgreement, PairCounts, pair_counts_of
from flyingsquid.votes import REASONS, VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.arguments import LARGEST_COUNT, join_weights
from flyingsquid.votes.codes import Label, require_same, shown_name, shown_names
from flyingsquid.votes.grid import CountedRows
from flyingsquid.votes.patterns import all_patterns
from flyingsquid.votes.reading import refuse_options
from flyingsquid.votes.tallies import SourceTally

Array = NDArray[np.float64]
# Float counts may fall below zero by this share of all items when parts are subtracted.
_ROUNDING = 1e-9


class UnitVotes(NamedTuple):
    """Counts of the joint votes of dependent sources.

    Attributes
    ----------
    sources : tuple of s int
        Sources that depend on each other.
    counted_with : tuple of b int
        Sources that their votes are counted with, ascending.
    counts : array of shape ((K + 1)^s, 1 + K b)
        Row r is the state whose votes are row r of ``all_patterns(s, K)``. Column 0 counts the items in that
        state, column ``1 + v * b + j`` those of them on which source ``counted_with[j]`` votes v.
    """

    sources: tuple[int, ...]
    counted_with: tuple[int, ...]
    counts: NDArray[Any]

    def positions(self, sources: Sequence[int]) -> NDArray[np.intp]:
        """Return the positions of sources in ``counted_with``."""
        return np.searchsorted(self.counted_with, sources)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments:
    """Counts of how often each pair of votes occurred on one item. Immutable and mergeable.

    Build with :meth:`of`; add the counts of two parts with ``+``, take a part away with
    ``-``, compare with ``==``. Unweighted counts are integers, so all three are exact.

    The methods return rates and counts, regardless of whether counts are stored as arrays or sparsely.

    Attributes
    ----------
    n_items : int or float
        Number of items, or the sum of their weights.
    missing : array of shape (m, 4), read-only
        Votes that were refused, unparseable, failed and not asked for; all other missing votes are abstains.
    classes : tuple of K labels
    names : tuple of m str, or None

    Examples
    --------
    >>> morning = Moments.of([[0, 1], [1, 1]])
    >>> evening = Moments.of([[0, -1]])
    >>> day = morning + evening
    >>> day
    Moments(3 items x 2 sources, classes 0, 1, integer counts)
    >>> day == Moments.of([[0, 1], [1, 1], [0, -1]]), day - evening == morning
    (True, True)
    """

    n_items: int | float
    missing: NDArray[Any]
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None
    _plan: CountPlan
    _pairs: tuple[PairCounts, ...]
    _units: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        for table in (*self._units, self.missing):
            table.flags.writeable = False

    @classmethod
    def of(
        cls, votes: Any, graph: DependencyGraph | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Moments:
        """Count votes.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (n, m)
            Shape (n, m); or an array (n, D, s) for a graph whose D tasks have s sources each; or
            ``VoteChunks``, which are read once; or a Dask array or dataframe, a list of ``dask.delayed``
            chunks, or a Spark dataframe, which are counted on their cluster.
        graph : DependencyGraph, optional
            Dependencies of sources and tasks. Then only the pairs that it needs are counted, and the joint
            votes of sources that depend on each other. Without a graph all pairs are counted.
        sample_weight : array of shape (n,), a number, or a pandas Series, optional
            How often each item counts: a weight of 3 is the item three times. Integer
            weights give integer counts, float weights give float counts. A Series is joined by item
            identifier if the votes have some.
        """
        if graph is not None and not isinstance(graph, DependencyGraph):
            raise GraphError(f"`graph` must be a DependencyGraph or None; got {type(graph).__name__}.")
        if not isinstance(votes, Votes):
            on_cluster = distributed_votes(votes)
            if on_cluster is not None:
                refuse_options(sample_weight=sample_weight)
                return on_cluster.moments(graph)
            chunks = as_chunks(votes)
            if chunks is not None:
                return _sum_of(chunks, graph, sample_weight)
        read = as_votes(votes, tasks=None if graph is None else graph.stacked_shape)
        weights = join_weights(sample_weight, votes, read)
        return cls._count(read, graph, weights)

    @classmethod
    def _count(
        cls,
        read: Votes,
        graph: DependencyGraph | None,
        weights: NDArray[Any] | None,
        rows: CountedRows | None = None,
    ) -> Moments:
        """Count votes; ``rows`` is how often each row occurs, if it has been counted already."""
        n_items, n_sources = read.codes.shape
        plan = CountPlan.all_pairs(n_sources) if graph is None else CountPlan.of(graph)
        if plan.n_sources != n_sources:
            raise GraphError(
                f"`graph` must have one source per column of the votes, in the same order; got "
                f"{format_count(plan.n_sources, 'source')} for {format_count(n_sources, 'column')}."
            )
        check_plan_size(plan, len(read.classes))
        if weights is not None:
            check_frequencies(weights)
        pairs, units = count_tables(read.codes, len(read.classes), plan, weights, rows)
        missing = count_missing(read.codes, weights)
        total = n_items if weights is None else weights.sum().item()
        return cls(total, missing, read.classes, read.names, plan, tuple(pairs), tuple(units))

    @property
    def graph(self) -> DependencyGraph | None:
        """Dependencies that the counts were made for; None for one task of independent sources."""
        return self._plan.graph

    @property
    def n_sources(self) -> int:
        """Number of sources, m."""
        return self._plan.n_sources

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def is_exact(self) -> bool:
        """True if the counts are integers."""
        return bool(self.missing.dtype.kind == "i")

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... if there are none."""
        return shown_names(self.names, self.n_sources)

    # ------------------------------------------------------------------ single sources

    @property
    def vote_counts(self) -> NDArray[Any]:
        """Number of votes of each source for each class, shape (m, K)."""
        if len(self._pairs) == 1:
            return self._pairs[0].votes
        counts = np.empty((self.n_sources, self.n_classes), self.missing.dtype)
        for sources, pairs in zip(self._plan.pair_sets, self._pairs, strict=True):
            counts[list(sources)] = pairs.votes
        return counts

    @property
    def coverage(self) -> Array:
        """P(source votes), shape (m,)."""
        return np.asarray(self.vote_counts.sum(axis=1) / self.n_items, np.float64)

    def missing_counts(self) -> dict[str, NDArray[Any]]:
        """Return, for each reason, how many votes of each source are missing, shape (m,)."""
        stated = dict(zip(REASONS[1:], self.missing.T, strict=True))
        abstained = self.n_items - self.vote_counts.sum(axis=1) - self.missing.sum(axis=1)
        return {REASONS[0]: abstained, **stated}

    def source_tally(self) -> SourceTally:
        """Return the counts of single sources."""
        return SourceTally(self.n_items, self.vote_counts, self.missing, self.classes, self.source_names)

    # ------------------------------------------------------------------ pairs of sources

    @property
    def has_all_pairs(self) -> bool:
        """True if all pairs of sources are counted; on a graph of several tasks only some are."""
        return len(self._plan.pair_sets[0]) == self._plan.n_sources

    @property
    def _all_pairs(self) -> PairCounts:
        if len(self._plan.pair_sets[0]) < self._plan.n_sources:
            raise IncompatibleError(
                "Counts on a graph of several tasks contain only pairs that the graph needs. Use `table` or "
                "`select` for some sources, or count the votes without a graph."
            )
        return self._pairs[0]

    @property
    def pair_counts(self) -> NDArray[Any]:
        """Counts of all pairs as one array of shape (K, K, m, m), read-only.

        ``pair_counts[a, b, i, j]`` items had source i vote a and source j vote b. On the diagonal,
        ``pair_counts[a, a, i, i]`` items had source i vote a. With many sources and classes the array is
        large; the other methods do not need it.

        Raises
        ------
        IncompatibleError
            If not all pairs are counted, or the array would not fit into memory.
        """
        pairs, size = self._all_pairs, (self.n_sources * self.n_classes) ** 2 * 8
        if size > LIMITS.get().pair_bytes:
            raise IncompatibleError(
                f"`pair_counts` of {format_count(self.n_sources, 'source')} and {self.n_classes:,} classes "
                f"would need {size / 1e9:,.0f} GB. Use `table`, `select` or `pair_rates`."
            )
        return pairs.to_dense().array

    def pair_rates(self, a: int, b: int) -> Array:
        """Return P(source i votes a and source j votes b), shape (m, m)."""
        return np.asarray(self._all_pairs.counts(a, b) / self.n_items, np.float64)

    def table(self, i: int, j: int) -> NDArray[Any]:
        """Return the number of items on which source i votes a and source j votes b, shape (K, K).

        >>> Moments.of([[0, 1], [1, 1], [1, 0]]).table(0, 1).tolist()
        [[0, 1], [1, 1]]
        """
        number = self._plan.set_with((i, j))
        return self._pairs[number].table(*self._plan.positions(number, (i, j)))

    def joint_counts(self, first: Sequence[int], second: Sequence[int]) -> NDArray[Any]:
        """Return the counts of two groups of s and t sources, shape (s, K, t, K).

        Entry ``[i, a, j, b]`` counts the items on which ``first[i]`` votes a and ``second[j]`` votes b.
        """
        number = self._plan.set_with((*first, *second))
        at = (self._plan.positions(number, tuple(sources)) for sources in (first, second))
        return self._pairs[number].between(*at)

    def by_own_vote(self, k: int) -> NDArray[Any]:
        """Return the number of items on which source i votes k and source j votes, shape (m, m)."""
        return self._all_pairs.by_own_vote(k)

    def by_vote(self, sources: NDArray[np.intp]) -> Array:
        """Return the number of items on which one of s sources votes and source j votes v, (K, s, m)."""
        return self._all_pairs.by_vote(sources)

    def overlap(self) -> NDArray[Any]:
        """Return the number of items on which both sources vote, shape (m, m)."""
        return self._all_pairs.overlap()

    def agreement(self) -> NDArray[Any]:
        """Return the number of items on which both sources cast the same vote, shape (m, m).

        >>> Moments.of([[0, 1], [1, 1], [1, -1]]).agreement().tolist()
        [[3, 1], [1, 2]]
        """
        return self._all_pairs.agreement()

    def compare_pairs(self) -> PairAgreement:
        """Compare the votes of all pairs of sources that share items."""
        return self._all_pairs.compare()

    def others_votes(self) -> Array:
        """Count the votes of other sources on the items of each vote, shape (m, K, K).

        ``[i, v, k]`` counts votes of other sources for class k on items that source i votes v on.
        """
        return self._all_pairs.others_votes()

    def sparse_others_votes(self) -> VotesByClass:
        """Return the same as :meth:`others_votes`, without the cells that are 0."""
        return self._all_pairs.sparse_others_votes()

    def votes_of_others(
        self, factors: Array | None = None, shared: Array | None = None
    ) -> tuple[Array, Array]:
        """Count other votes on the items of each vote: those that agree, and all; shape (m, K) each.

        ``[i, k]`` counts votes on items that source i votes k on. A vote of source j counts as
        ``factors[j]``, shape (m,), by default 1. With ``factors``, ``shared`` of shape (m, m) is the share of
        the evidence of source j that source i has, too: the vote counts as
        ``(1 - shared[i, j]) * factors[j]``.
        """
        return self._all_pairs.votes_of_others(factors, shared)

    def one_vs_rest(self, k: int) -> Moments:
        """Return counts of two classes: votes for class k are class 1, all other votes are class 0.

        >>> Moments.of([[0, 2], [1, 2]]).one_vs_rest(2).vote_counts.tolist()
        [[2, 0], [0, 2]]
        """
        pairs, plan = self._all_pairs, CountPlan.all_pairs(self.n_sources)
        both, one, every = pairs.counts(k, k), pairs.by_own_vote(k), pairs.overlap()
        table = np.array([[every - one - one.T + both, one.T - both], [one - both, both]])
        for a in (0, 1):  # a source has one vote per item; float counts may leave a rounding error
            np.fill_diagonal(table[a, 1 - a], 0)
        return Moments(self.n_items, self.missing, (0, 1), self.names, plan, (DensePairs(table),))

    # ------------------------------------------------------------------ parts of a graph

    def select(self, sources: Sequence[int]) -> Moments:
        """Return the counts of some sources, without a graph.

        Raises
        ------
        IncompatibleError
            If the pairs of these sources are not counted.
        """
        chosen = tuple(int(i) for i in sources)
        number = self._plan.set_with(chosen)
        pairs = self._pairs[number]
        if chosen != self._plan.pair_sets[number]:
            pairs = pairs.reordered(None, np.array(self._plan.positions(number, chosen), np.intp))
        names = tuple(shown_name(self.names, i) for i in chosen)
        plan, missing = CountPlan.all_pairs(len(chosen)), self.missing[list(chosen)]
        return Moments(self.n_items, missing, self.classes, names, plan, (pairs,))

    def sources_around(self, task: int = 0) -> tuple[int, ...]:
        """Return the sources that are counted with those of a task: its own, and helpers on its neighbors."""
        return self._plan.pair_sets[self._plan.task_sets[task]]

    def unit_votes(self) -> tuple[UnitVotes, ...]:
        """Return the counts of the joint votes of dependent sources, in the order of the graph's cliques."""
        plan = self._plan
        together = (plan.pair_sets[number] for number in plan.unit_sets)
        return tuple(map(UnitVotes, plan.units, together, self._units))

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file atomically; ``flyingsquid.load`` reads it."""
        write_state(path, files.to_state(self))

    @classmethod
    def from_state(cls, state: State) -> Moments:
        """Return the counts in a state; raise an error for impossible ones."""
        moments = cls(**files.fields_of(state))
        if moments._lowest_count() < (0 if moments.is_exact else -_ROUNDING * moments.n_items):
            raise ModelFileError("The counts in the file are inconsistent: no votes can have these counts.")
        return moments

    # ------------------------------------------------------------------ algebra

    def __add__(self, other: object) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other.aligned_to(self)
        if self.n_items + other.n_items >= LARGEST_COUNT:
            raise IncompatibleError("Cannot add: more than 2**53 items cannot be counted exactly.")
        return replace(
            self,
            n_items=self.n_items + other.n_items,
            _pairs=tuple(a.combine(b) for a, b in zip(self._pairs, other._pairs, strict=True)),
            _units=tuple(a + b for a, b in zip(self._units, other._units, strict=True)),
            missing=self.missing + other.missing,
            names=self.names or other.names,
        )

    def __radd__(self, other: object) -> Moments:
        # sum(parts) starts from 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, other: object) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other.aligned_to(self)
        rest = replace(
            self,
            n_items=self.n_items - other.n_items,
            _pairs=tuple(a.combine(b, -1) for a, b in zip(self._pairs, other._pairs, strict=True)),
            _units=tuple(a - b for a, b in zip(self._units, other._units, strict=True)),
            missing=self.missing - other.missing,
        )
        lowest = rest._lowest_count()
        if lowest < (0 if rest.is_exact else -_ROUNDING * self.n_items):
            raise IncompatibleError(
                f"Cannot subtract: a count would be {lowest:g}. The right operand must be part of the left "
                "one."
            )
        return replace(
            rest,
            n_items=max(rest.n_items, 0),
            _pairs=tuple(pairs.clipped() for pairs in rest._pairs),
            _units=tuple(np.maximum(unit, 0) for unit in rest._units),
            missing=np.maximum(rest.missing, 0),
        )

    def _lowest_count(self) -> float:
        """Return the smallest count of any pair of votes or missing votes."""
        missing = self.n_items - self.vote_counts.sum(axis=1)
        lowest = [self.n_items, self.missing.min(), (missing - self.missing.sum(axis=1)).min()]
        lowest += [pairs.smallest_count(self.n_items) for pairs in self._pairs]
        for unit in self._units:
            votes = unit[:, 1:].reshape(len(unit), self.n_classes, -1)
            lowest += [unit.min(), (unit[:, :1] - votes.sum(axis=1)).min()]
        return float(min(lowest))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return (
            self.names == other.names
            and self.classes == other.classes
            and self.n_items == other.n_items
            and self._plan == other._plan
            and all(a.equals(b) for a, b in zip(self._pairs, other._pairs, strict=True))
            and all(map(np.array_equal, self._units, other._units))
            and np.array_equal(self.missing, other.missing)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy is read-only too.
        state = (self.n_items, self.missing, self.classes, self.names, self._plan, self._pairs, self._units)
        return Moments, state

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        kind = "integer" if self.is_exact else "float"
        on = "" if self.graph is None else f" on {format_count(self.graph.n_tasks, 'task')}"
        return (
            f"Moments({format_count(self.n_items, 'item')} x {format_count(self.n_sources, 'source')}{on}, "
            f"classes {format_list(self.classes)}, {kind} counts)"
        )

    def _repr_html_(self) -> str:
        rows = tuple(zip(self.source_names, np.minimum(self.coverage, 1.0).tolist(), strict=True))
        return Table(("source", "coverage"), rows, repr(self), formats=("", ".1%"))._repr_html_()

    def aligned_to(self, other: Moments) -> Moments:
        """Return these counts with sources and classes in the order of ``other``.

        Raises
        ------
        IncompatibleError
            If the sources or classes differ.
        """
        if self.n_sources != other.n_sources:
            raise IncompatibleError(
                f"Cannot combine counts of {format_count(other.n_sources, 'source')} with counts of "
                f"{self.n_sources}. Count both with the same sources."
            )
        if self._plan != other._plan:
            raise IncompatibleError(
                f"Cannot combine counts on different graphs, {other.graph} and {self.graph}. Count both with "
                "the same graph."
            )
        require_same("classes", set(self.classes), set(other.classes))
        result = self
        if self.classes != other.classes:
            order = [self.classes.index(c) for c in other.classes]
            pairs = tuple(part.reordered(np.array(order), None) for part in self._pairs)
            units = tuple(_reorder_unit(unit, order) for unit in self._units)
            result = replace(result, classes=other.classes, _pairs=pairs, _units=units)
        if self.names is not None and other.names is not None and self.names != other.names:
            require_same("sources", set(self.names), set(other.names))
            if self.graph is not None:
                raise IncompatibleError(
                    "Cannot combine counts on a graph with sources in different orders, because the graph "
                    "refers to positions. Put the columns in the same order before counting."
                )
            j = np.array([self.names.index(name) for name in other.names])
            ordered = result._pairs[0].reordered(None, j)
            result = replace(result, missing=self.missing[j], names=other.names, _pairs=(ordered,))
        return result


def moments_from_tables(
    plan: CountPlan,
    n_items: int | float,
    tables: Sequence[NDArray[Any]],
    missing: NDArray[Any],
    classes: tuple[Label, ...],
    names: tuple[str, ...] | None = None,
) -> Moments:
    """Build counts from arrays of the shapes ``plan.shapes(n_classes)``: pair sets, then units."""
    at = len(plan.pair_sets)
    pairs = tuple(pair_counts_of(table, len(classes)) for table in tables[:at])
    return Moments(n_items, missing, classes, names, plan, pairs, tuple(tables[at:]))


def _sum_of(chunks: VoteChunks, graph: DependencyGraph | None, sample_weight: ArrayLike | None) -> Moments:
    """Count chunks one by one and add the counts."""
    if sample_weight is not None:
        raise VotesError(
            "`sample_weight` is not supported with VoteChunks. Count the chunks one by one with their "
            "weights, and add the counts."
        )
    total: Moments | None = None
    for chunk in chunks:
        part = Moments.of(chunk, graph)
        total = part if total is None else total + part
    if total is None:
        raise VotesError("`votes` must have at least one item; all chunks are empty.")
    return total


def _reorder_unit(unit: NDArray[Any], order: list[int]) -> NDArray[Any]:
    """Return the counts of a unit with the classes in another order."""
    n_classes = len(order)
    size = round(np.log(len(unit)) / np.log(n_classes + 1))
    states = all_patterns(size, n_classes)
    before = np.array([*order, -1])[states]  # no vote, -1, reads the last entry
    rows = (before + 1) @ (n_classes + 1) ** np.arange(size)
    votes = unit[:, 1:].reshape(len(unit), n_classes, -1)[rows][:, order]
    return np.column_stack([unit[rows, 0], votes.reshape(len(unit), -1)])
