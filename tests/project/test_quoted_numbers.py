"""Numbers that the README quotes: they are those of the recorded results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
METHODS = {
    "majority vote": "majority",
    "**FlyingSquid**, `fs.LabelModel()`": "auto",
    "hyper label model": "hyper",
    "Snorkel": "snorkel",
    "Dawid-Skene (crowd-kit)": "dawid_skene",
}


def recorded(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))["results"]


@pytest.fixture(scope="module")
def tables() -> Any:
    return recorded("default_table_frozen")["split"]


@pytest.mark.parametrize(("title", "method"), METHODS.items())
def test_the_table_of_methods_is_the_recorded_one(tables, title, method):
    row = next(line for line in README.splitlines() if line.startswith(f"| {title} |"))
    cells = [cell.strip().strip("*").replace("&nbsp;", " ") for cell in row.split("|")[2:-1]]
    means = tables["means"]["all"][method]
    expected = [f"{means['accuracy']:.1%}", f"{means['f1']:.1%}", f"{means['log_loss']:.3f}"]
    if method != "majority":
        used = [each for each in tables["sets"] if each["in_means"]]
        below = tables["below"][method]
        expected += [
            f"{median(each['scores'][method]['seconds'] for each in used):.2f} s",
            f"{len(below['sets'])} of {below['of']}",
        ]
    assert cells[: len(expected)] == expected


@pytest.mark.parametrize("page", ["README.md", "docs/release-notes.md", "docs/known-limits.md"])
def test_the_largest_loss_is_the_recorded_one(tables, page):
    (loss,) = tables["below"]["auto"]["sets"].values()
    text = " ".join((ROOT / page).read_text("utf-8").split())
    (quoted,) = re.findall(r"it loses ([\d.]+) points|on `yelp` the default is ([\d.]+) points below", text)
    assert max(quoted) == f"{-100 * loss:.1f}"


def test_the_times_of_a_million_items_are_the_recorded_ones():
    one = next(each for each in recorded("scale")["snorkel"] if (each["n"], each["m"]) == (1_000_000, 10))
    seconds = [one["auto"]["seconds"], one["fast"]["seconds"], one["auto"]["baseline_seconds"]]
    text = " ".join(README.split())
    quoted = re.search(r"10 sources takes (\d+) ms .*?, (\d+) ms with .*?, and (\d+) ms with Snorkel", text)
    assert quoted is not None
    assert [int(each) for each in quoted.groups()] == [round(1_000 * each) for each in seconds]
