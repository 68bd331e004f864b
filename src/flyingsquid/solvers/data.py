"""Read the arguments of ``fit`` into :class:`FitData`: arrays, chunks, or votes on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid.exceptions import GraphError, OptionError
from flyingsquid.files.vote_files import read_path
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import ChunkCounts, Moments, count_chunks
from flyingsquid.solvers.base import FitData
from flyingsquid.solvers.structure import graph_from
from flyingsquid.votes import VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.arguments import in_item_order, item_ids, join_by_item, join_weights, read_task_gold
from flyingsquid.votes.codes import Label
from flyingsquid.votes.features import FeatureCollector, FeatureItems, Features
from flyingsquid.votes.gold_items import GoldCollector, GoldItems
from flyingsquid.votes.grid import CountedRows
from flyingsquid.votes.patterns import counted_codes
from flyingsquid.votes.reading import refuse_options

GraphOption: TypeAlias = DependencyGraph | Literal["learn"] | None


def read_fit_data(
    votes: Any,
    graph: GraphOption,
    *,
    classes: tuple[Label, ...] | None,
    gold: Any = None,
    sample_weight: ArrayLike | None = None,
    features: Any = None,
    keep_rows: bool = True,
    **options: Any,
) -> FitData:
    """Count votes, and learn the graph if ``graph`` is "learn".

    Parameters
    ----------
    votes : Votes, array-like or dataframe; the path of a file; VoteChunks; or votes on a cluster
    graph : DependencyGraph, "learn" or None
    classes : tuple of labels or None
        Classes of votes that are plain numbers.
    gold, features : gold labels and features as a user passes them
    keep_rows : bool
        Whether distinct rows of chunks are kept besides their counts.
    **options : class_balance, signs, temper and use of :class:`FitData`
    """
    if not isinstance(votes, (Votes, np.ndarray)):
        votes = read_path(votes, classes)
        on_cluster = distributed_votes(votes)
        if on_cluster is not None:
            refuse_options(sample_weight=sample_weight, features=features)
            return _read_parts(on_cluster.with_classes(classes), graph, gold, None, keep_rows, options)
        chunks = as_chunks(votes, classes)
        if chunks is not None:
            if sample_weight is not None:
                raise OptionError(
                    "`sample_weight` is not supported with VoteChunks; pass the votes as an array."
                )
            return _read_parts(chunks, graph, gold, features, keep_rows, options)
    stacked = graph.stacked_shape if isinstance(graph, DependencyGraph) else None
    read = as_votes(votes, classes, stacked)
    weights = join_weights(sample_weight, votes, read)
    given = graph if isinstance(graph, DependencyGraph) else None
    counted = CountedRows.of(read.codes, len(read.classes), weights) if given is None else None
    data = FitData(
        moments=Moments._count(read, given, weights, counted),
        votes=read,
        weights=weights,
        counted=counted,
        rows="all",
        **options,
    )
    if isinstance(graph, str):
        data = _with_learned_graph(data, read)
    if gold is not None:
        n_tasks = 1 if data.moments.graph is None else data.moments.graph.n_tasks
        known = join_gold(gold, votes, read, n_tasks)
        data = replace(data, gold=known if (known >= 0).any() else None)
    if features is None:
        return data
    return replace(data, feature_items=feature_items(features, votes, read, data.gold, weights))


def feature_items(
    features: Any, votes: Any, read: Votes, gold: NDArray[Any] | None, weights: Any
) -> FeatureItems:
    """Return items with features of ``votes``, which are ``read`` after reading, with gold codes (n, 1)."""
    return FeatureItems(
        read,
        Features.read(in_item_order(features, votes, read, "features"), read.n_items),
        None if weights is None else np.asarray(weights, np.float64),
        None if gold is None else np.asarray(gold[:, 0], np.intp),
        read.n_items,
    )


def join_gold(gold: Any, votes: Any, read: Votes, n_tasks: int) -> NDArray[Any]:
    """Return codes of gold labels of ``votes``, shape (n, D), negative if unknown.

    ``read`` are the same votes after reading.
    """
    joined = join_by_item(gold, item_ids(votes, read, gold), read.n_items, "gold")
    return read_task_gold(joined, read.classes, (read.n_items, n_tasks), "gold")


def _with_gold_items(data: FitData, items: GoldItems | None) -> FitData:
    """Return the data with gold labels. Distinct rows are followed by the items with gold labels."""
    if items is None or not len(items):
        return data
    if data.votes is None or data.weights is None:
        return replace(data, gold_items=items)
    rows, own = data.votes, np.asarray(items.votes.to_dense().codes)
    # The items with gold labels are taken out of the counts of the distinct rows.
    both = np.concatenate([np.asarray(rows.to_dense().codes), own])
    counted, counts = counted_codes(both, rows.n_classes, np.r_[data.weights, np.full(len(own), -1)])
    others, left = counted[counts > 0], counts[counts > 0]
    return replace(
        data,
        votes=Votes(np.concatenate([others, own]), rows.classes, rows.names),
        weights=np.r_[left, np.ones(len(own))].astype(np.int64),
        gold=np.concatenate([np.full((len(others), 1), -1), items.labels]),
    )


def _with_learned_graph(data: FitData, votes: Any) -> FitData:
    """Return the data with the graph that its counts suggest, counted for it in another pass over votes."""
    learned = graph_from(data.moments)
    data = replace(data, learned_graph=learned, concerns=learned.concerns)
    if learned.is_trivial:
        return data
    try:
        if data.votes is None:
            return replace(data, moments=Moments.of(votes, learned))
        counted = Moments.of(data.votes, learned, sample_weight=data.weights)
    except GraphError as error:  # a learned graph must not turn a valid fit into an error
        dropped = f"The learned dependencies are left out: {error}"
        return replace(data, concerns=(*data.concerns, dropped))
    # Distinct rows do not contain the reasons for missing votes; the counts of pairs do.
    return replace(data, moments=replace(counted, missing=data.moments.missing))


def _read_parts(
    parts: Any, graph: GraphOption, gold: Any, features: Any, keep_rows: bool, options: dict[str, Any]
) -> FitData:
    """Count ``VoteChunks``, or the parts of a dataset on the cluster itself."""
    given = None if isinstance(graph, str) else graph
    if gold is not None and given is not None and given.n_tasks > 1:
        raise OptionError(
            f"`gold` of {given.n_tasks} tasks is not supported with chunks or on a cluster; pass the votes "
            "as an array.",
            parameter="gold",
        )
    items, featured = None, None
    if isinstance(parts, VoteChunks):
        watched = parts
        if gold is not None:
            labels = GoldCollector(gold)
            watched = VoteChunks(labels.collect(watched), names=parts.names)
        if features is not None:
            collector = FeatureCollector(features)
            watched = VoteChunks(collector.collect(watched), names=parts.names)
        data = _from_counts(count_chunks(watched, given, rows=keep_rows), options)
        items = None if gold is None else labels.items()
        featured = None if features is None else collector.items()
    else:
        items = None if gold is None else parts.gold_items(gold)
        data = _from_counts(parts.count(given, keep_rows), options)
    if isinstance(graph, str):
        data = _with_learned_graph(data, parts)
    return replace(_with_gold_items(data, items), feature_items=featured)


def _from_counts(counts: ChunkCounts, options: dict[str, Any]) -> FitData:
    rows = counts.rows
    if rows is None or not rows.is_complete:
        why = "" if rows is None else f", because there are more than {rows.most:,} distinct rows"
        return FitData(moments=counts.moments, note=f"from counts{why}", **options)
    return FitData(
        moments=counts.moments,
        votes=rows.votes,
        weights=np.asarray(rows.counts),
        rows="distinct",
        note=f"from {len(rows.votes):,} distinct rows",
        **options,
    )
