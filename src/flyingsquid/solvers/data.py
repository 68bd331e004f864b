"""Read the arguments of ``fit`` into :class:`FitData`: arrays, chunks, or votes on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid.exceptions import GraphError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Gathered, Moments, gather
from flyingsquid.solvers.base import FitData
from flyingsquid.solvers.structure import graph_from
from flyingsquid.votes import VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.arguments import item_ids, join_by_item, read_task_gold, read_weights
from flyingsquid.votes.codes import Label
from flyingsquid.votes.reading import refuse_options

GraphOption: TypeAlias = DependencyGraph | Literal["learn"] | None


def read_fit_data(
    votes: Any,
    graph: GraphOption,
    *,
    classes: tuple[Label, ...] | None,
    gold: Any = None,
    sample_weight: ArrayLike | None = None,
    keep_rows: bool = True,
    **options: Any,
) -> FitData:
    """Count votes, and learn the graph if ``graph`` is "learn".

    Parameters
    ----------
    votes : Votes, or what ``as_votes`` reads; VoteChunks; or votes on a cluster
    graph : DependencyGraph, "learn" or None
    classes : tuple of labels or None
        Classes of votes that come as plain numbers.
    gold : gold labels as a user passes them
    keep_rows : bool
        Whether distinct rows of chunks are kept besides their counts.
    **options : class_balance, signs, temper and use of :class:`FitData`
    """
    on_cluster = distributed_votes(votes)
    if on_cluster is not None:
        refuse_options(gold=gold, sample_weight=sample_weight)
        return _read_parts(on_cluster.with_classes(classes), graph, keep_rows, options)
    chunks = as_chunks(votes, classes)
    if chunks is not None:
        for name, value in (("gold", gold), ("sample_weight", sample_weight)):
            if value is not None:
                raise OptionError(f"`{name}` is not supported with VoteChunks; pass the votes as an array.")
        return _read_parts(chunks, graph, keep_rows, options)
    stacked = graph.stacked_shape if isinstance(graph, DependencyGraph) else None
    read = as_votes(votes, classes, stacked)
    weights = None if sample_weight is None else read_weights(sample_weight, read.n_items)
    data = FitData(
        moments=Moments.of(read, None if isinstance(graph, str) else graph, sample_weight=weights),
        votes=read,
        weights=weights,
        rows="all",
        **options,
    )
    if isinstance(graph, str):
        data = _with_learned_graph(data)
    if gold is None:
        return data
    joined = join_by_item(gold, item_ids(votes, read), read.n_items, "gold")
    return replace(data, gold=_read_gold(joined, read, data.moments))


def _read_gold(gold: Any, votes: Votes, moments: Moments) -> NDArray[Any] | None:
    """Return codes of gold labels, shape (n, D); None if none is known."""
    n_tasks = 1 if moments.graph is None else moments.graph.n_tasks
    known = read_task_gold(gold, votes.classes, (votes.n_items, n_tasks), "gold")
    return known if (known >= 0).any() else None


def _with_learned_graph(data: FitData) -> FitData:
    """Return the data with the graph that its counts suggest, counted for it."""
    learned = graph_from(data.moments)
    data = replace(data, learned_graph=learned, concerns=learned.concerns)
    if learned.is_trivial:
        return data
    try:
        counted = Moments.of(data.votes, learned, sample_weight=data.weights)
    except GraphError as error:  # a learned graph must not turn a valid fit into an error
        dropped = f"The learned dependencies are left out: {error}"
        return replace(data, concerns=(*data.concerns, dropped))
    return replace(data, moments=counted)


def _read_parts(parts: Any, graph: GraphOption, keep_rows: bool, options: dict[str, Any]) -> FitData:
    """Count ``VoteChunks``, or the parts of a dataset on the cluster itself."""
    given = None if isinstance(graph, str) else graph
    if isinstance(parts, VoteChunks):
        gathered = gather(parts, given, rows=keep_rows)
    else:
        gathered = parts.gather(given, keep_rows)
    data = _from_gathered(gathered, options)
    if not isinstance(graph, str):
        return data
    learned = graph_from(data.moments)
    data = replace(data, learned_graph=learned, concerns=learned.concerns)
    if learned.is_trivial:
        return data
    if data.votes is None:
        return replace(data, moments=Moments.of(parts, learned))
    joint = Moments.of(data.votes, learned, sample_weight=data.weights)
    # Distinct rows do not contain the reasons for missing votes; the counts of pairs do.
    return replace(data, moments=replace(joint, missing=data.moments.missing))


def _from_gathered(gathered: Gathered, options: dict[str, Any]) -> FitData:
    rows = gathered.rows
    if rows is None:
        return FitData(moments=gathered.moments, note="from counts", **options)
    if not rows.is_complete:
        note = f"from counts, because there are more than {rows.most:,} distinct rows"
        return FitData(moments=gathered.moments, note=note, **options)
    votes = rows.votes
    return FitData(
        moments=gathered.moments,
        votes=votes,
        weights=np.asarray(rows.counts),
        rows="distinct",
        note=f"from {len(votes):,} distinct rows",
        **options,
    )
