"""Files of the page: the colors of the report, nothing inline or from elsewhere, no HTML from data."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STATIC = {
    each.name: each.read_text(encoding="utf-8") for each in (files("flyingsquid.studio") / "static").iterdir()
}
COLOR = re.compile(r"--(\w+): (#\w+)")


def test_colors_are_those_of_the_report():
    report = (files("flyingsquid.reports") / "page.css").read_text(encoding="utf-8")
    shared = [
        (name, code) for name, code in COLOR.findall(STATIC["studio.css"]) if not re.fullmatch(r"k\d", name)
    ]
    # The report has the light colors once more, for paper.
    assert shared == COLOR.findall(report)[: len(shared)]
    assert len(shared) > 20


@pytest.mark.parametrize("name", sorted(STATIC))
def test_nothing_is_loaded_from_elsewhere(name):
    assert not re.search(r"(https?:)?//[a-z]+\.[a-z]", STATIC[name])
    assert "@import" not in STATIC[name]


def test_page_has_no_inline_script_or_style():
    page = STATIC["index.html"]
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]


@pytest.mark.parametrize("name", sorted(name for name in STATIC if name.endswith(".js")))
def test_data_never_become_html_or_code(name):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", STATIC[name]
    )
    assert "new RegExp" not in STATIC[name]  # a pattern of the user would run in the page


def test_every_element_that_the_scripts_name_is_in_the_page():
    ids = set(re.findall(r'\bid="([\w-]+)"', STATIC["index.html"]))
    made = set(re.findall(r'\bid: "([\w-]+)"', STATIC["items.js"])) | {"filter-source", "filter-class"}
    used = {found for text in STATIC.values() for found in re.findall(r'\$\("([\w-]+)"\)', text)}
    assert len(used) > 30
    assert used <= ids | made
