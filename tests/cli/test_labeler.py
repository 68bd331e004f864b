"""Labels of parts, and their comparison with majority vote, are those of the whole file."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.analysis import compare_with_majority
from flyingsquid.cli.inputs import clip_length, clips
from flyingsquid.cli.label import Labeler
from tests.support.strategies import examples


def flat(comparison) -> list[float]:
    """All numbers of a comparison, those that are unknown as -1."""
    found: list[float] = []
    for value in astuple(comparison):
        found += list(value) if isinstance(value, tuple) else [-1 if value is None else value]
    return found


@pytest.fixture(scope="module")
def sample():
    return fs.datasets.simulate(6_000, [0.9, 0.8, 0.7, 0.6], coverage=0.7, random_state=0)


@examples(20)
@given(cuts=st.lists(st.integers(0, 6_000), max_size=5), known=st.sampled_from([0.0, 0.1, 1.0]))
def test_parts_add_up(sample, cuts, known):
    model = fs.LabelModel().fit(sample.votes)
    gold = np.where(np.random.default_rng(1).random(6_000) < known, sample.y, -1) if known else None
    labeler, parts = Labeler(model), []
    ends = [0, *sorted(cuts), 6_000]
    for start, stop in pairwise(ends):
        if stop > start:
            part = None if gold is None else gold[start:stop]
            parts.append(labeler.label(sample.votes[start:stop], part))
    codes = np.concatenate([part.codes for part in parts])
    np.testing.assert_array_equal(codes, model.predict(sample.votes))
    probabilities = np.concatenate([part.probabilities for part in parts])
    np.testing.assert_allclose(probabilities, model.predict_proba(sample.votes), atol=1e-14)
    np.testing.assert_array_equal(labeler.counts, [*np.bincount(codes, minlength=2), 0])
    whole = compare_with_majority(model, sample.votes, gold)
    assert flat(labeler.comparison.result()) == pytest.approx(flat(whole), rel=1e-9, abs=1e-12)


def test_sparse_votes_and_many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    codes = np.where(rng.random((900, 6)) < 0.7, y[:, None], rng.integers(0, 3, (900, 6)))
    rows, columns = np.nonzero(rng.random((900, 6)) < 0.6)
    votes = fs.Votes.from_long(rows, [f"w{j}" for j in columns], codes[rows, columns])
    model = fs.LabelModel().fit(votes)
    labeled = Labeler(model).label(votes)
    np.testing.assert_array_equal(np.asarray(votes.classes)[labeled.codes], model.predict(votes))
    np.testing.assert_array_equal(labeled.n_votes, (votes.to_dense().codes >= 0).sum(axis=1))


@pytest.mark.parametrize("tie_break", ["first", "abstain", "random"])
def test_ties(sample, tie_break):
    model = fs.MajorityVote().fit(sample.votes)
    rng = np.random.default_rng(0)
    labeled = Labeler(model, tie_break=tie_break, rng=rng).label(sample.votes)
    wanted = model.predict(sample.votes, tie_break, np.random.default_rng(0))
    if tie_break == "random":  # drawn for each item, not for each pattern of votes
        tied = np.isclose(labeled.probabilities[:, 0], 0.5)
        assert 0.4 < labeled.codes[tied].mean() < 0.6
    np.testing.assert_array_equal(labeled.codes, wanted)


@given(st.integers(1, 30), st.integers(2, 7), st.integers(1, 4))
def test_clips_hold_every_row(n, length, s):
    codes = np.random.default_rng(n).integers(-1, 2, (n, s)).astype(np.int8)
    votes = fs.Votes(codes, (0, 1), None)
    filled = clips(votes, length)
    np.testing.assert_array_equal(np.asarray(filled.codes).reshape(-1, s)[:n], codes)
    assert (np.asarray(filled.codes).reshape(-1, s)[n:] == -1).all()
    assert filled.n_items == -(-n // length)
    if n >= length:
        assert clips(votes, length, complete_only=True).n_items == n // length


def test_clip_length():
    assert clip_length(None) == clip_length(fs.MajorityVote().fit([[0, 1], [1, 1]])) == 1
    graph = fs.DependencyGraph.chain(3, 3)
    clip = fs.datasets.simulate_graph(500, graph, 0.8, random_state=0)
    assert clip_length(fs.LabelModel(graph).fit(clip.votes)) == 3


def test_sources_that_are_not_mentioned_do_not_vote():
    votes = fs.Votes.from_long(["a", "a", "b"], ["ann", "bob", "bob"], [1, 0, 1])
    wider = votes.with_all_sources(("bob", "cem", "ann"))
    np.testing.assert_array_equal(wider.to_dense().codes, [[0, -1, 1], [1, -1, -1]])
    assert votes.with_all_sources(("bob", "cem")) is votes
    assert votes.to_dense().with_all_sources(("bob", "cem", "ann")).names == ("ann", "bob")
