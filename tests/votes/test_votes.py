"""Votes: every convention is read correctly, and errors name and locate every bad value."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import coo_array, csr_array, vstack

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.votes import as_votes
from flyingsquid.votes.codes import OneHot
from tests.support.errors import mentions
from tests.support.strategies import vote_matrices

# ---------------------------------------------------------------------- from_classes


def test_integer_votes_are_not_copied():
    labels = np.array([[0, 1], [-1, 1]], np.int8)
    assert fs.Votes.from_classes(labels).codes is labels


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint8, np.float32, np.float64])
def test_numbers_of_any_type_give_int8_codes(dtype):
    votes = fs.Votes.from_classes(np.array([[0, 1], [1, 1]], dtype))
    assert votes.codes.dtype == np.int8
    assert votes.codes.tolist() == [[0, 1], [1, 1]]
    assert votes.classes == (0, 1)


def test_nan_none_and_masked_cells_are_missing_votes():
    expected = [[1, -1], [0, 0]]
    masked = np.ma.masked_array([[1, 5], [0, 0]], mask=[[False, True], [False, False]])
    for labels in ([[1.0, np.nan], [0.0, 0.0]], [[1, None], [0, 0]], masked):
        assert fs.Votes.from_classes(labels).codes.tolist() == expected


def test_texts_are_classes_in_sorted_order():
    votes = fs.Votes.from_classes([["spam", None], ["ham", "spam"]])
    assert votes.classes == ("ham", "spam")
    assert votes.codes.tolist() == [[1, -1], [0, 1]]
    fixed = fs.Votes.from_classes(np.array([["spam", "?"], ["ham", "spam"]]), abstain="?")
    assert fixed.codes.tolist() == votes.codes.tolist()


def test_booleans_are_two_classes():
    votes = fs.Votes.from_classes(np.array([[True, False]]))
    assert votes.classes == (False, True)
    assert votes.codes.tolist() == [[1, 0]]


def test_a_constant_boolean_column_still_has_two_classes():
    assert fs.Votes.from_classes(np.array([[True], [True]])).codes.tolist() == [[1], [1]]


def test_declared_classes_give_the_order_and_may_be_anything():
    assert fs.Votes.from_classes([[5, 3, -1]], classes=[5, 3]).codes.tolist() == [[0, 1, -1]]
    assert fs.Votes.from_classes([[0.5, 1.5]], classes=[1.5, 0.5]).codes.tolist() == [[1, 0]]
    mixed = fs.Votes.from_classes(np.array([["a", 1, None]], object), classes=[1, "a"])
    assert mixed.codes.tolist() == [[1, 0, -1]]


def test_numpy_scalars_in_object_arrays_are_values():
    labels = np.array([[np.int64(1), np.float64("nan")], [0, np.bool_(True)]], object)
    assert fs.Votes.from_classes(labels, classes=[0, 1]).codes.tolist() == [[1, -1], [0, 1]]


@pytest.mark.parametrize(
    ("n_classes", "dtype"), [(2, "int8"), (128, "int8"), (129, "int16"), (1461, "int16")]
)
def test_codes_use_the_smallest_type(n_classes, dtype):
    votes = fs.Votes.from_classes([[0, n_classes - 1]], classes=range(n_classes))
    assert votes.n_classes == n_classes
    assert votes.codes.dtype == dtype
    assert votes.codes.max() == n_classes - 1


def test_reasons_are_kept_and_counted():
    labels = [["yes", "declined"], ["no", "??"], [None, "yes"], ["yes", "timeout"], ["skip", "no"]]
    reasons = {"declined": "refused", "??": "unparseable", "timeout": "failed", "skip": "not_asked"}
    votes = fs.Votes.from_classes(labels, reasons=reasons)
    assert votes.codes.tolist() == [[1, -2], [0, -3], [-1, 1], [1, -4], [-5, 0]]
    counted = {reason: counts.tolist() for reason, counts in votes.missing_counts().items()}
    stated = {"refused": [0, 1], "unparseable": [0, 1], "failed": [0, 1], "not_asked": [1, 0]}
    assert counted == {"abstained": [1, 0], **stated}
    sparse = fs.Votes.from_long([0, 0, 1], [0, 1, 1], ["yes", "??", "no"], reasons=reasons)
    assert sparse.missing_counts()["unparseable"].tolist() == [0, 1]
    assert sparse.missing_counts()["abstained"].tolist() == [1, 0]
    assert sparse.to_dense().codes.tolist() == [[1, -3], [-1, 0]]


BAD_MATRICES = [
    (np.empty((0, 3)), "0 items x 3 sources"),
    (np.empty((3, 0)), "at least one column"),
    (np.array([0, 1]), r"got shape \(\d,\)"),
    (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
    ([[0, 1], [1]], "rectangular matrix"),
    ([[0, 1], [1, -2]], "row 1, source 1: .*got -2"),
    ([[0.0, 0.5]], "row 0, source 1: .*0.5.* fractional"),
    ([[0.0, np.inf]], "row 0, source 1: .*inf.* infinite"),
    ([[0, 10**9]], "got 1000000000"),
    ([["a", 1]], r"row 0, source 1: .*1 of type int next to str"),
    ([["a", ""], ["b", "a"]], "looks like a missing vote"),
    ([["a", None]], "at least two classes"),
    (np.array([[{}, 1]], object), r"row 0, source 0: .*type dict"),
    (np.array([[1 + 2j]]), "type complex128"),
    (csr_array([[1, 2]]), "from_sparse"),
    (np.array([[0.5, None], [1, 0]], object), "row 0, source 0: .*0.5.*fractional"),
    (np.array([[b"a", b"b"]], object), "of type bytes"),
]


@pytest.mark.parametrize(("labels", "message"), BAD_MATRICES, ids=[m for _, m in BAD_MATRICES])
def test_a_bad_matrix_is_refused_with_what_where_and_what_to_do(labels, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_classes(labels)


@pytest.mark.parametrize("labels", [[["a", ""], ["b", "a"]], [["a", "a"], ["a", None]], [[0, -2], [1, 0]]])
def test_advice_names_options_of_the_function_that_was_called(labels):
    for read in (fs.Votes.from_classes, fs.LabelModel().fit, fs.summarize, fs.Moments.of):
        takes_abstain = read == fs.Votes.from_classes
        with pytest.raises(VotesError) as caught:
            read(labels)
        assert ("`abstain`" in str(caught.value)) == takes_abstain
        assert ("Votes.from_classes" in str(caught.value)) != takes_abstain


def test_a_vote_outside_declared_classes_names_row_source_and_classes():
    with pytest.raises(VotesError, match=mentions("row 1, source 'links'", "got 2", "0, 1")):
        fs.Votes.from_classes([[0, 1], [2, 0]], classes=[0, 1], names=["links", "short"])
    with pytest.raises(VotesError, match=mentions("'egg'", "1 other cell")):
        fs.Votes.from_classes([["ham", "egg"], ["egg", "spam"]], classes=["ham", "spam"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": [0]}, "at least two labels"),
        ({"classes": 5}, "sequence of class labels"),
        ({"classes": [[0], [1]]}, "sequence of class labels"),
        ({"classes": "ab"}, "list of labels"),
        ({"reasons": ["x"]}, "`reasons` must be a mapping"),
        ({"classes": [0, 0]}, "`classes` must be unique"),
        ({"classes": [-1, 1]}, "from_signed"),
        ({"reasons": {"x": "bored"}}, "got 'bored'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fs.Votes.from_classes([[0, 1]], **options)


def test_declared_values_for_no_vote_are_no_classes():
    assert fs.Votes.from_classes([[0, 1, 9]], abstain=9).classes == (0, 1)
    assert fs.Votes.from_classes([[0, 1, -99]], abstain=-99).codes.tolist() == [[0, 1, -1]]
    assert fs.Votes.from_classes([[1, 2, 0]], abstain=0).classes == (1, 2)
    refused = fs.Votes.from_classes([[0, 1, -9, 99]], reasons={-9: "refused", 99: "failed"})
    assert (refused.classes, refused.codes.tolist()) == ((0, 1), [[0, 1, -2, -4]])
    default = fs.Votes.from_classes([[0, 1, -1, None]], reasons={-1: "refused", None: "failed"})
    assert default.codes.tolist() == [[0, 1, -2, -4]]


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this NumPy has no such type")
def test_missing_texts_of_numpys_own_type_are_missing():
    labels = np.array([["a", np.nan], ["b", "a"]], np.dtypes.StringDType(na_object=np.nan))
    assert fs.Votes.from_classes(labels).codes.tolist() == [[0, -1], [1, 0]]


def test_masked_labels_are_missing():
    masked = np.ma.masked_array([1, 0, 1], [False, False, True])
    votes = fs.Votes.from_long([1, 2, 3], ["a", "a", "a"], masked)
    assert votes.to_dense().codes.tolist() == [[1], [0], [-1]]


@pytest.mark.parametrize("n_classes", [126, 127, 128, 129, 200])
def test_many_classes_survive_every_representation(n_classes):
    labels = np.column_stack([np.arange(n_classes), np.arange(n_classes)[::-1]]).repeat(9, axis=0)
    dense = fs.Votes.from_classes(labels)
    sparse = fs.Votes.from_sparse(csr_array(labels + 1))
    np.testing.assert_array_equal(sparse.to_dense().codes, labels)
    rows = dense.distinct()
    np.testing.assert_array_equal(rows.votes.codes[rows.inverse], labels)
    assert fs.Moments.of(dense) == fs.Moments.of(sparse)
    assert fs.Moments.of(dense[:, ...]).vote_counts.sum() == 2 * 9 * n_classes
    backwards = tuple(range(n_classes))[::-1]
    for votes in (dense, sparse):
        turned = votes.matched_to(backwards, None).to_dense().codes
        np.testing.assert_array_equal(turned, n_classes - 1 - labels)


def test_large_integers_stay_apart():
    huge = np.array([[2**64 - 1, 2**64 - 2]], np.uint64)
    assert fs.Votes.from_classes(huge, classes=[2**64 - 1, 2**64 - 2]).codes.tolist() == [[0, 1]]


def test_votes_with_reasons_can_be_matched():
    votes = fs.Votes.from_classes([["x", "y", "??"]], reasons={"??": "unparseable"})
    assert votes.matched_to(("y", "x"), None).codes.tolist() == [[1, 0, -3]]


def test_sources_that_did_not_vote_here_can_be_declared():
    votes = fs.Votes.from_long([1, 1], ["bob", "dan"], [1, 0], names=["ann", "bob", "dan"])
    assert (votes.names, votes.to_dense().codes.tolist()) == (("ann", "bob", "dan"), [[-1, 1, 0]])
    with pytest.raises(VotesError, match=r"`names` must contain.*'dan'"):
        fs.Votes.from_long([1, 1], ["bob", "dan"], [1, 0], names=["ann", "bob"])


def test_minus_one_may_be_a_declared_class_where_nothing_else_means_no_vote():
    assert fs.Votes.from_sparse(csr_array([[1, 2, 0]]), classes=(-1, 1)).classes == (-1, 1)
    votes = fs.Votes.from_long([1, 1], ["a", "b"], [-1, 1], classes=[-1, 1])
    assert votes.to_dense().codes.tolist() == [[0, 1]]


def test_codes_out_of_range_are_refused():
    with pytest.raises(VotesError, match="`codes` must be between -5 and 1"):
        fs.Votes(np.array([[0, 5]], np.int8), (0, 1))
    with pytest.raises(VotesError, match="float64"):
        fs.Votes(np.zeros((1, 1)), (0, 1))


def test_votes_are_indexed_by_items():
    votes = fs.Votes.from_classes([[0, 1], [1, 1]])
    assert len(votes[[]]) == 0
    assert len(votes[[]].distinct().votes) == 0
    for bad in ((slice(None), 0, 1), [[0]], ["a"]):
        with pytest.raises(VotesError, match="indexed"):
            votes[bad]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (5, "must be a sequence"),
        (["a"], "1 name for 2"),
        (["a", "a"], "got a more than once"),
        ([1, 2], "must be strings"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_classes([[0, 1]], names=names)


# ---------------------------------------------------------------------- other constructors


def test_signed_votes_keep_the_papers_classes():
    votes = fs.Votes.from_signed([[-1, 0, 1]])
    assert votes.classes == (-1, 1)
    assert votes.codes.tolist() == [[0, -1, 1]]
    with pytest.raises(VotesError, match="got 2"):
        fs.Votes.from_signed([[-1, 0, 2]])


def test_long_form_is_sparse_and_keeps_identifiers():
    votes = fs.Votes.from_long(["q2", "q1", "q2"], ["bob", "ann", "ann"], ["x", "y", "x"])
    assert votes.is_sparse
    assert votes.items.tolist() == ["q1", "q2"]
    assert votes.names == ("ann", "bob")
    assert votes.to_dense().codes.tolist() == [[1, -1], [0, 0]]


@pytest.mark.parametrize(("policy", "code"), [("first", 1), ("last", 0), ("majority", 1)])
def test_duplicates_follow_the_stated_policy(policy, code):
    votes = fs.Votes.from_long([7, 7, 7, 7], [0, 0, 0, 1], [1, 1, 0, 0], duplicates=policy)
    assert votes.to_dense().codes.tolist() == [[code, 0]]


def test_majority_of_duplicates_takes_the_earliest_on_a_tie_and_ignores_abstains():
    votes = fs.Votes.from_long([1, 1, 1], [0, 0, 0], [-1, 1, 0], duplicates="majority")
    assert votes.to_dense().codes.tolist() == [[1]]


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        (([1, 1], [0, 0], [1, 0]), "'0' votes more than once on item 1 .1 repeated vote in"),
        (([1, 2], [0], [1, 0]), "2, 1 and 2 entries"),
        (([], [], []), "at least one entry"),
        (([1, None], [0, 1], [1, 0]), "`items`.*entry 1"),
        ((np.ma.masked_array([1, 2], [True, False]), [0, 1], [1, 0]), "entry 0 is"),
        ((np.array(["2020", "NaT"], "M8[D]"), [0, 1], [1, 0]), "entry 1 is"),
        (([1, 2], ["a", "b"], [0, -7]), "entry 1, item 2, source 'b': .*got -7"),
        (([1, [2]], [0, 1], [1, 0]), "one-dimensional"),
        (([1.0, np.nan], [0, 1], [1, 0]), "missing values"),
        (([[1, 2]], [0, 1], [1, 0]), "one-dimensional"),
        ((np.array([1, "a"], object), [0, 1], [1, 0]), "can be sorted"),
    ],
)
def test_bad_triples_are_refused(triples, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_long(*triples)


def test_an_unknown_duplicates_policy_is_refused():
    with pytest.raises(OptionError, match="`duplicates` must be one of"):
        fs.Votes.from_long([1], [1], [1], duplicates="best")


def test_sparse_entries_are_class_plus_one():
    votes = fs.Votes.from_sparse(csr_array(np.array([[2, 0], [0, 1]])), names=["a", "b"])
    assert votes.to_dense().codes.tolist() == [[1, -1], [-1, 0]]
    assert votes.n_votes == 2


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(2), "`matrix` must be a scipy sparse matrix"),
        (csr_array((0, 3)), "at least one row"),
        (csr_array(np.array([[-1, 0]])), r"row 0, source 0: .*got -1"),
        (csr_array(np.array([[1.5, 0]])), r"got 1.5"),
        (csr_array(np.array([[1, 0], [0, 9_999_999]])), r"row 1, source 1: .*got 9999999"),
        (coo_array(([1, 1], ([0, 0], [0, 0])), shape=(1, 2)), "more than once"),
    ],
)
def test_bad_sparse_votes_are_refused(matrix, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_sparse(matrix)


def test_a_sparse_matrix_of_nothing_is_votes_of_nothing():
    assert fs.Votes.from_sparse(csr_array((3, 2), dtype=np.int8)).n_votes == 0


# ---------------------------------------------------------------------- views


@given(vote_matrices(n_sources=3, n_classes=3, least=-1))
def test_distinct_rows_rebuild_the_matrix(labels):
    votes = fs.Votes.from_classes(labels, classes=range(3))
    rows = votes.distinct()
    np.testing.assert_array_equal(rows.votes.codes[rows.inverse], votes.codes)
    np.testing.assert_array_equal(np.bincount(rows.inverse), rows.counts)
    assert len(np.unique(rows.votes.codes, axis=0)) == len(rows.votes)


def test_distinct_rows_of_many_sources_rebuild_the_matrix():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 2, (30, 90), dtype=np.int8)[rng.integers(0, 30, 500)]
    dense, sparse = fs.Votes.from_classes(labels), fs.Votes.from_sparse(csr_array(labels + 1))
    for votes in (dense, sparse):
        rows = votes.distinct()
        assert len(rows.votes) <= 30
        np.testing.assert_array_equal(rows.votes.codes[rows.inverse], labels)


def test_sparse_and_dense_describe_the_same_votes():
    labels = np.random.default_rng(0).integers(-1, 2, (20, 4), dtype=np.int8)
    dense, sparse = fs.Votes.from_classes(labels), fs.Votes.from_sparse(csr_array(labels + 1))
    np.testing.assert_array_equal(sparse.to_dense().codes, dense.codes)
    np.testing.assert_array_equal(sparse[5:9].to_dense().codes, dense[5:9].codes)
    np.testing.assert_array_equal(sparse[[3, 1]].to_dense().codes, dense[[3, 1]].codes)
    assert len(dense[labels[:, 0] == 1]) == (labels[:, 0] == 1).sum()


def test_sources_are_matched_by_name_and_classes_by_label():
    votes = fs.Votes.from_classes([["a", "b", None]], names=["x", "y", "z"])
    matched = votes.matched_to(("b", "a"), ("z", "x", "y"))
    assert matched.codes.tolist() == [[-1, 1, 0]]
    sparse = fs.Votes.from_long([1, 1], ["x", "y"], ["a", "b"]).matched_to(("b", "a"), ("y", "x"))
    assert sparse.to_dense().codes.tolist() == [[0, 1]]
    with pytest.raises(IncompatibleError, match="classes differ: unexpected 'a'"):
        votes.matched_to(("b", "c"), None)
    with pytest.raises(IncompatibleError, match=mentions("sources", "'z'", "'w'")):
        votes.matched_to(("a", "b"), ("x", "y", "w"))


def test_votes_describe_themselves():
    assert repr(fs.Votes.from_classes([[0, 1], [-1, 1]])) == (
        "Votes(2 items x 2 sources, classes 0, 1, 75% voted, dense int8)"
    )


def test_a_plain_array_cannot_say_that_it_is_signed():
    with pytest.raises(VotesError, match="from_signed"):
        as_votes([[1, 0]], (-1, 1))


@pytest.mark.parametrize("sparse", [False, True])
def test_one_item_is_votes_on_one_item(sparse):
    votes = fs.Votes.from_long(["a", "b", "b"], ["x", "x", "y"], [0, 1, 0])
    votes = votes if sparse else votes.to_dense()
    assert [row.to_dense().codes.tolist() for row in votes] == [[[0, -1]], [[1, 0]]]
    assert list(votes[-1].items) == ["b"]
    assert votes[np.int64(0)].shape == (1, 2)
    for outside in (2, -3):
        with pytest.raises(IndexError, match=f"Item {outside} is out of range"):
            votes[outside]


def test_decimals_are_numbers_and_other_types_are_named():
    decimals = np.array([[Decimal(0), Decimal("1.00")], [Decimal(-1), Decimal("NaN")]], object)
    assert fs.Votes.from_classes(decimals).codes.tolist() == [[0, 1], [-1, -1]]
    with pytest.raises(VotesError, match=mentions("row 0, source 1", 0.5)):
        fs.Votes.from_classes(np.array([[Decimal(0), Decimal("0.5")]], object))
    days = np.full((2, 2), datetime.date(2020, 1, 1), object)
    with pytest.raises(VotesError, match=r"row 0, source 0: .* of type date"):
        fs.Votes.from_classes(days)


def spans() -> fs.Votes:
    words = np.array([["drug", None, "N/A"], [None] * 3, [None, "drug", "outside"]], object)
    return fs.Votes.from_classes(
        words, classes=["outside", "drug"], names=list("abc"), reasons={"N/A": "refused"}
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[1, -1, -2], [0, 0, 0], [-1, 1, 0]]),
        ({"where": "everywhere"}, [[1, 0, -2], [0, 0, 0], [0, 1, 0]]),
        ({"sources": [1]}, [[1, -1, -2], [-1, 0, -1], [-1, 1, 0]]),
        ({"where": "everywhere", "sources": [0, 2]}, [[1, -1, -2], [0, -1, 0], [0, 1, 0]]),
    ],
)
def test_abstentions_may_mean_a_class(options, expected):
    filled = spans().fill_abstains("outside", **options)
    assert filled.codes.tolist() == expected
    assert filled.names == ("a", "b", "c")
    assert filled.codes.dtype == spans().codes.dtype
    assert spans().codes.tolist() == [[1, -1, -2], [-1, -1, -1], [-1, 1, 0]]  # not in place


def test_sparse_abstentions_are_filled_too():
    votes = fs.Votes.from_long([0, 2], ["a", "b"], [1, 0], classes=[0, 1])
    assert votes.fill_abstains(0, where="everywhere").codes.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("person", {}, "`label` must be one of 'outside', 'drug'; got 'person'"),
        ([0], {}, "`label`"),
        ("outside", {"where": "here"}, "`where`.*got 'here'"),
        ("outside", {"sources": [3]}, "`sources`"),
        ("outside", {"sources": []}, "`sources`"),
    ],
)
def test_a_class_that_abstentions_cannot_mean(label, options, message):
    with pytest.raises(VotesError, match=message):
        spans().fill_abstains(label, **options)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.float64, object])
@pytest.mark.parametrize("classes", [None, (0, 1), (0, 1, 2), (1, 0), (False, True)])
def test_arrays_of_codes_are_read_like_labels(dtype, classes):
    labels = np.array([[0, 1], [1, 1], [0, 0]]).astype(dtype)
    read, expected = as_votes(labels, classes), fs.Votes.from_classes(labels, classes=classes)
    assert read.classes == expected.classes
    assert [type(label) for label in read.classes] == [type(label) for label in expected.classes]
    assert read.codes.dtype == expected.codes.dtype
    np.testing.assert_array_equal(read.codes, expected.codes)


def test_an_error_about_other_sources_lists_few_of_them():
    crowd = fs.Votes.from_long([0] * 40 + [1] * 40, [f"w{j:02}" for j in range(40)] * 2, [0] * 40 + [1] * 40)
    model = fs.MajorityVote().fit(crowd)
    later = fs.Votes.from_long([7, 7], ["w01", "new"], [0, 1])
    with pytest.raises(fs.exceptions.IncompatibleError, match="unexpected 'new'") as error:
        model.predict(later)
    assert len(str(error.value)) < 250


def test_a_crowd_is_divided_by_its_votes_and_not_by_its_sources():
    rng = np.random.default_rng(0)
    n, m = 20_000, 2_000
    cells = (np.repeat(np.arange(n), 3), rng.integers(0, m, 3 * n))
    crowd = csr_array((np.ones(3 * n, np.int8), cells), shape=(n, m))
    crowd.data = rng.integers(1, 3, crowd.nnz).astype(np.int8)
    parts = list(OneHot.chunks(crowd, 2))
    assert len(parts) == 1  # and not 20, as by the number of cells
    more = csr_array(vstack([crowd] * 5))
    assert 2 < len(list(OneHot.chunks(more, 2))) < 6  # memory is limited
    weights = rng.random(2 * m)
    sums = np.concatenate([part @ weights for _, part in OneHot.chunks(more, 2)])
    assert np.array_equal(sums, OneHot.of(more, 2) @ weights)


def test_distinct_rows_of_a_crowd_have_the_same_sums_as_all_rows():
    rng = np.random.default_rng(0)
    some = csr_array(np.where(rng.random((400, 300)) < 0.02, rng.integers(1, 4, (400, 300)), 0))
    every = OneHot.of(some[rng.integers(0, 400, 3_000)], 3)
    counts, weights = rng.random(3_000), rng.random((900, 3))
    few, summed = every.distinct(counts)
    assert few.n_items < 500
    np.testing.assert_allclose(few.vote_sums(summed), every.vote_sums(counts))
    np.testing.assert_allclose(summed @ (few @ weights) ** 2, counts @ (every @ weights) ** 2)
    # Rows that are mostly distinct stay as they are.
    unchanged, same = few.distinct(summed)
    assert unchanged is few
    assert same is summed


@pytest.mark.parametrize("repeated", [True, False])
def test_sums_over_common_items_of_two_sources_are_those_of_a_loop(repeated):
    rng = np.random.default_rng(1)
    some = csr_array(np.where(rng.random((300, 90)) < 0.04, rng.integers(1, 3, (300, 90)), 0))
    at = rng.integers(0, 100, 600) if repeated else np.arange(300)
    one_hot, weights = OneHot.of(some[at], 2), rng.random((len(at), 2))
    voted = some[at].toarray() > 0
    first, second = np.triu_indices(90, 1)
    found = np.array(list(one_hot.co_votes(weights, first, second)))
    expected = [(voted * each[:, None]).T @ voted for each in weights.T]
    np.testing.assert_allclose(found, [each[first, second] for each in expected])
