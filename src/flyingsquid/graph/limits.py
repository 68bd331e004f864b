"""What is refused because it could not be estimated, or not in reasonable time."""

from __future__ import annotations

from flyingsquid.exceptions import GraphError
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.graph.reading import Edges

MOST_SOURCES_IN_A_UNIT = 4
WIDEST_TASK_TREE = 12
HOPELESS_TASK_TREE = 4 * WIDEST_TASK_TREE  # beyond it the exact width is not worth the search


def require_small_units(units: tuple[JunctionTree, ...], source_edges: Edges) -> None:
    """Refuse cliques whose tables of votes would be nearly empty."""
    for unit in units:
        largest = max(unit.cliques, key=len)
        if len(largest) > MOST_SOURCES_IN_A_UNIT:
            raise GraphError(_too_large(largest, set(source_edges)))


def require_narrow(width: int) -> None:
    """Refuse tasks of which too many must be summed at once."""
    if width > WIDEST_TASK_TREE:
        or_more = " or more" if width > HOPELESS_TASK_TREE else ""
        raise GraphError(
            f"task_edges: the triangulated tasks have treewidth {width}{or_more}, so every item needs tables "
            f"of 2^{width + 1} cells; a treewidth of at most {WIDEST_TASK_TREE} is possible. Use a smaller "
            "grid, cut a large one into tiles, or give fewer task edges"
        )


def _too_large(clique: tuple[int, ...], edges: set[tuple[int, int]]) -> str:
    s = len(clique)
    shown = ", ".join(map(str, clique[:10])) + (", ..." if s > 10 else "")
    declared = sum((a, b) in edges for k, a in enumerate(clique) for b in clique[k + 1 :])
    joined = "" if declared == s * (s - 1) // 2 else " once the cycles among them are triangulated"
    # The exponent alone where the number would fill the screen.
    cells = f"2·3^{s} = {2 * 3**s:,}" if s <= 10 else f"2·3^{s}"
    return (
        f"source_edges: sources {shown} all depend on each other{joined}; at most {MOST_SOURCES_IN_A_UNIT} "
        f"may. Their {s} votes and the truth form a table of {cells} cells, with too few items in each. Drop "
        "edges and keep the strongest, or leave one of the sources out"
    )
