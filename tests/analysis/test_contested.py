"""Rows to look at, kinds of disagreement, the comparison with majority vote, and calibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, log_loss

import flyingsquid as fs
from flyingsquid.analysis import (
    calibration,
    compare_with_majority,
    contested_rows,
    disagreement_buckets,
)
from flyingsquid.analysis.calibration import calibrate
from flyingsquid.exceptions import OptionError, VotesError


@pytest.fixture(scope="module")
def sample():
    return fs.datasets.simulate(3_000, [0.95, 0.6, 0.6, 0.6, 0.6], coverage=0.9, random_state=0)


@pytest.fixture(scope="module")
def model(sample):
    return fs.LabelModel().fit(sample.votes)


def by_hand(model, votes):
    """Score of every item, from the definition."""
    p = model.predict_proba(votes)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(p.shape[1])
    counts = np.stack([(votes.codes == k).sum(axis=1) for k in range(p.shape[1])], axis=1)
    total = counts.sum(axis=1)
    return entropy * np.minimum(2 * (total - counts.max(axis=1)), total)


def test_the_score_is_as_stated_and_the_highest_come_first(model, sample):
    found = contested_rows(model, sample.votes, y=sample.y, n=8)
    score = by_hand(model, sample.votes)
    assert [row.score for row in found.unsure] == pytest.approx(
        sorted(set(score.round(12)), reverse=True)[:8], abs=1e-9
    )
    for row in found.unsure:
        assert score[row.row] == pytest.approx(row.score)
        same = (sample.votes.codes == sample.votes.codes[row.row]).all(axis=1)
        assert row.items == same.sum()
        assert row.row == np.flatnonzero(same)[0]
        assert row.gold == sample.y[row.row]


def test_overruled_rows_differ_from_the_majority(model, sample):
    found = contested_rows(model, sample.votes, n=1_000)
    majority = fs.MajorityVote().fit(sample.votes).predict(sample.votes, tie_break="abstain")
    differ = (model.predict(sample.votes) != majority) & (majority != -1)
    assert found.n_overruled == differ.sum() == sum(row.items for row in found.overruled)
    assert all(row.differs and row.gold is None for row in found.overruled)


def test_nothing_contested():
    votes = np.zeros((50, 4), int)
    votes[::2] = 1
    found = contested_rows(fs.LabelModel(method="weighted").fit(votes), votes)
    assert found.unsure == ()
    assert found.overruled == ()
    assert found.n_overruled == 0
    assert len(found.table()) == 0


def test_rows_of_sparse_votes_and_many_classes():
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(300), 4)
    workers = rng.integers(0, 30, 1_200)
    labels = np.where(rng.random(1_200) < 0.6, items % 3, rng.integers(0, 3, 1_200))
    votes = fs.Votes.from_long(items, workers, labels, duplicates="first")
    model = fs.LabelModel().fit(votes)
    found = contested_rows(model, votes, n=5)
    dense = contested_rows(model, votes.to_dense(), n=5)
    assert [r.row for r in found.unsure] == [r.row for r in dense.unsure]
    assert len(found.unsure[0].votes) == 3


def test_several_tasks_are_looked_at_one_by_one():
    graph = fs.DependencyGraph.chain(2, 3)
    clips = fs.datasets.simulate_graph(500, graph, 0.75, random_state=0)
    model = fs.LabelModel(graph).fit(clips.votes)
    with pytest.raises(OptionError, match="2 tasks"):
        contested_rows(model, clips.votes)
    with pytest.raises(OptionError, match="task=2"):
        contested_rows(model, clips.votes, task=2)
    found = compare_with_majority(model, clips.votes, clips.y, task=1)
    expected = np.mean(model.predict(clips.votes)[:, 1] == clips.y[:, 1])
    assert found.model.accuracy == pytest.approx(expected, abs=0.01)


def test_buckets_hold_every_item_once(model, sample):
    table = disagreement_buckets(sample.votes, sample.y, model=model).to_dict()
    assert sum(table["items"]) == sample.votes.n_items
    assert sum(table["share"]) == pytest.approx(1)
    right = sum(a * k for a, k in zip(table["accuracy"], table["known"], strict=True))
    assert right / 3_000 == pytest.approx(model.score(sample.votes, sample.y))


def test_a_bucket_for_each_kind():
    rows = [[0, 0, 0, 0, 0], [0] * 4 + [1], [0, 0, 0, 1, 1], [0, 0, 1, 1, -1], [1, -1, -1, -1, -1], [-1] * 5]
    table = disagreement_buckets(rows, y=[0, 0, 1, 1, 1, 0]).to_dict()
    assert table["items"] == [1] * 6
    assert [name.split(":")[0] for name in table["bucket"]] == [
        "no vote", "a single vote", "unanimous", "nearly unanimous", "split", "contested",
    ]  # fmt: skip
    assert table["majority_accuracy"] == [0.5, 1, 1, 1, 0, 0.5]


def test_comparison_scores_are_those_of_scikit_learn(model, sample):
    p = model.predict_proba(sample.votes)
    scores = compare_with_majority(model, sample.votes, sample.y).model
    assert scores.accuracy == pytest.approx(model.score(sample.votes, sample.y))
    assert scores.f1 == pytest.approx(f1_score(sample.y, p.argmax(axis=1)))
    assert scores.log_loss == pytest.approx(log_loss(sample.y, p))


def test_comparison_with_majority(model, sample):
    found = compare_with_majority(model, sample.votes, sample.y)
    assert found.gain == pytest.approx(found.model.accuracy - found.majority.accuracy)
    assert found.gain_interval[0] > 0
    assert "better" in found.sentence()
    without = compare_with_majority(model, sample.votes)
    assert without.model is None
    assert without.differ == found.differ
    assert "takes known labels" in without.sentence()
    itself = compare_with_majority(fs.MajorityVote().fit(sample.votes), sample.votes, sample.y)
    assert itself.differ == 0
    assert itself.gain == 0
    assert "not clearly different" in itself.sentence()
    assert "majority vote" in str(found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_calibration_counts_every_item(pairs, bins):
    p, happened = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    found = calibrate(p, happened, "event", bins=bins)
    assert found.counts.sum() == len(p)
    known = found.counts > 0
    assert np.sum(found.observed[known] * found.counts[known]) == pytest.approx(happened.sum())
    assert np.sum(found.probability[known] * found.counts[known]) == pytest.approx(p.sum())
    assert (found.low[known] <= found.observed[known] + 1e-9).all()
    assert (found.high[known] >= found.observed[known] - 1e-9).all()
    assert 0 <= found.error <= 1


def test_calibration_of_many_classes_is_of_the_label():
    sample = fs.datasets.simulate_graph(2_000, fs.DependencyGraph(5), 0.7, n_classes=3, random_state=0)
    model = fs.LabelModel().fit(sample.votes)
    found = calibration(model, sample.votes, sample.y)
    assert found.event == "P(label is right)"
    assert found.counts.sum() == 2_000


def test_bad_inputs_are_named(model, sample):
    with pytest.raises(OptionError, match="n=-1"):
        contested_rows(model, sample.votes, n=-1)
    with pytest.raises(VotesError, match="no known class"):
        compare_with_majority(model, sample.votes, [None] * 3_000)
    with pytest.raises(OptionError, match="known labels"):
        calibration(model, sample.votes, None)
    with pytest.raises(OptionError, match="bins=0"):
        calibration(model, sample.votes, sample.y, bins=0)
