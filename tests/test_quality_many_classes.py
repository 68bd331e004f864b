"""The table of many classes: scores by hand, its page, and what it has to show."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness import RESULTS
from benchmarks.quality import many_classes as table

FOLDER = os.environ.get("FLYINGSQUID_DATA")


def saved() -> dict[str, Any]:
    return json.loads((RESULTS / "many_classes.json").read_text("utf-8"))["results"]


def test_scores_by_hand():
    """Three items of two classes: one right, one wrong, one tie."""
    posterior = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
    scores = table.scores_of(posterior, np.array([0, 1, 1], np.int8))
    assert scores["accuracy"] == pytest.approx(1.5 / 3)
    # Class 0: 1 right of 2.5 said and 1 true; class 1: 0.5 right of 0.5 said and 2 true; class 2: nothing.
    assert scores["f1"] == pytest.approx((2 * 1 / 3.5 + 2 * 0.5 / 2.5 + 0) / 3, abs=1e-6)
    assert scores["log_loss"] == pytest.approx(-np.log([0.8, 0.2, 0.4]).mean(), abs=1e-6)


def test_the_page_is_made_of_the_results():
    assert table.PAGE.read_text("utf-8") == table.render(saved())


def test_the_default_never_collapses():
    for name, methods in saved().items():
        assert methods["auto"]["accuracy"] > methods["majority vote"]["accuracy"] - table.COLLAPSE, name


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
def test_the_table_can_be_measured_anew():
    results = saved()
    for pool in table.pools(Path(str(FOLDER))):
        if pool.name in ("crowd_cf", "crowd_labelme"):
            for name, scores in table.measure(pool).items():
                expected = results[pool.name][name]
                if isinstance(expected, str):
                    assert isinstance(scores, str)
                else:
                    assert scores == pytest.approx(expected, abs=2e-3), (pool.name, name)
