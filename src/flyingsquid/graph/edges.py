"""Edges as neighbours, and as connected parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def adjacency(edges: Sequence[tuple[int, int]], length: int) -> tuple[frozenset[int], ...]:
    """The neighbours of each of ``length`` nodes.

    >>> [sorted(near) for near in adjacency([(0, 1), (1, 2)], 3)]
    [[1], [0, 2], [1]]
    """
    near: list[set[int]] = [set() for _ in range(length)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    return tuple(map(frozenset, near))


def components(edges: Any, length: int) -> NDArray[np.intp]:
    """The connected part of each of ``length`` nodes, numbered by the lowest node; edges of shape (E, 2).

    >>> components([(0, 2)], 4)
    array([0, 1, 0, 2])
    """
    ends = np.asarray(edges, np.intp).reshape(-1, 2)
    links = coo_array((np.ones(len(ends), np.int8), (ends[:, 0], ends[:, 1])), shape=(length, length))
    return connected_components(links, directed=False)[1].astype(np.intp)


def consecutive(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """The same numbering without gaps.

    >>> consecutive(np.array([7, 0, 7, 3]))
    array([2, 0, 2, 1])
    """
    present = np.bincount(numbers) > 0
    return (np.cumsum(present) - 1)[numbers]
