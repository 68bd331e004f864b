"""What a user passes to a loss, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flyingsquid._values import told
from flyingsquid.exceptions import GraphError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.edges import components
from flyingsquid.moments.limits import are_pairs_sparse
from flyingsquid.moments.plan import CountPlan

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def read_votes(votes: Tensor, graph: DependencyGraph, n_classes: int) -> Tensor:
    """Votes of shape (b, m), or an error that says what is wrong with them."""
    shapes: list[tuple[int, ...]] = [(graph.n_sources,)]
    if graph.n_tasks > 1 and graph.stacked_shape is not None:
        shapes.append(graph.stacked_shape)
    if tuple(votes.shape[1:]) not in shapes:
        wanted = " or ".join(str(("b", *shape)).replace("'", "") for shape in shapes)
        raise VotesError(f"votes have shape {tuple(votes.shape)}; {wanted} is needed")
    if votes.dtype not in _WHOLE:
        raise VotesError(f"votes are {votes.dtype}; whole numbers are needed, -1 where there is no vote")
    votes = votes.reshape(len(votes), graph.n_sources)
    if votes.dtype == torch.uint8:  # it cannot be compared with -1
        votes = votes.short()
    wrong = (votes < -1) | (votes >= n_classes)
    if wrong.any():
        row, source = wrong.nonzero()[0].tolist()
        raise VotesError(
            f"row {row}, source {source}: {int(votes[row, source])} is no vote; 0 to {n_classes - 1} are the "
            "classes, and -1 is where there is none"
        )
    return votes


def read_whole(name: str, value: Any, least: int) -> int:
    """A whole number, ``least`` or more."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value.__index__()) < least:
        raise OptionError(f"{name}={told(value)}; a whole number, {least} or more, is needed")
    return int(value.__index__())


def read_graph(graph: Any, n_sources: int) -> DependencyGraph:
    """The graph as given, or one task of independent sources."""
    if graph is None:
        return DependencyGraph(n_sources)
    if not isinstance(graph, DependencyGraph):
        raise OptionError(f"graph={told(graph)} is none; pass a DependencyGraph, or None")
    if graph.n_sources != n_sources:
        raise GraphError(f"the graph has {graph.n_sources} sources, and n_sources={n_sources}")
    return graph


def require_dense(plan: CountPlan, n_classes: int) -> None:
    """Refuse counts that would have to be sparse."""
    largest = plan.largest_set
    if are_pairs_sparse(largest, n_classes):
        raise OptionError(
            f"counts of {largest:,} sources and {n_classes:,} classes are kept sparse, which a loss does not "
            "do. Label with LabelModel, and train with SoftCrossEntropy"
        )


def joined_sources(graph: DependencyGraph) -> list[list[int]]:
    """For each task the sources on it and on all tasks that it is joined to."""
    part = components(graph.task_edges, graph.n_tasks)
    part_of_source = part[list(graph.source_task)]
    return [np.flatnonzero(part_of_source == part[task]).tolist() for task in range(graph.n_tasks)]
