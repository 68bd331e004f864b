"""Draw the layers, from the table that the tests use: ``python docs/pictures/make_architecture.py``."""

from __future__ import annotations

import runpy
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "tests" / "test_architecture.py"
# Readable on a light page and on a dark one.
BLUE, BRIGHT, GREY, FAINT = "#2f74b5", "#3b82c4", "#768390", "#8a94a0"
WIDTH, MARGIN, BOX, GAP, ROW = 800, 44, 108, 10, 42
# What flows, and the packages that make it of what comes before.
FLOW = {
    "records": (),
    "Votes": ("labeling", "formats", "votes"),
    "Moments": ("moments",),
    "parameters": ("estimate",),
    "posteriors": ("infer",),
    "end model": ("models", "torch"),
}


def draw(layers: dict[str, int]) -> str:
    """The picture, as SVG: the flow of data above, a row a layer below."""
    top = 128
    height = top + ROW * (max(layers.values()) + 1) + 4
    parts = [*_flow(layers), *_rows(layers, top), *_downwards(top, height)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="13">'
    )
    arrow = (
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{FAINT}"/></marker></defs>'
    )
    return "\n".join([head, arrow, *parts, "</svg>", ""])


def _flow(layers: dict[str, int]) -> list[str]:
    step = WIDTH / len(FLOW)
    parts = []
    for place, (stage, packages) in enumerate(FLOW.items()):
        middle = step * (place + 0.5)
        parts.append(_text(middle, 34, stage, GREY, bold=True))
        if place:
            parts.append(_line(middle - step / 2 - 18, 30, middle - step / 2 + 12, 30))
        for row, package in enumerate(packages):
            at = layers[package]  # a package that is gone cannot be drawn
            parts.append(_text(middle, 58 + 18 * row, f"{package} ({at})", BRIGHT))
    return parts


def _rows(layers: dict[str, int], top: float) -> list[str]:
    carried = {package for packages in FLOW.values() for package in packages}
    highest = max(layers.values())
    parts = []
    for layer in range(highest, -1, -1):
        y = top + ROW * (highest - layer)
        parts.append(_text(MARGIN - 22, y + 20, str(layer), GREY, bold=True))
        for place, package in enumerate(name for name, its in layers.items() if its == layer):
            x = MARGIN + place * (BOX + GAP)
            is_carried = package in carried
            fill = f'fill="{BLUE}"' if is_carried else f'fill="none" stroke="{FAINT}"'
            parts.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="{ROW - 12}" rx="5" {fill}/>')
            parts.append(_text(x + BOX / 2, y + 20, package, "#ffffff" if is_carried else GREY))
    return parts


def _downwards(top: float, height: float) -> list[str]:
    x = WIDTH - 14
    words = _text(0, 0, "imports point downwards", GREY).replace(
        "<text ", f'<text transform="translate({x - 18} {(top + height) / 2}) rotate(90)" ', 1
    )
    return [_line(x, top, x, height - 18), words]


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    ends = f'x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"'
    return f'<line {ends} stroke="{FAINT}" stroke-width="1.5" marker-end="url(#tip)"/>'


def _text(x: float, y: float, words: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{colour}"{weight}>{words}</text>'


if __name__ == "__main__":
    table = runpy.run_path(str(TABLE))["LAYERS"]
    (HERE / "architecture.svg").write_text(draw(table), encoding="utf-8")
