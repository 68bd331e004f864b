"""Summaries: numbers, notes, and the printed table."""

from __future__ import annotations

import json
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid._table import Table
from flyingsquid.exceptions import NotFittedError, SourceWarning
from flyingsquid.fits.summary import accuracy_columns, summarize_sources
from flyingsquid.votes.tallies import SourceTally
from tests.support.strategies import fittable_votes, vote_matrices

NAMES = ["links", "short", "caps", "money", "long"]


def fit(votes, **options) -> fs.LabelModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        return fs.LabelModel(**{"method": "triplet", **options}).fit(votes)


def flagged() -> fs.Votes:
    """Five good sources, then one that is silent, one-sided, a copy and an opposite."""
    good = fittable_votes(0, n_items=800)
    one_sided = np.where(good[:, 0] == 1, 1, -1)
    opposite = np.where(good[:, 1] >= 0, 1 - good[:, 1], -1)
    votes = np.column_stack([good, np.full(800, -1), one_sided, good[:, 2], opposite])
    return fs.Votes.from_classes(votes, names=[*NAMES, "asleep", "yes", "echo", "contrary"])


# ---------------------------------------------------------------------- label model


def test_one_row_a_source_with_the_numbers_of_the_fit():
    votes = fs.Votes.from_classes(fittable_votes(1), names=NAMES)
    model = fit(votes)
    columns = model.summary().to_dict()
    assert columns["source"] == NAMES
    assert columns["accuracy"] == model.accuracies_.tolist()
    assert columns["coverage"] == model.coverage_.tolist()
    assert columns["votes"] == (votes.codes >= 0).sum(axis=0).tolist()
    assert columns["polarity"] == ["0, 1"] * 5
    np.testing.assert_array_equal(
        np.column_stack([columns["accuracy_low"], columns["accuracy_high"]]), model.accuracies_interval_
    )
    assert columns["note"] == [""] * 5
    assert "refused" not in columns
    assert "note" not in str(model.summary())  # blank throughout


def test_notes_say_what_is_odd_about_a_source():
    table = fit(flagged()).summary()
    notes = dict(zip(table.to_dict()["source"], table.to_dict()["note"], strict=True))
    assert notes["asleep"] == "silent"
    assert "one-sided" in notes["yes"]
    assert notes["echo"] == "copy of caps"
    assert notes["contrary"] == "worse than chance; opposite of short"
    assert notes["caps"] == notes["short"] == ""  # the first of a group is the one to keep


def test_a_source_that_could_not_be_judged_is_marked():
    alone = np.full((50, 6), -1)
    alone[:, 5] = np.arange(50) % 2
    votes = np.vstack([np.column_stack([fittable_votes(0), np.full(400, -1)]), alone])
    model = fit(votes)
    assert model.diagnostics_.unidentified == ("source 5",)
    columns = model.summary().to_dict()
    assert "not identified" in columns["note"][5]
    assert columns["accuracy"][5] is None


def test_a_source_that_never_votes_has_no_accuracy():
    columns = fit(flagged()).summary().to_dict()
    assert columns["accuracy"][5] is None
    assert (columns["coverage"][5], columns["votes"][5], columns["polarity"][5]) == (0.0, 0, "")


def test_votes_missing_for_a_reason_are_counted_apart():
    raw = np.array(["no", "yes", ""])[fittable_votes(2)].astype(object)
    raw[raw == ""] = None
    raw[:3, 0], raw[:2, 4] = "declined", "gibberish"
    reasons = {"declined": "refused", "gibberish": "unparseable"}
    columns = fit(fs.Votes.from_classes(raw, names=NAMES, reasons=reasons)).summary().to_dict()
    assert columns["refused"] == [3, 0, 0, 0, 0]
    assert columns["unparseable"] == [0, 0, 0, 0, 2]
    assert "failed" not in columns


def test_intervals_are_shown_where_they_are_known():
    model = fit(fittable_votes(3))
    interval = np.column_stack([model.accuracies_ - 0.05, model.accuracies_ + 0.05])
    interval[2] = np.nan
    table = summarize_sources(model.moments_, model.accuracies_, interval, model.diagnostics_)
    columns = table.to_dict()
    assert columns["accuracy_low"][0] == interval[0, 0]
    assert columns["accuracy_low"][2] is columns["accuracy_high"][2] is None
    assert "95% interval" in str(table)
    assert "nan" not in str(table)


def test_weighted_items_count_as_often_as_their_weight():
    votes = fittable_votes(0)
    weights = np.random.default_rng(0).integers(1, 4, len(votes))
    for estimator in (partial(fs.LabelModel, method="triplet"), fs.MajorityVote):
        weighted = estimator().fit(votes, sample_weight=weights).summary()
        repeated = estimator().fit(np.repeat(votes, weights, axis=0)).summary()
        assert weighted == repeated
        halves = estimator().fit(votes, sample_weight=weights * 0.5).summary()
        assert f"{weights.sum() / 2:g} items" in str(halves)


def test_a_summary_needs_a_fit():
    for model in (fs.LabelModel(method="triplet"), fs.MajorityVote()):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            model.summary()


# ---------------------------------------------------------------------- majority vote


def test_majority_vote_counts_and_judges_nobody():
    votes = fs.Votes.from_classes(
        [["a", "c", "b"], ["a", None, None], ["a", "b", "?"]],
        classes=["a", "b", "c", "d"],
        names=["x", "y", "z"],
        reasons={"?": "failed"},
    )
    expected = {
        "source": ["x", "y", "z"],
        "polarity": ["a", "b, c", "b"],
        "coverage": [1.0, 2 / 3, 1 / 3],
        "votes": [3, 2, 1],
        "failed": [0, 0, 1],
        "note": ["one-sided", "", "one-sided"],
    }
    assert fs.MajorityVote().fit(votes).summary().to_dict() == expected
    assert fs.MajorityVote().fit_moments(fs.Moments.of(votes)).summary().to_dict() == expected
    parts = fs.MajorityVote().partial_fit(votes[:1]).partial_fit(votes[1:])
    assert parts.summary().to_dict() == expected


def test_partial_fit_of_a_majority_vote_matches_names_and_classes():
    model = fs.MajorityVote().fit(fs.Votes.from_classes([["a", "b"]], names=["x", "y"]))
    model.partial_fit(fs.Votes.from_classes([["b", "a"]], names=["y", "x"]))
    assert model.summary().to_dict()["polarity"] == ["a", "b"]
    assert model.summary().to_dict()["votes"] == [2, 2]


@given(vote_matrices(n_sources=3, n_classes=3, least=-4), st.data())
def test_a_tally_is_what_the_counts_of_pairs_have_on_their_diagonal(codes, data):
    n = len(codes)
    weights = data.draw(st.none() | arrays(np.int64, n, elements=st.integers(1, 5)))
    votes = fs.Votes(codes, (0, 1, 2))
    sparse = csr_array(np.where(codes >= 0, codes + 1, np.where(codes < -1, codes, 0)))
    pairs = fs.Moments.of(votes, sample_weight=weights).source_tally()
    for same in (votes, fs.Votes(sparse, (0, 1, 2))):
        ours = SourceTally.of_votes(same, weights)
        assert ours.n_items == pairs.n_items
        assert ours.votes.dtype == ours.missing.dtype == np.int64
        np.testing.assert_array_equal(ours.votes, pairs.votes)
        np.testing.assert_array_equal(ours.missing, pairs.missing)


def test_chunks_add_up():
    codes = np.random.default_rng(0).integers(-4, 2, (200_000, 3), dtype=np.int8)  # several chunks
    weights = np.random.default_rng(1).random(len(codes))
    expected = np.stack([weights @ (codes == k) for k in (0, 1)], axis=1)
    tally = SourceTally.of_votes(fs.Votes(codes, (0, 1)), weights)
    np.testing.assert_allclose(tally.votes, expected, rtol=1e-12)


def test_many_classes_are_cut_short():
    summary = fs.MajorityVote().fit(np.arange(20)[:, None]).summary()
    assert summary.to_dict()["polarity"] == ["0, 1, 2, 3, 4, 5 and 14 more"]


# ---------------------------------------------------------------------- table


def test_a_table_prints_aligned_and_keeps_its_numbers():
    table = Table(
        ("name", "share", "count", "empty"),
        (("a", 0.123456, 12345, None), ("long name", float("nan"), 7, None)),
        title="Things",
        footnotes=("that is all",),
        formats=("", ".1%", "", ""),
    )
    assert str(table) == (
        "Things\n"
        "name       share      count\n"
        "a          12.3%  1.234e+04\n"
        "long name                 7\n"
        "that is all"
    )
    assert table.to_dict() == {
        "name": ["a", "long name"],
        "share": [0.123456, None],
        "count": [12345, 7],
        "empty": [None, None],
    }
    json.dumps(table.to_dict(), allow_nan=False)


def test_a_long_table_is_cut_at_the_prompt_but_not_in_print():
    table = Table(("i",), tuple((i,) for i in range(100)))
    assert len(str(table).splitlines()) == 101
    assert len(repr(table).splitlines()) == 62
    assert "40 more rows" in repr(table)
    assert "40 more rows" in table._repr_html_()


def test_hostile_names_neither_break_lines_nor_pages():
    name = "<script>alert(1)</script>\n\x1b[31m&"
    table = Table((name, "n"), ((name, 1), ("x" * 500, 2)), title=name, footnotes=(name,))
    assert len(str(table).splitlines()) == 5
    assert "\x1b" not in str(table)
    page = table._repr_html_()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 4
    assert "x" * 500 not in str(table)
    assert table.to_dict()[name][1] == "x" * 500


def test_wide_characters_keep_columns_aligned():
    table = Table(("源", "n"), (("垃圾", 1), ("e\u0301", 2), ("abcd", 3)))
    assert str(table).splitlines() == ["源    n", "垃圾  1", "e\u0301     2", "abcd  3"]


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        Table(("a",), ((1,),)).to_pandas()


@pytest.mark.extra
def test_a_summary_as_a_frame():
    pd = pytest.importorskip("pandas")
    model = fit(flagged())
    frame = model.summary().to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["source"]) == list(model.source_names_)
    np.testing.assert_array_equal(frame["coverage"], model.coverage_)
    assert np.isnan(frame["accuracy"][5])


@pytest.mark.parametrize(("end", "promised"), [(0.8, True), (np.nan, False)])
def test_an_interval_is_promised_only_if_it_is_shown(end, promised):
    tally = SourceTally.of_votes(fs.Votes.from_classes([[0, 1], [1, 1]]))
    _, (note,) = accuracy_columns(tally, np.array([0.7, 0.7]), np.full((2, 2), end))
    assert ("interval" in note) == promised


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_chance_is_the_accuracy_of_random_votes():
    """With nine items of ten in one class, random votes for it are often correct."""
    n_useless = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = (rng.random(100) < 0.9).astype(int)
        right = rng.random((100, 5)) < [0.8, 0.7, 0.6, 0.5, 0.3]
        codes = np.where(right, y[:, None], (rng.random((100, 5)) < 0.8).astype(int))
        model = fs.LabelModel().fit(fs.Votes.from_classes(codes, classes=(0, 1)))
        table = model.summary().to_dict()
        for name in model.diagnostics_.useless:
            j = table["source"].index(name)
            share = codes[:, j].mean()
            by_chance = np.array([1 - share, share]) @ model.class_balance_
            assert table["accuracy_low"][j] <= by_chance <= table["accuracy_high"][j]
            assert f"not different from chance ({by_chance:.0%})" in table["note"][j]
            n_useless += by_chance > 0.55
    assert n_useless
