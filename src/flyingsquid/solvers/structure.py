"""Dependency graphs learned from votes."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from flyingsquid._values import format_value, is_integer, is_number
from flyingsquid._warnings import warn_about_sources
from flyingsquid.estimation.structure import LearnedGraph, learn_edges
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.moments import Moments
from flyingsquid.votes import as_votes

__all__ = ["LearnedGraph", "graph_from", "learn_structure"]
# Probability of a false edge among all pairs; 0.01 finds 1% more edges (docs/design/0006-structure.md, d).
SIGNIFICANCE = 0.001


def learn_structure(
    votes: Any,
    *,
    significance: float = SIGNIFICANCE,
    max_edges: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> LearnedGraph:
    """Find sources that depend on each other beyond the truth, from their votes.

    If sources err independently given the truth of one task, the covariances of their votes are products of
    one number per source. A pair that deviates significantly is joined by an edge.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m), or Moments
        Any number of classes. Moments must contain all pairs, as those of ``Moments.of(votes)`` do.
    significance : float in (0, 1)
        Probability of finding any edge if all sources are independent; approximate for more than two classes.
    max_edges : int, optional
        Largest number of edges; the strongest are kept.
    sample_weight : array of shape (n,) or number, optional
        How often each item counts.

    Returns
    -------
    LearnedGraph
        A :class:`~flyingsquid.DependencyGraph` with ``scores``, ``correlations``, ``fit_before`` and
        ``fit_after``. At least four groups of sources stay separated, no group has more than eight sources
        and no unit more than four; other edges are dropped, weakest first, with a ``SourceWarning``. The
        graph has no edges if fewer than five sources can be compared.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> truth = fs.DependencyGraph(8, source_edges=[(0, 1), (2, 3)])
    >>> sample = fs.datasets.simulate_graph(5_000, truth, 0.75, coverage=0.8, random_state=0)
    >>> learned = fs.learn_structure(sample.votes)
    >>> learned
    LearnedGraph(8 sources on 1 task, 2 source edges)
    >>> learned == truth
    True
    >>> {edge: round(r, 1) for edge, r in learned.correlations.items()}
    {(0, 1): 0.5, (2, 3): 0.5}
    """
    _check_options(significance, max_edges)
    if isinstance(votes, Moments):
        if sample_weight is not None:
            raise OptionError("`sample_weight` is not supported with Moments, which are already counts.")
        moments = votes
    else:
        moments = Moments.of(as_votes(votes), sample_weight=sample_weight)
    graph = graph_from(moments, significance, max_edges)
    for concern in graph.concerns:
        warn_about_sources(concern, stacklevel=2)
    return graph


def graph_from(
    moments: Moments, significance: float = SIGNIFICANCE, max_edges: int | None = None
) -> LearnedGraph:
    """Return the graph learned from counts, without warnings."""
    if moments.graph is not None and moments.graph.n_tasks > 1:
        raise GraphError(
            f"`votes` must be on one task; got counts of {moments.graph.n_tasks} tasks. Count the sources "
            "of each task separately."
        )
    if not moments.n_items > 0:
        raise NotIdentifiableError("`votes` must have at least one item; got empty counts.")
    return learn_edges(moments, significance=float(significance), max_edges=max_edges)


def _check_options(significance: Any, max_edges: Any) -> None:
    if not is_number(significance) or not 0 < significance < 1:
        raise OptionError(f"`significance` must be a number in (0, 1); got {format_value(significance)}.")
    if max_edges is not None and not (is_integer(max_edges) and max_edges >= 0):
        raise OptionError(
            f"`max_edges` must be an integer >= 0, or None for any number; got {format_value(max_edges)}."
        )
