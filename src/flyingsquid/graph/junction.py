"""Junction trees: connected parts of a graph, triangulation, and the resulting cliques.

Triangulation is an order in which variables are summed out that keeps tables small. Min-fill is optimal if no
edge must be added. It is not optimal on grids: eliminating from a corner needs min(height, width) variables
at a time, and min-fill needs 1.5 times as many from 7 x 7 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_WIDTH = 4  # up to this width a better order is not searched: 2^5 cells per clique


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """A junction tree, or a forest with one tree for each connected part.

    Attributes
    ----------
    cliques : tuple of tuples of int
        The variables of each clique, ascending. Every variable is in at least one clique, and a clique
        comes after its parent.
    parents : tuple of int
        The number of each clique's parent; -1 for a root.
    separators : tuple of tuples of int
        Variables that each clique shares with its parent, ascending; empty for a root. The cliques that hold
        a variable form a connected part of the tree (running intersection).
    """

    cliques: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """The treewidth of this tree: variables of the largest clique, less one."""
        return max((len(clique) for clique in self.cliques), default=0) - 1


def junction_tree(adjacency: Sequence[AbstractSet[int]]) -> JunctionTree:
    """Triangulate a graph and join its cliques.

    Parameters
    ----------
    adjacency : sequence of sets
        ``adjacency[v]`` contains the neighbors of v; symmetric, without loops.

    Examples
    --------
    >>> junction_tree([{1}, {0, 2}, {1}])
    JunctionTree(cliques=((1, 2), (0, 1)), parents=(-1, 0), separators=((), (1,)))
    """
    return tree_of(narrowest(adjacency))


def tree_of(elimination: Elimination) -> JunctionTree:
    """Return the junction tree of an elimination order.

    Variables are added in reverse order. If the later neighbors of a variable are a whole clique so far, the
    variable extends that clique; otherwise it starts a new clique below the one that contains its later
    neighbors. Every clique is then maximal and is built after its parent (Blair and Peyton 1993, section 4).
    """
    place = {v: position for position, v in enumerate(elimination.order)}
    cliques: list[list[int]] = []
    parents: list[int] = []
    separators: list[tuple[int, ...]] = []
    home = [-1] * len(elimination.order)
    for v in reversed(elimination.order):
        later = elimination.later[v]
        parent = home[min(later, key=place.__getitem__)] if later else -1
        if parent >= 0 and len(cliques[parent]) == len(later):
            cliques[parent].append(v)
            home[v] = parent
            continue
        home[v] = len(cliques)
        cliques.append([v, *later])
        parents.append(parent)
        separators.append(later)
    return JunctionTree(tuple(tuple(sorted(c)) for c in cliques), tuple(parents), tuple(separators))


# ---------------------------------------------------------------------- edges


def adjacency(edges: Sequence[tuple[int, int]], length: int) -> tuple[frozenset[int], ...]:
    """Return the neighbors of each of ``length`` nodes.

    >>> [sorted(near) for near in adjacency([(0, 1), (1, 2)], 3)]
    [[1], [0, 2], [1]]
    """
    near: list[set[int]] = [set() for _ in range(length)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    return tuple(map(frozenset, near))


def components(edges: Any, length: int) -> NDArray[np.intp]:
    """Return the connected part of each of ``length`` nodes, numbered by the lowest node; edges: (E, 2).

    >>> components([(0, 2)], 4)
    array([0, 1, 0, 2])
    """
    ends = np.asarray(edges, np.intp).reshape(-1, 2).T
    # Not by SciPy: its graph algorithms take longer to import than NumPy, and twenty times as long for a few
    # edges.
    lowest = np.arange(length)
    while True:
        first, second = lowest[ends]
        if np.array_equal(first, second):
            return consecutive(lowest)
        np.minimum.at(lowest, np.maximum(first, second), np.minimum(first, second))
        lowest = lowest[lowest]


def consecutive(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """Renumber without gaps.

    >>> consecutive(np.array([7, 0, 7, 3]))
    array([2, 0, 2, 1])
    """
    present = np.bincount(numbers) > 0
    return (np.cumsum(present) - 1)[numbers]


# ---------------------------------------------------------------------- triangulation


@dataclass(frozen=True, slots=True)
class Elimination:
    """Order in which variables are summed out, and the variables that each of them then touches.

    Attributes
    ----------
    order : tuple of int
        Every variable once; fewer if the search was stopped.
    later : tuple of tuples of int
        ``later[v]``: the neighbors of v, filled edges included, that come after v in the order, ascending.
        With v itself they are a clique of the filled graph, and every maximal clique is one of these.
    """

    order: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """The most variables that one variable touches when it is summed out."""
        return max(map(len, self.later), default=-1)


def narrowest(adjacency: Sequence[AbstractSet[int]], give_up: int | None = None) -> Elimination:
    """Eliminate by min-fill, or by a sweep if that is narrower; stop when min-fill is wider than ``give_up``.

    >>> grid = [{v + d for d, edge in ((-1, 0), (1, 6)) if v % 7 != edge} for v in range(49)]
    >>> grid = [row | {u for u in (v - 7, v + 7) if 0 <= u < 49} for v, row in enumerate(grid)]
    >>> eliminate(grid).width, narrowest(grid).width
    (8, 7)
    """
    by_fill = eliminate(adjacency, give_up)
    if by_fill.width <= SMALL_WIDTH:
        return by_fill
    order = _sweep(adjacency, by_fill.width)
    if order is None:
        return by_fill
    swept = eliminate(adjacency, order=order)
    return swept if swept.width < by_fill.width else by_fill


def eliminate(
    adjacency: Sequence[AbstractSet[int]], give_up: int | None = None, order: Sequence[int] | None = None
) -> Elimination:
    """Eliminate in a given order, or first the variable whose neighbors lack the fewest edges.

    Parameters
    ----------
    adjacency : sequence of sets
        ``adjacency[v]`` contains the neighbors of v; symmetric, without loops.
    give_up : int, optional
        Stop after a variable with more neighbors than this. The remaining search may take minutes.

    Notes
    -----
    Ties go to the smaller degree, then to the lower number, so the order is deterministic. A chordal graph
    always has a variable that lacks no edge, so no edge is added. The missing edges are counted once and then
    updated, so the cost of a step depends on what it changes: trees of any shape take O(n log n).

    Examples
    --------
    A square needs one diagonal:

    >>> eliminate([{1, 3}, {0, 2}, {1, 3}, {0, 2}])
    Elimination(order=(0, 1, 2, 3), later=((1, 3), (2, 3), (3,), ()))
    """
    remaining = _Remaining(adjacency)
    done: list[int] = []
    later: list[tuple[int, ...]] = [()] * len(adjacency)
    while len(done) < len(adjacency):
        v = remaining.next() if order is None else order[len(done)]
        later[v] = remaining.remove(v)
        done.append(v)
        if give_up is not None and len(later[v]) > give_up:
            break
    return Elimination(tuple(done), tuple(later))


def _sweep(adjacency: Sequence[AbstractSet[int]], widest: int) -> list[int] | None:
    """Eliminate each part from a corner; the next variable adds the fewest new neighbors.

    Returns None as soon as the front is wider than ``widest``, because the result would not be used.
    """
    seen: set[int] = set()
    order: list[int] = []
    for corner in sorted(range(len(adjacency)), key=lambda v: (len(adjacency[v]), v)):
        front = dict.fromkeys(() if corner in seen else (corner,))  # a dict keeps the order of arrival
        seen.update(front)
        while front:
            v = min(front, key=lambda u: len(adjacency[u] - seen))
            del front[v]
            order.append(v)
            for u in sorted(adjacency[v] - seen, key=lambda u: (len(adjacency[u] - seen), u)):
                front[u] = None
                seen.add(u)
            if len(front) > widest:
                return None
    return order


class _Remaining:
    """The graph that is left, with the number of edges that each neighborhood lacks."""

    def __init__(self, adjacency: Sequence[AbstractSet[int]]) -> None:
        self.near: list[set[int]] = [set(neighbors) for neighbors in adjacency]
        self.lacking = [_count_missing_edges(self.near, v) for v in range(len(self.near))]
        self.gone = [False] * len(self.near)
        # Old entries stay in the heap: one is current if its key is, and finding them would cost more.
        self.heap = [self._key(v) for v in range(len(self.near))]
        heapify(self.heap)

    def _key(self, v: int) -> tuple[int, int, int]:
        return self.lacking[v], len(self.near[v]), v

    def next(self) -> int:
        while True:
            key = heappop(self.heap)
            v = key[-1]
            if not self.gone[v] and key == self._key(v):
                return v

    def remove(self, v: int) -> tuple[int, ...]:
        """Join the neighbors of v to each other, remove v, and return the neighbors, ascending."""
        neighbors = sorted(self.near[v])
        touched = set(neighbors)
        if self.lacking[v]:
            for place, a in enumerate(neighbors):
                for b in neighbors[place + 1 :]:
                    if b not in self.near[a]:
                        touched |= self._add_edge(a, b)
        for u in neighbors:
            # The neighbors of v are a clique by now. Among the neighbors of u, v lacked an edge to those
            # that are not neighbors of v, and to no other.
            self.lacking[u] -= len(self.near[u]) - len(neighbors)
            self.near[u].discard(v)
        self.gone[v] = True
        touched.discard(v)
        for u in touched:
            heappush(self.heap, self._key(u))
        return tuple(neighbors)

    def _add_edge(self, a: int, b: int) -> set[int]:
        common = self.near[a] & self.near[b]
        for u in common:
            self.lacking[u] -= 1
        self.lacking[a] += len(self.near[a]) - len(common)
        self.lacking[b] += len(self.near[b]) - len(common)
        self.near[a].add(b)
        self.near[b].add(a)
        return common


def _count_missing_edges(near: list[set[int]], v: int) -> int:
    # Each triangle at v is met from both of its other corners. Pairs are never listed: the center of a
    # star has millions of them.
    triangles = sum(len(near[v] & near[u]) for u in near[v]) // 2
    degree = len(near[v])
    return degree * (degree - 1) // 2 - triangles
