"""Findings about sources: on simulated votes, and on real judges compared with gold labels."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import flyingsquid as fs
from flyingsquid.analysis import dependence_given_truth, findings
from flyingsquid.analysis.findings import describe
from flyingsquid.exceptions import VotesError

DATA = os.environ.get("FLYINGSQUID_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="FLYINGSQUID_DATA is not set")


def test_an_adversary_and_the_order_are_named():
    accuracies = [0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.3]
    sample = fs.datasets.simulate(20_000, accuracies, random_state=0)
    model = fs.LabelModel().fit(sample.votes)
    for y in (None, sample.y):
        found = findings(sample.votes, y, model=model)
        assert found.worse_than_chance == ("source 7",)
        assert found.strongest.names == ("source 0", "source 1")
        assert not found.strongest.similar
        assert found.weakest.names == ("source 7", "source 6")
        assert found.effective_sources == pytest.approx(8, abs=0.1)
        first, *others = describe(found)
        assert "8 sources on 20,000 items" in first.text
        (alert,) = (sentence.text for sentence in others if sentence.is_alert)
        assert "source 7" in alert
        assert found.basis == ("the model" if y is None else "gold labels")


def test_sources_with_a_few_votes_are_not_ranked():
    """Of workers with three votes some are always right; they do not show who is strongest."""
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(3_000, [0.9, 0.8, 0.7, 0.6] + [0.7] * 40, random_state=rng)
    codes = np.array(sample.votes.codes)
    for worker in range(4, 44):
        seen = rng.permutation(3_000)[:3]
        codes[np.setdiff1d(np.arange(3_000), seen), worker] = -1
    votes = fs.Votes.from_classes(codes)
    found = findings(votes, sample.y)
    assert found.strongest.names == ("source 0",)
    assert found.weakest.names == ("source 3",)
    assert found.n_unranked > 20
    assert f"{found.n_unranked} sources" in str(found)


def test_equal_sources_are_similar():
    sample = fs.datasets.simulate(1_000, [0.75] * 6, random_state=0)
    found = findings(sample.votes, sample.y)
    assert len(set(found.strongest.names) | set(found.strongest.similar)) >= 5
    assert not found.has_order
    assert found.strongest.names[0] in str(found)


def test_a_majority_below_chance_is_reported():
    sample = fs.datasets.simulate(1_000, [0.2, 0.25, 0.3, 0.9], random_state=0)
    model = fs.MajorityVote().fit(sample.votes)
    texts = [
        sentence.text
        for sentence in describe(findings(sample.votes, sample.y, model=model))
        if sentence.is_alert
    ]
    assert any("majority vote is less accurate" in text for text in texts)
    good = fs.datasets.simulate(1_000, [0.7, 0.75, 0.8], random_state=0)
    found = findings(good.votes, good.y, model=fs.MajorityVote().fit(good.votes))
    assert not found.comparison.is_majority_below_chance


def test_a_few_votes_call_nobody_worse_than_chance():
    votes = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    found = findings(votes, [0, 1, 1])
    assert found.worse_than_chance == ()


def test_dependent_sources_are_worth_less():
    graph = fs.DependencyGraph(8, source_edges=[(0, 1), (2, 3)])
    sample = fs.datasets.simulate_graph(10_000, graph, 0.75, random_state=0)
    found = findings(sample.votes, sample.y)
    assert {(p.first, p.second) for p in found.dependent} == {
        ("source 0", "source 1"),
        ("source 2", "source 3"),
    }
    assert found.n_pairs == 28
    assert 7 < found.effective_sources < 8
    blind = findings(sample.votes, model=fs.LabelModel("learn", method="covariance").fit(sample.votes))
    assert {(p.first, p.second) for p in blind.dependent[:2]} == {
        (p.first, p.second) for p in found.dependent
    }


def test_pairs_that_avoid_each_other_have_a_negative_sign():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(4_000, [0.8, 0.8, 0.75, 0.7, 0.7], random_state=rng)
    codes = np.array(sample.votes.codes)
    # Source 1 is right on half of the items that source 0 gets wrong, and wrong elsewhere.
    swap = rng.random(4_000) < 0.9
    errs = codes[:, 0] != sample.y
    codes[swap & errs, 1] = np.asarray(sample.y)[swap & errs]
    found = findings(codes, sample.y)
    assert [(p.first, p.second) for p in found.dependent] == [("source 0", "source 1")]
    assert found.dependent[0].correlation < -0.1
    assert f"({found.dependent[0].correlation:+.2f})" in str(found)


@pytest.mark.parametrize("balance", [0.5, 0.15])
def test_chance_is_that_of_random_votes(balance):
    """Coins of any bias have the accuracy of chance; the sign of the difference is that of the skill."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < balance).astype(int)
    coins = (rng.random((20_000, 3)) < [0.5, 0.2, 0.9]).astype(int)
    skilled = np.where(rng.random((20_000, 2)) < [0.8, 0.3], y[:, None], 1 - y[:, None])
    votes = fs.Votes.from_classes(np.column_stack([coins, skilled]))
    found = findings(votes, y)
    precision = np.array(fs.summarize(votes, y).to_dict()["precision"])
    np.testing.assert_allclose(precision[:3], found.chance[:3], atol=0.02)
    assert precision[3] > found.chance[3] + 0.1
    assert precision[4] < found.chance[4] - 0.1
    assert found.worse_than_chance == ("source 4",)
    assert len(found.near_chance) >= 2


def test_sources_that_were_not_compared_with_chance_are_not_mentioned():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    fires = rng.random((3_000, 5)) < np.where(y[:, None] == [0, 1, 0, 1, 0], 0.4, 0.1)
    votes = fs.Votes.from_classes(np.where(fires, [0, 1, 0, 1, 0], -1))
    found = findings(votes, model=fs.LabelModel().fit(votes))
    assert len(found.not_compared) == 5
    assert "chance" not in str(found)
    assert "chance" in str(findings(votes, y))


def test_problems_are_reported():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.8, 0.8, 0.75, 0.7], random_state=rng)
    raw = sample.votes.codes.astype(object)
    one_sided = np.where(raw[:, 0] == 1, 1, -1)
    refusing = np.where(rng.random(2_000) < 0.1, "no", raw[:, 1])
    silent = np.full(2_000, -1)
    table = np.column_stack([raw, raw[:, 3], one_sided, refusing, silent])
    votes = fs.Votes.from_classes(table, names=list("abcdefgh"), classes=[0, 1], reasons={"no": "refused"})
    found = findings(votes, sample.y)
    assert found.duplicates == (("b", "g"), ("d", "e"))
    assert found.silent == ("h",)
    assert found.one_sided == ("f",)
    (reason, count, source, times), *_ = found.missing
    assert (reason, source, count) == ("refused", "g", times)
    text = str(found)
    assert all(words in text for words in ("d and e", ": h.", ": f.", f"{count:,} votes refused"))


def test_without_a_model_and_gold_labels_only_counts_are_reported():
    found = findings([[0, 1], [1, 1], [-1, -1]])
    assert (found.split, found.uncovered, found.one_sided) == (1 / 3, 1 / 3, ("source 1",))
    assert len(found.sentences()) == 2
    assert found.sentences()[0].startswith("2 sources on 3 items with 1.3 votes per item")


def test_other_models_and_many_classes():
    sample = fs.datasets.simulate_graph(
        1_000, fs.DependencyGraph(4), [0.8, 0.7, 0.6, 0.6], n_classes=3, random_state=0
    )
    found = findings(sample.votes, sample.y, model=fs.LabelModel().fit(sample.votes))
    assert "4 sources" in found.sentences()[0]
    assert findings(sample.votes, model=fs.MajorityVote().fit(sample.votes)).basis == ""
    binary = fs.datasets.simulate(1_000, [0.8, 0.7, 0.6, 0.6], random_state=0)
    assert findings(binary.votes, model=fs.SequenceLabelModel().fit(binary.votes)).strongest is not None
    online = fs.OnlineLabelModel(window=500).partial_fit(binary.votes)
    assert findings(binary.votes, model=online).strongest is not None
    with pytest.raises(VotesError, match="`y`"):
        findings(sample.votes, [None] * 1_000)


@pytest.fixture(scope="module")
def judges():
    folder = Path(DATA or "") / "llm_civilcomments"
    names = json.loads((folder / "meta.json").read_text("utf-8"))["judges"]
    with np.load(folder / "llm_civilcomments.npz", allow_pickle=False) as data:
        votes, y = fs.Votes.from_classes(data["L"], names=names), data["Y"]
    right = [np.mean(column[column >= 0] == y[column >= 0]) for column in votes.codes.T]
    order = [names[j] for j in np.argsort(right)]
    return votes, y, fs.LabelModel().fit(votes), order


@needs_data
class TestJudges:
    """24 language models on 5,000 comments."""

    def test_with_gold_labels_all_findings_are_correct(self, judges):
        votes, y, model, order = judges
        found = findings(votes, y, model=model)
        assert set(found.weakest.names) == set(order[:5])
        assert set(found.strongest.names) == set(order[-5:])
        assert found.worse_than_chance == ()
        codes = votes.codes.astype(float)
        codes[codes < 0] = np.nan
        pairs = {}
        for i in range(24):
            for j in range(i):
                both = np.isfinite(codes[:, i] + codes[:, j])
                a, b, k = codes[both, i], codes[both, j], y[both]
                a, b = (v - np.array([v[k == c].mean() for c in (0, 1)])[k] for v in (a, b))
                pairs[votes.names[j], votes.names[i]] = np.corrcoef(a, b)[0, 1]
        expected = sorted(pairs, key=lambda pair: -pairs[pair])[:5]
        strongest = found.dependent[:5]
        assert [(p.first, p.second) for p in strongest] == expected
        assert [p.correlation for p in strongest] == pytest.approx([pairs[p] for p in expected])
        assert found.comparison.gain_interval[0] > 0
        assert all(name in str(found) for name in (*order[:5], *order[-5:]))

    def test_without_gold_labels_findings_are_close(self, judges):
        votes, y, model, order = judges
        found = findings(votes, model=model)
        assert found.worse_than_chance == ()
        assert len(set(found.weakest.names) & set(order[:5])) >= 4
        # Two of the five strongest; the other three do not differ significantly from the fifth.
        assert len(set(found.strongest.names) & set(order[-5:])) >= 2
        assert set(order[-5:]) <= {*found.strongest.names, *found.strongest.similar}
        given = dependence_given_truth(votes, y)
        guessed = dependence_given_truth(votes, posterior=model.predict_proba(votes))
        above = np.triu_indices(24, 1)
        assert spearmanr(given[above], guessed[above])[0] > 0.95
        most = set(np.argsort(-given[above])[:20]) & set(np.argsort(-guessed[above])[:20])
        assert len(most) >= 14
        # 6.2 by gold labels; the panel's own labels hide some of the dependence.
        assert 6 < found.effective_sources < 12
