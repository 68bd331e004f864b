"""Sections about pairs of sources: agreement, and dependence given the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flyingsquid._values import format_count
from flyingsquid.analysis.agreement import agreement
from flyingsquid.analysis.sentences import DependentPair, describe_dependence
from flyingsquid.charts.build import agreement_chart
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.drawing import STYLE, to_svg
from flyingsquid.reports.escape import escape_name, escape_text, shorten
from flyingsquid.reports.page import Section, figure, grid, table
from flyingsquid.reports.study import Study
from flyingsquid.reports.svg import chart_figure

_MOST_PAIRS = 12


def agreement_section(study: Study) -> Section:
    """Return a heat map of all pairs, the most accurate sources first."""
    if len(study.names) < 2:
        return Section("agreement", "Agreement", "")
    shown, left_out = study.paired()
    found = agreement(study.votes.of_sources(shown))
    # Sources without names are numbered, and selecting some of them numbers these again.
    found = replace(found, source_names=tuple(study.names[j] for j in shown))
    if not (np.nan_to_num(found.beyond_chance[np.triu_indices(len(shown), 1)]) > 0).any():
        text = "No pair of sources agrees more often than by chance. Sources of one class cannot."
        return Section("agreement", "Agreement", f'<p class="note">{text}</p>')
    chart = agreement_chart(found, sort=False)
    caption = (
        "How to read it: each cell is a pair of sources, by row and column number, best sources first. "
        "Stronger colors show more agreement beyond chance (Cohen's kappa). Accurate sources agree because "
        "both are correct. A strong color far from the upper corner indicates a pair with common errors. "
        f"Hover over a cell to see the share of equal votes. {left_out}"
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
    pairs = found.dependent[:_MOST_PAIRS]
    figures = [_graph(pairs), _strongest(pairs, len(found.dependent))] if pairs else []
    return Section("dependencies", "Dependencies", f"<p>{escape_text(text, 1_000)}</p>{grid(figures)}")


def _describe_graph(study: Study) -> str:
    """Return a sentence about the dependencies that the model allows for; empty if there are none."""
    graph = getattr(study.model, "graph_", None)
    if graph is None or not graph.source_edges:
        return ""
    how = "learned from the votes" if getattr(graph, "correlations", None) else "given"
    pairs = format_count(len(graph.source_edges), "pair")
    return f" The model allows for dependencies of {pairs} of sources, which were {how}."


def _number(pairs: Sequence[DependentPair]) -> dict[str, int]:
    """Return the sources of the pairs with their numbers, in the order of the pairs."""
    names = [name for pair in pairs for name in (pair.first, pair.second)]
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _graph(pairs: Sequence[DependentPair]) -> str:
    numbers = _number(pairs)
    edges = [sorted((numbers[pair.first], numbers[pair.second])) for pair in pairs]
    names = [shorten(name, 80) for name in numbers]
    labels = [str(number + 1) for number in numbers.values()]
    graph = DependencyGraph(len(numbers), source_edges=edges)
    # The page has its own colors, which follow its theme, and its policy allows no other style.
    drawing = to_svg(graph, labels=labels, names=names).replace(f"<style>{STYLE}</style>", "")
    caption = (
        "How to read it: Y is the truth, and circles are the sources of the table with their numbers. Hover "
        "over a circle to see its name. Curved lines are the pairs of the table."
    )
    return figure("Which sources depend on each other?", drawing, caption)


def _strongest(pairs: Sequence[DependentPair], total: int) -> str:
    """Return a table of pairs with their correlations."""
    numbers, rows = _number(pairs), []
    for pair in pairs:
        one, other = (
            f"{numbers[name] + 1} <bdi>{escape_name(name, 34)}</bdi>" for name in (pair.first, pair.second)
        )
        rows.append([f"{one}<br>{other}", f"{pair.correlation:+.2f}"])
    which = f"The {len(rows)} strongest of {total:,} pairs." if len(rows) < total else ""
    caption = (
        "How to read it: correlation of the votes of two sources given the truth. It is 0 for independent "
        f"sources, 1 for copies, and negative if they agree less often than the truth explains. {which}"
    )
    cells = table([("Pair", False), ("Correlation", True)], rows)
    return figure("Which pairs are most dependent?", cells, caption)
