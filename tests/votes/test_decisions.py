"""Labels from scores of classes, and votes as arrays, tables and HTML."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flyingsquid as fs
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.decisions import decide, expected_credit, is_tied, label_shares

TIE = 1e-9


@given(
    st.integers(2, 4).flatmap(
        lambda k: arrays(
            np.float64,
            st.tuples(st.integers(0, 6), st.just(k)),
            elements=st.sampled_from([0.0, 0.25, 0.5, 0.5 + TIE / 2, 0.5 + 3 * TIE, 1.0]),
        )
    )
)
def test_the_first_of_the_most_probable_classes(posterior):
    classes = tuple("abcd"[: posterior.shape[1]])
    found = decide(posterior, classes, "first", None)
    for row, label in zip(posterior.tolist(), found.tolist(), strict=True):
        assert label == next(c for c, p in zip(classes, row, strict=True) if p >= max(row) - TIE)
    without = decide(posterior, classes, "abstain", None)
    drawn = decide(posterior, classes, "random", np.random.default_rng(0))
    for row, none, any_ in zip(posterior.tolist(), without.tolist(), drawn.tolist(), strict=True):
        tied = [c for c, p in zip(classes, row, strict=True) if p >= max(row) - TIE]
        assert none == (tied[0] if len(tied) == 1 else None)
        assert any_ in tied


def test_credit_is_the_expected_accuracy_of_ties_broken_at_random():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (300, 3)) / 3
    gold = rng.integers(-1, 3, 300)
    drawn = [decide(scores, (0, 1, 2), "random", rng) == gold for _ in range(4_000)]
    credit = expected_credit(scores, gold)
    assert set(np.unique(credit.round(6))) == {0.0, 0.333333, 0.5, 1.0}
    np.testing.assert_allclose(credit, np.mean(drawn, axis=0), atol=0.05)
    np.testing.assert_array_equal(is_tied(scores), [np.sum(row == row.max()) > 1 for row in scores])
    np.testing.assert_allclose(label_shares(scores).sum(axis=1), 1.0)


def test_ties_of_few_and_of_many_classes():
    rng = np.random.default_rng(0)
    for shape in ((50, 2), (50, 8), (50, 20), (7, 3, 4)):
        scores = rng.integers(0, 4, shape) / 4
        tied = (scores == scores.max(axis=-1, keepdims=True)).sum(axis=-1) > 1
        np.testing.assert_array_equal(is_tied(scores), tied)


pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

CODES = np.array([[0, -1, 1], [1, 1, -1], [-1, 0, 0]], np.int8)
NUMBERS = fs.Votes.from_classes(CODES, names=["a", "b", "c"])
WORDS = fs.Votes.from_classes(
    np.array([["ham", None], ["spam", "ham"], [None, "spam"]], object), names=["a", "b"]
)
LONG = fs.Votes.from_long(["x", "x", "y"], ["ann", "bob", "bob"], ["ham", "spam", "ham"])
SIGNED = fs.Votes.from_signed([[1, 0], [-1, 1]])
BOOLEAN = fs.Votes.from_classes(np.array([[True, None], [False, True]], object))


@pytest.mark.parametrize("votes", [NUMBERS, WORDS, LONG, SIGNED, BOOLEAN])
def test_arrays_and_tables_are_read_back(votes):
    dense = votes.to_dense()
    signed = votes.classes == (-1, 1)
    again = fs.Votes.from_classes(np.asarray(votes), abstain=0 if signed else -1, classes=votes.classes)
    np.testing.assert_array_equal(again.codes, dense.codes)
    for frame in (votes.to_pandas(), votes.to_polars()):
        read = fs.Votes.from_frame(frame, classes=votes.classes)
        np.testing.assert_array_equal(read.codes, dense.codes)
        assert read.names == votes.source_names
        assert votes.items is None or list(read.items) == list(votes.items)


def test_a_missing_vote_has_a_marker():
    np.testing.assert_array_equal(NUMBERS.to_numpy(), CODES)
    np.testing.assert_array_equal(np.asarray(SIGNED), [[1, 0], [-1, 1]])
    assert np.asarray(WORDS)[0].tolist() == ["ham", None]
    assert pd.DataFrame(NUMBERS).shape == (3, 3)
    assert np.asarray(NUMBERS, dtype=float).dtype == np.float64


def test_comparisons_are_elementwise():
    np.testing.assert_array_equal(NUMBERS == 1, CODES == 1)
    np.testing.assert_array_equal(NUMBERS != 1, CODES != 1)
    np.testing.assert_array_equal(WORDS == "spam", np.asarray(WORDS) == "spam")
    assert not (WORDS == "eggs").any()
    np.testing.assert_array_equal(NUMBERS[:] == NUMBERS, CODES >= 0)
    with pytest.raises(VotesError, match="shape"):
        _ = NUMBERS == WORDS


def test_slices_select_items_and_sources():
    assert NUMBERS[:2].shape == (2, 3)
    np.testing.assert_array_equal(NUMBERS[1:, ["c", "a"]].codes, CODES[1:][:, [2, 0]])
    assert NUMBERS[:, "b"].names == ("b",)
    assert NUMBERS[:, 1:].names == ("b", "c")
    assert NUMBERS[[0, 2], ...].shape == (2, 3)
    assert NUMBERS.of_sources(["c"]).names == ("c",)
    with pytest.raises(VotesError, match="`sources`"):
        _ = NUMBERS[:, "d"]
    with pytest.raises(VotesError, match="indices"):
        _ = NUMBERS[0, 1, 2]


def test_notebooks_show_a_table():
    names = fs.Votes.from_classes([["<b>", "ham"]] * 30, names=["a", "<script>"])
    shown = names._repr_html_()
    assert shown.count("<tr>") == 11
    assert "&lt;script&gt;" in shown
    assert "<b>" not in shown


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_labels_have_item_identifiers(output):
    """Votes with identifiers give labels with identifiers."""
    frame = pd.DataFrame({"id": ["p", "q", "r"], "a": [0, 1, 1], "b": [0, 1, 0], "c": [0, 1, 1]})
    model = fs.LabelModel().fit(frame)
    labels, shares = model.predict(frame, output=output), model.predict_proba(frame, output=output)
    if output == "pandas":
        assert labels.to_dict() == {"p": 0, "q": 1, "r": 1}
        assert list(shares.index) == ["p", "q", "r"]
        assert list(shares.columns) == [0, 1]
    else:
        assert labels.to_dict(as_series=False) == {"id": ["p", "q", "r"], "label": [0, 1, 1]}
        assert shares.columns == ["id", "0", "1"]
    np.testing.assert_allclose(shares.to_numpy()[:, -2:].astype(float), model.predict_proba(frame))


def test_a_crowd_in_long_form_gives_a_series_by_task():
    crowd = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("abab"), "label": ["x", "x", "y", "y"]})
    labels = fs.MajorityVote().fit_predict(fs.Votes.from_long(crowd), output="pandas")
    assert labels.to_dict() == {1: "x", 2: "y"}
    assert labels.name == "label"


def test_an_output_that_does_not_apply_is_refused():
    model = fs.MajorityVote().fit(CODES)
    with pytest.raises(fs.exceptions.OptionError, match="`output`"):
        model.predict(CODES, output="frame")
    with pytest.raises(fs.exceptions.OptionError, match="`output`"):
        model.predict(fs.VoteChunks([CODES]), output="pandas")


def test_a_model_is_fitted_on_a_file(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("id,a,b,c\np,0,0,0\nq,1,1,1\nr,1,0,1\n")
    labels = fs.LabelModel().fit(str(path)).predict(path, output="pandas")
    assert labels.to_dict() == {"p": 0, "q": 1, "r": 1}
    pytest.importorskip("pyarrow")
    pl.read_csv(path).write_parquet(tmp_path / "votes.parquet")
    assert fs.MajorityVote().fit(tmp_path / "votes.parquet").source_names_ == ("a", "b", "c")


def test_a_file_of_signed_votes_is_warned_about(tmp_path):
    path = tmp_path / "votes.csv"
    votes = np.random.default_rng(0).choice([-1, 1], (100, 3))
    np.savetxt(path, votes, fmt="%d", delimiter=",", header="a,b,c", comments="")
    with pytest.warns(fs.exceptions.VotesWarning, match="signed"):
        fs.MajorityVote().fit(path)


@pytest.mark.parametrize("classes", [(0, 1), ("ham", "spam"), (False, True)])
@pytest.mark.parametrize("missing", [fs.ABSTAIN, np.int64(-1), None, float("nan")])
def test_missing_votes_are_found_by_comparison(classes, missing):
    votes = fs.Votes(np.array([[0, -1, 1], [-1, -1, 0]], np.int8), classes)
    np.testing.assert_array_equal(votes == missing, votes.codes < 0)
    np.testing.assert_allclose((votes != missing).mean(axis=0), [0.5, 0, 1])


def test_a_class_minus_one_is_not_a_missing_vote():
    signed = fs.Votes.from_signed([[-1, 0], [1, -1]])
    np.testing.assert_array_equal(signed == -1, [[True, False], [False, True]])
    assert not (signed == "ham").any()
