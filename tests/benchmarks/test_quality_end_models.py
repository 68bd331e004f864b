"""Comparison of end models: the page, and the measurements behind it."""

from __future__ import annotations

import json
import os

import pytest

from benchmarks.harness import RESULTS
from benchmarks.quality.data_directory import data_directory

FOLDER = os.environ.get("FLYINGSQUID_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="FLYINGSQUID_DATA is not set")


def saved(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"]


@pytest.mark.extra
def test_the_page_of_end_models_is_made_of_the_results():
    pytest.importorskip("torch")
    from benchmarks.quality import end_models

    assert end_models.PAGE.read_text("utf-8") == end_models.render(saved("end_models"))
    comments = saved("end_models")["youtube"]
    assert comments["LabelModel, triplet"]["mean"] > comments["majority vote"]["mean"]


@needs_data
@pytest.mark.extra
def test_end_models_are_scored_on_rows_that_belong_together():
    pytest.importorskip("torch")
    from benchmarks.quality import end_models

    data = end_models.load(data_directory(), "youtube")
    for split in end_models.SPLITS:
        assert data.X[split].shape[0] == len(data.votes[split]) == len(data.y[split])
    rows = saved("end_models")["youtube"]
    assert end_models.by_gold(data, "valid") == pytest.approx(
        rows["gold of the valid split"]["mean"], abs=0.02
    )
