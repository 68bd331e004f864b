"""Junction trees: cliques of a triangulated graph, joined so that what they share stays connected."""

from __future__ import annotations

from dataclasses import dataclass


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
