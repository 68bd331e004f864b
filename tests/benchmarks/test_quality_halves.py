"""The two halves of the real datasets are disjoint, complete, assigned by the rule, and match the page."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.quality.halves import DESIGN, FROZEN, KINDS, SWAPPED

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "halves.md"
FOLDER = os.environ.get("FLYINGSQUID_DATA")
HALVES = [pytest.param(DESIGN, 1, id="design"), pytest.param(FROZEN, 2, id="frozen")]


def names(half, kind):
    return [s.name for s in half if s.kind == kind]


def row_of(kind):
    """Cells of the page's table for one kind: itself, design, frozen."""
    row = re.search(rf"^\| {kind} \|.*$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert row, f"the page has no row for {kind}"
    return row[0].strip("| ").split(" | ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("half", "cell"), HALVES)
def test_page_and_lists_agree(half, cell, kind):
    assert re.findall(r"`(\w+)`", row_of(kind)[cell]) == names(half, kind)


def test_no_set_is_in_both_halves_or_twice():
    every = [s.name for s in DESIGN + FROZEN]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("kind", KINDS)
def test_names_alternate_within_each_kind(kind):
    dealt = sorted(names(DESIGN + FROZEN, kind))
    # Undo the exception that the page states, then the deal must be the plain one.
    undo = dict(SWAPPED) | {b: a for a, b in SWAPPED}
    assert sorted(undo.get(name, name) for name in names(DESIGN, kind)) == dealt[::2]
    assert sorted(undo.get(name, name) for name in names(FROZEN, kind)) == dealt[1::2]


def test_what_was_looked_at_is_in_the_design_half():
    assert {"youtube", "prompted_youtube"} <= {s.name for s in DESIGN}


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
def test_halves_cover_the_data():
    folders = {path.name: path for path in Path(str(FOLDER)).iterdir() if path.is_dir()}
    assert set(folders) == {s.name for s in DESIGN + FROZEN}
    for s in DESIGN + FROZEN:
        assert json.loads((folders[s.name] / "meta.json").read_text("utf-8"))["K"] == s.n_classes, s.name
