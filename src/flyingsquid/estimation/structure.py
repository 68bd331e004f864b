"""Search for sources that depend on each other beyond the truth, in counts of pairs.

If sources are independent given the truth, Cᵢⱼ = bᵢbⱼ. A dependent pair does not fit, and is *freed*: left
out of the fit of b. The pairs to free are found by forward and backward steps from several starting points,
because a few strong dependencies distort a fit to all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from flyingsquid.estimation.dependence import row_quantiles
from flyingsquid.estimation.independence import FitTest, Residuals
from flyingsquid.estimation.signs import relative_signs
from flyingsquid.estimation.sources import CenteredMoments, SignedMoments, flag_sources
from flyingsquid.estimation.triplets import Pairs, all_triplets_median
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.dependency import MOST_SOURCES_IN_A_UNIT
from flyingsquid.graph.junction import adjacency, components, narrowest
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Edge = tuple[int, int]
# With four sources, dependence of the pairs 01 and 23 cannot be distinguished; with five it can.
LEAST_SOURCES = 5
# An edge joins two groups only if three other groups remain to test it.
LEAST_GROUPS = 4
# Sources of one group are not compared with each other, so a large group is compared with few sources. Other
# limits make no consistent difference on the design datasets (docs/design/0006-structure.md, f).
LARGEST_GROUP = 2 * MOST_SOURCES_IN_A_UNIT
# A source keeps at least this many partners that it is compared with.
_LEAST_PARTNERS = 3
# Neutral starting point: the correlation of every source with the truth.
_START = 0.6
_MEDIAN_OF_NORMAL = 0.6745  # of |z|
# For more sources than this, the search starts from medians over pairs, because those over triplets take half
# of its time (800 sources).
_MOST_FOR_TRIPLETS = 200
_MOST_STEPS = 300
# Two fits with the same free pairs are the same if no b differs by more than this share.
_SAME_FIT = 1e-5
# Edges that a description lists.
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

    def __init__(
        self,
        n_sources: int,
        scores: Mapping[Edge, float],
        correlations: Mapping[Edge, float],
        fit_before: FitTest | None = None,
        fit_after: FitTest | None = None,
        dropped: tuple[Edge, ...] = (),
        reason: str = "",
    ) -> None:
        super().__init__(n_sources, source_edges=list(scores))
        evidence = {
            "scores": dict(sorted(scores.items())),
            "correlations": dict(sorted(correlations.items())),
            "fit_before": fit_before,
            "fit_after": fit_after,
            "dropped": dropped,
            "reason": reason,
        }
        for name, value in evidence.items():
            object.__setattr__(self, name, value)  # the value is frozen from here on

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


def _format_edges(edges: tuple[Edge, ...]) -> str:
    shown = ", ".join(f"{a}-{b}" for a, b in edges[:_MOST_LISTED])
    return shown + (f" and {len(edges) - _MOST_LISTED:,} more" if len(edges) > _MOST_LISTED else "")


def learn_edges(moments: Moments, *, significance: float, max_edges: int | None = None) -> LearnedGraph:
    """Find the pairs of sources that depend on each other given the truth of one task.

    Parameters
    ----------
    moments : Moments of K >= 2 classes, all pairs counted
    significance : float
        Probability of any false edge if all sources are independent.
    max_edges : int, optional
        Largest number of edges; the strongest are kept.

    Notes
    -----
    For K > 2 classes each class is compared with all others in turn, and the scores of a pair are averaged.
    Sources that confuse some classes more than others fit this model only approximately, so scores are
    divided by the misfit of the other pairs. Time O(m³) per step, and a few steps per edge.
    """
    readings = list(_readings(moments))
    usable = [reading for reading in readings if _is_usable(reading)]
    if not usable:
        return LearnedGraph(moments.n_sources, {}, {}, reason=_describe_shortage(readings))
    n_pairs = max(int(reading.candidates.sum()) // 2 for reading in usable)
    threshold = -float(ndtri(significance / 2 / n_pairs))
    found = [_search(reading, threshold) for reading in usable]
    fits = [fit for fit, _, _ in found]
    scores = np.mean([scores / _misfit(fit, scores, moments.n_classes) for fit, scores, _ in found], axis=0)
    correlations = np.mean([fit.correlations for fit in fits], axis=0)
    chosen = np.any([edges for _, _, edges in found], axis=0) & (np.abs(scores) >= threshold)
    varies = np.any([reading.candidates.any(axis=1) for reading in usable], axis=0)
    by_edge = {edge: float(scores[edge]) for edge in _ordered(scores, chosen)}
    kept, dropped = select_edges(by_edge, varies)
    kept = kept[:max_edges]
    with_edges = [_with_edges(reading, fit, kept) for reading, fit in zip(usable, fits, strict=True)]
    return LearnedGraph(
        moments.n_sources,
        {edge: by_edge[edge] for edge in kept},
        {edge: float(correlations[edge]) for edge in kept},
        _worst([_independent(reading).statistic() for reading in usable]),
        _worst([fit.statistic() for fit in with_edges]),
        dropped,
    )


def _misfit(fit: Residuals, scores: Array, n_classes: int) -> float:
    """Return the ratio of the scores of fitted pairs to noise; it is 1 for two classes."""
    sizes = np.abs(scores[np.triu(fit.used, 1)])
    sizes = sizes[sizes > 0]
    if n_classes == 2 or not len(sizes):
        return 1.0
    return max(1.0, float(np.median(sizes)) / _MEDIAN_OF_NORMAL)


# ---------------------------------------------------------------------- readings


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counts of one class against all others.

    Attributes
    ----------
    centered : CenteredMoments
    candidates : mask of shape (m, m)
        Pairs of sources that both vary.
    fitted : mask of shape (m, m)
        Pairs that b may be fitted to: identical columns agree regardless of their accuracy.
    signs, groups : arrays of shape (m,)
        Signs of b, up to one flip for each group of sources that agree beyond chance.
    """

    centered: CenteredMoments
    candidates: Mask
    fitted: Mask
    signs: Array
    groups: NDArray[np.intp]

    @classmethod
    def of(cls, moments: Moments) -> _Reading:
        centered = CenteredMoments.of(moments)
        varies = centered.variance > 1e-12  # float counts are 0 only up to rounding
        candidates = np.outer(varies, varies)
        np.fill_diagonal(candidates, False)
        copies = flag_sources(SignedMoments.of(moments)).copies
        fitted = candidates & (copies[:, None] != copies)
        product = np.outer(centered.variance, centered.variance)
        signs, groups = relative_signs(centered.covariance, product, centered.n_items, fitted)
        return cls(centered, candidates, fitted, signs, groups)


def _readings(moments: Moments) -> Iterator[_Reading]:
    """Yield the counts of two classes, or of each class against all others if there are more."""
    if moments.n_classes == 2 and moments.graph is None:
        yield _Reading.of(moments)
        return
    for k in range(moments.n_classes) if moments.n_classes > 2 else (1,):
        yield _Reading.of(moments.one_vs_rest(k))


def _is_usable(reading: _Reading) -> bool:
    """Return whether enough different sources vary together beyond chance."""
    if (reading.fitted.sum(axis=1) >= LEAST_SOURCES - 1).sum() < LEAST_SOURCES:
        return False
    return bool(np.bincount(reading.groups).max() >= 3)


def _describe_shortage(readings: list[_Reading]) -> str:
    most = max(int(reading.fitted.any(axis=1).sum()) for reading in readings)
    if most < LEAST_SOURCES:
        return (
            f"only {most} different sources vote for more than one class, and at least {LEAST_SOURCES} are "
            "needed to find dependent pairs"
        )
    return "no three sources agree beyond chance, so there is no common truth to compare them with"


# ---------------------------------------------------------------------- search


def _search(reading: _Reading, threshold: float) -> tuple[Residuals, Array, Mask]:
    """Return the fit with the lowest cost, its scores, and the pairs that are far from it.

    The cost is the loss plus the squared threshold for each free pair.
    """
    visited: dict[bytes, Array] = {}
    found = [_walk(reading, *start, threshold, visited) for start in _starts(reading, threshold)]
    ends = [one for one in found if one is not None]
    fit, free = min(ends, key=lambda one: one[0].loss + threshold**2 * float(one[1].sum()) / 2)
    scores = fit.scores()
    return fit, scores, reading.candidates & (np.abs(scores) >= threshold) & (free | ~reading.fitted)


def _starts(reading: _Reading, threshold: float) -> Iterator[tuple[Array, Mask]]:
    """Yield starting points: b, shape (m,), and the pairs that are free at the start.

    The first uses medians, which resist a few dependent pairs, and frees every pair that is
    far from it; the second uses equal sources and frees none. Both are tried with signs by the agreement of
    pairs, and with all sources better than random. The last ones use equal sources and free the pairs inside
    the clusters that agree most, because a fit may mistake a cluster of near-copies for the truth, and the
    search does not recover from that.
    """
    centered = reading.centered
    spread = np.sqrt(centered.variance)
    error = np.outer(spread, spread) / np.sqrt(centered.n_items)
    median = _medians(reading, error)
    signs = reading.signs
    for sign in (signs, np.ones_like(signs)) if (signs != signs[0]).any() else (signs,):
        robust = sign * np.minimum(np.where(np.isfinite(median), median, 0.0), spread)
        far = np.abs(Residuals.at(centered, reading.fitted, robust).raw_scores)
        nearer = _strongest(np.where(reading.fitted, far, 0.0), threshold, reading.fitted, one_each=False)
        yield robust, nearer
        yield sign * _START * spread, np.zeros_like(reading.fitted)
    for cluster in _clusters(np.abs(centered.covariance) / np.maximum(error, 1e-300), reading.fitted):
        yield signs * _START * spread, cluster


def _medians(reading: _Reading, error: Array) -> Array:
    """Return |b| by the median over triplets, or over pairs for many sources; NaN or 0 if undetermined."""
    size = np.abs(reading.centered.covariance)
    if len(size) <= _MOST_FOR_TRIPLETS:
        strong = reading.fitted & (size >= error) & (size > 0)
        return all_triplets_median(Pairs(reading.centered.covariance, error, reading.fitted, strong)).values
    # The median over j of bᵢbⱼ is bᵢ times the median of b, whose square is the median over all pairs.
    by_source = row_quantiles(np.where(reading.fitted, size, np.inf), 0.5)
    overall = float(np.median(size[reading.fitted]))
    return np.asarray(by_source / np.sqrt(overall)) if overall > 0 else np.full(len(size), np.nan)


def _clusters(agreement: Array, fitted: Mask) -> Iterator[Mask]:
    """Yield pairs inside single-linkage clusters each time the largest grows, up to half of the sources."""
    members = np.arange(len(agreement))
    largest = 2
    most = min(LARGEST_GROUP, int(fitted.any(axis=1).sum()) // 2)
    for i, j in _ordered(-agreement, fitted):
        if members[i] != members[j]:
            members = np.where(members == members[j], members[i], members)
            size = int(np.bincount(members).max())
            if size > most:
                return
            if size > largest:
                largest = size
                yield fitted & (members[:, None] == members)


def _walk(
    reading: _Reading, start: Array, free: Mask, threshold: float, visited: dict[bytes, Array]
) -> tuple[Residuals, Mask] | None:
    """Free pairs that do not fit and restore pairs that do, until neither changes anything.

    ``visited`` contains b for each set of free pairs of earlier walks, and is extended. None if this walk
    meets one of them, because it would end where that walk did.
    """
    fit = Residuals.of(reading.centered, reading.fitted & ~free, start)
    own: set[bytes] = set()
    for _ in range(_MOST_STEPS):
        key = np.flatnonzero(free).tobytes()
        if key in visited and np.allclose(visited[key], fit.strength, rtol=_SAME_FIT):
            return None
        own.add(key)
        visited[key] = fit.strength
        change = np.zeros_like(free)
        if free.any():
            sources = np.flatnonzero(free.any(axis=1))
            inside = np.ix_(sources, sources)
            scores = np.where(free[inside], np.abs(fit.scores(sources)), np.inf)
            change[inside] = _weakest(scores, threshold)
        if not change.any():
            scores = np.where(fit.used, np.abs(fit.scores()), 0.0)
            change = _strongest(scores, threshold, fit.used)
        free = free ^ change
        # A pair at the threshold could go back and forth.
        if not change.any() or np.flatnonzero(free).tobytes() in own:
            break
        fit = Residuals.of(reading.centered, reading.fitted & ~free, fit.strength)
    return fit, free


def _strongest(scores: Array, threshold: float, used: Mask, *, one_each: bool = True) -> Mask:
    """Return pairs to free, strongest first, as long as every source keeps enough partners.

    With ``one_each`` at most one pair per source, and none below half of the strongest: pairs that share no
    source hardly affect each other, so many can be freed at once.
    """
    chosen = np.zeros_like(used)
    least = max(threshold, scores.max() / 2) if one_each else threshold
    partners = used.sum(axis=1)
    # The median resists up to half of all partners being dependent.
    keep = np.full_like(partners, _LEAST_PARTNERS) if one_each else np.maximum(_LEAST_PARTNERS, partners // 2)
    for i, j in _ordered(-scores, scores >= least):
        if min(partners[i] - keep[i], partners[j] - keep[j]) > 0:
            chosen[i, j] = chosen[j, i] = True
            partners[[i, j]] -= 1
            if one_each:
                keep[[i, j]] = len(scores)
    return chosen


def _weakest(scores: Array, threshold: float) -> Mask:
    """Return pairs to restore, weakest first, one per source."""
    chosen = np.zeros(scores.shape, np.bool_)
    for i, j in _ordered(scores, scores < threshold):
        if not (chosen[i].any() or chosen[j].any()):
            chosen[i, j] = chosen[j, i] = True
    return chosen


def _ordered(keys: Array, where: Mask) -> Iterator[Edge]:
    """Yield pairs (i, j), i < j, in the order of their keys."""
    i, j = np.nonzero(np.triu(where, 1))
    for at in np.argsort(keys[i, j], kind="stable"):
        yield int(i[at]), int(j[at])


# ---------------------------------------------------------------------- edges


def select_edges(scores: Mapping[Edge, float], sources: Mask) -> tuple[tuple[Edge, ...], tuple[Edge, ...]]:
    """Return the edges that a graph may have, strongest first, and those that have to be dropped.

    Parameters
    ----------
    scores : mapping from edges to their strength, of either sign
    sources : mask of shape (m,)
        Sources that other sources are compared with.

    Examples
    --------
    At most four sources may all depend on each other, and three groups must remain outside:

    >>> clique = {(i, j): 10.0 - i - j for i in range(5) for j in range(i + 1, 5)}
    >>> kept, dropped = select_edges(clique, np.ones(8, bool))
    >>> len(kept), dropped
    (9, ((3, 4),))
    """
    kept: list[Edge] = []
    dropped: list[Edge] = []
    others = np.flatnonzero(sources)
    group = np.arange(len(sources))
    for edge in sorted(scores, key=lambda pair: (-abs(scores[pair]), pair)):
        joined = np.where(group == group[edge[1]], group[edge[0]], group)
        apart = group[edge[0]] != group[edge[1]]
        small = np.count_nonzero(joined == group[edge[0]]) <= LARGEST_GROUP
        if apart and small and len(np.unique(joined[others])) >= LEAST_GROUPS:
            kept.append(edge)  # joining two parts by one edge does not change their width
            group = joined
        elif not apart and _is_narrow([*kept, edge], group, int(group[edge[0]])):
            kept.append(edge)
        else:
            dropped.append(edge)
    return tuple(kept), tuple(dropped)


def _is_narrow(edges: list[Edge], group: NDArray[np.intp], part: int) -> bool:
    """Return whether the triangulated part of the graph has only cliques that can be counted."""
    at = {int(source): place for place, source in enumerate(np.flatnonzero(group == part))}
    inside = [(at[a], at[b]) for a, b in edges if a in at]
    return narrowest(adjacency(inside, len(at))).width < MOST_SOURCES_IN_A_UNIT


# ---------------------------------------------------------------------- goodness of fit


def _independent(reading: _Reading) -> Residuals:
    start = reading.signs * _START * np.sqrt(reading.centered.variance)
    return Residuals.of(reading.centered, reading.fitted, start)


def _with_edges(reading: _Reading, fit: Residuals, edges: tuple[Edge, ...]) -> Residuals:
    """Fit all pairs that the edges leave separated."""
    group = components(edges, len(fit.strength))
    return Residuals.of(reading.centered, reading.fitted & (group[:, None] != group), fit.strength)


def _worst(tests: list[FitTest]) -> FitTest:
    """Return the test with the smallest p value, corrected for the number of tests of the same votes."""
    worst = min(tests, key=lambda test: (test.p_value, -test.statistic))
    return replace(worst, p_value=min(1.0, len(tests) * worst.p_value))
