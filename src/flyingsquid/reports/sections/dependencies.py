"""Sources that depend on each other beyond the truth: as the model knows them, or learned from the votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.agreement import agreement, dependence_given_truth
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.drawing import STYLE, to_svg
from flyingsquid.reports.escape import name, plain, safe
from flyingsquid.reports.page import Section, figure, grid
from flyingsquid.reports.study import Study
from flyingsquid.solvers.structure import learn_structure

_MOST_PAIRS = 12
_LEAST_OVERLAP = 30
_LEAST_SOURCES = 5  # for a structure to be learned


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Edges between shown sources, by their places among them, strongest first, and where they come from."""

    edges: tuple[tuple[int, int], ...]
    strengths: dict[tuple[int, int], float]
    words: str


def dependencies_section(study: Study) -> Section:
    """The graph, and the pairs that depend most."""
    heading = "Dependencies"
    if len(study.names) < 2 or (study.model is None and len(study.names) < _LEAST_SOURCES):
        return Section("dependencies", heading, "")
    shown, left_out = study.busiest()
    found = _edges(study, shown)
    given_gold = _given_gold(study, shown)
    body = f"<p>{safe(found.words, 1_000)}</p>" + grid(
        [_picture(study, shown, found, left_out), _pairs(study, shown, found, given_gold)]
    )
    return Section("dependencies", heading, body)


def _edges(study: Study, shown: list[int]) -> _Found:
    graph = getattr(study.model, "graph_", None)
    place = {study.sources[j]: at for at, j in enumerate(shown)}
    if graph is not None and graph.source_edges:
        scores = getattr(graph, "correlations", {})
        edges = {
            _ordered(place[a], place[b]): float(scores.get((a, b), np.nan))
            for a, b in graph.source_edges
            if a in place and b in place
        }
        learned = "learned these dependencies from the votes" if scores else "was given these dependencies"
        words = (
            f"The model {learned} and allows for them: {len(graph.source_edges):,} pairs of sources that "
            "share errors."
        )
        return _Found(tuple(edges), edges, words)
    return _learned(study, shown)


def _learned(study: Study, shown: list[int]) -> _Found:
    """What the votes say where the model takes the sources to be independent."""
    with capture_source_warnings():  # what could not be learned or kept is said on the page
        try:
            graph = learn_structure(study.votes.of_sources(shown))
        except FlyingSquidError as error:
            return _Found((), {}, f"Dependencies could not be learned: {error}")
    if graph.reason:
        return _Found((), {}, f"Dependencies could not be learned: {graph.reason}")
    edges = sorted(graph.correlations, key=lambda edge: -abs(graph.scores[edge]))
    if not edges:
        words = (
            "The votes give no sign that sources share errors: they agree about as often as the truth "
            "explains."
        )
        return _Found((), {}, words)
    pairs = "1 pair of sources agrees" if len(edges) == 1 else f"{len(edges):,} pairs of sources agree"
    dropped = f" {len(graph.dropped):,} weaker pairs are left out." if graph.dropped else ""
    words = (
        f"The votes say that {pairs} more, or less, than the truth explains: they share "
        f'errors.{dropped} Try LabelModel(graph="learn"), or keep one source of each such group.'
    )
    return _Found(tuple(edges), {edge: graph.correlations[edge] for edge in edges}, words)


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _given_gold(study: Study, shown: list[int]) -> NDArray[np.float64] | None:
    gold = study.items.gold
    if gold is None or not (gold >= 0).any():
        return None
    known = np.flatnonzero(gold >= 0)
    part = study.votes.of_sources(shown)[known]
    found = dependence_given_truth(part, study.known_classes(known))
    # A few items that both happened to judge say nothing.
    return np.where(agreement(part).overlaps >= _LEAST_OVERLAP, found, np.nan)


def _picture(study: Study, shown: list[int], found: _Found, left_out: str) -> str:
    if not found.edges:
        return ""
    graph = DependencyGraph(len(shown), source_edges=sorted(found.edges))
    names = [plain(study.names[j], 80) for j in shown]
    labels = [str(at + 1) for at in range(len(shown))]
    # The page has its own colours, which follow its theme, and allows no other style.
    drawing = to_svg(graph, labels=labels, names=names).replace(f"<style>{STYLE}</style>", "")
    caption = (
        "How to read it: Y is the truth, circles are sources, best first, numbered as under Agreement; the "
        "name shows where the pointer rests. Grey: the source votes on Y. Curved: two sources depend on "
        f"each other beyond Y. {left_out}"
    )
    return figure("Which sources depend on each other?", drawing, caption)


def _pairs(study: Study, shown: list[int], found: _Found, given_gold: NDArray[np.float64] | None) -> str:
    edges = list(found.edges)
    if given_gold is not None:
        rows, columns = np.triu_indices(len(shown), 1)
        values = np.nan_to_num(given_gold[rows, columns])
        order = np.argsort(-values, kind="stable")[:_MOST_PAIRS]
        edges = [(int(rows[at]), int(columns[at])) for at in order if values[at] > 0.02]
    if not edges:
        return ""
    head = '<th scope="col">Pair</th><th scope="col" class="n">Learned from votes</th>'
    if given_gold is not None:
        head += '<th scope="col" class="n">Given known classes</th>'
    body = []
    for a, b in edges[:_MOST_PAIRS]:
        strength = found.strengths.get((a, b), np.nan)
        one, other = (name(study.names[shown[at]], 34) for at in (a, b))
        cells = f'<td class="pair">{a + 1} <bdi>{one}</bdi><br>{b + 1} <bdi>{other}</bdi></td>'
        cells += f'<td class="n">{f"{strength:+.2f}" if np.isfinite(strength) else "–"}</td>'
        if given_gold is not None:
            cells += f'<td class="n">{given_gold[a, b]:+.2f}</td>'
        body.append(f"<tr>{cells}</tr>")
    drawing = (
        '<div class="scroll"><table '
        f'class="full"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )
    by = "on items of known class" if given_gold is not None else "by the evidence in the votes"
    caption = (
        "How to read it: correlation of the votes of two sources beyond what the truth explains; 0 is "
        f"independent, 1 a copy. The strongest pairs {by}, at most {_MOST_PAIRS}."
    )
    return figure("The pairs that depend most", drawing, caption)
