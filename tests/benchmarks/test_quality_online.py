"""The page about real streams shows the recorded results."""

from __future__ import annotations

import json

from benchmarks.harness import RESULTS
from benchmarks.quality import online_video as table


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"]


def test_the_page_is_made_of_the_results():
    found = results("online_video")
    assert table.PAGE.read_text("utf-8") == table.render(found)
    assert found["commercial"]["frames"] == 64_130
    assert set(found) == set(table.SETS)
