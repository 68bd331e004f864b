"""Dependency graphs learned from votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from flyingsquid._values import format_value, is_integer, is_number
from flyingsquid._warnings import warn_about_sources
from flyingsquid.estimation.independence import FitTest
from flyingsquid.estimation.structure import LARGEST_GROUP, LEAST_GROUPS, Edge, Structure, learn_edges
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.reading import MOST_SOURCES_IN_A_UNIT
from flyingsquid.moments import Moments
from flyingsquid.votes import as_votes

SIGNIFICANCE = 0.001
_MOST_LISTED = 10


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LearnedGraph(DependencyGraph):
    """A dependency graph with the evidence for its edges. Made by :func:`learn_structure`.

    It is equal to any graph with the same edges; the evidence is not compared.
    Pickles and copies keep the evidence; ``to_dict``, ``to_json`` and model files contain only the graph.

    Attributes
    ----------
    scores : mapping from edges (i, j), i < j, to float
        Deviation of the pair from independence, in standard errors; negative if the two agree less often
        than the truth explains.
    correlations : mapping from edges to float
        Correlation of the two sources' votes given the truth.
    fit_before, fit_after : FitTest, or None if nothing could be learned
        Goodness of fit without and with the edges. For more than two classes, that of the class with the
        worst fit.
    dropped : tuple of edges
        Other dependent pairs, strongest first, that could not be kept: their unit would be too large, or too
        few groups would be left.
    reason : str
        Reason why nothing could be learned; otherwise empty.
    """

    scores: Mapping[Edge, float]
    correlations: Mapping[Edge, float]
    fit_before: FitTest | None
    fit_after: FitTest | None
    dropped: tuple[Edge, ...]
    reason: str

    def __init__(self, n_sources: int, structure: Structure) -> None:
        super().__init__(n_sources, source_edges=list(structure.scores))
        keep = object.__setattr__  # the value is frozen from here on
        keep(self, "scores", dict(sorted(structure.scores.items())))
        keep(self, "correlations", dict(sorted(structure.correlations.items())))
        keep(self, "fit_before", structure.before)
        keep(self, "fit_after", structure.after)
        keep(self, "dropped", structure.dropped)
        keep(self, "reason", structure.reason)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DependencyGraph):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = DependencyGraph.__hash__

    def __repr__(self) -> str:
        return "Learned" + super().__repr__().removeprefix("Dependency")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DependencyGraph:
        """Return the graph that :meth:`to_dict` described, without the evidence."""
        return DependencyGraph.from_dict(data)

    @property
    def concerns(self) -> tuple[str, ...]:
        """Sentences about what could not be learned or kept."""
        found = []
        if self.reason:
            found.append(f"No dependencies were learned: {self.reason}.")
        if self.dropped:
            found.append(
                f"{len(self.dropped)} dependent pairs were left out, strongest first: "
                f"{_format_edges(self.dropped)}. At most {MOST_SOURCES_IN_A_UNIT} sources may all depend on "
                f"each other, at most {LARGEST_GROUP} may form a group, and {LEAST_GROUPS} groups must stay "
                "separated. Leave some of these sources out."
            )
        return tuple(found)

    def describe(self) -> str:
        """Describe the graph and the evidence for its edges in several lines."""
        lines = [super().describe()]
        if self.reason:
            return "\n".join([*lines, f"nothing learned: {self.reason}"])
        strongest = sorted(self.scores, key=lambda edge: -abs(self.scores[edge]))
        lines += [
            f"sources {a}, {b}: {self.scores[a, b]:+.1f} standard errors, correlation "
            f"{self.correlations[a, b]:+.2f} given the truth"
            for a, b in strongest[:_MOST_LISTED]
        ]
        if len(strongest) > _MOST_LISTED:
            lines.append(f"... and {len(strongest) - _MOST_LISTED:,} more edges")
        if self.dropped:
            lines.append(f"left out: {_format_edges(self.dropped)}")
        for when, fit in (("without edges", self.fit_before), ("with them", self.fit_after)):
            if fit is not None:
                lines.append(
                    f"independence {when}: chi² {fit.statistic:,.1f} on {fit.degrees:,} degrees of freedom, "
                    f"p = {fit.p_value:.2g}"
                )
        return "\n".join(lines)


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
    found = learn_edges(moments, significance=float(significance), max_edges=max_edges)
    return LearnedGraph(moments.n_sources, found)


def _check_options(significance: Any, max_edges: Any) -> None:
    if not is_number(significance) or not 0 < significance < 1:
        raise OptionError(f"`significance` must be a number in (0, 1); got {format_value(significance)}.")
    if max_edges is not None and not (is_integer(max_edges) and max_edges >= 0):
        raise OptionError(
            f"`max_edges` must be an integer >= 0, or None for any number; got {format_value(max_edges)}."
        )


def _format_edges(edges: tuple[Edge, ...]) -> str:
    shown = ", ".join(f"{a}-{b}" for a, b in edges[:_MOST_LISTED])
    return shown + (f" and {len(edges) - _MOST_LISTED:,} more" if len(edges) > _MOST_LISTED else "")
