"""Sections about pairs of sources: agreement, and dependence given the truth."""

from __future__ import annotations

from dataclasses import replace

from flyingsquid.analysis.agreement import agreement
from flyingsquid.analysis.findings import DependentPair, describe_dependence
from flyingsquid.charts.build import agreement_chart
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.drawing import STYLE, to_svg
from flyingsquid.reports.escape import escape_name, escape_text, shorten
from flyingsquid.reports.page import Section, figure, grid, table
from flyingsquid.reports.study import Study
from flyingsquid.reports.svg import chart_figure

_MOST_PAIRS = 12

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


def dependencies_section(study: Study) -> Section:
    """Return the dependent pairs of sources: how many, the strongest in a table, and as a graph."""
    found = study.findings
    if not found.n_pairs:
        return Section("dependencies", "Dependencies", "")
    text = describe_dependence(found) + _describe_graph(study)
    if found.dependent:
        text += " Of sources that copy each other, keep one, or the copies count as further evidence."
    shown, left_out = study.paired()
    place = {study.names[j]: at for at, j in enumerate(shown)}
    pairs = [pair for pair in found.dependent if pair.first in place and pair.second in place][:_MOST_PAIRS]
    edges = {(place[pair.first], place[pair.second]): pair for pair in pairs}
    figures = [_graph(study, shown, list(edges), left_out), _strongest(study, edges)] if edges else []
    return Section("dependencies", "Dependencies", f"<p>{escape_text(text, 1_000)}</p>{grid(figures)}")


def _describe_graph(study: Study) -> str:
    """Return a sentence about the dependencies that the model allows for; empty if there are none."""
    graph = getattr(study.model, "graph_", None)
    if graph is None or not graph.source_edges:
        return ""
    how = "learned from the votes" if getattr(graph, "correlations", None) else "given"
    pairs = "1 pair" if len(graph.source_edges) == 1 else f"{len(graph.source_edges):,} pairs"
    return f" The model allows for dependencies of {pairs} of sources, which were {how}."


def _graph(study: Study, shown: list[int], edges: list[Edge], left_out: str) -> str:
    graph = DependencyGraph(len(shown), source_edges=sorted((min(edge), max(edge)) for edge in edges))
    names = [shorten(study.names[j], 80) for j in shown]
    labels = [str(at + 1) for at in range(len(shown))]
    # The page has its own colors, which follow its theme, and its policy allows no other style.
    drawing = to_svg(graph, labels=labels, names=names).replace(f"<style>{STYLE}</style>", "")
    caption = (
        "How to read it: Y is the truth, circles are sources, best first, with the numbers of the heat map; "
        "hover for names. Gray: the source votes on Y. Curved: the pairs of the table. "
        f"{left_out}"
    )
    return figure("Which sources depend on each other?", drawing, caption)


def _strongest(study: Study, edges: dict[Edge, DependentPair]) -> str:
    """Return a table of pairs with their correlations."""
    rows = []
    for (a, b), pair in edges.items():
        one, other = (
            f"{at + 1} <bdi>{escape_name(name, 34)}</bdi>" for at, name in ((a, pair.first), (b, pair.second))
        )
        rows.append([f"{one}<br>{other}", f"{pair.correlation:+.2f}"])
    total = len(study.findings.dependent)
    which = f"The {len(rows)} strongest of {total:,} pairs." if len(rows) < total else ""
    caption = (
        "How to read it: correlation of the votes of two sources given the truth. 0 is independent, 1 a "
        f"copy; negative if they agree less often than the truth explains. {which}"
    )
    return figure(
        "Which pairs are most dependent?", table([("Pair", False), ("Correlation", True)], rows), caption
    )
