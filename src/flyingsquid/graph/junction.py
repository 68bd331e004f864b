"""Junction trees: cliques of a triangulated graph, joined so that what they share stays connected."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from flyingsquid.graph.triangulate import Elimination, narrowest


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
        What each clique shares with its parent, ascending; empty for a root. The cliques that hold a
        variable form a connected part of the tree (running intersection).
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
        ``adjacency[v]`` holds the neighbours of v; symmetric, without loops.

    Examples
    --------
    >>> junction_tree([{1}, {0, 2}, {1}])
    JunctionTree(cliques=((1, 2), (0, 1)), parents=(-1, 0), separators=((), (1,)))
    """
    return tree_of(narrowest(adjacency))


def tree_of(elimination: Elimination) -> JunctionTree:
    """The cliques that an elimination leaves, each joined to the one it was cut from.

    Variables come back in reverse order. One whose later neighbours are a whole clique so far extends that
    clique; any other starts a clique of its own, below the one that holds its later neighbours. Every clique
    is then maximal and is built after its parent (Blair and Peyton 1993, section 4).
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
