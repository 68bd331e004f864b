"""The learning curves of gold labels: every method labels, and the page has every table."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.harness import saved_halves

pytestmark = [
    pytest.mark.extra,  # the harness reads the machine with psutil
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # attributes of scikit-learn that are not used
]


@pytest.fixture(scope="module")
def gold():
    from benchmarks.quality import gold

    return gold


@pytest.fixture(scope="module")
def pool(gold):
    sample = fs.datasets.simulate(400, [0.9, 0.8, 0.7, 0.6], coverage=0.8, random_state=0)
    votes, y = np.asarray(sample.votes.codes), np.asarray(sample.y)
    return gold.Pool("made", 2, votes, y, votes, y, False)


def test_only_items_without_gold_labels_are_scored(gold, pool, monkeypatch):
    scored = []

    def count(p, y):
        scored.append(int((y >= 0).sum()))
        return 0.0, 0.0, 0.0, 0.0

    monkeypatch.setattr(gold, "load", lambda name: pool)
    monkeypatch.setattr(gold, "score_known", count)
    monkeypatch.setattr(gold.Study, "_by_snorkel", lambda study, truth: study.label_free)
    found = gold.measure(["made"], draws=1)
    assert sorted(set(scored)) == [200, 300, 350, 380]
    assert set(found["scores"]["100"]["made"]) == set(gold.METHODS)
    others = set(gold.METHODS) - {"Snorkel"}
    assert all(set(found["scores"][size]["made"]) == others for size in ("20", "50", "200"))


def test_methods_that_are_not_measured_again_keep_their_scores(gold):
    found = {"draws": 1, "scores": {"20": {"made": {"default": [1.0]}}}}
    recorded = {"scores": {"20": {"made": {"default": [0.0], "stack": [0.5]}}}}
    merged = gold.with_recorded(found, recorded)
    assert merged["scores"]["20"]["made"] == {"default": [1.0], "stack": [0.5]}


def test_every_method_returns_probabilities(gold, pool):
    labels = gold.Study(pool).label(np.arange(50), 0, gold.METHODS)
    assert set(labels) == set(gold.METHODS) - {"Snorkel"}
    for p in labels.values():
        np.testing.assert_allclose(p.sum(axis=1), 1)


def test_labels_of_one_class_have_a_baseline(gold):
    p = gold.logistic(np.zeros((5, 2)), np.ones(5, int), np.zeros((3, 2)), 2)
    assert (p.argmax(axis=1) == 1).all()


def test_the_page_names_datasets_that_lose(gold):
    row = {method: [0.8, 0.7, 0.4] for method in gold.METHODS}
    worse = {**row, "fit(gold=)": [0.7, 0.7, 0.4]}
    text = gold.tables({"draws": 20, "scores": {"100": {"good": row, "bad": worse}}}, "design")
    assert "bad (10.0)" in text
    assert "good (" not in text


def test_the_page_is_that_of_the_saved_results(gold):
    saved = saved_halves(gold.NAMES)
    assert gold.PAGE.read_text(encoding="utf-8") == gold.HEADER + gold.render(saved)
