"""Make the picture of the report: ``python docs/pictures/make_report.py`` (playwright, chromium, Pillow)."""

from __future__ import annotations

import shutil
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import flyingsquid as fs

HERE = Path(__file__).parent
HEIGHT = 1_180
NAMES = ("ash S", "ash M", "ash L", "oak S", "oak M", "oak L", "elm", "fir", "yew", "box", "bay", "fig")
EDGES = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
ACCURACIES = [0.62, 0.7, 0.74, 0.66, 0.72, 0.78, 0.85, 0.8, 0.7, 0.65, 0.6, 0.4]
COVERAGE = [1, 1, 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]


def write_page(path: Path) -> None:
    """Write the report of the guide, with gold labels."""
    sample = fs.datasets.simulate_graph(
        4_000,
        fs.DependencyGraph(12, source_edges=EDGES),
        ACCURACIES,
        coverage=COVERAGE,
        random_state=0,
    )
    votes = fs.Votes(sample.votes.codes, ("fine", "toxic"), NAMES)
    fs.report(votes, y=np.array(["fine", "toxic"])[sample.y[:, 0]], path=path, title="Twelve judges")


def photograph(path: Path, width: int, scheme: str, anchor: str) -> Image.Image:
    """A page as it opens on a screen of some width, scrolled to a section."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        page.goto(path.as_uri() + anchor)
        picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    return picture


def main() -> None:
    """The top of the page on a desk, and the sources on a phone at night, side by side."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_page(path)
        desk = photograph(path, 1000, "light", "")
        phone = photograph(path, 360, "dark", "#sources")
    both = Image.new("RGB", (desk.width + phone.width, HEIGHT), "white")
    both.paste(desk, (0, 0))
    both.paste(phone, (desk.width, 0))
    # A palette makes a small file. Median cut, the default, would lose colors of few pixels, such as orange.
    few = both.quantize(192, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(HERE / "report.png", optimize=True)


if __name__ == "__main__":
    main()
