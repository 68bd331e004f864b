"""Items to look at, and kinds of disagreement."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import compare_with_majority, contested_items, disagreement_buckets
from flyingsquid.exceptions import OptionError


def by_hand(model, votes):
    """Score of every item, from the definition."""
    p = model.predict_proba(votes)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(p.shape[1])
    counts = np.stack([(votes.codes == k).sum(axis=1) for k in range(p.shape[1])], axis=1)
    total = counts.sum(axis=1)
    return entropy * np.minimum(2 * (total - counts.max(axis=1)), total)


def test_the_score_is_as_stated_and_the_highest_come_first(model, sample):
    found = contested_items(model, sample.votes, y=sample.y, n=8)
    score = by_hand(model, sample.votes)
    assert [row.score for row in found.uncertain] == pytest.approx(
        sorted(set(score.round(12)), reverse=True)[:8], abs=1e-9
    )
    for found_item in found.uncertain:
        at = found_item.item
        assert score[at] == pytest.approx(found_item.score)
        same = (sample.votes.codes == sample.votes.codes[at]).all(axis=1)
        assert found_item.count == same.sum()
        assert at == np.flatnonzero(same)[0]
        assert found_item.gold == sample.y[at]


def test_overruled_items_differ_from_the_majority(model, sample):
    found = contested_items(model, sample.votes, n=1_000)
    majority = fs.MajorityVote().fit(sample.votes).predict(sample.votes, tie_break="abstain")
    differ = (model.predict(sample.votes) != majority) & (majority != -1)
    assert found.n_overruled == differ.sum() == sum(item.count for item in found.overruled)
    assert all(item.label != item.majority and item.gold is None for item in found.overruled)


def test_no_items_are_contested():
    votes = np.zeros((50, 4), int)
    votes[::2] = 1
    found = contested_items(fs.LabelModel(method="weighted").fit(votes), votes)
    assert found.uncertain == ()
    assert found.overruled == ()
    assert found.n_overruled == 0
    assert len(found.table()) == 0


def test_sparse_votes_of_many_classes():
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(300), 4)
    workers = rng.integers(0, 30, 1_200)
    labels = np.where(rng.random(1_200) < 0.6, items % 3, rng.integers(0, 3, 1_200))
    votes = fs.Votes.from_long(items, workers, labels, duplicates="first")
    model = fs.LabelModel().fit(votes)
    found = contested_items(model, votes, n=5)
    dense = contested_items(model, votes.to_dense(), n=5)
    assert [i.item for i in found.uncertain] == [i.item for i in dense.uncertain]
    assert len(found.uncertain[0].votes) == 3


def test_several_tasks_are_looked_at_one_by_one():
    graph = fs.DependencyGraph.chain(2, 3)
    clips = fs.datasets.simulate_graph(500, graph, 0.75, random_state=0)
    model = fs.LabelModel(graph).fit(clips.votes)
    with pytest.raises(OptionError, match="`task`"):
        contested_items(model, clips.votes)
    with pytest.raises(OptionError, match="`task`"):
        contested_items(model, clips.votes, task=2)
    found = compare_with_majority(model, clips.votes, clips.y, task=1)
    expected = np.mean(model.predict(clips.votes)[:, 1] == clips.y[:, 1])
    assert found.model.accuracy == pytest.approx(expected, abs=0.01)


def test_buckets_hold_every_item_once(model, sample):
    table = disagreement_buckets(sample.votes, sample.y, model=model).to_dict()
    assert sum(table["items"]) == sample.votes.n_items
    assert sum(table["share"]) == pytest.approx(1)
    right = sum(a * k for a, k in zip(table["accuracy"], table["gold"], strict=True))
    assert right / 3_000 == pytest.approx(model.score(sample.votes, sample.y))


def test_a_bucket_for_each_kind():
    rows = [[0, 0, 0, 0, 0], [0] * 4 + [1], [0, 0, 0, 1, 1], [0, 0, 1, 1, -1], [1, -1, -1, -1, -1], [-1] * 5]
    table = disagreement_buckets(rows, y=[0, 0, 1, 1, 1, 0]).to_dict()
    assert table["items"] == [1] * 6
    assert [name.split(":")[0] for name in table["bucket"]] == [
        "no vote", "a single vote", "unanimous", "nearly unanimous", "split", "contested",
    ]  # fmt: skip
    assert table["majority_accuracy"] == [0.5, 1, 1, 1, 0, 0.5]


def test_bad_inputs_are_named(model, sample):
    with pytest.raises(OptionError, match="`n`"):
        contested_items(model, sample.votes, n=-1)


def test_items_are_grouped_by_gold_label_and_vote():
    """As get_label_buckets of Snorkel does, with None for no label."""
    votes = fs.Votes.from_classes([["spam", "ham"], [None, "ham"], ["ham", "ham"]], names=["a", "b"])
    y = ["spam", "spam", None]
    found = fs.analysis.label_buckets(y, votes[:, ["a"]])
    expected = {("spam", "spam"): [0], ("spam", None): [1], (None, "ham"): [2]}
    assert {key: rows.tolist() for key, rows in found.items()} == expected
    signed = fs.analysis.label_buckets(np.array([-1, 1, -1]), np.array([1.0, np.nan, 1.0]))
    assert {key: rows.tolist() for key, rows in signed.items()} == {(-1, 1): [0, 2], (1, None): [1]}
    assert fs.analysis.label_buckets(np.ma.masked_equal([0, 1], 1)).keys() == {(0,), (None,)}


@pytest.mark.parametrize(
    "labels",
    [(), ([0, 1], [0]), ([[0, 1]],), (fs.Votes.from_classes([[0, 1], [1, 1]]),)],
)
def test_labels_that_are_not_one_column_each_are_refused(labels):
    with pytest.raises(fs.FlyingSquidError, match="`labels"):
        fs.analysis.label_buckets(*labels)
