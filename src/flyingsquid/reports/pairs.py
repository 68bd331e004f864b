"""Sections about pairs of sources: agreement, and dependence given the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.agreement import agreement, dependence_given_truth
from flyingsquid.charts.build import agreement_chart
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.drawing import STYLE, to_svg
from flyingsquid.reports.escape import escape_name, escape_text, shorten
from flyingsquid.reports.page import Section, figure, grid, table
from flyingsquid.reports.study import Study
from flyingsquid.reports.svg import chart_figure
from flyingsquid.solvers.structure import learn_structure

_MOST_PAIRS = 12
# Correlations on fewer common items are noise.
_LEAST_OVERLAP = 30
# Learning a graph needs this many sources.
_LEAST_SOURCES = 5

Edge = tuple[int, int]


def agreement_section(study: Study) -> Section:
    """Return a heat map of all pairs, the most accurate sources first."""
    if len(study.names) < 2:
        return Section("agreement", "Agreement", "")
    shown, left_out = study.paired()
    found = agreement(study.votes.of_sources(shown))
    # Sources without names are numbered, and selecting some of them numbers these again.
    found = replace(found, source_names=tuple(study.names[j] for j in shown))
    chart = agreement_chart(found, sort=False)
    caption = (
        "How to read it: each cell is a pair of sources, by row and column number, best sources first. "
        "Stronger colors are more agreement beyond chance (Cohen's kappa). Good sources agree because both "
        "are correct; a strong color far from the upper corner is a pair with common errors. Hover over a "
        f"cell for the share of equal votes. {left_out}"
    )
    return Section("agreement", "Agreement", chart_figure(chart, caption, wide=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Dependencies:
    """Dependent pairs of the shown sources with their correlations, strongest first, and a sentence."""

    correlations: dict[Edge, float]
    sentence: str


def dependencies_section(study: Study) -> Section:
    """Return the graph of dependent sources, and a table of the strongest pairs."""
    if len(study.names) < 2 or (study.model is None and len(study.names) < _LEAST_SOURCES):
        return Section("dependencies", "Dependencies", "")
    shown, left_out = study.paired()
    found = _given_dependencies(study, shown) or _learn_dependencies(study, shown)
    figures = [_graph(study, shown, found, left_out), _strongest(study, shown, found)]
    return Section(
        "dependencies", "Dependencies", f"<p>{escape_text(found.sentence, 1_000)}</p>{grid(figures)}"
    )


def _given_dependencies(study: Study, shown: list[int]) -> _Dependencies | None:
    """Return the dependencies of the model; None if it has none."""
    graph = getattr(study.model, "graph_", None)
    if graph is None or not graph.source_edges:
        return None
    place = {study.sources[j]: at for at, j in enumerate(shown)}
    learned = getattr(graph, "correlations", {})
    edges = {
        (min(place[a], place[b]), max(place[a], place[b])): float(learned.get((a, b), np.nan))
        for a, b in graph.source_edges
        if a in place and b in place
    }
    how = "learned from the votes" if learned else "given"
    count = len(graph.source_edges)
    pairs = "1 pair of sources has" if count == 1 else f"{count:,} pairs of sources have"
    return _Dependencies(edges, f"The model allows for dependencies that were {how}: {pairs} common errors.")


def _learn_dependencies(study: Study, shown: list[int]) -> _Dependencies:
    """Return the dependencies that the votes suggest."""
    with capture_source_warnings():  # the page says what could not be learned
        try:
            graph = learn_structure(study.votes.of_sources(shown))
        except FlyingSquidError as error:
            return _Dependencies({}, f"Dependencies could not be learned: {error}")
    if graph.reason:
        return _Dependencies({}, f"Dependencies could not be learned: {graph.reason}")
    edges = sorted(graph.correlations, key=lambda edge: -abs(graph.scores[edge]))
    if not edges:
        return _Dependencies({}, "The votes give no evidence of common errors.")
    pairs = "1 pair of sources agrees" if len(edges) == 1 else f"{len(edges):,} pairs of sources agree"
    dropped = f" {len(graph.dropped):,} weaker pairs are left out." if graph.dropped else ""
    sentence = (
        f"{pairs} more or less often than the truth explains, which is evidence of common errors.{dropped} "
        'Try LabelModel(graph="learn"), or keep one source of each group.'
    )
    return _Dependencies({edge: graph.correlations[edge] for edge in edges}, sentence)


def _graph(study: Study, shown: list[int], found: _Dependencies, left_out: str) -> str:
    if not found.correlations:
        return ""
    graph = DependencyGraph(len(shown), source_edges=sorted(found.correlations))
    names = [shorten(study.names[j], 80) for j in shown]
    labels = [str(at + 1) for at in range(len(shown))]
    # The page has its own colors, which follow its theme, and its policy allows no other style.
    drawing = to_svg(graph, labels=labels, names=names).replace(f"<style>{STYLE}</style>", "")
    caption = (
        "How to read it: Y is the truth, circles are sources, best first, with the numbers of the heat map; "
        "hover for names. Gray: the source votes on Y. Curved: two sources depend on each other given Y. "
        f"{left_out}"
    )
    return figure("Which sources depend on each other?", drawing, caption)


def _strongest(study: Study, shown: list[int], found: _Dependencies) -> str:
    """Return a table of the pairs with the strongest correlations, by gold labels if there are any."""
    on_gold = _correlations_on_gold(study, shown)
    edges = list(found.correlations)
    if on_gold is not None:
        rows, columns = np.triu_indices(len(shown), 1)
        values = np.nan_to_num(on_gold[rows, columns])
        order = np.argsort(-values, kind="stable")[:_MOST_PAIRS]
        edges = [(int(rows[at]), int(columns[at])) for at in order if values[at] > 0.02]
    if not edges:
        return ""
    headings, cells = [("Pair", False), ("Learned from votes", True)], []
    for a, b in edges[:_MOST_PAIRS]:
        one, other = (f"{at + 1} <bdi>{escape_name(study.names[shown[at]], 34)}</bdi>" for at in (a, b))
        learned = found.correlations.get((a, b), np.nan)
        row = [f"{one}<br>{other}", f"{learned:+.2f}" if np.isfinite(learned) else "–"]
        cells.append(row if on_gold is None else [*row, f"{on_gold[a, b]:+.2f}"])
    if on_gold is not None:
        headings.append(("On gold labels", True))
    by = "the evidence in the votes" if on_gold is None else "gold labels"
    caption = (
        "How to read it: correlation of the votes of two sources given the truth; 0 is independent, 1 a "
        f"copy. Shown are at most {_MOST_PAIRS} pairs, the strongest by {by}."
    )
    return figure("Which pairs are most dependent?", table(headings, cells), caption)


def _correlations_on_gold(study: Study, shown: list[int]) -> NDArray[np.float64] | None:
    gold = study.items.gold
    if gold is None:
        return None
    known = np.flatnonzero(gold >= 0)
    part = study.votes.of_sources(shown)[known]
    found = dependence_given_truth(part, study.gold_labels(known))
    return np.where(agreement(part).overlaps >= _LEAST_OVERLAP, found, np.nan)
