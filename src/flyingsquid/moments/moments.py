"""Vote counts: the one statistic shared by batch, stream, window and cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from flyingsquid._registry import distributed_votes
from flyingsquid._values import listed
from flyingsquid.exceptions import GraphError, IncompatibleError, ModelFileError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State, read_state, write_state
from flyingsquid.moments import files, storage
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.room import check_frequencies, require_room
from flyingsquid.moments.tables import count_missing, count_tables
from flyingsquid.votes import REASONS, VoteChunks, as_chunks, as_votes
from flyingsquid.votes.coerce import refuse_options
from flyingsquid.votes.packing import all_patterns
from flyingsquid.votes.states import Label, require_same, shown_name, shown_names
from flyingsquid.votes.weights import LARGEST_COUNT, read_weights

# Float counts may fall below zero by this share of all items when parts are subtracted.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments:
    """How often each pair of votes occurred in one item. Immutable and mergeable.

    Build with :meth:`of`; add the counts of two parts with ``+``, take a part away with
    ``-``, compare with ``==``. Unweighted counts are integers, so that all three are exact.

    Attributes
    ----------
    n_items : int or float
        Number of items, or the sum of their weights.
    blocks : tuple of arrays of shape (K, K, b, b), read-only
        Counts of the pairs inside each block of sources; one block of all sources without a graph. A sparse
        matrix of shape (K b, K b) where many classes would make that too large; see
        :mod:`flyingsquid.moments.storage`.
    missing : array of shape (m, 3), read-only
        Votes that were refused, unparseable and failed; the rest of what is missing abstained.
    classes : tuple of K labels
    names : tuple of m texts, or None
    cover : Cover
        Which sources each block holds, and which units are counted.
    units : tuple of arrays of shape ((K+1)^s, 1 + K b), read-only
        Joint votes of dependent sources, as :func:`~flyingsquid.moments.counting.count_block` has them.

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
    blocks: tuple[storage.Block, ...]
    missing: NDArray[Any]
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None
    cover: Cover
    units: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        for table in (*self.blocks, *self.units, self.missing):
            storage.freeze(table)

    @classmethod
    def of(
        cls, votes: Any, graph: DependencyGraph | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Moments:
        """Count votes.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take
            Shape (n, m); or an array (n, D, s) for a graph whose D tasks have s sources each; or
            ``VoteChunks``, which are read once; or a Dask array or dataframe, a list of ``dask.delayed``
            chunks, or a Spark dataframe: counted where it is.
        graph : DependencyGraph, optional
            What depends on what. Then only the pairs that it needs are counted, and the joint votes of
            sources that depend on each other. Without one: all pairs.
        sample_weight : array of shape (n,), or a number, optional
            How often each item counts: a weight of 3 is the item three times. Integer
            weights give integer counts, float weights give float counts.
        """
        if graph is not None and not isinstance(graph, DependencyGraph):
            raise GraphError(f"the graph is {type(graph).__name__}; pass a DependencyGraph, or None")
        on_cluster = distributed_votes(votes)
        if on_cluster is not None:
            refuse_options(sample_weight=sample_weight)
            return on_cluster.moments(graph)
        chunks = as_chunks(votes)
        if chunks is not None:
            return _sum_of(chunks, graph, sample_weight)
        votes = as_votes(votes, tasks=None if graph is None else graph.stacked_shape)
        cover = Cover.everything(votes.n_sources) if graph is None else Cover.of(graph)
        if cover.n_sources != votes.n_sources:
            raise GraphError(
                f"the graph has {cover.n_sources} sources, the votes have {votes.n_sources}; one column a "
                "source, in the order of the graph"
            )
        require_room(cover, votes.n_classes)
        weights = None if sample_weight is None else read_weights(sample_weight, votes.n_items)
        if weights is not None:
            check_frequencies(weights)
        blocks, units = count_tables(votes.codes, votes.n_classes, cover, weights)
        missing: NDArray[Any] = count_missing(votes.codes, weights)
        total: int | float = votes.n_items if weights is None else weights.sum().item()
        if weights is None or weights.dtype.kind == "i":
            blocks = [storage.as_integers(block) for block in blocks]
            units = [np.rint(unit).astype(np.int64) for unit in units]
            missing = np.rint(missing).astype(np.int64)
        return cls(total, tuple(blocks), missing, votes.classes, votes.names, cover, tuple(units))

    @property
    def graph(self) -> DependencyGraph | None:
        """What depends on what; None for one task of independent sources."""
        return self.cover.graph

    @property
    def pair_counts(self) -> NDArray[Any]:
        """Counts of all pairs, shape (K, K, m, m), where all are counted.

        ``pair_counts[a, b, i, j]`` items had source i vote a and source j vote b. On the diagonal,
        ``pair_counts[a, a, i, i]`` items had source i vote a.
        """
        if len(self.cover.blocks[0]) < self.n_sources:
            raise IncompatibleError(
                "counts on a graph of several tasks hold only the pairs that it needs; see blocks and cover"
            )
        if isinstance(self.blocks[0], csr_array):
            raise IncompatibleError(
                f"pairs of {self.n_sources:,} sources and {self.n_classes:,} classes are kept sparse; see "
                "blocks"
            )
        return self.blocks[0]

    def part(self, block: int, sources: tuple[int, ...]) -> Moments:
        """Counts of some sources of a block, by themselves and without a graph."""
        counts = self.blocks[block]
        if sources != self.cover.blocks[block]:
            at = np.array(self.cover.positions(block, sources), np.intp)
            counts = storage.reordered(counts, None, at, self.n_classes)
        return Moments(
            self.n_items,
            (counts,),
            self.missing[list(sources)],
            self.classes,
            tuple(shown_name(self.names, i) for i in sources),
            Cover.everything(len(sources)),
        )

    @property
    def n_sources(self) -> int:
        return self.cover.n_sources

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def is_sparse(self) -> bool:
        """Whether pairs are stored sparsely, because there are many classes."""
        return isinstance(self.blocks[0], csr_array)

    @property
    def is_exact(self) -> bool:
        """Whether the counts are integers."""
        return bool(self.missing.dtype.kind == "i")

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... where there are none."""
        return shown_names(self.names, self.n_sources)

    def pair_rates(self, a: int, b: int) -> NDArray[np.float64]:
        """P(source i votes a and source j votes b), shape (m, m). Estimators read pairs through this."""
        block = self.blocks[0]
        if isinstance(block, csr_array):
            m = self.n_sources
            pairs = block[a * m : (a + 1) * m, b * m : (b + 1) * m].toarray()
        else:
            pairs = self.pair_counts[a, b]
        return np.asarray(pairs / self.n_items, np.float64)

    @property
    def vote_counts(self) -> NDArray[Any]:
        """How often each source voted each class, shape (m, K)."""
        counts = np.empty((self.n_sources, self.n_classes), self.missing.dtype)
        for sources, block in zip(self.cover.blocks, self.blocks, strict=True):
            counts[list(sources)] = storage.votes_cast(block, self.n_classes)
        return counts

    @property
    def coverage(self) -> NDArray[np.float64]:
        """P(source votes), shape (m,)."""
        return np.asarray(self.vote_counts.sum(axis=1) / self.n_items, np.float64)

    def missing_counts(self) -> dict[str, NDArray[Any]]:
        """For each reason, how many votes are missing of each source, shape (m,)."""
        stated = dict(zip(REASONS[1:], self.missing.T, strict=True))
        abstained = self.n_items - self.vote_counts.sum(axis=1) - self.missing.sum(axis=1)
        return {REASONS[0]: abstained, **stated}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file, whole or not at all; :meth:`load` and ``fs.load`` read it."""
        write_state(path, files.to_state(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read counts that :meth:`save` wrote.

        Raises
        ------
        ModelFileError
            If the file is damaged, from a newer version, or holds something else.
        """
        state = read_state(path)
        if state.kind != files.KIND:
            raise ModelFileError(f"{path}: the file holds a {state.kind}, not counts; fs.load reads it")
        return cls.from_state(state)

    @classmethod
    def from_state(cls, state: State) -> Moments:
        """Counts from a plain state; refused if they cannot be counts of anything."""
        moments = cls(**files.fields_of(state))
        if moments._lowest_count() < (0 if moments.is_exact else -_ROUNDING * moments.n_items):
            raise ModelFileError("the counts in the file are not counts of any votes")
        return moments

    # ------------------------------------------------------------------ algebra

    def __add__(self, other: object) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        other = other.aligned_to(self)
        if self.n_items + other.n_items >= LARGEST_COUNT:
            raise IncompatibleError("cannot add: more than 2**53 items cannot be counted exactly")
        return replace(
            self,
            n_items=self.n_items + other.n_items,
            blocks=tuple(map(storage.added, self.blocks, other.blocks)),
            units=tuple(a + b for a, b in zip(self.units, other.units, strict=True)),
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
            blocks=tuple(storage.added(a, b, -1) for a, b in zip(self.blocks, other.blocks, strict=True)),
            units=tuple(a - b for a, b in zip(self.units, other.units, strict=True)),
            missing=self.missing - other.missing,
        )
        lowest = rest._lowest_count()
        if lowest < (0 if rest.is_exact else -_ROUNDING * self.n_items):
            raise IncompatibleError(
                f"cannot subtract: a count would be {lowest:g}; the right side is no part of the left"
            )
        return replace(
            rest,
            n_items=max(rest.n_items, 0),
            blocks=tuple(map(storage.not_below_zero, rest.blocks)),
            units=tuple(np.maximum(unit, 0) for unit in rest.units),
            missing=np.maximum(rest.missing, 0),
        )

    def _lowest_count(self) -> float:
        """The smallest count of any pair of states, missing ones included."""
        missing = self.n_items - self.vote_counts.sum(axis=1)
        lowest = [self.n_items, self.missing.min(), (missing - self.missing.sum(axis=1)).min()]
        lowest += [storage.lowest(block, self.n_items, self.n_classes) for block in self.blocks]
        for unit in self.units:
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
            and self.cover == other.cover
            and all(map(storage.equal, self.blocks, other.blocks))
            and all(map(np.array_equal, self.units, other.units))
            and np.array_equal(self.missing, other.missing)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy is read-only too.
        state = (self.n_items, self.blocks, self.missing, self.classes, self.names, self.cover, self.units)
        return Moments, state

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        kind = "integer" if self.is_exact else "float"
        on = "" if self.graph is None else f" on {self.graph.n_tasks} tasks"
        return (
            f"Moments({self.n_items:,} items x {self.n_sources:,} sources{on}, "
            f"classes {listed(self.classes)}, {kind} counts)"
        )

    def aligned_to(self, other: Moments) -> Moments:
        """These counts with sources and classes in the order of ``other``.

        Raises
        ------
        IncompatibleError
            If they are not the same sources or classes.
        """
        if self.n_sources != other.n_sources:
            raise IncompatibleError(
                f"cannot combine counts of {other.n_sources} sources with counts of "
                f"{self.n_sources}; count both with the same sources"
            )
        if self.cover != other.cover:
            raise IncompatibleError(
                f"cannot combine counts on different graphs, {other.graph or 'none'} and "
                f"{self.graph or 'none'}; count both with the same one"
            )
        require_same("classes", set(self.classes), set(other.classes))
        result = self
        if self.classes != other.classes:
            order = [self.classes.index(c) for c in other.classes]
            at, k = np.array(order), self.n_classes
            blocks = tuple(storage.reordered(block, at, None, k) for block in self.blocks)
            units = tuple(_reorder_unit(unit, order) for unit in self.units)
            result = replace(result, blocks=blocks, units=units, classes=other.classes)
        if self.names is not None and other.names is not None and self.names != other.names:
            require_same("sources", set(self.names), set(other.names))
            if self.graph is not None:
                raise IncompatibleError(
                    "cannot combine counts on a graph whose sources stand in different orders: the graph "
                    "knows them by position. Put the columns in one order before counting"
                )
            j = np.array([self.names.index(name) for name in other.names])
            counts = storage.reordered(result.blocks[0], None, j, self.n_classes)
            result = replace(result, blocks=(counts,), missing=self.missing[j], names=other.names)
        return result


def _sum_of(chunks: VoteChunks, graph: DependencyGraph | None, sample_weight: ArrayLike | None) -> Moments:
    """Counts of chunks, added up as they are read."""
    if sample_weight is not None:
        raise VotesError(
            "sample_weight= belongs to votes in memory; count the chunks one by one with it, and add"
        )
    total: Moments | None = None
    for chunk in chunks:
        part = Moments.of(chunk, graph)
        total = part if total is None else total + part
    if total is None:
        raise VotesError("there are no votes in any chunk; at least one item is needed")
    return total


def _reorder_unit(unit: NDArray[Any], order: list[int]) -> NDArray[Any]:
    """Counts of a unit with the classes in another order."""
    n_classes = len(order)
    size = round(np.log(len(unit)) / np.log(n_classes + 1))
    states = all_patterns(size, n_classes)
    before = np.array([*order, -1])[states]  # no vote, -1, reads the last entry
    rows = (before + 1) @ (n_classes + 1) ** np.arange(size)
    votes = unit[:, 1:].reshape(len(unit), n_classes, -1)[rows][:, order]
    return np.column_stack([unit[rows, 0], votes.reshape(len(unit), -1)])
