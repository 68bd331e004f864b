"""Panels of judges on real votes: the goals of the page, with fewer panels and draws."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.replicates import compare_replicates

FOLDER = Path(os.environ.get("FLYINGSQUID_DATA", "missing")).parent / "panels"
pytestmark = [
    pytest.mark.extra,  # the harness reads the machine with psutil
    pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning"),
]
needs_panels = pytest.mark.skipif(not (FOLDER / "llmbar").is_dir(), reason="there is no directory of panels")


@pytest.fixture(scope="module")
def panels():
    from benchmarks.quality import panels

    return panels


@pytest.fixture(scope="module")
def llmbar(panels):
    return panels.load_llmbar(FOLDER)


@needs_panels
def test_declared_orders_gain_eight_points(panels, llmbar):
    votes, y, subset = llmbar
    labels = fs.LabelModel().fit(votes).predict_proba(votes)
    majority = fs.MajorityVote().fit(votes).predict_proba(votes)
    assert panels.accuracy(labels, y) > panels.accuracy(majority, y) + 0.08
    for name in np.unique(subset):
        at = subset == name
        assert panels.accuracy(labels[at], y[at]) > panels.accuracy(majority[at], y[at]) - 0.01


@needs_panels
def test_small_panels_rarely_lose_and_are_never_recommended_while_they_do(panels, llmbar):
    votes, y, _ = llmbar
    rng, judges = np.random.default_rng(1), np.array(votes.structure.judges)
    rows = [
        panels.compare(panels.of_judges(votes, rng.choice(judges, 6, replace=False).tolist()), y)
        for _ in range(25)
    ]
    assert np.mean([row["panel"] < row["majority"] - 0.01 for row in rows]) <= 0.1
    for name in ("panel", "default"):
        assert all(row[name] >= row["majority"] for row in rows if row[f"{name}_verdict"] == "recommended")


@needs_panels
@pytest.mark.parametrize(("n_gold", "goal"), [(10, 0.84), (20, 0.87)])
@pytest.mark.parametrize("declared", [True, False])
def test_few_gold_labels_choose_the_explanation(panels, llmbar, n_gold, goal, declared, monkeypatch):
    votes, y, _ = llmbar
    monkeypatch.setattr(panels, "DRAWS", 8)
    votes = votes if declared else votes.with_structure(None)
    assert panels.measure_gold(votes, y, n_gold)["accuracy"] > goal


@needs_panels
def test_no_judge_exceeds_the_accuracy_that_its_self_agreement_admits(llmbar):
    votes, y, _ = llmbar
    found = compare_replicates(votes)
    codes, of = np.asarray(votes.codes), votes.structure.judge_of
    for judge, bound in enumerate(found.bound.tolist()):
        own = codes[:, of == judge]
        cast = own >= 0
        assert np.isnan(bound) or (own == y[:, None])[cast].mean() <= bound


def test_simulated_judges_have_the_structure_that_they_were_drawn_with(panels):
    votes, y = panels.simulate(np.random.default_rng(0), 2_000, 3, 1.0, 0.0)
    assert compare_replicates(votes).swapped.tolist() == [1.0, 1.0, 1.0]
    votes, _ = panels.simulate(np.random.default_rng(0), 2_000, 3, 1.0, 0.5)
    assert compare_replicates(votes).position.min() > 0
    assert len(y) == 2_000


def test_the_page_has_every_table(panels):
    row = {
        "majority": 0.5,
        "panel": 0.8,
        "panel_verdict": "unproven",
        "default": 0.6,
        "default_verdict": "contradictory",
    }
    design = {
        "llmbar": {
            "all": row,
            "subsets": {"one": {**row, "fitted_on_all": 0.7, "items": 3}},
            "random": [row, row],
            "bound": {"judges": 2, "held": 2},
            "gold": [
                {"declared": d, "gold": n, "accuracy": 0.9, "low": 0.8, "high": 0.95}
                for d in (True, False)
                for n in panels.GOLD
            ],
            "suggested": 0.9,
            "rank": 2,
            "trusted": 0.9,
            "families": 0.8,
        },
        "simulated": [
            {"items": 300, "judges": 4, "same": 0.5, "position": 0.0, "difference": 0.2, "error": 0.01, **row}
        ],
        "civilcomments": row,
    }
    page = panels.render({"design": design, "frozen": {"repeats": row}})
    assert "| one | 50.0 | 60.0 | contradictory | 80.0 | unproven | 70.0 |" in page
    assert "| unproven | 2 | 0 | 0 | 0 |" in page
    assert "| 10 | 90.0 (80.0 to 95.0) | 90.0 (80.0 to 95.0) |" in page
    assert "| 300 | 4 | 0.5 | 0.0 | 50.0 | 60.0 | 80.0 | +20.0 ± 1.0 |" in page
    assert "frozen half" in page
