"""Make the pictures of the studio: ``python -m docs.pictures.make_studio`` (playwright, chromium, Pillow).

The pictures of the tutorial are PNG files. The picture of the README is an animated WebP of the same steps.
"""

from __future__ import annotations

import csv
import re
import tempfile
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageColor

import flyingsquid as fs
from tests.support.studio_page import StudioPage, launch_browser, run_studio

HERE = Path(__file__).parent
ITEMS = 2_000
DESK, PHONE = (1180, 760), (390, 760)
# Width of the frames of the animated picture: the README shows it at about this size.
_WIDTH, _BLENDS = 820, 6
_RULES = (
    ("keywords", "spam", "words", "subscribe, my channel"),
    ("regex", "spam", "pattern", r"https?:|www\."),
    ("keywords", "ham", "words", "love, best, beautiful, awesome"),
)


def write_comments(path: Path) -> list[str]:
    """Write the comments of the tutorial, and return their classes, which stand for a person who labels."""
    sample = fs.datasets.simulate_comments(ITEMS, random_state=0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text] for text in sample.texts)
    return ["spam" if label else "ham" for label in sample.y]


class Recorder:
    """Frames of the animated picture, with the time that each is shown."""

    def __init__(self, visit: StudioPage) -> None:
        self.visit = visit
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def take(self, milliseconds: int) -> None:
        picture = photograph(self.visit.page)
        height = round(picture.height * _WIDTH / picture.width)
        self.frames.append(picture.resize((_WIDTH, height), Image.Resampling.LANCZOS))
        self.durations.append(milliseconds)

    def type(self, selector: str, text: str) -> None:
        """Type into a field, with a frame after every fourth letter."""
        self.visit.page.locator(selector).click()
        for start in range(0, len(text), 4):
            self.visit.page.keyboard.type(text[start : start + 4])
            self.take(240)

    def save(self, path: Path) -> None:
        # With few colors, the parts that do not change are equal in all frames, and the file is small.
        palette = make_palette()
        few = [
            frame.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB") for frame in self.frames
        ]
        few[0].save(
            path,
            save_all=True,
            append_images=few[1:],
            duration=self.durations,
            loop=0,
            lossless=True,
            method=6,
            minimize_size=True,
        )


def make_palette() -> Image.Image:
    """Return a palette of the colors of the page, and of their blends with white at the edges of letters.

    A palette computed from the frames would tint the pale colors or the text.
    """
    style = (files("flyingsquid.studio") / "static" / "studio.css").read_text(encoding="utf-8")
    light = style[: style.index("@media")]
    colors = {name: ImageColor.getrgb(code) for name, code in re.findall(r"--(\w+): (#\w+)", light)}
    used = [colors[name] for name in ("paper", "wash", "line", "pale", "mark")]
    for name in ("ink", "soft", "blue", "orange", "gray"):
        edges = 255 - np.outer(np.linspace(1, 0.1, _BLENDS), 255 - np.array(colors[name]))
        used.extend(tuple(edge) for edge in edges.round().astype(int).tolist())
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for color in used for value in color])
    return palette


def photograph(page: Any) -> Image.Image:
    """Return what the page shows."""
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def save_picture(page: Any, name: str) -> None:
    """Write a picture of the tutorial."""
    # A palette makes a small file. Median cut, the default, would lose colors of few pixels, such as orange.
    few = photograph(page).quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(HERE / f"studio-{name}.png", optimize=True)


def write_rules(visit: StudioPage, recorder: Recorder) -> None:
    """Write three rules."""
    page = visit.page
    recorder.take(1_500)
    for number, (kind, label, name, text) in enumerate(_RULES):
        page.select_option("#rule-kind", kind)
        page.select_option("#rule-label", label=label)
        recorder.type(f"#rule-{name}", text)
        page.locator("#preview:not([hidden])").wait_for()
        visit.wait_for_quiet()
        recorder.take(1_600)
        if number == 0:
            save_picture(page, "preview")
        page.click("#rule-submit")
        visit.rows.nth(number).wait_for()
        visit.rows.first.locator("td.coverage:has-text('%')").wait_for()
        visit.wait_for_quiet(800)
        recorder.take(1_400)
    save_picture(page, "table")


def label_items(visit: StudioPage, recorder: Recorder, truth: list[str]) -> None:
    """Give ten items a gold label."""
    page = visit.page
    visit.show("Label next")
    visit.wait_for_quiet()
    page.locator("#item-list .item").first.focus()
    recorder.take(1_400)
    for number in range(10):
        index = int(page.locator(".item.current").get_attribute("data-key"))
        visit.label_current("2" if truth[index] == "spam" else "1")
        visit.wait_for_quiet(300)
        recorder.take(420)
        if number == 4:
            page.keyboard.press("e")
            visit.wait_for_quiet()
            save_picture(page, "labels")
            page.keyboard.press("e")
    visit.wait_for_quiet(800)
    recorder.take(1_400)


def accept_suggestion(visit: StudioPage, recorder: Recorder) -> None:
    """Accept a suggestion, and open the list of exports."""
    page = visit.page
    page.locator("#suggestion-list .card").first.wait_for()
    page.locator("#suggestions").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#suggestions').scrollIntoView()")
    visit.wait_for_quiet()
    recorder.take(2_200)
    save_picture(page, "suggestions")
    n_rows = visit.rows.count()
    # A word that a person would accept.
    page.locator("#suggestion-list").get_by_role("button", name="Accept: contains “money”").click()
    visit.rows.nth(n_rows).wait_for()
    visit.rows.first.locator("td.coverage:has-text('%')").wait_for()
    page.evaluate("document.querySelector('#rules').scrollTo(0, 0)")
    visit.wait_for_quiet(1_000)
    recorder.take(2_200)
    page.locator("#export > summary").click()
    visit.wait_for_quiet()
    recorder.take(2_600)
    save_picture(page, "export")


def main() -> None:
    """Walk through the tutorial, with a picture of each step."""
    with tempfile.TemporaryDirectory() as directory, launch_browser() as browser:
        data = Path(directory, "comments.csv")
        truth = write_comments(data)
        size = dict(zip(("width", "height"), DESK, strict=True))
        with run_studio(data, "--classes", "ham,spam") as address:
            with StudioPage.open(browser, address, **size) as visit:
                visit.page.locator("#item-list .item").nth(3).wait_for()
                visit.wait_for_quiet()
                save_picture(visit.page, "start")
                recorder = Recorder(visit)
                write_rules(visit, recorder)
                label_items(visit, recorder, truth)
                accept_suggestion(visit, recorder)
                recorder.save(HERE / "studio.webp")
            phone = dict(zip(("width", "height"), PHONE, strict=True))
            with StudioPage.open(browser, address, scheme="dark", **phone) as visit:
                visit.wait_for_quiet(800)
                save_picture(visit.page, "phone")


if __name__ == "__main__":
    main()
