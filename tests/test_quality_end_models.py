"""The tables of end models and of the paper's ablations: their pages, and what they are made of."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from benchmarks.harness import RESULTS
from benchmarks.paper import ablations
from benchmarks.quality.folder import data_folder

FOLDER = os.environ.get("FLYINGSQUID_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="FLYINGSQUID_DATA is not set")


def saved(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"]


def test_the_page_of_ablations_is_made_of_the_results():
    assert ablations.PAGE.read_text("utf-8") == ablations.render(saved("ablations"))


def test_random_votes_cost_more_than_any_method_gains():
    """The paper's point, on all three sets."""
    for name, one in saved("ablations").items():
        assert one["random votes"]["average"] < min(one["mean"], one["median"]), name
        assert one["one triplet"]["worst"] < one["mean"], name
        assert one["one triplet"]["average"] <= one["mean"], name


def test_one_triplet_by_hand():
    """Three sources leave one triplet each, so the draw does not matter: a = (.8, .6, .5)."""
    rows = []
    for signs, count in [((1, 1, 1), 545), ((1, 1, -1), 195), ((1, -1, 1), 155), ((-1, 1, 1), 105)]:
        rows += [signs] * count + [tuple(-s for s in signs)] * count
    votes = ((np.array(rows) + 1) // 2).astype(np.int8)
    second = np.array(rows).T @ np.array(rows) / len(rows)
    np.testing.assert_allclose(second[[0, 0, 1], [1, 2, 2]], [0.48, 0.40, 0.30])
    proba = ablations.one_triplet_a_source(votes, votes, np.random.default_rng(0))
    odds = (1.8 / 0.2) * (1.6 / 0.4) * (1.5 / 0.5)
    assert proba[0] == pytest.approx(odds / (1 + odds))


def test_no_source_abstains_once_coins_vote():
    votes = np.array([[-1, 0, 1]] * 400, np.int8)
    filled = ablations.without_abstains(votes, np.random.default_rng(0))
    assert (filled[:, 1:] == votes[:, 1:]).all()
    assert set(filled[:, 0].tolist()) == {0, 1}
    assert abs(filled[:, 0].mean() - 0.5) < 0.1


@pytest.mark.extra
def test_the_page_of_end_models_is_made_of_the_results():
    pytest.importorskip("torch")
    from benchmarks.quality import end_models

    assert end_models.PAGE.read_text("utf-8") == end_models.render(saved("end_models"))
    comments = saved("end_models")["youtube"]
    assert comments["LabelModel, triplet_mean"]["mean"] > comments["majority vote"]["mean"]


@needs_data
@pytest.mark.extra
def test_end_models_are_scored_on_rows_that_belong_together():
    pytest.importorskip("torch")
    from benchmarks.quality import end_models

    data = end_models.load(data_folder(), "youtube")
    for split in end_models.SPLITS:
        assert data.X[split].shape[0] == len(data.votes[split]) == len(data.y[split])
    rows = saved("end_models")["youtube"]
    assert end_models.by_gold(data, "valid") == pytest.approx(
        rows["gold of the valid split"]["mean"], abs=0.02
    )
