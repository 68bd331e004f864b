"""SVG charts: ticks, texts that fit, and one drawing for every kind of chart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid import charts
from flyingsquid.reports.svg import chart_figure, fit_text, panels_figure, round_ticks
from tests.support.report_data import HOSTILE, Reader

NAMES = tuple(HOSTILE[:3])
WORDS: dict[str, Any] = {"title": "<b>Title</b>", "description": "A & B"}
SIZES = np.array([10.0, 20.0])
LINE = charts.Line(NAMES[0], SIZES, np.array([0.5, np.nan]), changes=(15.0,))
BAND = charts.Line(NAMES[1], SIZES, np.array([0.5, 0.6]), np.array([0.4, 0.5]), np.array([0.6, 0.7]))
CHARTS = {
    "intervals": charts.IntervalChart(
        rows=(charts.IntervalRow(NAMES[0], 0.5, 0.4, 0.6, 0.45, 0.5), charts.IntervalRow(NAMES[1], None)),
        x_label="share",
        value_label="estimated",
        gold_label="gold",
        chance_label="chance",
        **WORDS,
    ),
    "nested bars": charts.LayeredBarChart(
        names=NAMES,
        layers=tuple(charts.Layer(label, (0.1, 0.2, 0.0)) for label in "abc"),
        x_label="share",
        **WORDS,
    ),
    "stacked bars": charts.LayeredBarChart(
        names=NAMES, layers=(charts.Layer("a", (0.1, 0.2, 0.0)),), x_label="share", stacked=True, **WORDS
    ),
    "bars": charts.BarChart(
        names=NAMES,
        values=(-1.0, 0.0, 2.0),
        tones=("bad", "other", "main"),
        annotations=("-1", "0", "2"),
        x_label="log odds",
        **WORDS,
    ),
    "histogram": charts.Histogram(
        edges=np.array([0.0, 0.5, 1.0]),
        layers=(charts.Layer("items", (0.4, 0.6)),),
        x_label=NAMES[2],
        y_label="share",
        percent=True,
        **WORDS,
    ),
    "lines": charts.LineChart(
        lines=(BAND,), x_label="items", y_label="", percent=True, logarithmic=True, **WORDS
    ),
    "reliability": charts.LineChart(
        lines=(BAND,), x_label="P", y_label="observed", unit_square=True, **WORDS
    ),
    "heat map": charts.HeatMap(
        names=NAMES,
        values=np.array([[1, 0.5, np.nan], [0.5, 1, -0.3], [np.nan, -0.3, 1]]),
        value_label="kappa",
        hints=[[f"{a} and {b}" for b in NAMES] for a in NAMES],
        **WORDS,
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_kind_of_chart_is_one_figure_without_foreign_elements(name):
    reader = Reader(chart_figure(CHARTS[name], "How to read it"))
    assert reader.open == []
    assert {tag for tag, _ in reader.elements} <= {
        "figure", "h3", "ul", "li", "svg", "desc", "title", "text", "line", "rect", "circle", "path", "div",
        "figcaption",
    }  # fmt: skip
    assert reader.texts[0] == "<b>Title</b>"
    assert "A & B" in reader.texts


def test_panels_have_one_line_each_and_mark_changes():
    chart = charts.LineChart(lines=(LINE, BAND), x_label="items", y_label="accuracy", **WORDS)
    reader = Reader(panels_figure(chart, {chart.lines[0].name: 0.5}, "How to read it"))
    drawn = [attributes.get("class") for _, attributes in reader.elements]
    assert drawn.count("curve") == 2
    assert drawn.count("band") == 1
    assert drawn.count("change") == 2  # one in the chart, one in the legend


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.integers(2, 40))
def test_texts_are_shortened_to_their_room(text, most):
    assert len(fit_text(text, most)) <= most


@given(st.floats(0, 1), st.floats(0.001, 1))
def test_ticks_lie_in_their_range(low, span):
    ticks = round_ticks(low, low + span)
    assert 1 <= len(ticks) <= 7
    assert ticks == sorted(set(ticks))
    assert ticks[0] >= low - 1e-9
    assert ticks[-1] <= low + span + 1e-9
