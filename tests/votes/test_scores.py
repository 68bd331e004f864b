"""Scores to votes: thresholds and bins, and errors that name and locate every bad value."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, VotesError
from tests.support.errors import mentions

numbers = st.floats(-50, 50) | st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 3.0])
score_matrices = st.integers(1, 20).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers))
edge_lists = st.lists(st.floats(-50, 50) | st.just(3.0), min_size=1, max_size=6, unique=True).map(sorted)


# ---------------------------------------------------------------------- meaning


def test_a_number_is_class_1_from_it_on():
    votes = fs.Votes.from_scores([[0.5, 0.49], [0.51, None], [np.inf, -np.inf]], 0.5)
    assert votes.codes.tolist() == [[1, 0], [1, -1], [1, 0]]
    assert votes.classes == (0, 1)
    assert votes.codes.dtype == np.int8


def test_between_the_numbers_of_a_pair_nobody_votes():
    votes = fs.Votes.from_scores([[0.3, 0.31, 0.5, 0.69, 0.7, np.nan]], (0.3, 0.7))
    assert votes.codes.tolist() == [[0, -1, -1, -1, 1, -1]]


def test_a_judge_that_can_only_say_yes():
    assert fs.Votes.from_scores([[0.1], [0.9]], (-np.inf, 0.8)).codes.tolist() == [[-1], [1]]


@pytest.mark.parametrize(
    "thresholds", [[0.5, (2, 4)], {"b": (2, 4), "a": 0.5}, [0.5, [2, 4]], [np.float32(0.5), np.array([2, 4])]]
)
def test_judges_on_different_scales(thresholds):
    votes = fs.Votes.from_scores([[0.9, 5], [0.1, 3], [0.5, 1]], thresholds, names=["a", "b"])
    assert votes.codes.tolist() == [[1, 1], [0, -1], [1, 0]]
    assert votes.names == ("a", "b")


def test_a_list_of_two_numbers_is_one_for_each_of_two_sources():
    assert fs.Votes.from_scores([[0.4, 0.4]], [0.3, 0.7]).codes.tolist() == [[1, 0]]
    assert fs.Votes.from_scores([[0.4, 0.4]], (0.3, 0.7)).codes.tolist() == [[-1, -1]]
    assert fs.Votes.from_scores([[0.4, 0.4]], np.array([0.3, 0.7])).codes.tolist() == [[1, 0]]


def test_bins_are_classes_and_an_edge_belongs_to_the_class_above():
    votes = fs.Votes.from_scores([[1, 2, 3, 4, 5]], bins=[2, 4], classes=["bad", "ok", "good"])
    assert votes.codes.tolist() == [[0, 1, 1, 2, 2]]
    assert votes.classes == ("bad", "ok", "good")


@pytest.mark.parametrize(
    "bins", [[[2, 4], [0.2, 0.4]], {"b": (0.2, 0.4), "a": [2, 4]}, np.array([[2, 4], [0.2, 0.4]])]
)
def test_bins_for_each_source(bins):
    votes = fs.Votes.from_scores([[1, 0.2], [4, None]], bins=bins, names=["a", "b"])
    assert votes.codes.tolist() == [[0, 1], [2, -1]]


def test_one_edge_is_a_threshold():
    scores = np.random.default_rng(0).normal(size=(50, 3))
    one, other = fs.Votes.from_scores(scores, bins=[0.1]), fs.Votes.from_scores(scores, 0.1)
    np.testing.assert_array_equal(one.codes, other.codes)


def test_many_bins_use_the_smallest_type():
    for n_classes, dtype in ((2, "int8"), (128, "int8"), (129, "int16")):
        votes = fs.Votes.from_scores([[0.0, 1e3]], bins=np.arange(1, n_classes))
        assert votes.codes.dtype == dtype
        assert votes.codes.tolist() == [[0, n_classes - 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_scores_meet_thresholds_in_their_own_type(dtype):
    """0.7 of float32 lies below 0.7 of float64, and is still 0.7 to whoever wrote it."""
    scores = np.array([[0.7, 0.3, 0.1]], dtype)
    if dtype is np.longdouble:
        scores = np.array([[0.7, 0.3, 0.1]]).astype(dtype)
    assert fs.Votes.from_scores(scores, 0.7).codes.tolist() == [[1, 0, 0]]
    assert fs.Votes.from_scores(scores, (0.1, 0.7)).codes.tolist() == [[1, -1, 0]]
    assert fs.Votes.from_scores(scores, bins=[0.3, 0.7]).codes.tolist() == [[2, 1, 0]]
    assert fs.Votes.from_scores(scores, (-1e300, 1e300)).codes.tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32])
def test_numbers_of_any_type(dtype):
    assert fs.Votes.from_scores(np.array([[1, 5], [3, 2]], dtype), 3).codes.tolist() == [[0, 1], [1, 0]]


def test_objects_masks_and_exact_numbers():
    cells = np.array([[Decimal("0.5"), Fraction(1, 3), None, np.float32(1), 10**400, -(10**400)]], object)
    assert fs.Votes.from_scores(cells, 0.5).codes.tolist() == [[1, 0, -1, 1, 1, 0]]
    for masked in (np.ma.masked_array([[1.0, 2.0]], [[1, 0]]), np.ma.masked_array([[1, 2]], [[1, 0]])):
        assert fs.Votes.from_scores(masked, 2).codes.tolist() == [[-1, 1]]


def test_silent_sources_are_silent():
    assert fs.Votes.from_scores([[None, 1.0], [None, 0.0]], 0.5).codes.tolist() == [[-1, 1], [-1, 0]]


def test_a_label_model_takes_scores_as_votes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    scores = y[:, None] + rng.normal(size=(3_000, 4)) * [0.4, 0.5, 0.6, 0.7]
    votes = fs.Votes.from_scores(scores, 0.5, names=list("abcd"), classes=["bad", "good"])
    model = fs.LabelModel().fit(votes)
    assert model.score(votes, np.array(["bad", "good"])[y]) > 0.92
    later = fs.Votes.from_scores(scores[:, ::-1], 0.5, names=list("dcba"), classes=["bad", "good"])
    np.testing.assert_array_equal(model.predict_proba(later), model.predict_proba(votes))


# ---------------------------------------------------------------------- laws


@given(score_matrices, edge_lists)
def test_bins_equal_numpys(scores, edges):
    votes = fs.Votes.from_scores(scores, bins=edges)
    known = ~np.isnan(scores)
    np.testing.assert_array_equal(votes.codes >= 0, known)
    np.testing.assert_array_equal(votes.codes[known], np.digitize(scores[known], edges))
    assert votes.n_classes == len(edges) + 1


@given(score_matrices, st.floats(-50, 50), st.floats(-50, 50))
def test_no_vote_exactly_without_a_score_or_in_the_gap(scores, one, other):
    low, high = sorted([one, other])
    if low == high:
        return
    codes = fs.Votes.from_scores(scores, (low, high)).codes
    np.testing.assert_array_equal(codes == -1, np.isnan(scores) | ((scores > low) & (scores < high)))
    np.testing.assert_array_equal(codes == 1, scores >= high)
    np.testing.assert_array_equal(codes == 0, scores <= low)


@given(
    arrays(np.int64, (12, 3), elements=st.integers(-9, 9)),
    arrays(np.bool_, (12, 3)),
    st.lists(st.integers(-9, 9), min_size=2, max_size=5, unique=True).map(sorted),
    st.sampled_from([np.exp, np.arctan, lambda x: x**3, lambda x: 2 * x - 7]),
)
def test_votes_do_not_depend_on_the_scale(whole, missing, edges, increasing):
    """Integers, so that no two scores meet in rounding."""
    scores = np.where(missing, np.nan, whole)
    moved, at = increasing(scores), increasing(np.array(edges, np.float64))
    for ours, theirs in (
        ({"bins": edges}, {"bins": at}),
        ({"thresholds": edges[0]}, {"thresholds": at[0]}),
        ({"thresholds": (edges[0], edges[1])}, {"thresholds": (at[0], at[1])}),
    ):
        np.testing.assert_array_equal(
            fs.Votes.from_scores(scores, **ours).codes, fs.Votes.from_scores(moved, **theirs).codes
        )


@given(score_matrices, edge_lists, st.permutations([0, 1, 2]))
def test_names_say_which_edges_are_whose(scores, edges, order):
    by_name = {"a": edges, "b": [2 * e for e in edges], "c": [-e for e in edges[::-1]]}
    votes = fs.Votes.from_scores(scores, bins=by_name, names="abc")
    names = ["abc"[j] for j in order]
    moved = fs.Votes.from_scores(scores[:, order], bins=by_name, names=names)
    np.testing.assert_array_equal(moved.codes, votes.codes[:, order])


# ---------------------------------------------------------------------- errors

BAD_SCORES = [
    ([[0.1, "0.5"]], "row 0, source 1: .*got '0.5' of type str"),
    (np.array([["a", "b"]]), "row 0, source 0: .*got 'a' of type str"),
    (np.array([[1 + 2j]]), "row 0, source 0: .* of type complex"),
    (np.array([[0.5, 2j]], object), "row 0, source 1: .* of type complex"),
    (np.array([[3]], "m8[s]"), "row 0, source 0: .* of type timedelta"),
    (np.array([[True]]), "row 0, source 0: .*got True of type bool"),
    ([[0.5, 1.0], [0.5, True]], "row 1, source 1: .*got True of type bool"),
    ([[0.5, None], [True, 1]], "row 1, source 0: .*got True of type bool"),
    (np.array([[{}]], object), "type dict"),
    ([[1, 2], [3]], "`scores` must be a rectangular matrix"),
    ([0.5, 0.6], "`scores` must have one row per item"),
    (np.empty((0, 2)), r"`scores`.* 0 items x 2 sources"),
    (np.empty((2, 0)), "`scores` must have at least one column"),
    (csr_array([[0.5]]), r"pass scores\.toarray\(\)"),
]


@pytest.mark.parametrize(("scores", "message"), BAD_SCORES, ids=[m for _, m in BAD_SCORES])
def test_bad_scores_are_refused_with_what_and_where(scores, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_scores(scores, 0.5)


BAD_OPTIONS = [
    ({}, "either `thresholds` or `bins`"),
    ({"thresholds": 0.5, "bins": [1]}, "either `thresholds` or `bins`"),
    ({"thresholds": (0.7, 0.3)}, r"thresholds must increase strictly; got 0.7, 0.3"),
    ({"thresholds": (0.5, 0.5)}, "must increase strictly"),
    ({"thresholds": (0.1, 0.2, 0.3)}, "Pass a list for one entry per source"),
    ({"thresholds": [0.3, 0.7]}, r"got 2 for 3 sources. Pass a tuple"),
    ({"thresholds": [0.5] * 4}, r"got 4 for 3 sources\.$"),
    ({"thresholds": [0.5, (3, 2), 1]}, "thresholds of source 'b' must increase strictly; got 3, 2"),
    ({"thresholds": [0.5, None, 1]}, "thresholds of source 'b' must be a number or a pair"),
    ({"thresholds": [0.5, (1, 2, 3), 1]}, "thresholds of source 'b'"),
    ({"thresholds": np.nan}, "must be numbers; got nan"),
    ({"thresholds": (None, 1)}, "must be numbers; got None"),
    ({"thresholds": (0, "1")}, "must be numbers; got '1'"),
    ({"thresholds": True}, r"`thresholds` must be .*got True"),
    ({"thresholds": "0.5"}, r"`thresholds` must be .*got '0.5'"),
    ({"thresholds": np.array(0.5 + 0j)}, "`thresholds` must be"),
    (
        {"thresholds": {"a": 1, "b": 1, "c": 1, "d": 1}},
        "`thresholds` must name sources among 'a', 'b', 'c'; got 'd'",
    ),
    ({"thresholds": {"a": 1, "c": 1}}, "must name every source; 'b' is missing"),
    ({"bins": 4}, r"fs\.score_bins\(scores, 4\)"),
    ({"bins": []}, "at least one edge"),
    ({"bins": [1, 1]}, "must increase strictly; got 1, 1"),
    ({"bins": [1, np.nan]}, "must be numbers; got nan"),
    ({"bins": [1, None]}, r"for 3 sources|sequence of edges"),
    ({"bins": [[1], [1, 2], [1]]}, "2 for source 'b' and 1 for source 'a'"),
    ({"bins": [[1], [1]]}, r"`bins` must have one entry per source; got 2 for 3 sources\.$"),
    ({"bins": [[1], [], [1]]}, "bins of source 'b' must have at least one edge"),
    ({"bins": {"a": [1], "b": [2], "c": 3}}, "bins of source 'c' must be a sequence"),
    ({"bins": {"a": [1]}}, "must name every source; 'b' is missing"),
    ({"bins": "123"}, r"`bins` must be .*got '123'"),
    ({"thresholds": 1, "classes": ["a", "b", "c"]}, "`classes` must be 2 labels, lowest first"),
    ({"bins": [1, 2], "classes": ["a", "a", "b"]}, "`classes` must be unique"),
    ({"bins": [1, 2], "classes": "abc"}, "list of labels"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=[str(o) for o, _ in BAD_OPTIONS])
def test_bad_options_say_what_to_pass(options, message):
    with pytest.raises(OptionError, match=message):
        fs.Votes.from_scores([[0.1, 0.2, 0.3]], names=["a", "b", "c"], **options)


def test_names_are_checked_and_needed_by_mappings():
    with pytest.raises(VotesError, match="1 name for 2 sources"):
        fs.Votes.from_scores([[1, 2]], 1, names=["a"])
    with pytest.raises(OptionError, match="the sources have no names"):
        fs.Votes.from_scores([[1, 2]], {"a": 1, "b": 2})


# ---------------------------------------------------------------------- edges that fill bins evenly


def test_even_edges_are_reusable():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1_000, 2)) * [1, 100]
    scores[:100, 1] = np.nan
    edges = fs.score_bins(scores, 4)
    for j, n in enumerate((1_000, 900)):
        codes = fs.Votes.from_scores(scores, bins=edges).codes[:, j]
        assert np.bincount(codes[codes >= 0]).tolist() == [n // 4] * 4
    later = fs.Votes.from_scores(scores[:1], bins=json.loads(json.dumps(edges)))
    np.testing.assert_array_equal(later.codes, fs.Votes.from_scores(scores, bins=edges).codes[:1])


@given(st.integers(2, 7), st.lists(st.floats(-50, 50), min_size=7, max_size=40, unique=True))
def test_even_edges_are_as_even_as_can_be(n_bins, scores):
    column = np.array(scores)[:, None]
    edges = fs.score_bins(column, n_bins)
    filled = np.bincount(fs.Votes.from_scores(column, bins=edges).codes[:, 0], minlength=n_bins)
    assert set(filled) <= {len(scores) // n_bins, -(-len(scores) // n_bins)}
    assert {e for (one,) in [edges] for e in one} <= set(scores)


def test_even_edges_of_float32_scores_meet_their_own_scores():
    scores = np.linspace(0, 1, 11, dtype=np.float32)[:, None]
    codes = fs.Votes.from_scores(scores, bins=fs.score_bins(scores, 2)).codes
    assert np.bincount(codes[:, 0]).tolist() == [5, 6]


def test_scores_that_do_not_divide_evenly_are_refused():
    with pytest.raises(VotesError, match=mentions("source 'b'", "3 bins", "1, 5")):
        fs.score_bins([[1, 1], [2, 1], [3, 1], [4, 5], [5, 5], [6, 5]], 3, names=["a", "b"])
    with pytest.raises(VotesError, match="2 bins, and source 0 has 1 scores"):
        fs.score_bins([[1], [None]], 2)
    for wrong in (1, 2.0, True, "4"):
        with pytest.raises(OptionError, match="`n_bins` must be an integer >= 2"):
            fs.score_bins([[1], [2]], wrong)


# ---------------------------------------------------------------------- tables


@pytest.mark.extra
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_keep_their_names(library):
    module = pytest.importorskip(library)
    frame = module.table if library == "pyarrow" else module.DataFrame
    table = frame({"gpt": [0.9, None, 0.2], "stars": [5, 1, None]})
    votes = fs.Votes.from_scores(table, {"stars": 4, "gpt": (0.3, 0.7)})
    assert votes.names == ("gpt", "stars")
    assert votes.codes.tolist() == [[1, 1], [-1, 0], [0, -1]]
    assert fs.score_bins(frame({"a": [1, 2], "b": [2.5, 1.5]}), 2) == {"a": [2.0], "b": [2.5]}
    with pytest.raises(VotesError, match="got 'x' of type str"):
        fs.Votes.from_scores(frame({"a": [None, "x"]}), 1)
    with pytest.raises(VotesError, match="got True of type bool"):
        fs.Votes.from_scores(frame({"a": [True, False]}), 1)
    with pytest.raises(OptionError, match="`names` must be None"):
        fs.Votes.from_scores(table, 1, names=["a", "b"])
    with pytest.raises(VotesError, match="at least one item"):
        fs.Votes.from_scores(frame({"a": []}), 1)


@pytest.mark.extra
def test_columns_of_pandas_and_polars():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(
        {
            "nullable": pd.array([0.5, None], "Float64"),
            "single": np.array([0.7, 0.6], np.float32),
            "category": pd.Categorical([3, 1]),
            "whole": pd.array([1, None], "Int64"),
        }
    )
    at = {"nullable": 0.5, "single": 0.7, "category": 2, "whole": 1}
    expected = [[1, 1, 1, 1], [-1, 0, 0, -1]]
    assert fs.Votes.from_scores(frame, at).codes.tolist() == expected
    assert fs.Votes.from_scores(frame, pd.Series(at)[::-1]).codes.tolist() == expected
    assert fs.Votes.from_scores(frame, list(at.values())).codes.tolist() == expected
    decimals = pl.DataFrame({"a": [Decimal("1.5"), None], "b": [None, None]})
    assert fs.Votes.from_scores(decimals, 1).codes.tolist() == [[1, -1], [-1, -1]]
    with pytest.raises(VotesError, match=r"collect\(\)"):
        fs.Votes.from_scores(decimals.lazy(), 1)


def test_masked_scores_of_any_type_are_missing():
    scores = np.array([[Decimal("0.2"), Decimal("0.7")], [Decimal("0.9"), None]], object)
    masked = np.ma.array(scores, mask=[[True, False], [False, False]])
    assert fs.Votes.from_scores(masked, thresholds=0.5).codes.tolist() == [[-1, 1], [1, -1]]


def test_a_table_keeps_its_identifiers():
    frame = pd.DataFrame({"a": [0.9, 0.1, 0.8], "b": [0.8, 0.2, 0.4]}, index=["x", "y", "z"])
    by_index = fs.Votes.from_scores(frame, 0.5)
    assert list(by_index.items) == ["x", "y", "z"]
    big = 10**17 + 1  # not a float64
    by_column = fs.Votes.from_scores(frame.assign(id=[big, big + 1, big + 2]), 0.5)
    assert by_column.names == ("a", "b")
    assert list(by_column.items) == [big, big + 1, big + 2]
    first = fs.Votes.from_scores(frame.reset_index(names="document"), 0.5)
    assert list(first.items) == ["x", "y", "z"]
    np.testing.assert_array_equal(first.codes, by_index.codes)


def test_gold_labels_join_votes_from_scores_by_identifier():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    index = [f"item {i}" for i in range(300)]
    frame = pd.DataFrame(y[:, None] + 0.5 * rng.normal(size=(300, 4)), index=index, columns=list("abcd"))
    votes = fs.Votes.from_scores(frame, 0.5)
    model = fs.LabelModel().fit(votes)
    gold = pd.Series(y, index)
    assert model.score(votes, gold.iloc[::-1]) == model.score(votes, y) > 0.9


def test_a_column_of_gold_labels_is_not_a_source():
    frame = pd.DataFrame({"a": [0.9, 0.1], "label": [1.0, 0.0]})
    with pytest.raises(VotesError, match="'label' looks like gold labels"):
        fs.Votes.from_scores(frame, 0.5)
    with pytest.raises(VotesError, match="'label' looks like gold labels"):
        fs.score_bins(frame, 2)
    named = fs.Votes.from_scores(frame, {"a": 0.5, "label": 0.5})
    assert named.names == ("a", "label")
