"""Triplets drawn by a seed, one or more for every source."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph


def draw_triplets(graph: DependencyGraph, seed: int) -> list[tuple[int, int, int]]:
    """Triplets in which every source occurs, each separated by the truth of its first source's task.

    Partners are drawn from the sources of the same task, unused ones first; where these do not suffice, from
    those of neighbouring tasks.

    >>> draw_triplets(DependencyGraph(6), 0)
    [(3, 2, 5), (4, 0, 1)]
    """
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"triplet_seed={told(seed)}; a whole number, or None for the best triplets"
        ) from error
    found: list[tuple[int, int, int]] = []
    used: set[int] = set()
    for task in range(graph.n_tasks):
        own = rng.permutation(graph.sources_of(task)).tolist()
        around = rng.permutation([i for t in graph.neighbors(task) for i in graph.sources_of(t)]).tolist()
        part = graph._separated_by(task)
        for source in own:
            if source in used:
                continue
            near = [i for i in own if i not in used] + [i for i in own if i in used] + around
            triplet = _completed(int(source), near, part)
            if triplet is None:
                raise OptionError(
                    f"there is no triplet for source {source}: its task and the neighbouring ones have fewer "
                    "than three sources that are independent given the truth. Use another solve_method"
                )
            found.append(triplet)
            used.update(i for i in triplet if i in own)
    return found


def _completed(source: int, partners: list[int], part: NDArray[np.intp]) -> tuple[int, int, int] | None:
    """The source and the first two partners that are separated from it and from each other."""
    chosen = [source]
    for partner in partners:
        if part[partner] not in part[chosen]:
            chosen.append(int(partner))
            if len(chosen) == 3:
                return chosen[0], chosen[1], chosen[2]
    return None
