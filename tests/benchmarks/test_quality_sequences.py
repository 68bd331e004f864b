"""The table of real sequences: spans by hand, refusals, its page, and a run on real votes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.harness import saved_halves
from benchmarks.quality import sequences as table

FOLDER = os.environ.get("FLYINGSQUID_DATA")


def test_spans_by_hand():
    labels, lengths = np.array([1, 1, 0, 1, 1, 1, 0, 1], np.int8), np.array([4, 4])
    assert table.spans(labels, lengths) == {(0, 1, 1), (3, 3, 1), (4, 5, 1), (7, 7, 1)}
    begins = np.array([1, 1, 0, 1, 1, 0, 0, 1], bool)
    expected = {(0, 0, 1), (1, 1, 1), (3, 3, 1), (4, 5, 1), (7, 7, 1)}
    assert table.spans(labels, lengths, begins) == expected
    two = np.array([1, 2, 2, 0], np.int8)
    assert table.spans(two, np.array([4])) == {(0, 0, 1), (1, 2, 2)}
    assert table.spans(np.zeros(3, np.int8), np.array([3])) == set()


def test_scores_by_hand():
    """Two gold spans of three rows; one found whole, one by half: 2 of 3 rows found, 3 true."""
    y, answer = np.array([1, 1, 0, 1], np.int8), np.array([1, 0, 0, 1], np.int8)
    test = table.Split(np.zeros((4, 1), np.int8), y, np.array([4]), np.array([1, 0, 0, 1], bool))
    p = np.array([0.9, 0.4, 0.1, 0.8])
    scores = table.scores(answer, np.stack([1 - p, p], axis=1), test)
    assert scores["accuracy"] == 0.75
    assert scores["f1"] == pytest.approx(2 * 2 / (2 + 3))
    assert scores["span_f1"] == pytest.approx(2 * 1 / (2 + 2))
    assert scores["log_loss"] == pytest.approx(-np.log([0.9, 0.4, 0.9, 0.8]).mean())


def test_ties_are_shared_by_hand():
    """A tie between the two rows of one span: the span is found whole half of the time."""
    y = np.array([1, 1, 0], np.int8)
    test = table.Split(np.zeros((3, 1), np.int8), y, np.array([3]), np.array([1, 0, 0], bool))
    p = np.array([0.9, 0.5, 0.1])
    for label in (0, 1):  # the label of a tie does not matter
        scores = table.scores(np.array([1, label, 0]), np.stack([1 - p, p], axis=1), test)
        assert scores["accuracy"] == pytest.approx(2.5 / 3)
        assert scores["f1"] == pytest.approx(2 * 1.5 / (1.5 + 2))
        assert scores["span_f1"] == pytest.approx(2 * 0.5 / (1 + 1))


def test_spans_of_labels_without_ties_are_counted():
    rng = np.random.default_rng(1)
    y, labels = rng.integers(0, 3, (2, 300))
    lengths, begins = np.array([100, 50, 150]), rng.random(300) < 0.3
    gold = table.spans(y, lengths, begins)
    found = table.spans(labels, lengths)
    expected = table.f1(len(found), len(found & gold), len(gold))
    test = table.Split(np.zeros((300, 1), np.int8), y, lengths, begins)
    assert table.span_f1(np.eye(3)[labels], test) == pytest.approx(expected)


def made(rng: np.random.Generator, m: int = 4) -> table.Split:
    sample = fs.datasets.simulate_sequence(
        2_000, [0.9, 0.85, 0.8, 0.8][:m], lengths=[1_500, 500], random_state=rng
    )
    return table.Split(np.asarray(sample.votes.codes), sample.y, sample.lengths, None)


def test_a_set_is_scored_or_refused_and_rendered():
    rng = np.random.default_rng(0)
    good = table.SequenceSet("made", "design", "blanks abstain", made(rng), made(rng))
    two = table.SequenceSet("two", "design", "blanks abstain", made(rng, 2), made(rng, 2))  # default only
    results = {s.name: table.measure(s) for s in (good, two)}
    rows, chain = (results["made"][name] for name in ("`LabelModel`", "`SequenceLabelModel`"))
    assert chain["accuracy"] > rows["accuracy"]
    page = table.render({"design": {"ties": "shared", "scores": results}})
    assert "| refused |" in page
    differences = page.partition("## Difference")[2]
    assert re.search(r"^\| default \| \+\d", differences, re.MULTILINE)
    assert re.search(r"^\| covariance \|.*\| refused \|$", differences, re.MULTILINE)


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"tennis/tennis\.npz"):
        table.load(tmp_path, "tennis", "design")


def test_the_page_is_made_of_the_results():
    assert table.PAGE.read_text("utf-8") == table.render(saved_halves(table.NAMES))


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_real_tokens_are_labeled():
    """Of the frozen half: only that labels come out and are probabilities, or that the refusal says why."""
    tokens = table.load(Path(str(FOLDER)), "seq_laptopreview", "frozen", blanks_vote="everywhere")
    assert tokens.train.lengths.sum() == len(tokens.train.votes)
    model = fs.SequenceLabelModel(class_balance=[0.93, 0.07]).fit(tokens.train.votes, tokens.train.lengths)
    posterior = model.predict_proba(tokens.test.votes, tokens.test.lengths)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert set(model.predict(tokens.test.votes, tokens.test.lengths)) <= {0, 1}
    assert 0 <= model.score(tokens.test.votes, tokens.test.y, tokens.test.lengths) <= 1
    blank = table.load(Path(str(FOLDER)), "seq_laptopreview", "frozen")
    with pytest.raises(fs.exceptions.NotIdentifiableError, match="both classes"):
        fs.SequenceLabelModel(method="triplet").fit(
            fs.Votes.from_classes(blank.train.votes, classes=[0, 1]), blank.train.lengths
        )


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
@pytest.mark.parametrize("name", ["tennis", "basketball"])
@pytest.mark.parametrize("method", ["auto", "covariance"])
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_real_frames_are_labeled(name, method):
    frames = table.load(Path(str(FOLDER)), name, "design")
    model = fs.SequenceLabelModel(method=method, temper="auto").fit(frames.train.votes)
    posterior = model.predict_proba(frames.test.votes)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert 0 < model.temper_ <= 1
    assert np.isfinite(model.log_likelihood(frames.test.votes)).all()
