"""The page of real streams is made of its results, and the figure on drift shows what it has to."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.harness import RESULTS
from benchmarks.paper import drift
from benchmarks.quality import online_video as table


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"]


def test_the_page_is_made_of_the_results():
    found = results("online_video")
    assert table.PAGE.read_text("utf-8") == table.render(found)
    assert found["commercial"]["frames"] == 64_130
    assert set(found) == set(table.SETS)


def test_the_figure_shows_what_the_paper_found():
    found = results("drift")
    assert set(found) == set(drift.DRIFTS)
    for name in ("none", "limited"):  # offline wins or ties
        assert -1 <= found[name]["auto_beside_offline"] <= 0.1
    assert found["large periodic"]["auto_beside_offline"] >= 5
    assert all(each["auto_beside_best_window"] >= -1 for each in found.values())
    assert all(items <= 2_000 for items in found["sudden"]["items_until_window_is_below_2000"])


def test_the_oracle_is_the_best_there_is():
    stream = drift.stream_of("sudden", 0)
    right = drift.oracle(stream).mean()
    assert right == pytest.approx(results("drift")["sudden"]["accuracy"]["oracle"] / 100, abs=0.01)
    assert right > np.mean(drift.offline(stream))
