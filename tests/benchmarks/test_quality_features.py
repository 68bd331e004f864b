"""The tables of features: every method labels, only items without gold labels are scored."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.extra  # the harness reads the machine with psutil


@pytest.fixture(scope="module")
def study():
    from benchmarks.quality import features

    return features


@pytest.fixture(scope="module")
def pool(study):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    votes = np.where(rng.random((300, 4)) < 0.8, y[:, None], 1 - y[:, None])
    votes = np.where(rng.random((300, 4)) < 0.4, votes, -1).astype(np.int8)
    rows = rng.normal(2 * y[:, None] - 1, 1.0, (300, 3)).astype(np.float32)
    return study.Pool("made", 2, votes, y.astype(np.int8), rows)


@pytest.fixture
def without_peers(study, monkeypatch):
    monkeypatch.setattr(study, "_snorkel", lambda pool: None)


@pytest.mark.usefixtures("without_peers")
def test_every_method_returns_probabilities(study, pool):
    gold = np.where(np.arange(300) < 50, pool.y, -1)
    for labels in (study.label(pool), study.label(pool, gold)):
        assert set(labels) == set(study.METHODS[:4])
        for p in labels.values():
            np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.usefixtures("without_peers")
def test_only_items_without_gold_labels_are_scored(study, pool, monkeypatch):
    scored = []

    def count(p, y):
        scored.append(int((y >= 0).sum()))
        return 0.5, 0.5, 0.5, 0.5

    monkeypatch.setattr(study, "load", lambda name: pool)
    monkeypatch.setattr(study, "score_known", count)
    found = study.measure(["made"], draws=1)
    assert scored == [300] * 4 + [200] * 4
    assert found["scores"]["100"]["made"]["both"] == [0.5, 0.5, 0.5]


def test_an_end_model_does_not_see_the_labels_of_its_own_items(study, pool):
    labels = np.column_stack([1 - pool.y, pool.y]).astype(float)
    covered = np.ones(300, bool)
    noise = study.Pool("noise", 2, pool.votes, pool.y, np.random.default_rng(1).normal(size=(300, 200)))
    p = study.end_model(noise, labels, covered, None)
    assert np.mean(p.argmax(axis=1) == pool.y) < 0.65


def test_the_page_names_datasets_that_lose(study):
    row = {method: [0.8, 0.7, 0.4] for method in study.METHODS}
    worse = {**row, "both": [0.7, 0.7, 0.4]}
    text = "\n".join(study.table({"good": row, "bad": worse}))
    assert "bad (10.0)" in text
    assert "good (" not in text
