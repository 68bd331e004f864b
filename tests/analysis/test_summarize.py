"""Summaries of votes: hand-worked counts, laws, sparse votes, many classes, several tasks, bad inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.analysis.summarize import GoldTally, count_overlaps
from flyingsquid.exceptions import FlyingSquidError, OptionError, VotesError
from tests.support.strategies import examples

matrices = st.integers(1, 30).flatmap(
    lambda n: st.integers(2, 6).flatmap(
        lambda m: st.lists(st.lists(st.integers(-4, 2), min_size=m, max_size=m), min_size=n, max_size=n)
    )
)


def votes_of(rows):
    return fs.Votes(np.array(rows, np.int8), (0, 1, 2))


def sparse(votes):
    dense = votes.codes
    stored = np.where(dense >= 0, dense + 1, np.where(dense == -1, 0, dense)).astype(np.int8)
    return fs.Votes(csr_array(stored), votes.classes, votes.names)


def test_a_hand_worked_example():
    votes = fs.Votes.from_classes(
        [[1, 1, -1, -1], [0, 1, -1, -1], [0, 0, 0, -1], [1, -1, -1, -1]], names=["a", "b", "c", "d"]
    )
    table = fs.summarize(votes, y=[1, 0, 1, -1]).to_dict()
    assert table["j"] == [0, 1, 2, 3]
    assert table["polarity"] == ["0, 1", "0, 1", "0", ""]
    assert table["coverage"] == [1, 0.75, 0.25, 0]
    assert table["overlaps"] == [0.75, 0.75, 0.25, 0]
    assert table["conflicts"] == [0.25, 0.25, 0, 0]
    assert table["correct"] == [2, 1, 0, 0]
    assert table["incorrect"] == [1, 2, 1, 0]
    assert table["precision"] == [2 / 3, 1 / 3, 0, None]
    assert table["flags"][2:] == ["one-sided", "silent"]
    assert "accuracy" not in table
    assert "refused" not in table


@examples(60)
@given(matrices)
def test_overlaps_and_conflicts_equal_their_definition(rows):
    votes = votes_of(rows)
    codes = votes.codes
    voted = codes >= 0
    overlaps, conflicts = count_overlaps(votes)
    for j in range(votes.n_sources):
        others = np.delete(np.arange(votes.n_sources), j)
        together = voted[:, j] & voted[:, others].any(axis=1)
        against = voted[:, j] & ((codes[:, others] != codes[:, [j]]) & voted[:, others]).any(axis=1)
        assert overlaps[j] == together.sum()
        assert conflicts[j] == against.sum()


@examples(40)
@given(matrices, st.randoms())
def test_sparse_votes_have_the_same_summary(rows, random):
    votes = votes_of(rows)
    y = [random.choice([-1, 0, 1, 2]) for _ in rows]
    y[0] = 0
    assert fs.summarize(sparse(votes), y).to_dict() == fs.summarize(votes, y).to_dict()


def test_gold_labels_may_be_unknown_in_every_way():
    votes = fs.Votes.from_classes([["a", "b"], ["a", "a"], ["b", "b"], ["a", "b"]])
    table = fs.summarize(votes, y=["a", None, "b", np.nan]).to_dict()
    assert (table["correct"], table["incorrect"]) == ([2, 1], [0, 1])
    masked = np.ma.masked_array([0, 0, 1, 1], mask=[0, 1, 0, 1])
    codes = fs.Votes.from_classes([[0, 1], [0, 0], [1, 1], [0, 1]])
    assert fs.summarize(codes, y=masked).to_dict()["correct"] == [2, 1]


def test_missing_votes_are_counted_by_reason():
    raw = [["yes", "declined"], ["no", "??"], ["yes", "declined"]]
    votes = fs.Votes.from_classes(raw, reasons={"declined": "refused", "??": "unparseable"})
    table = fs.summarize(votes).to_dict()
    assert table["refused"] == [0, 2]
    assert table["unparseable"] == [0, 1]
    assert "failed" not in table


def test_a_model_adds_its_estimates_and_flags():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(4_000, [0.9, 0.8, 0.75, 0.7, 0.3], random_state=rng)
    model = fs.LabelModel().fit(sample.votes)
    table = fs.summarize(sample.votes, model=model).to_dict()
    assert table["accuracy"] == model.accuracies_.tolist()
    assert table["accuracy_low"] == model.accuracies_interval_[:, 0].tolist()
    assert "worse than chance" in table["flags"][4]
    assert not table["flags"][0]
    # Gold labels decide which sources are worse than chance.
    flags = fs.summarize(sample.votes, sample.y, model=model).to_dict()["flags"]
    assert flags == ["", "", "", "", "worse than chance on gold labels"]


def test_the_summary_of_a_model_and_of_votes_agree():
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], coverage=0.6, random_state=1)
    model = fs.LabelModel().fit(sample.votes)
    ours, own = fs.summarize(sample.votes, model=model).to_dict(), model.summary().to_dict()
    assert all(ours[column] == own[column] for column in set(ours) & set(own))
    assert {"coverage", "polarity", "votes", "accuracy", "accuracy_low"} <= set(ours) & set(own)


def test_copies_are_flagged_without_a_model():
    sample = fs.datasets.simulate(3_000, [0.8, 0.75, 0.7, 0.65], random_state=0)
    codes = np.column_stack([sample.votes.codes, sample.votes.codes[:, 3]])
    votes = fs.Votes(codes, sample.votes.classes, ("a", "b", "c", "d", "e"))
    assert fs.summarize(votes).to_dict()["flags"] == ["", "", "", "", "near copy of d"]


def test_sources_of_several_tasks_overlap_within_their_task():
    graph = fs.DependencyGraph.chain(2, 3)
    clips = fs.datasets.simulate_graph(2_000, graph, 0.8, coverage=0.7, random_state=0)
    model = fs.LabelModel(graph).fit(clips.votes)
    table = fs.summarize(clips.votes, clips.y, model=model).to_dict()
    for task in range(2):
        part = clips.votes.of_sources([3 * task, 3 * task + 1, 3 * task + 2])
        alone = fs.summarize(part, clips.y[:, task]).to_dict()
        for column in ("overlaps", "conflicts", "correct", "incorrect"):
            assert table[column][3 * task : 3 * task + 3] == alone[column]


@pytest.mark.parametrize("kind", [fs.MajorityVote, fs.SequenceLabelModel])
def test_other_models(kind):
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7, 0.7], random_state=2)
    model = kind().fit(sample.votes)
    table = fs.summarize(sample.votes, sample.y, model=model).to_dict()
    assert ("accuracy" in table) == (kind is fs.SequenceLabelModel)
    assert table["precision"][0] > 0.8


def test_tables_go_to_json_and_pandas():
    pandas = pytest.importorskip("pandas")
    table = fs.summarize([[0, 1], [1, 1], [0, 0]], y=[0, 1, 1])
    assert json.loads(json.dumps(table.to_dict())) == table.to_dict()
    assert isinstance(table.to_pandas(), pandas.DataFrame)


def test_a_source_that_mostly_votes_for_one_class_is_no_adversary():
    """It is wrong on most items of the frequent class, and still leans to the truth."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.3).astype(int)
    votes = np.where(rng.random(20_000) < np.where(y == 1, 0.95, 0.85), 1, 0)[:, None]
    tally = GoldTally.of(fs.Votes.from_classes(votes), y)
    assert tally.precision[0] < 0.45
    assert not tally.worse_than_chance[0]
    flipped = GoldTally.of(fs.Votes.from_classes(1 - votes), y)
    assert flipped.worse_than_chance[0]


def test_chance_is_seldom_called_worse_than_chance():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2_000)
    votes = fs.Votes.from_classes(rng.choice(3, (2_000, 400), p=[0.6, 0.3, 0.1]))
    assert GoldTally.of(votes, y).worse_than_chance.mean() < 0.06


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
def test_a_source_of_one_class_is_judged_by_how_frequent_that_class_is():
    y = np.array([1] * 100 + [0] * 900)
    votes = np.full((1_000, 2), -1)
    votes[:60, 0] = votes[100:200, 0] = 1  # 60 of 160 right: four times the rate
    votes[:2, 1] = votes[100:300, 1] = 1  # 2 of 202: a tenth of it
    assert GoldTally.of(fs.Votes.from_classes(votes), y).worse_than_chance.tolist() == [False, True]


def test_bad_inputs_are_named():
    votes = [[0, 1], [1, 1]]
    with pytest.raises(VotesError, match="`y`"):
        fs.summarize(votes, y=[None, None])
    with pytest.raises(VotesError, match="`y`"):
        fs.summarize(votes, y=[0, 1, 1])
    with pytest.raises(FlyingSquidError, match="y"):
        fs.summarize(votes, y=[0, 7])
    with pytest.raises(OptionError, match="`model`"):
        fs.summarize(votes, model="majority")
    with pytest.raises(VotesError, match="votes"):
        fs.summarize(np.empty((0, 3), int))
