"""Suggested items: the loop of suggesting, labeling and fitting, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, VotesError


def wrong_panel(n, seed):
    """Two groups of sources: a large one that is worse than it looks, and a small accurate one."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    shared = np.where(rng.random(n) < 0.65, y, 1 - y)
    crowd = np.where(rng.random((n, 3)) < 0.85, shared[:, None], 1 - shared[:, None])
    good = np.where(rng.random((n, 2)) < 0.9, y[:, None], 1 - y[:, None])
    votes = np.hstack([crowd, good])
    votes[rng.random(votes.shape) < 0.3] = -1
    return votes, y


def label_in_batches(votes, y, choose, n_batches=3):
    gold = np.full(len(y), -1)
    model = fs.LabelModel().fit(votes)
    for _ in range(n_batches):
        at = choose(model, gold)
        assert (gold[at] == -1).all()
        gold[at] = y[at]
        model = fs.LabelModel().fit(votes, gold=gold)
    return model, gold


@pytest.mark.slow
def test_the_loop_beats_random_labels():
    """Suggest, label, fit again: measured on other items."""
    gains = []
    for seed in range(4):
        votes, y = wrong_panel(1_000, seed)
        others, truth = wrong_panel(4_000, 100 + seed)
        rng = np.random.default_rng(seed)

        def suggested(model, gold, votes=votes, rng=rng):
            return fs.suggest_items(model, votes, 10, labeled=gold, random_state=rng).positions

        def drawn(_, gold, rng=rng):
            return rng.choice(np.flatnonzero(gold < 0), 10, replace=False)

        scores = [label_in_batches(votes, y, each)[0].score(others, truth) for each in (suggested, drawn)]
        assert scores[0] > fs.LabelModel().fit(votes).score(others, truth)
        gains.append(scores[0] - scores[1])
    assert np.mean(gains) > 0


def test_a_fit_with_suggested_labels_is_calibrated():
    """Labels of suggested items are not a random sample, and probabilities stay right."""
    votes, y = wrong_panel(3_000, 9)
    others, truth = wrong_panel(20_000, 10)

    def suggested(model, gold):
        return fs.suggest_items(model, votes, 50, labeled=gold, random_state=0).positions

    model, gold = label_in_batches(votes, y, suggested, n_batches=4)
    chosen = gold >= 0
    assert abs(y[chosen].mean() - y.mean()) > 0.05  # these labels alone would give a wrong class balance
    assert model.predict_proba(others)[:, 1].mean() == pytest.approx(truth.mean(), abs=0.04)


def test_rates_of_suggested_labels_raise_a_concern():
    votes, y = wrong_panel(3_000, 9)
    model = fs.LabelModel().fit(votes)
    at = fs.suggest_items(model, votes, 200, random_state=0).positions
    gold = np.full(len(y), -1)
    gold[at] = y[at]
    assert "random sample" in " ".join(fs.estimate_rate(model, votes, gold).concerns)


def test_items_have_identifiers_and_reasons():
    codes, _ = wrong_panel(60, 0)
    items, sources = np.nonzero(codes >= 0)
    names = [f"item {i}" for i in items]
    votes = fs.Votes.from_long(names, [f"source {j}" for j in sources], codes[items, sources])
    model = fs.LabelModel().fit(votes)
    found = fs.suggest_items(model, votes, 5, labeled={"item 3": 1}, random_state=0)
    assert len(found) == len(set(found.ids)) == 5
    assert "item 3" not in found.ids
    for each in found:
        assert each.id == votes.items[each.item]
        assert each.reason
        assert (each.score is None) == ("random" in each.reason)
    values = json.loads(json.dumps(found.to_dict()))
    assert [each["item"] for each in values["suggestions"]] == found.positions.tolist()
    assert str(found).splitlines()[0].split()[:2] == ["item", "id"]


def test_the_same_seed_suggests_the_same_items(model, sample):
    both = [fs.suggest_items(model, sample.votes, 30, random_state=3).positions for _ in range(2)]
    np.testing.assert_array_equal(*both)


def test_the_order_of_items_does_not_matter_for_the_votes_that_are_chosen(model, sample):
    """Without random draws, which the first 20 labels share with suggestions."""
    gold = np.full(3_000, -1)
    gold[:30] = sample.y[:30]
    order = np.random.default_rng(0).permutation(3_000)
    rows = []
    for at in (np.arange(3_000), order):
        found = fs.suggest_items(model, sample.votes[at], 10, labeled=gold[at], random_state=0)
        rows.append(sorted(map(tuple, sample.votes.codes[at][found.positions].tolist())))
    assert rows[0] == rows[1]


def test_few_items_are_all_suggested():
    votes, _ = wrong_panel(12, 0)
    model = fs.LabelModel().fit(votes)
    gold = [0] * 9 + [None] * 3
    assert sorted(fs.suggest_items(model, votes, 100, labeled=gold).positions.tolist()) == [9, 10, 11]
    assert len(fs.suggest_items(model, votes, 1, labeled=[0] * 12)) == 0


def test_more_items_than_are_compared(monkeypatch):
    monkeypatch.setattr("flyingsquid.analysis.suggestions._MOST_ITEMS", 40)
    monkeypatch.setattr("flyingsquid.analysis.suggestions._MOST_PATTERNS", 5)
    votes, _ = wrong_panel(400, 0)
    found = fs.suggest_items(fs.LabelModel().fit(votes), votes, 60, random_state=0)
    assert len(set(found.positions.tolist())) == 60


@pytest.mark.parametrize("method", ["triplet", "weighted", "em"])
def test_every_method(sample, method):
    model = fs.LabelModel(method=method).fit(sample.votes)
    assert len(fs.suggest_items(model, sample.votes, 7, random_state=0)) == 7


def test_majority_vote_streams_and_sparse_votes(sample):
    codes = np.asarray(sample.votes.codes)
    items, sources = np.nonzero(codes >= 0)
    sparse = fs.Votes.from_long(items, sources, codes[items, sources])
    online = fs.OnlineLabelModel(window=1_000).partial_fit(sample.votes)
    for model, votes in (
        (fs.MajorityVote().fit(sample.votes), sample.votes),
        (online, sample.votes),
        (fs.LabelModel().fit(sparse), sparse),
    ):
        assert len(fs.suggest_items(model, votes, 9, random_state=0)) == 9


def test_bad_input(model, sample):
    for n in (0, 1_001, 2.5, "10", True):
        with pytest.raises(OptionError) as raised:
            fs.suggest_items(model, sample.votes, n)
        assert raised.value.parameter == "n"
    with pytest.raises(OptionError, match="model"):
        fs.suggest_items(None, sample.votes, 5)
    with pytest.raises(OptionError, match="model"):
        fs.suggest_items(fs.LabelModel(), sample.votes, 5)
    with pytest.raises(VotesError, match="labeled"):
        fs.suggest_items(model, sample.votes, 5, labeled=[1, 0])
    with pytest.raises(VotesError, match="labeled"):
        fs.suggest_items(model, sample.votes, 5, labeled={"a": 1})


def test_sequences_and_clips_are_refused(sample):
    sequence = fs.SequenceLabelModel().fit(sample.votes)
    clips = np.asarray(sample.votes.codes).reshape(1_500, 2, 5)
    chain = fs.LabelModel(fs.DependencyGraph.chain(2, 5)).fit(clips)
    for model, votes in ((sequence, sample.votes), (chain, clips)):
        with pytest.raises(OptionError, match="model"):
            fs.suggest_items(model, votes, 5)


def test_a_tie_has_no_majority():
    votes = fs.Votes.from_classes([[0, 1, -1], [-1, -1, -1], [1, 1, 0], [0, 0, 0]] * 10)
    suggested = fs.suggest_items(fs.MajorityVote().fit(votes), votes, 40, random_state=0)
    assert {each.item % 4: each.majority for each in suggested} == {0: None, 1: None, 2: 1, 3: 0}
