"""Scores from arrays, wide tables and long tables."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.votes.scores import read_score_table

pd = pytest.importorskip("pandas")
WIDE = {"a": [1.0, 2.0, None], "b": [3, 4, 5]}


@pytest.mark.parametrize(
    "scores",
    [
        [[1, 3], [2, 4], [None, 5]],
        np.array([[1, 3], [2, 4], [np.nan, 5]], np.float16),
        np.ma.masked_equal([[1, 3], [2, 4], [-1, 5]], -1),
        [[Decimal(1), 3], [2, 4], [None, 5]],
        pd.DataFrame(WIDE),
        pd.DataFrame({"id": list("xyz"), **WIDE}),
        WIDE,
        {"a": ["1", "2.0", ""], "b": ["3", "4", "5"]},
        pd.DataFrame({"item": list("xxyyz"), "judge": list("ababb"), "score": [1, 3, 2, 4, 5]}),
    ],
    ids=["list", "half", "masked", "decimal", "frame", "ids", "mapping", "strings", "long"],
)
def test_every_form_gives_the_same_values(scores):
    found = read_score_table(scores)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.values[:, :, 0], [[1, 3], [2, 4], [np.nan, 5]])


def test_polars_tables_are_read():
    pl = pytest.importorskip("polars")
    found = read_score_table(pl.DataFrame({"id": [7, 8, 9], **WIDE}))
    assert found.names == ("a", "b")
    assert found.items.tolist() == [7, 8, 9]


def test_identifiers_come_from_a_column_or_an_index():
    assert read_score_table(pd.DataFrame(WIDE, index=list("xyz"))).items.tolist() == ["x", "y", "z"]
    assert read_score_table(pd.DataFrame({"item_id": [5, 6, 7], **WIDE})).items.tolist() == [5, 6, 7]
    assert read_score_table(pd.DataFrame(WIDE)).items is None
    assert read_score_table({"comment_id": [5, 6, 7], **WIDE}).item_name == "comment_id"
    assert read_score_table({"question": ["x", "y", "z"], **WIDE}).names == ("a", "b")


def test_rows_of_one_item_and_judge_are_repeats():
    table = {"item": list("xxxy"), "judge": list("aaba"), "score": [1, 2, 3, 4]}
    found = read_score_table(table)
    np.testing.assert_array_equal(found.values[0], [[1, 2], [3, np.nan]])
    numbered = read_score_table(table | {"repeat": [2, 1, 1, 1]})
    np.testing.assert_array_equal(numbered.values, found.values)


def test_a_repeat_that_occurs_twice_is_refused():
    table = {"item": ["x", "x"], "judge": ["a", "a"], "score": [1, 2], "repeat": [1, 1]}
    with pytest.raises(VotesError, match="repeat"):
        read_score_table(table)


def test_named_sources_are_matched_by_name():
    found = read_score_table(pd.DataFrame(WIDE)[["b"]]).matched_to(("a", "b"), 2)
    np.testing.assert_array_equal(found.values[:, :, 0], [[np.nan, 3], [np.nan, 4], [np.nan, 5]])


def test_other_columns_are_left_out_after_a_fit():
    frame = pd.DataFrame({**WIDE, "gold": [1, 2, 3], "text": list("xyz")})
    assert read_score_table(frame, fitted=("a", "b")).names == ("a", "b")


def test_sources_may_be_called_judge_and_score():
    frame = pd.DataFrame({"judge": [1, 2], "score": [3, 4]})
    assert read_score_table(frame, fitted=("judge", "score")).names == ("judge", "score")


def test_unknown_and_missing_sources_are_refused():
    with pytest.raises(IncompatibleError, match="'z'"):
        read_score_table(pd.DataFrame({"z": [1]})).matched_to(("a", "b"), 2)
    with pytest.raises(IncompatibleError):
        read_score_table([[1, 2, 3]]).matched_to(("a", "b"), 2)


@pytest.mark.parametrize(
    ("scores", "match"),
    [
        ([[1, np.inf]], "finite"),
        ([[1, -1e200]], "finite"),
        ([["good", "bad"]], "numbers"),
        ([[True, False]], "numbers"),
        ([[1, 2], [3]], "rectangular"),
        ([1, 2, 3], "shape"),
        (np.zeros((0, 2)), "shape"),
        (np.zeros((2, 2, 2, 2)), "shape"),
        (3, "shape"),
        ({"a": [1, 2], "b": [1]}, "lengths"),
        ({"a": []}, "at least one"),
        ({"id": [1, 2]}, "at least one"),
        ({"a": [1, 2], "gold": [1, 2]}, "gold"),
        ({"a": ["good", "1"]}, "row 0, column 'a'"),
        ({"question": ["x", "x"], "a": [1, 2]}, "row 0, column 'question'"),
        ({"id": ["x", "x"], "a": [1, 2]}, "repeat"),
        ({"item": ["x", None], "judge": ["a", "a"], "score": [1, 2]}, "row 1"),
        ({"item": [["x"]], "judge": ["a"], "score": [1]}, "strings or numbers"),
        ({"answer": ["x", "x"], "judge": ["a", "b"], "score": [1, 2]}, "'item'.*'judge' and 'score'"),
        ({"answer": [1, 1], "judge": [1, 2], "score": [3, 4]}, "'item'.*'judge' and 'score'"),  # all numbers
        ({"answer": ["x", "x"], "who": ["a", "b"], "points": [1, 2]}, "item, judge and score"),
    ],
)
def test_bad_scores_are_refused(scores, match):
    with pytest.raises(VotesError, match=match):
        read_score_table(scores)


def test_names_are_for_arrays():
    assert read_score_table([[1, 2]], ["a", "b"]).names == ("a", "b")
    with pytest.raises(VotesError, match="names"):
        read_score_table(WIDE, ["a", "b"])
    with pytest.raises(VotesError, match="names"):
        read_score_table([[1, 2]], ["a", "a"])


def test_sparse_matrices_are_refused():
    from scipy.sparse import csr_array

    with pytest.raises(VotesError, match="dense"):
        read_score_table(csr_array(np.eye(2)))
